"""Side-cars: what is looked for, what each says, what is not believed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spatialbench.errors import CorruptInputError, InputError, MissingInputError, UnsupportedFormatError, UsageError
from spatialbench.scene import load_scene
from spatialbench.scene.sidecar_names import side_car_names
from spatialbench.types import Scene
from tests.scene.splat_files import ply, row


def cube_obj(size: float = 1.0) -> str:
    corners = [(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]
    faces = [(1, 2, 4, 3), (5, 7, 8, 6), (1, 5, 6, 2), (3, 4, 8, 7), (1, 3, 7, 5), (2, 6, 8, 4)]
    return "".join(f"v {x * size} {y * size} {z * size}\n" for x, y, z in corners) + "".join(
        "f " + " ".join(map(str, f)) + "\n" for f in faces)


def world(folder: Path, name: str = "room.obj") -> Path:
    """A cube of 2 units, or splats on its corners."""
    path = folder / name
    if name.endswith(".obj"):
        path.write_text(cube_obj())
    else:
        path.write_bytes(ply([row(x=x, y=y, z=z, opacity=5) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]))
    return path


def save(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def trainer(*positions: tuple[float, float, float], **changed: Any) -> list[dict[str, Any]]:
    """A cameras.json with one camera at each place, numbered backwards, looking along +Z with y down."""
    return [{"id": len(positions) - k, "img_name": f"p{k}", "width": 40, "height": 30, "position": list(p),
             "rotation": np.eye(3).tolist(), "fx": 50, "fy": 51, **changed} for k, p in enumerate(positions)]


def told(scene: Scene) -> list[tuple[str, str]]:
    return [(s["name"], s["kind"]) for s in scene.report.details.get("side_cars", [])]


def names(scene: Scene) -> list[str]:
    return [f.name for f in scene.report.files]


# --- Marble -------------------------------------------------------------------------------------------------

META = {"metric_scale_factor": 1.25, "ground_plane_offset": 0.42}


@pytest.mark.parametrize("value", [META, {"assets": {"splats": {"semantics_metadata": META}}},
                                   {"response": {"assets": {"splats": {"semantics_metadata": META}}}},
                                   {"world": {"assets": {"splats": {"semantics_metadata": META, "spz_urls": {}}}}}])
def test_marble_gives_unit_and_floor(tmp_path: Path, value: Any) -> None:
    path = world(tmp_path, "w.ply")
    save(tmp_path / "w.json", value)
    side = load_scene(path).side
    assert (side.unit_m, side.unit_source, side.ground_m) == (1.25, "side-car", 0.42)
    np.testing.assert_array_equal(side.ground_axis, [0, 1, 0])
    assert (side.up, side.up_source) == (None, "none")


def test_a_side_car_is_in_the_report_with_its_hash(tmp_path: Path) -> None:
    path = world(tmp_path, "w.ply")
    data = save(tmp_path / "semantics_metadata.json", META).read_bytes()
    report = load_scene(path).report
    assert [(f.name, f.bytes, f.sha256) for f in report.files[1:]] == [
        ("semantics_metadata.json", len(data), hashlib.sha256(data).hexdigest())]
    assert report.details["side_cars"] == [{"name": "semantics_metadata.json", "kind": "marble",
                                            "says": ["1.25 m per unit", "floor at y = 0.42 m"]}]


@pytest.mark.parametrize(("meta", "unit", "ground", "up"), [
    ({"metric_scale_factor": None, "ground_plane_offset": None}, None, None, None),
    ({"metric_scale_factor": None, "ground_plane_offset": 0.4}, None, None, None),  # metres of what?
    ({"metric_scale_factor": 2}, 2.0, None, None), ({**META, "flip_y": None}, 1.25, 0.42, None),
    ({**META, "flip_y": True}, 1.25, 0.42, [0, -1, 0]), ({**META, "flip_y": False}, 1.25, 0.42, [0, 1, 0]),
    ({"assets": {"splats": {"semantics_metadata": None}}}, None, None, None)])
def test_marble_may_leave_things_out(tmp_path: Path, meta: dict, unit: float | None, ground: float | None,
                                     up: list | None) -> None:
    path = world(tmp_path, "w.ply")
    save(tmp_path / "w.json", meta)
    scene = load_scene(path)
    assert (scene.side.unit_m, scene.side.ground_m) == (unit, ground)
    assert (None if scene.side.up is None else scene.side.up.tolist()) == up
    assert scene.side.up_source == ("none" if up is None else "profile")  # to be checked, like a profile's
    assert told(scene) == [("w.json", "marble")]
    assert not scene.report.warnings


def test_marbles_values_are_not_a_meshs(tmp_path: Path) -> None:
    path = world(tmp_path)
    side_car = save(tmp_path / "room.json", META)
    scene = load_scene(path)
    assert scene.side.unit_m is None
    assert any("room.json is about splats" in w for w in scene.report.warnings)
    with pytest.raises(UnsupportedFormatError, match="about splats"):
        load_scene(path, side_cars=[side_car])


# --- habitat ------------------------------------------------------------------------------------------------


def test_a_stage_gives_axis_and_unit(tmp_path: Path) -> None:
    path = world(tmp_path)
    save(tmp_path / "room.stage_config.json", {
        "render_asset": "room.obj", "up": [0, 0, 2], "front": [0, 1, 0], "units_to_meters": 0.01, "scale": [5, 5, 5],
        "origin": [0, 1, 0], "margin": 0.04})
    side = load_scene(path).side
    assert (side.up.tolist(), side.up_source, side.unit_m, side.unit_source) == (
        [0, 0, 1], "side-car", pytest.approx(0.05), "side-car")
    assert any("front" in n for n in side.notes)
    assert any("margin 0.04" in n for n in side.notes)


def test_the_real_stage(data_dir: Path) -> None:
    scene = load_scene(data_dir / "scenes/meshes/habitat_simple_room/simple_room.glb")
    assert (scene.side.up.tolist(), scene.side.up_source) == ([0, 0, 1], "side-car")
    assert told(scene) == [("simple_room.stage_config.json", "habitat")]
    assert not scene.report.warnings


def test_an_uneven_scale_is_said_and_not_done(tmp_path: Path) -> None:
    path = world(tmp_path)
    save(tmp_path / "room.stage_config.json", {"up": [0, 0, 1], "scale": [1, 2, 1], "render_asset": "other.glb"})
    scene = load_scene(path)
    assert scene.side.unit_m is None
    assert [w for w in scene.report.warnings if "unevenly" in w]
    assert [w for w in scene.report.warnings if "names another file, 'other.glb'" in w]


# --- cameras ------------------------------------------------------------------------------------------------


def test_cameras_of_the_trainer_come_by_number(tmp_path: Path) -> None:
    path = world(tmp_path, "point_cloud.ply")
    save(tmp_path / "cameras.json", trainer((0, 0, 0), (0, 0.5, -2)))
    side = load_scene(path).side
    assert (side.cameras_source, side.camera_names) == ("side-car", ("p1", "p0"))
    np.testing.assert_array_equal(side.cameras[0].position, [0, 0.5, -2])
    np.testing.assert_array_equal(side.cameras[0].forward, [0, 0, 1])
    assert side.up is None  # cameras only give an estimate


@pytest.mark.parametrize(("name", "scene"), [("mipnerf360_garden_cameras.json", 185), ("snowmiku_cameras.json", 97)])
def test_real_camera_lists(tmp_path: Path, data_dir: Path, name: str, scene: int) -> None:
    path = world(tmp_path, "w.ply")
    (tmp_path / "cameras.json").write_bytes((data_dir / "scenes/trajectories" / name).read_bytes())
    assert len(load_scene(path).side.cameras) == scene


def test_nerfstudio_in_the_frame_it_trains_in(tmp_path: Path) -> None:
    """With dataparser_transforms.json the poses go where nerfstudio writes its splats; alone they are as written."""
    path = world(tmp_path, "splat.ply")
    turn = [[1, 0, 0, 0], [0, 0, 1, 0], [0, -1, 0, 0]]
    written = [[1, 0, 0, 1], [0, 1, 0, 2], [0, 0, 1, 3], [0, 0, 0, 1]]
    save(tmp_path / "transforms.json", {"applied_transform": turn, "frames": [
        {"file_path": "b", "transform_matrix": written}, {"file_path": "a", "transform_matrix": written}]})
    alone = load_scene(path)
    np.testing.assert_array_equal(alone.side.cameras[0].position, [1, 2, 3])
    assert alone.side.camera_names == ("a", "b")
    # Training halved everything and left it as written: the file has (turn, 0.5), from the capture's frame.
    save(tmp_path / "dataparser_transforms.json", {"transform": turn, "scale": 0.5})
    both = load_scene(path)
    np.testing.assert_array_equal(both.side.cameras[0].position, [0.5, 1, 1.5])
    assert names(both)[1:] == ["transforms.json", "dataparser_transforms.json"]
    assert "training frame" in both.side.notes[0]
    # Where only the capture's frame holds the world, that one is taken.
    far = [[1, 0, 0, 500], [0, 0, 1, 0], [0, -1, 0, 0]]
    (tmp_path / "dataparser_transforms.json").unlink()
    save(tmp_path / "transforms.json", {"applied_transform": far, "frames": [
        {"file_path": "a", "transform_matrix": [[1, 0, 0, 501], [0, 1, 0, 2], [0, 0, 1, 3], [0, 0, 0, 1]]}]})
    moved = load_scene(path).side
    np.testing.assert_array_equal(moved.cameras[0].position, [1, -3, 2])
    assert "capture's frame" in moved.notes[0]


def test_colmaps_text_model(tmp_path: Path) -> None:
    path = world(tmp_path, "w.ply")
    save(tmp_path / "sparse/0/cameras.txt", "1 PINHOLE 40 30 50 50 20 15\n")
    save(tmp_path / "sparse/0/images.txt", "2 1 0 0 0 0 0 1 1 b.png\n\n1 1 0 0 0 0 0 2 1 a.png\n\n")
    scene = load_scene(path)
    assert scene.side.camera_names == ("a.png", "b.png")
    np.testing.assert_array_equal(scene.side.cameras[0].position, [0, 0, -2])
    assert sorted(names(scene)[1:]) == ["sparse/0/cameras.txt", "sparse/0/images.txt"]
    for one in (tmp_path / "sparse/0", tmp_path / "sparse/0/images.txt", tmp_path / "sparse/0/cameras.txt"):
        again = load_scene(path, side_cars=[one])
        assert again.side.camera_names == ("a.png", "b.png")
        assert sorted(names(again)[1:]) == ["sparse/0/cameras.txt", "sparse/0/images.txt"]


def test_our_own_list_is_taken_in_the_files_frame_alone(tmp_path: Path) -> None:
    path = world(tmp_path)
    camera = {"matrix": np.eye(4).tolist(), "fx": 9, "fy": 9, "cx": 5, "cy": 5, "width": 10, "height": 10, "name": "n"}
    save(tmp_path / "room.cameras.json", {"frame": "source: the file's", "cameras": [camera]})
    assert load_scene(path).side.camera_names == ("n",)
    save(tmp_path / "room.cameras.json", {"frame": "world: X right, Y forward, Z up, metres", "cameras": [camera]})
    scene = load_scene(path)
    assert scene.side.cameras == ()
    assert any("room.cameras.json has cameras in the frame 'world" in w for w in scene.report.warnings)


def test_only_the_first_list_is_read(tmp_path: Path) -> None:
    path = world(tmp_path, "w.ply")
    save(tmp_path / "w.cameras.json", trainer((0, 0, 0)))
    save(tmp_path / "cameras.json", trainer((1, 1, 1), (0, 0, 0)))
    save(tmp_path / "w.json", META)
    scene = load_scene(path)
    assert told(scene) == [("w.json", "marble"), ("w.cameras.json", "inria")]
    assert len(scene.side.cameras) == 1


def test_cameras_of_another_frame_are_not_used(tmp_path: Path) -> None:
    """The cube's diagonal is 3.46, so a camera 2 diagonals from its side stands within 8; half of them may not."""
    path = world(tmp_path, "w.ply")
    near, far = (7.5, 0, 0), (40.0, 0, 0)
    save(tmp_path / "cameras.json", trainer(near, far))
    assert len(load_scene(path).side.cameras) == 2
    bad = save(tmp_path / "cameras.json", trainer(near, far, far))
    scene = load_scene(path)
    assert scene.side.cameras == ()
    assert any("cameras.json has cameras that stand far outside of the world" in w for w in scene.report.warnings)
    with pytest.raises(UsageError, match="far outside"):
        load_scene(path, side_cars=[bad])


# --- which files --------------------------------------------------------------------------------------------


def test_every_name_that_is_read_is_a_known_one(tmp_path: Path) -> None:
    """What changes a world must be in the keys of its units: nothing else than these names is opened."""
    found = side_car_names("w.ply")
    assert found == ("w.stage_config.json", "w.json", "w.cameras.json", "semantics_metadata.json", "cameras.json",
                     "transforms.json", "dataparser_transforms.json", "sparse/0/images.txt", "sparse/0/cameras.txt")
    assert "meta.json" not in side_car_names("meta.json")
    path = world(tmp_path, "w.ply")
    for name in ("scene.json", "metadata.json", "w.ply.json", "camera.json", "cameras.txt", "images.txt",
                 "world.stage_config.json", "sparse/cameras.json"):
        save(tmp_path / name, META if "camera" not in name else trainer((0, 0, 0)))
    scene = load_scene(path)
    assert names(scene) == ["w.ply"]
    assert not scene.report.warnings


def test_a_general_name_counts_where_one_world_lies(tmp_path: Path) -> None:
    path = world(tmp_path, "w.ply")
    save(tmp_path / "cameras.json", trainer((0, 0, 0)))
    world(tmp_path, "other.obj")
    scene = load_scene(path)
    assert scene.side.cameras == ()
    assert any("'cameras.json' is not used" in w and "other.obj" in w and "w.cameras.json" in w
               for w in scene.report.warnings)
    assert len(load_scene(path, side_cars=[tmp_path / "cameras.json"]).side.cameras) == 1
    (tmp_path / "other.obj").rename(tmp_path / "w_collider.obj")  # now a part of this world
    assert len(load_scene(path).side.cameras) == 1
    assert len(load_scene(tmp_path).side.cameras) == 1


def test_a_json_file_of_the_worlds_name_may_be_anything(tmp_path: Path) -> None:
    path = world(tmp_path)
    for text in ("{", "[]", '{"a": 1}', "\x00", '{"frames": 3}'):
        save(tmp_path / "room.json", text)
        scene = load_scene(path)
        assert told(scene) == []
        assert not scene.report.warnings


def test_a_link_that_leads_out_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    path = world(tmp_path / "in", "w.ply")
    save(tmp_path / "secret.json", trainer((0, 0, 0)))
    os.symlink(tmp_path / "secret.json", tmp_path / "in/cameras.json")
    assert load_scene(path).side.cameras == ()


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    path = world(tmp_path, "w.ply")
    os.mkfifo(tmp_path / "cameras.json")
    assert load_scene(path).side.cameras == ()
    with pytest.raises(InputError):
        load_scene(path, side_cars=[tmp_path / "cameras.json"])


# --- not believed -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "value", "why"), [
    ("w.stage_config.json", {"up": [0, 0]}, "w.stage_config.json, up is not a direction"),
    ("w.stage_config.json", [], "holds no JSON object"), ("w.stage_config.json", "{", "is no JSON"),
    ("w.stage_config.json", '{"units_to_meters": NaN}', "units_to_meters is nan"),
    ("w.stage_config.json", {"scale": [1, 2]}, "scale is neither"),
    ("w.json", {"metric_scale_factor": -1}, "metric_scale_factor is -1"),
    ("w.json", {"metric_scale_factor": "1"}, "metric_scale_factor is of the kind str"),
    ("w.json", {**META, "ground_plane_offset": 1e9}, "ground_plane_offset is 1e"),
    ("w.json", {**META, "flip_y": 1}, "flip_y is neither"),
    ("semantics_metadata.json", {"a": 1}, "does not hold what its name says"),
    ("cameras.json", {"frames": []}, "does not hold what its name says"),
    ("cameras.json", trainer((0, 0, 0), rotation=np.diag([1.0, 1, -1]).tolist()), r"\[0\].rotation has a rotation"),
    ("cameras.json", trainer((0, 0, float("nan"))), r"position\[0\]\[2\] is nan"),
    ("transforms.json", trainer((0, 0, 0)), "does not hold what its name says"),
    ("transforms.json", {"frames": [{"transform_matrix": 3}]}, r"frames\[0\].transform_matrix is no matrix"),
    ("sparse/0/images.txt", "1 5 0 0 0 0 0 0 1 a\n", r"sparse/0/images.txt, line 1 has a quaternion of length 5"),
])
def test_a_bad_side_car_is_a_warning_but_given_an_error(tmp_path: Path, name: str, value: Any, why: str) -> None:
    path = world(tmp_path, "w.ply")
    side_car = save(tmp_path / name, value)
    scene = load_scene(path)
    assert (scene.side.up, scene.side.unit_m, scene.side.cameras) == (None, None, ())
    (warning,) = [w for w in scene.report.warnings if "side-car" in w]
    assert re.search(why, warning)
    assert "it is not used" in warning
    assert name in names(scene)
    if not (name == "cameras.json" and isinstance(value, dict)) and not (
            name == "transforms.json" and isinstance(value, list)):  # given ones are told by content, not by name
        with pytest.raises((InputError, UsageError)):
            load_scene(path, side_cars=[side_car])


def test_a_bad_companion_is_named(tmp_path: Path) -> None:
    path = world(tmp_path, "w.ply")
    save(tmp_path / "transforms.json", {"frames": [{"file_path": "a", "transform_matrix": np.eye(4).tolist()}]})
    save(tmp_path / "dataparser_transforms.json", {"transform": [[1]], "scale": 1})
    scene = load_scene(path)
    assert scene.side.cameras == ()
    assert any("dataparser_transforms.json, transform is no matrix" in w for w in scene.report.warnings)


def test_size_is_looked_at_before_reading(tmp_path: Path) -> None:
    path = world(tmp_path, "w.ply")
    for name in ("w.stage_config.json", "cameras.json"):
        with open(tmp_path / name, "wb") as f:
            f.truncate(33 << 20)
    scene = load_scene(path)
    assert sum("bytes, at most" in w for w in scene.report.warnings) == 2
    assert names(scene) == ["w.ply"]


def test_what_is_given_stands_in_for_the_search(tmp_path: Path) -> None:
    path = world(tmp_path, "w.ply")
    save(tmp_path / "cameras.json", trainer((0, 0, 0)))
    elsewhere = save(tmp_path / "far/meta.json", {**META, "metric_scale_factor": 3})
    outside = save(tmp_path.parent / f"{tmp_path.name}.cams.json", trainer((1, 0, 0), (0, 1, 0)))
    scene = load_scene(path, side_cars=[elsewhere, outside])
    assert (scene.side.unit_m, len(scene.side.cameras)) == (3.0, 2)
    assert names(scene) == ["w.ply", "far/meta.json", outside.name]
    assert told(scene) == [("far/meta.json", "marble"), (outside.name, "inria")]
    with pytest.raises(MissingInputError, match=r"none\.json"):
        load_scene(path, side_cars=[tmp_path / "none.json"])
    with pytest.raises(UnsupportedFormatError, match="no side-car that is known"):
        load_scene(path, side_cars=[save(tmp_path / "x.json", {"a": 1})])
    with pytest.raises(CorruptInputError, match="no JSON"):
        load_scene(path, side_cars=[path])


def test_given_cameras_stand_above_those_in_the_file_and_found_ones_below(tmp_path: Path) -> None:
    comments = ("spatialbench camera 1 0 0 0 0 1 0 0 0 0 1 -3 0 0 0 1",)
    path = tmp_path / "w.ply"
    path.write_bytes(ply([row(x=x, y=x, z=x, opacity=5) for x in (-1, 0, 1)], comments=comments))
    side_car = save(tmp_path / "cameras.json", trainer((0, 0, 0)))
    found = load_scene(path)
    assert (found.side.cameras_source, found.side.cameras[0].position.tolist()) == ("file", [0, 0, -3])
    given = load_scene(path, side_cars=[side_car])
    assert (given.side.cameras_source, given.side.cameras[0].position.tolist()) == ("side-car", [0, 0, 0])


def test_names_that_no_report_could_hold_are_mended(tmp_path: Path) -> None:
    path = world(tmp_path, "w.ply")
    save(tmp_path / "cameras.json", '[{"id": 0, "img_name": "a\\ud800\\n\\u001b[31m", "width": 4, "height": 3, '
         '"fx": 2, "fy": 2, "position": [0, 0, 0], "rotation": [[1, 0, 0], [0, 1, 0], [0, 0, 1]]}]')
    scene = load_scene(path)
    assert scene.side.camera_names == ("a???[31m",)
    scene.report.model_dump_json().encode("utf-8")


# --- whatever comes -----------------------------------------------------------------------------------------

WORDS = ["frames", "cameras", "frame", "transform_matrix", "position", "rotation", "fx", "fy", "width", "height", "id",
         "up", "front", "scale", "units_to_meters", "metric_scale_factor", "ground_plane_offset", "flip_y", "assets",
         "splats", "semantics_metadata", "applied_transform", "applied_scale", "w", "h", "fl_x", "camera_angle_x",
         "transform", "matrix", "cx", "cy", "file_path", "img_name", "render_asset"]
leaves = st.none() | st.booleans() | st.integers(-3, 10**20) | st.floats() | st.text(max_size=3)
leaves = leaves | st.just(np.eye(4).tolist()) | st.just(np.eye(3).tolist()) | st.just([0.0, 0.0, 1.0])
keys = st.sampled_from(WORDS)
values = st.recursive(leaves, lambda v: st.lists(v, max_size=3) | st.dictionaries(keys, v, max_size=9), max_leaves=25)


@settings(max_examples=60, deadline=None)
@given(value=values, name=st.sampled_from(["w.stage_config.json", "w.json", "cameras.json", "transforms.json",
                                           "dataparser_transforms.json"]))
def test_no_side_car_keeps_a_world_from_loading(tmp_path_factory: pytest.TempPathFactory, value: Any, name: str
                                                ) -> None:
    folder = tmp_path_factory.mktemp("w")
    path = world(folder, "w.ply")
    save(folder / "transforms.json", {"frames": [{"file_path": "a", "transform_matrix": np.eye(4).tolist()}]})
    save(folder / name, value)
    side = load_scene(path).side
    assert side.up is None or np.linalg.norm(side.up) == pytest.approx(1.0)
    assert side.unit_m is None or 1e-6 <= side.unit_m <= 1e6
    assert side.ground_m is None or abs(side.ground_m) <= 1e4
    with contextlib.suppress(InputError, UsageError):  # given, it is an error of ours or it is used
        load_scene(path, side_cars=[folder / name])


@settings(max_examples=40, deadline=None)
@given(data=st.binary(max_size=60) | st.lists(st.sampled_from(
    [b"1", b"0", b"1 1 0 0 0 0 0 0 1 a\n", b"\n", b"#", b" nan", b" 1e400", b"PINHOLE 4 3 2 2 2 2\n"]), max_size=9).map(
        b"".join))
def test_no_text_model_keeps_a_world_from_loading(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = tmp_path_factory.mktemp("w")
    path = world(folder, "w.ply")
    (folder / "sparse/0").mkdir(parents=True)
    for name in ("cameras.txt", "images.txt"):
        (folder / "sparse/0" / name).write_bytes(data if name == "images.txt" else b"1 PINHOLE 4 3 2 2 2 2\n")
    assert load_scene(path).splats is not None
