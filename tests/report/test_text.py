"""Rounding, units and the command line's table."""

from __future__ import annotations

import io
from decimal import ROUND_HALF_UP, Decimal

import fake
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from spatialbench.report import MetricRow, terminal_table
from spatialbench.report.text import (
    STATUS_WORDS,
    cause_words,
    component_text,
    degrees,
    file_size,
    flag_words,
    metres,
    number,
    percent,
    reason_words,
    status_counts,
    value,
)
from spatialbench.types import Status


@pytest.mark.parametrize(("x", "digits", "text"), [
    (0.125, 2, "0.13"), (2.675, 2, "2.68"), (-0.125, 2, "-0.13"), (-0.001, 2, "0.00"), (55.295, 2, "55.30"),
    (0.5, 0, "1"), (None, 2, "–"), (float("nan"), 2, "–"), (float("inf"), 2, "–")])
def test_number(x, digits, text):
    assert number(x, digits) == text


@given(st.decimals(-1000, 1000, places=4))
def test_number_rounds_the_decimal_that_is_written(d):
    # Independent: Python's decimal module on the written digits.
    want = d.quantize(Decimal("0.01"), ROUND_HALF_UP)
    assert Decimal(number(float(d), 2)) == want


@given(st.floats(-1e3, 1e3).filter(lambda x: x != 0))
def test_value_never_hides_a_number_behind_zero(x):
    assert value(x).strip("-0.") != ""


@pytest.mark.parametrize(("made", "text"), [
    (value(0.0), "0.00"), (value(0.4391), "0.44"), (value(0.0042), "0.0042"), (value(-1e-9), "> -0.0001"),
    (metres(0.0004), "0.4 mm"), (metres(0.741), "0.74 m"), (metres(None), "–"), (degrees(88.26), "88.3°"),
    (percent(0.31), "31 %"), (percent(0.0042), "0.4 %"), (percent(0.0), "0 %"), (percent(1.0), "100 %"),
    (percent(0.9999), "> 99.9 %"), (percent(1e-5), "< 0.1 %"), (file_size(512), "512 B"),
    (file_size(1_482_337), "1.4 MiB"), (cause_words("not_free"), "too close to a surface"),
    (cause_words("new_cause"), "new cause"), (component_text(True), "yes"), (component_text(None), "–"),
    (component_text([0.05, 0.1]), "0.050, 0.10"), (component_text(list(range(65))), "65 values"),
    (component_text({"agent_radius": 0.1}), "agent radius: 0.10")])
def test_display(made, text):
    assert made == text


def test_every_status_has_words():
    assert list(STATUS_WORDS) == list(Status)
    assert component_text("x" * 1000).endswith("…")


def test_status_counts_add_up():
    assert sum(n for _, n in status_counts(fake.make_metrics())) == 39


def table(terminal: bool, width: int = 80) -> str:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=width, color_system=None)
    data = fake.make_report()
    terminal_table(data.headline, data.metrics, console)
    return out.getvalue()


def test_plain_table_is_lines_of_aligned_text():
    lines = table(terminal=False).splitlines()
    assert lines[0].split() == ["level", "score", "metrics", "missing"]
    w2 = next(line for line in lines if line.startswith("W2"))
    assert w2.split() == ["W2", "Interactive", "Simulation", "55.29", "2", "of", "2"]
    w4 = next(line for line in lines if line.startswith("W4"))
    assert "–" in w4
    assert "0.00" not in w4
    assert w4.index("–") == w2.index("55.29") + 4  # right-aligned scores
    m08 = next(line for line in lines if line.startswith("M08"))
    assert "0.44 (higher is better)" in m08
    assert "facing_disagrees" in m08
    assert "Without a value: 2 inapplicable, 1 invalid, 18 unavailable, 12 untested." in lines
    assert "\x1b" not in "".join(lines)
    assert lines[-1] == "Preview of one case, not a benchmark result."


def test_rich_table_fits_its_terminal():
    text = table(terminal=True, width=100)
    assert all(len(line) <= 100 for line in text.splitlines())
    assert "Navigable ratio" in text


def test_a_hostile_reason_cannot_steer_the_terminal():
    out = io.StringIO()
    row = MetricRow("M01", "a", "[red]b[/red]\x1b[2J", "W1", True, 1.0, "", True, 1.0, Status.MEASURED, "\x07[bold]")
    for terminal in (False, True):
        terminal_table([], [row], Console(file=out, force_terminal=terminal, width=200, color_system=None))
    assert "[red]b[/red]" in out.getvalue()
    assert "[bold]" in out.getvalue()
    assert "\x07" not in out.getvalue()
    assert "\x1b[2J" not in out.getvalue()


@pytest.mark.parametrize(("flag", "words"), [("no_interior", "no interior"), ("scale_overridden", "scale overridden"),
                                             ("substitute:reference_tracks", "stand-in reference_tracks")])
def test_flags(flag: str, words: str) -> None:
    """The id of a stand-in is what a protocol calls it."""
    assert flag_words(flag) == words


@pytest.mark.parametrize(("reason", "words"), [
    ("no_view_satisfies", "no view satisfies"), ("", ""), (" it is too dark ", "it is too dark"),
    ("the case gives no 'image_polygon'", "the case gives no 'image_polygon'")])
def test_reasons(reason: str, words: str) -> None:
    assert reason_words(reason) == words
