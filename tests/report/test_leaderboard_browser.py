"""The leaderboard in headless Chromium: widths, sorting with mouse and keys, links, contrast, hostile names."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import pytest
from headless import Browser
from test_browser import CONTRAST, OVERFLOW

from spatialbench.aggregate import IntervalSettings
from spatialbench.report.leaderboard import make_board, render_board
from spatialbench.runs.gather import gather
from spatialbench.runs.single import prepare
from tests.runs.fake_results import field, record, write_batch, write_unit

pytestmark = pytest.mark.browser

HOSTILE = ["</script><script>document.title='owned'</script>", '"><img src=x onerror="document.title=1">',
           "a-name-without-any-place-to-break-" * 4]
ORDER = "[...document.querySelector('#board table').tBodies[0].rows].map(r => r.cells[0].dataset.v)"
BUTTON = "document.querySelector('#board thead th:nth-child({}) button')"
SORTED = "[...document.querySelectorAll('#board thead th')].map(h => h.getAttribute('aria-sort'))"
SMALL_TEXT = """Math.min(...[...document.querySelectorAll('svg.radar text')]
 .filter(t => t.getBoundingClientRect().width)
 .map(t => parseFloat(getComputedStyle(t).fontSize) * t.ownerSVGElement.getScreenCTM().a))"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as b:
        yield b


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    prepare()
    root = tmp_path_factory.mktemp("boards")
    field(root / "full", ["atlas", "hyper", "marble"], [f"kitchen-{i:02d}" for i in range(12)], page=True)
    field(root / "hostile", HOSTILE, HOSTILE, page=True)
    # In reverse of the alphabet by W2; 'none' has no score at all.
    sorting = write_batch(root / "sorting", [(s, "c") for s in ("a", "b", "c", "none")])
    for s, v in (("a", 0.1), ("b", 0.2), ("c", 0.3), ("none", None)):
        write_unit(sorting, s, "c", [record("M08", s, "c", ("invalid", "x") if v is None else v)])
    for name in ("full", "hostile", "sorting"):
        board = make_board(gather([root / name]), IntervalSettings(replicates=200))
        (root / f"{name}.html").write_text(render_board(board, root), encoding="utf-8")
    return {name: root / f"{name}.html" for name in ("full", "hostile", "sorting")}


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ["full", "hostile", "sorting"])
def test_fits_its_width_and_loads_nothing(browser, pages, name, width):
    browser.open(pages[name], width, 844)
    browser.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate(OVERFLOW) == []
    assert [u for u in browser.requested() if u != pages[name].as_uri()] == []
    assert browser.complaints() == []
    assert browser.evaluate("document.title").startswith("Leaderboard")
    assert browser.evaluate("document.images.length") == 0


def test_a_click_sorts_and_missing_scores_stay_last(browser, pages):
    browser.open(pages["sorting"], 1280, 844)
    assert browser.evaluate(ORDER) == ["a", "b", "c", "none"]
    assert browser.evaluate(SORTED) == [None, None, None]
    for expected, said in ((["c", "b", "a", "none"], "descending"), (["a", "b", "c", "none"], "ascending"),
                           (["c", "b", "a", "none"], "descending")):
        box = browser.evaluate(f"(r => [r.x + r.width / 2, r.y + r.height / 2])({BUTTON.format(3)}"
                               ".getBoundingClientRect())")
        for kind in ("mousePressed", "mouseReleased"):
            browser.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)
        assert browser.until(ORDER, expected) == expected
        assert browser.until(SORTED, [None, None, said]) == [None, None, said]


@pytest.mark.parametrize(("key", "text", "code"), [("Enter", "\r", 13), (" ", " ", 32)])
def test_keys_sort_too(browser, pages, key, text, code):
    browser.open(pages["sorting"], 1280, 844)
    browser.evaluate("document.querySelector('#board .scroll').focus()")
    for _ in range(3):  # system, cases, W2
        for kind in ("keyDown", "keyUp"):
            browser.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
    assert browser.until(f"document.activeElement === {BUTTON.format(3)}")
    browser.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=text, windowsVirtualKeyCode=code)
    browser.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)
    expected = ["c", "b", "a", "none"]
    assert browser.until(ORDER, expected) == expected


def test_names_sort_as_text(browser, pages):
    browser.open(pages["sorting"], 1280, 844)
    for expected in (["a", "b", "c", "none"], ["none", "c", "b", "a"]):
        browser.evaluate(f"{BUTTON.format(1)}.click()")
        assert browser.until(ORDER, expected) == expected


@pytest.mark.parametrize("name", ["full", "hostile"])
def test_a_dot_opens_its_world(browser, pages, name):
    browser.open(pages[name], 1280, 844)
    links = browser.evaluate("[...document.querySelectorAll('.dots a')].map(a => new URL(a.getAttribute('href'), "
                             "document.baseURI).pathname)")
    assert len(links) > 10
    assert all(Path(unquote(p)).is_file() for p in links)
    tip = browser.evaluate("document.querySelector('.dots a title').textContent")
    assert ": " in tip


@pytest.mark.parametrize("dark", [False, True])
def test_contrast(browser, pages, dark):
    browser.open(pages["full"], 1280, 844, dark=dark)
    browser.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    worst, where = browser.evaluate(CONTRAST)
    assert worst >= 4.5, where


@pytest.mark.parametrize("width", [1280, 390])
def test_text_in_radars_is_large_enough(browser, pages, width):
    browser.open(pages["full"], width, 844)
    assert browser.evaluate(SMALL_TEXT) >= 8.0


def test_the_page_can_be_read_without_its_script(browser, pages, tmp_path):
    text = pages["full"].read_text()
    start = text.index("<script>")
    page = tmp_path / "plain.html"
    page.write_text(text[:start] + "<script>document.title = 'changed'</script>" + text[text.index("</script>") + 9:])
    browser.open(page, 1280, 844)
    # Another script does not run: its hash is not the one that the page allows.
    assert browser.evaluate("document.title").startswith("Leaderboard")
    assert browser.evaluate(ORDER) == ["atlas", "hyper", "marble"]
