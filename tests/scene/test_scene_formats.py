"""OBJ, PLY and STL: hand-made files with known answers."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scene_files import CUBE, CUBE_FACES, QUADRANTS, cube_obj, cube_ply, cube_stl, png

from spatialbench.errors import CorruptInputError, EmptyWorldError, UnsupportedFormatError
from spatialbench.scene import load_scene

SQUARE = b"v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nvt 0 0\nvt 1 0\nvt 1 1\nvt 0 1\n"


def save(tmp_path, name, data):
    path = tmp_path / name
    path.write_bytes(data)
    return path


def load(tmp_path, name, data):
    return load_scene(save(tmp_path, name, data))


def volume(mesh):
    t = mesh.triangles
    return float(np.einsum("ij,ij->i", t[:, 0], np.cross(t[:, 1], t[:, 2])).sum() / 6)


def linear(v):
    """sRGB to linear, IEC 61966-2-1, for one number."""
    return v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4


@pytest.mark.parametrize(("name", "data", "up", "unit"), [
    ("c.obj", cube_obj(), [0, 1, 0], None), ("c.ply", cube_ply(), [0, 1, 0], None),
    ("be.ply", cube_ply(">"), [0, 1, 0], None), ("t.ply", cube_ply(text=True), [0, 1, 0], None),
    ("c.stl", cube_stl(), [0, 0, 1], None), ("t.stl", cube_stl(text=True), [0, 0, 1], None)])
def test_the_cube_in_every_format(tmp_path, name, data, up, unit):
    scene = load(tmp_path, name, data)
    assert scene.report.n_faces == 12
    assert scene.report.n_vertices == (36 if "stl" in name else 8)  # STL shares no vertices; none are merged
    assert scene.report.bounds == [[0, 0, 0], [1, 1, 1]]
    assert volume(scene.mesh) == pytest.approx(1, abs=1e-12)
    assert scene.prior_up.tolist() == up
    assert scene.prior_unit_m == unit
    assert scene.report.format == name[-3:]


def test_content_not_suffix(tmp_path):
    for data, kind in ((cube_obj(), "obj"), (cube_ply(), "ply"), (cube_stl(), "stl")):
        r = load(tmp_path, "world.glb", data).report
        assert r.format == kind
        assert any("is named '.glb'" in w for w in r.warnings)


# --- OBJ --------------------------------------------------------------------------------------------


def test_obj_texture_runs_up_and_is_turned(tmp_path):
    """vt 0 0 is the lower left corner of the image: blue in QUADRANTS, whose last row it is."""
    (tmp_path / "tex").mkdir()
    (tmp_path / "tex" / "my image.png").write_bytes(png(QUADRANTS))
    save(tmp_path, "m.mtl", b"newmtl paint\nKd 0.5 1 0\nmap_Kd -clamp on tex\\my image.png\n")
    scene = load(tmp_path, "q.obj", b"mtllib m.mtl\n" + SQUARE + b"usemtl paint\nf 1/1 2/2 3/3 4/4\n")
    mesh, m = scene.mesh, scene.mesh.materials[0]
    assert scene.report.n_faces == 2
    for face, uv in zip(mesh.faces, mesh.uv, strict=True):
        for corner, (u, v) in zip(mesh.vertices[face], uv, strict=True):
            assert (u, v) == (corner[0], 1 - corner[1])
    rows, columns = m.texture.shape[:2]
    assert m.texture[rows - 1, 0].tolist() == [0, 0, 255, 255]
    assert m.texture[0, columns - 1].tolist() == [0, 255, 0, 255]
    assert m.base_color == pytest.approx((linear(0.5), 1, 0, 1))
    assert m.wrap == ("clamp", "clamp")
    assert sorted(f.name for f in scene.report.files) == ["m.mtl", "q.obj", "tex/my image.png"]


@pytest.mark.parametrize(("mtl", "kd"), [(b"", 1.0), (b"Kd 0 0 0\n", 1.0), (b"Kd 0.5 0.5 0.5\n", linear(0.5))])
def test_obj_textures_are_not_darkened(tmp_path, mtl, kd):
    save(tmp_path, "t.png", png(QUADRANTS))
    save(tmp_path, "m.mtl", b"newmtl a\n" + mtl + b"map_Kd t.png\n")
    m = load(tmp_path, "q.obj", b"mtllib m.mtl\n" + SQUARE + b"usemtl a\nf 1/1 2/2 3/3\n").mesh.materials[0]
    assert m.base_color == pytest.approx((kd, kd, kd, 1))


def test_obj_materials_in_order_of_use(tmp_path):
    save(tmp_path, "m.mtl", b"newmtl a\nKd 1 0 0\nnewmtl b\nKd 0 1 0\nd 0.5\nnewmtl unused\nKd 0 0 1\n")
    text = b"mtllib m.mtl\n" + SQUARE + b"usemtl b\nf 1 2 3\nusemtl a\nf 1 3 4\nusemtl b\nf 2 3 4\n"
    mesh = load(tmp_path, "q.obj", text).mesh
    assert [mesh.materials[i].name for i in mesh.material_ids] == ["b", "a", "b"]
    assert mesh.materials[mesh.material_ids[0]].alpha_mode == "blend"
    assert mesh.materials[mesh.material_ids[0]].base_color == (0, 1, 0, 0.5)
    assert load(tmp_path, "q.obj", text).report.has_color


def test_obj_refuses_what_lies_outside_its_folder(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    save(tmp_path, "t.png", png(QUADRANTS))
    save(tmp_path, "up.mtl", b"newmtl a\nKd 1 0 0\n")
    save(home, "m.mtl", b"newmtl a\nmap_Kd ../t.png\nnewmtl b\nmap_Kd C:\\textures\\t.png\n")
    scene = load(home, "q.obj", b"mtllib m.mtl\nmtllib ../up.mtl\n" + SQUARE
                 + b"usemtl a\nf 1/1 2/2 3/3\nusemtl b\nf 1/1 3/3 4/4\n")
    assert all(m.texture is None for m in scene.mesh.materials)
    assert sum("outside" in w for w in scene.report.warnings) == 2
    assert sum("absolute" in w for w in scene.report.warnings) == 1
    assert sorted(f.name for f in scene.report.files) == ["m.mtl", "q.obj"]


def test_obj_vertex_colours_are_srgb(tmp_path):
    mesh = load(tmp_path, "c.obj", b"v 0 0 0 0.5 0 1\nv 1 0 0 1 1 1\nv 0 1 0 0 0 0\nf 1 2 3\n").mesh
    np.testing.assert_allclose(mesh.colors[0], [[linear(0.5), 0, 1, 1], [1, 1, 1, 1], [0, 0, 0, 1]], atol=1e-7)


def test_obj_odd_ways_of_writing(tmp_path):
    """Continued lines, remarks, tabs, CRLF, negative indices, normals only, an exponent, a w, a group called f."""
    text = (b"g an f three\r\nv\t0 0 0 1.0\r\nv 1e0 0 0 # remark\r\nv 1 \\\r\n1 0\r\nvn 0 0 1\r\n"
            b"f -3//1 \\\r\n -2//1 -1//1\r\nl 1 2\r\n")
    r = load(tmp_path, "odd.obj", text).report
    assert (r.n_faces, r.bounds) == (1, [[0, 0, 0], [1, 1, 0]])
    assert {x.name: x.count for x in r.repairs} == {"lines_skipped": 1}
    assert r.warnings == []
    old_mac = cube_obj().replace(b"\n", b"\r")
    assert load(tmp_path, "mac.obj", old_mac).report.n_faces == 12


@pytest.mark.parametrize(("text", "words"), [
    (b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 4\n", "line 4: a face uses vertex 4 where there are 3"),
    (b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 -4\n", "before the first"),
    (b"v 0 0 0\nv 1 0 0\nv 0 1 0\n\nf 0 1 2\n", "line 5: a face uses vertex 0"),
    (b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 x\n", "line 4: cannot read 'x'"),
    (b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1/1 2/1 3/1\n", "texture coordinate 1 where there are 0"),
    (b"v 0 0 0\nv 1 0\nv 0 1 0\nf 1 2 3\n", "line 2: a vertex has 2 numbers"),
    (b"v 0 0 0\nv 1,5 0 0\nv 0 1 0\nf 1 2 3\n", "line 2: the vertex number '1,5' has a decimal comma"),
    (b"v 0 0 0\nv 1 0 q\nv 0 1 0\nf 1 2 3\n", "line 2: cannot read 'q'"),
    (b"v 0 0 0\nv nan 0 0\nv 0 1 0\nf 1 2 3\n", "not finite, the first is vertex 1"),
    (b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 99999999999999999999\n", "line 4"),
])
def test_bad_obj(tmp_path, text, words):
    with pytest.raises(CorruptInputError) as e:
        load(tmp_path, "bad.obj", text)
    assert words in str(e.value)


def test_obj_without_faces(tmp_path):
    with pytest.raises(EmptyWorldError, match="2 vertices, 1 lines and no faces"):
        load(tmp_path, "l.obj", b"v 0 0 0\nv 1 0 0\nl 1 2\n")


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_the_two_ways_of_reading_an_obj_agree(tmp_path_factory, data):
    """A remark behind one vertex sends the whole block down the slow way; the mesh must be the same."""
    n = data.draw(st.integers(3, 8))
    rows = data.draw(st.lists(st.tuples(*[st.floats(-9, 9, width=32)] * 3), min_size=n, max_size=n))
    style = data.draw(st.sampled_from(["{0}", "{0}/{0}", "{0}//{0}", "{0}/{0}/{0}"]))
    sign = data.draw(st.sampled_from([1, -1]))
    faces = data.draw(st.lists(st.lists(st.integers(1, n), min_size=3, max_size=5), min_size=1, max_size=6))
    lines = [f"v {x!r} {y!r} {z!r}" for x, y, z in rows] + ["vt 0 0"] * n + ["vn 0 0 1"] * n
    lines += ["f " + " ".join(style.format(sign * k if sign > 0 else k - n - 1) for k in f) for f in faces]
    folder = tmp_path_factory.mktemp("obj")
    out = []
    for remark in ("", " # slow"):
        text = "\n".join([lines[0] + remark, *lines[1:]]) + "\n"
        try:
            mesh = load(folder, "a.obj", text.encode()).mesh
            out.append((mesh.vertices.tobytes(), mesh.faces.tobytes()))
        except EmptyWorldError as e:
            out.append(str(e))
    assert out[0] == out[1]


# --- polygons ---------------------------------------------------------------------------------------


def test_polygons_are_fans_around_the_first_corner(tmp_path):
    r = load(tmp_path, "p.obj", b"v 0 0 0\nv 1 0 0\nv 2 1 0\nv 1 2 0\nv 0 1 0\nf 1 2 3 4 5\nf 1 2 3\nf 2 3 4 5\n")
    assert r.mesh.faces.tolist() == [[0, 1, 2], [0, 2, 3], [0, 3, 4], [0, 1, 2], [1, 2, 3], [1, 3, 4]]
    assert not any("fan" in w for w in r.report.warnings)


@pytest.mark.parametrize("first", range(6))
def test_concave_polygons_are_noticed(tmp_path, first):
    """An L: fans around the corner at the notch and around the one opposite to it do not fold."""
    flat = [(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)]
    lines = [f"v {x} 0 {y}" for x, y in flat] + ["f " + " ".join(str((first + k) % 6 + 1) for k in range(6))]
    warnings = load(tmp_path, "l.obj", "\n".join([*lines, "f 1 2 3", ""]).encode()).report.warnings
    assert any("1 concave polygon" in w for w in warnings) == (flat[first] not in ((0, 0), (1, 1)))


# --- PLY --------------------------------------------------------------------------------------------


def test_ply_colours_of_vertices_and_faces(tmp_path):
    head = b"ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty float z\n%s" \
           b"element face 1\nproperty list uchar int vertex_indices\n%send_header\n"
    rgb = b"property uchar red\nproperty uchar green\nproperty uchar blue\n"
    mesh = load(tmp_path, "v.ply", head % (rgb, b"") + b"0 0 0 255 0 0\n1 0 0 0 128 0\n0 1 0 0 0 51\n3 0 1 2\n").mesh
    expected = [[1, 0, 0, 1], [0, linear(128 / 255), 0, 1], [0, 0, linear(0.2), 1]]
    np.testing.assert_allclose(mesh.colors[0], expected, atol=1e-6)
    mesh = load(tmp_path, "f.ply", head % (b"", rgb) + b"0 0 0\n1 0 0\n0 1 0\n3 0 1 2 0 255 0\n").mesh
    np.testing.assert_allclose(mesh.colors[0], [[0, 1, 0, 1]] * 3, atol=1e-6)


def test_ply_texture(tmp_path):
    save(tmp_path, "t.png", png(QUADRANTS))
    head = (b"ply\nformat binary_little_endian 1.0\ncomment TextureFile t.png\nelement vertex 3\nproperty double x\n"
            b"property double y\nproperty double z\nelement face 1\nproperty list uchar int vertex_indices\n"
            b"property list uchar float texcoord\nend_header\n")
    body = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], "<f8").tobytes()
    body += struct.pack("<B3iB6f", 3, 0, 1, 2, 6, 0, 0, 1, 0, 0, 1)
    mesh = load(tmp_path, "t.ply", head + body).mesh
    np.testing.assert_array_equal(mesh.uv[0], [[0, 1], [1, 1], [0, 0]])
    assert mesh.materials[0].texture[3, 0].tolist() == [0, 0, 255, 255]


@pytest.mark.parametrize("end", [b"\r\n", b"\r", b"\n"])
def test_ply_line_ends_do_not_shift_the_body(tmp_path, end):
    """The first float is 0A 0D 0A 3F: a reader that skips white space after the header is off (case B04)."""
    head, body = cube_ply().split(b"end_header\n")
    data = head.replace(b"\n", end) + b"end_header" + end + b"\x0a\x0d\x0a\x3f" + body[4:]
    scene = load(tmp_path, "e.ply", data)
    assert scene.mesh.vertices[0, 0] == pytest.approx(0.53926146, abs=1e-8)


def test_ply_mixed_polygons_and_other_elements(tmp_path):
    head = (b"ply\nformat binary_big_endian 1.0\nelement extra 2\nproperty list uchar short k\nelement vertex 5\n"
            b"property float x\nproperty float y\nproperty float z\nelement face 2\n"
            b"property list uchar uint vertex_index\nend_header\n")
    body = struct.pack(">B2hB1h", 2, 7, 8, 1, 9)
    body += np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1]], ">f4").tobytes()
    body += struct.pack(">B4I", 4, 0, 1, 2, 3) + struct.pack(">B3I", 3, 0, 1, 4)
    mesh = load(tmp_path, "m.ply", head + body).mesh
    assert mesh.faces.tolist() == [[0, 1, 2], [0, 2, 3], [0, 1, 4]]


@pytest.mark.parametrize("order", ["<", ">"])
def test_ply_cut_anywhere_in_the_body(tmp_path, order):
    data = cube_ply(order)
    for cut in range(data.index(b"end_header\n") + 11, len(data)):
        with pytest.raises(CorruptInputError, match="is cut off"):
            load(tmp_path, "cut.ply", data[:cut])


@pytest.mark.parametrize(("old", "new", "error", "words"), [
    (b"vertex 8", b"vertex 8000000000", CorruptInputError, "is cut off"),
    (b"face 12", b"face 9999999999", CorruptInputError, "is cut off"),
    (b"face 12", b"face -1", CorruptInputError, "element NAME COUNT"),
    (b"property float y\n", b"", CorruptInputError, "no property y"),
    (b"vertex_indices", b"something", CorruptInputError, "vertex_indices"),
    (b"property float x", b"property list uchar float x", CorruptInputError, "list property 'x'"),
    (b"property float y", b"property float x", CorruptInputError, "declared twice"),
    (b"binary_little_endian", b"binary_middle", CorruptInputError, "unknown PLY format"),
    (b"face 12", b"face 0", UnsupportedFormatError, "a point cloud (PLY, 8 points and no faces)"),
    (b"vertex 8", b"vertex 0", EmptyWorldError, "0 vertices"),
])
def test_bad_ply_headers(tmp_path, old, new, error, words):
    with pytest.raises(error) as e:
        load(tmp_path, "bad.ply", cube_ply().replace(old, new))
    assert words in str(e.value)


def test_ply_bad_rows(tmp_path):
    for old, new, words in ((b"3 0 1 3", b"3 0 1 8", "vertex index 8"), (b"3 0 1 3", b"3 0 1", "line 18"),
                            (b"3 0 1 3", b"3 0 -1 3", "vertex index -1"), (b"0 0 1\n", b"0 0 1,5\n", "line 11"),
                            (b"0 0 1\n", b"0 0 nan\n", "not finite")):
        data = cube_ply(text=True)
        assert data.count(old) == 1
        with pytest.raises(CorruptInputError) as e:
            load(tmp_path, "bad.ply", data.replace(old, new))
        assert words in str(e.value), (old, new, str(e.value))


# --- STL --------------------------------------------------------------------------------------------


def test_stl_binary_that_says_solid(tmp_path):
    assert load(tmp_path, "s.stl", cube_stl(header=b"solid cube facet")).report.details["encoding"] == "binary"


def test_stl_broken(tmp_path):
    with pytest.raises(CorruptInputError, match=r"announces 12 triangles, which takes 684 bytes, the file has 600"):
        load(tmp_path, "cut.stl", cube_stl()[:600])
    text = cube_stl(text=True)
    with pytest.raises(CorruptInputError, match="three"):
        load(tmp_path, "cut.stl", text[:400])
    with pytest.raises(CorruptInputError, match="line 4: the vertex number '0,5' has a decimal comma"):
        load(tmp_path, "comma.stl", text.replace(b"vertex 0 0 0", b"vertex 0,5 0 0", 1))
    with pytest.raises(EmptyWorldError):
        load(tmp_path, "none.stl", b"solid x\nendsolid x\n")
    with pytest.raises(EmptyWorldError):
        load(tmp_path, "none.stl", b"\0" * 84)


def test_a_kilometre_is_no_room(tmp_path):
    corners = np.array([[0, 0, 0], [4000, 0, 0], [0, 3000, 2500]], "<f4")
    data = b"x".ljust(80) + struct.pack("<I", 1) + b"\0" * 12 + corners.tobytes() + b"\0\0"
    scene = load(tmp_path, "mm.stl", data)
    assert scene.prior_unit_m is None
    assert any("millimetres" in w for w in scene.report.warnings)


# --- side-cars --------------------------------------------------------------------------------------


def test_stage_config_beside_the_world(tmp_path):
    save(tmp_path, "room.stage_config.json", b'{"up": [0, 0, 2], "front": [0, 1, 0], "units_to_meters": 0.01}')
    scene = load(tmp_path, "room.obj", cube_obj())
    assert scene.side.up.tolist() == [0, 0, 1]
    assert (scene.side.up_source, scene.side.unit_m, scene.side.unit_source) == ("side-car", 0.01, "side-car")
    assert "front [0.0, 1.0, 0.0]" in scene.side.notes[0]
    assert "room.stage_config.json" in [f.name for f in scene.report.files]


@pytest.mark.parametrize("text", [b"{", b"[]", b'{"up": [0, 0]}', b'{"up": [0, 0, 0]}', b'{"up": "z"}', b"\xff\xfe",
                                  b'{"up": [1e999, 0, 0]}', b'{"units_to_meters": -1}', b'{"up": [true, 0, 0]}'])
def test_bad_side_cars_are_warnings(tmp_path, text):
    save(tmp_path, "room.stage_config.json", text)
    scene = load(tmp_path, "room.obj", cube_obj())
    assert scene.side.up is None
    assert scene.side.up_source == "none"
    assert scene.side.unit_m is None
    assert scene.report.warnings


def test_no_face_no_vertex_is_lost(tmp_path):
    mesh = load(tmp_path, "c.obj", cube_obj()).mesh
    np.testing.assert_array_equal(mesh.vertices, CUBE)
    np.testing.assert_array_equal(mesh.faces, CUBE_FACES)
