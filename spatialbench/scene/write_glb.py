"""Writing a mesh as binary glTF 2.0, with its materials, textures and lights, so that it is read back as it was."""

from __future__ import annotations

import io
import json
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.scene.images import encoded_image
from spatialbench.types import Light, Material, Pose, TriangleMesh

__all__ = ["write_glb"]

_WRAP = {"repeat": 10497, "mirror": 33648, "clamp": 33071}
_FILTER = {"linear": (9729, 9987), "nearest": (9728, 9728)}
_FLOAT, _UNSIGNED = 5126, 5125
_VERTICES, _INDICES = 34962, 34963
_TO_OPENGL = np.diag([1.0, -1.0, -1.0, 1.0])
_MOST = (1 << 32) - 1
_PUNCTUAL = "KHR_lights_punctual"
_LENS = {"type": "perspective", "perspective": {"yfov": np.pi / 2, "znear": 0.01}}


def write_glb(mesh: TriangleMesh, path: Path, cameras: Sequence[Pose] = (), unit_m: float = 1.0) -> None:
    """Write one node with the mesh and one for each camera and light, under a temporary name and renamed when complete.

    Positions, texture coordinates and colours are float32, one primitive for each material, and vertices that no face
    uses are left out. Textures are embedded as the PNG or JPEG that they were read from, else as PNG; materials keep
    colour factor, alpha mode and cutoff, double-sidedness, emission, wrapping, filter and whether they are unlit.
    Lights are those of KHR_lights_punctual, which has none from all sides: ``ambient`` ones are left out. Faces come
    out ordered by material. Equal input gives equal bytes.

    Where the unit is not the metre, which is glTF's, numbers are written as they are below a root node that scales by
    ``unit_m``; candela and reach, which no node scales, are those of metres.

    Parameters
    ----------
    mesh : in the frame that the file shall have (glTF: Y up).
    path : file in a folder that exists; replaced if it is there.
    cameras : poses in that frame and unit.
    unit_m : metres per unit of both, > 0.

    Raises
    ------
    ValueError : no faces, a vertex that is no finite float32, a light of values that glTF has not, or more than 4 GiB.
    OSError : when the disk refuses; nothing is left behind then.
    """
    if not len(mesh.faces):
        raise ValueError("a mesh file needs at least one face")
    if not (np.abs(mesh.vertices) <= np.finfo(np.float32).max).all():
        raise ValueError("vertices must be finite and within the range of float32")
    doc = _Document(unit_m)
    doc.mesh(mesh)
    for pose in cameras:
        doc.camera(pose)
    for light in mesh.lights:
        doc.light(light)
    header = doc.header()
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as f:
            f.write(header)
            for block in doc.blocks:
                f.write(block)
            f.flush()
            os.fsync(f.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@dataclass(frozen=True, eq=False)
class _Part:
    """Faces [K] of one material, and whether texture coordinates and colours of their corners are written."""

    material: Material
    faces: NDArray[np.int64]
    textured: bool
    colored: bool

    @property
    def plain(self) -> bool:
        """Its corners are vertices and nothing else."""
        return not (self.textured or self.colored)


class _Document:
    """A glTF document that grows, with the bytes of its one buffer."""

    def __init__(self, unit_m: float) -> None:
        from spatialbench import __version__

        self.blocks: list[bytes] = []
        self._size = 0
        self._images: dict[int, int] = {}
        self._extensions: set[str] = set()
        self._doc: dict[str, Any] = {
            "asset": {"version": "2.0", "generator": f"spatialbench {__version__}"}, "scene": 0,
            "scenes": [{"nodes": []}]}
        self._unit = unit_m
        self._top: list[int] = self._doc["scenes"][0]["nodes"]
        if unit_m != 1:
            below: list[int] = []
            self._place({"name": "metres", "scale": [unit_m] * 3, "children": below})
            self._top = below

    def header(self) -> bytes:
        """All before the buffer's bytes."""
        self._doc["buffers"] = [{"byteLength": self._size}]
        if self._extensions:
            self._doc["extensionsUsed"] = sorted(self._extensions)
        text = json.dumps(self._doc, separators=(",", ":"), allow_nan=False).encode("ascii")
        text += b" " * (-len(text) % 4)
        total = 12 + 8 + len(text) + 8 + self._size
        if total > _MOST:
            raise ValueError(f"the mesh takes {total:,} bytes, a GLB file has at most 4 GiB")
        return (struct.pack("<4sII", b"glTF", 2, total) + struct.pack("<I4s", len(text), b"JSON") + text
                + struct.pack("<I4s", self._size, b"BIN\0"))

    def camera(self, pose: Pose) -> None:
        """A node with a camera; glTF's look along -Z with +Y up."""
        matrix = pose.matrix @ _TO_OPENGL
        node: dict[str, Any] = {"name": "initial camera", "camera": self._append("cameras", _LENS)}
        if not np.array_equal(matrix, np.eye(4)):
            node["matrix"] = [float(v) for v in matrix.T.ravel()]
        self._place(node)

    def light(self, light: Light) -> None:
        """A node with a light that shines along its -Z; nothing for an ambient one."""
        if light.kind == "ambient":
            return
        strongest = max(1.0, *light.color)  # the schema's colours end at 1
        candela = light.intensity * strongest * (1.0 if light.kind == "directional" else self._unit**2)
        said: dict[str, Any] = {"type": light.kind, "color": [c / strongest for c in light.color],
                                "intensity": candela}
        if light.reach > 0:
            said["range"] = light.reach * self._unit
        if light.kind == "spot":
            said["spot"] = {"innerConeAngle": light.inner, "outerConeAngle": light.outer}
        if not np.isfinite([*said["color"], candela, light.reach, *light.position, *light.direction]).all() or \
                min(*light.color, candela, light.reach) < 0:
            raise ValueError(f"a {light.kind} light has values that are not finite or below 0")
        block = self._doc.setdefault("extensions", {}).setdefault(_PUNCTUAL, {"lights": []})
        self._extensions.add(_PUNCTUAL)
        node = {"name": "light", "extensions": {_PUNCTUAL: {"light": len(block["lights"])}}}
        block["lights"].append(said)
        self._place(node | _stand(light))

    def mesh(self, mesh: TriangleMesh) -> None:
        """A node with the mesh."""
        parts = [p for i, m in enumerate(mesh.materials) if len((p := _part(mesh, i, m)).faces)]
        plain = [p.faces for p in parts if p.plain]
        used = np.zeros(len(mesh.vertices) if plain else 0, bool)
        for of in plain:
            used[mesh.faces[of]] = True
        number = np.cumsum(used) - 1
        shared: int | None = None
        primitives = []
        for part in parts:
            corners = mesh.faces[part.faces].ravel()
            if part.plain:
                if shared is None:
                    shared = self._vertices(mesh.vertices[used].astype(np.float32))
                attributes, indices = {"POSITION": shared}, number[corners]
            else:
                uv = mesh.uv[part.faces].reshape(-1, 2) if part.textured and mesh.uv is not None else None
                colors = mesh.colors[part.faces].reshape(-1, 4) if part.colored and mesh.colors is not None else None
                first, indices = _joined_corners(corners, uv, colors)
                attributes = {"POSITION": self._vertices(mesh.vertices[corners[first]].astype(np.float32))}
                if uv is not None:
                    attributes["TEXCOORD_0"] = self._accessor(uv[first], "VEC2", _FLOAT, _VERTICES)
                if colors is not None:
                    attributes["COLOR_0"] = self._accessor(colors[first], "VEC4", _FLOAT, _VERTICES)
            primitives.append({"attributes": attributes, "material": self._material(part.material), "mode": 4,
                               "indices": self._accessor(indices.astype("<u4"), "SCALAR", _UNSIGNED, _INDICES)})
        self._place({"name": "world", "mesh": self._append("meshes", {"primitives": primitives})})

    def _place(self, node: dict[str, Any]) -> None:
        self._top.append(self._append("nodes", node))

    def _append(self, kind: str, item: dict[str, Any]) -> int:
        items: list[dict[str, Any]] = self._doc.setdefault(kind, [])
        items.append(item)
        return len(items) - 1

    def _view(self, data: bytes, target: int | None = None) -> int:
        view = {"buffer": 0, "byteOffset": self._size, "byteLength": len(data)}
        self.blocks += [data, b"\0" * (-len(data) % 4)]
        self._size += len(data) + -len(data) % 4
        return self._append("bufferViews", view if target is None else {**view, "target": target})

    def _accessor(self, values: NDArray, kind: str, code: int, target: int, **extra: Any) -> int:
        data = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
        return self._append("accessors", {"bufferView": self._view(data.tobytes(), target),
                                          "componentType": code, "count": len(data), "type": kind, **extra})

    def _vertices(self, points: NDArray[np.float32]) -> int:
        return self._accessor(points, "VEC3", _FLOAT, _VERTICES, min=[float(v) for v in points.min(axis=0)],
                              max=[float(v) for v in points.max(axis=0)])

    def _material(self, m: Material) -> int:
        pbr: dict[str, Any] = {"baseColorFactor": list(m.base_color), "metallicFactor": 0.0}
        if m.texture is not None:
            pbr["baseColorTexture"] = {"index": self._texture(m, m.texture)}
        out: dict[str, Any] = {"name": m.name, "pbrMetallicRoughness": pbr, "alphaMode": m.alpha_mode.upper(),
                               "doubleSided": m.double_sided}
        if m.alpha_mode == "mask":
            out["alphaCutoff"] = m.alpha_cutoff
        strength = max(m.emissive)
        if strength > 0:
            out["emissiveFactor"] = [v / max(strength, 1.0) for v in m.emissive]
        extensions: dict[str, Any] = {}
        if strength > 1:
            extensions["KHR_materials_emissive_strength"] = {"emissiveStrength": strength}
        if m.unlit:
            extensions["KHR_materials_unlit"] = {}
        if extensions:
            out["extensions"] = extensions
            self._extensions |= set(extensions)
        return self._append("materials", out)

    def _texture(self, m: Material, pixels: NDArray[np.uint8]) -> int:
        if id(pixels) not in self._images:
            data = encoded_image(pixels) or _png(pixels)
            mime = "image/png" if data.startswith(b"\x89PNG") else "image/jpeg"
            self._images[id(pixels)] = self._append("images", {"bufferView": self._view(data), "mimeType": mime})
        magnify, minify = _FILTER[m.filter]
        sampler = {"magFilter": magnify, "minFilter": minify, "wrapS": _WRAP[m.wrap[0]], "wrapT": _WRAP[m.wrap[1]]}
        samplers = self._doc.setdefault("samplers", [])
        if sampler not in samplers:
            samplers.append(sampler)
        return self._append("textures", {"sampler": samplers.index(sampler), "source": self._images[id(pixels)]})


def _part(mesh: TriangleMesh, i: int, material: Material) -> _Part:
    """All faces of a material."""
    of = np.flatnonzero(mesh.material_ids == i)
    return _Part(material, of, mesh.uv is not None and material.texture is not None,
                 mesh.colors is not None and not (mesh.colors[of] == 1).all())


def _stand(light: Light) -> dict[str, Any]:
    """Keys of the node at a light's place, with -Z along its direction."""
    if light.kind == "point":
        return {"translation": list(light.position)} if any(light.position) else {}
    back = -np.array(light.direction) / np.linalg.norm(light.direction)
    side = np.cross(np.eye(3)[int(np.argmin(np.abs(back)))], back)
    side /= np.linalg.norm(side)
    matrix = np.eye(4)
    matrix[:3, :3] = np.stack([side, np.cross(back, side), back], axis=1)
    matrix[:3, 3] = light.position
    return {"matrix": [float(v) for v in matrix.T.ravel()]}


def _png(pixels: NDArray[np.uint8]) -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(pixels[..., :3] if (pixels[..., 3] == 255).all() else pixels).save(out, "PNG")
    return out.getvalue()


def _joined_corners(corners: NDArray[np.int32], uv: NDArray[np.float32] | None, colors: NDArray[np.float32] | None
                    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first of each set of corners that are equal in all, and for every corner the number of its set."""
    keys = np.column_stack([corners.astype(np.uint32), *(np.ascontiguousarray(a, np.float32).view(np.uint32)
                                                         for a in (uv, colors) if a is not None)])
    mixed = np.zeros(len(keys), dtype=np.uint64)
    for column in keys.T:  # a hash first: sorting whole rows takes ten times as long
        mixed = (mixed ^ column) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    _, first, number = np.unique(mixed, return_index=True, return_inverse=True)
    if not np.array_equal(keys[first[number]], keys):
        _, first, number = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    return first, number.reshape(-1)
