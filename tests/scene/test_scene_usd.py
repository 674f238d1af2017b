"""USD in text, binary and USDZ: stages written by hand or by usd-core, with known answers."""

from __future__ import annotations

import subprocess
import zipfile

import numpy as np
import pytest
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

pytest.importorskip("pxr", reason="usd-core is an extra")


def cube(extra="", points=CUBE, faces=CUBE_FACES, name="m"):
    rows = ", ".join(f"({x:g}, {y:g}, {z:g})" for x, y, z in np.asarray(points).tolist())
    return (f'def Mesh "{name}" {{\nint[] faceVertexCounts = [{", ".join("3" for _ in faces)}]\n'
            f'int[] faceVertexIndices = [{", ".join(map(str, np.asarray(faces).reshape(-1).tolist()))}]\n'
            f"point3f[] points = [{rows}]\n{extra}\n}}\n")


def stage(body, head=""):
    """USD wants each statement on a line of its own."""
    return f"#usda 1.0\n(\n{head}\n)\n" + body.replace("{", "{\n").replace("}", "\n}\n")


def load(tmp_path, text, name="w.usda"):
    (tmp_path / name).write_text(text)
    return load_scene(tmp_path / name)


def volume(mesh):
    t = mesh.triangles
    return float(np.einsum("ij,ij->i", t[:, 0], np.cross(t[:, 1], t[:, 2])).sum() / 6)


TURNED = """def Xform "a" {
double3 xformOp:translate = (10, 0, 0)
float xformOp:rotateZ = 90
uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:rotateZ"]
def Xform "b" { float3 xformOp:scale = (2, 1, -1)
uniform token[] xformOpOrder = ["xformOp:scale"]
%s } }"""


def test_transforms_axis_and_unit(tmp_path):
    """By hand: scaled to [0,2] x [0,1] x [-1,0], a quarter turn about Z takes x to y and y to -x, then 10 along x."""
    scene = load(tmp_path, stage(TURNED % cube(), 'upAxis = "Z"\nmetersPerUnit = 0.01'))
    np.testing.assert_allclose(scene.report.bounds, [[9, 0, -1], [10, 2, 0]], atol=1e-12)
    assert volume(scene.mesh) == pytest.approx(2)  # not inside out, though mirrored
    assert (scene.side.up.tolist(), scene.side.up_source) == ([0, 0, 1], "file")
    assert (scene.side.unit_m, scene.side.unit_source) == (0.01, "file")
    assert scene.report.format == "usd"
    bare = load(tmp_path, stage(cube()))
    assert (bare.side.up, bare.side.unit_m, bare.prior_unit_m, bare.prior_up.tolist()) == (None, None, 0.01, [0, 1, 0])


def test_left_handed_meshes_and_holes(tmp_path):
    scene = load(tmp_path, stage(cube('uniform token orientation = "leftHanded"', faces=CUBE_FACES[:, [0, 2, 1]])))
    assert volume(scene.mesh) == pytest.approx(1)
    assert load(tmp_path, stage(cube("int[] holeIndices = [0, 5]"))).report.n_faces == 10


@pytest.mark.parametrize(("per", "values", "expected"), [
    ("constant", "(1, 0.5, 0)", [[1, 0.5, 0]] * 3),
    ("uniform", ", ".join(f"(0, 0, {k / 20})" for k in range(12)), [[0, 0, 1 / 20]] * 3),
    ("vertex", ", ".join(f"(0, {k / 8}, 0)" for k in range(8)), [[0, 0, 0], [0, 3 / 8, 0], [0, 2 / 8, 0]]),
    ("faceVarying", ", ".join(f"({k / 36}, 0, 0)" for k in range(36)), [[k / 36, 0, 0] for k in (3, 4, 5)])])
def test_display_colours_are_linear(tmp_path, per, values, expected):
    mesh = load(tmp_path, stage(cube(f'color3f[] primvars:displayColor = [{values}] (interpolation = "{per}")'))).mesh
    np.testing.assert_allclose(mesh.colors[1, :, :3], expected, atol=1e-6)  # faces[1] is 0 3 2


MATERIAL = """def Material "M" {
token outputs:surface.connect = </M/S.outputs:surface>
def Shader "S" { uniform token info:id = "UsdPreviewSurface"
%s
token outputs:surface }
def Shader "T" { uniform token info:id = "UsdUVTexture"
asset inputs:file = @tex/q.png@
token inputs:wrapS = "clamp"
float2 inputs:st.connect = </M/R.outputs:result>
float3 outputs:rgb }
def Shader "R" { uniform token info:id = "UsdPrimvarReader_float2"
string inputs:varname = "uvs"
float2 outputs:result }
}
"""
BOUND = 'rel material:binding = </M>\nprepend apiSchemas = ["MaterialBindingAPI"]'


def bound(surface, extra=""):
    body = cube("rel material:binding = </M>\n" + extra)
    return stage(MATERIAL % surface + body.replace('"m" {', '"m" (prepend apiSchemas = ["MaterialBindingAPI"]) {'))


def test_preview_surface(tmp_path):
    mesh = load(tmp_path, bound("color3f inputs:diffuseColor = (0.1, 0.2, 0.3)\nfloat inputs:opacity = 0.5\n"
                                "color3f inputs:emissiveColor = (1, 0, 0)",
                                "color3f[] primvars:displayColor = [(1, 0, 0)]")).mesh
    m = mesh.materials[0]
    np.testing.assert_allclose(m.base_color, [0.1, 0.2, 0.3, 0.5], atol=1e-6)
    assert (m.name, m.alpha_mode, m.emissive) == ("M", "blend", (1.0, 0.0, 0.0))
    assert mesh.colors is None or (mesh.colors == 1).all()  # the material stands above displayColor


UVS = ", ".join(f"({k / 8}, 0.25)" for k in range(8))
TEXTURED = bound("color3f inputs:diffuseColor.connect = </M/T.outputs:rgb>",
                 f'texCoord2f[] primvars:uvs = [{UVS}] (interpolation = "vertex")')


def test_texture_runs_up(tmp_path):
    (tmp_path / "tex").mkdir()
    (tmp_path / "tex" / "q.png").write_bytes(png(QUADRANTS))
    scene = load(tmp_path, TEXTURED)
    assert scene.mesh.materials[0].texture[0, 0].tolist() == [255, 0, 0, 255]
    assert scene.mesh.materials[0].wrap == ("clamp", "repeat")
    np.testing.assert_allclose(scene.mesh.uv[1], [[0, 0.75], [3 / 8, 0.75], [2 / 8, 0.75]], atol=1e-6)
    assert [f.name for f in scene.report.files] == ["w.usda", "tex/q.png"]
    (tmp_path / "tex" / "q.png").unlink()
    assert any("tex/q.png' is left out" in w for w in load(tmp_path, TEXTURED).report.warnings)


def usdz(path, members):
    """Stored, each body on a boundary of 64 bytes, as the format asks."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as z:
        for name, data in members.items():
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            pad = -(z.fp.tell() + 30 + len(name) + 4) % 64
            info.extra = b"\x86\x19" + pad.to_bytes(2, "little") + b"\0" * pad
            z.writestr(info, data)
    return path


def test_usdz(tmp_path):
    path = usdz(tmp_path / "w.usdz", {"a.usda": TEXTURED.encode(), "tex/q.png": png(QUADRANTS)})
    scene = load_scene(path)
    assert scene.report.n_faces == 12
    assert scene.mesh.materials[0].texture is not None
    assert [f.name for f in scene.report.files] == ["w.usdz"]
    away = stage('def "x" (references = @../../other.usda@) {}').encode()
    got = check(usdz(tmp_path / "w.usdz", {"a.usda": away}))
    assert isinstance(got, CorruptInputError)


def test_binary_equals_text(tmp_path):
    from pxr import Sdf

    text = load(tmp_path, stage(TURNED % cube()))
    Sdf.Layer.FindOrOpen(str(tmp_path / "w.usda")).Export(str(tmp_path / "b.usdc"))
    binary = load_scene(tmp_path / "b.usdc")
    np.testing.assert_array_equal(binary.mesh.vertices, text.mesh.vertices)
    np.testing.assert_array_equal(binary.mesh.faces, text.mesh.faces)


def test_what_is_not_drawn(tmp_path):
    body = (cube() + cube('token visibility = "invisible"', name="h")
            + cube('uniform token purpose = "guide"', name="g")
            + 'over "o" { def Mesh "p" {} }\n class "c" { def Mesh "q" {} }')
    r = load(tmp_path, stage(body)).report
    assert r.n_faces == 12
    assert {x.name: x.count for x in r.repairs} == {"prims_hidden_skipped": 2}


def test_references_and_instances_inside_the_folder(tmp_path):
    (tmp_path / "part.usda").write_text(stage('def Xform "p" {' + cube() + "}", 'defaultPrim = "p"'))
    two = "".join(f'def "i{k}" (instanceable = true\nreferences = @./part.usda@) {{ double3 xformOp:translate = '
                  f'({5 * k}, 0, 0)\nuniform token[] xformOpOrder = ["xformOp:translate"] }}\n' for k in range(2))
    scene = load(tmp_path, stage(two))
    assert (scene.report.n_faces, scene.report.bounds) == (24, [[0, 0, 0], [6, 1, 1]])
    assert [f.name for f in scene.report.files] == ["w.usda", "part.usda"]


@pytest.mark.parametrize(("text", "error", "words"), [
    (stage('def "x" (references = @/etc/a.usda@) {}'), CorruptInputError, "no relative name"),
    (stage('def "x" (references = @https://a.b/c.usda@) {}'), CorruptInputError, "no relative name"),
    (stage('def "x" (payload = @../a.usda@) {}'), CorruptInputError, "outside its folder"),
    (stage("", "subLayers = [@gone.usda@]"), MissingInputError, "gone.usda"),
    (stage('def Sphere "s" {}'), UnsupportedFormatError, "holds a Sphere"),
    (stage('def PointInstancer "s" {}'), UnsupportedFormatError, "holds a PointInstancer"),
    (stage('def Xform "s" {}'), EmptyWorldError, "no mesh"),
    (stage('def BasisCurves "s" {}'), EmptyWorldError, "no mesh"),
    (stage(cube(faces=[[0, 1, 99]])), CorruptInputError, "vertex index 99"),
    (stage(cube()).replace("int[] faceVertexCounts = [3,", "int[] faceVertexCounts = [4,"), CorruptInputError,
     "take 37 corners, it has 36"),
    (stage(cube()).replace("(0, 0, 0)", "(nan, 0, 0)"), CorruptInputError, "not finite"),
    (stage(cube())[:-40], CorruptInputError, "cannot be read"),
    ("#usda 1.0\nnonsense", CorruptInputError, "USD scene that cannot be"),
])
def test_bad_stages(tmp_path, text, error, words):
    path = tmp_path / "w.usda"
    path.write_text(text)
    got = check(path)
    assert isinstance(got, error), str(got)
    assert words in str(got)


def test_without_the_extra(tmp_path, monkeypatch):
    monkeypatch.setattr("spatialbench.scene.usd.find_spec", lambda name: None)
    with pytest.raises(UnsupportedFormatError, match=r'pip install "spatialbench\[usd\]"'):
        load(tmp_path, stage(cube()))


def test_a_reader_that_crashes_or_hangs_is_an_error(tmp_path, monkeypatch):
    """USD runs in a process of its own; whatever becomes of that, an error says so."""
    (tmp_path / "w.usda").write_text(stage(cube()))
    real = subprocess.run

    def stand_in(program):
        return lambda command, **more: real([command[0], "-c", program], **more)

    monkeypatch.setattr("spatialbench.scene.usd._LIMIT_S", 1.0)
    for program, words in (("import os; os.abort()", "gives up"), ("import time; time.sleep(60)", "takes more than")):
        monkeypatch.setattr("spatialbench.scene.usd.subprocess.run", stand_in(program))
        got = check(tmp_path / "w.usda")
        assert isinstance(got, CorruptInputError)
        assert words in str(got)


@pytest.mark.slow
def test_spoiled_binary_stages(tmp_path):
    from pxr import Sdf

    (tmp_path / "a.usda").write_text(stage(cube()))
    Sdf.Layer.FindOrOpen(str(tmp_path / "a.usda")).Export(str(tmp_path / "b.usdc"))
    data = (tmp_path / "b.usdc").read_bytes()
    rng = np.random.default_rng(0)
    (tmp_path / "world").mkdir()
    for _ in range(3):
        raw = bytearray(data)
        for at in rng.integers(8, len(raw), 3):
            raw[at] = rng.integers(256)
        (tmp_path / "world" / "w.usdc").write_bytes(raw)
        check(tmp_path / "world" / "w.usdc")
    for cut in (8, 40, len(data) - 3):
        (tmp_path / "world" / "w.usdc").write_bytes(data[:cut])
        assert isinstance(check(tmp_path / "world" / "w.usdc"), InputError)


def test_real_stages(data_dir):
    """Manifest: 440 faces (quads) of 130 x 30 x 130 units of 0.01 m; the teapot's 1,236 quads."""
    scene = load_scene(data_dir / "scenes/meshes/McUsd_10cm.usda")
    assert (scene.report.n_faces, scene.side.unit_m) == (880, 0.01)
    np.testing.assert_allclose(scene.report.bounds, [[-60, 0, -60], [70, 30, 70]], atol=1e-3)
    pot = load_scene(data_dir / "scenes/objects/UtahTeapot.usd")
    assert (pot.report.n_faces, pot.side.unit_m) == (2472, 1.0)
    np.testing.assert_allclose(pot.report.bounds, [[-0.1526, 0, -0.2621], [0.1526, 0.2296, 0.2289]], atol=1e-4)
