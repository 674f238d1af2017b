"""Writing one textured, unlit mesh and a camera as binary glTF 2.0."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["write_glb"]


def write_glb(path: Path, positions: NDArray[np.float32], faces: NDArray[np.uint32], uv: NDArray[np.float32],
              image: bytes, mime: str, camera: tuple[float, float, float], yfov_deg: float, name: str,
              copyright_line: str) -> None:
    """Write positions [V,3], faces [F,3], uv [V,2] (v down) and an encoded image.

    The world is one node without a transform; the camera is a second one, looking along -Z. The material is
    KHR_materials_unlit and single-sided. Equal input gives equal bytes.
    """
    few = len(positions) <= 0xFFFF
    chunks = [np.ascontiguousarray(positions, "<f4").tobytes(), np.ascontiguousarray(uv, "<f4").tobytes(),
              np.ascontiguousarray(faces, "<u2" if few else "<u4").tobytes(), image]
    views, blob = [], b""
    for k, chunk in enumerate(chunks):
        view: dict[str, Any] = {"buffer": 0, "byteOffset": len(blob), "byteLength": len(chunk)}
        if k < 3:
            view["target"] = 34963 if k == 2 else 34962
        views.append(view)
        blob += chunk + b"\0" * (-len(chunk) % 4)
    lowest = [float(x) for x in np.asarray(positions, np.float32).min(axis=0)]
    highest = [float(x) for x in np.asarray(positions, np.float32).max(axis=0)]
    tree = {
        "asset": {"version": "2.0", "generator": "spatialbench.assets.sample_room", "copyright": copyright_line},
        "extensionsUsed": ["KHR_materials_unlit"],
        "scene": 0,
        "scenes": [{"name": name, "nodes": [0, 1]}],
        "nodes": [{"name": name, "mesh": 0},
                  {"name": "initial camera", "camera": 0, "translation": [float(x) for x in camera]}],
        "cameras": [{"name": "initial camera", "type": "perspective",
                     "perspective": {"aspectRatio": 1.0, "yfov": math.radians(yfov_deg), "znear": 0.01}}],
        "meshes": [{"name": name, "primitives": [{"attributes": {"POSITION": 0, "TEXCOORD_0": 1}, "indices": 2,
                                                  "material": 0}]}],
        "materials": [{"name": "baked", "extensions": {"KHR_materials_unlit": {}},
                       "pbrMetallicRoughness": {"baseColorTexture": {"index": 0}, "metallicFactor": 0.0,
                                                "roughnessFactor": 1.0}}],
        "textures": [{"source": 0, "sampler": 0}],
        "samplers": [{"magFilter": 9729, "minFilter": 9729, "wrapS": 33071, "wrapT": 33071}],
        "images": [{"name": "atlas", "mimeType": mime, "bufferView": 3}],
        "accessors": [
            {"bufferView": 0, "componentType": 5126, "count": len(positions), "type": "VEC3", "min": lowest,
             "max": highest},
            {"bufferView": 1, "componentType": 5126, "count": len(uv), "type": "VEC2"},
            {"bufferView": 2, "componentType": 5123 if few else 5125, "count": 3 * len(faces), "type": "SCALAR"}],
        "bufferViews": views,
        "buffers": [{"byteLength": len(blob)}],
    }
    text = json.dumps(tree, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 4)
    data = struct.pack("<4sII", b"glTF", 2, 12 + 8 + len(text) + 8 + len(blob))
    data += struct.pack("<I4s", len(text), b"JSON") + text + struct.pack("<I4s", len(blob), b"BIN\0") + blob
    path.write_bytes(data)
