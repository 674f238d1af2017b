"""``spatialbench inspect``: words, JSON, and a sheet of four upright views and a plan."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from PIL import Image

from spatialbench.cli.main import cli
from spatialbench.errors import ConfigError, InputError, UsageError
from spatialbench.scene.splats.write_ply import write_splat_ply
from spatialbench.types import TriangleMesh
from tests.analytic import EYE, Soup, box_room, textured, write_glb
from tests.splats import splat_mesh
from tests.worlds import moved

QUICK = """\
extends: happyworld-spatial-1-fast
id: quick
views: {ring_frames: 4, lens: {width: 32, height: 32, fov_deg: 75.0}, probe_size: 16}
finding: {min_surfels: 2000, max_surfels: 2000, surfels_per_m2: 50, voxel: 0.3}
"""


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("protocol") / "quick.yaml"
    path.write_text(QUICK)
    return str(path)


def call(quick: str, *arguments: object) -> Result:
    return CliRunner().invoke(cli, ["inspect", "--protocol", quick, *map(str, arguments)])


def found_in(done: Result) -> dict[str, Any]:
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    assert list(found["decisions"])[:6] == ["frame", "up", "unit", "opacity", "camera", "scale"]
    return found


@pytest.fixture
def tower(tmp_path: Path) -> Path:
    """A wide dark foot with a narrow bright tower on it: upright, the picture's upper half is bright."""
    dark, bright = Soup(), Soup()
    dark.box((-2, -2, 0), (2, 2, 0.5))
    bright.box((-0.5, -0.5, 0.5), (0.5, 0.5, 4))
    a = textured(dark.mesh(), np.full((2, 2, 4), (40, 0, 0, 255), np.uint8))
    b = textured(bright.mesh(), np.full((2, 2, 4), (0, 255, 0, 255), np.uint8))
    assert a.uv is not None
    assert b.uv is not None
    both = TriangleMesh(np.concatenate([a.vertices, b.vertices]),
                        np.concatenate([a.faces, b.faces + len(a.vertices)]),
                        np.repeat(np.int32([0, 1]), [len(a.faces), len(b.faces)]), a.materials + b.materials,
                        np.concatenate([a.uv, b.uv]))
    return write_glb(tmp_path / "tower.glb", both)


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """6 x 5 x 2.7 m, Z up; in the file Y up."""
    return write_glb(tmp_path_factory.mktemp("room") / "room.glb", box_room())


def test_json_names_what_was_read_and_decided(tower: Path, quick: str) -> None:
    found = found_in(call(quick, tower, "--json"))
    assert (found["kind"], found["format"], found["n_faces"]) == ("mesh", "glb", 24)
    # The builder's Z up is the file's Y up.
    assert np.allclose(found["bounds"], [[-2, 0, -2], [2, 4, 2]])
    up = found["decisions"]["up"]
    assert (up["value"], up["source"], up["confidence"]) == ([0, 1, 0], "prior", 0.6)
    assert up["note"].startswith("what glb files are by convention")
    assert found["decisions"]["opacity"]["source"] == "none"
    assert found["repairs"] == []
    assert found["collision"] == {"geometry": "mesh", "faces": 24}


def test_a_room_is_anchored_as_its_own_lengths_say(room: Path, quick: str) -> None:
    """Eyes 1.6 m above the floor of a metric room: the rule's metre is the file's, and nine rays of 1.6."""
    eye = f"{EYE[0]},{EYE[2]},{-EYE[1]}"
    found = found_in(call(quick, room, "--camera", eye, "--forward", "0,0,-1", "--json"))
    assert found["decisions"]["camera"]["source"] == "user"
    scale = found["scale"]
    assert scale["branch"] == "floor"
    assert scale["ray_distances"] == pytest.approx([1.6] * 9)
    assert (scale["rays_hit"], scale["median_distance"], scale["factor"]) == (9, pytest.approx(1.6), pytest.approx(1))
    tilt = [-0.16, 0, 0.16]  # tangents of 0.1
    assert np.allclose(scale["ray_points"], [[x, y, -1.6] for x in tilt for y in tilt])
    assert found["world"]["size"] == pytest.approx([6, 5, 2.7])
    assert (found["world"]["ground_z"], found["world"]["ground_assumed"]) == (pytest.approx(-1.6), False)
    assert [g["name"] for g in found["gates"]] == ["no_interior", "too_blurry_for_geometry", "camera_inside_geometry",
                                                   "scale_doubtful"]
    assert not any(g["raised"] for g in found["gates"])
    assert found["estimates"]["up"]
    assert found["estimates"]["cameras"]


def test_what_the_user_says_stands_above_the_case(room: Path, quick: str, tmp_path: Path) -> None:
    case = tmp_path / "room.yaml"
    case.write_text("id: room\nup: -Y\nunit_m: 2.0\nopacity: activated\n")
    said = found_in(call(quick, room, "--case", case, "--json"))["decisions"]
    assert (said["up"]["source"], said["up"]["value"]) == ("case", [0, -1, 0])
    assert (said["unit"]["source"], said["unit"]["value"]) == ("case", 2.0)
    told = found_in(call(quick, room, "--case", case, "--up", "+Y", "--unit", 3, "--scale", 0.5, "--json"))
    for key, value in (("up", [0, 1, 0]), ("unit", 3.0), ("scale", 0.5)):
        assert (told["decisions"][key]["source"], told["decisions"][key]["value"]) == ("user", value)
    assert told["world"]["size"][2] == pytest.approx(0.5 * 2.7)


@pytest.fixture(scope="module")
def stored_as_they_are(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A room of splats whose opacities were written as they are where logits belong: all lie within [0, 1]."""
    splats = splat_mesh(moved(box_room(), np.eye(3), (0, 0, -1.6)), 0.2)
    logits = replace(splats, opacities=(1 / (1 + np.exp(-splats.opacities.astype(np.float64)))).astype(np.float32))
    path = tmp_path_factory.mktemp("splats") / "room.ply"
    write_splat_ply(logits, path)
    return path


@pytest.mark.parametrize(("case", "options", "source", "value"), [
    ("", (), "prior", "logit"),
    ("profile: hyworld2", (), "profile", "activated"),
    ("profile: hyworld2\nopacity: logit", (), "case", "logit"),
    ("opacity: activated", (), "case", "activated"),
    ("opacity: activated", ("--opacity", "logit"), "user", "logit"),
    ("profile: hyworld2", ("--profile", "marble"), "prior", "logit"),
    ("opacity: logit", ("--profile", "hyworld2"), "case", "logit"),
])
def test_who_says_how_opacities_are_stored(case: str, options: tuple[str, ...], source: str, value: str, quick: str,
                                           stored_as_they_are: Path, tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(f"id: c\nup: +Z\n{case}\n")
    found = found_in(call(quick, stored_as_they_are, "--case", path, *options, "--json"))
    opacity = found["decisions"]["opacity"]
    assert (opacity["source"], opacity["value"]) == (source, value)
    assert found["decisions"]["up"]["source"] == "case"
    assert found["collision"] == {"geometry": "fused_mesh", "faces": None}


def test_the_sheet_stands_upright_by_the_decided_up(tower: Path, tmp_path: Path, quick: str) -> None:
    for up, sign in (("+Y", 1), ("-Y", -1)):
        done = call(quick, tower, "--up", up, "-o", tmp_path / up)
        assert done.exit_code == 0, done.output
        sheet = np.asarray(Image.open(tmp_path / up / "sheet.png")).astype(int)
        assert sheet.shape == (768, 1536, 3)
        for view in (sheet[:384, :384], sheet[:384, 384:768], sheet[384:, 384:768], sheet[384:, :384]):
            green = np.nonzero((view[..., 1] > 200) & (view[..., 0] < 60))[0]
            red = np.nonzero((view[..., 0] < 60) & (view[..., 1] < 20))[0]
            assert len(green) > 500
            assert len(red) > 500
            assert sign * (red.mean() - green.mean()) > 40, "the tower stands on its foot"
        assert json.loads((tmp_path / up / "inspect.json").read_text())["decisions"]["up"]["value"][1] == sign


def test_a_refusal_is_json_too(tmp_path: Path, quick: str) -> None:
    (tmp_path / "page.glb").write_text("<!DOCTYPE html><html></html>")
    done = call(quick, tmp_path / "page.glb", "--json")
    assert isinstance(done.exception, InputError)
    error = json.loads(done.stdout)["error"]
    assert error["class"] == "UnsupportedFormatError"
    assert "HTML" in error["message"]
    assert "page.glb" in error["where"]


def test_what_a_person_says_wrongly_is_refused(room: Path, tmp_path: Path, quick: str) -> None:
    case = tmp_path / "c.yaml"
    case.write_text("id: c\nprofile: marbel\n")
    for options, kind, word in ((("--case", case), ConfigError, "did you mean 'marble'"),
                                (("--camera", "0,1,0", "--forward", "0,1,0"), UsageError, "straight up or down"),
                                (("--scale", "1e30"), UsageError, "plausible")):
        done = call(quick, room, *options, "--json")
        assert isinstance(done.exception, kind)
        assert word in str(done.exception)


def _cloud(path: Path, rows: list[tuple[float, ...]]) -> Path:
    head = (f"ply\nformat ascii 1.0\nelement vertex {len(rows)}\nproperty float x\nproperty float y\nproperty float z\n"
            "property uchar red\nproperty uchar green\nproperty uchar blue\nend_header\n")
    path.write_text(head + "".join(" ".join(map(str, r)) + "\n" for r in rows))
    return path


def test_a_cloud_of_points_is_inspected_as_far_as_it_goes(tmp_path: Path, quick: str) -> None:
    rows = [(x / 10, 0.0, z / 10, 200, 0, 0) for x in range(20) for z in range(30)]
    path = _cloud(tmp_path / "cloud.ply", [*rows, (float("nan"), 0.0, 0.0, 0, 0, 0)])
    found = found_in(call(quick, path, "--json", "--up", "+Y", "-o", tmp_path / "out"))
    assert (found["kind"], found["n_vertices"], found["n_faces"]) == ("points", 600, 0)
    assert np.allclose(found["bounds"], [[0, 0, 0], [1.9, 0, 2.9]])
    assert [(r["name"], r["count"]) for r in found["repairs"]] == [("points_not_finite", 1)]
    assert found["decisions"]["up"]["source"] == "user"
    assert {found["decisions"][k]["source"] for k in ("frame", "unit", "camera", "scale", "opacity")} == {"none"}
    assert any("not anchored" in w for w in found["warnings"])
    assert (found["world"], found["gates"], found["collision"]) == (None, [], None)
    sheet = np.asarray(Image.open(tmp_path / "out" / "sheet.png")).astype(int)
    assert ((sheet[..., 0] > 150) & (sheet[..., 1] < 80)).mean() > 0.1, "the red plane is seen"


def test_points_cut_off_or_without_a_finite_one_are_refused(tmp_path: Path, quick: str) -> None:
    bad = _cloud(tmp_path / "nan.ply", [(float("nan"), 0, 0, 0, 0, 0)])
    assert json.loads(call(quick, bad, "--json").stdout)["error"]["class"] == "EmptyWorldError"
    cut = _cloud(tmp_path / "cut.ply", [(0, 0, 0, 0, 0, 0)] * 3)
    cut.write_text(cut.read_text().replace("vertex 3", "vertex 30000000"))
    assert json.loads(call(quick, cut, "--json").stdout)["error"]["class"] == "CorruptInputError"


def test_what_cannot_be_anchored_keeps_the_decisions_it_has(tmp_path: Path, quick: str) -> None:
    splats = splat_mesh(box_room(), 0.5)
    path = tmp_path / "faint.ply"
    write_splat_ply(replace(splats, opacities=np.full(len(splats), 1e-4, np.float32)), path)
    found = found_in(call(quick, path, "--json", "--camera", "1,2,3", "--scale", "2"))
    assert found["n_splats"] == len(splats)
    assert any("not anchored" in w and "no splat is opaque enough" in w for w in found["warnings"])
    assert found["decisions"]["camera"]["value"]["position"] == [1, 2, 3]
    assert (found["decisions"]["scale"]["source"], found["decisions"]["frame"]["source"]) == ("user", "none")
    assert (found["decisions"]["up"]["source"], found["decisions"]["opacity"]["value"]) == ("prior", "logit")


def test_the_words_are_aligned_and_name_everything(room: Path, quick: str) -> None:
    done = call(quick, room)
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "room.glb: glb, 12 faces, 8 vertices, 0 textures"
    heads = [line[:10].strip() for line in lines[1:]]
    assert heads[:8] == ["bounds", "world", "frame", "up", "unit", "opacity", "camera", "scale"]
    assert {"rays", "gate", "up?", "camera?", "collision", "file"} <= set(heads)
    sources = [line.index("  by ") for line in lines if line.startswith(("up ", "unit", "opacity", "camera ", "scale"))]
    assert len(set(sources)) == 1


def test_real_splats_are_inspected_and_drawn(data_dir: Path, tmp_path: Path, quick: str) -> None:
    kitchen = data_dir / "scenes" / "splats" / "marble_kitchen" / "scene.spz"
    found = found_in(call(quick, kitchen, "--json", "-o", tmp_path / "k"))
    assert (found["kind"], found["n_splats"], found["sh_degree"]) == ("splats", 213_944, 0)
    assert found["decisions"]["up"]["value"] == [0, 1, 0]
    assert found["decisions"]["unit"]["value"] is None
    sheet = np.asarray(Image.open(tmp_path / "k" / "sheet.png")).astype(int)
    ground = np.array([0.93, 0.93, 0.92]) * 255
    for part in (sheet[:, :768], sheet[:, 768:]):
        covered = (np.abs(part - ground).max(axis=2) > 12).mean()
        assert 0.15 < covered < 0.75, "the kitchen fills a good part, and floaters do not shrink it"
        teal = (part[..., 1] - part[..., 0] > 40) & (part[..., 2] - part[..., 0] > 40)
        assert teal.mean() > 0.01, "its teal cabinets are teal"


def test_open_and_odd_edges_are_in_the_words(quick: str, tmp_path: Path) -> None:
    """A tetrahedron is closed: no word. Without one face three edges are open; a fin on an edge makes one of three
    faces, with two open edges of its own; a face turned round is wound against its three neighbours."""
    corners = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nv 2 2 2\n"
    faces = ["f 1 3 2", "f 1 2 4", "f 2 3 4", "f 3 1 4"]
    for name, lines, row in (("whole", faces, None), ("open", faces[:3], "3 open, of 6"),
                             ("fin", [*faces, "f 1 2 5"], "2 open, 1 of three faces or more, of 8"),
                             ("turned", [*faces[:3], "f 1 3 4"], "3 of faces wound against each other, of 6")):
        path = tmp_path / f"{name}.obj"
        path.write_text(corners + "\n".join(lines) + "\n")
        done = call(quick, path)
        assert done.exit_code == 0, done.output
        rows = [line for line in done.stdout.splitlines() if line.startswith("edges")]
        assert [r.split(None, 1)[1] for r in rows] == ([] if row is None else [row])


def test_millimetres_are_not_asked_for_where_the_unit_is_said(quick: str, data_dir: Path) -> None:
    """Case B19: 4 m of millimetres, in a format without a unit."""
    path = data_dir / "reports/import/solid_binary_mm.stl"
    assert any("say --unit 0.001" in w for w in found_in(call(quick, path, "--json"))["warnings"])
    for said in (("--unit", 0.001), ("--scale", 0.001)):
        assert not any("millimetres" in w for w in found_in(call(quick, path, *said, "--json"))["warnings"])
