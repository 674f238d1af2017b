"""Writes small world files byte by byte, without any of the code under test."""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

CUBE = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], dtype="<f4")
CUBE_FACES = np.array([[0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1], [2, 3, 7], [2, 7, 6],
                       [0, 2, 6], [0, 6, 4], [1, 5, 7], [1, 7, 3]], dtype="<u2")
_CODES = {"i1": 5120, "u1": 5121, "i2": 5122, "u2": 5123, "u4": 5125, "f4": 5126}
_TYPES = {1: "SCALAR", 2: "VEC2", 3: "VEC3", 4: "VEC4"}


class GltfBuilder:
    """A glTF document that grows: ``add`` puts an array into the buffer and returns its accessor."""

    def __init__(self) -> None:
        self.buffer = b""
        self.doc: dict[str, Any] = {"asset": {"version": "2.0"}, "scene": 0, "scenes": [{"nodes": [0]}],
                                    "nodes": [{"mesh": 0}], "meshes": [], "accessors": [], "bufferViews": []}

    def view(self, data: bytes) -> int:
        self.buffer += b"\0" * (-len(self.buffer) % 4)
        self.doc["bufferViews"].append({"buffer": 0, "byteOffset": len(self.buffer), "byteLength": len(data)})
        self.buffer += data
        return len(self.doc["bufferViews"]) - 1

    def add(self, array: np.ndarray, **extra: Any) -> int:
        array = np.ascontiguousarray(array)
        width = 1 if array.ndim == 1 else array.shape[1]
        self.doc["accessors"].append({"bufferView": self.view(array.astype(array.dtype.newbyteorder("<")).tobytes()),
                                      "componentType": _CODES[array.dtype.str[1:]], "count": len(array),
                                      "type": _TYPES[width], **extra})
        return len(self.doc["accessors"]) - 1

    def mesh(self, vertices: np.ndarray = CUBE, faces: np.ndarray | None = CUBE_FACES, **extra: Any) -> int:
        """One mesh of one primitive; ``extra`` goes into the primitive, arrays in it become attributes."""
        attributes = {"POSITION": self.add(np.asarray(vertices, "<f4"))}
        primitive: dict[str, Any] = {"attributes": attributes}
        if faces is not None:
            primitive["indices"] = self.add(np.asarray(faces).reshape(-1))
        for key, value in extra.items():
            if isinstance(value, np.ndarray):
                attributes[key] = self.add(value)
            else:
                primitive[key] = value
        self.doc["meshes"].append({"primitives": [primitive]})
        return len(self.doc["meshes"]) - 1

    def glb(self) -> bytes:
        doc = dict(self.doc)
        if self.buffer:
            doc["buffers"] = [{"byteLength": len(self.buffer)}]
        text = json.dumps(doc).encode()
        text += b" " * (-len(text) % 4)
        data = self.buffer + b"\0" * (-len(self.buffer) % 4)
        chunks = struct.pack("<I4s", len(text), b"JSON") + text
        if data:
            chunks += struct.pack("<I4s", len(data), b"BIN\0") + data
        return struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks

    def save(self, path: Path) -> Path:
        path.write_bytes(self.glb())
        return path


def cube_glb() -> bytes:
    b = GltfBuilder()
    b.mesh()
    return b.glb()


def png(pixels: np.ndarray) -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(np.asarray(pixels, np.uint8)).save(out, "PNG")
    return out.getvalue()


QUADRANTS = np.zeros((4, 4, 3), np.uint8)
"""Top left red, top right green, bottom left blue, bottom right white."""
QUADRANTS[:2, :2] = [255, 0, 0]
QUADRANTS[:2, 2:] = [0, 255, 0]
QUADRANTS[2:, :2] = [0, 0, 255]
QUADRANTS[2:, 2:] = [255, 255, 255]


def cube_obj() -> bytes:
    lines = [f"v {x:g} {y:g} {z:g}" for x, y, z in CUBE.tolist()]
    lines += [f"f {a + 1} {b + 1} {c + 1}" for a, b, c in CUBE_FACES.tolist()]
    return ("\n".join(lines) + "\n").encode()


def cube_ply(order: str = "<", text: bool = False) -> bytes:
    name = "ascii" if text else {"<": "binary_little_endian", ">": "binary_big_endian"}[order]
    head = (f"ply\nformat {name} 1.0\nelement vertex 8\nproperty float x\nproperty float y\nproperty float z\n"
            "element face 12\nproperty list uchar int vertex_indices\nend_header\n").encode()
    if text:
        rows = [" ".join(f"{c:g}" for c in v) for v in CUBE.tolist()]
        rows += ["3 " + " ".join(map(str, f)) for f in CUBE_FACES.tolist()]
        return head + ("\n".join(rows) + "\n").encode()
    body = CUBE.astype(order + "f4").tobytes()
    for f in CUBE_FACES:
        body += struct.pack(order + "B3i", 3, *f.tolist())
    return head + body


def cube_stl(text: bool = False, header: bytes = b"made by hand") -> bytes:
    corners = CUBE[CUBE_FACES]
    if text:
        out = "solid cube\n"
        for t in corners.tolist():
            out += "facet normal 0 0 0\nouter loop\n"
            out += "".join(f"vertex {x:g} {y:g} {z:g}\n" for x, y, z in t)
            out += "endloop\nendfacet\n"
        return (out + "endsolid cube\n").encode()
    body = b"".join(struct.pack("<3f", 0, 0, 0) + t.astype("<f4").tobytes() + b"\0\0" for t in corners)
    return header.ljust(80, b"\0") + struct.pack("<I", len(corners)) + body
