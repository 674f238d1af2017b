"""Lists of cameras, against poses that are worked out by hand, by other libraries, or from what real captures show."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from spatialbench.errors import CorruptInputError, InputError, MissingInputError, UnsupportedFormatError, UsageError
from spatialbench.scene.cameras import (
    CameraList,
    Intrinsics,
    ListedCamera,
    in_capture_frame,
    in_training_frame,
    parse_dataparser,
    read_cameras,
    write_cameras,
)
from spatialbench.scene.cameras.listed import MAX_CAMERAS, rigid_pose
from spatialbench.types import Pose

EPS = 2.0**-52


def rigid(vector: tuple[float, float, float], at: tuple[float, float, float]) -> NDArray[np.float64]:
    """[4,4] by SciPy, from a rotation vector."""
    m = np.eye(4)
    m[:3, :3], m[:3, 3] = Rotation.from_rotvec(vector).as_matrix(), at
    return m


def save(path: Path, value: object) -> Path:
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


# --- axes and frames, by hand -------------------------------------------------------------------------------


def test_opengl_axes_become_opencv_axes(tmp_path: Path) -> None:
    """An OpenGL camera of no rotation looks along -Z with +Y up; after a quarter turn about Z, its up is -X."""
    turn = [[0, -1, 0, 5], [1, 0, 0, 6], [0, 0, 1, 7], [0, 0, 0, 1]]
    frames = [{"file_path": "a", "transform_matrix": np.eye(4).tolist()}, {"file_path": "b", "transform_matrix": turn}]
    cameras = read_cameras(save(tmp_path / "t.json", {"frames": frames})).cameras
    for camera, right, up in zip(cameras, ([1, 0, 0], [0, 1, 0]), ([0, 1, 0], [-1, 0, 0]), strict=True):
        np.testing.assert_array_equal(camera.pose.rotation[:, 0], right)
        np.testing.assert_array_equal(-camera.pose.rotation[:, 1], up)
        np.testing.assert_array_equal(camera.pose.forward, [0, 0, -1])
    np.testing.assert_array_equal(cameras[1].pose.position, [5, 6, 7])


def test_colmap_is_world_to_camera_with_the_scalar_first(tmp_path: Path) -> None:
    """A quarter turn about x: R = [[1,0,0],[0,0,-1],[0,1,0]], so the centre -R^T t of t = (1,2,3) is (-1,-3,2)."""
    h = math.sqrt(0.5)
    save(tmp_path / "cameras.txt", "# lenses\n\n7 PINHOLE 640 480 500 510 320 240\n")
    save(tmp_path / "images.txt", f"# images\n3 {h!r} {h!r} 0 0 1 2 3 7 left view.png\n1.5 2.5 -1 3 4 5\n"
                                  "1 1 0 0 0 0 0 0 7 plain\n\n")
    found = read_cameras(tmp_path / "images.txt")
    assert [(c.id, c.name) for c in found.cameras] == [(3, "left view.png"), (1, "plain")]
    assert [c.id for c in found.ordered()] == [1, 3]
    pose = found.cameras[0].pose
    np.testing.assert_allclose(pose.position, [-1, -3, 2], atol=4 * EPS)
    np.testing.assert_allclose(pose.forward, [0, 1, 0], atol=4 * EPS)
    np.testing.assert_allclose(-pose.rotation[:, 1], [0, 0, 1], atol=4 * EPS)
    assert found.cameras[0].intrinsics == Intrinsics(500, 510, 320, 240, 640, 480)
    assert read_cameras(tmp_path).cameras[0].name == "left view.png"  # the folder of both
    (tmp_path / "cameras.txt").unlink()
    assert read_cameras(tmp_path).cameras[0].intrinsics is None


@settings(max_examples=40)
@given(q=st.tuples(*[st.floats(-1, 1)] * 4).filter(lambda q: sum(v * v for v in q) > 0.01),
       t=st.tuples(*[st.floats(-100, 100)] * 3))
def test_colmap_agrees_with_scipy(tmp_path_factory: pytest.TempPathFactory, q: tuple, t: tuple) -> None:
    folder = tmp_path_factory.mktemp("c")
    w, x, y, z = np.array(q) / np.linalg.norm(q)
    save(folder / "images.txt", " ".join(map(repr, [1, *map(float, (w, x, y, z, *t)), 1])) + " a.png\n\n")
    pose = read_cameras(folder / "images.txt").cameras[0].pose
    r = Rotation.from_quat([x, y, z, w]).as_matrix()
    np.testing.assert_allclose(pose.world_to_camera[:3, :3], r, atol=16 * EPS)
    np.testing.assert_allclose(pose.world_to_camera[:3, 3], t, atol=64 * EPS * (1 + np.linalg.norm(t)))


def test_a_capture_is_turned_back_through_what_was_applied(tmp_path: Path) -> None:
    """nerfstudio's turn of COLMAP's axes is (x, y, z) -> (x, z, -y): what was at (1, 2, 3) is written at (1, 3, -2),
    and twice as far with a scale of 2. An OpenCV camera of no rotation is written with its down at -z, so up at +z."""
    applied = [[1, 0, 0, 0], [0, 0, 1, 0], [0, -1, 0, 0]]
    written = [[1, 0, 0, 2], [0, 0, -1, 6], [0, 1, 0, -4]]  # right, up, back: x; z; -y
    frames = [{"file_path": "a", "transform_matrix": written}]
    data = {"applied_transform": applied, "applied_scale": 2, "frames": frames}
    found = read_cameras(save(tmp_path / "transforms.json", data))
    np.testing.assert_array_equal(found.cameras[0].pose.position, [2, 6, -4])
    before = in_capture_frame(found)
    moved = [[1, 0, 0, 1], [0, 1, 0, 2], [0, 0, 1, 3], [0, 0, 0, 1]]
    np.testing.assert_array_equal(before.cameras[0].pose.matrix, moved)
    assert before.applied is None
    # dataparser_transforms.json leads from the capture: here it doubles again and moves along x.
    to = parse_dataparser({"transform": [[1, 0, 0, 10], [0, 0, 1, 0], [0, -1, 0, 0]], "scale": 4}, "d")
    # Training saw (2, 6, -4), moved it by 10 and doubled it: (24, 12, -8).
    np.testing.assert_array_equal(in_training_frame(found, to).cameras[0].pose.position, [24, 12, -8])


vectors = st.tuples(*[st.floats(-2, 2)] * 3)


@given(a=vectors, ta=vectors, d=vectors, td=vectors, c=vectors, tc=vectors, k=st.floats(0.1, 10), s=st.floats(0.1, 10))
def test_frames_of_a_capture_follow_each_other(a: tuple, ta: tuple, d: tuple, td: tuple, c: tuple, tc: tuple, k: float,
                                               s: float) -> None:
    """Capture p -> written k (A p) -> training s (D k A p), with the file of D A and s k."""
    applied, dataparser, pose = rigid(a, ta), rigid(d, td), rigid(c, tc)

    def after(m: NDArray[np.float64], scale: float, at: NDArray[np.float64]) -> NDArray[np.float64]:
        out = m @ at
        out[:3, 3] *= scale
        return out

    written = after(applied, k, pose)
    trained = after(dataparser, s, written)
    cameras = CameraList((ListedCamera(Pose(written)),), "nerfstudio", applied=(applied, k))
    # Each product of matrices costs a few roundings of numbers below 10 * 10 * (4 + 4).
    tight = {"atol": 1e-12 * (1 + k) * (1 + s) / min(1, k)}
    np.testing.assert_allclose(in_capture_frame(cameras).cameras[0].pose.matrix, pose, **tight)
    got = in_training_frame(cameras, (dataparser @ applied, s * k)).cameras[0].pose.matrix
    np.testing.assert_allclose(got, trained, **tight)


# --- intrinsics ---------------------------------------------------------------------------------------------


def test_a_frames_own_intrinsics_stand_above_the_files(tmp_path: Path) -> None:
    frame = {"transform_matrix": np.eye(4).tolist()}
    data = {"fl_x": 100, "fl_y": 120, "cx": 33, "cy": 20, "w": 64, "h": 48, "k1": 0.1,
            "frames": [{**frame, "file_path": "a"}, {**frame, "file_path": "b", "fl_x": 90, "w": 65}]}
    found = read_cameras(save(tmp_path / "t.json", data))
    assert [c.intrinsics for c in found.cameras] == [Intrinsics(100, 120, 33, 20, 64, 48),
                                                     Intrinsics(90, 120, 33, 20, 65, 48)]
    assert found.notes == ("distortion of the lens is left out",)


def test_angles_make_focal_lengths(tmp_path: Path) -> None:
    """Ninety degrees across 200 pixels: f = 100. Without the other angle, pixels are square."""
    frame = {"transform_matrix": np.eye(4).tolist(), "file_path": "a"}
    half = {"camera_angle_x": math.pi / 2, "w": 200, "h": 80, "frames": [frame]}
    i = read_cameras(save(tmp_path / "a.json", half)).cameras[0].intrinsics
    assert i is not None
    assert (i.fx, i.fy, i.cx, i.cy) == (pytest.approx(100), pytest.approx(100), 100, 40)
    both = read_cameras(save(tmp_path / "b.json", {**half, "camera_angle_y": math.pi / 2})).cameras[0].intrinsics
    assert both is not None
    assert (both.fx, both.fy) == (pytest.approx(100), pytest.approx(40))
    fish = read_cameras(save(tmp_path / "c.json", {**half, "camera_model": "OPENCV_FISHEYE"}))
    assert fish.cameras[0].intrinsics is None
    assert "OPENCV_FISHEYE" in fish.notes[0]
    with pytest.raises(UsageError, match="no intrinsics"):
        fish.cameras[0].camera(64)


def test_another_size_shows_the_same() -> None:
    """A point keeps its place as a share of each side."""
    listed = ListedCamera(Pose(np.eye(4)), intrinsics=Intrinsics(100, 130, 30, 22, 64, 48))
    own, other = listed.camera(), listed.camera(128, 24)
    point = np.array([0.1, -0.05, 1.0])
    for c in (own, other):
        share = ((c.fx * point[0] + c.cx) / c.width, (c.fy * point[1] + c.cy) / c.height)
        np.testing.assert_allclose(share, (40 / 64, 15.5 / 48), rtol=4 * EPS)
    assert (listed.camera(32).width, listed.camera(32).height) == (32, 24)


def test_models_of_colmap(tmp_path: Path) -> None:
    save(tmp_path / "cameras.txt", "1 SIMPLE_RADIAL 10 8 9 5 4 0.01\n2 OPENCV 10 8 9 7 5 4 0 0 0 0\n"
                                   "3 OPENCV_FISHEYE 10 8 9 7 5 4 0 0 0 0\n4 SIMPLE_PINHOLE 10 8 9 5 4\n")
    save(tmp_path / "images.txt", "".join(f"{k} 1 0 0 0 0 0 0 {k}\n\n" for k in (1, 2, 3, 4)))
    found = read_cameras(tmp_path)
    square, oblong = Intrinsics(9, 9, 5, 4, 10, 8), Intrinsics(9, 7, 5, 4, 10, 8)
    assert [c.intrinsics for c in found.cameras] == [square, oblong, None, square]
    assert found.notes == ("distortion of the lens is left out",
                           "the lens 'OPENCV_FISHEYE' is no pinhole, its intrinsics are left out")


# --- both ways ----------------------------------------------------------------------------------------------

cameras_of_any_kind = st.lists(st.tuples(vectors, st.tuples(*[st.floats(-1e3, 1e3)] * 3), st.floats(1, 1e4),
                                         st.floats(1, 1e4), st.integers(1, 9000), st.integers(1, 9000)),
                               min_size=1, max_size=5)


@settings(max_examples=25)
@given(made=cameras_of_any_kind, middle=st.booleans())
def test_what_is_written_is_read_back(tmp_path_factory: pytest.TempPathFactory, made: list, middle: bool) -> None:
    """JSON to the last bit. Through COLMAP's quaternions: some roundings of the rotation, and as many of the centre."""
    folder = tmp_path_factory.mktemp("c")
    given = CameraList(tuple(
        ListedCamera(Pose(rigid(r, p)), f"n {k}.png", k, Intrinsics(
            fx, fy, w / 2 if middle else fx / 3, h / 2 if middle else fy / 7, w, h))
        for k, (r, p, fx, fy, w, h) in enumerate(made)), "spatialbench", frame="source: file's")
    for kind in ("spatialbench", "nerfstudio", "inria", "colmap"):
        path = folder if kind == "colmap" else folder / f"{kind}.json"
        if kind == "inria" and not middle and any(c.intrinsics.cx != c.intrinsics.width / 2 for c in given.cameras):
            with pytest.raises(UsageError, match="principal point"):
                write_cameras(given, path, kind)
            continue
        write_cameras(given, path, kind)
        found = read_cameras(path)
        assert [c.intrinsics for c in found.cameras] == [c.intrinsics for c in given.cameras]
        assert [c.name for c in found.cameras] == [c.name for c in given.cameras]
        for a, b in zip(given.cameras, found.cameras, strict=True):
            if kind == "colmap":
                np.testing.assert_allclose(b.pose.matrix, a.pose.matrix, rtol=0,
                                           atol=64 * EPS * (1 + np.abs(a.pose.position).max()))
            else:
                np.testing.assert_array_equal(b.pose.matrix, a.pose.matrix)
    assert read_cameras(folder / "spatialbench.json").frame == "source: file's"


def test_a_list_without_lenses_cannot_be_written(tmp_path: Path) -> None:
    bare = CameraList((ListedCamera(Pose(np.eye(4)), "a"),), "colmap")
    for kind in ("spatialbench", "nerfstudio", "inria", "colmap"):
        with pytest.raises(UsageError, match="no intrinsics"):
            write_cameras(bare, tmp_path, kind)


# --- real captures ------------------------------------------------------------------------------------------


def aim(cameras: CameraList, *, transposed: bool = False) -> tuple[float, float]:
    """Share of cameras that look towards the point nearest to all optical axes, and the median sine to it."""
    p = np.array([c.pose.position for c in cameras.cameras])
    f = np.array([c.pose.rotation[2] if transposed else c.pose.forward for c in cameras.cameras])
    off = np.eye(3) - f[:, :, None] * f[:, None, :]
    middle = np.linalg.solve(off.sum(axis=0), np.einsum("nij,nj->i", off, p))
    to = middle - p
    sine = np.linalg.norm(np.cross(to, f), axis=1) / np.linalg.norm(to, axis=1)
    return float(((to * f).sum(axis=1) > 0).mean()), float(np.median(sine))


def test_people_walked_around_a_table_and_looked_at_it(data_dir: Path) -> None:
    """The garden's cameras circle its table, so their axes all but meet; by rows instead of columns they do not."""
    garden = read_cameras(data_dir / "scenes/trajectories/mipnerf360_garden_cameras.json")
    assert len(garden) == 185
    towards, sine = aim(garden)
    assert towards == 1.0
    assert sine < 0.05
    assert aim(garden, transposed=True)[1] > 0.3
    # They hold the camera upright and tilt it down: y down in the splats' frame.
    up = -np.mean([c.pose.rotation[:, 1] for c in garden.cameras], axis=0)
    assert up[1] < -0.7
    first = garden.cameras[0]
    assert (first.name, first.intrinsics.width, first.intrinsics.height) == ("DSC07956", 5187, 3361)
    assert first.intrinsics.fx != first.intrinsics.fy


@pytest.mark.parametrize(("name", "n"), [("mipnerf360_room", 311), ("snowmiku", 97)])
def test_other_captures_of_the_trainer(data_dir: Path, name: str, n: int) -> None:
    cameras = read_cameras(data_dir / f"scenes/trajectories/{name}_cameras.json")
    assert len(cameras) == n
    assert [c.id for c in cameras.ordered()] == list(range(n))
    assert aim(cameras)[0] == 1.0


def test_the_cameras_of_lego_look_at_the_origin_from_4_m(data_dir: Path) -> None:
    """The data set's known figures: radius 4.031, and a focal length of 1111.11 for pictures of 800 pixels."""
    (lego,) = read_cameras(data_dir / "scenes/trajectories/nerfstudio_lego_transforms_train.json").cameras
    distance = float(np.linalg.norm(lego.pose.position))
    assert distance == pytest.approx(4.031, abs=5e-4)
    assert float(-lego.pose.position @ lego.pose.forward) / distance == pytest.approx(1.0, abs=1e-6)
    assert lego.camera(800).fx == pytest.approx(1111.11, abs=5e-3)
    with pytest.raises(UsageError, match="no size"):
        lego.camera()


def test_a_camera_in_front_of_a_splat(data_dir: Path) -> None:
    """reports/render: at (0, -4, 0), looking along +Y with Z up, 128 pixels of focal length over 129."""
    (front,) = read_cameras(data_dir / "reports/render/cam_4m.json").cameras
    np.testing.assert_array_equal(front.pose.matrix, [[1, 0, 0, 0], [0, 0, 1, -4], [0, -1, 0, 0], [0, 0, 0, 1]])
    assert front.intrinsics == Intrinsics(128, 128, 64.5, 64.5, 129, 129)


# --- refusals -----------------------------------------------------------------------------------------------

GOOD = {"id": 0, "img_name": "a", "width": 4, "height": 3, "position": [0, 0, 0], "rotation": np.eye(3).tolist(),
        "fx": 2, "fy": 2}
FRAME = {"file_path": "a", "transform_matrix": np.eye(4).tolist()}
OWN = {"matrix": np.eye(4).tolist(), "fx": 1, "fy": 1, "cx": 0, "cy": 0, "width": 1, "height": 1}


@pytest.mark.parametrize(("value", "where"), [
    ([{**GOOD, "position": [0, 0, math.nan]}], r"\[0\].position\[0\]\[2\]: is nan"),
    ([GOOD, {**GOOD, "fx": -1}], r"\[1\].fx: is -1"),
    ([{**GOOD, "rotation": (2 * np.eye(3)).tolist()}], r"\[0\].rotation: has a rotation that is not rigid"),
    ([{**GOOD, "rotation": np.diag([1.0, 1, -1]).tolist()}], "mirrors"),
    ([{**GOOD, "width": 2.5}], r"\[0\].width: is 2.5"), ([{**GOOD, "width": True}], r"\[0\].width"),
    ([{**GOOD, "img_name": 3}], r"\[0\].img_name"), ([{**GOOD, "position": "0 0 0"}], r"\[0\].position"),
    ([{**GOOD, "id": 10**400}], r"\[0\].id"),
    ([GOOD, 3], r"\[1\]: is no JSON object"), ([GOOD] + [{}] * MAX_CAMERAS, "lists 20,001 cameras"),
    ({"frames": []}, "lists 0 cameras"),
    ({"frames": [{**FRAME, "transform_matrix": [[1, 0, 0]]}]}, r"frames\[0\].transform_matrix: is no matrix"),
    ({"frames": [{**FRAME, "transform_matrix": [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 2]]}]}, "last row"),
    ({"frames": [{**FRAME, "transform_matrix": [[1, 0, 0, 1e13], [0, 1, 0, 0], [0, 0, 1, 0]]}]}, r"\[0\]\[3\]: is 1"),
    ({"frames": [FRAME], "camera_angle_x": 4}, "camera_angle_x"),
    ({"frames": [FRAME], "w": 4, "h": 3, "fl_x": 0}, "fl_x"),
    ({"frames": [FRAME], "applied_transform": np.diag([1.0, 1, -1, 1])[:3].tolist()}, "applied_transform.*not rigid"),
    ({"frames": [FRAME], "applied_scale": 0}, "applied_scale"),
    ({"frame": "source", "cameras": [{**OWN, "fx": 0}]}, r"cameras\[0\].fx"),
    ({"frame": "source", "cameras": [{**OWN, "matrix": np.zeros((4, 4)).tolist()}]}, r"cameras\[0\].matrix"),
])
def test_a_bad_field_is_named(tmp_path: Path, value: object, where: str) -> None:
    with pytest.raises(CorruptInputError, match=where):
        read_cameras(save(tmp_path / "c.json", value))


@pytest.mark.parametrize(("images", "why"), [
    ("1 2 0 0 0 0 0 0 1 a\n", "line 1: has a quaternion of length 2"), ("1 1 0 0 0 0 0 0 9 a\n", "names camera 9"),
    ("# x\n1 1 0 0 0 0 0 0\n", "line 2: is no image"), ("1 1 0 0 0 nan 0 0 1 a\n", "line 1: is nan"),
    ("1 1 0 0 0 0 0 0 1 a\n\n1 1 0 0 0 0 0 0 1 b\n", "line 3: has the image number 1 again"),
    ("1 1 0 0 x 0 0 0 1 a\n", "'x' where a number"), ("", "lists 0 cameras"), ("1 1 " + "0" * 10_001, "bytes long")])
def test_a_bad_line_of_colmap_is_named(tmp_path: Path, images: str, why: str) -> None:
    save(tmp_path / "cameras.txt", "1 PINHOLE 4 3 2 2 2 1.5\n")
    save(tmp_path / "images.txt", images)
    with pytest.raises(CorruptInputError, match=why):
        read_cameras(tmp_path)


@pytest.mark.parametrize("text", ["1 PINHOLE 4 3\n", "1 PINHOLE 4 3 2\n", "1 PINHOLE 4 0 2 2 2 2\n",
                                  "1 PINHOLE 4 3 2 2 2 2\n1 PINHOLE 4 3 2 2 2 2\n", "1 PINHOLE 4 3 inf 2 2 2\n"])
def test_a_bad_lens_of_colmap_is_named(tmp_path: Path, text: str) -> None:
    save(tmp_path / "cameras.txt", text)
    save(tmp_path / "images.txt", "1 1 0 0 0 0 0 0 1 a\n\n")
    with pytest.raises(CorruptInputError, match=r"cameras\.txt, line"):
        read_cameras(tmp_path)


def test_what_is_no_list_is_said(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFormatError, match="no list of cameras"):
        read_cameras(save(tmp_path / "c.json", {"a": 1}))
    for text in ("{", "[" * 100_000, "\ud800".encode("utf-16", "surrogatepass").decode("latin-1")):
        with pytest.raises(CorruptInputError, match="no JSON"):
            read_cameras(save(tmp_path / "c.json", text))
    with pytest.raises(MissingInputError):
        read_cameras(tmp_path / "none.json")
    (tmp_path / "images.bin").write_bytes(b"x")
    with pytest.raises(UnsupportedFormatError, match="binary model"):
        read_cameras(tmp_path)
    with pytest.raises(InputError, match="scale"):
        parse_dataparser({"transform": np.eye(4).tolist(), "scale": -1}, "d.json")


def test_a_rounded_rotation_is_mended_and_an_exact_one_kept() -> None:
    exact = Rotation.from_rotvec([0.3, -0.2, 0.9]).as_matrix()
    np.testing.assert_array_equal(rigid_pose(exact, [0, 0, 0], "x").rotation, exact)
    rounded = np.round(exact, 4)
    mended = rigid_pose(rounded, [0, 0, 0], "x").rotation
    np.testing.assert_allclose(mended.T @ mended, np.eye(3), atol=8 * EPS)
    np.testing.assert_allclose(mended, exact, atol=1e-4)  # each entry was rounded by up to 5e-5


def test_names_sort_by_their_numbers() -> None:
    names = ["r_10", "r_9", "a", "r_2b", "r_2"]
    cameras = CameraList(tuple(ListedCamera(Pose(np.eye(4)), n) for n in names), "nerfstudio")
    assert [c.name for c in cameras.ordered()] == ["a", "r_2", "r_2b", "r_9", "r_10"]
