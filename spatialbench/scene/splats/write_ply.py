"""Writing splats as a 3DGS PLY, the file that every splat tool reads."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spatialbench.scene.blocks import BLOCK
from spatialbench.scene.ply_header import MAX_HEADER, parse_ply_header
from spatialbench.scene.splats.rows import is_antialiased
from spatialbench.types import GaussianSplats

__all__ = ["LOGIT_ONE", "LOG_ZERO", "write_splat_ply"]

LOG_ZERO = -104.0
"""Stands for a scale or an opacity of 0. Its exponential is less than half of the smallest float32, and that of
its opposite more than the largest, so that readers get exactly 0 in either precision."""
LOGIT_ONE = 20.0
"""Stands for an opacity of 1: what it lacks of 1, 2e-9, is lost in float32."""
_MODE = "SplatRenderMode: mip"


def write_splat_ply(splats: GaussianSplats, path: Path, comments: Sequence[str] = ()) -> None:
    """Write splats as binary little-endian 3DGS PLY, under a temporary name and renamed when complete.

    Columns: x y z, f_dc_0..2, f_rest_* by channel (all of red, then green, then blue; none at degree 0), opacity as
    a logit, scale_0..2 as logarithms, rot_0..3 as wxyz; float32. Opacities of 0 and 1 and scales of 0 are written
    as ``LOG_ZERO`` and ``LOGIT_ONE``, finite, and come back as they were. ``offset`` is added to the centres; where
    it is not zero they are written as float64, which keeps what float32 would lose. An ``antialiased`` world gets
    the comment of Brush. Equal input gives equal bytes.

    Parameters
    ----------
    splats : any frame and unit, written as they are.
    path : file in a folder that exists; replaced if it is there.
    comments : lines of ASCII for the header.

    Raises
    ------
    ValueError : no splats; a value that no reader would keep (not finite, a negative scale, an opacity outside
        [0,1], a quaternion of zeros); a comment that is not one line of ASCII, or that states another render mode.
    OSError : when the disk refuses; nothing is left behind then.
    """
    offset = np.zeros(3) if splats.offset is None else splats.offset
    _check(splats, offset)
    header = _header(splats, comments, bool(offset.any()))
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as f:
            f.write(header)
            for block in _rows(splats, offset):
                f.write(block.tobytes())
            f.flush()
            os.fsync(f.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _check(splats: GaussianSplats, offset: NDArray[np.float64]) -> None:
    if not len(splats):
        raise ValueError("a splat file needs at least one splat")
    for name, values in (("means", splats.means), ("scales", splats.scales), ("quaternions", splats.quaternions),
                         ("opacities", splats.opacities), ("sh", splats.sh), ("offset", offset)):
        if not np.isfinite(values).all():
            raise ValueError(f"{name} must be finite")
    if splats.scales.min() < 0:
        raise ValueError(f"scales must not be negative, the least is {splats.scales.min()}")
    if splats.opacities.min() < 0 or splats.opacities.max() > 1:
        raise ValueError(f"opacities must lie in [0,1], they reach from {splats.opacities.min()} to "
                         f"{splats.opacities.max()}")
    if not splats.quaternions.any(axis=1).all():
        raise ValueError("a quaternion must not be zero")


def _header(splats: GaussianSplats, comments: Sequence[str], wide: bool) -> bytes:
    for c in comments:
        if not (c.isascii() and c.isprintable()):
            raise ValueError(f"a comment must be one line of ASCII, got {c[:40]!r}")
    names = [f"f_dc_{c}" for c in range(3)] + [f"f_rest_{i}" for i in range(3 * splats.sh.shape[1] - 3)]
    names += ["opacity", *(f"scale_{i}" for i in range(3)), *(f"rot_{i}" for i in range(4))]
    lines = ["ply", "format binary_little_endian 1.0", *([f"comment {_MODE}"] if splats.antialiased else []),
             *(f"comment {c}" for c in comments), f"element vertex {len(splats)}",
             *(f"property {'double' if wide else 'float'} {a}" for a in "xyz"), *(f"property float {n}" for n in names),
             "end_header"]
    header = ("\n".join(lines) + "\n").encode("ascii")
    if len(header) > MAX_HEADER:
        raise ValueError(f"the comments are too long: a header has at most {MAX_HEADER} bytes")
    if is_antialiased(parse_ply_header(header, "")) != splats.antialiased:
        raise ValueError(f"the comments state another render mode than antialiased = {splats.antialiased}")
    return header


def _rows(splats: GaussianSplats, offset: NDArray[np.float64]) -> Iterator[NDArray[np.void]]:
    """Blocks of rows as they stand in the file."""
    width = 3 * splats.sh.shape[1] + 8
    wide = offset.any()
    kind = np.dtype([("xyz", "<f8" if wide else "<f4", 3), ("rest", "<f4", width)])
    for start in range(0, len(splats), BLOCK):
        part = slice(start, start + BLOCK)
        sh = splats.sh[part]
        rows = np.empty(len(sh), dtype=kind)
        rows["xyz"] = splats.means[part] + offset if wide else splats.means[part]
        by_channel = sh[:, 1:].transpose(0, 2, 1).reshape(len(sh), -1)
        rows["rest"] = np.concatenate([sh[:, 0], by_channel, _logit(splats.opacities[part])[:, None],
                                       _log(splats.scales[part]), splats.quaternions[part]], axis=1)
        yield rows


def _logit(opacities: NDArray[np.float32]) -> NDArray[np.float32]:
    """Finite logits of opacities in [0,1]."""
    p = opacities.astype(np.float64)
    with np.errstate(divide="ignore"):
        values = np.log(p) - np.log1p(-p)
    return np.clip(values, LOG_ZERO, LOGIT_ONE).astype(np.float32)


def _log(scales: NDArray[np.float32]) -> NDArray[np.float32]:
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(scales.astype(np.float64)), LOG_ZERO).astype(np.float32)
