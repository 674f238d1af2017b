"""The sample room as Gaussian splats, made from nothing: ``python -m spatialbench.assets.sample_room_splats``.

What it is and how close it comes to the mesh is in ``assets/README.md``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from spatialbench.assets.room.atlas import pack, paint
from spatialbench.assets.room.layout import all_patches, lights
from spatialbench.assets.room.splats import room_splats
from spatialbench.assets.sample_room import ATLAS_SIZE
from spatialbench.scene.splats.write_ply import write_splat_ply
from spatialbench.types import GaussianSplats

__all__ = ["build_room_splats", "main", "write_room_splats"]

_COMMENTS = ("sample room, made by spatialbench.assets.sample_room_splats", "The spatialbench authors; Apache-2.0",
             "x right, y down, z forward, metres; origin at the initial camera, 1.6 m above the floor")


def build_room_splats(size: int = ATLAS_SIZE) -> GaussianSplats:
    """The splats in the file's frame: x right, y down, z forward, metres, origin at the initial camera.

    Colours are those of the mesh's atlas before its compression, ``size`` by ``size`` texels. Equal bytes on one
    type of CPU.
    """
    parts = all_patches()
    rectangles = pack(parts, size)
    return room_splats(parts, rectangles, paint(parts, rectangles, lights(), size))


def write_room_splats(splats: GaussianSplats, path: Path) -> None:
    """The room as 3DGS PLY."""
    write_splat_ply(splats, path, _COMMENTS)


def main(argv: list[str] | None = None) -> int:
    """Write the file named on the command line, or ``sample_room_splats.ply`` beside this script."""
    args = sys.argv[1:] if argv is None else argv
    path = Path(args[0]) if args else Path(__file__).with_name("sample_room_splats.ply")
    splats = build_room_splats()
    write_room_splats(splats, path)
    sys.stdout.write(f"{path}: {len(splats)} splats, {path.stat().st_size} bytes\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
