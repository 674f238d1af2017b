"""Judging rows: which splats are kept, what was mended, and what the report says of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import EmptyWorldError
from spatialbench.scene.log import ReadLog, plural
from spatialbench.scene.splats.raw import BLOCK, RawSplats
from spatialbench.types import Decision, GaussianSplats, ImportReport

__all__ = ["FAR", "judge", "report"]

FAR = 1e4
"""Units from the origin beyond which the middle of a world is moved there: float32 steps are 1e-3 at that distance."""


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
    means = (raw.means - offset).astype(np.float32) if offset.any() else raw.means.astype(np.float32, copy=False)
    quaternions, length = _unit(raw.quaternions)
    keep = np.ones(n, dtype=bool)
    smallest = np.minimum(np.minimum(raw.scales[:, 0], raw.scales[:, 1]), raw.scales[:, 2])
    odd_scale = _not_finite(raw.scales)
    nan_scale = odd_scale.copy()
    nan_scale[odd_scale] = np.isnan(raw.scales[odd_scale]).any(axis=1)
    for name, bad in (("position_not_finite", _not_finite(means)),
                      ("scale_nan", nan_scale),
                      ("scale_infinite", odd_scale & ~nan_scale),
                      ("scale_negative", smallest < 0),
                      ("rotation_not_finite", ~np.isfinite(length)),
                      ("rotation_zero", length == 0),
                      ("opacity_nan", np.isnan(raw.opacities)),
                      ("color_not_finite", _not_finite(raw.sh.reshape(n, -1)))):
        new = bad & keep
        log.repair(f"splats_{name}", int(new.sum()), "dropped")
        keep &= ~new
    if not keep.any():
        why = ", ".join(f"{r.name.removeprefix('splats_')} {r.count:,}" for r in log.repairs.values())
        raise EmptyWorldError(f"nothing can be drawn of its {plural(n, 'splat')} ({why})", where=where,
                              todo="Export the world again")
    splats = GaussianSplats(means=means, scales=raw.scales, quaternions=quaternions, opacities=raw.opacities,
                            sh=raw.sh, offset=offset, antialiased=raw.antialiased)
    if not keep.all():
        splats = splats.select(keep)
    if not log.details.get("flat"):
        log.repair("splats_scale_zero", int((smallest[keep] == 0).sum()), "flat along an axis; kept")
    if raw.logit:
        log.repair("splats_opacity_minus_infinity", int((splats.opacities == 0).sum()), "invisible; kept")
    return splats


def _offset(means: NDArray) -> NDArray[np.float64]:
    """The middle of the world [3] if it lies far from the origin, else zeros; a stray splat does not decide."""
    if not (np.abs(means) > FAR).any():
        return np.zeros(3)
    finite = means[np.isfinite(means).all(axis=1)]
    middle = np.median(finite.astype(np.float64), axis=0) if len(finite) else np.zeros(3)
    return middle if np.abs(middle).max() > FAR else np.zeros(3)


def _unit(quaternions: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Unit quaternions, and the lengths before; in float64, where no float32 square overflows or vanishes."""
    out = np.zeros_like(quaternions)
    length = np.zeros(len(quaternions))
    for start in range(0, len(quaternions), BLOCK):
        part = slice(start, start + BLOCK)
        q = quaternions[part].astype(np.float64)
        with np.errstate(all="ignore"):  # lengths of 0 and NaN are judged by the caller
            length[part] = np.sqrt(np.einsum("ij,ij->i", q, q))
            out[part] = q / length[part][:, None]
    return out, length


def _not_finite(rows: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Which rows of [N,K] hold a NaN or an infinity."""
    out = np.zeros(len(rows), dtype=bool)
    ones = np.ones(rows.shape[1], dtype=np.float32)
    with np.errstate(all="ignore"):
        for start in range(0, len(rows), BLOCK):
            # Where the sum of a row is finite all its terms are; the other rows, few, are looked at one by one.
            part = rows[start:start + BLOCK]
            odd = np.flatnonzero(~np.isfinite(part @ ones))
            out[start + odd] = ~np.isfinite(part[odd]).all(axis=1)
    return out


def report(splats: GaussianSplats, log: ReadLog) -> ImportReport:
    """The import report: counts, bounds in the source frame (offset added), and figures that tell worlds apart."""
    assert splats.offset is not None
    columns = [splats.means[:, i] for i in range(3)]  # an order of magnitude faster than along axis 0
    bounds = np.array([[c.min() for c in columns], [c.max() for c in columns]], dtype=np.float64) + splats.offset
    sigma = np.maximum(np.maximum(splats.scales[:, 0], splats.scales[:, 1]), splats.scales[:, 2])
    log.details["opacity_percentiles"] = {
        f"p{p}": float(v) for p, v in zip((5, 50, 95), np.percentile(splats.opacities, (5, 50, 95)), strict=True)}
    log.details["largest_sigma_median"] = float(np.median(sigma))
    log.details["antialiased"] = splats.antialiased
    if splats.offset.any():
        log.details["offset"] = splats.offset.tolist()
    decisions = {}
    if "opacity_looks_activated" in log.details:
        decisions["opacity"] = Decision(value="logit", source="prior", confidence=0.5,
                                        note="every stored value lies within [0, 1]")
    return ImportReport(kind="splats", format=log.format, files=log.files, n_splats=len(splats),
                        sh_degree=splats.sh_degree, has_color=True, bounds=bounds.tolist(), decisions=decisions,
                        repairs=list(log.repairs.values()), warnings=log.warnings, details=log.details)
