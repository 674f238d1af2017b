"""What people reported about neighbouring tools, as ``inspect`` must answer it (data/reports/CASES.csv)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from spatialbench.cli.main import cli
from spatialbench.scene import load_scene

QUICK = """\
extends: happyworld-spatial-1-fast
id: quick
views: {ring_frames: 4, lens: {width: 32, height: 32, fov_deg: 75.0}, probe_size: 16}
finding: {min_surfels: 2000, max_surfels: 2000, surfels_per_m2: 50, voxel: 0.3}
"""

Call = Callable[..., Result]
Inspected = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def call(tmp_path_factory: pytest.TempPathFactory) -> Call:
    """Runs ``inspect --json`` by a protocol whose search for a camera is short."""
    protocol = tmp_path_factory.mktemp("protocol") / "quick.yaml"
    protocol.write_text(QUICK)
    return lambda path, *options: CliRunner().invoke(
        cli, ["inspect", str(path), "--json", "--protocol", str(protocol), *options])


@pytest.fixture(scope="module")
def inspected(call: Call) -> Inspected:
    return lambda *arguments: _found(call(*arguments))


def _found(done: Result) -> dict[str, Any]:
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    assert {"frame", "up", "scale", "opacity", "camera", "unit"} <= set(found["decisions"])
    for decision in found["decisions"].values():
        assert set(decision) == {"value", "source", "confidence", "note"}
    return found


@pytest.fixture
def reports(data_dir: Path) -> Path:
    return data_dir / "reports" / "import"


def test_b04_a_header_in_crlf_does_not_shift_the_body(reports: Path, inspected: Inspected) -> None:
    found = inspected(reports / "crlf_header.ply")
    assert (found["kind"], found["n_splats"]) == ("splats", 5)
    assert found["bounds"] == [[-1, 0, 2], [1, 2, 3]]
    splats = load_scene(reports / "crlf_header.ply").splats
    assert splats is not None
    # Bytes 0A 0D 0A 3F: who skips white space after the header is off by three.
    assert splats.means[0, 0] == np.frombuffer(bytes.fromhex("0a0d0a3f"), "<f4")[0] == np.float32(0.53926146)


def test_b05_special_rows_are_counted_by_kind_and_nothing_infinite_is_left(reports: Path, inspected: Inspected) -> None:
    found = inspected(reports / "special_rows.ply")
    assert np.allclose(found["bounds"], [[-0.45, -0.45, 2], [0.45, 0.45, 2]], rtol=0, atol=1e-6)
    counts = {r["name"]: (r["count"], r["note"].split("; ")[-1]) for r in found["repairs"]}
    # By construction: NaN x and infinite x; NaN rotation; zero quaternion; NaN colour; +inf log scale.
    dropped = {"splats_position_not_finite": 2, "splats_rotation_not_finite": 1, "splats_rotation_zero": 1,
               "splats_color_not_finite": 1, "splats_scale_infinite": 1}
    assert {k: n for k, (n, what) in counts.items() if what == "dropped"} == dropped
    assert {k: n for k, (n, what) in counts.items() if what == "kept"} == {
        "splats_scale_zero": 1, "splats_opacity_minus_infinity": 1}
    assert found["n_splats"] == 100 - sum(dropped.values())
    splats = load_scene(reports / "special_rows.ply").splats
    assert splats is not None
    assert (splats.opacities == 1).sum() == 1, "+inf is an opacity of one"
    assert all(np.isfinite(a).all() for a in (splats.means, splats.scales, splats.quaternions, splats.opacities,
                                              splats.sh))


def test_b05_no_pixel_of_a_render_is_nan(reports: Path) -> None:
    from spatialbench.renderers import open_renderer
    from spatialbench.types import Camera, Pose

    splats = load_scene(reports / "special_rows.ply").splats
    assert splats is not None
    seen = open_renderer(splats).render([Camera.from_fov(Pose(np.eye(4)), 40.0, 64)], want=("rgb", "depth", "alpha"))
    for image in (seen.rgb, seen.depth, seen.alpha):
        assert image is not None
        assert np.isfinite(image).all()
    assert seen.alpha is not None
    assert seen.alpha.max() > 0.5, "the plane of splats two units ahead is seen"


def test_b14_the_default_scene_alone_is_read_and_the_other_named(reports: Path, inspected: Inspected) -> None:
    found = inspected(reports / "two_scenes.glb")
    assert (found["kind"], found["n_faces"]) == ("mesh", 12)
    assert found["bounds"] == [[0, 0, 0], [4, 2.5, 3]]
    assert any("scene 0" in w and "left out" in w for w in found["warnings"])
    assert found["details"]["scenes_left_out"] == [0]


def test_b18_decimal_commas_are_refused_by_line_and_text(reports: Path, call: Call) -> None:
    done = call(reports / "comma_decimals.obj")
    assert done.exception is not None
    assert getattr(done.exception, "exit_code", None) == 2
    error = json.loads(done.stdout)["error"]
    assert error["where"].endswith("line 3")
    assert "line 3" in error["message"]
    assert "-0,750" in error["message"]


def test_b19_a_binary_stl_that_says_solid_has_no_scale_of_its_own(reports: Path, inspected: Inspected) -> None:
    path = reports / "solid_binary_mm.stl"
    found = inspected(path)
    assert (found["n_faces"], found["details"]["encoding"]) == (12, "binary")
    assert found["bounds"] == [[0, 0, 0], [4000, 3000, 2500]]
    assert found["decisions"]["scale"]["source"] == "none"
    assert found["decisions"]["unit"]["source"] == "none"
    assert any("not plausible" in w and "millimetres" in w for w in found["warnings"])
    told = inspected(path, "--scale", "0.001")
    assert told["decisions"]["scale"]["value"] == 0.001
    assert told["decisions"]["scale"]["source"] == "user"
    # STL is Z up, and the camera looks along Y or turns; the box is level either way.
    assert told["world"]["size"][2] == pytest.approx(2.5, abs=1e-9)
    ahead = np.array(told["decisions"]["camera"]["value"]["forward"])
    if abs(ahead[1]) > 1 - 1e-12:
        assert told["world"]["size"] == pytest.approx([4, 3, 2.5], abs=1e-9)
    points = np.array(found["bounds"])
    matrix = np.array(told["world"]["transform_source_to_world"])
    assert np.linalg.norm(matrix[:3, :3] @ (points[1] - points[0])) == pytest.approx(np.linalg.norm([4, 3, 2.5]))
