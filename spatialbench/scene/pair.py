"""Splats and the collider that came with them: whether both stand in one place, and the scene of both."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spatialbench.scene.sky import without_sky
from spatialbench.types import GaussianSplats, Scene, TriangleMesh

__all__ = ["MIN_BOX", "MIN_NEAR", "NEAR", "Overlap", "join_pair", "overlap"]

NEAR = 0.02
"""Share of the diagonal of the splats' bulk within which a splat counts as on the collider (0.2 m for a room)."""
MIN_NEAR = 0.5
"""Least share of the opaque splats on the collider."""
MIN_BOX = 0.5
"""Least overlap of the boxes along each axis."""
_OPAQUE = 0.5
_BULK = (0.01, 0.99)
_MAX_SPLATS = 20_000
_MAX_POINTS = 400_000
_SEED = 0


@dataclass(frozen=True)
class Overlap:
    """How well splats and collider fit.

    Attributes
    ----------
    boxes : along the worst axis, the common length of the boxes of both bulks over the shorter one; 1 is full.
    near : share of the opaque splats whose centre is within ``distance`` of the collider's surface.
    distance : source units.
    """

    boxes: float
    near: float
    distance: float

    @property
    def good(self) -> bool:
        """Whether both may be taken for one world in one frame."""
        return self.boxes >= MIN_BOX and self.near >= MIN_NEAR


def overlap(splats: GaussianSplats, mesh: TriangleMesh) -> Overlap:
    """Compare the bulk of opaque splats (opacity >= 0.5, 1st to 99th percentile) with the collider's surface.

    The collider is sampled uniformly by area (fixed seed, four samples for each ``distance`` squared at least, up to
    400,000); at most 20,000 splats are looked at, evenly spread over their order. Both are in one frame and unit; the
    sky of neither counts.
    """
    from scipy.spatial import cKDTree

    splats, mesh = without_sky(splats), without_sky(mesh)
    if not (len(splats) and len(mesh.faces)):
        return Overlap(0.0, 0.0, 0.0)
    opaque = splats.opacities >= _OPAQUE
    centres = splats.means[opaque if opaque.any() else slice(None)].astype(np.float64)
    centres = centres + (0.0 if splats.offset is None else splats.offset)
    low, high = np.quantile(centres, _BULK, axis=0)
    distance = NEAR * float(np.linalg.norm(high - low))
    if distance <= 0:  # one place: nothing to compare
        return Overlap(0.0, 0.0, 0.0)
    points = _surface(mesh, distance)
    box_low, box_high = np.quantile(points, _BULK, axis=0)
    common = np.minimum(high, box_high) - np.maximum(low, box_low)
    shorter = np.minimum(high - low, box_high - box_low)
    boxes = float(np.clip((common + distance) / (shorter + distance), 0, 1).min())
    bulk = centres[((centres >= low) & (centres <= high)).all(axis=1)]
    chosen = bulk[np.linspace(0, len(bulk) - 1, min(len(bulk), _MAX_SPLATS)).astype(np.int64)] if len(bulk) else bulk
    if not len(chosen):
        return Overlap(boxes, 0.0, distance)
    gap, _ = cKDTree(points).query(chosen, distance_upper_bound=1.5 * distance)
    return Overlap(boxes, float(np.mean(gap <= distance)), distance)


def _surface(mesh: TriangleMesh, distance: float) -> NDArray[np.float64]:
    """[N,3] points on the surface, uniform by area."""
    area = np.linalg.norm(mesh.area_vectors(), axis=1)
    total = float(area.sum())
    n = int(min(_MAX_POINTS, max(1000, np.ceil(4 * total / distance**2))))
    rng = np.random.default_rng(_SEED)
    face = np.searchsorted(np.cumsum(area) / total, rng.random(n)).clip(0, len(area) - 1)
    a, b = np.sqrt(rng.random(n)), rng.random(n)
    weight = np.stack([1 - a, a * (1 - b), a * b], axis=1)
    return np.einsum("ni,nij->nj", weight, mesh.triangles[face])


def join_pair(splats: Scene, collider: Scene) -> Scene:
    """The scene of both if they overlap well, else that of the splats with a warning; the report says how well.

    A collider without a face that could be walked on (one of splats only) is left out with a warning too.

    Frame and unit are those of the splats; where their format has no unit the collider's is not taken either, as
    glTF's metre often is not meant.
    """
    assert splats.splats is not None
    name = collider.path.name
    if collider.mesh is None:
        warning = (f"the collider '{name}' is not used: it holds 3D Gaussian splats and no faces. A collision mesh is "
                   "made from the splats")
        report = splats.report
        return replace(splats, report=report.model_copy(update={"warnings": [*report.warnings, warning]}))
    fit = overlap(splats.splats, collider.mesh)
    words = (f"{fit.near:.0%} of the opaque splats lie within {fit.distance:.3g} units of it, and the boxes share "
             f"{fit.boxes:.0%} along their worst axis")
    details = {**splats.report.details,
               "overlap": {"collider": name, "boxes": fit.boxes, "near": fit.near, "distance": fit.distance,
                           "used": fit.good}}
    warnings = [*splats.report.warnings, *(f"collider '{name}': {w}" for w in collider.report.warnings)]
    report = splats.report.model_copy(update={"files": [*splats.report.files, *collider.report.files],
                                              "details": details, "warnings": warnings})
    if not fit.good:
        warnings.append(f"the collider '{name}' is not used, as it does not stand where the splats do: {words}. "
                        "Another frame or scale? A collision mesh is made from the splats")
        return replace(splats, report=report)
    mesh = collider.report
    report = report.model_copy(update={
        "kind": "both", "n_vertices": mesh.n_vertices, "n_faces": mesh.n_faces, "n_materials": mesh.n_materials,
        "n_textures": mesh.n_textures, "repairs": [*report.repairs, *mesh.repairs],
        "details": {**details, "collider": mesh.details}})
    return replace(splats, mesh=collider.mesh, report=report)
