"""``spatialbench navmesh``: words, JSON, picture, files, and every refusal."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import trimesh
from click.testing import CliRunner, Result
from PIL import Image

from spatialbench.cli.navmesh import navmesh
from spatialbench.errors import CorruptInputError, EmptyWorldError, MissingInputError, UsageError
from spatialbench.physics.navmesh import navmesh_backend_status
from spatialbench.report.raster import AREA_COLORS, FOOTPRINT_COLOR
from tests.analytic import Soup, write_glb
from tests.splats import splat_mesh

KEYS = ["profile", "backend", "attempts", "cell_size", "n_polygons", "planar_area", "n_components",
        "largest_component_area", "footprint_area", "navigable_ratio", "reason", "warnings"]
PROFILES = {"habitat-0.3.3": "habitat_0_3_3", "habitat-0.3.4": "habitat_0_3_4"}
ORACLE = ["ceiling_190", "door_015", "door_090", "flipped_no_ceiling", "islands", "low_ceiling_140", "noisy_floor_02",
          "ramp_40", "room_table", "stairs_015"]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(navmesh, [str(a) for a in arguments])


def found(*arguments: object) -> dict:
    done = run(*arguments, "--json")
    assert done.exit_code == 0, done.exception
    answer: dict = json.loads(done.stdout)
    return answer


def pixels(out: Path) -> np.ndarray:
    """The plan's part of the picture, without the legend."""
    with Image.open(out / "navmesh.png") as picture:
        return np.asarray(picture.convert("RGB")).astype(int)[:, :1048]


def obj(path: Path, vertices: list, faces: list) -> Path:
    lines = ["v {} {} {}".format(*v) for v in vertices] + ["f " + " ".join(str(i + 1) for i in f) for f in faces]
    path.write_text("\n".join(lines) + "\n")
    return path


def slab(path: Path, width: float, depth: float, up: str = "z") -> Path:
    flat = [(0, 0), (width, 0), (width, depth), (0, depth)]
    return obj(path, [(x, y, 0) if up == "z" else (x, 0, -y) for x, y in flat], [(0, 1, 2, 3)])


def test_the_keys_and_the_numbers_of_an_open_slab(tmp_path: Path) -> None:
    """It loses 0.15 m on each side (spec/navmesh.md section 6); its footprint is whole."""
    answer = found(slab(tmp_path / "slab.obj", 4, 3), "--up", "z")
    assert list(answer) == KEYS
    assert answer["attempts"] == [{"cell_size": 0.05, "ok": True, "stage": "", "reason": "", "cause": ""}]
    assert (answer["profile"], answer["cell_size"], answer["n_polygons"], answer["n_components"]) == \
        ("habitat-0.3.4", 0.05, 1, 1)
    assert answer["backend"].startswith("recast-wasm ")
    assert answer["largest_component_area"] == pytest.approx(3.7 * 2.7, abs=1e-9)
    assert answer["planar_area"] == pytest.approx(3.7 * 2.7, abs=1e-5)
    # 16 samples a cell leave e^-16 of the cells out, or none of 4,800.
    assert answer["footprint_area"] == pytest.approx(12.0, abs=0.0051)
    assert answer["navigable_ratio"] == pytest.approx(3.7 * 2.7 / 12, abs=0.001)
    assert answer["reason"] == ""


def test_up_is_the_files_or_what_is_said(tmp_path: Path) -> None:
    y = slab(tmp_path / "y.obj", 4, 3, "y")
    assert found(y)["largest_component_area"] == pytest.approx(3.7 * 2.7, abs=1e-9)
    lying = found(y, "--up", "z")  # a wall
    assert (lying["navigable_ratio"], lying["cell_size"]) == (0.0, None)
    assert lying["reason"].startswith("no_floor: ")
    s = Soup()
    s.quad((0, 0, 0), (4, 0, 0), (4, 3, 0), (0, 3, 0))
    assert found(write_glb(tmp_path / "y.glb", s.mesh()))["largest_component_area"] == pytest.approx(9.99, abs=1e-9)


def test_the_mesh_is_neither_moved_nor_scaled(tmp_path: Path) -> None:
    path = obj(tmp_path / "far.obj", [(100, 50, 7), (104, 50, 7), (104, 53, 7), (100, 53, 7)], [(0, 1, 2, 3)])
    answer = found(path, "--up", "z", "--from", "100.5,50.5", "--to", "103.5,50.5")
    assert answer["path"]["length"] == pytest.approx(3.0, abs=1e-5)
    # The floor at the bottom of its box fills one voxel of 0.2 m (spec section 6).
    np.testing.assert_allclose(answer["path"]["points"], [[100.5, 50.5, 7.2], [103.5, 50.5, 7.2]], atol=1e-5)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", ORACLE)
def test_the_oracles_numbers(data_dir: Path, name: str, profile: str) -> None:
    folder = data_dir / "oracle" / "navmesh"
    want = json.loads((folder / f"{name}.json").read_text())["profiles"][PROFILES[profile]]
    answer = found(folder / f"{name}.obj", "--up", "y", "--profile", profile)
    assert answer["profile"] == profile
    assert answer["cell_size"] == want["final_cell_size"]
    assert [a["ok"] for a in answer["attempts"]] == [a["ok"] for a in want["attempts"]]
    assert answer["navigable_ratio"] == pytest.approx(want["navigable_ratio"]["world0"], abs=0.002)
    if answer["cell_size"] is not None:
        last = want["attempts"][-1]
        assert answer["n_polygons"] == last["npolys"]
        assert answer["planar_area"] == pytest.approx(last["planar_area"], rel=1e-5)
        assert answer["n_components"] == last["world0"]["components"]
        assert answer["largest_component_area"] == pytest.approx(last["world0"]["largest_area"], rel=1e-4)


@pytest.mark.parametrize("profile", PROFILES)
def test_case_b43_a_beam_at_one_metre_parts_the_room(data_dir: Path, profile: str) -> None:
    beam = data_dir / "reports" / "navmesh" / "beam_1m.obj"
    answer = found(beam, "--up", "z", "--profile", profile)
    assert answer["n_components"] == 2
    assert answer["largest_component_area"] == pytest.approx(9.065, abs=1e-9)
    assert answer["navigable_ratio"] == pytest.approx(0.369962, abs=0.002)
    low = np.array(trimesh.load(beam, process=False).bounds)[0]
    across = found(beam, "--up", "z", "--from", f"{low[0] + 0.5},{low[1] + 0.5}", "--to",
                   f"{-low[0] - 0.5},{-low[1] - 0.5}")["path"]
    assert (across["length"], across["points"]) == (None, [])
    assert across["reason"] == "start and goal are not connected"


@pytest.mark.skipif(not navmesh_backend_status("recast-system")[0], reason="needs Debian's librecast1")
def test_the_second_backend_says_the_same(tmp_path: Path) -> None:
    path = slab(tmp_path / "slab.obj", 4, 3)
    ours, theirs = (found(path, "--up", "z", "--backend", b) for b in ("recast", "recast-system"))
    assert theirs.pop("backend") == "recast-system (librecast 1.5)"
    del ours["backend"]
    assert ours == theirs


@pytest.fixture
def two_pieces(tmp_path: Path) -> Path:
    """A floor of 4 x 3 m and one of 2 x 2 m beside it, 1 m apart, Z up."""
    v = [(0, 0, 0), (4, 0, 0), (4, 3, 0), (0, 3, 0), (5, 0, 0), (7, 0, 0), (7, 2, 0), (5, 2, 0)]
    return obj(tmp_path / "two.obj", v, [(0, 1, 2, 3), (4, 5, 6, 7)])


def test_words_and_files(two_pieces: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run(two_pieces, "--up", "z", "-o", out, "--from", "0.5,0.5", "--to", "3.5,2.5")
    assert done.exit_code == 0, done.exception
    for words in ("two.obj: Z up, habitat-0.3.4 by recast-wasm", "0.05 m: built", "components: 2 (9.990, 2.890 m2)",
                  "ratio:      0.62", f"path:       {math.hypot(3, 2):.3f} m over 2 points", "navmesh.png"):
        assert words in done.stdout, (words, done.stdout)
    assert {p.name for p in out.iterdir()} == {"navmesh.png", "navmesh.glb", "navmesh.obj", "navmesh.json"}
    answer = json.loads((out / "navmesh.json").read_text())
    assert answer["path"]["length"] == pytest.approx(math.hypot(3, 2), abs=1e-6)

    polygons = trimesh.load(out / "navmesh.obj", process=False, force="mesh")
    assert polygons.area == pytest.approx(answer["planar_area"], rel=1e-6)  # flat floors
    np.testing.assert_allclose(polygons.bounds, [[0.15, 0.15, 0.2], [6.85, 2.85, 0.2]], atol=1e-5)
    assert "g component_1" in (out / "navmesh.obj").read_text()
    scene = trimesh.load(out / "navmesh.glb")
    np.testing.assert_allclose(scene.bounds, [[0.15, 0.2, -2.85], [6.85, 0.2, -0.15]], atol=1e-5)
    assert sorted(round(g.area, 3) for g in scene.geometry.values()) == [2.89, 9.99]

    plan = pixels(out)

    def share(colour: tuple[int, ...]) -> float:
        """Of the plan in that colour laid over paper."""
        on_paper = np.array(colour[:3]) * colour[3] / 255 + np.array([250, 250, 248]) * (1 - colour[3] / 255)
        return float((np.abs(plan - on_paper).max(axis=2) < 6).mean())
    # 7 m are 1000 pixels; the path and its ends lie on the largest component.
    per_m2 = (1000 / 7) ** 2 / (plan.shape[0] * plan.shape[1])
    assert share(AREA_COLORS[0]) == pytest.approx(9.99 * per_m2, rel=0.03)
    assert share(AREA_COLORS[1]) == pytest.approx(2.89 * per_m2, rel=0.02)
    path = np.argwhere(np.abs(plan - [30, 60, 200]).max(axis=2) < 40)
    # From (0.5, 0.5) to (3.5, 2.5) of a picture whose top is y = 3: rows fall with y.
    (top, right), (bottom, left) = path[path[:, 0].argmin()], path[path[:, 0].argmax()]
    assert abs(left - (24 + 0.5 * 1000 / 7)) < 10
    assert abs(right - (24 + 3.5 * 1000 / 7)) < 10
    assert abs(top - (24 + 0.5 * 1000 / 7)) < 10
    assert abs(bottom - (24 + 2.5 * 1000 / 7)) < 10


def colour_at(plan: np.ndarray, x: float, y: float, x0: float, y1: float, metre: float) -> np.ndarray:
    """Of the picture of a Z-up mesh whose plan begins at (x0, y1), with so many pixels to a metre."""
    return plan[round(24 + (y1 - y) * metre), round(24 + (x - x0) * metre)]


def on_paper(colour: tuple[int, ...]) -> np.ndarray:
    return np.array(colour[:3]) * colour[3] / 255 + np.array([250, 250, 248]) * (1 - colour[3] / 255)


def test_each_colour_of_the_picture_is_in_the_legend_once(tmp_path: Path) -> None:
    """Seven islands, 1 m apart and ever smaller: four with colours of their own, three in the neutral one."""
    widths = [3.0 - 0.2 * k for k in range(7)]
    left = [sum(widths[:k]) + k for k in range(7)]
    v = [(x + a * w, 2.0 * b, 0) for x, w in zip(left, widths, strict=True)
         for a, b in ((0, 0), (1, 0), (1, 1), (0, 1))]
    path = obj(tmp_path / "islands.obj", v, [tuple(range(4 * k, 4 * k + 4)) for k in range(7)])
    done = run(path, "--up", "z", "-o", tmp_path / "o", "--json")
    assert done.exit_code == 0, done.exception
    metre = 1000 / (left[-1] + widths[-1])
    plan = pixels(tmp_path / "o")
    seen = [colour_at(plan, x + w / 2, 1.0, 0.0, 2.0, metre) for x, w in zip(left, widths, strict=True)]
    for k, colour in enumerate(AREA_COLORS):
        np.testing.assert_allclose(seen[k], on_paper(colour), atol=2)
    assert (seen[4] == seen[5]).all() and (seen[5] == seen[6]).all()
    known = [on_paper(c) for c in (*AREA_COLORS, FOOTPRINT_COLOR)]
    assert min(np.abs(seen[4] - c).max() for c in known) > 25
    with Image.open(tmp_path / "o" / "navmesh.png") as picture:
        legend = np.asarray(picture.convert("RGB")).astype(int)[:, 1048:]
    for swatch in (*seen[:5], on_paper(FOOTPRINT_COLOR)):
        assert (np.abs(legend - swatch).max(axis=2) < 2).sum() > 200, "a swatch of 21 x 13 pixels"


def test_start_and_goal_are_drawn_where_there_is_no_path(two_pieces: Path, tmp_path: Path) -> None:
    done = run(two_pieces, "--up", "z", "-o", tmp_path / "o", "--from", "0.5,0.5", "--to", "6,1")
    assert "path:       start and goal are not connected" in done.stdout
    plan, metre = pixels(tmp_path / "o"), 1000 / 7
    np.testing.assert_allclose(colour_at(plan, 0.5, 0.5, 0.0, 3.0, metre), [250, 250, 248], atol=2)  # a white middle
    np.testing.assert_allclose(colour_at(plan, 6.0, 1.0, 0.0, 3.0, metre), [30, 60, 200], atol=2)
    # No line: blue are the two marks alone, 6 pixels in radius.
    blue = np.argwhere(np.abs(plan - [30, 60, 200]).max(axis=2) < 40)
    ends = np.array([[24 + 2.5 * metre, 24 + 0.5 * metre], [24 + 2.0 * metre, 24 + 6.0 * metre]])
    assert (np.linalg.norm(blue[:, None] - ends, axis=2).min(axis=1) < 9).all()
    far = run(two_pieces, "--up", "z", "-o", tmp_path / "far", "--from", "0.5,0.5", "--to", "9,1")
    assert far.exit_code == 0, far.exception
    # The goal is where the legend is, and is said there instead of drawn.
    blue = np.argwhere(np.abs(pixels(tmp_path / "far") - [30, 60, 200]).max(axis=2) < 40)
    assert (np.linalg.norm(blue - ends[0], axis=1) < 9).all()


def test_no_name_steers_the_terminal(tmp_path: Path) -> None:
    done = run(slab(tmp_path / "a\x1b[31m.obj", 4, 3), "--up", "z")
    assert done.exit_code == 0, done.exception
    assert done.stdout.startswith("a [31m.obj: Z up")
    assert "\x1b" not in done.stdout


def test_a_y_up_mesh_is_seen_from_above_too(tmp_path: Path) -> None:
    """x right and z down the page: a floor at x < 0, z < 0 beside the origin's is at the upper left."""
    v = [(0, 0, 0), (4, 0, 0), (4, 0, 4), (0, 0, 4), (-3, 0, -3), (-1, 0, -3), (-1, 0, -1), (-3, 0, -1)]
    done = run(obj(tmp_path / "y.obj", v, [(3, 2, 1, 0), (7, 6, 5, 4)]), "-o", tmp_path / "o")
    assert done.exit_code == 0, done.exception
    picture = pixels(tmp_path / "o")
    green = np.argwhere((picture[..., 1] > 140) & (picture[..., 0] < 90))
    orange = np.argwhere((picture[..., 0] > 220) & (picture[..., 2] < 90))
    assert len(orange)
    assert (orange.mean(axis=0) < green.mean(axis=0) - 300).all()


def test_a_floater_200_m_away_is_kept_said_and_not_drawn(tmp_path: Path) -> None:
    v = [(0, 0, 0), (4, 0, 0), (4, 3, 0), (0, 3, 0), (200, 200, 0), (200.1, 200, 0), (200, 200.1, 0)]
    path = obj(tmp_path / "far.obj", v, [(0, 1, 2, 3), (4, 5, 6)])
    done = run(path, "--up", "z", "-o", tmp_path / "far", "--json")
    answer = json.loads(done.stdout)
    assert any("--drop-outliers" in w for w in answer["warnings"]), answer["warnings"]
    # The floor alone fills the picture: 4 m are 1000 pixels, of which 0.15 m on each side cannot be walked on.
    plan = pixels(tmp_path / "far")
    on_paper = np.array(AREA_COLORS[0][:3]) * AREA_COLORS[0][3] / 255
    on_paper = on_paper + np.array([250, 250, 248]) * (1 - AREA_COLORS[0][3] / 255)
    green = float((np.abs(plan - on_paper).max(axis=2) < 6).sum())
    assert green == pytest.approx(3.7 * 2.7 * 250**2, rel=0.03)
    # Without it the numbers are those of the floor alone.
    alone = found(slab(tmp_path / "slab.obj", 4, 3), "--up", "z")
    dropped = found(path, "--up", "z", "--drop-outliers")
    assert {**dropped, "warnings": []} == {**alone, "warnings": []}


def test_nothing_to_walk_on_is_an_answer_with_a_picture(tmp_path: Path) -> None:
    path = obj(tmp_path / "down.obj", [(0, 0, 0), (0, 3, 0), (4, 3, 0), (4, 0, 0)], [(0, 1, 2, 3)])
    done = run(path, "--up", "z", "-o", tmp_path / "o", "--from", "1,1", "--to", "2,2")
    assert done.exit_code == 0, done.exception
    assert "no_floor (empty): nothing is walkable at 0.05 m" in done.stdout
    assert "path:       there is no NavMesh" in done.stdout
    assert {p.name for p in (tmp_path / "o").iterdir()} == {"navmesh.png", "navmesh.json"}
    with Image.open(tmp_path / "o" / "navmesh.png") as picture:
        assert picture.size[0] > 1000


def test_a_mesh_over_the_limits_is_an_answer(tmp_path: Path) -> None:
    path = slab(tmp_path / "huge.obj", 3e4, 3e4)
    answer = found(path, "--up", "z", "-o", tmp_path / "o")
    assert [a["stage"] for a in answer["attempts"]] == ["bounds"] * 3
    assert answer["reason"].startswith("navmesh_build_failed: ")
    assert answer["navigable_ratio"] == 0.0
    assert (tmp_path / "o" / "navmesh.png").is_file()


@pytest.mark.parametrize(("text", "kind", "words"), [
    ("v 0 0 0\nv 1 0 0\nv 0 nan 0\nf 1 2 3\n", CorruptInputError, "finite"),
    ("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 4\n", CorruptInputError, "4"),
    ("v 0 0 0\n", EmptyWorldError, "")])
def test_bad_meshes_are_refused(tmp_path: Path, text: str, kind: type, words: str) -> None:
    path = tmp_path / "bad.obj"
    path.write_text(text)
    done = run(path, "--json")
    assert isinstance(done.exception, kind), done.exception
    assert words in str(done.exception)
    assert json.loads(done.stdout)["error"]["class"] == kind.__name__


def test_refusals(tmp_path: Path) -> None:
    good = slab(tmp_path / "slab.obj", 4, 3)
    assert isinstance(run(tmp_path / "none.obj").exception, MissingInputError)
    half = run(good, "--from", "1,1", "--json")
    assert isinstance(half.exception, UsageError)
    assert json.loads(half.stdout)["error"]["where"] == "--from, --to"
    assert isinstance(run(good, "-o", good).exception, UsageError)
    splats = run(good, "--max-splats", 3).exception
    assert isinstance(splats, UsageError)
    assert splats.where == "--max-splats"
    for arguments, words in ((("--from", "1,1,1", "--to", "2,2"), "is not two numbers"),
                             (("--from", "nan,1", "--to", "2,2"), "finite"), (("--up", "x"), "'x' is not one of"),
                             (("--profile", "habitat-9"), "habitat-0.3.3"), (("--backend", "detour"), "recast-system")):
        done = run(good, *arguments)
        assert done.exit_code == 2
        assert words in done.output, (arguments, done.output)


def test_splats_are_sent_elsewhere(tmp_path: Path) -> None:
    from spatialbench.scene.convert import write_source_ply

    s = Soup()
    s.quad((0, 0, 0), (4, 0, 0), (4, 3, 0), (0, 3, 0))
    path = tmp_path / "room.ply"
    write_source_ply(splat_mesh(s.mesh(), 0.2), path, np.array([0.0, 0.0, 1.0]), 1.0, ())
    error = run(path).exception
    assert isinstance(error, UsageError)
    assert "spatialbench run" in str(error)
    assert "convert --fused" in str(error)
