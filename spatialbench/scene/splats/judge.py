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

__all__ = ["FAR", "judge", "report_splats"]

FAR = 1e4
"""Units from the origin beyond which the middle of a world is moved there: float32 steps are 1e-3 at that distance."""


_FAULTS = ("", "position_not_finite", "scale_nan", "scale_infinite", "scale_negative", "rotation_not_finite",
           "rotation_zero", "opacity_nan", "color_not_finite")


def judge(raw: RawSplats, log: ReadLog, where: str) -> GaussianSplats:
    """Drop rows that cannot be drawn, each counted once under the first fault found; unit quaternions; offset.

    Scales of 0 (flat splats) and opacities of 0 and 1 are kept.

    Raises
    ------
    EmptyWorldError : no row is left; the message says why.
    """
    n = len(raw.means)
    log.details["splats_read"] = n
    offset = _offset(raw.means)
    moved = bool(offset.any()) or raw.means.dtype != np.float32
    means = np.empty((n, 3), dtype=np.float32) if moved else raw.means
    quaternions = np.empty((n, 4), dtype=np.float32)
    fault, flat = np.zeros(n, dtype=np.uint8), np.zeros(n, dtype=bool)

    def block(part: slice) -> None:
        if moved:
            means[part] = raw.means[part] - offset
        length = _unit(raw.quaternions[part], quaternions[part])
        smallest = np.minimum(np.minimum(raw.scales[part, 0], raw.scales[part, 1]), raw.scales[part, 2])
        flat[part] = smallest == 0
        harmonics = raw.sh[part].reshape(len(length), -1)[:, :0 if raw.finite_sh else None]
        if (_sum_finite(means[part], raw.scales[part], raw.opacities[part], length, harmonics) and length.min() > 0
                and smallest.min() >= 0):
            return  # nothing is wrong with any row
        odd_scale = _not_finite(raw.scales[part])
        nan_scale = odd_scale.copy()
        nan_scale[odd_scale] = np.isnan(raw.scales[part][odd_scale]).any(axis=1)
        bad = (_not_finite(means[part]), nan_scale, odd_scale, smallest < 0, ~np.isfinite(length), length == 0,
               np.isnan(raw.opacities[part]), _not_finite(harmonics))
        for code in range(len(bad), 0, -1):  # the first fault is written last
            fault[part][bad[code - 1]] = code

    in_blocks(n, block)
    counts = np.bincount(fault, minlength=len(_FAULTS))
    for name, count in zip(_FAULTS[1:], counts[1:].tolist(), strict=True):
        log.repair(f"splats_{name}", count, "dropped")
    warn_of_many(log, splats=n)
    if counts[0] == 0:
        why = ", ".join(f"{_FAULTS[i]} {c:,}" for i, c in enumerate(counts.tolist()) if i and c)
        raise EmptyWorldError(f"nothing can be drawn of its {plural(n, 'splat')} ({why})", where=where,
                              todo="Export the world again")
    splats = GaussianSplats(means=means, scales=raw.scales, quaternions=quaternions, opacities=raw.opacities,
                            sh=raw.sh, offset=offset, antialiased=raw.antialiased)
    if counts[0] < n:
        keep = fault == 0
        splats, flat = splats.select(keep), flat[keep]
    if not log.details.get("flat"):
        log.repair("splats_scale_zero", int(flat.sum()), "flat along an axis; kept")
    if raw.logit:
        log.repair("splats_opacity_minus_infinity", int((splats.opacities == 0).sum()), "invisible; kept")
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


def _unit(quaternions: NDArray[np.float32], into: NDArray[np.float32]) -> NDArray[np.float64]:
    """Fill in unit quaternions; the lengths before. In float64, where no float32 square overflows or vanishes."""
    q = np.ascontiguousarray(quaternions.T, dtype=np.float64)
    with np.errstate(all="ignore"):  # lengths of 0 and NaN are judged by the caller
        length: NDArray[np.float64] = np.sqrt((q[0] * q[0] + q[2] * q[2]) + (q[1] * q[1] + q[3] * q[3]))
        for k in range(4):
            into[:, k] = q[k] / length
    return length


def _sum_finite(*arrays: NDArray) -> bool:
    """Whether the sum of each is finite: then so are all numbers in it."""
    with np.errstate(all="ignore"):
        return all(bool(np.isfinite(a.sum())) for a in arrays)


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
    bounds = box(splats.means).astype(np.float64) + splats.offset
    sigma = np.maximum(np.maximum(splats.scales[:, 0], splats.scales[:, 1]), splats.scales[:, 2])
    log.details["opacity_percentiles"] = {
        f"p{p}": float(v) for p, v in zip((5, 50, 95), quantiles(splats.opacities, (0.05, 0.5, 0.95)), strict=True)}
    log.details["largest_sigma_median"] = median(sigma)
    log.details["antialiased"] = splats.antialiased
    if splats.offset.any():
        log.details["offset"] = splats.offset.tolist()
    decisions = dict(log.decisions)
    if "opacity_looks_activated" in log.details:
        decisions["opacity"] = Decision(value="logit", source="prior", confidence=0.5,
                                        note="every stored value lies within [0, 1]")
    return ImportReport(kind="splats", format=log.format, files=log.files, n_splats=len(splats),
                        sh_degree=splats.sh_degree, has_color=True, bounds=bounds.tolist(), decisions=decisions,
                        repairs=list(log.repairs.values()), warnings=log.warnings, details=log.details)
