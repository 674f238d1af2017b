"""Files of evidence, which come from strangers: masks, arrays and answers, checked before memory is taken."""

from __future__ import annotations

import json
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import CorruptInputError, MissingInputError, UnsupportedFormatError
from spatialbench.types.evidence import VIEW

__all__ = ["Mask", "Masks", "check_present", "npz_members", "open_npz", "read_array", "read_json", "read_mask",
           "read_masks", "view_numbers", "view_paths"]

Mask = NDArray[np.bool_]
Masks = tuple["Mask | None", ...]
_MAX_ARRAY = 1 << 29
_MAX_JSON = 1 << 20
_MAX_VIEWS = 100
_MODES = ("1", "L", "P", "RGB", "RGBA")


def view_paths(key: str, path: str, there: Callable[[str], bool]) -> dict[str, str]:
    """Key -> path: ``key`` itself for one file; ``key.00``, ``key.07``... for a path with ``{view}``, of the views
    whose file is ``there``; of the first one where none is, so that it is missed."""
    if VIEW not in path:
        return {key: path}
    views = [(f"{key}.{k:02d}", path.replace(VIEW, f"{k:02d}")) for k in range(_MAX_VIEWS)]
    return {name: p for name, p in views if there(p)} or dict(views[:1])


def view_numbers(said: Any, path: Path, orbit: int, most: int | None = None) -> tuple[int, ...]:
    """What a file says that it is of: numbers of the ``orbit`` views, ascending, at most ``most`` of them.

    Raises
    ------
    CorruptInputError : anything else.
    """
    if (not isinstance(said, list) or any(type(v) is not int or not 0 <= v < orbit for v in said)
            or said != sorted(set(said)) or (most is not None and len(said) > most)):
        words = f"numbers from 0 to {orbit - 1}" if most is None else f"at most {most} of 0 to {orbit - 1}"
        raise CorruptInputError(f"'views' must be {words}, ascending", where=str(path),
                                todo="Give the orbit views that it is of")
    return tuple(said)


def read_masks(files: Mapping[str, Path], key: str, views: int, size: tuple[int, int]) -> Masks | None:
    """One mask a view [H,W]; None for a view without one."""
    if key in files:
        with open_npz(files[key]) as archive:
            stack = read_array(archive, files[key], "masks", (views, *size), "bui")
        return tuple(m != 0 if m.any() else None for m in stack)
    numbers = {int(name.rpartition(".")[2]): path for name, path in files.items() if name.startswith(f"{key}.")}
    if not numbers:
        return None
    last = max(numbers)
    if last >= views:
        raise CorruptInputError(f"is of view {last}, and there are {views} from 00", where=str(numbers[last]),
                                todo="Number them as the frames that --frames writes")
    return tuple(read_mask(numbers[k], size) if k in numbers else None for k in range(views))


def read_mask(path: Path, size: tuple[int, int]) -> Mask | None:
    """A PNG as mask: at least half of white is target; transparent pixels are not."""
    from PIL import Image

    check_present(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path, formats=["PNG"]) as image:
                if (image.height, image.width) != size:
                    raise CorruptInputError(f"is {image.width}x{image.height}, and the view {size[1]}x{size[0]}",
                                            where=str(path), todo="Segment the frames that --frames writes")
                if image.mode not in _MODES:
                    raise UnsupportedFormatError(f"is a PNG of the mode '{image.mode}'", where=str(path),
                                                 todo="Write 8-bit gray: 255 on the target, 0 elsewhere")
                clear, level = np.asarray(image.convert("RGBA"))[..., 3] < 128, np.asarray(image.convert("L"))
                mask = (level >= 128) & ~clear
                if level.max() == 1:  # written by who counts to 1: it would pass as an object that nothing shows
                    raise CorruptInputError("is 0 and 1 of 255, all of which is black", where=str(path),
                                            todo="Write 8-bit gray: 255 on the target, 0 elsewhere")
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise CorruptInputError(f"is no PNG that can be read ({error})", where=str(path),
                                todo="Write the mask again") from None
    return mask if mask.any() else None


def check_present(path: Path) -> None:
    """Raises ``MissingInputError`` when there is no such file."""
    if not path.is_file():
        raise MissingInputError("no such file, and the case names it as evidence", where=str(path),
                                todo="Correct the path, which is relative to the case file")


def open_npz(path: Path) -> zipfile.ZipFile:
    """An archive of arrays, of which nothing is read yet.

    Raises
    ------
    MissingInputError, CorruptInputError
    """
    check_present(path)
    try:
        return zipfile.ZipFile(path)
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise CorruptInputError(f"is no npz file ({error})", where=str(path),
                                todo="Write it with numpy.savez_compressed") from None


def npz_members(archive: zipfile.ZipFile) -> list[str]:
    """Names of its arrays, sorted."""
    return sorted(n.removesuffix(".npy") for n in archive.namelist())


def read_array(archive: zipfile.ZipFile, path: Path, name: str, shape: tuple[int | None, ...],
               kinds: str) -> NDArray[Any]:
    """One array; its header is checked before its data are read. ``None`` in ``shape`` stands for any length."""
    where = f"{path}, {name}"
    try:
        with archive.open(f"{name}.npy") as f:
            version = np.lib.format.read_magic(f)
            header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
            have, fortran, dtype = header(f)
            fits = len(have) == len(shape) and all(
                a >= 0 and (b is None or a == b) for a, b in zip(have, shape, strict=True))
            if not fits or dtype.kind not in kinds:
                words = "x".join("any" if n is None else str(n) for n in shape)
                raise CorruptInputError(f"is {dtype} {'x'.join(map(str, have))}, and must be {words} of kind "
                                        f"{' or '.join(kinds)}", where=where, todo="Correct it")
            count = int(np.prod(have, dtype=object))
            if count * dtype.itemsize > _MAX_ARRAY:
                raise CorruptInputError(f"holds {count:,} values, more than {_MAX_ARRAY >> 20} MiB", where=where,
                                        todo="Give fewer or smaller ones")
            data = f.read(count * dtype.itemsize)
    except KeyError:
        raise CorruptInputError(f"holds no array '{name}'", where=str(path),
                                todo=f"It has: {', '.join(npz_members(archive))[:200]}") from None
    except (OSError, EOFError, ValueError, RuntimeError, NotImplementedError, zipfile.BadZipFile,
            zlib.error) as error:
        raise CorruptInputError(f"cannot be read ({error})", where=where, todo="Write it again") from None
    if len(data) != count * dtype.itemsize:
        raise CorruptInputError("is cut off", where=where, todo="Write it again")
    return np.frombuffer(data, dtype).reshape(have, order="F" if fortran else "C")


def read_json(path: Path) -> Any:
    """What a small JSON file holds.

    Raises
    ------
    MissingInputError, CorruptInputError
    """
    check_present(path)
    try:
        if path.stat().st_size > _MAX_JSON:
            raise CorruptInputError("is larger than 1 MiB", where=str(path), todo="Give answers only")
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CorruptInputError(f"is no JSON ({error})", where=str(path), todo="Write it again") from None
