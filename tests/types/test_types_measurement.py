"""A value and its status go together, always."""

import math

import pytest
from pydantic import ValidationError

from spatialbench.types import Measurement, Status

BASE = {"metric": "M08", "version": 1, "case": "c", "system": "s"}
OTHERS = [s for s in Status if s is not Status.MEASURED]


def test_the_six_statuses():
    assert [str(s) for s in Status] == ["measured", "inapplicable", "invalid", "unavailable", "unsupported", "untested"]


def test_a_value_with_measured():
    m = Measurement(**BASE, value=0.0, status="measured", reason="no_navigable_component")
    assert (m.value, m.status) == (0.0, Status.MEASURED)


@pytest.mark.parametrize("status", OTHERS)
def test_no_value_with_another_status(status):
    assert Measurement(**BASE, status=status, reason="why").value is None
    with pytest.raises(ValidationError, match="go together"):
        Measurement(**BASE, status=status, reason="why", value=0.0)
    with pytest.raises(ValidationError, match="needs a reason"):
        Measurement(**BASE, status=status)


def test_measured_without_a_value():
    with pytest.raises(ValidationError, match="go together"):
        Measurement(**BASE, status="measured")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_values_are_finite(value):
    with pytest.raises(ValidationError, match="not a finite number"):
        Measurement(**BASE, status="measured", value=value)


@pytest.mark.parametrize("change", [{"status": "ok", "value": 1.0}, {"status": "measured", "value": 1.0, "extra": 1},
                                    {"status": "measured", "value": 1.0, "case": None}])
def test_what_is_not_a_measurement(change):
    with pytest.raises(ValidationError):
        Measurement(**{**BASE, **change})


def test_frozen_and_unchanged_by_json():
    m = Measurement(**BASE, status="measured", value=0.1 + 0.2, object="cup", flags=("a", "b"),
                    components={"areas": [1.5, 2.0]}, counts={"trials": 6}, geometry="mesh")
    again = Measurement.model_validate_json(m.model_dump_json())
    assert again == m
    assert again.value == 0.30000000000000004
    with pytest.raises(ValidationError):
        m.value = 1.0
