"""The leaderboard's numbers, texts and drawings, against values worked out by hand."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import re
import shutil
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spatialbench.aggregate import IntervalSettings
from spatialbench.errors import ResultError
from spatialbench.report.leaderboard import (
    board_json,
    csv_text,
    latex_text,
    make_board,
    markdown_text,
    render_board,
)
from spatialbench.report.leaderboard.data import plan_of
from spatialbench.report.leaderboard.svg import Axis, Dot, Series, choose, histogram, radar, strip
from spatialbench.runs.gather import Gathered, UnitPlace, gather
from spatialbench.runs.single import prepare
from spatialbench.types import Measurement, Status, load_protocol
from tests.runs.fake_results import field, record, write_batch, write_unit

HOSTILE = ["</script><script>alert(1)</script>", '"><img src=x onerror=alert(2)>', "=cmd|' /C calc'!A0",
           "a & b | c \\\\ $x$ {y}"]
CASES = ("c1", "c2", "c3", "c4")
M07 = {"good": (0.1, 0.2, 0.3, None), "bad": (0.5, 0.6, 0.7, 0.8)}
"""M07 is a hole rate: lower is better, and its score is 1 - x."""


@pytest.fixture(scope="module", autouse=True)
def _registry() -> None:
    prepare()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = write_batch(tmp_path_factory.mktemp("board") / "results", [(s, c) for s in M07 for c in CASES])
    for s, values in M07.items():
        for c, v in zip(CASES, values, strict=True):
            rows = [record("M07", s, c, ("invalid", "no interior") if v is None else v),
                    record("M01", s, c, ("unavailable", "no model"))]
            write_unit(out, s, c, rows, page=True)
    return out


class Links(HTMLParser):
    """Tags and addresses of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.hrefs: list[str] = []
        self.ids: set[str] = set()
        self.handlers: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for key, value in attrs:
            if key == "href":
                self.hrefs.append(value or "")
            if key == "id":
                self.ids.add(value or "")
            if key.startswith("on"):
                self.handlers.append(key)


def test_scores_counts_and_ranks(folder: Path) -> None:
    b = make_board(gather([folder]), IntervalSettings(level=0.5))
    good, bad = b.summary.system("good"), b.summary.system("bad")
    # 1 - mean(0.1, 0.2, 0.3) = 0.8 and 1 - mean(0.5 .. 0.8) = 0.35, of ten metrics one each.
    assert (good.group("W1").shown, bad.group("W1").shown) == ("80.00", "35.00")
    assert (good.group("W1").n_available, good.group("W1").n_retained) == (1, 10)
    assert good.metric("M07").coverage == "3 of 4"
    assert b.statuses("M07")[Status.MEASURED] == 7
    assert b.statuses("M07")[Status.INVALID] == 1
    assert b.statuses("M01")[Status.UNAVAILABLE] == 8
    assert b.reasons("M01") == [(Status.UNAVAILABLE, "no model", 8)]
    # The four common draws cannot turn the order: every value of one is below every value of the other.
    assert [(r.system, r.rank, r.low, r.high) for r in b.metric_ranks["M07"].systems] == [
        ("good", 1, 1, 1), ("bad", 2, 2, 2)]
    # Student's t of 0.1, 0.2, 0.3 at 50 %: 0.2 -/+ t(0.75, 2) s/sqrt(3), t = 1/sqrt(1.5) (closed form for 2 degrees:
    # t = (2p-1) sqrt(2/(4p(1-p)))), s = 0.1.
    t = 0.5 * math.sqrt(2 / (4 * 0.75 * 0.25))
    interval = good.metric("M07").interval
    assert interval.low == pytest.approx(0.2 - t * 0.1 / math.sqrt(3), abs=1e-12)
    assert interval.high == pytest.approx(0.2 + t * 0.1 / math.sqrt(3), abs=1e-12)


def test_missing_cases_count_in_n(folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    (copy / "units" / "bad" / "c4" / "unit.json").unlink()
    m = make_board(gather([copy])).summary.system("bad").metric("M07")
    assert m.coverage == "3 of 4"
    assert m.mean == pytest.approx(0.6)
    assert m.statuses["untested"] == 1


def test_the_summary_is_of_the_results_alone(folder: Path, tmp_path: Path) -> None:
    """Other place, other order of folders, read again: the same bytes, without a path."""
    other = Path(shutil.copytree(folder, tmp_path / "elsewhere"))
    extra = write_batch(tmp_path / "extra", [("third", "c1")])
    write_unit(extra, "third", "c1", [record("M07", "third", "c1", 0.5)])
    settings = IntervalSettings(replicates=200)
    texts = {board_json(make_board(gather(list(paths)), settings)) for paths in
             ((folder, extra), (extra, folder), (other, extra))}
    assert len(texts) == 1
    text = texts.pop()
    assert str(tmp_path) not in text
    data = json.loads(text)
    assert data["protocol"]["hash"] == gather([folder]).protocol_hash
    assert data["units"] == {"planned": 9, "done": 9, "not_done": [], "stale": []}


def test_unavailable_is_a_dash_everywhere(folder: Path) -> None:
    b = make_board(gather([folder]))
    assert "M01 (8 unavailable)" in markdown_text(b)
    lines = csv_text(b).splitlines()
    head, good = (next(r for r in lines if r.startswith(name)).split(",") for name in ("system", "good"))
    cells = dict(zip(head, good, strict=True))
    assert (cells["M07"], cells["M07 n"]) == ("80.00", "3 of 4")
    assert (cells["M01"], cells["M01 n"]) == ("", "0 of 4")
    assert "W4" in head
    assert cells["W4"] == ""
    page = render_board(b, folder)
    assert "No system has a score of" in page
    assert "W4 (0 of 7 metrics)" in page


def test_the_page_has_one_script_of_the_named_hash_and_no_handlers(folder: Path) -> None:
    page = render_board(make_board(gather([folder])), folder)
    found = Links(page)
    assert found.tags.count("script") == 1
    assert not found.handlers
    script = page.split("<script>")[1].split("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1])
    assert policy == (f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
                      "base-uri 'none'; form-action 'none'")
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", page)


def test_links_lead_to_the_worlds_and_anchors_exist(folder: Path) -> None:
    b = make_board(gather([folder]))
    for where in (folder, folder / "tables" / "now", folder.parent):
        found = Links(render_board(b, where))
        pages = [h for h in found.hrefs if not h.startswith("#")]
        # A dot, and a name among worst or best, for each value; once in the list of worlds.
        assert len({h for h in pages}) == 8
        assert all(Path(os.path.normpath(where / h)).is_file() for h in pages)
        assert {h[1:] for h in found.hrefs if h.startswith("#")} <= found.ids


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    place = tmp_path / "a %41 #dir?x"
    field(place, HOSTILE, HOSTILE, page=True)
    b = make_board(gather([place]), IntervalSettings(replicates=100))
    page = render_board(b, tmp_path)
    found = Links(page)
    assert found.tags.count("script") == 1
    assert "img" not in found.tags
    assert not found.handlers
    pages = {h for h in found.hrefs if not h.startswith("#")}
    assert len(pages) == 16
    for h in pages:
        assert (tmp_path / unquote(h)).is_file()
        assert not set(h) & set("?#\"'<> ")
    assert "'=cmd" in csv_text(b)
    text = markdown_text(b)
    assert "<script>" not in text
    assert "<img" not in text
    tex = latex_text(b)
    assert r"a \& b \textbar{} c" in tex
    assert r"\$x\$ \{y\}" in tex


def test_the_page_is_the_same_bytes_again(folder: Path) -> None:
    one, two = (render_board(make_board(gather([folder]), IntervalSettings()), folder) for _ in range(2))
    assert one == two


def many(systems: int, cases: int, metrics: tuple[str, ...]) -> Gathered:
    """A large field without files."""
    made = [Measurement(metric=id, version=1, case=f"case-{c:05d}", system=f"system {s}", status=Status.MEASURED,
                        value=((c * 7919 + s * 104729 + k * 31) % 10007) / 10007)
            for s in range(systems) for c in range(cases) for k, id in enumerate(metrics)]
    units = tuple(UnitPlace(f"system {s}", f"case-{c:05d}", "done", "", Path(f"/nowhere/{s}/{c}"))
                  for s in range(systems) for c in range(cases))
    protocol = load_protocol("happyworld-spatial-1")
    return Gathered(made, units, protocol.model_dump(mode="json"), "0" * 64, (), {}, ())


def test_a_page_of_many_cases_stays_small() -> None:
    page = render_board(make_board(many(10, 500, ("M07", "M08", "M12", "M13", "M14", "M25"))), Path("/nowhere"))
    assert len(page.encode()) < 3_000_000
    # 6 metrics of 10 systems share 6000 dots: 100 of 500 each, with a histogram behind.
    assert 6000 <= page.count("<circle ") < 6100
    assert page.count('class="p-bins"') == 60
    assert "100 drawn" in page


def test_a_page_of_many_systems_stays_small() -> None:
    page = render_board(make_board(many(120, 5, ("M07", "M08", "M12", "M13", "M14", "M25"))), Path("/nowhere"))
    assert len(page.encode()) < 3_000_000
    assert "more are in the tables" in page


@given(st.integers(0, 5000), st.integers(2, 200))
def test_chosen_dots_hold_both_ends(n: int, most: int) -> None:
    found = choose(n, most)
    assert len(found) == len(set(found)) == min(n, most)
    assert found == sorted(found)
    if n:
        assert (found[0], found[-1]) == (0, n - 1)


@given(st.lists(st.floats(0, 1), min_size=1), st.integers(1, 60))
def test_a_histogram_counts_everything_once(values: list[float], bins: int) -> None:
    counts = histogram(values, 0.0, 1.0, bins)
    assert sum(counts) == len(values)
    assert counts[-1] >= sum(v == 1.0 for v in values)


def test_a_strip_puts_values_at_their_places() -> None:
    dots = [Dot(2.0, "two", "a/report.html"), Dot(3.0, "<b>")]
    drawn = str(strip(dots, 1.0, 5.0, mean=2.5, ends=(2.0, 4.0), style=0))
    assert 'cx="25%"' in drawn
    assert 'cx="50%"' in drawn
    assert '<a href="a/report.html" tabindex="-1">' in drawn
    assert "&lt;b&gt;" in drawn
    assert re.search(r'<rect x="25%"[^>]*width="50%"', drawn)
    assert re.search(r'<line x1="37.5%" x2="37.5%"', drawn)


def test_a_radar_has_a_gap_and_a_dash_where_there_is_no_score() -> None:
    axes = [Axis("W1"), Axis("W2"), Axis("W3"), Axis("W4", known=False)]
    drawn = str(radar(axes, [Series("s", 0, [100.0, 50.0, None, None]), Series("t", 1, [10.0, 20.0, 30.0, None])]))
    # s: one line (W1-W2), a dash on W3; t: two lines (W1-W2, W2-W3); W4: one dash for nobody.
    assert drawn.count('class="r-line"') == 3
    assert drawn.count('class="r-dash"') == 1
    assert drawn.count('class="r-nobody"') == 1
    assert drawn.count('class="r-dot"') == 5
    assert 'class="r-area"' not in drawn
    assert str(radar(axes[:3], [Series("s", 0, [1.0, 2.0, 3.0])])).count('class="r-area"') == 1
    with pytest.raises(ValueError, match="three axes"):
        radar(axes[:2], [])


def test_levels_follow_the_track_and_unknown_metrics_are_refused(folder: Path) -> None:
    g = gather([folder])
    assert plan_of(g).aggregation == "happyworld-spatial-1"
    assert [lv.level for lv in plan_of(g).levels] == ["W1", "W2", "W3", "W4", "W5", "W6"]
    g.measurements.append(g.measurements[0].model_copy(update={"metric": "M99"}))
    with pytest.raises(ResultError, match="no metric 'M99'"):
        plan_of(g)


def test_results_of_an_older_metric_are_said(folder: Path) -> None:
    g = gather([folder])
    g.measurements[:] = [m.model_copy(update={"version": 7}) for m in g.measurements]
    assert any(w.startswith("M07: the results are of version 7") for w in make_board(g).warnings)


def test_one_case_is_a_preview(tmp_path: Path) -> None:
    out = write_batch(tmp_path / "one", [("s", "c")])
    write_unit(out, "s", "c", [record("M07", "s", "c", 0.25)])
    b = make_board(gather([out]), IntervalSettings())
    assert "One case only: a preview, not a benchmark result." in b.warnings
    assert "no interval: one case only" in render_board(b, tmp_path)
