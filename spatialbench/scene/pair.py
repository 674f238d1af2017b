"""Splats and the collider that came with them: whether both stand in one place, and the scene of both."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spatialbench.scene.sky import without_sky
from spatialbench.types import Decision, GaussianSplats, Scene, TriangleMesh

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
_HALF_TURN = "half a turn about X"
_ABOUT_X: NDArray[np.float64] = np.diag([1.0, -1.0, -1.0, 1.0])
"""Between Y up, Z back (glTF) and Y down, Z forward (3DGS)."""
_LEVEL = 0.01
"""Most by which a motion may miss the splats' up axis."""
BETTER = 0.005
"""By how much more of the splats a turned collider must hold, where it fits as given too: a closed room turned over
lies on its own walls, and only its furniture tells."""
FITS = 0.9
"""Share of the splats on a collider below which one that is used is warned about."""
_FOUND = 0.5
"""Confidence of what was found; as the world's decisions of that source."""


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

    The collider is also tried as the two files' conventions would have it (see ``_turns``); where one of these makes
    both overlap well, and ``BETTER`` than as given, it is taken with the best of them, said in a warning and as the
    decision ``collider``. One that is used and does not hold ``FITS`` of the splats is warned about. A collider without
    a face that could be walked on (one of splats only) is left out with a warning.

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
    given = overlap(splats.splats, collider.mesh)
    turn = _best_turn(splats, collider, collider.mesh)
    if turn is not None and given.good and turn.fit.near <= given.near + BETTER:
        turn = None
    fit = given if turn is None else turn.fit
    mesh = collider.mesh if turn is None else collider.mesh.transformed(turn.matrix)
    account = {"collider": name, "boxes": fit.boxes, "near": fit.near, "distance": fit.distance, "used": fit.good}
    warnings = [*splats.report.warnings, *(f"collider '{name}': {w}" for w in collider.report.warnings)]
    decisions = dict(splats.report.decisions)
    if turn is not None:
        account |= {"as_given": {"boxes": given.boxes, "near": given.near},
                    "collider_to_splats": turn.matrix.tolist()}
        words = (f"by {turn.name} it does: {_words(fit)}. As given, {_words(given)}")
        worse = "stands worse" if given.good else "does not stand"
        warnings.append(f"the collider '{name}' {worse} where the splats do, but {words}. It is used so turned")
        decisions["collider"] = Decision(value=turn.name, source="found", confidence=_FOUND, note=_words(fit))
    details = {**splats.report.details, "overlap": account}
    report = splats.report.model_copy(update={"files": [*splats.report.files, *collider.report.files],
                                              "details": details, "warnings": warnings, "decisions": decisions})
    if fit.good and fit.near < FITS:
        warnings.append(f"the collider '{name}' fits the splats badly: {_words(fit)}. Is it mirrored, turned or of "
                        "another version of the world? It is used all the same")
    if not fit.good:
        warnings.append(f"the collider '{name}' is not used, as it does not stand where the splats do: {_words(fit)}. "
                        "Another frame or scale? A collision mesh is made from the splats")
        return replace(splats, report=report)
    of = collider.report
    report = report.model_copy(update={
        "kind": "both", "n_vertices": of.n_vertices, "n_faces": of.n_faces, "n_materials": of.n_materials,
        "n_textures": of.n_textures, "repairs": [*report.repairs, *of.repairs],
        "details": {**details, "collider": of.details}})
    return replace(splats, mesh=mesh, report=report)


def _words(fit: Overlap) -> str:
    return (f"{fit.near:.0%} of the opaque splats lie within {fit.distance:.3g} units of it, and the boxes share "
            f"{fit.boxes:.0%} along their worst axis")


@dataclass(frozen=True, eq=False)
class _Turn:
    """How the collider is moved [4,4] into the splats' frame, in words, and how well both fit then."""

    name: str
    matrix: NDArray[np.float64]
    fit: Overlap


def _best_turn(splats: Scene, collider: Scene, mesh: TriangleMesh) -> _Turn | None:
    """The turn with most splats on the collider; None where none is good."""
    assert splats.splats is not None
    tried = (_Turn(name, m, overlap(splats.splats, mesh.transformed(m))) for name, m in _turns(splats, collider))
    return max((t for t in tried if t.fit.good), key=lambda t: t.fit.near, default=None)


def _turns(splats: Scene, collider: Scene) -> list[tuple[str, NDArray[np.float64]]]:
    """Motions [4,4] from the collider's frame to the splats', without the identity, each once.

    Between their up axes, as the files state them or else as their formats have them, the short way; half a turn about
    X, between Y up and Y down, unless both files state their up; and that which takes the collider's initial camera to
    the splats', or to where their format has it, if it takes up to up.
    """
    ups = [(s.prior_up if s.side.up is None else s.side.up) for s in (collider, splats)]
    stated = all(s.side.up is not None for s in (collider, splats))
    found = [("the turn between the up axes of both files", _between(*ups))]
    if not stated:
        found.append((_HALF_TURN, _ABOUT_X))
    if collider.side.cameras:
        of = splats.side.cameras[0].matrix if splats.side.cameras else _origin_camera(ups[1])
        if of is not None:
            move = of @ np.linalg.inv(collider.side.cameras[0].matrix)
            if np.abs(move[:3, :3] @ ups[0] - ups[1]).max() <= _LEVEL:
                found.append(("putting its initial camera where that of the splats is", move))
    out: list[tuple[str, NDArray[np.float64]]] = []
    for name, m in found:
        if not any(np.allclose(m, other, atol=1e-9) for other in (np.eye(4), *(o for _, o in out))):
            out.append((_HALF_TURN if np.allclose(m, _ABOUT_X, atol=1e-9) else name, m))
    return out


def _between(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """[4,4] the smallest turn from axis a to b; between opposite ones half a turn about X (about Z from X to -X)."""
    a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
    m = np.eye(4)
    if a @ b < -1 + 1e-9:
        axis = np.eye(3)[0 if abs(a[0]) < 0.5 else 2]
        axis = axis - a * (a @ axis)
        axis /= np.linalg.norm(axis)
        m[:3, :3] = 2 * np.outer(axis, axis) - np.eye(3)
        return m
    v = np.cross(a, b)
    skew = np.array([[0.0, -v[2], v[1]], [v[2], 0.0, -v[0]], [-v[1], v[0], 0.0]])
    m[:3, :3] += skew + skew @ skew / (1 + a @ b)
    return m


def _origin_camera(up: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """[4,4] the pose at the origin that formats with Y down (3DGS) and Y up (glTF, SPZ) have; None for others."""
    if abs(up[1]) < 1 - 1e-9:
        return None
    return np.eye(4) if up[1] < 0 else _ABOUT_X
