"""Writes small splat files byte by byte, without any of the code under test."""

from __future__ import annotations

import gzip
import io
import json
import struct
import zipfile
from collections.abc import Iterable
from typing import Any

import numpy as np
from scene_files import CUBE, CUBE_FACES, GltfBuilder

BASE = ["x", "y", "z", "f_dc_0", "f_dc_1", "f_dc_2", "opacity", "scale_0", "scale_1", "scale_2", "rot_0", "rot_1",
        "rot_2", "rot_3"]


def row(**changed: float) -> dict[str, float]:
    """One plain splat at (1, 2, 3): opacity 0.75, deviations 1, 2, 0.5, turned by 90 degrees about x."""
    values = dict(zip(BASE, (1, 2, 3, 0.1, 0.2, 0.3, np.log(3), 0, np.log(2), -np.log(2), 1, 1, 0, 0), strict=True))
    return {**values, **changed}


def ply(rows: list[dict[str, float]], *, order: str = "<", kind: str = "float", comments: tuple[str, ...] = (),
        drop: tuple[str, ...] = (), count: int | None = None, end: bytes = b"\n", tail: bytes = b"") -> bytes:
    """A 3DGS PLY; ``order`` is '<', '>' or '' for text."""
    name = {"": "ascii", "<": "binary_little_endian", ">": "binary_big_endian"}[order]
    names = [n for n in rows[0] if n not in drop]
    head = ["ply", f"format {name} 1.0", *(f"comment {c}" for c in comments),
            f"element vertex {len(rows) if count is None else count}", *(f"property {kind} {n}" for n in names),
            "end_header"]
    out = end.join(line.encode() for line in head) + end
    if not order:
        body = "\n".join(" ".join(repr(float(r[n])) for n in names) for r in rows) + "\n"
        return out + body.encode() + tail
    code = order + ("d" if kind == "double" else "f") * len(names)
    return out + b"".join(struct.pack(code, *(r[n] for n in names)) for r in rows) + tail


CHUNK = [f"{s}_{a}" for s in ("min", "max") for a in ("x", "y", "z", "scale_x", "scale_y", "scale_z", "r", "g", "b")]
PACKED = ["packed_position", "packed_rotation", "packed_scale", "packed_color"]


def compressed_ply(words: list[tuple[int, int, int, int]], low: list[float], high: list[float],
                   sh: list[list[int]] | None = None, chunks: int = 1, colors: bool = True) -> bytes:
    """A PlayCanvas compressed PLY whose chunks all have the same bounds."""
    names = [n for n in CHUNK if colors or n[-2:] not in ("_r", "_g", "_b")]
    bounds = dict(zip(CHUNK, [*low, *high], strict=True))
    lines = ["ply", "format binary_little_endian 1.0", f"element chunk {chunks}",
             *(f"property float {n}" for n in names), f"element vertex {len(words)}",
             *(f"property uint {n}" for n in PACKED)]
    body = struct.pack(f"<{len(names)}f", *(bounds[n] for n in names)) * chunks
    body += b"".join(struct.pack("<4I", *w) for w in words)
    if sh is not None:
        lines += [f"element sh {len(sh)}", *(f"property uchar f_rest_{i}" for i in range(len(sh[0])))]
        body += b"".join(bytes(s) for s in sh)
    return ("\n".join([*lines, "end_header"]) + "\n").encode() + body


def fixed24(*values: int) -> bytes:
    return b"".join((v & 0xFFFFFF).to_bytes(3, "little") for v in values)


def spz_body(positions: bytes, *, version: int = 2, n: int = 1, degree: int = 0, bits: int = 12, flags: int = 0,
             alphas: bytes = b"\x80", colors: bytes = b"\x80\x80\x80", scales: bytes = b"\xa0\xa0\xa0",
             rotations: bytes = b"\x80\x80\x80", sh: bytes = b"", tail: bytes = b"") -> bytes:
    """The unpacked stream of an SPZ file."""
    head = struct.pack("<4sIIBBBB", b"NGSP", version, n, degree, bits, flags, 0)
    return head + positions + alphas + colors + scales + rotations + sh + tail


def spz(positions: bytes, **more: Any) -> bytes:
    return gzip.compress(spz_body(positions, **more), mtime=0)


def spz4(positions: bytes, *, n: int = 1, degree: int = 0, bits: int = 12, flags: int = 0, alphas: bytes = b"\x80",
         colors: bytes = b"\x80\x80\x80", scales: bytes = b"\xa0\xa0\xa0", rotations: bytes = b"\0\0\0\xc0",
         sh: bytes = b"", tail: bytes = b"", streams: int | None = None, table: int | None = None,
         count: int | None = None) -> bytes:
    """SPZ 4; ``tail`` stands before the table of streams. ``streams``, ``table`` and ``count`` may lie."""
    import zstandard

    planes = [p for p in (positions, alphas, colors, scales, rotations, sh) if p]
    packed = [zstandard.ZstdCompressor().compress(p) for p in planes]
    at = 32 + len(tail)
    head = struct.pack("<4sIIBBBBI12x", b"NGSP", 4, n if count is None else count, degree, bits, flags,
                       len(planes) if streams is None else streams, at if table is None else table)
    sizes = b"".join(struct.pack("<QQ", len(z), len(p) if count is None else len(p) * count)
                     for z, p in zip(packed, planes, strict=True))
    return head + tail + sizes + b"".join(packed)


def section(values: Iterable[float], *, degree: int = 0, **more: Any) -> dict[str, Any]:
    """A KSPLAT section: splat ``v`` at (v, -v, 2v), deviations (1, 0.5, 0.25), opaque grey, turned about x by 90
    degrees; coefficient ``k`` of channel ``c`` is k + c / 4. ``buckets`` are (splats, centre), full ones first."""
    return {"values": list(values), "degree": degree, **more}


def ksplat(sections: list[dict[str, Any]], *, level: int = 0, block: float = 16.0, span: int = 32767,
           low: float = 0.0, high: float = 0.0, version: bytes = b"\0\1", splats: int | None = None) -> bytes:
    """A KSPLAT file."""
    total = sum(len(s["values"]) for s in sections)
    head = version + b"\0\0" + struct.pack("<4IH2x3f2f", len(sections), len(sections), 0,
                                           total if splats is None else splats, level, 0, 0, 0, low, high)
    heads, body = head.ljust(4096, b"\0"), b""
    for s in sections:
        values, degree = s["values"], s["degree"]
        buckets = s.get("buckets", [(len(values), (0.0, 0.0, 0.0))]) if level else []
        size = buckets[0][0] if buckets else 0
        full = 0
        while full < len(buckets) and buckets[full][0] == size:
            full += 1
        partial = [b[0] for b in buckets[full:]]
        centers = [c for n, c in buckets for _ in range(n)]
        heads += struct.pack("<4IfH2x4IH", s.get("splats", len(values)), s.get("room", len(values)), size,
                             len(buckets), block, 12 if level else 0, span if level else 0, 0, full, len(partial),
                             degree).ljust(1024, b"\0")
        body += b"".join(struct.pack("<I", p) for p in partial) + b"".join(struct.pack("<3f", *c) for _, c in buckets)
        for i, v in enumerate(values):
            at, shape, turn = (v, -v, 2 * v), (1.0, 0.5, 0.25), (0.5**0.5, 0.5**0.5, 0.0, 0.0)
            if level:
                body += struct.pack("<3H", *(round((a - c) / (block / 2) * span) + span
                                             for a, c in zip(at, centers[i], strict=True)))
            body += struct.pack("<3f7f" if level == 0 else "<7e", *(at if level == 0 else ()), *shape, *turn)
            body += bytes([128, 128, 128, 255])
            for band in range(1, degree + 1):
                harmonics = [k + c / 4 for c in range(3) for k in range(band * band, (band + 1) ** 2)]
                if level == 2:
                    body += bytes(round((h - low) / (high - low) * 255) if high > low else 128 for h in harmonics)
                else:
                    body += struct.pack(f"<{len(harmonics)}{'fe'[level]}", *harmonics)
    return heads + body


GAUSSIANS = "KHR_gaussian_splatting"


def add_gaussians(b: GltfBuilder, means: np.ndarray, *, scales: Any = (0.5, 1, 2), rotation: Any = (0, 0, 0, 1),
                  opacity: Any = 0.75, degree: int = 0, sh: Any = None, block: dict[str, Any] | None = None,
                  drop: tuple[str, ...] = (), **more: Any) -> int:
    """A mesh of one primitive of Gaussians; ``rotation`` xyzw, ``sh`` [N,K,3]."""
    n = len(means)
    k = (degree + 1) ** 2
    sh = np.arange(n * k * 3).reshape(n, k, 3) / 100 if sh is None else np.asarray(sh)
    widths = {"ROTATION": (rotation, (4,)), "SCALE": (scales, (3,)), "OPACITY": (opacity, ())}
    named = {name: np.broadcast_to(np.asarray(value), (n, *width)) for name, (value, width) in widths.items()}
    named |= {f"SH_DEGREE_{d}_COEF_{i}": sh[:, d * d + i] for d in range(degree + 1) for i in range(2 * d + 1)}
    attributes = {"POSITION": b.add(np.asarray(means, "<f4"))}
    for name, values in named.items():
        if name not in drop:
            kind = values.dtype if values.dtype.itemsize < 4 else np.dtype("<f4")
            normal = {"normalized": True} if kind.itemsize < 4 else {}
            attributes[f"{GAUSSIANS}:{name}"] = b.add(np.ascontiguousarray(values, kind), **normal)
    b.doc["meshes"].append({"primitives": [{"mode": 0, "attributes": attributes, **more, "extensions": {
        GAUSSIANS: {"kernel": "ellipse", "colorSpace": "srgb_rec709_display"} if block is None else block}}]})
    b.doc["extensionsUsed"] = [GAUSSIANS]
    return len(b.doc["meshes"]) - 1


def gaussian_glb(n: int, *, cube: bool = False, **more: Any) -> bytes:
    """A GLB of ``n`` Gaussians in a row along x, perhaps with a cube beside them."""
    b = GltfBuilder()
    add_gaussians(b, np.arange(3 * n).reshape(n, 3) / 2, **more)
    if cube:
        b.mesh(CUBE, CUBE_FACES)
        b.doc["nodes"] = [{"mesh": 0}, {"mesh": 1}]
        b.doc["scenes"] = [{"nodes": [0, 1]}]
    return b.glb()


def spz_glb(stream: bytes, count: int, *, name: str = "_compression_spz_2", box: Any = None) -> bytes:
    """A GLB whose Gaussians are an SPZ stream; ``box`` is what its accessor states of their bounds."""
    b = GltfBuilder()
    view = b.view(stream)
    bounds = {} if box is None else {"min": list(box[0]), "max": list(box[1])}
    b.doc["accessors"].append({"componentType": 5126, "count": count, "type": "VEC3", **bounds})
    b.doc["meshes"].append({"primitives": [{"mode": 0, "attributes": {"POSITION": 0}, "extensions": {
        GAUSSIANS: {"extensions": {GAUSSIANS + name: {"bufferView": view}}}}}]})
    b.doc["extensionsUsed"] = b.doc["extensionsRequired"] = [GAUSSIANS, GAUSSIANS + name]
    return b.glb()


def webp(pixels: np.ndarray) -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(np.asarray(pixels, np.uint8)).save(out, "WEBP", lossless=True, exact=True)
    return out.getvalue()


def sog_files(n: int = 2, **changed: Any) -> dict[str, bytes]:
    """The files of a SOG world of ``n`` splats: a ramp of positions, opacity 128/255, no turn, grey."""
    side = 4
    pad = np.zeros((side, side, 4), np.uint8)

    def plane(rows: list[tuple[int, int, int, int]]) -> bytes:
        out = pad.copy().reshape(-1, 4)
        out[:len(rows)] = rows
        return webp(out.reshape(side, side, 4))

    meta: dict[str, Any] = {
        "version": 2, "count": n,
        "means": {"mins": [0, -1, 0], "maxs": [float(np.log(3)), 1, 0], "files": ["means_l.webp", "means_u.webp"]},
        "scales": {"codebook": [float(np.log(0.5 + i)) for i in range(256)], "files": ["scales.webp"]},
        "quats": {"files": ["quats.webp"]},
        "sh0": {"codebook": [i / 64 - 2 for i in range(256)], "files": ["sh0.webp"]}}
    meta.update(changed)
    last = max(n - 1, 1)
    at = [round(65535 * i / last) for i in range(n)]
    return {"meta.json": json.dumps(meta).encode(),
            "means_l.webp": plane([(a & 255, a & 255, 0, 255) for a in at]),
            "means_u.webp": plane([(a >> 8, a >> 8, 0, 255) for a in at]),
            "quats.webp": plane([(128, 128, 128, 252)] * n),
            "scales.webp": plane([(0, 1, 2, 255)] * n),
            "sh0.webp": plane([(128, 192, 64, 128)] * n)}


def sog(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
        for name, data in files.items():
            z.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def dotsplat(*records: tuple) -> bytes:
    """Records of (x, y, z, three scales, RGBA, wxyz as bytes)."""
    return b"".join(struct.pack("<6f8B", *r) for r in records)
