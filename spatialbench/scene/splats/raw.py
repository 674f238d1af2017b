"""What the splat readers hand on, and the arithmetic that they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import EmptyWorldError, UnsupportedFormatError
from spatialbench.types import Pose

__all__ = ["MAX_SPLATS", "SH_C0", "SH_REST", "RawSplats", "check_count", "dc_of_color", "joined",
           "sigmoid", "smallest_three"]

MAX_SPLATS = 50_000_000
"""More are refused before memory is taken for them (at degree 3 they take 12 GB)."""
SH_C0 = 0.28209479177387814
"""The constant harmonic, 1 / (2 sqrt(pi)): colour = 0.5 + SH_C0 * coefficient."""
SH_REST = {0: 0, 1: 3, 2: 8, 3: 15, 4: 24}
"""Coefficients beyond the constant one, by degree."""


@dataclass
class RawSplats:
    """Splats as a reader leaves them: activated, but no row is judged or removed yet.

    Attributes
    ----------
    means : [N,3] float32, or float64 where the file has more digits.
    scales : [N,3] float32 standard deviations, linear; may hold NaN, infinities, zeros.
    quaternions : [N,4] float32 wxyz, of any length.
    opacities : [N] float32 in [0,1] or NaN.
    sh : [N,K,3] float32.
    logit : the file stores logits, so that an opacity of exactly 0 comes from minus infinity.
    finite_sh : the format has no way to write harmonics that are not finite: they need not be looked at.
    up, unit_m, cameras : up axis, metres per unit and cameras that the file itself states, if any.
    """

    means: NDArray
    scales: NDArray[np.float32]
    quaternions: NDArray[np.float32]
    opacities: NDArray[np.float32]
    sh: NDArray[np.float32]
    logit: bool = False
    antialiased: bool = False
    finite_sh: bool = False
    up: NDArray[np.float64] | None = None
    unit_m: float | None = None
    cameras: tuple[Pose, ...] = ()

    def select(self, keep: NDArray) -> RawSplats:
        """Only some rows (mask or indices)."""
        return replace(self, means=self.means[keep], scales=self.scales[keep], quaternions=self.quaternions[keep],
                       opacities=self.opacities[keep], sh=self.sh[keep])


def joined(parts: list[RawSplats]) -> RawSplats:
    """All parts as one; harmonics that a part lacks are 0. ``up`` is left out."""
    if len(parts) == 1:
        return parts[0]
    k = max(p.sh.shape[1] for p in parts)
    sh = np.zeros((sum(len(p.sh) for p in parts), k, 3), dtype=np.float32)
    at = 0
    for p in parts:
        sh[at:at + len(p.sh), :p.sh.shape[1]] = p.sh
        at += len(p.sh)
    means, scales, quaternions, opacities = (np.concatenate([getattr(p, a) for p in parts])
                                             for a in ("means", "scales", "quaternions", "opacities"))
    return RawSplats(means, scales, quaternions, opacities, sh,
                     logit=any(p.logit for p in parts), antialiased=any(p.antialiased for p in parts))


def check_count(count: int, where: str) -> None:
    """A file's number of splats is one that can be read.

    Raises
    ------
    EmptyWorldError : none. UnsupportedFormatError : more than ``MAX_SPLATS``.
    """
    if count == 0:
        raise EmptyWorldError("has 0 splats", where=where, todo="Export the world again")
    if count > MAX_SPLATS:
        raise UnsupportedFormatError(f"has {count:,} splats, more than {MAX_SPLATS:,}", where=where,
                                     todo="Prune it, or cut it into parts")


def sigmoid(logit: NDArray) -> NDArray[np.float32]:
    """Opacity of a logit; +inf gives 1, -inf gives 0, NaN stays."""
    with np.errstate(over="ignore", invalid="ignore"):
        out: NDArray[np.float32] = (1 / (1 + np.exp(-logit))).astype(np.float32)
    return out


def dc_of_color(color: NDArray) -> NDArray:
    """The constant coefficient that gives a colour in [0,1]."""
    return (color - 0.5) / SH_C0


def smallest_three(parts: Sequence[NDArray[np.float64]], largest: NDArray, into: Sequence[NDArray[np.float32]]) -> None:
    """Fill in the four components [N] of quaternions, from three of them [N], in order, and the index [N] of the one
    left out."""
    x, y, z = parts
    rest = np.sqrt(np.maximum(0, 1 - ((x * x + z * z) + y * y))).astype(np.float32)
    a, b, c = (p.astype(np.float32) for p in parts)
    # A component before the one left out stands in its own place, one behind it a place further on.
    into[0][:] = np.where(largest == 0, rest, a)
    into[1][:] = np.where(largest == 1, rest, np.where(largest == 0, a, b))
    into[2][:] = np.where(largest == 2, rest, np.where(largest == 3, c, b))
    into[3][:] = np.where(largest == 3, rest, c)
