"""The page of the sample room, made by a real run, in a real browser: it must show why each score is low."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from headless import Browser
from PIL import Image

import spatialbench.assets
from spatialbench.report.collect import collect
from spatialbench.report.page import write_page
from spatialbench.runs import RunOptions, run_world

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ROOM = Path(spatialbench.assets.__file__).parent / "sample_room.glb"


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_page(collect(run_world(ROOM, RunOptions(protocol="happyworld-spatial-1-fast"))), path)
    return path


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as b:
        yield b


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_of_a_real_run(browser, page, width, tmp_path) -> None:
    browser.open(page, width, 844)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.complaints() == []
    assert [u for u in browser.requested() if not u.startswith("data:") and u != page.as_uri()] == []
    text = " ".join(browser.evaluate("document.body.innerText").split())
    # The flaws that assets/README.md documents, in words.
    for why in ("not a benchmark result", "5 of 65 steps leave the world", "4 of 6 plates stayed", "2 components",
                "too many holes, outside the footprint", "in the surface at the start", "fast profile"):
        assert why in text, why
    assert all(f"M{i:02d}" in text for i in range(1, 40))
    assert browser.evaluate("document.images.length") >= 12 + 6
    assert browser.until("[...document.images].every(i => i.complete && i.naturalWidth > 0)")
    shot = tmp_path / "page.png"
    browser.screenshot(shot)
    with Image.open(shot) as image:
        assert image.width == width
        levels = np.asarray(image.convert("L"), dtype=float)
    for top in range(0, len(levels) - 844, 844):
        assert levels[top:top + 844].std() > 5, "no screen of it is blank"
