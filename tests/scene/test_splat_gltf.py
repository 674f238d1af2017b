"""Gaussians in glTF: attributes, nodes, SPZ streams, a mesh beside them."""

from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest
from scene_files import GltfBuilder
from scipy.spatial.transform import Rotation
from splat_checks import check, counts
from splat_files import GAUSSIANS, add_gaussians, fixed24, gaussian_glb, spz, spz_body, spz_glb

from spatialbench.errors import CorruptInputError, UnsupportedFormatError
from spatialbench.types.sh_rotation import sh_basis

C0 = 0.28209479177387814


@pytest.fixture
def load(tmp_path):
    def read(data, name="world.glb"):
        path = tmp_path / name
        path.write_bytes(data.glb() if isinstance(data, GltfBuilder) else data)
        return check(path)
    return read


def builder(*args, **more):
    b = GltfBuilder()
    add_gaussians(b, np.asarray(args[0] if args else [[1, 2, 3], [4, 5, 6]], float), **more)
    return b


def covariance(s, i=0):
    r = Rotation.from_quat(s.quaternions[i][[1, 2, 3, 0]].astype(float)).as_matrix()
    return r @ np.diag(s.scales[i].astype(float) ** 2) @ r.T


DIRECTIONS = np.random.default_rng(0).normal(size=(30, 3))
DIRECTIONS /= np.linalg.norm(DIRECTIONS, axis=1, keepdims=True)


def colors(s, directions, i=0):
    return sh_basis(directions, s.sh_degree) @ s.sh[i].astype(float)


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
def test_values(load, degree):
    scene = load(builder(degree=degree, rotation=(0.6, 0, 0, 0.8)))
    s = scene.splats
    assert s.means.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert s.scales.tolist() == [[0.5, 1, 2]] * 2  # linear
    np.testing.assert_allclose(s.quaternions, [[0.8, 0.6, 0, 0]] * 2, atol=1e-7)  # w last in the file
    assert s.opacities.tolist() == [0.75, 0.75]
    k = (degree + 1) ** 2
    np.testing.assert_array_equal(s.sh, (np.arange(2 * k * 3).reshape(2, k, 3) / 100).astype(np.float32))
    assert scene.mesh is None
    assert (scene.prior_up.tolist(), scene.prior_unit_m) == ([0, 1, 0], 1.0)
    assert scene.report.kind == "splats"
    assert scene.report.bounds == [[1, 2, 3], [4, 5, 6]]
    assert not scene.report.warnings


def test_integers_are_normalised(load):
    s = load(builder(rotation=np.array([0, 0, 127, 0], "i1"), opacity=np.array(51, "u1"))).splats
    assert s.quaternions.tolist() == [[0, 0, 0, 1]] * 2
    np.testing.assert_allclose(s.opacities, 0.2, rtol=1e-7)


def test_scales_of_drafts_are_logarithms(load):
    scene = load(builder(scales=(0.0, 1, -1)))
    np.testing.assert_allclose(scene.splats.scales, [[1, np.e, 1 / np.e]] * 2, rtol=2e-7)
    assert any("logarithms" in w for w in scene.report.warnings)


def test_one_negative_scale_speaks_for_all(load):
    b = builder(scales=(0.0, 1, 2))
    add_gaussians(b, np.zeros((1, 3)), scales=(0.0, -1, 0))
    b.doc["nodes"] = [{"mesh": 0}, {"mesh": 1}]
    b.doc["scenes"] = [{"nodes": [0, 1]}]
    np.testing.assert_allclose(load(b).splats.scales[0], np.exp([0, 1, 2]), rtol=2e-7)


def test_linear_colours_become_srgb(load):
    """Constant term exactly; the others to first order: small ones give the small change of the curve."""
    linear = np.array([0.001, 0.21404114, 0.6])  # of sRGB 0.5 in the middle
    sh = np.zeros((1, 4, 3))
    sh[0, 0] = (linear - 0.5) / C0
    sh[0, 2] = 1e-3
    scene = load(builder([[0, 0, 0]], degree=1, sh=sh, block={"kernel": "ellipse", "colorSpace": "lin_rec709_display"}))

    def encoded(x):
        return np.where(x <= 0.0031308, 12.92 * x, 1.055 * np.maximum(x, 1e-9) ** (1 / 2.4) - 0.055)

    seen = 0.5 + colors(scene.splats, np.array([[0.0, 0, 1]]))[0]
    dc = 0.5 + C0 * scene.splats.sh[0, 0]
    np.testing.assert_allclose(dc, encoded(linear), atol=1e-6)
    assert abs(dc[1] - 0.5) < 1e-6
    delta = 1e-3 * 0.4886025119029199
    # The second derivative of the curve is below 30 at these colours.
    np.testing.assert_allclose(seen, encoded(linear + delta), atol=30 / 2 * delta**2 + 1e-6)
    assert any("linear" in w for w in scene.report.warnings)
    assert not load(builder(block={"colorSpace": "srgb_rec709_display"})).report.warnings
    assert any("'xyz' is not known" in w for w in load(builder(block={"colorSpace": "xyz"})).report.warnings)
    assert any("'box' is not known" in w for w in load(builder(block={"kernel": "box"})).report.warnings)


@pytest.mark.parametrize("node", [
    {"rotation": [0.5, 0.5, 0.5, 0.5]}, {"rotation": [0.36, 0.48, 0, 0.8], "translation": [1, -2, 3]},
    {"scale": [2, 2, 2], "rotation": [0.6, 0, 0.8, 0]}, {"scale": [-1, 1, 1]}, {"scale": [-2, -2, -2]},
    {"scale": [1, 2, 4], "rotation": [0.36, 0.48, 0, 0.8]}, {"scale": [-1, 2, 3]},
    {"matrix": [1, 0, 0, 0, 0.5, 1, 0, 0, 0, 0, 1, 0, 4, 5, 6, 1]}])
def test_nodes_move_turn_and_stretch(load, node):
    """Centres and Gaussians by the matrix itself; colours as seen along the turned direction of a similarity."""
    sh = np.random.default_rng(2).normal(size=(1, 16, 3)) / 8
    b = builder([[1.0, 2, 3]], degree=3, sh=sh, rotation=(0.48, 0.36, 0, 0.8))
    plain = load(b).splats
    b.doc["nodes"][0] |= node
    scene = load(b)
    s = scene.splats
    m = np.eye(4)
    if "matrix" in node:
        m = np.array(node["matrix"]).reshape(4, 4).T
    else:
        m[:3, :3] = Rotation.from_quat(node.get("rotation", [0, 0, 0, 1])).as_matrix() * node.get("scale", [1, 1, 1])
        m[:3, 3] = node.get("translation", [0, 0, 0])
    a = m[:3, :3]
    np.testing.assert_allclose(s.means[0], a @ [1, 2, 3] + m[:3, 3], rtol=1e-6, atol=1e-6)
    expected = a @ covariance(plain) @ a.T
    np.testing.assert_allclose(covariance(s), expected, atol=2e-6 * np.abs(expected).max())
    stretch = np.linalg.svd(a)[1]
    even = np.ptp(stretch) < 1e-6
    assert any("stretches" in w for w in scene.report.warnings) is not even
    if even:
        turn = a / stretch[0]
        np.testing.assert_allclose(colors(s, DIRECTIONS @ turn.T), colors(plain, DIRECTIONS), atol=1e-6)
    assert s.opacities.tolist() == plain.opacities.tolist()


def test_copies_and_primitives_are_merged(load):
    b = builder([[0.0, 0, 0]], degree=1)
    add_gaussians(b, np.array([[1.0, 0, 0], [2, 0, 0]]), degree=0)
    b.doc["nodes"] = [{"mesh": 0, "children": [1]}, {"mesh": 1, "translation": [0, 10, 0]}, {"mesh": 1}]
    b.doc["scenes"] = [{"nodes": [0, 2]}]
    scene = load(b)
    s = scene.splats
    assert sorted(s.means.tolist()) == sorted([[0, 0, 0], [1, 10, 0], [2, 10, 0], [1, 0, 0], [2, 0, 0]])
    assert s.sh_degree == 1
    assert not s.sh[np.abs(s.means[:, 0]) > 0, 1:].any()
    assert scene.report.details["gaussian_primitives"] == 2


def test_indices_pick_splats(load):
    b = builder()
    b.doc["meshes"][0]["primitives"][0]["indices"] = b.add(np.array([1, 1, 0], "<u2"))
    assert load(b).splats.means[:, 0].tolist() == [4, 4, 1]
    b.doc["meshes"][0]["primitives"][0]["indices"] = b.add(np.array([2], "<u2"))
    assert "out of range" in str(load(b))


def test_far_from_the_origin(load):
    b = builder([[0.001, 0, 0], [0, 0, 0]])
    b.doc["nodes"][0]["translation"] = [6e6, 1, 2]
    s = load(b).splats
    assert abs(np.ptp(s.means[:, 0]) - 0.001) < 1e-8
    assert abs(s.offset[0] - 6e6) < 0.01


def test_mesh_and_splats(load):
    scene = load(gaussian_glb(3, cube=True))
    report = scene.report
    assert (report.kind, report.n_faces, report.n_splats) == ("both", 12, 3)
    assert len(scene.mesh.faces) == 12
    assert len(scene.splats) == 3
    assert report.bounds == [[0, 0, 0], [3, 3.5, 4]]
    assert scene.prior_unit_m == 1.0
    assert report.has_color
    assert not report.warnings


def test_both_are_drawn_as_splats_and_walked_on_as_a_mesh(load):
    """The floor of the mesh lies 1.6 m under the camera; the splats make a ceiling light, which no foot meets."""
    from spatialbench.world import build_world
    from tests.worlds import quick_protocol

    b = GltfBuilder()
    add_gaussians(b, np.random.default_rng(0).uniform(-3, 3, (2000, 3)) * [1, 0, 1] + [0, -1.6, 0],
                  scales=(0.2, 0.01, 0.2), opacity=0.99)
    floor = np.array([[-3, -1.6, -3], [-3, -1.6, 3], [3, -1.6, 3], [3, -1.6, -3]], "<f4")
    b.mesh(floor, np.array([[0, 1, 2], [0, 2, 3]], "<u2"))
    b.doc["cameras"] = [{"type": "perspective"}]
    b.doc["nodes"] = [{"mesh": 0}, {"mesh": 1}, {"camera": 0}]
    b.doc["scenes"] = [{"nodes": [0, 1, 2]}]
    world = build_world(load(b), quick_protocol())
    assert world.seen_geometry == "splats"
    assert world.collision.geometry == "collider"
    assert len(world.mesh.faces) == 2
    assert abs(world.scale.factor - 1) < 0.02


def test_opacities_out_of_range(load):
    scene = load(builder(opacity=np.array([1.5, 0.5], "<f4")))
    assert scene.splats.opacities.tolist() == [1, 0.5]
    assert counts(scene) == {"splats_opacity_out_of_range": 1}


def test_rows_are_judged_as_in_any_format(load):
    scene = load(builder([[1, 2, 3], [np.nan, 0, 0]]))
    assert counts(scene) == {"splats_position_not_finite": 1}


def renamed(b, old, new):
    attributes = b.doc["meshes"][0]["primitives"][0]["attributes"]
    attributes[new] = attributes.pop(old)
    return b


@pytest.mark.parametrize(("data", "kind", "words"), [
    (builder(drop=("SCALE",)), CorruptInputError, f"no attribute {GAUSSIANS}:SCALE"),
    (builder(drop=("SH_DEGREE_0_COEF_0",)), CorruptInputError, "SH_DEGREE_0_COEF_0"),
    (builder(degree=1, drop=("SH_DEGREE_1_COEF_1",)), CorruptInputError, "SH_DEGREE_1_COEF_1"),
    (builder(degree=2, drop=("SH_DEGREE_1_COEF_0",)), CorruptInputError, "not all of the degrees"),
    (renamed(builder(), f"{GAUSSIANS}:OPACITY", f"{GAUSSIANS}:SH_DEGREE_4_COEF_0"), CorruptInputError, "DEGREE_4"),
    (renamed(builder(), "POSITION", "_POSITION"), CorruptInputError, "POSITION"),
    (spz_glb(b"NGSP", 1), CorruptInputError, "bufferView 0"),
    (spz_glb(spz(fixed24(0, 0, 0)), 60_000_000), UnsupportedFormatError, "places 60,000,000 splats"),
    (spz_glb(spz(fixed24(0, 0, 0)), 1, name="_compression_other"), UnsupportedFormatError, "compression_other"),
])
def test_refusals(load, data, kind, words):
    error = load(data)
    assert isinstance(error, kind)
    assert words in str(error)


def test_attributes_of_unequal_length(load):
    b = builder()
    b.doc["meshes"][0]["primitives"][0]["attributes"][f"{GAUSSIANS}:SCALE"] = b.add(np.ones((1, 3), "<f4"))
    assert "has 1 elements, POSITION has 2" in str(load(b))


ONE = {"alphas": b"\x80", "scales": b"\xa0\xb0\x90", "rotations": b"\xc0\x80\x80", "degree": 1,
       "sh": bytes(range(120, 129))}


@pytest.mark.parametrize("name", ["_compression_spz_2", "_compression_spz"])
def test_spz_is_turned_to_the_frame_of_gltf(load, name):
    """The extension asks for LUF where SPZ has RUB: a half turn about the vertical, of all that has a direction."""
    data = spz(fixed24(4096, 8192, 12288), **ONE)
    raw, s = load(data, "a.spz").splats, load(spz_glb(data, 1, name=name)).splats
    turn = np.diag([-1.0, 1, -1])
    assert s.means.tolist() == [[-1, 2, -3]]
    np.testing.assert_allclose(covariance(s), turn @ covariance(raw) @ turn, rtol=1e-5)
    np.testing.assert_allclose(colors(s, DIRECTIONS @ turn), colors(raw, DIRECTIONS), atol=1e-6)
    assert s.opacities.tolist() == raw.opacities.tolist()


@pytest.mark.parametrize(("box", "expected"), [
    (([-1, 2, -3], [-1, 2, -3]), [-1, 2, -3]), (([1, 2, 3], [1, 2, 3]), [1, 2, 3]),
    (([7, 7, 7], [8, 8, 8]), [-1, 2, -3]), (([1, "a", 3], [1, 2, 3]), [-1, 2, -3]), (([1], [2]), [-1, 2, -3])])
def test_the_bounds_in_the_file_may_say_that_it_is_turned_already(load, box, expected):
    scene = load(spz_glb(spz(fixed24(4096, 8192, 12288)), 1, box=box))
    assert scene.splats.means.tolist() == [expected]
    assert any("half turn" in w for w in scene.report.warnings) is (expected == [1, 2, 3])


@pytest.mark.parametrize(("value", "expected"), [(6, [-1, -2, 3]), (7, [1, 2, 3]), (4, [-1, 2, -3])])
def test_spz_that_states_its_frame(load, value, expected):
    """RDF to LUF: x and y change sign; LUF stays; RUB as above."""
    tail = struct.pack("<III", 0xADBE0003, 4, value)
    scene = load(spz_glb(spz(fixed24(4096, 8192, 12288), flags=2, tail=tail), 1))
    assert scene.splats.means.tolist() == [expected]
    assert scene.side.up is None  # turned to glTF's, whose prior holds


def test_spz_stream_of_another_number(load):
    scene = load(spz_glb(gzip.compress(spz_body(fixed24(*range(6)), n=2, alphas=b"ab", colors=b"abcdef",
                                                scales=b"\xa0" * 6, rotations=b"\x85" * 6)), 5))
    assert len(scene.splats) == 2
    assert any("announce 5 splats" in w for w in scene.report.warnings)


def test_the_conformance_matrix(data_dir):
    """Each of the fixture's nodes, by its own numbers: quantised attributes give what the floats give."""
    s = check(data_dir / "scenes/splats/khr_conformance_matrix.glb").splats
    assert s.means.tolist() == [[1, 2, 3]] * 15
    assert s.quaternions.tolist() == [[0, 1, 0, 0]] * 15
    usual = [0, 0.5, -0.5]
    logs = [usual] * 3 + [[0.2, -0.1, 0.7], [1, -2, 3], [1, 0, -1], [2, -3, 4], [1, 0, -1]] + [usual] * 7
    np.testing.assert_allclose(s.scales, np.exp(logs), rtol=5e-7)
    np.testing.assert_allclose(s.opacities, [0.25] * 8 + [0.75, 64 / 255, 16384 / 65535] + [0.25] * 4, rtol=1e-6)
    assert s.sh_degree == 3
    assert s.sh[3, 0].tolist() == np.float32([0.1, 0.2, 0.3]).tolist()  # the only one that is not linear
    assert [int(np.flatnonzero(s.sh[i].any(axis=1)).max()) for i in (11, 12, 13, 14)] == [0, 3, 8, 15]

