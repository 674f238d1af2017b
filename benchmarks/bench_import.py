"""Import against other readers, in turn so that a busy machine is busy for all, and the peak memory of every format.

Ratios are those of the least wall time and, as a busy machine starves the one with more threads, the least CPU time.

A million splats of degree 3 as PLY (62 and 59 columns), compressed PLY, SPZ, SOG, .splat and .ksplat; half a million
triangles with a texture as GLB, OBJ and STL. All files are made here. ``gsply`` and ``gaussforge`` are compared with
where they are installed (they are of the test extra). Neither hashes the file, judges rows, looks for sky and outliers
or reports on them.

Peak memory is that above a process which has read two small worlds, so that libraries are not counted.

Where others do less by default, both figures are printed. gsply hands over logarithms and logits, of a PLY with 59
columns as views of the mapped file. trimesh hands over views of a GLB, decodes no picture and looks at no index; what
is read here is decoded, its areas known, its edges, winding and bodies counted. No other library hands over the splats
of a .splat: one decodes them into arrays of its own (of which it gives figures), and can write those as PLY.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bench_splats import room
from spatialbench.scene import load_scene
from spatialbench.scene.splats.write_ply import write_splat_ply

SPLATS, SIDE, ROUNDS = 1_000_000, 500, 5
"""Splats; quads along a side of the mesh, each two triangles; rounds of which the best counts."""
MEMORY = 2.5
FORGE = {"c.compressed.ply": "compressed.ply", "a.spz": "spz", "a.splat": "splat"}
"""Files that it makes, by the name that it has for their format."""
OTHERS = ("a.ksplat", "a.sog", "a.glb")
CHILD = """
import ctypes, sys
from pathlib import Path
import spatialbench
from spatialbench.scene import load_scene
import PIL.Image, PIL.WebPImagePlugin, PIL.JpegImagePlugin, scipy.sparse.csgraph, scipy.spatial
def told(name):
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith(name))
for small in ("sample_room.glb", "sample_room_splats.ply"):  # so that libraries and compiled loops are loaded
    load_scene(Path(spatialbench.__file__).with_name("assets") / small)
ctypes.CDLL(None).malloc_trim(0)  # and nothing that they left is taken again
Path("/proc/self/clear_refs").write_text("5")  # the peak starts from here
before = told("VmRSS")
s = load_scene(Path(sys.argv[1]))
after = told("VmHWM")
arrays = {}
if s.splats is not None:
    k = s.splats
    arrays |= {id(a): a for a in (k.means, k.scales, k.quaternions, k.opacities, k.sh)}
if s.mesh is not None:
    m = s.mesh
    arrays |= {id(a): a for a in (m.vertices, m.faces, m.material_ids, m.uv, m.colors,
                                  *(k.texture for k in m.materials)) if a is not None}
print(after - before, sum(a.nbytes for a in arrays.values()))
"""


def main() -> None:
    """Make the files, then print both tables."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        forge = _make(folder)
        print(f"\n{'import':<47} {'ours s':>8} {'other s':>8} {'ratio':>6} {'of CPU':>6} {'goal':>5}")
        for file in ("62.ply", "59.ply", *FORGE, *OTHERS):
            if (folder / file).is_file():
                _compare(folder / file, forge)
        print(f"\n{'peak memory, MB':<47} {'peak':>8} {'arrays':>8} {'ratio':>6} {'goal':>5}")
        for file in ("62.ply", "59.ply", *FORGE, *OTHERS, "a.obj", "a.stl"):
            if (folder / file).is_file() and sys.platform == "linux":
                done = subprocess.run([sys.executable, "-c", CHILD, str(folder / file)], check=True,
                                      capture_output=True, text=True)
                peak, arrays = map(int, done.stdout.split())
                print(f"{file:<47} {peak / 1e6:>8.0f} {arrays / 1e6:>8.0f} {peak / arrays:>6.2f} {MEMORY:>5}",
                      flush=True)


def _compare(path: Path, forge: Any) -> None:
    readers: dict[str, tuple[Callable[[], object], float]] = {}
    if path.suffix == ".glb":
        import trimesh

        def drawn() -> object:
            scene = trimesh.load_scene(path)
            geometry = scene.to_geometry()
            geometry.visual.material.baseColorTexture.load()
            return geometry.area_faces, geometry.triangles

        def counted() -> object:
            scene = trimesh.load_scene(path)
            geometry = scene.to_geometry()
            geometry.visual.material.baseColorTexture.load()
            return (geometry.area_faces, geometry.triangles, geometry.edges_unique, geometry.is_winding_consistent,
                    geometry.is_watertight, geometry.body_count)

        readers = {"trimesh, views of the file": (lambda: trimesh.load_scene(path), 1.3),
                   "trimesh, triangles, areas, pixels": (drawn, 1.3),
                   "trimesh, edges, winding, bodies too": (counted, 1.3)}
    else:
        readers = _splat_readers(path, forge)
    best = _best(lambda: load_scene(path), *(read for read, _ in readers.values()))
    for (name, (_, goal)), other in zip(readers.items(), best[1:], strict=True):
        wall, cpu = best[0] / other
        print(f"{path.name + ', ' + name:<47} {best[0][0]:>8.3f} {other[0]:>8.3f} {wall:>6.2f} {cpu:>6.2f} {goal:>5}",
              flush=True)
    if not readers:
        print(f"{path.name:<47} {best[0][0]:>8.3f}", flush=True)


def _splat_readers(path: Path, forge: Any) -> dict[str, tuple[Callable[[], object], float]]:
    out: dict[str, tuple[Callable[[], object], float]] = {}
    gsply = _optional("gsply")
    if gsply and path.suffix in (".ply", ".spz"):
        read = gsply.plyread if path.suffix == ".ply" else gsply.read_spz

        def activated() -> object:
            found = read(str(path))
            found.make_contiguous(inplace=True)
            return gsply.apply_pre_activations(found, inplace=True)

        goal = 1.5 if path.name in ("59.ply", "62.ply") else 2.0
        out["gsply"] = (lambda: read(str(path)), goal)
        out["gsply, contiguous, activated"] = (activated, goal)
    kind = FORGE.get(path.name, path.suffix[1:] if path.suffix in (".sog", ".ksplat") else "")
    if forge is not None and kind and kind != "splat":  # whose result it cannot hand over
        out["gaussforge"] = (lambda: forge.read(path.read_bytes(), kind), 2.0)
    elif forge is not None and kind:
        out["gaussforge, to its own arrays"] = (lambda: forge.get_model_info(path.read_bytes(), kind), 2.0)
        out["gaussforge, to a PLY in memory"] = (lambda: forge.convert(path.read_bytes(), kind, "ply"), 2.0)
    return out


def _best(*reads: Callable[[], object]) -> np.ndarray:
    """[reads, 2] least wall and CPU seconds of each."""
    seconds = np.full((ROUNDS, len(reads), 2), np.inf)
    quiet, saved = os.open(os.devnull, os.O_WRONLY), os.dup(1)
    try:
        sys.stdout.flush()
        os.dup2(quiet, 1)  # gaussforge prints a line for every SPZ
        for row in seconds:
            for k, read in enumerate(reads):
                start = time.perf_counter(), time.process_time()
                read()
                row[k] = time.perf_counter() - start[0], time.process_time() - start[1]
    finally:
        os.dup2(saved, 1)
        os.close(saved)
        os.close(quiet)
    return seconds.min(axis=0)


def _make(folder: Path) -> Any:
    """Write all files; the converter where it is installed."""
    write_splat_ply(room(SPLATS), folder / "59.ply")
    data = (folder / "59.ply").read_bytes()
    start = data.index(b"end_header\n") + len(b"end_header\n")
    rows = np.frombuffer(data, "<f4", offset=start).reshape(SPLATS, 59)
    wide = np.insert(rows, [3, 3, 3], 0, axis=1)
    head = data[:start].replace(b"property float f_dc_0", b"property float nx\nproperty float ny\nproperty float nz\n"
                                b"property float f_dc_0")
    (folder / "62.ply").write_bytes(head + wide.tobytes())
    (folder / "a.sog").write_bytes(_sog(SPLATS))
    _meshes(folder)
    (folder / "a.ksplat").write_bytes(_ksplat(rows))
    gaussforge = _optional("gaussforge")
    if gaussforge is None:
        return None
    forge = gaussforge.GaussForge()
    for name, kind in FORGE.items():
        (folder / name).write_bytes(forge.convert(data, "ply", kind)["data"])
    return forge


def _optional(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _ksplat(rows: np.ndarray) -> bytes:
    """KSPLAT of level 0 and degree 2 in one section; of the harmonics only the first band is not 0."""
    n = len(rows)
    out = np.zeros(n, [("center", "<f4", 3), ("scale", "<f4", 3), ("rotation", "<f4", 4), ("color", "u1", 4),
                       ("band1", "<f4", 9), ("band2", "<f4", 15)])
    out["center"], out["scale"], out["rotation"] = rows[:, :3], np.exp(rows[:, 52:55]), rows[:, 55:]
    out["color"], out["band1"] = 128, rows[:, 6:15]
    head = b"\0\1\0\0" + struct.pack("<4IH2x3f2f", 1, 1, n, n, 0, 0, 0, 0, 0, 0)
    section = struct.pack("<4IfHxx4IH", n, n, 0, 0, 0, 0, 0, 0, 0, 0, 2)
    return head.ljust(4096, b"\0") + section.ljust(1024, b"\0") + out.tobytes()


def _sog(n: int) -> bytes:
    """SOG 2 of degree 3 with a full palette; the numbers are noise, which is the slowest to unpack."""
    from PIL import Image

    rng = np.random.default_rng(0)

    def picture(values: np.ndarray, width: int = 1024) -> bytes:
        pixels = np.zeros((-(-len(values) // width), width, 4), np.uint8)
        pixels[..., 3] = 255
        pixels.reshape(-1, 4)[:len(values), :values.shape[1]] = values
        out = io.BytesIO()
        Image.fromarray(pixels).save(out, "WEBP", lossless=True, quality=0, method=0, exact=True)
        return out.getvalue()

    def noise(width: int, below: int = 256) -> np.ndarray:
        return rng.integers(0, below, (n, width)).astype(np.uint8)

    turn, label = noise(4), rng.integers(0, 1 << 16, n)
    turn[:, 3] |= 252
    book = np.linspace(-1, 1, 256).tolist()
    planes = {"means_l": noise(3), "means_u": noise(3), "quats": turn, "scales": noise(3), "sh0": noise(4),
              "labels": np.stack([label & 255, label >> 8], axis=1)}
    meta = {"version": 2, "count": n,
            "means": {"mins": [-2] * 3, "maxs": [2] * 3, "files": ["means_l.webp", "means_u.webp"]},
            "quats": {"files": ["quats.webp"]}, "scales": {"codebook": book, "files": ["scales.webp"]},
            "sh0": {"codebook": book, "files": ["sh0.webp"]},
            "shN": {"count": 1 << 16, "bands": 3, "codebook": book, "files": ["palette.webp", "labels.webp"]}}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("meta.json", json.dumps(meta))
        archive.writestr("palette.webp", picture(rng.integers(0, 256, (960 * 1024, 3)).astype(np.uint8), 960))
        for name, values in planes.items():
            archive.writestr(f"{name}.webp", picture(values))
    return out.getvalue()


def _meshes(folder: Path) -> None:
    """An uneven floor of 10 m with a texture of 2048 x 2048."""
    from PIL import Image

    rng, k = np.random.default_rng(0), SIDE + 1
    x, z = (a.reshape(-1) for a in np.meshgrid(np.linspace(0, 10, k), np.linspace(0, 10, k)))
    vertices = np.stack([x, rng.normal(0, 0.01, k * k), z], axis=1).astype("<f4")
    uv, up = np.stack([x / 10, z / 10], axis=1).astype("<f4"), np.tile(np.array([0, 1, 0], "<f4"), (k * k, 1))
    i = (np.arange(SIDE)[:, None] * k + np.arange(SIDE)).reshape(-1)
    faces = np.concatenate([np.stack([i, i + k, i + 1], 1), np.stack([i + 1, i + k, i + k + 1], 1)]).astype("<u4")
    picture = io.BytesIO()
    Image.fromarray(rng.integers(0, 256, (128, 128, 3), np.uint8).repeat(16, 0).repeat(16, 1)).save(picture, "JPEG")
    (folder / "a.glb").write_bytes(_glb(vertices, up, uv, faces, picture.getvalue()))
    (folder / "a.jpg").write_bytes(picture.getvalue())
    (folder / "a.mtl").write_text("newmtl floor\nmap_Kd a.jpg\n")
    lines = ["mtllib a.mtl", "usemtl floor", *(f"v {a:.5f} {b:.5f} {c:.5f}" for a, b, c in vertices.tolist())]
    lines += [f"vt {a:.5f} {b:.5f}" for a, b in uv.tolist()]
    lines += [f"f {a}/{a} {b}/{b} {c}/{c}" for a, b, c in (faces + 1).tolist()]
    (folder / "a.obj").write_text("\n".join(lines) + "\n")
    rows = np.zeros(len(faces), [("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("flags", "<u2")])
    rows["corners"] = vertices[faces]
    (folder / "a.stl").write_bytes(bytes(80) + struct.pack("<I", len(faces)) + rows.tobytes())


def _glb(vertices: np.ndarray, up: np.ndarray, uv: np.ndarray, faces: np.ndarray, picture: bytes) -> bytes:
    views, binary = [], b""
    for part in (vertices.tobytes(), up.tobytes(), uv.tobytes(), faces.tobytes(), picture):
        views.append({"buffer": 0, "byteOffset": len(binary), "byteLength": len(part)})
        binary += part + bytes(-len(part) % 4)
    shapes = ((vertices, 5126, "VEC3"), (up, 5126, "VEC3"), (uv, 5126, "VEC2"), (faces.reshape(-1), 5125, "SCALAR"))
    document = {
        "asset": {"version": "2.0"}, "scene": 0, "scenes": [{"nodes": [0]}], "nodes": [{"mesh": 0}],
        "buffers": [{"byteLength": len(binary)}], "bufferViews": views,
        "accessors": [{"bufferView": i, "componentType": code, "count": len(a), "type": kind}
                      for i, (a, code, kind) in enumerate(shapes)],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0, "NORMAL": 1, "TEXCOORD_0": 2}, "indices": 3,
                                    "material": 0}]}],
        "materials": [{"pbrMetallicRoughness": {"baseColorTexture": {"index": 0}}}], "textures": [{"source": 0}],
        "images": [{"bufferView": 4, "mimeType": "image/jpeg"}]}
    text = json.dumps(document).encode()
    text += b" " * (-len(text) % 4)
    chunks = struct.pack("<I4s", len(text), b"JSON") + text + struct.pack("<I4s", len(binary), b"BIN\0") + binary
    return struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks


if __name__ == "__main__":
    main()
