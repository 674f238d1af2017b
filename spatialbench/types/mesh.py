"""A render- and simulation-ready triangle mesh: one soup with a material for every face.

Scene graphs are flattened when they are read, so that no later stage can forget a node's transform.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

__all__ = ["Light", "Material", "TriangleMesh"]


@dataclass(frozen=True, eq=False)
class Material:
    """How a face looks, as far as images of an unlit world need it.

    Attributes
    ----------
    base_color : RGBA factor, linear, in [0,1] (the glTF convention).
    texture : [H,W,4] uint8 sRGB (alpha linear) or None; row 0 is v = 0 (glTF: top row first).
    wrap : how u and v leave [0,1]: ``repeat``, ``mirror`` or ``clamp`` each.
    filter : ``linear`` or ``nearest``.
    alpha_mode : ``opaque``, ``mask`` or ``blend``.
    alpha_cutoff : below it a masked texel is a hole.
    double_sided : seen from behind too.
    unlit : the file says that the colour already holds the light.
    emissive : RGB added, linear.
    sky : stands for the sky (OPEN-2): drawn, but no ground, no obstacle, and no measure of depth.
    """

    name: str = ""
    base_color: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0)
    texture: NDArray[np.uint8] | None = None
    wrap: tuple[str, str] = ("repeat", "repeat")
    filter: str = "linear"
    alpha_mode: str = "opaque"
    alpha_cutoff: float = 0.5
    double_sided: bool = False
    unlit: bool = False
    emissive: tuple[float, float, float] = (0.0, 0.0, 0.0)
    sky: bool = False


@dataclass(frozen=True)
class Light:
    """A light that the file brings, as KHR_lights_punctual has it, or one from all sides; the mesh's frame and unit.

    Attributes
    ----------
    kind : ``directional``, ``point``, ``spot`` or ``ambient`` (as much on every surface, whichever way it faces).
    color : RGB, linear.
    intensity : lux for ``directional`` and ``ambient``, else candela (of the mesh's unit:
        illuminance is intensity / distance^2).
    position : of ``point`` and ``spot``.
    direction : unit, that light travels in; of ``directional`` and ``spot``.
    reach : distance at which it ends; 0 for never.
    inner, outer : radians from the axis where a spot starts to fade and ends, 0 <= inner < outer <= pi / 2.
    """

    kind: str
    color: tuple[float, float, float] = (1.0, 1.0, 1.0)
    intensity: float = 1.0
    position: tuple[float, float, float] = (0.0, 0.0, 0.0)
    direction: tuple[float, float, float] = (0.0, 0.0, -1.0)
    reach: float = 0.0
    inner: float = 0.0
    outer: float = np.pi / 4

    def transformed(self, matrix: NDArray[np.float64]) -> Light:
        """Moved by a 4x4 affine matrix; as bright on what moves with it, so candela grow with the square of lengths."""
        m = np.asarray(matrix, dtype=np.float64)
        scale = abs(float(np.linalg.det(m[:3, :3]))) ** (1 / 3)
        axis = m[:3, :3] @ np.array(self.direction)
        axis /= np.linalg.norm(axis)
        place = m[:3, :3] @ np.array(self.position) + m[:3, 3]
        return replace(self, position=(float(place[0]), float(place[1]), float(place[2])), reach=self.reach * scale,
                       direction=(float(axis[0]), float(axis[1]), float(axis[2])),
                       intensity=self.intensity * (1.0 if self.kind in ("directional", "ambient") else scale**2))


@dataclass(frozen=True, eq=False)
class TriangleMesh:
    """Triangles with optional colour.

    Attributes
    ----------
    vertices : [V,3] float64, finite.
    faces : [F,3] int32, in range.
    material_ids : [F] int32 into ``materials``.
    materials : at least one.
    uv : [F,3,2] float32 per corner (glTF convention: v down), NaN-free; or None.
    colors : [F,3,4] float32 per corner, linear RGBA in [0,1]; or None.
    lights : that the file brings; without any, colours are taken to hold their light.
    """

    vertices: NDArray[np.float64]
    faces: NDArray[np.int32]
    material_ids: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    materials: tuple[Material, ...] = (Material(),)
    uv: NDArray[np.float32] | None = None
    colors: NDArray[np.float32] | None = None
    lights: tuple[Light, ...] = ()

    def __post_init__(self) -> None:
        v = np.ascontiguousarray(self.vertices, dtype=np.float64)
        f = np.ascontiguousarray(self.faces, dtype=np.int32)
        if v.ndim != 2 or v.shape[1] != 3 or f.ndim != 2 or f.shape[1] != 3:
            raise ValueError(f"vertices must be [V,3] and faces [F,3], got {v.shape} and {f.shape}")
        ids = self.material_ids
        ids = np.zeros(len(f), np.int32) if len(ids) == 0 else np.ascontiguousarray(ids, dtype=np.int32)
        if len(ids) != len(f):
            raise ValueError(f"{len(ids)} material ids for {len(f)} faces")
        for name, array, width in (("uv", self.uv, 2), ("colors", self.colors, 4)):
            if array is not None and array.shape != (len(f), 3, width):
                raise ValueError(f"{name} must be [F,3,{width}], got {array.shape}")
        object.__setattr__(self, "vertices", v)
        object.__setattr__(self, "faces", f)
        object.__setattr__(self, "material_ids", ids)

    @property
    def triangles(self) -> NDArray[np.float64]:
        """Corner positions [F,3,3]."""
        return np.take(self.vertices, self.faces, axis=0)  # several times as fast as vertices[faces]

    def area_vectors(self) -> NDArray[np.float64]:
        """[F,3]: the face's normal (right-hand rule on its winding) times its area."""
        t = self.triangles
        a, b = (t[:, 1] - t[:, 0]).T, (t[:, 2] - t[:, 0]).T
        out = np.empty((len(t), 3))
        for k in range(3):  # np.cross takes three times as long
            i, j = (k + 1) % 3, (k + 2) % 3
            out[:, k] = 0.5 * (a[i] * b[j] - a[j] * b[i])
        return out

    def bounds(self) -> NDArray[np.float64]:
        """[2,3] axis-aligned box of the vertices that faces refer to."""
        used = self.vertices[_referred(self.faces, len(self.vertices))]
        return np.stack([used.min(axis=0), used.max(axis=0)])

    def transformed(self, matrix: NDArray[np.float64]) -> TriangleMesh:
        """Moved by a 4x4 affine matrix; winding is reversed with a negative determinant."""
        m = np.asarray(matrix, dtype=np.float64)
        v = self.vertices @ m[:3, :3].T + m[:3, 3]
        out = replace(self, vertices=v, lights=tuple(light.transformed(m) for light in self.lights))
        return out.flipped() if np.linalg.det(m[:3, :3]) < 0 else out

    def flipped(self) -> TriangleMesh:
        """The same faces wound the other way."""
        swap = [0, 2, 1]
        return replace(self, faces=self.faces[:, swap],
                       uv=None if self.uv is None else self.uv[:, swap],
                       colors=None if self.colors is None else self.colors[:, swap])

    def select(self, keep: NDArray[np.bool_] | NDArray[np.integer]) -> TriangleMesh:
        """Only some faces (mask or indices), without vertices that no face refers to."""
        f = self.faces[keep]
        used = _referred(f, len(self.vertices))
        index = np.cumsum(used, dtype=np.int32) - 1
        return replace(self, vertices=self.vertices[used],
                       faces=index[f].astype(np.int32, copy=False),
                       material_ids=self.material_ids[keep],
                       uv=None if self.uv is None else self.uv[keep],
                       colors=None if self.colors is None else self.colors[keep])


def _referred(faces: NDArray[np.int32], count: int) -> NDArray[np.bool_]:
    """[count] which vertices faces refer to; a mask, since sorting millions of indices takes seconds."""
    used = np.zeros(count, dtype=bool)
    used[faces.ravel()] = True
    return used
