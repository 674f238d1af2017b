"""The world as a browser can draw it: splats without their dependence on direction, meshes as binary glTF."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from spatialbench.scene.log import ReadLog
from spatialbench.scene.splats.blocks import thinned
from spatialbench.types import GaussianSplats, TriangleMesh
from spatialbench.viewer.shapes import rotations

__all__ = ["ShownSplats", "glb_bytes", "is_lit", "shown_splats", "thin_splats"]

F32 = NDArray[np.float32]
_SH0 = 0.28209479177387814  # Y_00 = 1 / (2 sqrt(pi))
_HALF = float(np.finfo(np.float16).max)


@dataclass(frozen=True, eq=False)
class ShownSplats:
    """Splats as the page takes them.

    Attributes
    ----------
    centres : [N,3] float32, world frame, m.
    covariances : [N,3,3] float32, m2, within the range of float16, in which they travel.
    colours : [N,3] float32 in [0,1]: the harmonic of degree 0, the mean over all directions.
    opacities : [N,1] float32 in [0,1].
    """

    centres: F32
    covariances: F32
    colours: F32
    opacities: F32


def thin_splats(splats: GaussianSplats, most: int) -> tuple[GaussianSplats, float]:
    """At most ``most`` of them by the rule of ``--max-splats`` (smallest hash of the index, seed 0), and how many times
    wider they are made: the root of N / ``most``, so that they cover as much area in all."""
    kept = thinned(len(splats), most, ReadLog())
    if kept is None:
        return splats, 1.0
    growth = math.sqrt(len(splats) / most)
    part = splats.select(kept)
    return replace(part, scales=part.scales * np.float32(growth)), growth


def shown_splats(splats: GaussianSplats) -> ShownSplats:
    """Covariances ``R diag(s^2) R^T``, colours and opacities of splats."""
    axes = rotations(splats.quaternions) * np.minimum(splats.scales, np.float32(np.sqrt(_HALF / 4)))[:, None, :]
    covariances = axes @ axes.transpose(0, 2, 1)
    colours = np.clip(0.5 + np.float32(_SH0) * splats.sh[:, 0], 0.0, 1.0)
    assert splats.offset is not None
    centres = splats.means.astype(np.float64) + splats.offset
    return ShownSplats(centres.astype(np.float32), covariances, colours.astype(np.float32, copy=False),
                       splats.opacities[:, None])


def is_lit(mesh: TriangleMesh) -> bool:
    """Whether images shade it (the renderers' rule ``auto``): it brings lights, or has no colour of its own."""
    plain = mesh.colors is None and not any(m.texture is not None or m.unlit for m in mesh.materials)
    return bool(mesh.lights) or plain


def glb_bytes(mesh: TriangleMesh) -> bytes:
    """The mesh as it is, Z up; what images show unlit is marked so.

    Raises
    ------
    ValueError : no faces, or more than 4 GiB.
    """
    from spatialbench.scene.write_glb import write_glb

    if not is_lit(mesh):
        mesh = replace(mesh, materials=tuple(replace(m, unlit=True) for m in mesh.materials))
    with TemporaryDirectory(prefix="spatialbench-view-") as folder:
        path = Path(folder) / "world.glb"
        write_glb(mesh, path)
        return path.read_bytes()
