"""``spatialbench convert``: what is written is anchored as its source was, without any option."""

from __future__ import annotations

import json
import shutil
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

from spatialbench.cli.convert import placement
from spatialbench.cli.main import cli, main
from spatialbench.errors import UsageError
from spatialbench.scene import load_scene
from spatialbench.scene.splats.write_ply import write_splat_ply
from spatialbench.scene.write_glb import write_glb
from spatialbench.types import GaussianSplats, Light, TriangleMesh, load_protocol
from spatialbench.world import FrameOverrides, build_world

ASSETS = Path(__file__).parents[2] / "assets"
ROOM, SPLATS = ASSETS / "sample_room.glb", ASSETS / "sample_room_splats.ply"
SAMPLES = Path(__file__).parents[1] / "data" / "splats"
QUICK = Path(__file__).parents[1] / "data" / "quick.yaml"
"""What is compared is made twice by the same protocol, so that a quick one will do."""
IDENTITY = {".glb": [[1, 0, 0], [0, 0, -1], [0, 1, 0]], ".ply": [[1, 0, 0], [0, 0, 1], [0, -1, 0]]}
"""From each format's own frame to the world: what anchoring does to a file that stands as it should."""


def quiet(label, done, total):
    pass


def run(*args: object):
    return CliRunner().invoke(cli, ["convert", *map(str, args)], catch_exceptions=False)


@lru_cache
def place(path: Path, **frame):
    return placement(load_scene(path), load_protocol(str(QUICK)), FrameOverrides(**frame), quiet)


@lru_cache
def world_of(path: Path):
    return build_world(load_scene(path), load_protocol(str(QUICK)))


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
    done = run(ROOM, tmp_path / "b.glb", *options.split(), "--protocol", QUICK)
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
    done = run(SPLATS, tmp_path / "b.ply", "--protocol", QUICK)
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


def activated_ply(path: Path) -> np.ndarray:
    """Splats [300] in a box of 4 m whose opacities are stored as they are; what is stored."""
    rng = np.random.default_rng(0)
    stored = rng.uniform(0.44, 0.6, 300)
    write_splat_ply(GaussianSplats(rng.uniform(-2, 2, (300, 3)).astype("f4"), np.full((300, 3), 0.1, "f4"),
                                   np.tile(np.array([1, 0, 0, 0], "f4"), (300, 1)),
                                   (1 / (1 + np.exp(-stored))).astype("f4"), np.zeros((300, 1, 3), "f4")), path)
    return stored


@pytest.mark.parametrize("options", [
    "--opacity activated --frame source", "--opacity activated --camera 0,0,0", "--profile hyworld2 --frame source",
    "--opacity logit --frame source"])
def test_opacities_as_they_were_meant(tmp_path, options):
    """B holds logits of what A stores, or where these are logits the same logits."""
    stored = activated_ply(tmp_path / "a.ply")
    done = run(tmp_path / "a.ply", tmp_path / "b.ply", *options.split(), "--protocol", QUICK)
    assert done.exit_code == 0
    expected = 1 / (1 + np.exp(-stored)) if "logit" in options else stored
    # A sigmoid of float32 on the way in and one on the way out, each some steps of 6e-8 off; the first is taken back,
    # times the logit's slope of at most 4.4.
    np.testing.assert_allclose(load_scene(tmp_path / "b.ply").splats.opacities, expected, atol=1e-6)


def test_opacities_that_cannot_be_stored_as_they_are(tmp_path):
    done = run(SPLATS, tmp_path / "b.ply", "--opacity", "activated", "--frame", "source", "--max-splats", 300)
    assert "they were read as the format asks" in done.stderr


def lit_room(path: Path) -> tuple[Light, ...]:
    """A box of 6 x 3 x 6 m, seen from within, with three lights."""
    lights = (Light("point", (1, 0.5, 0.25), 8.0, (1.0, 2.0, -1.0), reach=6.0),
              Light("spot", (1, 1, 1), 20.0, (-1.0, 2.0, 0.5), (0.6, -0.8, 0.0), 0.0, 0.2, 0.7),
              Light("directional", (1, 1, 1), 3.0, direction=(0.0, -0.6, -0.8)))
    v = np.array([[x, y, z] for x in (-3.0, 3) for y in (0.0, 3) for z in (-3.0, 3)])
    quads = ((0, 2, 3, 1), (4, 5, 7, 6), (0, 1, 5, 4), (2, 6, 7, 3), (0, 4, 6, 2), (1, 3, 7, 5))
    f = np.array([t for a, b, c, d in quads for t in ((a, c, b), (a, d, c))], np.int32)
    write_glb(TriangleMesh(v, f, lights=lights), path)
    return lights


def test_lights_are_anchored_with_their_world(tmp_path):
    """Places and directions as vertices; candela grow with the square of lengths, reach with lengths, lux stay."""
    lamps = lit_room(tmp_path / "a.glb")
    done = run(tmp_path / "a.glb", tmp_path / "b.glb", "--protocol", QUICK, "--scale", 2.5,
               "--camera", "0.5,1.6,0", "--forward", "1,0,0.5")
    assert done.exit_code == 0
    assert "light" not in done.stderr
    p = place(tmp_path / "a.glb", scale=2.5, camera_position=(0.5, 1.6, 0), camera_forward=(1, 0, 0.5))
    assert p.factor == 2.5
    to_gltf = np.array(IDENTITY[".glb"]).T
    for got, lamp in zip(load_scene(tmp_path / "b.glb").mesh.lights, lamps, strict=True):
        area = 1.0 if lamp.kind == "directional" else 6.25
        assert (got.kind, got.color) == (lamp.kind, lamp.color)
        assert (got.intensity, got.reach) == pytest.approx((area * lamp.intensity, 2.5 * lamp.reach), rel=1e-14)
        if lamp.kind != "directional":
            at = 2.5 * p.rotation @ (np.array(lamp.position) - p.camera)
            np.testing.assert_allclose(got.position, to_gltf @ at, atol=1e-14)
        if lamp.kind != "point":
            np.testing.assert_allclose(got.direction, to_gltf @ p.rotation @ lamp.direction, atol=1e-15)


STAGE = """#usda 1.0
(
    metersPerUnit = 0.01
    upAxis = "Y"
)
def Mesh "floor"
{
    int[] faceVertexCounts = [4]
    int[] faceVertexIndices = [0, 1, 2, 3]
    point3f[] points = [(-60, 0, 60), (60, 0, 60), (60, 0, -60), (-60, 0, -60)]
}
def SphereLight "lamp"
{
    float inputs:intensity = 100
    float inputs:radius = 10
    double3 xformOp:translate = (0, 50, 0)
    uniform token[] xformOpOrder = ["xformOp:translate"]
}
def DomeLight "sky"
{
    color3f inputs:color = (0.5, 0.5, 1)
}
"""


def test_the_unit_of_the_source(tmp_path):
    """Centimetres: B holds A's numbers below a scale, and is read in metres; its dome has no place in glTF."""
    pytest.importorskip("pxr")
    (tmp_path / "a.usda").write_text(STAGE)
    done = run(tmp_path / "a.usda", tmp_path / "b.glb", "--frame", "source")
    assert "scaled to metres by its root node (0.01)" in done.stdout
    # pi lx of a dome of luminance 1 cd/m2
    assert "no light from all sides: that of A (a dome's, 3.14 lx of colour 0.5,0.5,1) is not in B" in done.stderr
    scene = load_scene(tmp_path / "b.glb")
    np.testing.assert_allclose(scene.report.bounds, [[-0.6, 0, -0.6], [0.6, 0, 0.6]], rtol=1e-15)
    (lamp,) = scene.mesh.lights
    # A sphere of 10 units: luminance times the disk that is seen, pi r^2, in square metres.
    assert lamp.intensity == pytest.approx(100 * np.pi * 0.1**2, rel=1e-12)
    np.testing.assert_allclose(lamp.position, [0, 0.5, 0], rtol=1e-15)


@pytest.mark.parametrize(("options", "size", "words"), [
    ("--unit 0.5", 2, ""), ("--unit 1", 4, ""), ("", 4, "one unit of A is a metre of B. Give --unit if")])
def test_the_unit_that_is_given(tmp_path, options, size, words):
    (tmp_path / "a.obj").write_text("v 0 0 0\nv 4 0 0\nv 0 0 4\nf 1 3 2\n")
    done = run(tmp_path / "a.obj", tmp_path / "b.glb", "--frame", "source", *options.split())
    assert done.exit_code == 0
    assert words in done.stderr if words else "unit" not in done.stderr
    assert load_scene(tmp_path / "b.glb").report.bounds == [[0, 0, 0], [size, 0, size]]


@pytest.fixture(scope="module")
def sample_pair(tmp_path_factory):
    """The sample room's splats with its mesh, whose frames are half a turn and an origin apart."""
    folder = tmp_path_factory.mktemp("pair")
    shutil.copyfile(SPLATS, folder / "room.ply")
    shutil.copyfile(ROOM, folder / "room_collider.glb")
    return folder


def test_the_sample_room_is_a_pair(sample_pair):
    scene = load_scene(sample_pair)
    assert scene.report.kind == "both"
    assert scene.report.details["overlap"]["near"] > 0.99  # the splats were made on the mesh
    assert "initial camera" in scene.report.decisions["collider"].value


@pytest.mark.parametrize(("name", "words"), [
    ("b.ply", "the collider 'room_collider.glb' (19,381 faces) is not in B: .ply holds the splats alone. Give B the "
              "suffix .glb"),
    ("b.glb", "500 splats of degree 0 of A are not in B: .glb holds the mesh alone. Give B the suffix .ply")])
def test_the_half_that_is_left_out_is_named(tmp_path, sample_pair, name, words):
    done = run(sample_pair, tmp_path / name, "--frame", "source", "--max-splats", 500)
    assert done.exit_code == 0
    assert done.stderr.count("not in B") == 1
    assert words in done.stderr


def test_a_fused_mesh_leaves_the_collider_out(tmp_path, sample_pair, monkeypatch):
    one = TriangleMesh(np.eye(3), np.array([[0, 1, 2]], np.int32))
    monkeypatch.setattr("spatialbench.world.build_world", lambda *args, **more: SimpleNamespace(
        collision=SimpleNamespace(mesh=one), has_scale=True, warnings=(), decisions={}))
    done = run(sample_pair, tmp_path / "b.glb", "--fused", "--max-splats", 500)
    assert "(19,381 faces) is not in B, which is fused from the splats. Leave --fused out" in done.stderr


@pytest.fixture(scope="module")
def written_pair(tmp_path_factory):
    """The splats as they were written, and the mesh fused from them."""
    folder = tmp_path_factory.mktemp("written")
    for name, more, words in (("room.ply", (), "splats"), ("room_collider.glb", ("--fused",), "fused from splats")):
        done = run(SPLATS, folder / name, *more, "--protocol", QUICK)
        assert done.exit_code == 0
        assert words in done.output
    return folder


@pytest.mark.slow
def test_splats_and_their_fused_mesh_are_a_pair(written_pair):
    """Written in the frames of both formats, and found to be half a turn apart."""
    scene = load_scene(written_pair)
    assert scene.report.decisions["collider"].value == "half a turn about X"
    assert scene.report.details["overlap"]["near"] > 0.9


@pytest.mark.slow
def test_the_fused_mesh(written_pair):
    """That of the collision mesh which a run makes, standing as it should."""
    world = world_of(SPLATS)
    written = load_scene(written_pair / "room_collider.glb").mesh
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
    (SPLATS, "b.ply", ("--camera", "0,0,0", "--frame", "source"), "Leave --camera out"),
    (ROOM, "b.glb", ("--scale", "2", "--frame", "source"), "Leave --scale out"),
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
                                    str(QUICK), "--set", "metrics=[M25]", "-o", str(tmp_path / "r")])
    assert done.exit_code == 0, done.output
    report = json.loads((tmp_path / "r" / "import.json").read_text())
    assert report["n_splats"] == 500
    assert any("only 500 of" in w for w in report["warnings"])
    assert CliRunner().invoke(cli, ["inspect", str(SPLATS), "--max-splats", "0"]).exit_code == 2
