"""The .splat format: records of 32 bytes without a header."""

from __future__ import annotations

import numpy as np

from spatialbench.errors import CorruptInputError
from spatialbench.scene.log import ReadLog, plural
from spatialbench.scene.splats.raw import RawSplats, check_count, dc_of_color

__all__ = ["RECORD", "read_dotsplat"]

RECORD = np.dtype([("position", "<f4", 3), ("scale", "<f4", 3), ("color", "u1", 4), ("rotation", "u1", 4)])
"""Position, linear scale, RGBA, rotation as (q * 128 + 128), wxyz."""


def read_dotsplat(data: bytes, log: ReadLog, where: str) -> RawSplats:
    """Read .splat: colours and opacity are bytes and activated, there are no higher harmonics.

    Raises
    ------
    CorruptInputError : the size is no multiple of 32 bytes. EmptyWorldError : no records.
    """
    left = len(data) % RECORD.itemsize
    if left:
        raise CorruptInputError(f"is cut off: records of 32 bytes leave {plural(left, 'byte')} over", where=where,
                                todo="Download or export it again")
    check_count(len(data) // RECORD.itemsize, where)
    log.details["format_version"] = ".splat"
    rows = np.frombuffer(data, RECORD)
    step = np.arange(256, dtype=np.float64)
    color = dc_of_color(step / 255).astype(np.float32)[rows["color"][:, :3]]
    return RawSplats(means=rows["position"].astype(np.float32), scales=rows["scale"].astype(np.float32),
                     quaternions=((step - 128) / 128).astype(np.float32)[rows["rotation"]],
                     opacities=(step / 255).astype(np.float32)[rows["color"][:, 3]], sh=color[:, None, :].copy())
