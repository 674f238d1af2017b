"""``spatialbench convert``: what is written is anchored as its source was, without any option."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from spatialbench.cli.convert import placement
from spatialbench.cli.main import cli, main
from spatialbench.errors import UsageError
from spatialbench.scene import load_scene
from spatialbench.types import load_protocol
from spatialbench.world import FrameOverrides, build_world

ASSETS = Path(__file__).parents[2] / "assets"
ROOM, SPLATS = ASSETS / "sample_room.glb", ASSETS / "sample_room_splats.ply"
SAMPLES = Path(__file__).parents[1] / "data" / "splats"
FAST = load_protocol("happyworld-spatial-1-fast")
IDENTITY = {".glb": [[1, 0, 0], [0, 0, -1], [0, 1, 0]], ".ply": [[1, 0, 0], [0, 0, 1], [0, -1, 0]]}
"""From each format's own frame to the world: what anchoring does to a file that stands as it should."""


def quiet(label, done, total):
    pass


def run(*args: object):
    return CliRunner().invoke(cli, ["convert", *map(str, args)], catch_exceptions=False)


@lru_cache
def place(path: Path, **frame):
    return placement(load_scene(path), FAST, FrameOverrides(**frame), quiet)


@lru_cache
def world_of(path: Path):
    return build_world(load_scene(path), FAST)


def stands_as_it_should(path: Path) -> None:
    """Anchoring the file again changes nothing but the names of the axes."""
    again = place(path)
    np.testing.assert_allclose(again.rotation, IDENTITY[path.suffix], atol=1e-12)
    np.testing.assert_array_equal(again.camera, [0, 0, 0])
    assert abs(again.factor - 1) < 1e-5  # measured 2e-8: the nine rays' distances are float32


def anchored(path: Path, points, **frame):
    p = place(path, **frame)
    return p.factor * (points - p.camera) @ p.rotation.T


@pytest.mark.parametrize(("options", "overrides"), [
    ("", {}), ("--camera 1,0.5,0 --forward 1,0,1", {"camera_position": (1, 0.5, 0), "camera_forward": (1, 0, 1)}),
    ("--scale 2.5", {"scale": 2.5})])
def test_a_mesh_is_anchored_alike(tmp_path, options, overrides):
    done = run(ROOM, tmp_path / "b.glb", *options.split(), "--protocol", "happyworld-spatial-1-fast")
    assert done.exit_code == 0
    assert "Y up, metres" in done.output
    if "scale" not in overrides:  # else the protocol's rule finds its own again
        stands_as_it_should(tmp_path / "b.glb")
    source, written = load_scene(ROOM), load_scene(tmp_path / "b.glb")
    order = np.argsort(source.mesh.material_ids, kind="stable")
    expected = anchored(ROOM, source.mesh.triangles[order].reshape(-1, 3), **overrides)
    world = written.mesh.triangles.reshape(-1, 3) @ np.array(IDENTITY[".glb"]).T
    # A room of some metres in float32: half a step of 16 m is 5e-7.
    np.testing.assert_allclose(world, expected, atol=1e-6)
    assert [m.name for m in written.mesh.materials] == [m.name for m in source.mesh.materials]


def test_splats_are_anchored_alike(tmp_path):
    done = run(SPLATS, tmp_path / "b.ply", "--protocol", "happyworld-spatial-1-fast")
    assert done.exit_code == 0
    assert "initial camera at the origin" in done.output
    stands_as_it_should(tmp_path / "b.ply")
    source, written = load_scene(SPLATS), load_scene(tmp_path / "b.ply")
    expected = anchored(SPLATS, source.splats.means.astype(float))
    np.testing.assert_allclose(written.splats.means @ np.array(IDENTITY[".ply"]).T, expected, atol=1e-6)


def test_a_real_world_of_splats(data_dir, tmp_path):
    """Y up and without a unit; its file is 180 degrees off the frame of .ply."""
    assert run(data_dir / "scenes/splats/marble_kitchen/scene.spz", tmp_path / "b.ply", "-q").output == ""
    stands_as_it_should(tmp_path / "b.ply")


@pytest.mark.parametrize("path", [ROOM, pytest.param(SPLATS, marks=pytest.mark.slow)])
def test_placement_is_that_of_build_world(path):
    world, p = world_of(path), place(path)
    np.testing.assert_allclose(world.transform[:3, :3], p.factor * p.rotation, atol=1e-15)
    np.testing.assert_allclose(world.transform[:3, 3], -p.factor * p.rotation @ p.camera, atol=1e-15)
    assert world.has_scale == p.metric


def test_the_frame_of_the_source(tmp_path):
    spz = SAMPLES / "minimal-v2.spz"
    done = run(spz, tmp_path / "b.ply", "--frame", "source")
    assert done.exit_code == 0
    source, written = load_scene(spz), load_scene(tmp_path / "b.ply")
    np.testing.assert_array_equal(written.splats.means, source.splats.means)
    assert written.side.up.tolist() == [0, 1, 0]  # stated in the file, as .ply has another prior
    assert written.side.unit_m is None
    done = run(ROOM, tmp_path / "b.glb", "--frame", "source", "--up", "+Z")
    assert "give --up 0,0,1" in done.stderr
    np.testing.assert_array_equal(load_scene(tmp_path / "b.glb").report.bounds, load_scene(ROOM).report.bounds)


@pytest.mark.slow
def test_the_fused_mesh(tmp_path):
    """That of the collision mesh which a run makes, standing as it should."""
    done = run(SPLATS, tmp_path / "b.glb", "--fused", "--protocol", "happyworld-spatial-1-fast")
    assert done.exit_code == 0
    assert "fused from splats" in done.output
    world = world_of(SPLATS)
    written = load_scene(tmp_path / "b.glb").mesh
    turned = written.triangles.reshape(-1, 3) @ np.array(IDENTITY[".glb"]).T
    expected = world.collision.mesh
    kept = len(written.faces) / len(expected.faces)
    assert 0.999 < kept <= 1  # a sliver may have no area in float32
    low, high = expected.bounds()
    np.testing.assert_allclose([turned.min(axis=0), turned.max(axis=0)], [low, high], atol=1e-6)


@pytest.mark.parametrize(("source", "target", "more", "words"), [
    (ROOM, "b.ply", (), "splats are not made from meshes"),
    (SPLATS, "b.glb", (), "has splats and no mesh"),
    (ROOM, "b.glb", ("--fused",), "no splats that a mesh could be fused from"),
    (ROOM, "b.obj", (), "neither .ply (splats) nor .glb (mesh)"),
    (ROOM, "b", (), "neither .ply"),
    (SPLATS, "b.ply", ("--fused",), "suffix .glb"),
    (SPLATS, "b.glb", ("--fused", "--frame", "source"), "Leave --frame out"),
    (ROOM, "no/b.glb", (), "no such folder"),
    (ROOM, "folder.glb", (), "is a folder"),
    (ROOM, "there.glb", (), "replace it with --force"),
])
def test_refusals_are_one_sentence(tmp_path, capsys, source, target, more, words):
    (tmp_path / "folder.glb").mkdir()
    (tmp_path / "there.glb").write_bytes(b"mine")
    with pytest.raises(SystemExit) as end:
        main(["convert", str(source), str(tmp_path / target), *more])
    assert end.value.code == 2
    err = capsys.readouterr().err
    assert words in err
    assert len(err.strip().splitlines()) == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder.glb", "there.glb"]
    assert (tmp_path / "there.glb").read_bytes() == b"mine"


def test_force_replaces_but_not_the_source(tmp_path):
    source = tmp_path / "a.glb"
    source.write_bytes(ROOM.read_bytes())
    (tmp_path / "b.glb").write_bytes(b"old")
    assert run(source, tmp_path / "b.glb", "--force", "--frame", "source").exit_code == 0
    assert (tmp_path / "b.glb").read_bytes()[:4] == b"glTF"
    with pytest.raises(UsageError, match="the same file"):
        run(source, source, "--force")
    assert source.read_bytes() == ROOM.read_bytes()


def test_max_splats_in_each_command(tmp_path):
    """Convert, inspect and run read as many, and say so."""
    assert run(SPLATS, tmp_path / "b.ply", "--frame", "source", "--max-splats", 500).exit_code == 0
    assert len(load_scene(tmp_path / "b.ply").splats) == 500
    done = CliRunner().invoke(cli, ["inspect", str(SPLATS), "--max-splats", "500", "--json"])
    found = json.loads(done.output)
    assert found["n_splats"] == 500
    assert found["repairs"][0]["name"] == "splats_thinned_out"
    done = CliRunner().invoke(cli, ["run", str(SPLATS), "--max-splats", "500", "--no-page", "-q", "--protocol",
                                    "happyworld-spatial-1-fast", "--set", "metrics=[M25]", "-o", str(tmp_path / "r")])
    assert done.exit_code == 0, done.output
    report = json.loads((tmp_path / "r" / "import.json").read_text())
    assert report["n_splats"] == 500
    assert any("only 500 of" in w for w in report["warnings"])
    assert CliRunner().invoke(cli, ["inspect", str(SPLATS), "--max-splats", "0"]).exit_code == 2
