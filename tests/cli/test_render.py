"""``spatialbench render``: pictures, frames of camera lists, going on after a stop, films, refusals."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from PIL import Image

from spatialbench.cli.render import render
from spatialbench.errors import BackendUnavailableError, CorruptInputError, MissingInputError, UsageError
from spatialbench.renderers.backends import Renderer
from spatialbench.scene.cameras import CameraList, read_cameras, write_cameras
from spatialbench.types import TriangleMesh, level_pose
from tests.analytic import EYE, box_room, write_glb

QUICK = ("--set", "finding.min_surfels=40000", "--set", "finding.max_surfels=40000", "--set", "views.supersample=1")
SMALL = (*QUICK, "--size", "48x32", "--backend", "raster")
UNITS = 2.0
"""Units of the file per metre: the camera stands 3.2 above the floor, which anchoring makes 1.6 m."""


@pytest.fixture(scope="module")
def room(tmp_path_factory) -> Path:
    """A room of 6 x 5 x 2.7 m with walls of different normals, in units of half a metre."""
    mesh = box_room()
    big = TriangleMesh(mesh.vertices * UNITS, mesh.faces)
    return write_glb(tmp_path_factory.mktemp("w") / "room.glb", big, level_pose(np.array(EYE) * UNITS))


def run(*arguments: object) -> Result:
    return CliRunner().invoke(render, [str(a) for a in arguments])


def made(*arguments: object) -> dict:
    done = run(*arguments, "--json")
    assert done.exit_code == 0, done.exception
    answer: dict = json.loads(done.stdout)
    return answer


def picture(folder: Path, name: str) -> np.ndarray:
    with Image.open(folder / f"{name}.png") as image:
        return np.asarray(image.convert("RGB")).astype(int)


def depth(folder: Path, name: str) -> np.ndarray:
    with np.load(folder / f"{name}.npz") as data:
        return data["depth"]


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_case_b28(data_dir: Path, tmp_path: Path) -> None:
    """One splat of opacity 0.6, red, 4 m ahead: alpha 0.600, rgb (0.600, 0, 0), depth 4.000 (CASES.csv)."""
    folder = data_dir / "reports" / "render"
    record = made(folder / "one_splat_60.ply", "--cameras", folder / "cam_4m.json", "--depth", "--alpha",
                  "-o", tmp_path)
    assert record["frame"].startswith("source")
    with np.load(tmp_path / "camera-000.npz") as data:
        assert data["alpha"][64, 64] == pytest.approx(0.6, abs=0.003)
        assert data["depth"][64, 64] == pytest.approx(4.0, abs=0.01)
    assert np.abs(picture(tmp_path, "camera-000")[64, 64] - [153, 0, 0]).max() <= 0.003 * 255 + 0.5


def test_the_same_pictures_from_every_list_in_every_frame(room: Path, tmp_path: Path) -> None:
    """Written in the world frame and in the file's, in four formats, and read again: the same pictures.

    In the same frame and format to the last bit. Otherwise poses are off by rounding errors, 1e-15: a pixel may fall to
    the other side of an edge between walls, no more.
    """
    first = tmp_path / "world"
    record = made(room, "--ring", "--frames", 5, "--depth", *SMALL, "--cameras-as", "colmap", "--cameras-as",
                  "nerfstudio", "--cameras-as", "inria", "-o", first)
    assert record["depth_unit_m"] == 1
    # A text model is three files, points or not.
    assert sorted(p.name for p in (first / "colmap").iterdir()) == ["cameras.txt", "images.txt", "points3D.txt"]
    assert "colmap/points3D.txt" in record["files"]
    # The nine rays' median is 1.6 m of file units 3.2 below.
    assert np.diag(np.array(record["transform_source_to_world"]))[0] == pytest.approx(1 / UNITS, rel=1e-6)
    assert depth(first, "ring-000")[16, 24] == pytest.approx(2.5, rel=1e-6)
    second = tmp_path / "file"
    record = made(room, "--ring", "--frames", 5, "--frame", "file", "--depth", *SMALL, "-o", second)
    assert record["depth_unit_m"] == pytest.approx(1 / UNITS, rel=1e-6)
    assert depth(second, "ring-000")[16, 24] == pytest.approx(2.5 * UNITS, rel=1e-6)
    # glTF: Y up, along -Z; the camera is where the file has it.
    (at,) = {tuple(c.pose.position.round(9)) for c in read_cameras(second / "cameras.json").cameras}
    assert at == (0.0, 3.2, 0.0)
    for source, options in [(first / "cameras.json", ()), (first / "colmap", ("--frame", "world")),
                            (first / "transforms.json", ("--frame", "world")), (second / "cameras.json", ()),
                            (first / "cameras-3dgs.json", ("--frame", "world"))]:
        out = tmp_path / "again"
        made(room, "--cameras", source, *options, "--depth", *QUICK, "--backend", "raster", "-o", out)
        for k in range(5):
            a, b = picture(first, f"ring-{k:03d}"), picture(out, f"camera-{k:03d}")
            unit = UNITS if source.parent == second else 1.0
            if source == first / "cameras.json":
                assert (a == b).all()
            assert (np.abs(a - b).max(axis=-1) > 1).mean() <= 0.01, source
            close = np.isclose(depth(out, f"camera-{k:03d}"), unit * depth(first, f"ring-{k:03d}"), rtol=1e-5)
            assert close.mean() >= 0.99, source


def test_a_frame_against_that_of_the_list_is_refused(room: Path, tmp_path: Path) -> None:
    made(room, "--ring", "--frames", 1, "--frame", "file", *SMALL, "-o", tmp_path / "a")
    for frame, words in (("world", "states the frame 'file', and --frame says 'world'"),
                         ("capture", "the list states no 'applied_transform'")):
        done = run(room, "--cameras", tmp_path / "a" / "cameras.json", "--frame", frame, *QUICK, "-o", tmp_path / "b")
        assert isinstance(done.exception, UsageError)
        assert words in str(done.exception)
    assert made(room, "--cameras", tmp_path / "a" / "cameras.json", "--frame", "file", *QUICK, "--backend", "raster",
                "-o", tmp_path / "b")["frame"].startswith("source")


def test_the_folder_of_the_world_is_refused(room: Path, monkeypatch) -> None:
    """The list that is written there would be read as the world's side-car by every later run."""
    monkeypatch.chdir(room.parent)
    for target in (room.parent, Path(".")):
        done = run(room, "--ring", "--frames", 1, *SMALL, "-o", target)
        assert isinstance(done.exception, UsageError)
        assert "is the folder of the world" in str(done.exception)
    assert not (room.parent / "cameras.json").exists()


def test_capture_frame_of_nerfstudio(room: Path, tmp_path: Path) -> None:
    """The room's file is in the capture's frame, and the list is after x -> 3 (R x + t)."""
    made(room, "--ring", "--frames", 1, "--frame", "file", *SMALL, "--depth", "-o", tmp_path / "a")
    listed = read_cameras(tmp_path / "a" / "cameras.json")
    m = np.eye(4)
    m[:3, :3] = [[0, -1, 0], [1, 0, 0], [0, 0, 1]]
    m[:3, 3] = [5, 6, 7]
    moved = tuple(c.moved(m[:3, :3], m[:3, 3], 3.0) for c in listed.cameras)
    write_cameras(CameraList(moved, "nerfstudio", applied=(m, 3.0)), tmp_path / "t.json")
    made(room, "--cameras", tmp_path / "t.json", "--frame", "capture", "--depth", *SMALL, "-o", tmp_path / "b")
    np.testing.assert_allclose(depth(tmp_path / "b", "camera-000"), depth(tmp_path / "a", "ring-000"), rtol=1e-5)


def test_a_stopped_run_goes_on(room: Path, tmp_path: Path, monkeypatch) -> None:
    ask = (room, "--ring", "--frames", 6, "--panorama", "--depth", "--alpha", *SMALL, "--size", "64x32", "--video")
    assert "7 pictures drawn" in run(*ask, "-o", tmp_path / "whole").stdout
    real, calls = Renderer.render, []

    def stopping(self: Renderer, cameras, want=("rgb",)):
        calls.append(cameras)
        if len(calls) == 10:  # six faces, then three frames
            raise KeyboardInterrupt
        return real(self, cameras, want)

    monkeypatch.setattr(Renderer, "render", stopping)
    out = tmp_path / "parts"
    assert run(*ask, "-o", out).exit_code != 0
    assert sorted(p.name for p in out.glob("*.png")) == ["panorama.png", *(f"ring-00{k}.png" for k in range(3))]
    assert not (out / "render.json").exists()
    done = run(*ask, "-o", out)
    assert "3 pictures drawn, 4 kept from before" in done.stdout, done.exception
    assert len(calls) == 10 + 3
    assert tree(out) == tree(tmp_path / "whole")
    # All there, films too: nothing is drawn. A damaged picture and a missing NPZ are.
    film = (out / "ring.mp4").stat().st_mtime_ns
    assert "0 pictures drawn, 7 kept" in run(*ask, "-o", out).stdout
    assert (out / "ring.mp4").stat().st_mtime_ns == film
    (out / "ring-002.png").write_bytes(b"\x89PNG")
    (out / "ring-004.npz").unlink()
    assert "2 pictures drawn, 5 kept" in run(*ask, "-o", out).stdout
    assert tree(out) == tree(tmp_path / "whole")
    # Another recipe, another picture; and a world's file that was changed.
    assert "7 pictures drawn" in run(*ask, "--set", "views.background=[1,0,0]", "-o", out).stdout


def test_a_renderer_of_another_version_draws_anew(room: Path, tmp_path: Path, monkeypatch) -> None:
    """The same command after a change of what is drawn: nothing old is kept."""
    from spatialbench.renderers import backends
    from spatialbench.runs import render_files

    ask = (room, "--ring", "--frames", 2, "--panorama", *SMALL, "--size", "64x32", "-o", tmp_path)
    assert "3 pictures drawn" in run(*ask).stdout
    monkeypatch.setattr(render_files, "PANORAMAS", render_files.PANORAMAS + 1)
    assert "1 pictures drawn, 2 kept" in run(*ask).stdout
    monkeypatch.setattr(sys.modules[backends.__module__], "MESH_IMAGES", 1000)
    done = run(*ask)
    assert "3 pictures drawn (raster 1000)" in done.stdout, done.exception


def test_the_first_run_says_that_it_compiles(room: Path, tmp_path: Path, monkeypatch) -> None:
    ask = (room, "--probe", "--size", "8x8", *QUICK, "--backend", "raster", "-o", tmp_path / "out")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "none"))
    assert "compiles" in run(*ask).stderr
    assert not run(*ask, "--quiet").stderr
    kernel = tmp_path / "none" / "x" / "_kernels.aim-1.py311.nbi"
    kernel.parent.mkdir(parents=True)
    kernel.write_bytes(b"")
    assert "compiles" not in run(*ask).stderr


def test_what_was_not_asked_for_goes_and_strangers_stay(room: Path, tmp_path: Path) -> None:
    made(room, "--ring", "--frames", 4, "--depth", *SMALL, "--video", "-o", tmp_path)
    Image.new("RGB", (4, 4)).save(tmp_path / "ring-my-own.png")
    (tmp_path / "notes.txt").write_text("mine")
    record = made(room, "--orbit", "--frames", 2, *SMALL, "-o", tmp_path)
    assert sorted(tree(tmp_path)) == ["cameras.json", "notes.txt", "orbit-000.png", "orbit-001.png", "render.json",
                                      "ring-my-own.png"]
    assert sorted(record["files"]) == ["cameras.json", "orbit-000.png", "orbit-001.png"]


def test_sets_and_where_they_stand(room: Path, tmp_path: Path) -> None:
    """The places that were asked for, in the world frame."""
    record = made(room, "--probe", "--orbit", "--frames", 3, "--target=-0.5,1,-1,0.5,1,0", "--path", "W1,Right2,W1",
                  "--speed", 0.5, "--fps", 1, "--connect", "1,1,0.2", "--at", "0,-1,0", *QUICK, "--size", "32x32",
                  "--backend", "raster", "-o", tmp_path)
    cameras = {c.name: c.camera() for c in read_cameras(tmp_path / "cameras.json").cameras}
    assert set(record["sets"]) == {"probe", "orbit", "path", "connect"}
    assert [n for n in cameras if n.startswith("probe")] == [f"probe-{f}" for f in
                                                             ("front", "right", "back", "left", "up", "down")]
    np.testing.assert_allclose(cameras["probe-up"].pose.position, [0, -1, 0], atol=1e-12)
    # A box of diagonal sqrt 2: radius 1.5 times that, on the side of the initial camera, which is south of it.
    radius = 1.5 * math.sqrt(2)
    assert record["sets"]["orbit"]["radius"] == pytest.approx(radius)
    np.testing.assert_allclose(cameras["orbit-000"].pose.position, [0, 1 - radius, -0.5 + radius / 4], atol=1e-12)
    places = np.array([cameras[f"path-00{k}"].pose.position for k in range(5)])
    np.testing.assert_allclose(places, [[0, -1, 0], [0, -0.5, 0], [0, -0.5, 0], [0, -0.5, 0], [0.5, -0.5, 0]],
                               atol=1e-12)
    np.testing.assert_allclose(cameras["connect-002"].pose.position, [1, 1, 0.2], atol=1e-12)
    assert all((tmp_path / p).is_file() for s in record["sets"].values() for p in s["pictures"])
    # Straight down from 1.6 m: the whole face is floor.
    assert cameras["probe-down"].width == 32


def test_panorama(room: Path, tmp_path: Path) -> None:
    """Its middle row sees the walls at 2.5 m ahead and 3 m to the right; there is all of the room."""
    made(room, "--panorama", "--depth", "--alpha", *QUICK, "--backend", "raster", "--size", "256x128", "-o", tmp_path)
    assert picture(tmp_path, "panorama").shape == (128, 256, 3)
    with np.load(tmp_path / "panorama.npz") as data:
        assert (data["alpha"] == 1).all()
        # Off by half a pixel of the face at most, near the wall's foot: 1 / cos(0.02).
        assert data["depth"][64, 128] == pytest.approx(2.5, rel=2e-3)
        assert data["depth"][64, 192] == pytest.approx(3.0, rel=2e-3)
        assert data["depth"][127].mean() == pytest.approx(1.6, rel=2e-3)
    assert [c.name for c in read_cameras(tmp_path / "cameras.json").cameras][:2] == ["panorama-front", "panorama-right"]


@pytest.mark.parametrize("kind", ["pyav", "opencv"])
def test_films(room: Path, tmp_path: Path, monkeypatch, kind: str) -> None:
    av = pytest.importorskip("av", reason="films are read back with PyAV")
    monkeypatch.setenv("SPATIALBENCH_FILM", kind)
    record = made(room, "--path", "W+Left1", "--fps", 8, "--video", *SMALL, "-o", tmp_path)
    assert record["sets"]["path"]["film"]["frames"] == 9
    with av.open(str(tmp_path / "path.mp4")) as c:
        assert float(c.streams.video[0].average_rate) == 8
        got = [f.to_ndarray(format="rgb24") for f in c.decode(video=0)]
    assert len(got) == 9
    # Plain walls but for their edges, which 4:2:0 and the codec blur.
    for k in (0, 8):
        off = np.abs(got[k].astype(int) - picture(tmp_path, f"path-{k:03d}"))
        assert np.median(off) <= 4


def test_bytes_do_not_depend_on_the_folder(room: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        made(room, "--orbit", "--frames", 2, "--path", "protocol", "--fps", 1, "--depth", *SMALL, "-o", tmp_path / name)
    assert tree(tmp_path / "a") == tree(tmp_path / "b")
    assert len(json.loads((tmp_path / "a" / "render.json").read_text())["sets"]["path"]["pictures"]) == 17


def test_a_list_of_other_sizes_and_lenses(room: Path, tmp_path: Path) -> None:
    """Two sizes in one list are drawn as they are; --size makes them one, with the same view; --fov another lens."""
    made(room, "--ring", "--frames", 2, *SMALL, "-o", tmp_path / "a")
    data = json.loads((tmp_path / "a" / "cameras.json").read_text())
    data["cameras"][1] |= {"width": 24, "height": 16, "cx": 12.0, "cy": 8.0, "fx": data["cameras"][1]["fx"] / 2,
                           "fy": data["cameras"][1]["fy"] / 2}
    path = tmp_path / "c.json"
    path.write_text(json.dumps(data))
    out = tmp_path / "b"
    made(room, "--cameras", path, *QUICK, "--backend", "raster", "-o", out)
    assert [picture(out, f"camera-00{k}").shape for k in (0, 1)] == [(32, 48, 3), (16, 24, 3)]
    with pytest.raises(UsageError, match="different sizes"):
        raise run(room, "--cameras", path, "--video", *QUICK, "-o", out).exception
    made(room, "--cameras", path, *SMALL, "-o", out)
    assert (picture(out, "camera-001") == picture(tmp_path / "a", "ring-001")).all()
    made(room, "--cameras", path, *SMALL, "--fov", 90, "-o", out)
    assert read_cameras(out / "cameras.json").cameras[1].camera().fx == pytest.approx(24)


@pytest.mark.parametrize(("options", "error", "words"), [
    ((), UsageError, "nothing is asked for"),
    (("--panorama", "--size", "300x200"), UsageError, "no full sphere"),
    (("--panorama", "--size", "20000x10000"), UsageError, "20000x10000"),
    (("--ring", "--radius", "2"), UsageError, "there is no orbit"),
    (("--path", "W2,X1"), UsageError, "unknown key 'X'"),
    (("--path", "W1e9"), UsageError, "no segment"),
    (("--path", "W99999"), UsageError, "samples"),
    (("--probe", "--video"), UsageError, "a film of a panorama or a probe"),
    (("--ring", "--frame", "capture"), UsageError, "applied_transform"),
    (("--cameras", "none.json"), MissingInputError, "no such file"),
    (("--ring", "--backend", "unheard-of"), UsageError, "no renderer"),
    (("--ring", "--backend", "splat-cpu"), UsageError, "does not draw meshes"),
    (("--ring", "--frames", "15000", "--orbit"), UsageError, "at most 20,000"),
    (("--probe", "--size", "64x32"), UsageError, "square"),
])
def test_refusals(room: Path, tmp_path: Path, options: tuple, error: type, words: str) -> None:
    done = run(room, *options, *QUICK, "-o", tmp_path / "out")
    assert isinstance(done.exception, error), done.exception
    assert words in str(done.exception)
    assert not list((tmp_path / "out").glob("*.png"))


@pytest.mark.parametrize("options", [("--size", "8"), ("--size", "axb"), ("--at", "1,2"), ("--at", "nan,0,0"),
                                     ("--target", "1,2,3,4"), ("--fov", "200"), ("--fps", "0"), ("--frames", "0"),
                                     ("--frame", "mine"), ("--elevation", "95")])
def test_values_that_are_none(room: Path, options: tuple) -> None:
    assert run(room, "--orbit", *options).exit_code == 2


def test_lists_that_cannot_be_used(room: Path, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    entry = {"matrix": np.eye(4).tolist(), "fx": 1, "fy": 1, "cx": 1, "cy": 1, "width": 2, "height": 2}
    for data, error, words in [
        ({"frame": "mars", "cameras": [entry]}, UsageError, "states the frame 'mars'"),
        ({"frame": "world", "cameras": [{**entry, "fx": 0}]}, CorruptInputError, "positive"),
        ({"camera_angle_x": 1.0, "frames": [{"transform_matrix": np.eye(4).tolist()}]}, UsageError, "no size"),
        ({"frames": [{"transform_matrix": np.eye(4).tolist()}]}, UsageError, "no intrinsics"),
    ]:
        path.write_text(json.dumps(data))
        done = run(room, "--cameras", path, *QUICK, "-o", tmp_path / "out")
        assert isinstance(done.exception, error), done.exception
        assert words in str(done.exception)


def test_no_writer_of_films(room: Path, tmp_path: Path, monkeypatch) -> None:
    """Said before the world is read."""
    import sys

    monkeypatch.setenv("SPATIALBENCH_FILM", "pyav")
    monkeypatch.setitem(sys.modules, "av", None)
    done = run(room, "--ring", "--video", "-o", tmp_path / "out")
    assert isinstance(done.exception, BackendUnavailableError)
    assert "pip install av" in str(done.exception)
    assert not (tmp_path / "out").exists()
