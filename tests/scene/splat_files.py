"""Writes small splat files byte by byte, without any of the code under test."""

from __future__ import annotations

import gzip
import io
import json
import struct
import zipfile
from typing import Any

import numpy as np

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
