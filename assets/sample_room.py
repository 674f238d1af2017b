"""A furnished, textured room as one binary glTF, made from nothing: ``python -m spatialbench.assets.sample_room``.

What it is, where its flaws are and what they do to the scores is in ``assets/README.md``.
"""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from spatialbench.assets.room.atlas import pack, paint
from spatialbench.assets.room.glb import write_glb
from spatialbench.assets.room.layout import CAMERA, all_patches, lights
from spatialbench.assets.room.light import soup
from spatialbench.assets.room.patches import Patch

__all__ = ["ATLAS_SIZE", "FOV_DEG", "Room", "build_room", "encode_atlas", "main", "to_file_frame", "write_room"]

ATLAS_SIZE = 2048
FOV_DEG = 75.0
_QUALITY = 90
_MAX_BYTES = 1 << 20


@dataclass(frozen=True, eq=False)
class Room:
    """The room in the file's frame: Y up, metres, floor at y = 0, camera looking along -Z.

    Attributes
    ----------
    positions : [V,3] float32.
    faces : [F,3] uint32, counter-clockwise seen from the side that is meant to be seen.
    uv : [V,2] float32, v down; in the atlas.
    atlas : [H,W,3] uint8 sRGB with the light baked in.
    tags : [F] index into ``names``; ``names`` are the objects.
    camera : initial camera; 1.6 m over the floor, level.
    """

    positions: NDArray[np.float32]
    faces: NDArray[np.uint32]
    uv: NDArray[np.float32]
    atlas: NDArray[np.uint8]
    tags: NDArray[np.int32]
    names: tuple[str, ...]
    camera: tuple[float, float, float]


def to_file_frame(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Z-up room coordinates [...,3] (``room.layout``) to the file's: (x, z, -y)."""
    return np.stack([points[..., 0], points[..., 2], -points[..., 1]], axis=-1) + 0.0


def build_room(size: int = ATLAS_SIZE, baked: bool = True) -> Room:
    """Make the room with an atlas of ``size`` by ``size`` texels.

    Light is baked with the engine's ray caster, which takes most of the time; ``baked=False`` leaves the bare
    materials. Equal bytes on one type of CPU.
    """
    parts = all_patches()
    rectangles = pack(parts, size)
    s = soup(parts)
    uv = [_uv(p, r, size) for p, r in zip(parts, rectangles, strict=True)]
    names = tuple(dict.fromkeys(p.tag for p in parts))
    tag_of_cell = np.concatenate([np.full(p.cells[0] * p.cells[1], names.index(p.tag)) for p in parts])
    used, faces = np.unique(s.faces, return_inverse=True)
    return Room(to_file_frame(s.vertices)[used].astype(np.float32), faces.reshape(-1, 3).astype(np.uint32),
                np.concatenate(uv)[used].astype(np.float32),
                paint(parts, rectangles, lights() if baked else None, size),
                tag_of_cell[s.cell].astype(np.int32), names,
                tuple(to_file_frame(np.array(CAMERA)).tolist()))


def _uv(p: Patch, rectangle: tuple[int, int, int, int], size: int) -> NDArray[np.float64]:
    """[points,2] place in the atlas of each of the patch's points."""
    x, y, w, h = rectangle
    u, v = np.meshgrid(p.u, p.v, indexing="ij")
    return np.stack([(x + u.ravel() * w) / size, (y + (1 - v.ravel()) * h) / size], axis=1)


def encode_atlas(atlas: NDArray[np.uint8]) -> bytes:
    """JPEG of at most 1 MiB."""
    for quality in range(_QUALITY, 40, -2):
        out = io.BytesIO()
        Image.fromarray(atlas).save(out, "JPEG", quality=quality, subsampling="4:2:0", optimize=True)
        if out.tell() <= _MAX_BYTES:
            break
    return out.getvalue()


def write_room(room: Room, path: Path) -> None:
    """The room as binary glTF."""
    write_glb(path, room.positions, room.faces, room.uv, encode_atlas(room.atlas), "image/jpeg", room.camera,
              FOV_DEG, "sample room", "The spatialbench authors; Apache-2.0")


def main(argv: list[str] | None = None) -> int:
    """Write the file named on the command line, or ``sample_room.glb`` beside this script."""
    args = sys.argv[1:] if argv is None else argv
    path = Path(args[0]) if args else Path(__file__).with_name("sample_room.glb")
    room = build_room()
    write_room(room, path)
    sys.stdout.write(f"{path}: {len(room.faces)} faces, {path.stat().st_size} bytes\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
