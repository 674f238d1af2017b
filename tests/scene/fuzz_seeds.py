"""Small sound worlds of every format that is read, to be spoiled: made here, or real ones from ``tests/data``."""

from __future__ import annotations

import gzip
from functools import cache
from pathlib import Path

import numpy as np
from scene_files import CUBE, QUADRANTS, GltfBuilder, cube_glb, cube_obj, cube_ply, cube_stl, png
from splat_files import compressed_ply, dotsplat, fixed24, gaussian_glb, ply, row, sog, sog_files, spz, spz_body
from test_ktx2 import textured
from test_scene_bad_input import rich_glb
from test_scene_gltf_poses import ONE, instanced, skinned
from test_scene_off_3mf import archive, cube_off, mesh_xml, model

__all__ = ["seeds"]

DATA = Path(__file__).parents[1] / "data"


def textured_obj() -> dict[str, bytes]:
    uv = "".join(f"vt {u} {v}\n" for u in (0, 1) for v in (0, 1))
    return {"w.obj": b"mtllib w.mtl\nusemtl a\n" + uv.encode() + cube_obj().replace(b"f 1 2 4", b"f 1/1 2/2 4/3"),
            "w.mtl": b"newmtl a\nKd 1 0.5 0.2\nmap_Kd q.png\n", "q.png": png(QUADRANTS)}


def split_gltf() -> dict[str, bytes]:
    import json

    b = GltfBuilder()
    b.mesh()
    b.doc["buffers"] = [{"uri": "w.bin", "byteLength": len(b.buffer)}]
    return {"w.gltf": json.dumps(b.doc).encode(), "w.bin": b.buffer}


def morphed_glb() -> bytes:
    b = GltfBuilder()
    b.mesh()
    b.doc["meshes"][0]["weights"] = [0.5]
    b.doc["meshes"][0]["primitives"][0]["targets"] = [{"POSITION": b.add(np.ones((8, 3), "<f4"))}]
    return b.glb()


def material_3mf() -> bytes:
    resources = ('<basematerials id="5"><base name="a" displaycolor="#FF0000"/></basematerials>'
                 '<m:texture2d id="3" path="/3D/q.png" contenttype="image/png"/><m:texture2dgroup id="4" texid="3">'
                 '<m:tex2coord u="0" v="1"/><m:tex2coord u="1" v="0"/></m:texture2dgroup>'
                 f'<object id="1" pid="4" pindex="1">{mesh_xml()}</object><object id="2" pid="5"><components>'
                 '<component objectid="1" transform="1 0 0 0 1 0 0 0 1 2 0 0"/></components></object>')
    return archive({"3D/3dmodel.model": model(resources, '<item objectid="1"/><item objectid="2"/>'),
                    "3D/q.png": png(QUADRANTS)})


def draco() -> dict[str, bytes]:
    try:
        import DracoPy  # noqa: F401
    except ImportError:
        return {}
    from test_scene_draco import encode, glb

    return {"draco.glb": glb(encode())[1], "draco.drc": encode(colors=np.full((8, 3), 9, np.uint8))}


def ktx2() -> dict[str, bytes]:
    """Textures of both Basis formats, with and without alpha and Zstandard."""
    return {f"{name}.glb": textured((DATA / "ktx2" / f"{name}.ktx2").read_bytes()).glb()
            for name in ("etc1s_ramps", "etc1s_alpha", "uastc_ramps", "uastc_alpha_zstd")}


def usd() -> dict[str, tuple[dict[str, bytes], str]]:
    """The same stage as text, as binary and packed; with transforms, a texture, and colours on a mesh."""
    try:
        from pxr import Usd, UsdUtils
    except ImportError:
        return {}
    import tempfile

    from test_scene_usd import TEXTURED, TURNED, cube, stage

    colored = cube('color3f[] primvars:displayColor = [(1, 0.5, 0)] (interpolation = "constant")', name="n")
    turned = stage(TURNED % colored, 'upAxis = "Z"\nmetersPerUnit = 0.01')
    text = turned + TEXTURED.partition("\n)\n")[2].replace("tex/q.png", "q.png")
    with tempfile.TemporaryDirectory() as t:
        files = {"q.png": png(QUADRANTS), "w.usda": text.encode()}
        for name, data in files.items():
            (Path(t) / name).write_bytes(data)
        opened = Usd.Stage.Open(f"{t}/w.usda")  # a layer does not outlive its stage
        opened.GetRootLayer().Export(f"{t}/w.usdc")
        UsdUtils.CreateNewUsdzPackage(f"{t}/w.usda", f"{t}/w.usdz")
        binary, packed = (Path(t, f"w.{end}").read_bytes() for end in ("usdc", "usdz"))
    return {"usd text": (files, "w.usda"), "usd binary": ({"q.png": files["q.png"], "w.usdc": binary}, "w.usdc"),
            "usd packed": ({"w.usdz": packed}, "w.usdz")}


def meshopt_glb() -> bytes:
    import tempfile

    import test_scene_meshopt as m

    with tempfile.TemporaryDirectory() as t:
        return m.save(Path(t), m.cube_glb()).read_bytes()


@cache
def seeds() -> dict[str, tuple[dict[str, bytes], str]]:
    """Files of each world, and the one to load (empty: their folder)."""
    harmonic = {**row(), **{f"f_rest_{i}": float(i) for i in range(9)}}
    body = spz_body(fixed24(*range(9)), n=3, alphas=b"abc", colors=b"abcdefghi", scales=b"\xa0" * 9,
                    rotations=b"\x85" * 9, degree=1, sh=bytes(range(27)))
    single = {
        "cube.glb": cube_glb(), "rich.glb": rich_glb(), "morph.glb": morphed_glb(),
        "instances.glb": instanced(TRANSLATION=[[0, 0, 0], [2, 0, 0]], SCALE=[[1, 1, 1], [1, -1, 1]]).glb(),
        "skin.glb": skinned([[0, 1, 0, 0]] * 8, ONE, [{}, {"scale": [2, 2, 2]}], bind=[np.eye(4)] * 2).glb(),
        "cube.obj": cube_obj(), "cube.ply": cube_ply(), "big.ply": cube_ply(">"), "text.ply": cube_ply(text=True),
        "cube.stl": cube_stl(), "text.stl": cube_stl(text=True), "cube.off": cube_off(), "parts.3mf": material_3mf(),
        "splats.ply": ply([harmonic] * 3), "splats_text.ply": ply([row(), row(x=7)], order=""),
        "packed.ply": compressed_ply([(2**31, 123456789, 3, 4)] * 2, [-1.0, 0, 10, -4, -3, -2, 0, 0.25, 0],
                                     [1.0, 2, 20, -2, -1, 0, 1, 0.75, 0.5], sh=[[1] * 9] * 2),
        "a.spz": gzip.compress(body, mtime=0), "b.spz": spz(fixed24(1, 2, 3)), "a.sog": sog(sog_files()),
        "a.splat": dotsplat(*[(1, 2, 3, 0.5, 1, 2, 255, 51, 0, 204, 255, 128, 128, 128)] * 3),
        "splats.glb": gaussian_glb(3), "both.glb": gaussian_glb(3, cube=True), **draco(), **ktx2()}
    single["meshopt.glb"] = meshopt_glb()
    for path in sorted((DATA / "splats").iterdir()):
        if path.suffix != ".csv":
            single[f"real {path.name}"] = path.read_bytes()
    for name in ("navmesh/islands.obj", "placement/flat_table.obj"):
        single[f"real {name.rpartition('/')[2]}"] = (DATA / name).read_bytes()
    out = {name: ({name.removeprefix("real "): data}, name.removeprefix("real ")) for name, data in single.items()}
    out["textured obj"] = (textured_obj(), "w.obj")
    out["split gltf"] = (split_gltf(), "w.gltf")
    out["sog folder"] = (sog_files(), "")
    out["layers"] = ({"mesh_layer0.ply": cube_ply(), "mesh_layer1.ply": cube_ply(text=True)}, "")
    splats = [{**row(), "x": x, "y": y, "z": z} for x, y, z in CUBE.tolist()]
    out.update(usd())
    out["pair"] = ({"a.ply": ply(splats), "collider.glb": cube_glb()}, "")
    return out
