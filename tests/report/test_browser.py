"""The page in headless Chromium, at the widths of a laptop and of a phone."""

from __future__ import annotations

from pathlib import Path

import fake
import numpy as np
import pytest
from headless import Browser
from PIL import Image

from spatialbench.report import ReportData, write_page

pytestmark = pytest.mark.browser

LONG = "a-name-without-any-place-to-break-" * 12
OVERFLOW = """[...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll, svg, .skip, thead')
 && e.getBoundingClientRect().right > innerWidth + 0.5).map(e => e.tagName + '.' + e.className).slice(0, 5)"""
SMALL_TEXT = """Math.min(...[...document.querySelectorAll('svg.map text, svg.chart text')].map(t =>
 parseFloat(getComputedStyle(t).fontSize) * t.ownerSVGElement.getScreenCTM().a))"""
CONTRAST = """(() => { const lum = c => { const v = c.match(/[\\d.]+/g).slice(0, 3).map(x => x / 255)
 .map(x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4); return 0.2126*v[0] + 0.7152*v[1] + 0.0722*v[2] };
 const ground = e => { for (; e; e = e.parentElement) { const b = getComputedStyle(e).backgroundColor;
 if (!/, 0\\)$/.test(b) && b !== 'transparent') return b; } };
 let worst = 99, where = '';
 for (const e of document.querySelectorAll('p, dt, dd, li, td, th, h1, h2, h3, h4, a, summary, .st, .chip, .ok, .no')) {
 if (e.closest('.cube, svg') || !e.textContent.trim() || !e.getClientRects().length) continue;
 const [a, b] = [lum(getComputedStyle(e).color), lum(ground(e))].sort((x, y) => y - x);
 const k = (a + 0.05) / (b + 0.05); if (k < worst) { worst = k; where = e.tagName + '.' + e.className; } }
 return [worst, where]; })()"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as b:
        yield b


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    long = fake.make_report(world_name=LONG, title=LONG, system=LONG, warnings=[LONG], inputs=[(LONG, 1, "ab" * 32)])
    for m in long.metrics:
        m.reason, m.title, m.flags = LONG, LONG, (LONG,)
    reports = {"full": fake.make_report(), "empty": ReportData("Spatial report", "nothing.glb"), "long": long}
    for name, data in reports.items():
        write_page(data, folder / f"{name}.html")
    return {name: folder / f"{name}.html" for name in reports}


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ["full", "empty", "long"])
def test_fits_its_width_and_loads_nothing(browser, pages, name, width):
    browser.open(pages[name], width, 844)
    assert browser.evaluate("innerWidth") == width
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate(OVERFLOW) == []
    assert browser.evaluate("scrollY") == 0
    outside = [u for u in browser.requested() if not u.startswith("data:") and u != pages[name].as_uri()]
    assert outside == []
    assert browser.complaints() == []


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_screenshot(browser, pages, width, dark, tmp_path):
    browser.open(pages["full"], width, 844, dark=dark)
    shot = tmp_path / "page.png"
    browser.screenshot(shot)
    with Image.open(shot) as image:
        assert image.width == width
        assert image.height > 2000
        pixels = np.asarray(image.convert("RGB"))
    levels = pixels.mean(axis=-1)
    assert (levels.mean() < 110) == dark
    # No stretch as high as a screen is blank: every one has ink on its ground.
    for top in range(0, len(levels) - 844, 844):
        assert levels[top:top + 844].std() > 5
    # Maps and pictures are there: some pixels are strongly coloured.
    assert (pixels.max(axis=-1).astype(int) - pixels.min(axis=-1) > 90).sum() > 5000


@pytest.mark.parametrize("width", [1280, 390])
def test_every_picture_is_decoded(browser, pages, width):
    browser.open(pages["full"], width, 844)
    browser.evaluate("Promise.all([...document.images].map(i => i.decode())).then(() => 1)")
    assert browser.until("[...document.images].every(i => i.complete && i.naturalWidth > 0)")
    assert browser.evaluate("document.images.length") == 61


@pytest.mark.parametrize("width", [1280, 390])
def test_text_in_drawings_is_large_enough_to_read(browser, pages, width):
    browser.open(pages["full"], width, 844)
    assert browser.evaluate(SMALL_TEXT) >= 8.0


@pytest.mark.parametrize("dark", [False, True])
def test_contrast(browser, pages, dark):
    """Every text has at least the 4.5 to 1 of WCAG 2 AA."""
    browser.open(pages["full"], 1280, 844, dark=dark)
    worst, where = browser.evaluate(CONTRAST)
    assert worst >= 4.5, where


def test_first_screen_shows_world_scores_and_reasons(browser, pages):
    browser.open(pages["full"], 1280, 800)
    for selector in ("h1", ".preview", "#h-scores", "#h-why", ".scores li:nth-child(5) .bar", ".whys li:nth-child(4)"):
        assert browser.evaluate(f"document.querySelector('{selector}').getBoundingClientRect().bottom") < 800, selector


def test_wide_parts_scroll_inside_their_own_box(browser, pages):
    browser.open(pages["full"], 390, 844)
    box = browser.evaluate("(e => [e.scrollWidth, e.clientWidth])(document.querySelector('#panorama .scroll'))")
    assert box[0] > box[1]
