"""A navigation mesh as GLB (triangles coloured by component) and as OBJ (its polygons)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spatialbench.types import Material, TriangleMesh

if TYPE_CHECKING:
    from spatialbench.cli.navmesh import Walk

__all__ = ["component_of_polygons", "write_navmesh_glb", "write_navmesh_obj"]

_OTHER = 1
"""Materials: the largest component, the others, and polygons that hold no cell's centre."""


def component_of_polygons(walk: Walk) -> NDArray[np.int64]:
    """[P] component in plan that each polygon is a part of, told at its middle; 0 where that is on no marked cell."""
    axes = [0, 1] if walk.up == "z" else [0, 2]
    plan = walk.navmesh.vertices[:, axes].astype(np.float64)
    middle = np.array([plan[list(p)].mean(axis=0) for p in walk.navmesh.polygons]).reshape(-1, 2)
    at = np.floor(middle / walk.plan.cell).astype(np.int64) - [walk.plan.i0, walk.plan.j0]
    at = np.clip(at, 0, np.array(walk.labels.shape) - 1)
    return walk.labels[at[:, 0], at[:, 1]].astype(np.int64)


def write_navmesh_glb(walk: Walk, path: Path) -> None:
    """Y up, as glTF asks: a Z-up mesh is turned by (x, y, z) -> (x, z, -y). Metres of the file."""
    from spatialbench.report.raster import AREA_COLORS
    from spatialbench.scene.write_glb import write_glb

    v = walk.navmesh.vertices.astype(np.float64)
    if walk.up == "z":
        v = np.stack([v[:, 0], v[:, 2], -v[:, 1]], axis=1)
    faces = [(p[0], p[k], p[k + 1]) for p in walk.navmesh.polygons for k in range(1, len(p) - 1)]
    owner = np.repeat(component_of_polygons(walk), [len(p) - 2 for p in walk.navmesh.polygons])
    kinds = (("largest component", AREA_COLORS[0]), ("other components", AREA_COLORS[1]),
             ("thinner than a cell", (128, 128, 128, 255)))
    materials = tuple(Material(name, base_color=_linear(rgb), double_sided=True, unlit=True) for name, rgb in kinds)
    ids = np.where(owner == 1, 0, np.where(owner > 1, _OTHER, 2)).astype(np.int32)
    write_glb(TriangleMesh(v, np.array(faces, np.int32), ids, materials), path)


def write_navmesh_obj(walk: Walk, path: Path) -> None:
    """Polygons as they are, in the frame of the file; under a temporary name and renamed when complete."""
    n = walk.navmesh
    lines = [f"# NavMesh, {n.profile} by {n.backend}, {walk.up.upper()} up, metres"]
    lines += ["v {:.9g} {:.9g} {:.9g}".format(*p) for p in n.vertices.tolist()]
    owners = component_of_polygons(walk)
    for k in np.unique(owners):
        lines.append(f"g component_{k}")
        lines += ["f " + " ".join(str(i + 1) for i in n.polygons[j]) for j in np.flatnonzero(owners == k)]
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_text("\n".join(lines) + "\n", encoding="ascii")
    os.replace(temporary, path)


def _linear(rgb: tuple[int, ...]) -> tuple[float, float, float, float]:
    c = np.array(rgb[:3]) / 255
    r, g, b = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4).tolist()
    return r, g, b, 1.0
