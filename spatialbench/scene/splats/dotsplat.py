"""The .splat format: records of 32 bytes without a header."""

from __future__ import annotations

import numpy as np

from spatialbench.errors import CorruptInputError
from spatialbench.scene.blocks import in_blocks
from spatialbench.scene.folder import FileBytes
from spatialbench.scene.log import ReadLog, plural
from spatialbench.scene.splats.raw import RawSplats, check_count, dc_of_color

__all__ = ["RECORD", "read_dotsplat"]

RECORD = np.dtype([("position", "<f4", 3), ("scale", "<f4", 3), ("color", "u1", 4), ("rotation", "u1", 4)])
"""Position, linear scale, RGBA, rotation as (q * 128 + 128), wxyz."""


def read_dotsplat(data: FileBytes, log: ReadLog, where: str) -> RawSplats:
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
    shade, share = dc_of_color(step / 255).astype(np.float32), (step / 255).astype(np.float32)
    turn = ((step - 128) / 128).astype(np.float32)
    n = len(rows)
    means, scales = np.empty((n, 3), np.float32), np.empty((n, 3), np.float32)
    quaternions, opacities = np.empty((n, 4), np.float32), np.empty(n, np.float32)
    sh = np.empty((n, 1, 3), np.float32)

    def block(part: slice) -> None:
        some = rows[part]
        means[part], scales[part] = some["position"], some["scale"]
        quaternions[part], opacities[part] = np.take(turn, some["rotation"]), np.take(share, some["color"][:, 3])
        sh[part, 0] = np.take(shade, some["color"][:, :3])

    in_blocks(n, block)
    return RawSplats(means, scales, quaternions, opacities, sh, finite_sh=True)
