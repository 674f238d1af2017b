"""How much light faces throw back: what the first bounce of a mesh's lights is made of."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spatialbench.types import Material, TriangleMesh

__all__ = ["face_albedo"]

_SIDE = 4
"""Parts of each edge: a face is looked up at the middles of the 16 triangles that they make."""

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]


def face_albedo(mesh: TriangleMesh, decode: F32) -> tuple[F64, F64]:
    """Albedo [F,3] of each face, linear and in [0,1], and whether [F] light falls on it: not for unlit and sky.

    Base colour x texture x vertex colours, meant over the face; of what is blended or masked, as much as covers.

    Parameters
    ----------
    decode : [256] linear values of texels.
    """
    factor = np.array([m.base_color for m in mesh.materials], np.float64).reshape(-1, 4)
    lit = np.array([not (m.unlit or m.sky) for m in mesh.materials], np.float64)
    see_through = np.array([m.alpha_mode != "opaque" for m in mesh.materials])
    total = np.zeros((len(mesh.faces), 3))
    places = _places()
    for at in places:
        seen = factor[mesh.material_ids]
        if mesh.colors is not None:
            seen = seen * np.einsum("k,fkc->fc", at, mesh.colors)
        for k, material in enumerate(mesh.materials):
            if material.texture is not None and mesh.uv is not None:
                own = np.flatnonzero(mesh.material_ids == k)
                seen[own] *= _texels(material, material.texture, np.einsum("k,fkc->fc", at, mesh.uv[own]), decode)
        cover = np.where(see_through[mesh.material_ids], np.clip(seen[:, 3], 0.0, 1.0), 1.0)
        total += np.clip(seen[:, :3], 0.0, 1.0) * cover[:, None]
    return total / len(places), lit[mesh.material_ids]


def _places() -> F64:
    """[16,3] barycentric middles of the parts of a triangle."""
    n = _SIDE
    up = [(3 * i + 1, 3 * j + 1) for i in range(n) for j in range(n - i)]
    down = [(3 * i + 2, 3 * j + 2) for i in range(n - 1) for j in range(n - 1 - i)]
    uv = np.array(up + down, np.float64) / (3 * n)
    return np.column_stack([1.0 - uv.sum(axis=1), uv])


def _texels(material: Material, texture: NDArray[np.uint8], uv: F64, decode: F32) -> F64:
    """Nearest texels [n,4], linear, at [n,2]."""
    height, width = texture.shape[:2]
    x, y = (_wrapped(np.clip(uv[:, k], -1e9, 1e9), how) for k, how in enumerate(material.wrap))
    found = texture[np.minimum((y * height).astype(np.int64), height - 1),
                    np.minimum((x * width).astype(np.int64), width - 1)]
    return np.column_stack([decode[found[:, :3]], found[:, 3] / 255.0])


def _wrapped(u: F64, how: str) -> F64:
    """In [0,1], as a material's ``wrap`` says."""
    if how == "clamp":
        return np.clip(u, 0.0, 1.0)
    turn = u - 2.0 * np.floor(u / 2.0) if how == "mirror" else u - np.floor(u)
    return np.where(turn > 1.0, 2.0 - turn, turn)
