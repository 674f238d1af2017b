"""PyBullet's window: the keys, the refusal without a display, and a screenshot under Xvfb."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spatialbench.errors import BackendUnavailableError
from spatialbench.physics.placement import Boundary, Release, plate, run_trials
from spatialbench.physics.placement.window import check_display, show_trials, write_window_job
from spatialbench.physics.placement.window_process import Controls, Window, dotted
from spatialbench.types import PlacementSettings
from tests.physics.placement_scenes import DATA, read_case

S = PlacementSettings(steps=96)
SIZE = (640, 480)
PLAYER = f"""
import json, sys, time
from pathlib import Path
from spatialbench.physics.placement.session import open_session
from spatialbench.physics.placement.window_process import Window
from spatialbench.physics.placement.worker import read_job

v, f, settings, placed, job = read_job(Path(sys.argv[1]))
with open_session(v, f, settings, placed, window="--width={SIZE[0]} --height={SIZE[1]}") as session:
    window = Window(session, job["trials"], job["rings"])
    window.draw_scene(v, f, 0.65)
    window.begin()
    while not window.over:
        window.advance(8)
    for _ in range(4):  # each waits for a frame that shows all of it
        session.p.getKeyboardEvents(physicsClientId=session.client)
        time.sleep(0.1)
    camera = session.p.getDebugVisualizerCamera(physicsClientId=session.client)
    print("READY" + json.dumps({{"view": camera[2], "lens": camera[3], "pose": session.pose(window.body)}}), flush=True)
    sys.stdin.readline()
"""


@given(st.lists(st.sampled_from(["space", "s", "r", "n", "p", "q", "escape", "x"])), st.integers(1, 5))
def test_keys(keys: list[str], count: int) -> None:
    c = Controls(count)
    for k in keys:
        c.press([k])
        assert 0 <= c.trial < count
    assert c.trial == (keys.count("n") - keys.count("p")) % count
    assert c.quit == bool({"q", "escape"} & set(keys))
    assert c.steps == keys.count("s")
    assert c.restart == bool({"r", "n", "p"} & set(keys))
    last = next((k for k in reversed(keys) if k in ("space", "s", "r", "n", "p")), None)
    if last in ("s",):
        assert not c.playing
    if last in ("r", "n", "p"):
        assert c.playing


def test_a_key_that_is_let_go_between_two_looks_counts() -> None:
    """PyBullet gives one state a key: down and triggered, down, or released; 1, 2 and 4 added up."""
    looks = [{}, {ord("n"): 4}, {ord("n"): 3, ord("x"): 3}, {ord("n"): 1}, {ord("n"): 4, 32: 4}, {}]
    p = SimpleNamespace(KEY_IS_DOWN=1, KEY_WAS_TRIGGERED=2, KEY_WAS_RELEASED=4, COV_ENABLE_GUI=0,
                        COV_ENABLE_KEYBOARD_SHORTCUTS=0, COV_ENABLE_SHADOWS=0,
                        configureDebugVisualizer=lambda *a, **k: None,
                        getKeyboardEvents=lambda physicsClientId: looks.pop(0))
    session: Any = SimpleNamespace(p=p, client=0)
    window = Window(session, [{}], [])
    assert [window._keys() for _ in range(6)] == [[], ["n"], ["n"], [], ["space"], []]


@given(st.lists(st.tuples(st.integers(-99, 99), st.integers(-99, 99)), min_size=3, max_size=8, unique=True))
def test_dots_lie_on_the_outline_and_leave_no_gap(corners: list[tuple[int, int]]) -> None:
    import shapely

    ring = np.array(corners) / 50
    dots = dotted(ring)
    line = shapely.LineString(np.vstack([ring, ring[:1]]))
    assert shapely.distance(line, shapely.points(dots)).max() < 1e-12
    assert len(dots) <= 5000 + 2 * len(ring)
    gaps = np.hypot(*(np.roll(dots, -1, axis=0) - dots).T)
    assert gaps.max() <= max(0.004, line.length / 5000) * (1 + 1e-9)


def test_without_a_display_it_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    if not sys.platform.startswith("linux"):
        pytest.skip("only X needs a display to be named")
    monkeypatch.delenv("DISPLAY", raising=False)
    with pytest.raises(BackendUnavailableError, match="no display"):
        check_display()
    monkeypatch.setenv("DISPLAY", ":5999")
    case, v, f, releases = read_case(DATA / "flat_table.json")
    results = run_trials(v, f, releases[:1], case["support_boundary"], S)
    # Either X's library says that nobody answers, or PyBullet's own process ends; never this one.
    with pytest.raises(BackendUnavailableError, match=r"does not answer|window ended"):
        show_trials(v, f, Boundary.of(case["support_boundary"]), results, S, plate(S))


@pytest.fixture
def screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A display without a monitor; its pixels are a file in the XWD format."""
    if shutil.which("Xvfb") is None:
        pytest.skip("Xvfb is not installed")
    buffer = tmp_path / "buffer"
    buffer.mkdir()
    server = subprocess.Popen(["Xvfb", "-displayfd", "1", "-screen", "0", f"{SIZE[0]}x{SIZE[1]}x24", "-fbdir",
                               str(buffer), "-nolisten", "tcp"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert server.stdout is not None
    try:
        monkeypatch.setenv("DISPLAY", f":{int(server.stdout.readline())}")
        yield buffer / "Xvfb_screen0"
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()


def _pixels(path: Path) -> np.ndarray:
    """[H,W,3] of an XWD file of 32 bits a pixel: a header of big-endian words, a colour map, rows of blue first."""
    raw = path.read_bytes()
    head = np.frombuffer(raw[:100], ">u4")
    w, h, row = (int(head[i]) for i in (4, 5, 12))
    data = np.frombuffer(raw, np.uint8, count=row * h, offset=int(head[0] + 12 * head[19]))
    return data.reshape(h, row)[:, :4 * w].reshape(h, w, 4)[..., 2::-1].astype(int)


@pytest.mark.slow
def test_the_window_shows_table_plate_outline_and_verdict(screen: Path, tmp_path: Path) -> None:
    case, v, f, _ = read_case(DATA / "flat_table.json")
    boundary = Boundary.of(case["support_boundary"])
    results = run_trials(v, f, [Release(1, (0.35, 0.2, 0.77), (0, 0, 0, 1), 0.75)], boundary, S)
    folder = tmp_path / "job"
    folder.mkdir()
    write_window_job(folder, v, f, boundary, results, S, plate(S))
    check_display()
    player = subprocess.Popen([sys.executable, "-c", PLAYER, str(folder)], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
    assert player.stdout is not None
    try:
        line = next(x for x in player.stdout if x.startswith("READY"))
        said = json.loads(line[5:])
        picture = _pixels(screen)
        player.communicate("\n", timeout=30)
    finally:
        player.kill()
        player.communicate()
    assert player.returncode == 0
    assert tuple(said["pose"][:3]) == results[0].rest_centre, "the trial in the window has the same bits"
    view, lens = (np.array(said[k]).reshape(4, 4).T for k in ("view", "lens"))

    def at(point: tuple[float, float, float]) -> tuple[int, int]:
        q = lens @ view @ np.array([*point, 1.0])
        return int((1 - q[1] / q[3]) / 2 * SIZE[1]), int((q[0] / q[3] + 1) / 2 * SIZE[0])

    assert picture.std() > 20, "not blank"
    x, y, z = said["pose"][:3]
    for dx, dy in ((0.0, 0.0), (0.05, 0.0), (0.0, -0.05)):
        i, j = at((x + dx, y + dy, z + 0.01))
        r, g, b = np.median(picture[i - 3 : i + 4, j - 3 : j + 4].reshape(-1, 3), axis=0)  # a mark of a contact is less
        assert b > 150 and b > r + 80 and b > g + 80, "the plate is blue"
    r, g, b = picture[at((-0.3, -0.1, 0.75))]
    assert r > b + 20, "the table is sand"
    i, j = at((0.0, -0.4, 0.753))
    near = picture[i - 3 : i + 4, j - 3 : j + 4].reshape(-1, 3)
    assert (near[:, 2] > near[:, 0] + 60).any(), "the outline runs along its edge"
    green = (picture[..., 1] > picture[..., 0] + 60) & (picture[..., 1] > picture[..., 2] + 30)
    assert green.sum() > 100, "the verdict is written in green"
