"""Judging rows: which splats are kept, what was mended, and what the report says of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import EmptyWorldError
from spatialbench.scene.blocks import box, in_blocks, median, quantiles
from spatialbench.scene.clean import warn_of_many
from spatialbench.scene.log import ReadLog, plural
from spatialbench.scene.splats.raw import RawSplats
from spatialbench.types import Decision, GaussianSplats, ImportReport

__all__ = ["DRAWN_DEGREE", "FAR", "judge", "report_splats"]

DRAWN_DEGREE = 3
"""Of harmonics; renderers leave out what is above."""
FAR = 1e4
"""Units from the origin beyond which the middle of a world is moved there: float32 steps are 1e-3 at that distance."""


_FAULTS = ("", "position_not_finite", "scale_nan", "scale_infinite", "scale_negative", "rotation_not_finite",
           "rotation_zero", "opacity_nan", "color_not_finite")


def judge(raw: RawSplats, log: ReadLog, where: str) -> GaussianSplats:
    """Drop rows that cannot be drawn, each counted once under the first fault found; unit quaternions; offset.

    Scales of 0 (flat splats) and opacities of 0 and 1 are kept. Quaternions are made units in place.

    Raises
    ------
    EmptyWorldError : no row is left; the message says why.
    """
    from spatialbench.scene.splats import _kernels as kernels

    n = len(raw.means)
    log.details["splats_read"] = n
    offset = _offset(raw.means)
    moved = bool(offset.any()) or raw.means.dtype != np.float32
    means = np.empty((n, 3), dtype=np.float32) if moved else raw.means
    fault, flat = np.empty(n, dtype=np.uint8), np.empty(n, dtype=bool)
    scales, turns, opacities = (np.ascontiguousarray(a) for a in (raw.scales, raw.quaternions, raw.opacities))
    turns = turns if turns.flags.writeable else turns.copy()

    def block(part: slice) -> None:
        if moved:
            means[part] = raw.means[part] - offset
        kernels.judge(means, scales, turns, opacities, part.start, part.stop, fault, flat)
        if not raw.finite_sh:
            odd = np.flatnonzero(_not_finite(raw.sh[part].reshape(part.stop - part.start, -1))) + part.start
            fault[odd[fault[odd] == 0]] = _FAULTS.index("color_not_finite")

    in_blocks(n, block)
    bad = np.flatnonzero(fault)
    counts = np.bincount(np.take(fault, bad), minlength=len(_FAULTS))
    counts[0] = n - len(bad)
    for name, count in zip(_FAULTS[1:], counts[1:].tolist(), strict=True):
        log.repair(f"splats_{name}", count, "dropped")
    warn_of_many(log, splats=n)
    if counts[0] == 0:
        why = ", ".join(f"{_FAULTS[i]} {c:,}" for i, c in enumerate(counts.tolist()) if i and c)
        raise EmptyWorldError(f"nothing can be drawn of its {plural(n, 'splat')} ({why})", where=where,
                              todo="Export the world again")
    splats = GaussianSplats(means=means, scales=raw.scales, quaternions=turns, opacities=raw.opacities,
                            sh=raw.sh, offset=offset, antialiased=raw.antialiased)
    if counts[0] < n:
        keep = fault == 0
        splats, flat = splats.select(keep), flat[keep]
    if not log.details.get("flat"):
        log.repair("splats_scale_zero", int(np.count_nonzero(flat)), "flat along an axis; kept")
    if raw.logit:
        log.repair("splats_opacity_minus_infinity", int(np.count_nonzero(splats.opacities == 0)), "invisible; kept")
    return splats


def _offset(means: NDArray) -> NDArray[np.float64]:
    """The middle of the world [3] if it lies far from the origin, else zeros; a stray splat does not decide."""
    if max(float(means.max()), -float(means.min())) <= FAR:  # not so where one is NaN
        return np.zeros(3)
    if not (np.abs(means) > FAR).any():
        return np.zeros(3)
    finite = means[np.isfinite(means).all(axis=1)]
    middle = np.median(finite.astype(np.float64), axis=0) if len(finite) else np.zeros(3)
    return middle if np.abs(middle).max() > FAR else np.zeros(3)


def _not_finite(rows: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Which rows of [N,K] hold a NaN or an infinity."""
    out = np.zeros(len(rows), dtype=bool)
    with np.errstate(all="ignore"):
        # Where the sum of a row is finite all its terms are; the other rows, few, are looked at one by one.
        odd = np.flatnonzero(~np.isfinite(rows @ np.ones(rows.shape[1], dtype=np.float32)))
        out[odd] = ~np.isfinite(rows[odd]).all(axis=1)
    return out


def report_splats(splats: GaussianSplats, log: ReadLog) -> ImportReport:
    """The import report: counts, bounds in the source frame (offset added), and figures that tell worlds apart."""
    assert splats.offset is not None
    from spatialbench.scene.splats import _kernels as kernels

    sigma = np.empty(len(splats), np.float32)
    in_blocks(len(sigma), lambda part: kernels.largest(splats.scales, part.start, part.stop, sigma))
    bounds = box(splats.means).astype(np.float64) + splats.offset
    log.details["opacity_percentiles"] = {
        f"p{p}": float(v) for p, v in zip((5, 50, 95), quantiles(splats.opacities, (0.05, 0.5, 0.95)), strict=True)}
    log.details["largest_sigma_median"] = median(sigma)
    log.details["antialiased"] = splats.antialiased
    if splats.sh_degree > DRAWN_DEGREE:
        log.warn(f"spherical harmonics of degree {splats.sh_degree} are drawn as degree {DRAWN_DEGREE}")
    if splats.offset.any():
        log.details["offset"] = splats.offset.tolist()
    decisions = dict(log.decisions)
    if "opacity_looks_activated" in log.details:
        decisions["opacity"] = Decision(value="logit", source="prior", confidence=0.5,
                                        note="every stored value lies within [0, 1]")
    return ImportReport(kind="splats", format=log.format, files=log.files, n_splats=len(splats),
                        sh_degree=splats.sh_degree, has_color=True, bounds=bounds.tolist(), decisions=decisions,
                        repairs=list(log.repairs.values()), warnings=log.warnings, details=log.details)
