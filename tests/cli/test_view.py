"""``spatialbench view``: shapes, colours and viewpoints against other libraries, refusals, and the page in Chromium."""

from __future__ import annotations

import base64
import io
import json
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import spatialbench.assets
from spatialbench.cli.view import view
from spatialbench.errors import BackendUnavailableError, MissingInputError, ResultError, UsageError
from spatialbench.runs.run_files import write_results
from spatialbench.runs.single import RunOptions, RunResult, measure_world, prepare
from spatialbench.types import (
    Camera,
    GaussianSplats,
    Light,
    Material,
    PlanGrid,
    RenderSettings,
    Support,
    TriangleMesh,
    level_pose,
    load_protocol,
    look_at_pose,
    to_uint8,
)
from spatialbench.viewer.appearance import glb_bytes, is_lit, shown_splats, thin_splats
from spatialbench.viewer.panel import legend_html, scores_html, status_html
from spatialbench.viewer.scores import Scores, differences, read_result, scores_of
from spatialbench.viewer.server import check_address
from spatialbench.viewer.shapes import cell_faces, copies, fan_faces, frustum_lines, largest_faces, support_lines
from spatialbench.viewer.viewpoints import VIEWPOINTS, extent, viewpoint
from tests.report import headless

ROOM = Path(spatialbench.assets.__file__).parent / "sample_room.glb"
SPLATS = ROOM.with_name("sample_room_splats.ply")
FAST = "happyworld-spatial-1-fast"
GL = ("--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader")
SIZE = (900, 500)
SIGHT = (slice(160, 490), slice(210, 550))
"""Rows and columns of the page that neither the panel nor viser's word about software rendering covers."""
LIMIT = 60.0
"""Seconds after which what is waited for does not come."""
READY = "document.querySelector('.sb-status')?.textContent === 'ready'"


def areas(vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    return 0.5 * np.linalg.norm(np.cross(b - a, c - a), axis=1)


# Shapes


@pytest.mark.parametrize(("width", "height"), [(64, 48), (50, 50)])
def test_a_frustum_ends_at_the_corners_of_the_image(width: int, height: int) -> None:
    camera = Camera(look_at_pose((1.0, 2.0, 3.0), (4.0, -1.0, 2.0)), 40.0, 55.0, 20.0, 30.0, width, height)
    lines = frustum_lines(camera, 0.7)
    assert lines.shape == (8, 2, 3)
    ends = np.c_[lines[:4, 1], np.ones(4)] @ camera.pose.world_to_camera.T
    np.testing.assert_allclose(ends[:, 2], 0.7, atol=1e-12)
    pixels = ends[:, :2] / ends[:, 2:3] * [40.0, 55.0] + [20.0, 30.0]
    np.testing.assert_allclose(pixels, [[0, 0], [width, 0], [width, height], [0, height]], atol=1e-9)
    np.testing.assert_array_equal(lines[:4, 0], np.broadcast_to(camera.pose.position, (4, 3)))
    np.testing.assert_array_equal(lines[4:, 0], lines[:4, 1])


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 9))
def test_cells_cover_what_the_grid_marks(seed: int, nx: int, ny: int) -> None:
    grid = PlanGrid(np.random.default_rng(seed).random((nx, ny)) < 0.5, -3, 7, 0.25)
    vertices, faces = cell_faces(grid, -1.5)
    assert np.isclose(areas(vertices, faces).sum(), grid.area)
    assert (vertices[:, 2] == -1.5).all()
    if len(faces):
        # The middle of a marked cell is in one quad, that of another in none.
        low, high = vertices.reshape(-1, 4, 3)[:, 0, :2], vertices.reshape(-1, 4, 3)[:, 2, :2]
        middles = (np.argwhere(np.ones_like(grid.mask)) + [grid.i0 + 0.5, grid.j0 + 0.5]) * grid.cell
        inside = ((middles[:, None] > low) & (middles[:, None] < high)).all(axis=2).sum(axis=1)
        np.testing.assert_array_equal(inside, grid.mask.ravel().astype(int))


def test_polygons_become_fans() -> None:
    turn = np.linspace(0, 2 * np.pi, 7)[:6]
    vertices = np.c_[np.cos(turn), np.sin(turn), np.zeros(6)]
    faces = fan_faces([(0, 1, 2, 3, 4, 5)])
    assert faces.shape == (4, 3)
    assert np.isclose(areas(vertices, faces).sum(), 1.5 * np.sqrt(3))  # the hexagon of side 1
    assert fan_faces([]).shape == (0, 3)


def test_the_largest_faces_are_kept() -> None:
    size = np.array([1.0, 3.0, 2.0, 3.0])
    corners = size[:, None, None] * np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]])
    mesh = TriangleMesh(corners.reshape(-1, 3), np.arange(12).reshape(4, 3))
    np.testing.assert_array_equal(np.ptp(largest_faces(mesh, 2).triangles[:, :, 0], axis=1), [3.0, 3.0])
    np.testing.assert_array_equal(np.ptp(largest_faces(mesh, 3).triangles[:, :, 0], axis=1), [3.0, 2.0, 3.0])
    assert largest_faces(mesh, 4) is mesh


def test_a_support_is_outlined_on_its_plane() -> None:
    square = np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 1.0], [0.0, 1.0]])
    hole = square[::-1] * 0.1 + 0.5
    lines = support_lines(Support("s", square, 0.7, (0.1, -0.2, 0.7), 2.0, "found", holes=(hole,)), lift=0.0)
    assert lines.shape == (8, 2, 3)
    points = lines.reshape(-1, 3)
    np.testing.assert_allclose(points[:, 2], 0.1 * points[:, 0] - 0.2 * points[:, 1] + 0.7)
    assert np.isclose(np.linalg.norm(np.diff(lines[:4, :, :2], axis=1), axis=2).sum(), 6.0)


def test_copies_stand_where_scipy_puts_them() -> None:
    from scipy.spatial.transform import Rotation

    rng = np.random.default_rng(3)
    mesh = TriangleMesh(rng.normal(size=(5, 3)), np.array([[0, 1, 2], [2, 3, 4]]))
    turns, places = Rotation.random(3, random_state=4), rng.normal(size=(3, 3))
    vertices, faces = copies(mesh, places, turns.as_quat())
    expected = np.concatenate([turns[k].apply(mesh.vertices) + places[k] for k in range(3)])
    np.testing.assert_allclose(vertices, expected, atol=1e-12)
    np.testing.assert_array_equal(faces[2:4], mesh.faces + 5)


# Looks


def some_splats(n: int) -> GaussianSplats:
    rng = np.random.default_rng(n)
    quaternions = rng.normal(size=(n, 4))
    quaternions /= np.linalg.norm(quaternions, axis=1, keepdims=True)
    return GaussianSplats(rng.normal(size=(n, 3)).astype(np.float32), rng.random((n, 3)).astype(np.float32) + 0.1,
                          quaternions.astype(np.float32), rng.random(n).astype(np.float32),
                          rng.normal(size=(n, 4, 3)).astype(np.float32), offset=np.array([1e3, 0.0, 0.0]))


def test_covariances_are_those_of_scipy() -> None:
    from scipy.spatial.transform import Rotation

    splats = some_splats(20)
    shown = shown_splats(splats)
    axes = Rotation.from_quat(splats.quaternions[:, [1, 2, 3, 0]]).as_matrix()
    expected = np.einsum("nij,nj,nkj->nik", axes, splats.scales.astype(float) ** 2, axes)
    np.testing.assert_allclose(shown.covariances, expected, atol=1e-5)  # float32, variances up to 1.2
    np.testing.assert_allclose(shown.centres, splats.means.astype(float) + [1e3, 0, 0], atol=1e-4)
    assert shown.opacities.shape == (20, 1)


def test_the_colour_is_the_mean_over_all_directions() -> None:
    """A harmonic of degree 1 has mean 0, that of degree 0 is sqrt(1 / 4 pi) everywhere."""
    splats = some_splats(30)
    expected = np.clip(0.5 + splats.sh[:, 0] * np.sqrt(1 / (4 * np.pi)), 0, 1)
    np.testing.assert_allclose(shown_splats(splats).colours, expected, atol=1e-6)


def test_a_huge_splat_still_travels_in_float16() -> None:
    splats = some_splats(4)
    shown = shown_splats(replace(splats, scales=np.full((4, 3), 1e6, np.float32)))
    assert np.isfinite(shown.covariances.astype(np.float16)).all()


def test_thinning_is_fixed_nested_and_keeps_the_covered_area() -> None:
    splats = some_splats(400)
    (most, wider), (few, widest) = thin_splats(splats, 200), thin_splats(splats, 50)
    assert (len(most), len(few)) == (200, 50)
    assert {tuple(m) for m in few.means} < {tuple(m) for m in most.means}
    np.testing.assert_array_equal(thin_splats(splats, 50)[0].means, few.means)
    assert (wider**2 * 200, widest**2 * 50) == pytest.approx((400, 400))
    whole, factor = thin_splats(splats, 400)
    assert whole is splats and factor == 1.0


def gltf_of(data: bytes) -> dict[str, Any]:
    magic, version, total = struct.unpack_from("<4sII", data)
    length, kind = struct.unpack_from("<I4s", data, 12)
    assert (magic, version, total, kind) == (b"glTF", 2, len(data), b"JSON")
    out: dict[str, Any] = json.loads(data[20:20 + length])
    return out


def test_a_mesh_is_shown_lit_only_where_images_light_it() -> None:
    vertices, faces = np.eye(3), np.array([[0, 1, 2]])
    plain = TriangleMesh(vertices, faces)
    painted = TriangleMesh(vertices, faces, colors=np.full((1, 3, 4), 0.5, np.float32))
    assert is_lit(plain) and not is_lit(painted)
    assert is_lit(replace(painted, lights=(Light("directional"),)))
    assert not is_lit(TriangleMesh(vertices, faces, materials=(Material(unlit=True),)))
    unlit = [m.get("extensions", {}).get("KHR_materials_unlit") for m in gltf_of(glb_bytes(painted))["materials"]]
    assert unlit == [{}]
    document = gltf_of(glb_bytes(plain))
    assert "extensions" not in document["materials"][0]
    # Nothing that the page would have to fetch.
    assert all("uri" not in entry for entry in [*document["buffers"], *document.get("images", [])])


@pytest.mark.parametrize("name", VIEWPOINTS)
def test_viewpoints(name: str) -> None:
    box = np.array([[-2.0, -1.0, -1.6], [4.0, 9.0, 1.2]])
    seen = viewpoint(name, box, load_protocol("happyworld-spatial-1"))
    pose = look_at_pose(seen.position, seen.target)
    if name == "Initial camera":
        np.testing.assert_allclose(pose.matrix[:, 2:], [[0, 0], [1, 0], [0, 0], [0, 1]], atol=1e-12)  # along +Y
        assert seen.fov == pytest.approx(np.radians(75.0))  # the protocol's pictures are square
        return
    low = box[0]
    corners = np.array([[x, y, z] for x in box[:, 0] for y in box[:, 1] for z in (low[2], min(box[1, 2], 0.29))])
    local = np.c_[corners, np.ones(8)] @ pose.world_to_camera.T
    assert (local[:, 2] > seen.near * 0.999).all()
    # Within the height of the page, and within a page as wide as it is high.
    assert (np.abs(local[:, :2]) <= local[:, 2:3] * np.tan(seen.fov / 2)).all()
    if name == "Top":
        above = np.array([0.0, 4.0, 0.35, 1.0]) @ pose.world_to_camera.T
        assert above[2] < seen.near  # a ceiling is cut away
        assert pose.rotation[1, 1] < -0.99  # forward is up on the page


# Panel


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs)


def test_texts_from_files_stay_texts() -> None:
    evil = "</div><img src=x onerror=alert(1)><script>a</script>{alert(2)}"
    scores = Scores(evil, ((evil, evil, evil, evil),), (), ({"name": evil, "raised": True, "note": evil},), (evil,),
                    (evil,))
    for html in (scores_html(scores), status_html(evil), legend_html([(evil, ((None, evil), ((1, 2, 3), evil)))])):
        reader = _Tags()
        reader.feed(html)
        assert reader.tags <= {"div", "b", "i", "table", "tr", "td", "th", "span", "br"}


# Refusals


def test_a_port_that_is_taken_is_refused_when_it_was_asked_for() -> None:
    pytest.importorskip("viser")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UsageError, match="cannot listen"):
            check_address("127.0.0.1", taken.getsockname()[1])
    assert check_address("127.0.0.1", None) > 0
    with pytest.raises(UsageError, match="cannot listen"):
        check_address("192.0.2.1", 0)  # a documentation address, on no machine
    with pytest.raises(UsageError, match="cannot listen"):
        check_address("no such host", 0)


def test_without_viser_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "viser", None)
    with pytest.raises(BackendUnavailableError, match=r"pip install 'spatialbench\[view\]'"):
        CliRunner().invoke(view, [str(ROOM)], catch_exceptions=False)


def test_viser_is_imported_on_first_use() -> None:
    code = ("import sys, spatialbench.cli.view, spatialbench.viewer; "
            "assert not {'viser', 'trimesh', 'numba', 'cv2', 'scipy'} & set(sys.modules), sorted(sys.modules)")
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_options_that_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--score --result"):
        CliRunner().invoke(view, [str(ROOM), "--score", "--result", str(tmp_path)], catch_exceptions=False)


# Results


@pytest.fixture(scope="module")
def shown() -> RunResult:
    """The sample room, with its NavMesh measured."""
    prepare()
    # A smaller ring and fewer surfels than even the fast protocol's; the room names its camera, and M08 needs neither.
    protocol = load_protocol(FAST, ("finding.min_surfels=40000", "finding.max_surfels=40000", "views.ring_frames=4",
                                    "views.lens={width: 48, height: 48, fov_deg: 75.0}"))
    return measure_world(ROOM, protocol, None, RunOptions(protocol=FAST), metrics=("M08",))


@pytest.fixture(scope="module")
def folder(shown: RunResult, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("result")
    write_results(shown, out)
    return out


def test_a_result_folder_gives_its_scores(shown: RunResult, folder: Path) -> None:
    saved = read_result(folder)
    scores = scores_of(shown, saved)
    assert scores.notes == ()
    line, = scores.metrics
    assert (line.id, line.raw) == ("M08", "0.47")  # assets/README.md
    assert {g["name"] for g in scores.gates} == {g.name for g in shown.world.gates}
    assert scores.warnings == tuple(shown.report.warnings)
    here = scores_of(shown)
    assert here.metrics == scores.metrics and here.origin == "measured here"


def test_a_result_of_something_else_is_noted(shown: RunResult, folder: Path) -> None:
    saved = read_result(folder)
    assert differences(saved, shown) == ()
    other = replace(shown, world=replace(shown.world, transform=2 * shown.world.transform),
                    protocol=load_protocol("happyworld-spatial-1"),
                    report=shown.report.model_copy(update={"files": []}))
    words = " ".join(differences(replace(saved, case_given=True), other))
    for part in ("other files", "another frame", "--case", "another protocol"):
        assert part in words


def test_folders_that_are_no_results(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(MissingInputError):
        read_result(tmp_path)
    for name in ("run.json", "units.jsonl"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    with pytest.raises(ResultError, match="cannot be read"):
        read_result(tmp_path)
    (tmp_path / "import.json").write_text("{}")
    with pytest.raises(ResultError, match="no valid protocol or import report"):
        read_result(tmp_path)


def test_extent_is_that_of_the_bulk(shown: RunResult) -> None:
    low, high = extent(shown.world)
    # assets/README.md: 4.6 by 6.4 by 2.7 m, camera at (-0.94, 1.60, 1.05) of a file with its origin mid-floor. One
    # vertex in a hundred may lie outside each side.
    np.testing.assert_allclose(low, [-1.36, -2.15, -1.6], atol=0.25)
    np.testing.assert_allclose(high, [3.24, 4.25, 1.1], atol=0.25)


# The page


class Page:
    """Chromium on a page of ours, with real clicks."""

    def __init__(self, browser: headless.Browser, url: str) -> None:
        self.browser = browser
        browser.call("Emulation.setDeviceMetricsOverride", width=SIZE[0], height=SIZE[1], deviceScaleFactor=1,
                     mobile=False)
        browser.events.clear()
        browser.call("Page.navigate", url=url)
        self.wait(f"{READY} && !!document.querySelector('canvas')")

    def wait(self, condition: str) -> None:
        """Until a condition of the page holds."""
        assert self.browser.until(f"!!({condition})"), f"{condition}: {self.text()[:600]}"

    def text(self) -> str:
        return str(self.browser.evaluate("document.body.innerText"))

    def click(self, words: str, selector: str = "label") -> None:
        """Once the words have come to rest (the panel unfolds) and nothing covers them."""
        find = (f"(() => {{const e = [...document.querySelectorAll({selector!r})].find(e => e.textContent.trim() === "
                f"{words!r}); if (!e) return null; const r = e.getBoundingClientRect(), x = r.x + r.width / 2, "
                "y = r.y + r.height / 2; return e.contains(document.elementFromPoint(x, y)) ? [x, y] : null})()")
        end, before = time.monotonic() + LIMIT, None
        while (place := self.browser.evaluate(find)) is None or place != before:
            assert time.monotonic() < end, f"{words} cannot be clicked: {self.text()[:600]}"
            before = place
            time.sleep(0.1)
        for kind in ("mousePressed", "mouseReleased"):
            self.browser.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left",
                              clickCount=1)

    def switch(self, title: str, words: str) -> None:
        """Click a layer on or off and wait for the server's answer: its words come to the legend or leave it.

        The page sends what changed a few times a second, and the last of several changes only.
        """
        said = words in self.text()
        changed = f"document.body.innerText.includes({words!r}) !== {json.dumps(said)} && {READY}"
        state = (f"[...document.querySelectorAll('label')].find(e => e.textContent.trim() === {title!r})"
                 "?.control?.checked")
        before = self.browser.evaluate(state)
        assert isinstance(before, bool), f"{title} is no switch: {self.text()[:600]}"
        for wanted in (not before, before, not before):  # a click or its message may be lost while the page is busy
            if self.browser.evaluate(state) is not wanted:
                self._press(title, f"{state} === {json.dumps(wanted)}")
            if wanted is not before and self.browser.until(f"!!({changed})", seconds=LIMIT / 2):
                return
        self.wait(changed)

    def _press(self, title: str, pressed: str) -> None:
        for _ in range(6):
            self.click(title)
            if self.browser.until(f"!!({pressed})", seconds=5):
                return
        self.wait(pressed)

    def until(self, fits: Callable[[np.ndarray], bool], what: str, rest: float = 0.5) -> np.ndarray:
        """[H,W,3] of the part that shows the world, when it fits and has not changed for ``rest`` seconds.

        A change is drawn some time after the page says that it has been made, and a view in several steps.
        """
        end, before, since = time.monotonic() + LIMIT, None, time.monotonic()
        while True:
            clip = {"x": 0, "y": 0, "width": SIZE[0], "height": SIZE[1], "scale": 1}
            data = base64.b64decode(self.browser.call("Page.captureScreenshot", format="png", clip=clip)["data"])
            with Image.open(io.BytesIO(data)) as image:
                now = np.asarray(image.convert("RGB")).astype(int)[SIGHT]
            if before is None or np.abs(now - before).max() > 2:
                since = time.monotonic()
            rests = time.monotonic() - since >= rest
            if rests and fits(now):
                return now
            assert time.monotonic() < end, f"not in {LIMIT:.0f} s: {what}" if rests else "the page comes to no rest"
            before = now
            time.sleep(0.1)


def chromium(monkeypatch: pytest.MonkeyPatch, profile: Path) -> headless.Browser:
    monkeypatch.setattr(headless, "FLAGS", (*(f for f in headless.FLAGS if f != "--disable-gpu"), *GL))
    return headless.Browser(profile)


def drawn(seen: TriangleMesh | GaussianSplats) -> np.ndarray:
    """What the engine's own renderer shows at the initial camera, in the part that ``Page.until`` sees."""
    from spatialbench.renderers import open_renderer

    camera = Camera.from_fov(level_pose((0.0, 0.0, 0.0)), 75.0, SIZE[1])
    rgb = open_renderer(seen, RenderSettings(background=(20 / 255,) * 3)).render([camera], want=("rgb",)).rgb
    assert rgb is not None
    left = (SIZE[0] - SIZE[1]) // 2
    return to_uint8(rgb[0]).astype(int)[SIGHT[0], SIGHT[1].start - left:SIGHT[1].stop - left]


@pytest.mark.browser
@pytest.mark.slow
def test_the_page_of_the_sample_room(shown: RunResult, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                     ) -> None:
    pytest.importorskip("viser", reason="the extra 'view' is not installed")
    headless.find_chromium()
    command = [sys.executable, "-c", "from spatialbench.cli.view import view; view()", str(ROOM), "--result",
               str(folder), "--no-open", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = next((line for line in process.stdout if line.startswith("page:")), None)
        assert line is not None, process.communicate(timeout=10)
        url = line.split()[1]
        assert url.startswith("http://127.0.0.1:")
        with chromium(monkeypatch, tmp_path / "profile") as browser:
            page = Page(browser, url)
            page.switch("Initial camera", "looking along +Y")
            page.switch("Supports", "for the plates")
            # The same camera and textures as the renderer's; the page's tone mapping changes colours, but keeps their
            # order. Of the renderer's own pictures one that is turned by 0.2 degrees correlates by 0.89, one of an
            # angle 1 degree wider by 0.82.
            expected = drawn(shown.world.seen).ravel()
            first = page.until(lambda now: now.std() > 30 and np.corrcoef(now.ravel(), expected)[0, 1] > 0.95,
                               "the renderer's picture")
            page.click("Top", "button")
            top = page.until(lambda now: np.abs(now - first).mean() > 20, "another view", rest=4.0)
            # assets/README.md: 14.4 m2 and 1.45 m2 are walkable, half of what is in sight.
            page.switch("NavMesh", "component 2: 1.45")
            assert "component 1: 14.4" in page.text()
            walk = page.until(lambda now: (np.abs(now - top).max(axis=2) > 30).mean() > 0.15, "the NavMesh")
            page.switch("NavMesh", "component 2: 1.45")
            page.until(lambda now: (np.abs(now - walk).max(axis=2) > 30).mean() > 0.15
                       and np.abs(now - top).mean() < np.abs(walk - top).mean() / 4, "the NavMesh switched off again")
            page.click("Scores", "[role=tab]")
            page.wait("document.body.innerText.includes('M08')")
            assert "0.47" in page.text() and "Measure all metrics" not in page.text()
            outside = [u for u in browser.requested()
                       if not u.startswith((url, f"blob:{url}", "data:", f"ws{url[4:]}"))]
            assert outside == []
            assert browser.complaints() == []
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=LIMIT)
        assert process.returncode == 0
        assert "Traceback" not in err and "warning" not in err
    finally:
        process.kill()
        process.communicate()


@pytest.mark.browser
@pytest.mark.slow
def test_splats_look_as_the_renderer_draws_them(shown: RunResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                                ) -> None:
    pytest.importorskip("viser", reason="the extra 'view' is not installed")
    headless.find_chromium()
    from spatialbench.viewer import View, open_server, page_address
    from spatialbench.viewer.server import stop_server

    rng = np.random.default_rng(7)
    n = 400
    turns = rng.normal(size=(n, 4))
    seen = GaussianSplats(rng.uniform((-3, 2, -2), (3, 6, 2), (n, 3)).astype(np.float32),
                          rng.uniform(0.01, 0.3, (n, 3)).astype(np.float32),
                          (turns / np.linalg.norm(turns, axis=1, keepdims=True)).astype(np.float32),
                          rng.uniform(0.3, 1.0, n).astype(np.float32),
                          rng.uniform(-1.5, 1.5, (n, 1, 3)).astype(np.float32))
    world = replace(shown, world=replace(shown.world, mesh=None, splats=seen, supports=()))
    server = open_server("127.0.0.1", check_address("127.0.0.1", 0), "test")
    try:
        View(server, world, scores_of(world), 1_000_000)
        with chromium(monkeypatch, tmp_path / "profile") as browser:
            page = Page(browser, page_address(server)[0])
            page.switch("Initial camera", "looking along +Y")
            # Both blend the same Gaussians in the same order; cut-offs and dilation differ a little.
            expected = drawn(seen)
            page.until(lambda now: now.std() > 30 and np.abs(now - expected).mean() < 3, "the renderer's picture")
            assert "400 splats" in page.text()
            assert "Measure all metrics" not in page.text()
    finally:
        stop_server(server)
