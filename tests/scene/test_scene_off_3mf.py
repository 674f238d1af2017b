"""OFF and 3MF: hand-made files with known answers, and trimesh as the other reader."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scene_files import CUBE, CUBE_FACES, QUADRANTS, png
from test_scene_bad_input import check

from spatialbench.errors import (
    CorruptInputError,
    EmptyWorldError,
    InputError,
    MissingInputError,
    UnsupportedFormatError,
)
from spatialbench.scene import load_scene
from spatialbench.scene.archive import Archive

CORE = 'xmlns="http://schemas.microsoft.com/3dmanufacturing/core/2015/02"'
MATERIAL = 'xmlns:m="http://schemas.microsoft.com/3dmanufacturing/material/2015/02"'
SQUARE = "0 0 0\n1 0 0\n1 1 0\n0 1 0\n"


def cube_off() -> bytes:
    return ("OFF\n8 12 0\n" + "".join(f"{x:g} {y:g} {z:g}\n" for x, y, z in CUBE.tolist())
            + "".join(f"3 {a} {b} {c}\n" for a, b, c in CUBE_FACES.tolist())).encode()


def mesh_xml(vertices=CUBE, faces=CUBE_FACES, extra=None) -> str:
    rows = "".join(f'<vertex x="{x:g}" y="{y:g}" z="{z:g}"/>' for x, y, z in np.asarray(vertices).tolist())
    extra = extra or [""] * len(faces)
    rows_f = "".join(f'<triangle v1="{a}" v2="{b}" v3="{c}" {e}/>'
                     for (a, b, c), e in zip(np.asarray(faces).tolist(), extra, strict=True))
    return f"<mesh><vertices>{rows}</vertices><triangles>{rows_f}</triangles></mesh>"


def model(resources: str, build: str, attributes: str = 'unit="meter"') -> bytes:
    return (f'<?xml version="1.0" encoding="UTF-8"?><model {attributes} {CORE} {MATERIAL}><resources>{resources}'
            f"</resources><build>{build}</build></model>").encode()


def archive(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as z:
        for name, data in members.items():
            z.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, method)
    return out.getvalue()


def box_3mf(attributes: str = 'unit="meter"', build: str = '<item objectid="1"/>') -> bytes:
    return archive({"3D/3dmodel.model": model(f'<object id="1">{mesh_xml()}</object>', build, attributes)})


def save(tmp_path, data, name="world.bin"):
    path = tmp_path / name
    path.write_bytes(data)
    return path


def volume(mesh):
    t = mesh.triangles
    return float(np.einsum("ij,ij->i", t[:, 0], np.cross(t[:, 1], t[:, 2])).sum() / 6)


def linear(v):
    return v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4


# --- OFF --------------------------------------------------------------------------------------------


def test_off_cube(tmp_path):
    scene = load_scene(save(tmp_path, cube_off(), "c.off"))
    assert (scene.report.format, scene.report.n_faces, scene.report.n_vertices) == ("off", 12, 8)
    assert volume(scene.mesh) == pytest.approx(1, abs=1e-12)
    assert scene.prior_up.tolist() == [0, 1, 0]
    assert scene.prior_unit_m is None
    assert not scene.report.warnings


@pytest.mark.parametrize("text", [
    f"OFF 4 1 0\n{SQUARE}4 0 1 2 3\n", f"OFF # a comment\n\n4 1\n# more\n{SQUARE}\n4 0 1 2 3 # end",
    f"OFF\r4 1 0\r{SQUARE}4 0 1 2 3\r".replace("\n", "\r"), f"\ufeffOFF\r\n4 1 0\r\n{SQUARE}4 0 1 2 3"])
def test_off_ways_of_writing(tmp_path, text):
    mesh = load_scene(save(tmp_path, text.encode())).mesh
    assert mesh.faces.tolist() == [[0, 1, 2], [0, 2, 3]]
    assert mesh.vertices.tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]


def test_off_colours(tmp_path):
    """Whole numbers are of 255, decimals shares; of faces and of vertices, after a normal."""
    mesh = load_scene(save(tmp_path, f"OFF\n4 2 0\n{SQUARE}3 0 1 2 255 51 0\n3 0 2 3 0.2 1.0 0.0 0.5\n".encode())).mesh
    np.testing.assert_allclose(mesh.colors[0], [[1, linear(0.2), 0, 1]] * 3, rtol=1e-6)
    np.testing.assert_allclose(mesh.colors[1], [[linear(0.2), 1, 0, 0.5]] * 3, rtol=1e-6)
    rows = "".join(f"{p} 0 0 1 {i} 0 0 255\n" for i, p in enumerate(SQUARE.split("\n")[:4]))
    mesh = load_scene(save(tmp_path, f"CNOFF\n4 1 0\n{rows}4 0 1 2 3\n".encode())).mesh
    np.testing.assert_allclose(mesh.colors[1, 2, 0], linear(3 / 255), rtol=1e-6)


def test_off_as_trimesh_reads_it(tmp_path):
    import trimesh

    ball = trimesh.creation.icosphere(subdivisions=2)
    data = trimesh.exchange.off.export_off(ball, digits=17)
    mesh = load_scene(save(tmp_path, data.encode())).mesh
    np.testing.assert_array_equal(mesh.vertices, ball.vertices)
    np.testing.assert_array_equal(mesh.faces, ball.faces)


@pytest.mark.parametrize(("text", "error", "words"), [
    (f"OFF\n5 1 0\n{SQUARE}4 0 1 2 3\n", CorruptInputError, "announces 5 vertices and 1 faces, but has 5 lines"),
    (f"OFF\n4000000000 1 0\n{SQUARE}", CorruptInputError, "announces 4,000,000,000 vertices"),
    (f"OFF\n4 1 0\n{SQUARE}4 0 1 2 4\n", CorruptInputError, "vertex index 4"),
    (f"OFF\n4 1 0\n{SQUARE}4 0 1 2\n", CorruptInputError, "line 7: cannot read '4 0 1 2' as a face"),
    (f"OFF\n4 1 0\n{SQUARE}3 0 1 x\n", CorruptInputError, "line 7"),
    ("OFF\n3 1 0\n0 0 0\n1 0\n0 1 0 0\n3 0 1 2\n", CorruptInputError, "line 4: cannot read '1 0' as a vertex"),
    ("OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 a\n3 0 1 2\n", CorruptInputError, "line 5"),
    ("OFF\n3 1 0\n0 0 0\n1 0 0\n0 nan 0\n3 0 1 2\n", CorruptInputError, "not finite"),
    ("OFF\n", CorruptInputError, "before its counts"), ("OFF\na b c\n", CorruptInputError, "line 2"),
    ("OFF\n0 0 0\n", EmptyWorldError, "0 vertices"), ("4OFF\n1 1 1\n", UnsupportedFormatError, "three dimensions"),
    ("OFF BINARY\n\0\0\0\1", UnsupportedFormatError, "binary")])
def test_bad_off(tmp_path, text, error, words):
    got = check(save(tmp_path, text.encode()))
    assert isinstance(got, error)
    assert words in str(got)


# --- 3MF --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("unit", "metres"), [("micron", 1e-6), ("millimeter", 1e-3), ("centimeter", 1e-2),
                                              ("inch", 0.0254), ("foot", 0.3048), ("meter", 1)])
def test_3mf_unit_is_the_files(tmp_path, unit, metres):
    scene = load_scene(save(tmp_path, box_3mf(f'unit="{unit}"'), "c.3mf"))
    assert (scene.report.format, scene.report.n_faces, scene.report.n_vertices) == ("3mf", 12, 8)
    assert (scene.side.unit_m, scene.side.unit_source) == (metres, "file")
    assert volume(scene.mesh) == pytest.approx(1, abs=1e-12)
    assert scene.prior_up.tolist() == [0, 0, 1]


def test_3mf_without_a_unit_is_in_millimetres(tmp_path):
    scene = load_scene(save(tmp_path, box_3mf("")))
    assert (scene.side.unit_m, scene.prior_unit_m) == (None, 0.001)


def test_3mf_components_multiply(tmp_path):
    """Row vectors: the component's own matrix comes first, then the item's; a mirror keeps the outside out."""
    resources = (f'<object id="1">{mesh_xml()}</object><object id="2"><components>'
                 '<component objectid="1" transform="2 0 0 0 1 0 0 0 1 1 0 0"/>'
                 '<component objectid="1" transform="-1 0 0 0 1 0 0 0 1 0 0 0"/></components></object>')
    build = '<item objectid="2" transform="0 1 0 -1 0 0 0 0 1 0 0 10"/>'
    scene = load_scene(save(tmp_path, archive({"3D/3dmodel.model": model(resources, build)})))
    # by hand: x in [1,3] and [-1,0], y in [0,1]; then (x, y) -> (-y, x) and z + 10
    assert scene.report.bounds == [[-1, -1, 10], [0, 3, 11]]
    assert volume(scene.mesh) == pytest.approx(3, abs=1e-12)
    assert scene.report.details["objects_placed"] == 2


def test_3mf_as_trimesh_reads_it(tmp_path):
    pytest.importorskip("lxml", reason="trimesh reads 3MF through it")
    import trimesh

    scene = trimesh.Scene()
    ball = trimesh.creation.icosphere(subdivisions=1)
    for k in range(3):
        scene.add_geometry(ball, transform=trimesh.transformations.rotation_matrix(0.3 * k, [1, 2, 3], [k, 1, 0]))
    data = scene.export(file_type="3mf")
    other = trimesh.load(io.BytesIO(data), file_type="3mf").to_geometry()
    mesh = load_scene(save(tmp_path, data)).mesh
    # trimesh writes transforms with eight decimals
    ours, theirs = (np.sort(t.mean(axis=1), axis=0) for t in (mesh.triangles, other.triangles))
    np.testing.assert_allclose(ours, theirs, atol=1e-6)
    assert volume(mesh) == pytest.approx(other.volume, rel=1e-6)


def test_3mf_colours_and_materials(tmp_path):
    shape = mesh_xml(CUBE, CUBE_FACES[:3], ["", 'pid="5" p1="0"', 'pid="6" p1="0" p2="1" p3="0"'])
    resources = ('<basematerials id="5"><base name="sky" displaycolor="#FF0000"/><base name="wall" '
                 'displaycolor="#00336680"/></basematerials><m:colorgroup id="6"><m:color color="#000000"/>'
                 '<m:color color="#FFFFFF"/></m:colorgroup>'
                 f'<object id="1" pid="5" pindex="1">{shape}</object>')
    mesh = load_scene(save(tmp_path, archive({"3D/3dmodel.model": model(resources, '<item objectid="1"/>')}))).mesh
    assert [mesh.materials[i].name for i in mesh.material_ids] == ["wall", "sky", ""]
    np.testing.assert_allclose(mesh.colors[0, 0], [0, linear(0.2), linear(0.4), 128 / 255], rtol=1e-6)
    assert mesh.colors[1, 2].tolist() == [1, 0, 0, 1]
    assert mesh.colors[2, :, 0].tolist() == [0, 1, 0]


def test_3mf_texture_runs_up(tmp_path):
    shape = mesh_xml(CUBE, CUBE_FACES[:1], ['p1="0" p2="1" p3="2"'])
    resources = ('<m:texture2d id="3" path="/3D/Textures/q.png" contenttype="image/png" tilestyleu="clamp"/>'
                 '<m:texture2dgroup id="4" texid="3"><m:tex2coord u="0" v="1"/><m:tex2coord u="1" v="0"/>'
                 '<m:tex2coord u="0" v="0"/></m:texture2dgroup>'
                 f'<object id="1" pid="4">{shape}</object>')
    members = {"3D/3dmodel.model": model(resources, '<item objectid="1"/>'), "3D/Textures/q.png": png(QUADRANTS)}
    mesh = load_scene(save(tmp_path, archive(members))).mesh
    assert mesh.uv[0].tolist() == [[0, 0], [1, 1], [0, 1]]
    assert mesh.materials[0].texture[0, 0].tolist() == [255, 0, 0, 255]
    assert mesh.materials[0].wrap == ("clamp", "repeat")
    del members["3D/Textures/q.png"]
    assert isinstance(check(save(tmp_path, archive(members))), MissingInputError)


def test_3mf_production_parts(tmp_path):
    p = 'xmlns:p="http://schemas.microsoft.com/3dmanufacturing/production/2015/06" requiredextensions="p"'
    rels = (b'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r" '
            b'Type="http://schemas.microsoft.com/3dmanufacturing/2013/01/3dmodel" Target="/3D/main.model"/>'
            b"</Relationships>")
    members = {"_rels/.rels": rels, "3D/3dmodel.model": b"not this one",
               "3D/main.model": model("", '<item objectid="7" p:path="/3D/Objects/a.model"/>', p),
               "3D/Objects/a.model": model(f'<object id="7">{mesh_xml()}</object>', "", "")}
    assert load_scene(save(tmp_path, archive(members))).report.n_faces == 12


LAUGH = b'<!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]><model>&b;</model>'
OUTSIDE = b'<!DOCTYPE l SYSTEM "file:///etc/passwd"><model/>'
ITEM = '<item objectid="1"/>'
BOX = f'<object id="1">{mesh_xml()}</object>'
NAN = f'<object id="1">{mesh_xml([[0, 0, 0], [1, 0, 0], [0, np.nan, 0]], [[0, 1, 2]])}</object>'
FAR = ('<item objectid="1" p:path="/../../x" '
       'xmlns:p="http://schemas.microsoft.com/3dmanufacturing/production/2015/06"/>')


@pytest.mark.parametrize(("members", "error", "words"), [
    ({"3D/3dmodel.model": LAUGH}, CorruptInputError, "document type or an entity"),
    ({"3D/3dmodel.model": OUTSIDE}, CorruptInputError, "document type or an entity"),
    ({"3D/3dmodel.model": b"<model>"}, CorruptInputError, "line 1: its XML cannot be read"),
    ({"3D/3dmodel.model": model("", "")}, EmptyWorldError, "no triangles"),
    ({"3D/3dmodel.model": model("", ITEM)}, CorruptInputError, "object '1' does not exist"),
    ({"3D/3dmodel.model": model('<object id="1"><components><component objectid="1"/></components></object>', ITEM)},
     CorruptInputError, "holds itself"),
    ({"3D/3dmodel.model": model(f'<object id="1">{mesh_xml(CUBE, [[0, 1, 8]])}</object>', ITEM)},
     CorruptInputError, "vertex index 8"),
    ({"3D/3dmodel.model": model(NAN, ITEM)},
     CorruptInputError, "not finite"),
    ({"3D/3dmodel.model": model('<object id="1"><mesh><vertex x="0" y="1"/></mesh></object>', ITEM)},
     CorruptInputError, "attribute is missing"),
    ({"3D/3dmodel.model": model('<object id="1"><mesh><beamlattice/></mesh></object>', ITEM)},
     UnsupportedFormatError, "beam lattice"),
    ({"3D/3dmodel.model": model("", ITEM, 'requiredextensions="b" xmlns:b="urn:beams"')},
     UnsupportedFormatError, "urn:beams"),
    ({"3D/3dmodel.model": model("", FAR)},
     CorruptInputError, "outside the archive"),
    ({"3D/3dmodel.model": b" ", "../evil": b""}, CorruptInputError, "outside the archive"),
])
def test_bad_3mf(tmp_path, members, error, words):
    got = check(save(tmp_path, archive(members), "a.3mf"))
    assert isinstance(got, error)
    assert words in str(got)


def test_3mf_bombs(tmp_path):
    """Spaces pack 1:1000, which no model does; components that multiply tenfold ten times are stopped, too."""
    got = check(save(tmp_path, archive({"3D/3dmodel.model": b" " * (64 << 20)})))
    assert isinstance(got, CorruptInputError)
    assert "unpacks to more than" in str(got)
    levels = "".join(f'<object id="{k + 1}"><components>' + f'<component objectid="{k}"/>' * 10
                     + "</components></object>" for k in range(1, 11))
    got = check(save(tmp_path, archive({"3D/3dmodel.model": model(BOX + levels, '<item objectid="11"/>')})))
    assert isinstance(got, UnsupportedFormatError)


def test_archive_names(tmp_path):
    a = Archive(archive({"a/b.png": b"x"}), "w")
    assert a.clean("b.png", "a") == a.clean("/a/b.png") == a.clean("..\\a\\b.png", "a") == "a/b.png"
    assert a.read("A/B.PNG") == b"x"
    for name in ("../x", "a/../../x", "C:/x", "", "/", "//..//x"):
        with pytest.raises(CorruptInputError, match="outside"):
            a.clean(name, "a" if name == "../../x" else "")


@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_spoiled_bytes(tmp_path_factory, data):
    raw = bytearray(data.draw(st.sampled_from([cube_off(), box_3mf(), model(BOX, ITEM)])))
    for at, value in data.draw(st.lists(st.tuples(st.integers(0, len(raw) - 1), st.integers(0, 255)), max_size=6)):
        raw[at] = value
    raw = bytes(raw)
    if raw[:1] == b"<":
        raw = archive({"3D/3dmodel.model": raw}, zipfile.ZIP_STORED)
    path = tmp_path_factory.mktemp("spoiled") / "world.bin"
    path.write_bytes(raw)
    check(path)


def test_a_cut_3mf(tmp_path):
    data = box_3mf()
    for cut in range(1, len(data), 31):
        assert isinstance(check(save(tmp_path, data[:cut])), InputError)
