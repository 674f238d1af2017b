"""``spatialbench place``: the oracle, the report B47, pictures, and input that is wrong."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from PIL import Image

from spatialbench.cli.place import place
from spatialbench.errors import ConfigError, EmptyWorldError, InputError, MissingInputError, UsageError
from tests.physics.placement_scenes import box, join

CUP = """<?xml version="1.0"?>
<robot name="cup"><link name="a">
  <inertial><origin xyz="0 0 0.01"/><mass value="0.2"/></inertial>
  <collision><origin xyz="0 0 0.05"/><geometry><cylinder radius="0.05" length="0.1"/></geometry></collision></link>
 <link name="b"><inertial><mass value="0.1"/></inertial>
  <collision><geometry><mesh filename="package://handle.obj" scale="0.001 0.001 0.001"/></geometry></collision></link>
 <joint name="j" type="revolute"><parent link="a"/><child link="b"/>
  <origin xyz="0.06 0 0.04" rpy="0 0 1.5707963"/></joint>
</robot>"""


def call(*args: Any) -> Result:
    return CliRunner().invoke(place, [str(a) for a in args])


def answer(*args: Any) -> dict[str, Any]:
    done = call(*args, "--json")
    assert done.exit_code == 0, done.exception or done.output
    return json.loads(done.output)


def write_obj(path: Path, v: np.ndarray, f: np.ndarray) -> Path:
    path.write_text("".join(f"v {x!r} {y!r} {z!r}\n" for x, y, z in v.tolist())
                    + "".join(f"f {a} {b} {c}\n" for a, b, c in (f + 1).tolist()))
    return path


def table(path: Path, z: float = 0.75) -> Path:
    return write_obj(path, *box(-0.6, -0.4, z - 0.05, 0.6, 0.4, z))


def trials(path: Path, **changes: Any) -> Path:
    data = {"mesh": "table.obj", "up": "z", "units": "m", "support_boundary": [[-0.6, -0.4], [0.6, -0.4], [0.6, 0.4],
                                                                               [-0.6, 0.4]],
            "trials": [{"id": 0, "release_centre": [0.0, 0.0, 0.77], "quaternion_xyzw": [0, 0, 0, 1],
                        "surface_z": 0.75}], **changes}
    path.write_text(json.dumps({k: v for k, v in data.items() if v is not None}))
    return path


def check(case: dict[str, Any], found: dict[str, Any]) -> None:
    """As the oracle's README asks, of what a user gets."""
    assert [t["id"] for t in found["trials"]] == [t["id"] for t in case["trials"]]
    for asked, got in zip(case["trials"], found["trials"], strict=True):
        e, where = asked["expect"], f"{case['name']} {asked['id']}: {asked['reason']}"
        assert got["success"] is e["success"], where
        assert set(e["reasons_always"]) <= set(got["reasons"]), where
        assert set(got["reasons"]) <= {*e["reasons_always"], *e["reasons_sometimes"]}, where
        if "initial_penetration_reference" in e:
            assert (got["initial_penetration"] > 0.002) == (e["initial_penetration_reference"] > 0.002), where
        if e["success"] and "drop_range" in e:
            low, high = e["drop_range"]
            assert low - 0.003 <= got["drop"] <= high + 0.003, where
            assert got["horizontal_displacement"] <= e["horizontal_displacement_range"][1] + 0.01, where
            assert got["tilt_deg"] <= e["tilt_deg_range"][1] + 1.0, where


@pytest.mark.parametrize("name", ["flat_table", "holed_table", "single_sided_inverted", "tilt_20"])
def test_the_oracle(data_dir: Path, name: str) -> None:
    path = data_dir / "oracle" / "placement" / f"{name}.json"
    case = json.loads(path.read_text())
    found = answer(path.with_suffix(".obj"), "--trials", path, "--workers", 1)
    check(case, found)
    assert found["score"] == pytest.approx(case["score_if_all_retained"])
    assert found["benchmark"] is False, "explicit releases are not M25"


def test_b47_a_lip_neither_sinks_nor_lifts_a_plate(data_dir: Path) -> None:
    path = data_dir / "reports" / "placement" / "lip_table.json"
    found = answer(path.with_suffix(".obj"), "--trials", path, "--workers", 0)
    check(json.loads(path.read_text()), found)
    assert [t["success"] for t in found["trials"]] == [True] * 4
    for t, tilt in zip(found["trials"], (0.0, 0.27, 0.375, 0.0), strict=True):  # CASES.csv, each within 1 degree
        assert abs(t["drop"]) <= 0.003
        assert t["tilt_deg"] == pytest.approx(tilt, abs=1.0)


def test_b47_the_height_is_that_of_the_top_and_not_of_its_lip(data_dir: Path) -> None:
    from spatialbench.renderers.raycast import MeshRayCaster
    from spatialbench.scene import load_scene
    from spatialbench.types.protocol_rules import SupportFinding
    from spatialbench.world.supports import annotated_support, find_supports

    mesh = load_scene(data_dir / "reports" / "placement" / "lip_table.obj").mesh
    assert mesh is not None
    rays = MeshRayCaster(mesh.vertices, mesh.faces)
    (found,) = find_supports(mesh, rays, 0.0, SupportFinding(), 0.11)
    assert found.height == pytest.approx(0.750, abs=0.0005)
    corners = [[-0.5, -0.3, 0.75], [0.5, -0.3, 0.75], [0.5, 0.3, 0.75], [-0.5, 0.3, 0.75]]
    named = annotated_support(corners, "top", mesh, rays, SupportFinding())
    assert named is not None
    assert named.height == pytest.approx(0.750, abs=0.0005)


def test_up_and_units_of_the_file_hold_for_the_mesh(tmp_path: Path) -> None:
    # The same table, Y up and in millimetres: (x, y, z) here is (x, z, -y) there.
    v, f = box(-0.6, -0.4, 0.7, 0.6, 0.4, 0.75)
    there = np.column_stack([v[:, 0], v[:, 2], -v[:, 1]]) * 1000
    world = write_obj(tmp_path / "table.obj", there, f)
    found = answer(world, "--trials", trials(tmp_path / "t.json", up="y", units="mm"), "--workers", 0)
    assert found["trials"][0]["success"] is True
    assert found["trials"][0]["rest_centre"] == pytest.approx([0, 0, 0.76], abs=1e-4)
    assert found["warnings"] == []


@pytest.mark.parametrize("up", ["x", "-x", "y", "-y", "z", "-z"])
def test_every_up_axis_comes_to_z_by_a_rotation(up: str) -> None:
    from spatialbench.runs.place_file import to_z_up
    from spatialbench.types.case import parse_axis

    m = to_z_up(np.eye(3), parse_axis(up), 1.0)
    assert np.linalg.det(m) == pytest.approx(1.0)
    np.testing.assert_array_equal(to_z_up(np.array([parse_axis(up)]), parse_axis(up), 0.5), [[0, 0, 0.5]])


def test_a_rewritten_mesh_is_read_again(tmp_path: Path) -> None:
    for z in (0.75, 0.60, 0.75):
        world = table(tmp_path / "table.obj", z)
        (t,) = answer(world, "--trials", trials(tmp_path / "t.json"), "--workers", 0)["trials"]
        assert t["success"] is (z == 0.75)
        assert t["drop"] == pytest.approx(0.75 - z, abs=2e-4)


def test_pictures_films_and_the_table(tmp_path: Path) -> None:
    av = pytest.importorskip("av")
    path = trials(tmp_path / "t.json", steps=120, trials=[
        {"id": 3, "release_centre": [0.1, 0.0, 0.77], "surface_z": 0.75},
        {"id": 8, "release_centre": [0.9, 0.0, 0.77], "surface_z": 0.75}])
    out = tmp_path / "out"
    done = call(table(tmp_path / "table.obj"), "--trials", path, "--workers", 0, "-o", out, "--video")
    assert done.exit_code == 0, done.exception
    assert "stays" in done.output
    assert "dropped, outside" in done.output
    assert "1 of 2 stay: 0.500" in done.output
    assert "M25" not in done.output
    files = {"places.png", "place.json", *(f"trial-{i}-{n}" for i in (3, 8) for n in ("release.png", "rest.png"))}
    assert {p.name for p in out.iterdir()} == files | {"trial-3.mp4", "trial-8.mp4"}
    said = json.loads((out / "place.json").read_text())
    assert {*said["files"], "place.json"} == {p.name for p in out.iterdir()}
    for name in ("release", "rest"):
        picture = np.asarray(Image.open(out / f"trial-3-{name}.png")).astype(int)
        h, w = picture.shape[:2]
        r, g, b = picture[h // 2, w // 2]  # the camera looks at the middle between release and rest: the plate
        assert b > 150 and b > r + 80 and b > g + 80
        table_colour = picture[3 * h // 4 : 7 * h // 8, w // 4 : 3 * w // 4].reshape(-1, 3).mean(axis=0)
        assert table_colour[0] > table_colour[2] + 20, "below it is the table"
    with av.open(str(out / "trial-3.mp4")) as film:
        stream = film.streams.video[0]
        assert stream.codec_context.name == "h264"
        frames = [f.to_ndarray(format="rgb24") for f in film.decode(stream)]
    assert len(frames) == 120 // 8 + 1  # half a second at 30 a second, and the end
    assert all(f[180, 240, 2] > f[180, 240, 0] + 60 for f in frames)
    again = call(table(tmp_path / "table.obj"), "--trials", trials(tmp_path / "t.json"), "--workers", 0, "-o", out)
    assert again.exit_code == 0
    assert not (out / "trial-8.mp4").exists(), "what an earlier call left would mislead"


@pytest.mark.slow
def test_the_sample_room_gives_m25s_own_outcome() -> None:
    from spatialbench.runs.single import RunOptions, check_protocol, measure_world, prepare
    from spatialbench.types import load_protocol

    room = Path(__file__).parents[2] / "assets" / "sample_room.glb"
    name = "happyworld-spatial-1-fast"
    settings = ("finding.min_surfels=40000", "finding.max_surfels=40000")  # the file names up, unit and camera
    found = answer(room, "--workers", 2, "--protocol", name, *(a for s in settings for a in ("--set", s)))
    assert found["benchmark"] is True
    assert found["support"]["id"] == "support_0"
    assert found["supports"][0]["area"] == max(s["area"] for s in found["supports"])
    assert "largest" in found["support_rule"]
    prepare()
    protocol = load_protocol(name, settings)
    check_protocol(protocol)
    (m25,) = measure_world(room, protocol, None, RunOptions(), metrics=("M25",)).measurements
    assert m25.value == found["score"]
    assert [t["drop"] for t in m25.components["trials"]] == [t["drop"] for t in found["trials"]]
    for name, rows in found["by_reference"].items():
        assert m25.components["by_reference"][name]["succeeded"] == sum(t["success"] for t in rows)


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """6 by 6 by 3 m with two tables, Y up: 1.2 by 0.8 m and 0.6 by 0.5 m, tops at 0.75 and 0.60 m."""
    walls, faces = box(-3, -3, 0, 3, 3, 3)
    parts = [(walls, faces[:, ::-1]), box(-0.6, 0.6, 0.70, 0.6, 1.4, 0.75), box(1.5, 0.5, 0.55, 2.1, 1.0, 0.60)]
    v, f = join(*parts)
    return write_obj(tmp_path_factory.mktemp("room") / "room.obj", np.column_stack([v[:, 0], v[:, 2], -v[:, 1]]), f)


ROOM = ("--camera", "0,1.6,1", "--forward", "0,0,-1", "--workers", 0, "--set", "placement.steps=240",
        "--set", "finding.min_surfels=10000", "--set", "finding.surfels_per_m2=20")


def test_supports_are_found_chosen_and_named(room: Path) -> None:
    found = answer(room, *ROOM)
    assert [(s["id"], s["source"], s["rank"]) for s in found["supports"]] == [("support_0", "found", 0),
                                                                            ("support_1", "found", 1)]
    # Heights are above the camera, which the scale rule puts 1.6 m above the floor.
    assert [s["height"] for s in found["supports"]] == pytest.approx([-0.85, -1.0], abs=1e-3)
    assert [s["area"] for s in found["supports"]] == pytest.approx([0.96, 0.30], rel=0.01)
    assert (found["status"], found["score"], found["succeeded"]) == ("measured", 1.0, 6)
    # Another body on another support: a share, but not M25.
    mug = answer(room, *ROOM, "--object", "mug", "--support", "1", "--set", "placement.trials=2")
    assert (mug["benchmark"], mug["object"], mug["support"]["id"], mug["score"]) == (False, "mug", "support_1", 1.0)
    none = answer(room, *ROOM, "--support", "none")
    assert (none["status"], none["score"], none["trials"]) == ("inapplicable", None, [])


def test_a_polygon_of_the_user_in_space_or_in_the_view(room: Path) -> None:
    # Half of the large table, in the file's frame: x, up, -y.
    half = answer(room, *ROOM, "--support", "-0.6,0.75,-0.6 0,0.75,-0.6 0,0.75,-1.4 -0.6,0.75,-1.4")
    assert (half["support"]["id"], half["support"]["source"]) == ("given", "user")
    assert half["support"]["area"] == pytest.approx(0.48, rel=0.02)
    assert max(t["release_centre"][0] for t in half["trials"]) < -0.1
    crossed = answer(room, *ROOM, "--support", "-0.6,0.75,-0.6 0.6,0.75,-1.4 0.6,0.75,-0.6 -0.6,0.75,-1.4")
    assert "crosses itself" in crossed["support"]["note"]
    tiny = answer(room, *ROOM, "--support", "0,0.75,-1 0.05,0.75,-1 0.05,0.75,-1.05 0,0.75,-1.05")
    assert (tiny["status"], tiny["score"], tiny["reason"]) == ("measured", 0.0, "no_placement_location")
    air = answer(room, *ROOM, "--support", "0,1.3,-0.7 0.5,1.3,-0.7 0.5,1.3,-1.2")
    assert (air["status"], air["score"], air["reason"]) == ("measured", 0.0, "no_support_surface")
    assert any("0.550 m below the polygon" in w for w in air["warnings"])
    with pytest.raises(ConfigError, match="no area"):
        raise call(room, *ROOM, "--support", "0,1,0 1,1,0 2,1,0").exception  # type: ignore[misc]
    with pytest.raises(UsageError, match="no support 'support_99'"):
        raise call(room, *ROOM, "--support", "99").exception  # type: ignore[misc]
    # The first view looks along the file's -z from z = 1, 0.85 m above the top: d m ahead and x m to the right is seen
    # at 0.5 + k x / d and 0.5 + k 0.85 / d, in half widths k = 1 / (2 tan(fov / 2)) of a square image.
    from spatialbench.types import load_protocol

    lens = load_protocol("happyworld-spatial-1").views.lens
    assert lens.width == lens.height
    k = 0.5 / math.tan(math.radians(lens.fov_deg) / 2)
    corners = [f"{0.5 + k * x / d:.6f},{0.5 + k * 0.85 / d:.6f}" for x, d in ((-0.3, 1.8), (0.3, 1.8), (0.3, 2.2),
                                                                             (-0.3, 2.2))]
    view = answer(room, *ROOM, "--support", " ".join(corners))
    assert view["support"]["source"] == "user"
    assert view["support"]["height"] == pytest.approx(-0.85, abs=2e-3)
    assert view["support"]["area"] == pytest.approx(0.6 * 0.4, rel=0.05)


def test_who_named_the_support_is_said_as_it_is(room: Path, tmp_path: Path) -> None:
    corners = [[-0.6, 0.75, -0.6], [0, 0.75, -0.6], [0, 0.75, -1.4], [-0.6, 0.75, -1.4]]
    (tmp_path / "case.yaml").write_text(f"id: half\nsupport: {{label: left, polygon: {corners}}}\n")
    short = (*ROOM, "--set", "placement.trials=1", "-o", tmp_path / "out")
    for more, source, words in ((("--case", tmp_path / "case.yaml"), "case", "left (named by the case"),
                                (("--support", " ".join(",".join(map(str, c)) for c in corners)), "user",
                                 "given (given by --support")):
        done = call(room, *short, *more)
        assert done.exit_code == 0, done.exception
        assert f"support: {words}" in done.stdout
        said = json.loads((tmp_path / "out" / "place.json").read_text())
        assert (said["support"]["source"], said["support_rule"]) == (source, "")
        assert said["supports"][0]["source"] == source


@pytest.mark.parametrize(("text", "error"), [
    ("1,2,3 4,5", "mixes corners"), ("1,2,x 1,2,3 4,5,6", "no polygon: could not convert string to float: 'x'"),
    ("0.1,0.1 0.2,0.2", "no polygon: a support polygon needs at least three corners"),
    ("2,0 3,0 3,1", "corner 1: Input should be less than or equal to 1"), ("0,0 1,0 1,7", "corner 3: .* equal to 1"),
    ("nan,0,0 1,0,0 1,1,0", "corner 1: .*finite")])
def test_corners_that_are_no_polygon(text: str, error: str) -> None:
    from spatialbench.runs.place import parse_support

    with pytest.raises(UsageError, match=error) as refused:
        parse_support(text)
    assert "pydantic" not in str(refused.value)


BAD = [
    ({"trials": None}, "trials"), ({"trials": []}, "trials"), ({"support_boundary": None}, "support_boundary"),
    ({"trials": [[0, 0, 0]]}, "trials.0"), ({"trials": [[[0]]]}, "trials.0"),
    ({"trials": [{"id": 0, "release_centre": [[0, 0, 1]], "surface_z": 0}]}, "release_centre"),
    ({"trials": [{"id": 0, "release_centre": [0, 0], "surface_z": 0}]}, "release_centre"),
    ({"trials": [{"id": 0, "release_centre": [0, 0, float("nan")], "surface_z": 0}]}, "release_centre"),
    ({"trials": [{"id": 0, "release_centre": [0, 0, 1], "surface_z": float("inf")}]}, "surface_z"),
    ({"trials": [{"id": 0, "release_centre": [0, 0, 1], "surface_z": 0, "quaternion_xyzw": [0, 0, 0, 2]}]}, "unit len"),
    ({"trials": [{"id": 4, "release_centre": [0, 0, 1], "surface_z": 0}] * 2}, "id 4 twice"),
    ({"trials": [{"id": 0}] * 10_001}, "10001 of them"),
    ({"support_boundary": [[0, 0]] * 10_001}, "10001 of them"),
    ({"support_boundary": [[0, 0], [1, 1], [2, 2]]}, "no area"),
    ({"support_boundary": [[0, 0], [1e-4, 0], [0, 1e-4]]}, "no area"),
    ({"support_boundary": [[0, 0], [float("nan"), 0], [0, 1]]}, "support_boundary"),
    ({"up": "w"}, "up"), ({"units": "furlong"}, "units"), ({"units": -1}, "units"), ({"dt": "1/0"}, "dt"),
    ({"dt": "0.3"}, "dt"), ({"dt": float("nan")}, "dt"), ({"steps": 10**9}, "steps"),
    ({"plate": {"diameter": -1}}, "plate_diameter"), ({"plate": {"mass": 99, "density": 1800}}, "mass"),
]


@pytest.mark.parametrize(("changes", "words"), BAD, ids=[w for _, w in BAD])
def test_a_bad_file_of_trials_is_refused_with_its_key(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    from spatialbench.runs.place_file import read_trials

    with pytest.raises(ConfigError, match=words):
        read_trials(trials(tmp_path / "t.json", **changes))


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, "\xff\xfe", "null"])
def test_a_file_that_is_no_json(tmp_path: Path, text: str) -> None:
    from spatialbench.runs.place_file import read_trials

    path = tmp_path / "t.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(ConfigError):
        read_trials(path)
    with pytest.raises(MissingInputError):
        read_trials(tmp_path / "none.json")
    with pytest.raises(MissingInputError):
        read_trials(tmp_path)


def test_a_bad_trial_is_named_and_not_poured_out(tmp_path: Path) -> None:
    from spatialbench.runs.place_file import read_trials

    good = {"id": 11, "release_centre": [0, 0, 1], "surface_z": 0, "expect": {"success": True}}
    for bad, words in (({**good, "surface_z": "high"}, ["trials.1 (id 11)", "'surface_z'", "(got 'high')"]),
                       ({k: v for k, v in good.items() if k != "surface_z"}, ["trials.1 (id 11)",
                                                                             "'surface_z' is missing"]),
                       ({**good, "quaternion_xyzw": [0, 0, 0, 2]}, ["(id 11)", "'quaternion_xyzw'", "[0, 0, 0, 2]"]),
                       ({**good, "id": "first"}, ["trials.1: key 'id'", "(got 'first')"])):
        with pytest.raises(ConfigError) as refused:
            read_trials(trials(tmp_path / "t.json", trials=[{**good, "id": 3}, bad]))
        for word in words:
            assert word in str(refused.value)
        assert "expect" not in str(refused.value)
        assert len(str(refused.value)) < len(str(tmp_path)) + 200


def test_the_note_about_another_mesh_compares_names_and_shows_them_plainly(tmp_path: Path) -> None:
    world, path = table(tmp_path / "table.obj"), tmp_path / "t.json"
    for mesh in ("/else/where/table.obj", "C:\\else\\table.obj", "table.obj"):
        assert answer(world, "--trials", trials(path, mesh=mesh, steps=1), "--workers", 0)["warnings"] == []
    done = call(world, "--trials", trials(path, mesh="\x1b[31mred.obj\r", steps=1), "--workers", 0,
                "-o", tmp_path / "out")
    assert "warning: the trials were made for ' [31mred.obj '" in done.stdout
    assert "\x1b" not in done.stdout


def test_nothing_is_cut_where_the_output_is_no_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    # The plate falls beside the table, and is measured from 59 km above.
    path = trials(tmp_path / "t.json", steps=1, mesh="a name of a mesh that is longer than forty columns are.obj",
                  trials=[{"id": 4, "release_centre": [5.0, 0.0, 0.75], "surface_z": 59348.25}])
    done = call(table(tmp_path / "table.obj"), "--trials", path, "--workers", 0, "-o", tmp_path / "out")
    assert done.exit_code == 0, done.exception
    (row,) = [line for line in done.stdout.splitlines() if line.startswith("    4")]
    # Its underside is 10 mm below its centre, which falls less than 0.1 mm in a step: 59348.25 - 0.74 m.
    assert row.split("  ") [2:3] == ["4"] and "dropped, outside" in row and " 59347510." in row
    assert "\u2026" not in done.stdout
    assert any("longer than forty columns are.obj'" in line for line in done.stdout.splitlines())


def test_a_boundary_that_crosses_itself_counts_with_a_word(tmp_path: Path) -> None:
    path = trials(tmp_path / "t.json", support_boundary=[[-0.6, -0.4], [0.6, 0.4], [0.6, -0.4], [-0.6, 0.4]],
                  steps=24, trials=[{"id": i, "release_centre": [x, y, 0.77], "surface_z": 0.75}
                                    for i, (x, y) in enumerate([(0.4, 0.0), (0.0, 0.3)])])
    found = answer(table(tmp_path / "table.obj"), "--trials", path, "--workers", 0)
    assert any("crosses itself" in w for w in found["warnings"])
    assert [t["reasons"] for t in found["trials"]] == [[], ["outside"]]


def test_settings_of_the_file(tmp_path: Path) -> None:
    from spatialbench.runs.place_file import read_trials
    from spatialbench.types import PlacementSettings

    s = read_trials(trials(tmp_path / "t.json", dt="1/500", steps=7, solver_iterations=9, scene_friction=0.3,
                           gravity=-1.6, limits={"drop": 0.2}, plate={"diameter": 0.2, "thickness": 0.01, "mass": 1.0})
                    ).settings
    assert (s.steps_per_second, s.steps, s.solver_iterations, s.scene_friction) == (500, 7, 9, 0.3)
    assert (s.gravity, s.max_drop, s.max_outside) == (1.6, 0.2, 0.02)
    assert s.plate_density == pytest.approx(1.0 / (math.pi * 0.1**2 * 0.01))
    assert read_trials(trials(tmp_path / "t.json")).settings == PlacementSettings()


def test_a_world_that_cannot_be_placed_on(tmp_path: Path) -> None:
    path = trials(tmp_path / "t.json")
    bad = {"nan": "v 0 0 0\nv nan 1 0\nv 1 1 0\nf 1 2 3\n", "range": "v 0 0 0\nv 1 0 0\nv 1 1 0\nf 1 2 9\n",
           "flat": "v 0 0 0\nv 1 0 0\nv 2 0 0\nf 1 2 3\n", "empty": ""}
    for name, text in bad.items():
        (tmp_path / f"{name}.obj").write_text(text)
        done = call(tmp_path / f"{name}.obj", "--trials", path)
        assert isinstance(done.exception, InputError), name
    assert isinstance(call(tmp_path / "flat.obj", "--trials", path).exception, EmptyWorldError)
    assert isinstance(call(tmp_path / "none.obj", "--trials", path).exception, MissingInputError)
    assert isinstance(call(table(tmp_path / "table.obj"), "--trials", path, "--up", "+Y").exception, UsageError)
    assert isinstance(call(table(tmp_path / "table.obj"), "--trials", path, "--support", "0").exception, UsageError)
    splats = call(table(tmp_path / "table.obj"), "--trials", path, "--max-splats", "3").exception
    assert isinstance(splats, UsageError)
    assert splats.where == "--max-splats"


@pytest.mark.parametrize(("arguments", "kind"), [
    (("none.obj",), "MissingInputError"), (("table.obj", "--support", "0,0"), "UsageError"),
    (("table.obj", "--protocol", "none"), "UsageError"), (("table.obj", "--object", "fork"), "UsageError"),
    (("table.obj", "-o", "table.obj"), "UsageError")])
def test_a_refusal_is_json_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...],
                               kind: str) -> None:
    monkeypatch.chdir(tmp_path)
    table(tmp_path / "table.obj")
    done = call(*arguments, "--json")
    said = json.loads(done.stdout)["error"]
    assert said["class"] == kind == type(done.exception).__name__
    assert said["message"] == str(done.exception)


def test_a_urdf_becomes_one_body(tmp_path: Path) -> None:
    from spatialbench.runs.place_object import read_object
    from spatialbench.types import PlacementSettings

    handle = box(-5, -10, -20, 5, 10, 20)
    write_obj(tmp_path / "handle.obj", *handle)
    (tmp_path / "cup.urdf").write_text(CUP)
    o = read_object(str(tmp_path / "cup.urdf"), PlacementSettings())
    assert (o.name, o.shape, o.benchmark) == ("cup", "hull", False)
    assert o.mass == pytest.approx(0.3)
    # Centre of mass: (0.2 (0, 0, 0.01) + 0.1 (0.06, 0, 0.04)) / 0.3. The handle, turned by 90 degrees, is 20 mm along x
    # and reaches x = 0.07; the cylinder stands on z = 0.
    centre = np.array([0.02, 0.0, 0.02])
    assert o.hull[:, 2].min() == pytest.approx(-centre[2], abs=1e-9)
    assert o.hull[:, 0].max() == pytest.approx(0.07 - centre[0], abs=1e-6)
    assert o.hull[:, 2].max() == pytest.approx(0.1 - centre[2], abs=1e-9)
    assert "Z up as URDF files are" in o.note
    turned = read_object(str(tmp_path / "cup.urdf"), PlacementSettings(), up="y")  # (x, y, z) -> (x, -z, y)
    assert turned.mass == o.mass
    np.testing.assert_allclose(sorted((turned.hull @ [[1, 0, 0], [0, 0, -1], [0, 1, 0]]).tolist()),
                               sorted(o.hull.tolist()), atol=1e-9)
    found = answer(table(tmp_path / "table.obj"), "--trials", trials(tmp_path / "t.json", trials=[
        {"id": 0, "release_centre": [0, 0, 0.75 + 0.01 + 0.02], "surface_z": 0.75}]), "--workers", 0,
        "--object", tmp_path / "cup.urdf")
    assert found["trials"][0]["success"] is True
    assert found["object"] == "cup"


@pytest.mark.parametrize(("text", "error"), [
    (CUP.replace("package://handle.obj", "../handle.obj"), "leads out of"),
    (CUP.replace("package://handle.obj", "/etc/passwd"), "absolute"),
    (CUP.replace('radius="0.05"', 'radius="nan"'), "finite"), (CUP.replace("<robot", "<rabbit").replace(
        "</robot", "</rabbit"), "no URDF"),
    ('<!DOCTYPE r [<!ENTITY a "b">]>' + CUP[22:], "entities"), (CUP[:60], "XML"),
    (CUP.replace('child link="b"', 'child link="a"'), "circle"),
    ('<robot name="r"><link name="a"/></robot>', "no visual"),
    (CUP.replace('length="0.1"', 'length="100"'), "measures 100"), ("<robot/>", "0 links")])
def test_a_urdf_that_is_refused(tmp_path: Path, text: str, error: str) -> None:
    from spatialbench.errors import SpatialbenchError
    from spatialbench.runs.place_object import read_object
    from spatialbench.types import PlacementSettings

    (tmp_path / "in").mkdir()
    write_obj(tmp_path / "in" / "handle.obj", *box(-5, -10, -20, 5, 10, 20))
    (tmp_path / "in" / "cup.urdf").write_text(text)
    with pytest.raises(SpatialbenchError, match=error):
        read_object(str(tmp_path / "in" / "cup.urdf"), PlacementSettings())


def test_an_obj_stands_on_its_y_axis_and_weighs_what_its_hull_holds(tmp_path: Path) -> None:
    from spatialbench.runs.place_object import read_object
    from spatialbench.types import PlacementSettings

    v, f = join(box(0, 0, 0, 0.1, 0.3, 0.2))  # 0.3 m along the file's Y, which is up
    o = read_object(str(write_obj(tmp_path / "box.obj", v, f)), PlacementSettings())
    assert np.ptp(o.hull, axis=0) == pytest.approx([0.1, 0.2, 0.3])
    assert o.mass == pytest.approx(500 * 0.1 * 0.2 * 0.3)
    assert read_object(str(tmp_path / "box.obj"), PlacementSettings(), mass=2.0).mass == 2.0
    assert "Y up as obj files are" in o.note
    lying = read_object(str(tmp_path / "box.obj"), PlacementSettings(), up="z")
    assert np.ptp(lying.hull, axis=0) == pytest.approx([0.1, 0.3, 0.2])
    assert "Z up by --object-up" in lying.note
    assert read_object(str(tmp_path / "box.obj"), PlacementSettings(), up="y").hull == pytest.approx(o.hull)
    with pytest.raises(MissingInputError):
        read_object(str(tmp_path / "none.obj"), PlacementSettings())
    with pytest.raises(UsageError, match="fixed"):
        read_object("mug", PlacementSettings(), mass=2.0)
    with pytest.raises(UsageError, match="--object-up: 'mug'"):
        read_object("mug", PlacementSettings(), up="z")


def test_a_flat_object_lies_with_the_up_axis_that_is_said(tmp_path: Path) -> None:
    v, f = join(box(-0.1, -0.1, 0, 0.1, 0.1, 0.02))  # 2 cm thick along the file's Z
    flat = write_obj(tmp_path / "flat.obj", v, f)
    # Its centre is 10 mm above its underside, and 100 mm when it stands on edge: it then begins inside of the table.
    path = trials(tmp_path / "t.json", steps=240,
                  trials=[{"id": 0, "release_centre": [0, 0, 0.75 + 0.01 + 0.01], "surface_z": 0.75}])
    lying = answer(table(tmp_path / "table.obj"), "--trials", path, "--workers", 0, "--object", flat,
                   "--object-up", "z")
    assert lying["trials"][0]["success"] is True
    assert lying["trials"][0]["rest_centre"][2] == pytest.approx(0.76, abs=1e-3)
    assert "Z up" in lying["object_note"]
    on_edge = answer(table(tmp_path / "table.obj"), "--trials", path, "--workers", 0, "--object", flat)
    assert "initial_penetration" in on_edge["trials"][0]["reasons"]
    assert "Y up" in on_edge["object_note"]
