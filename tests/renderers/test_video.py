"""Films: what a decoder gets out of them is what was put in, whoever wrote them."""

from __future__ import annotations

import time

import numpy as np
import pytest
from PIL import Image

from spatialbench.errors import ResultError, UsageError
from spatialbench.renderers.video import FILM_VARIABLE, Film, film_backend, write_film

av = pytest.importorskip("av", reason="films are read back with PyAV")
CODECS = {"pyav": "h264", "opencv": "vp9"}


def frames(n=12, height=101, width=121):
    return [np.full((height, width, 3), (20 * k, 200 - 15 * k, 60), np.uint8) for k in range(n)]


@pytest.fixture(params=["pyav", "opencv"])
def kind(request, monkeypatch):
    monkeypatch.setenv(FILM_VARIABLE, request.param)
    return request.param


def test_frames_come_back(tmp_path, kind):
    """Plain colours: both codecs keep them to a few levels, of 8-bit YUV (1.2 levels a channel and more) and loss."""
    path = tmp_path / "a.mp4"
    assert film_backend()[1] == write_film(path, frames(), 12.5)
    with av.open(str(path)) as c:
        stream = c.streams.video[0]
        assert (stream.codec_context.name, float(stream.average_rate)) == (CODECS[kind], 12.5)
        assert stream.codec_context.pix_fmt == "yuv420p"  # what browsers play
        got = [f.to_ndarray(format="rgb24") for f in c.decode(video=0)]
    assert [g.shape for g in got] == [(102, 122, 3)] * 12  # even sides, the last row and column again
    for g, f in zip(got, frames(), strict=True):
        assert np.abs(g.astype(int) - f[0, 0]).max() <= 8
    assert [p.name for p in tmp_path.iterdir()] == ["a.mp4"]


@pytest.mark.browser
def test_a_browser_plays_them(tmp_path, kind):
    """Loaded, sought to the middle of the seventh frame and painted: its colour, to the codec's few levels.

    A frame may be shown some time after the film says that it has been sought.
    """
    from tests.report.headless import Browser

    write_film(tmp_path / "a.mp4", frames(), 4)
    page = tmp_path / "a.html"
    page.write_text("<video id=v src=a.mp4 muted preload=auto></video><canvas id=c width=122 height=102></canvas>")
    with Browser(tmp_path / "profile") as browser:
        browser.open(page, 400, 300)
        seen = browser.evaluate("""new Promise((done, fail) => {
            v.onerror = () => fail(v.error.message);
            v.onseeked = () => {
                done([v.videoWidth, v.videoHeight, v.duration, v.played.length]); };
            v.ontimeupdate = () => { if (v.currentTime > 0) {
                v.ontimeupdate = null; v.pause(); v.currentTime = 6.5 / 4; } };
            v.play().catch(fail); })""")
        assert seen == [122, 102, 3, 1]
        box = tuple(browser.evaluate("(r => [r.x, r.y, r.width, r.height])(c.getBoundingClientRect())"))
        end, off = time.monotonic() + browser.timeout, 255
        while off > 8:
            browser.evaluate('c.getContext("2d").drawImage(v, 0, 0)')
            browser.screenshot(tmp_path / "c.png", box)
            with Image.open(tmp_path / "c.png") as image:
                off = np.abs(np.asarray(image.convert("RGB"))[50, 60].astype(int) - frames()[6][0, 0]).max()
            assert off <= 8 or time.monotonic() < end


def test_the_index_comes_first(tmp_path, monkeypatch):
    """Browsers begin to play before they have the whole file."""
    monkeypatch.setenv(FILM_VARIABLE, "pyav")
    write_film(tmp_path / "a.mp4", frames(), 24)
    data = (tmp_path / "a.mp4").read_bytes()
    assert 0 < data.index(b"moov") < data.index(b"mdat")


def test_same_frames_same_bytes(tmp_path, kind):
    for name in ("a", "b"):
        write_film(tmp_path / f"{name}.mp4", frames(), 24)
    assert (tmp_path / "a.mp4").read_bytes() == (tmp_path / "b.mp4").read_bytes()


def test_a_film_that_fails_leaves_the_old_one(tmp_path, kind):
    (tmp_path / "a.mp4").write_bytes(b"old")

    def broken():
        yield from frames(3)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_film(tmp_path / "a.mp4", broken(), 24)
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [b"old"]


def test_refusals(tmp_path, kind, monkeypatch):
    with pytest.raises(ValueError, match="uint8"), Film(tmp_path / "a.mp4", 24) as film:
        film.add(np.zeros((4, 4), np.uint8))
    with pytest.raises(ValueError, match="in a film of"):
        write_film(tmp_path / "a.mp4", [np.zeros((32, 32, 3), np.uint8), np.zeros((32, 34, 3), np.uint8)], 24)
    with pytest.raises(UsageError, match="8192"), Film(tmp_path / "a.mp4", 24) as film:
        film.add(np.zeros((2, 8193, 3), np.uint8))
    with pytest.raises(UsageError, match="per second"):
        Film(tmp_path / "a.mp4", 0)
    assert not list(tmp_path.iterdir())
    if kind == "pyav":
        with pytest.raises(ResultError, match="cannot be written"):
            write_film(tmp_path / "none" / "a.mp4", frames(1), 24)
    monkeypatch.setenv(FILM_VARIABLE, "gif")
    with pytest.raises(UsageError, match="no writer of films"):
        film_backend()
