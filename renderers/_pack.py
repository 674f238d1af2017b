"""A triangle mesh as flat arrays that compiled kernels read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spatialbench.renderers._lights import LIGHT_COLUMNS, pack_lights
from spatialbench.types import Material, RenderSettings, TriangleMesh

__all__ = ["BLEND", "BY_LIGHTS", "BY_NORMAL", "ENCODE_STEPS", "LIGHT_COLUMNS", "MASK", "OPAQUE", "PackedMesh",
           "pack_mesh", "srgb_decode", "srgb_encode"]

OPAQUE, MASK, BLEND = 0, 1, 2
ENCODE_STEPS = 4096
"""Entries of the encoding table, over the square root of the linear value (there it is nearly straight)."""
BY_NORMAL, BY_LIGHTS = 1, 2
"""How surfaces are shaded; 0 for not at all."""

_MODES = {"opaque": OPAQUE, "mask": MASK, "blend": BLEND}
_WRAPS = {"repeat": 0, "mirror": 1, "clamp": 2}


class PackedMesh(NamedTuple):
    """Geometry, corner attributes, materials, all textures in one array, and colour tables.

    Corner attributes have no rows when the mesh lacks them; ``tex_offset`` is -1 for no texture. ``one_sided`` and
    ``unlit`` are flags of materials, ``lit`` [1] one of 0, ``BY_NORMAL`` and ``BY_LIGHTS``, ``lights`` as ``_lights``
    packs them. A texel is one word, red in its lowest byte.
    """

    vertices: NDArray[np.float64]
    faces: NDArray[np.int32]
    normals: NDArray[np.float32]
    material: NDArray[np.int32]
    uv: NDArray[np.float32]
    colors: NDArray[np.float32]
    factor: NDArray[np.float32]
    emissive: NDArray[np.float32]
    mode: NDArray[np.int32]
    cutoff: NDArray[np.float32]
    tex_offset: NDArray[np.int64]
    tex_size: NDArray[np.int32]
    tex_wrap: NDArray[np.int32]
    tex_nearest: NDArray[np.int32]
    texels: NDArray[np.uint32]
    decode: NDArray[np.float32]
    encode: NDArray[np.float32]
    lit: NDArray[np.int32]
    unlit: NDArray[np.int32]
    one_sided: NDArray[np.int32]
    lights: NDArray[np.float64]


def pack_mesh(mesh: TriangleMesh, settings: RenderSettings) -> PackedMesh:
    """Pack a mesh for drawing with ``settings``, of which ``shading`` and ``cull`` count.

    Raises
    ------
    ValueError : an unknown alpha mode, wrap, filter or kind of light, or a material id out of range.
    """
    ids = mesh.material_ids
    if len(ids) and (ids.min() < 0 or ids.max() >= len(mesh.materials)):
        raise ValueError(f"material ids {ids.min()} to {ids.max()} for {len(mesh.materials)} materials")
    area = mesh.area_vectors()
    length = np.linalg.norm(area, axis=1, keepdims=True)
    normals = np.divide(area, length, out=np.zeros_like(area), where=length > 0)
    materials = mesh.materials
    lit = _shading(mesh, settings.shading)
    offsets, sizes, texels = _pack_textures(materials if mesh.uv is not None else ())
    missing = len(materials) - len(offsets)
    decode = srgb_decode(np.arange(256) / 255.0).astype(np.float32)
    table = np.linspace(0.0, 1.0, ENCODE_STEPS + 1) ** 2
    return PackedMesh(
        vertices=np.ascontiguousarray(mesh.vertices, np.float64),
        faces=np.ascontiguousarray(mesh.faces, np.int32),
        normals=normals.astype(np.float32),
        material=np.ascontiguousarray(ids, np.int32),
        uv=_corners(mesh.uv, 2),
        colors=_corners(mesh.colors, 4),
        factor=np.array([m.base_color for m in materials], np.float32).reshape(-1, 4),
        emissive=np.array([m.emissive for m in materials], np.float32).reshape(-1, 3),
        mode=np.array([_known(_MODES, m.alpha_mode, "alpha mode", m) for m in materials], np.int32),
        cutoff=np.array([m.alpha_cutoff for m in materials], np.float32),
        tex_offset=np.array(offsets + [-1] * missing, np.int64),
        tex_size=np.array(sizes + [(0, 0)] * missing, np.int32).reshape(-1, 2),
        tex_wrap=np.array([[_known(_WRAPS, w, "wrap", m) for w in m.wrap] for m in materials], np.int32),
        tex_nearest=np.array([_known({"linear": 0, "nearest": 1}, m.filter, "filter", m) for m in materials],
                             np.int32),
        texels=texels.view("<u4").reshape(-1),
        decode=decode,
        encode=srgb_encode(table).astype(np.float32),
        lit=np.array([lit], np.int32),
        unlit=np.array([m.unlit for m in materials], np.int32),
        one_sided=np.array([settings.cull and not m.double_sided for m in materials], np.int32),
        lights=pack_lights(mesh, normals, decode) if lit == BY_LIGHTS else np.zeros((0, LIGHT_COLUMNS)),
    )


def _shading(mesh: TriangleMesh, shading: str) -> int:
    """How surfaces are shaded.

    ``auto`` lights a mesh that brings lights, and else shades only one without textures, vertex colours and
    materials that say they are unlit.
    """
    plain = mesh.colors is None and not any(m.texture is not None or m.unlit for m in mesh.materials)
    if shading == "auto" and mesh.lights:
        return BY_LIGHTS
    return BY_NORMAL if shading == "normal" or (shading == "auto" and plain) else 0


def srgb_decode(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Encoded to linear, both in [0,1] (IEC 61966-2-1)."""
    return np.where(x <= 0.04045, x / 12.92, ((x + 0.055) / 1.055) ** 2.4)


def srgb_encode(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Linear to encoded, both in [0,1] (IEC 61966-2-1)."""
    return np.where(x <= 0.0031308, 12.92 * x, 1.055 * np.maximum(x, 1e-12) ** (1 / 2.4) - 0.055)


def _corners(array: NDArray[np.float32] | None, width: int) -> NDArray[np.float32]:
    if array is None:
        return np.zeros((0, 3, width), np.float32)
    return np.ascontiguousarray(array, np.float32)


def _pack_textures(materials: tuple[Material, ...]
                   ) -> tuple[list[int], list[tuple[int, int]], NDArray[np.uint8]]:
    """Offset in texels and (width, height) of each material's texture; images in use twice are stored once."""
    seen: dict[int, int] = {}
    offsets, sizes, parts = [], [], [np.zeros((0, 4), np.uint8)]
    end = 0
    for m in materials:
        t = m.texture
        if t is None:
            offsets.append(-1)
            sizes.append((0, 0))
            continue
        if t.ndim != 3 or t.shape[2] != 4 or t.dtype != np.uint8 or t.size == 0:
            raise ValueError(f"texture of material '{m.name}' must be [H,W,4] uint8, got {t.shape} {t.dtype}")
        if id(t) not in seen:
            seen[id(t)] = end
            parts.append(np.ascontiguousarray(t).reshape(-1, 4))
            end += t.shape[0] * t.shape[1]
        offsets.append(seen[id(t)])
        sizes.append((t.shape[1], t.shape[0]))
    return offsets, sizes, parts[1] if len(parts) == 2 else np.concatenate(parts)


def _known(table: dict[str, int], word: str, what: str, m: Material) -> int:
    if word not in table:
        raise ValueError(f"material '{m.name}': {what} '{word}' is none of {', '.join(table)}")
    return table[word]
