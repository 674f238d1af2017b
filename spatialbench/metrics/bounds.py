"""M12: is the camera still in the world? (eqs. 44 and 45; the same test gates the eight locations of M38)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spatialbench.metrics.coverage import hole_rate
from spatialbench.types.protocol_rules import Usability

__all__ = ["OobResult", "SampleObservation", "close_share", "hole_limit", "observe_sample", "oob_ratio", "usable"]


@dataclass(frozen=True)
class SampleObservation:
    """What six probes saw at one camera position.

    Attributes
    ----------
    hole_rate : h6, over all pixels of the six faces.
    close_share : share of the valid pixels nearer than the clearance; None without a valid pixel.
    inside_footprint : XY of the camera lies in the filled footprint; None where there is no footprint.
    """

    hole_rate: float
    close_share: float | None
    inside_footprint: bool | None


@dataclass(frozen=True)
class OobResult:
    """M12 and how it came about, T samples.

    Attributes
    ----------
    value : R_OOB in [0,1].
    out : [T] outside or not free.
    outside : [T] o_t, the hole test and (where there is a footprint) the footprint test.
    not_free : [T] the clearance test failed; never without a metric scale.
    causes : [T] empty, ``hole``, ``outside_footprint`` or ``not_free``; being outside goes before not free.
    limit : hole rate above which the hole test fails.
    """

    value: float
    out: tuple[bool, ...]
    outside: tuple[bool, ...]
    not_free: tuple[bool, ...]
    causes: tuple[str, ...]
    limit: float


def close_share(depth: NDArray[np.floating], settings: Usability) -> float | None:
    """Share of the pixels with a depth that are nearer than the clearance.

    Parameters
    ----------
    depth : [6,H,W] (or any shape; all pixels are pooled), metres along the camera axis, 0 = nothing.

    Returns
    -------
    Share in [0,1]; None when no pixel has a depth (then the place counts as free, OPEN-13a).
    """
    d = np.asarray(depth)
    valid = d > settings.min_depth
    n = int(np.count_nonzero(valid))
    return int(np.count_nonzero(valid & (d < settings.clearance))) / n if n else None


def observe_sample(alpha: NDArray[np.floating], depth: NDArray[np.floating] | None,
                   inside_footprint: bool | None, settings: Usability) -> SampleObservation:
    """Reduce the six probes of one position, so that no image needs to be kept.

    Parameters
    ----------
    alpha, depth : [6,H,W] raw opacity; depth in metres, or None when it was not rendered.
    inside_footprint : see ``SampleObservation``.
    """
    a = np.asarray(alpha)
    h6 = hole_rate(a.reshape(1, -1, a.shape[-1]), settings.hole_alpha)[0]
    return SampleObservation(float(h6), None if depth is None else close_share(depth, settings), inside_footprint)


def hole_limit(reference_hole_rate: float, settings: Usability) -> float:
    """Highest hole rate that still passes: min(h6_0 + margin, cap)."""
    return min(reference_hole_rate + settings.hole_margin, settings.hole_cap)


def usable(sample: SampleObservation, reference_hole_rate: float, settings: Usability,
           has_scale: bool) -> tuple[bool, str]:
    """Whether a camera position is usable, and if not, the first cause.

    Parameters
    ----------
    reference_hole_rate : h6_0, of the unmoved initial camera.
    has_scale : lengths mean metres; without, the clearance test passes.

    Returns
    -------
    (True, "") or (False, cause) with cause ``hole`` (too many holes and no footprint to ask),
    ``outside_footprint`` (too many holes and outside the footprint) or ``not_free``.
    """
    outside, blocked = _tests(sample, hole_limit(reference_hole_rate, settings), settings, has_scale)
    cause = _cause(sample, outside, blocked)
    return not cause, cause


def oob_ratio(samples: Sequence[SampleObservation], reference_hole_rate: float, settings: Usability,
              has_scale: bool) -> OobResult:
    """M12 over all T samples of the path, the one at t = 0 included.

    Raises
    ------
    ValueError : when there is no sample.
    """
    if not samples:
        raise ValueError("the out-of-bounds ratio of no samples is undefined")
    limit = hole_limit(reference_hole_rate, settings)
    tests = [_tests(s, limit, settings, has_scale) for s in samples]
    out = tuple(o or b for o, b in tests)
    return OobResult(sum(out) / len(out), out, tuple(o for o, _ in tests), tuple(b for _, b in tests),
                     tuple(_cause(s, o, b) for s, (o, b) in zip(samples, tests, strict=True)), limit)


def _tests(sample: SampleObservation, limit: float, settings: Usability, has_scale: bool) -> tuple[bool, bool]:
    outside = sample.hole_rate > limit and not sample.inside_footprint
    blocked = has_scale and sample.close_share is not None and sample.close_share > settings.max_close_share
    return bool(outside), bool(blocked)


def _cause(sample: SampleObservation, outside: bool, blocked: bool) -> str:
    if outside:
        return "hole" if sample.inside_footprint is None else "outside_footprint"
    return "not_free" if blocked else ""
