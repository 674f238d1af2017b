"""What an edit changed and what it left alone (M31 to M37, eqs. 62 to 71), on images of both worlds.

Arrays are of one view unless said otherwise; a background mask is True where nothing was allowed to change.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from spatialbench.metrics.ruling import Ruling, no_value, ruled
from spatialbench.types import Status

__all__ = ["Operation", "allowed_change", "background_mean", "background_psnr", "chosen_views", "depth_agreement",
           "edit_execution", "edit_score_global", "edit_score_object", "frame_mean", "patch_background",
           "patch_distance", "rmse_of_psnr"]

Operation = Literal["addition", "deletion", "replacement", "modification"]
Mask = NDArray[np.bool_]


def allowed_change(operation: Operation, before: Mask | None, after: Mask | None) -> Mask | None:
    """M [H,W]: where the operation may change the image (spec section 10); not dilated.

    Parameters
    ----------
    before, after : the target's mask in each world; None where no target was found.

    Returns
    -------
    None when no mask was produced: then the whole image counts as background.
    """
    parts = {"addition": (after,), "deletion": (before,)}.get(operation, (before, after))
    found = [m for m in parts if m is not None]
    return None if not found else np.logical_or.reduce(found)


def chosen_views(detectable: Sequence[bool], most: int) -> tuple[int, ...]:
    """Up to ``most`` views, evenly spaced over the detectable ones in orbit order (OPEN-21).

    Of n detectable views the k-th of m is number floor(k n / m): the first is always taken.
    """
    seen = [i for i, d in enumerate(detectable) if d]
    m = min(most, len(seen))
    return tuple(seen[k * len(seen) // m] for k in range(m))


def edit_execution(after: Sequence[bool] | None, views: int) -> Ruling:
    """M31 (eq. 62): 1 if any after-view satisfies the instruction; judgments of before-views do not gate.

    Parameters
    ----------
    after : one answer a view; None when there was no judge.
    views : that the target is seen in (six for a global edit); none gives 0 whoever judges.
    """
    if views == 0:
        return ruled(0.0, "no_object_view")
    if after is None:
        return no_value(Status.UNAVAILABLE, "not_judged")
    if len(after) != views:
        raise ValueError(f"{len(after)} answers for {views} views")
    return ruled(float(any(after)), "" if any(after) else "no_view_satisfies")


def background_psnr(before: NDArray[np.floating], after: NDArray[np.floating], background: Mask, *,
                    min_pixels: int = 64, floor: float = 1e-12, top: float = 99.0) -> float | None:
    """PSNR of one frame over its background, dB (eqs. 63, 64).

    Parameters
    ----------
    before, after : [H,W,3] in [0,1].
    min_pixels : a frame with fewer background pixels has no value (None).
    floor, top : a mean squared error of at most ``floor`` gives ``top``. Just above it values reach 120 dB: the
        paper's rule is followed as it stands.
    """
    n = int(np.count_nonzero(background))
    if n < min_pixels:
        return None
    difference = after[background].astype(np.float64) - before[background].astype(np.float64)
    mse = float(np.mean(difference * difference))
    return top if mse <= floor else -10.0 * math.log10(mse)


def rmse_of_psnr(psnr: float) -> float:
    """RMSE of a case from its mean PSNR (eq. 65): averaged in dB first, so not the mean of the frames' RMSE."""
    return float(10.0 ** (-psnr / 20.0))


def background_mean(values: NDArray[np.floating], background: Mask, *, min_pixels: int = 64) -> float | None:
    """Mean of a map [H,W] (spatial LPIPS, eq. 66) over the background; None under ``min_pixels``."""
    if int(np.count_nonzero(background)) < min_pixels:
        return None
    return float(np.mean(values[background], dtype=np.float64))


def patch_background(background: Mask, grid: int = 37) -> NDArray[np.float64]:
    """[grid,grid] share of background in each patch of the image: exact overlap of pixels and patches.

    It is that of the image after any resize, since patches and pixels are both shares of the same square. Sums are of
    whole numbers, so that no rounding takes a patch of just one half for more.
    """
    rows, columns = (_overlap(n, grid) for n in background.shape)
    return np.asarray(rows @ background.astype(np.float64) @ columns.T) / background.size


def patch_distance(before: NDArray[np.floating], after: NDArray[np.floating], coverage: NDArray[np.float64], *,
                   least: float = 0.5, min_patches: int = 4) -> float | None:
    """Mean of 1 - cos over patch tokens [P,D] whose background coverage [P] is above ``least`` (eq. 67).

    None with fewer than ``min_patches`` of them. Tokens are made unit first.

    Raises
    ------
    ValueError : shapes that do not fit, or a kept token without a length.
    """
    if before.shape != after.shape or before.ndim != 2 or len(before) != coverage.size:
        raise ValueError(f"tokens {before.shape} and {after.shape} for {coverage.size} patches")
    kept = coverage.ravel() > least
    if int(kept.sum()) < min_patches:
        return None
    a, b = before[kept].astype(np.float64), after[kept].astype(np.float64)
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    if not (np.isfinite(lengths).all() and (lengths > 0).all()):
        raise ValueError("a patch token has no length")
    # Rounding can leave the cosine of equal tokens above 1, and the distance below 0.
    return float(np.mean(1.0 - np.clip(np.einsum("ij,ij->i", a, b) / lengths, -1.0, 1.0)))


def depth_agreement(depth0: NDArray[np.floating], alpha0: NDArray[np.floating], depth1: NDArray[np.floating],
                    alpha1: NDArray[np.floating], *, min_alpha: float = 0.5, tolerance: float = 0.05,
                    min_pixels: int = 64) -> tuple[float | None, Mask, Mask]:
    """Share of the common-valid pixels of one frame [H,W] whose depths agree (eqs. 68, 69).

    rho = |d1 - d0| / max(min(d0, d1), 1e-6) at most ``tolerance``, where both opacities are at least ``min_alpha`` and
    both depths positive. Geometry outside the common mask is not looked at.

    Returns
    -------
    The share (None with fewer than ``min_pixels`` common ones), the common mask and the agreeing pixels.
    """
    d0, d1 = depth0.astype(np.float64), depth1.astype(np.float64)
    common = (alpha0 >= min_alpha) & (alpha1 >= min_alpha) & (d0 > 0) & (d1 > 0)
    with np.errstate(invalid="ignore", over="ignore"):
        rho = np.abs(d1 - d0) / np.maximum(np.minimum(d0, d1), 1e-6)
    agree = common & (rho <= tolerance)
    n = int(np.count_nonzero(common))
    return (None if n < min_pixels else int(np.count_nonzero(agree)) / n), common, agree


def frame_mean(values: Sequence[float | None], *, why_none: str = "no_valid_frame") -> Ruling:
    """Mean over the frames that have a value; invalid when none has."""
    valid = [v for v in values if v is not None]
    if not valid:
        return no_value(Status.INVALID, why_none)
    return ruled(math.fsum(valid) / len(valid))


def edit_score_object(executed: Ruling, psnr: Ruling, lpips: Ruling, dino: Ruling) -> Ruling:
    """M36 (eq. 70): E (1 - (RMSE + LPIPS + DINO) / 3) of one case, raw distances, not clipped.

    E = 0 gives 0 whatever the rest; E = 1 with a part missing gives no value: unavailable where a part is, else as
    the first missing part is.
    """
    if executed.value is None:
        return no_value(executed.status, f"edit_execution: {executed.reason}")
    if executed.value == 0:
        return ruled(0.0, "not_executed")
    gap = _gap({"rgb_psnr_bg": psnr, "lpips_bg": lpips, "dinov2_bg_distance": dino})
    if gap is not None:
        return gap
    assert psnr.value is not None and lpips.value is not None and dino.value is not None
    return ruled(1.0 - (rmse_of_psnr(psnr.value) + lpips.value + dino.value) / 3.0)


def edit_score_global(executed: Ruling, depth: Ruling) -> Ruling:
    """M37 (eq. 71): E times the depth agreement of one case; 0 for E = 0 even without it (OPEN-22)."""
    if executed.value is None:
        return no_value(executed.status, f"edit_execution: {executed.reason}")
    if executed.value == 0:
        return ruled(0.0, "not_executed")
    gap = _gap({"depth_agree_ratio": depth})
    if gap is not None:
        return gap
    assert depth.value is not None
    return ruled(depth.value)


def _gap(parts: dict[str, Ruling]) -> Ruling | None:
    missing = {name: r for name, r in parts.items() if r.value is None}
    if not missing:
        return None
    words = "; ".join(f"{name}: {r.reason}" for name, r in missing.items())
    statuses = [r.status for r in missing.values()]
    return no_value(Status.UNAVAILABLE if Status.UNAVAILABLE in statuses else statuses[0], words)


def _overlap(pixels: int, grid: int) -> NDArray[np.float64]:
    """[grid,pixels] how much of each patch each pixel fills along one axis: whole numbers, a patch is ``pixels`` long
    and a pixel ``grid``."""
    edges, ends = np.arange(pixels + 1) * grid, np.arange(grid + 1) * pixels
    low = np.maximum(edges[None, :-1], ends[:-1, None])
    high = np.minimum(edges[None, 1:], ends[1:, None])
    return np.clip(high - low, 0, None).astype(np.float64)
