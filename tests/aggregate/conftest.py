"""A small field of metrics, levels and records to aggregate; the spatial inventory as the paper has it."""

from __future__ import annotations

import csv
from decimal import Decimal
from pathlib import Path

import pytest

from spatialbench.types import Measurement, MetricSpec, Status

PUBLISHED = Path(__file__).parents[1] / "data" / "published"

# Inventory of the spec, section 1.1: what a level keeps.
RETAINED = {
    "W1": "M01 M02 M03 M04 M05 M06 M07 M09 M10 M11", "W2": "M08 M25", "W3": "M12 M13 M14 M18 M20 M24 M39",
    "W4": "M31 M32 M33 M34 M35 M36 M37", "W5": "M26 M27 M28 M29 M30",
}
OMITTED = {"W3": "M15 M16 M17 M19 M21 M22 M23 M38"}
LOWER = ["M03", "M07", "M12", "M15", "M17", "M33", "M34"]


def make_spec(id: str, level: str = "W1", retained: bool = True, track: str = "happyworld.spatial",
              version: int = 1) -> MetricSpec:
    return MetricSpec(id=id, name=id.lower(), title=id, track=track, level=level, group=level, retained=retained,
                      scored_on="scene", range="[0,1]", higher_is_better=id not in LOWER, version=version)


def make(metric: str, value: float | None, case: str = "c0", system: str = "s", *, status: str = "", reason: str = "",
         object: str | None = None, version: int = 1, flags: tuple[str, ...] = ()) -> Measurement:
    """A record; without a value it is unavailable unless told otherwise."""
    if value is None:
        status, reason = status or "unavailable", reason or "no model"
    return Measurement(metric=metric, version=version, case=case, system=system, object=object, value=value,
                       status=Status(status or "measured"), reason=reason, flags=flags)


def read_table(path: Path) -> dict[str, dict[str, Decimal | None]]:
    """model -> column -> printed number; None for a dash."""
    with path.open(newline="") as fh:
        return {row.pop("model"): {k: Decimal(v) if v else None for k, v in row.items()} for row in csv.DictReader(fh)}


@pytest.fixture
def spatial() -> dict[str, MetricSpec]:
    specs = [make_spec(id, level, kept) for kept, part in ((True, RETAINED), (False, OMITTED))
             for level, ids in part.items() for id in ids.split()]
    return {s.id: s for s in specs}


@pytest.fixture
def record():
    return make


@pytest.fixture
def spec():
    return make_spec


@pytest.fixture
def table():
    return read_table


@pytest.fixture
def published() -> Path:
    return PUBLISHED
