"""The .splat format: records of 32 bytes without a header."""

from __future__ import annotations

import numpy as np

from spatialbench.errors import CorruptInputError
from spatialbench.scene.blocks import in_blocks
from spatialbench.scene.folder import FileBytes
from spatialbench.scene.log import ReadLog, plural
from spatialbench.scene.splats.raw import RawSplats, check_count, dc_of_color

__all__ = ["RECORD", "read_dotsplat"]

RECORD = 32
"""Bytes of a splat: position and linear scale (float32), RGBA, rotation as (q * 128 + 128), wxyz."""


def read_dotsplat(data: FileBytes, log: ReadLog, where: str) -> RawSplats:
    """Read .splat: colours and opacity are bytes and activated, there are no higher harmonics.

    Raises
    ------
    CorruptInputError : the size is no multiple of 32 bytes. EmptyWorldError : no records.
    """
    left = len(data) % RECORD
    if left:
        raise CorruptInputError(f"is cut off: records of 32 bytes leave {plural(left, 'byte')} over", where=where,
                                todo="Download or export it again")
    check_count(len(data) // RECORD, where)
    log.details["format_version"] = ".splat"
    from spatialbench.scene.splats import _kernels as kernels

    records, codes = np.frombuffer(data, "<f4").reshape(-1, 8), np.frombuffer(data, np.uint8).reshape(-1, RECORD)
    step = np.arange(256, dtype=np.float64)
    shade, share = dc_of_color(step / 255).astype(np.float32), (step / 255).astype(np.float32)
    turn = ((step - 128) / 128).astype(np.float32)
    n = len(codes)
    means, scales = np.empty((n, 3), np.float32), np.empty((n, 3), np.float32)
    quaternions, opacities = np.empty((n, 4), np.float32), np.empty(n, np.float32)
    sh = np.empty((n, 1, 3), np.float32)

    in_blocks(n, lambda part: kernels.dotsplat(records, codes, shade, share, turn, part.start, part.stop, means, scales,
                                               quaternions, opacities, sh))
    return RawSplats(means, scales, quaternions, opacities, sh, finite_sh=True)
