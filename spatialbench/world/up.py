"""Estimates which way is up. It only warns: on worlds it had not seen it was right in 10 of 18."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.types.protocol_rules import CameraFinding
from spatialbench.world.interior import InteriorAnalysis, analyse_interior
from spatialbench.world.surfels import Surfels

__all__ = ["UpEstimate", "estimate_up", "normal_modes", "refined_up"]

_CONE = math.cos(math.radians(8.0))
_APART = math.cos(math.radians(35.0))
_SAME = math.cos(math.radians(17.5))  # half of what keeps two candidates apart
_EQUAL = math.cos(math.radians(0.5))
_DIRECTIONS = 2000
_MODES = 3
_MIN_SHARE = 0.02
_COUNT_SAMPLE = 20_000
_REFINE_SAMPLE = 200_000
_BANDS = ((0.25, 0.85), (0.25, 0.85), (0.06, 0.95), (0.06, 0.95), (0.06, 0.95), (0.06, 0.95))
"""m from the floor's plane, and cosine to its axis, of the rounds of refinement."""
_FEWEST = 50


@dataclass(frozen=True, eq=False)
class UpEstimate:
    """What the surface says about the up axis.

    Attributes
    ----------
    candidates : analyses of both signs of the modes of the normals, most evidence first.
    decided : the analysis of the axis that was decided by a source.
    """

    candidates: tuple[InteriorAnalysis, ...]
    decided: InteriorAnalysis

    @property
    def ratio(self) -> float | None:
        """E1/E2 of the two strongest candidates; None when there are no two with evidence."""
        e = [c.evidence for c in self.candidates[:2]]
        return e[0] / e[1] if len(e) == 2 and e[1] > 0 else None

    @property
    def agrees(self) -> bool | None:
        """Whether the strongest candidate is the decided axis; None when there is no evidence at all."""
        if not self.candidates or self.candidates[0].evidence == 0:
            return None
        return bool(self.candidates[0].up @ self.decided.up > _SAME)

    def warning(self, warn_ratio: float) -> str | None:
        """Words for a person when a candidate has more than ``warn_ratio`` times the decided evidence."""
        if self.agrees is not False or not self.candidates[0].evidence > warn_ratio * self.decided.evidence:
            return None
        best, ratio = self.candidates[0], self.ratio
        beside = "" if ratio is None else f", E1/E2 = {ratio:.1f}"
        return (f"the surface looks as if up were {axis_words(best.up)} (E = {best.evidence:.3g} against "
                f"{self.decided.evidence:.3g} for {axis_words(self.decided.up)}{beside}; warned above "
                f"{warn_ratio:g} times). The decided axis is kept; look at the pictures, and give the other "
                "one with --up if they are upside down or lie on their side")

    def as_json(self) -> list[dict[str, Any]]:
        """Candidates for the report."""
        return [{"axis": [float(x) for x in c.up], "evidence": c.evidence, "enclosure": c.enclosure,
                 "cue": c.cue, "area": c.places[0].area if c.places else 0.0} for c in self.candidates]


def axis_words(axis: NDArray[np.float64]) -> str:
    """``+Y`` for an axis within half a degree of one of the file's, else its three numbers."""
    a = int(np.argmax(np.abs(axis)))
    if abs(axis[a]) > _EQUAL:
        return ("+" if axis[a] > 0 else "-") + "XYZ"[a]
    return "(" + ", ".join(f"{x:.2f}" for x in axis) + ")"


def estimate_up(surfels: Surfels, decided: NDArray[np.float64], finding: CameraFinding) -> UpEstimate:
    """Evidence for the modes of the normals and for the decided axis (real-worlds.md section 5a, 5b)."""
    own = analyse_interior(surfels, decided, finding)
    out = []
    for mode in normal_modes(surfels):
        for axis in (mode, -mode):
            # A candidate that is the decided axis needs no second look, nor its own rounding.
            found = own if axis @ decided > _EQUAL else analyse_interior(surfels, axis, finding)
            out.append(replace(found, up=refined_up(surfels, found)))
    out.sort(key=lambda a: -a.evidence)
    return UpEstimate(tuple(out), own)


def refined_up(surfels: Surfels, found: InteriorAnalysis) -> NDArray[np.float64]:
    """The axis [3] across the plane that fits the floor of the best place (real-worlds.md section 5b).

    Surfels near the floor's height whose normals are near the axis, at first in a wide band, then in a narrow one. The
    axis itself where there is no floor, or too few surfels in it.
    """
    if not found.places:
        return found.up
    many = surfels.thinned(_REFINE_SAMPLE)
    up, height = found.up, found.places[0].floor
    for band, cone in _BANDS:
        near = (np.abs(many.points @ up - height) < band) & (np.abs(many.normals @ up) > cone)
        if near.sum() < _FEWEST:
            break
        points, areas = many.points[near], many.areas[near]
        middle = areas @ points / areas.sum()
        off = points - middle
        axis = np.linalg.eigh((off * areas[:, None]).T @ off)[1][:, 0]
        up = axis * (1.0 if axis @ found.up > 0 else -1.0)
        height = float(middle @ up)
    return np.asarray(up)


def normal_modes(surfels: Surfels) -> list[NDArray[np.float64]]:
    """At most three unit axes [3] that most of the area is perpendicular to, strongest first.

    Modes in cones of 8 degrees over 2,000 directions, at least 35 degrees apart, with at least 2 % of the
    area each; refined to the principal axis of the normals in the cone. The sign is arbitrary.
    """
    if not len(surfels):
        return []
    grid = _sphere(_DIRECTIONS)
    few = surfels.thinned(_COUNT_SAMPLE)
    mass = np.zeros(len(grid))
    for a in range(0, len(few), 4096):
        inside = np.abs(few.normals[a:a + 4096] @ grid.T) > _CONE
        mass += few.areas[a:a + 4096] @ inside
    total = float(few.areas.sum())
    many = surfels.thinned(_REFINE_SAMPLE)
    modes = []
    for _ in range(_MODES):
        b = int(np.argmax(mass))
        if mass[b] < _MIN_SHARE * total:
            break
        axis = grid[b]
        for _ in range(3):
            near = np.abs(many.normals @ axis) > _CONE
            if not near.any():
                break
            n = many.normals[near]
            axis = np.linalg.eigh((n * many.areas[near, None]).T @ n)[1][:, -1]
        # A fixed sign, whatever the eigenvector routine gives.
        axis = axis * np.sign(axis[np.argmax(np.abs(axis))])
        modes.append(axis)
        mass[np.abs(grid @ grid[b]) > _APART] = 0.0
    return modes


def _sphere(n: int) -> NDArray[np.float64]:
    """The upper half of ``n`` evenly spread directions (a Fibonacci lattice)."""
    i = np.arange(n) + 0.5
    polar, turn = np.arccos(1 - 2 * i / n), math.pi * (1 + math.sqrt(5)) * i
    d = np.stack([np.cos(turn) * np.sin(polar), np.sin(turn) * np.sin(polar), np.cos(polar)], axis=1)
    return np.asarray(d[d[:, 2] >= 0])
