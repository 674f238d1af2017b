"""The files of a SOG world, beside its meta.json or in one archive, read with bounds."""

from __future__ import annotations

import io
import warnings
import zipfile
import zlib

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import CorruptInputError, InputError, MissingInputError
from spatialbench.scene.folder import WorldFolder
from spatialbench.scene.images import MAX_TEXTURE_PIXELS

__all__ = ["MAX_META", "MAX_PLANE", "META", "SogFiles"]

META = "meta.json"
MAX_META = 8 << 20
MAX_PLANE = 512 << 20
"""Bytes that one file may have; the archive's own statement of them is not trusted."""
_TODO = "Download or export it again"


class SogFiles:
    """Reads meta.json and the pictures that it names: out of the archive and nothing else, or out of the folder."""

    def __init__(self, data: bytes, folder: WorldFolder, where: str) -> None:
        self._folder, self._where = folder, where
        self._meta = data
        self._zip: zipfile.ZipFile | None = None
        if data.startswith(b"PK"):
            try:
                self._zip = zipfile.ZipFile(io.BytesIO(data))
            except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as e:
                raise CorruptInputError(f"is a zip archive that cannot be opened ({e})", where=where,
                                        todo=_TODO) from None

    def meta(self) -> bytes:
        """The bytes of meta.json."""
        return self._meta if self._zip is None else self._member(META, MAX_META, "")

    def plane(self, name: object, field: str, count: int) -> NDArray[np.uint8]:
        """Pixels [H,W,4] of a lossless picture with at least ``count`` of them; ``field`` is where it is named.

        Raises
        ------
        MissingInputError : not there. CorruptInputError : a name that leaves the world, a picture that cannot be
            decoded, is too large or too small.
        """
        if not isinstance(name, str) or not 0 < len(name) <= 200:
            raise CorruptInputError(f"its '{field}.files' does not name a file", where=f"{self._where}, {META}",
                                    todo=_TODO)
        if self._zip is None:
            data = self._folder.read(name, needed_by=f"{META}, {field}")
        else:
            if name.startswith("/") or "\\" in name or ":" in name or ".." in name.split("/"):
                raise CorruptInputError(f"refers to {name!r}, which is outside the archive",
                                        where=f"{self._where}, {META}, {field}", todo=_TODO)
            data = self._member(name, MAX_PLANE, field)
        return self._decode(data, name, field, count)

    def _member(self, name: str, limit: int, field: str) -> bytes:
        assert self._zip is not None
        by = f", {META}, {field}" if field else ""
        try:
            info = self._zip.getinfo(name)
        except KeyError:
            raise MissingInputError(f"the file '{name}' is not in the archive", where=self._where + by,
                                    todo=_TODO) from None
        try:
            with self._zip.open(info) as f:
                data = f.read(limit + 1)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError, NotImplementedError) as e:
            raise CorruptInputError(f"the file '{name}' in the archive cannot be read ({_short(e)})",
                                    where=self._where + by, todo=_TODO) from None
        if len(data) > limit:
            raise CorruptInputError(f"the file '{name}' in the archive has more than {limit >> 20} MiB",
                                    where=self._where + by, todo=_TODO)
        return data

    def _decode(self, data: bytes, name: str, field: str, count: int) -> NDArray[np.uint8]:
        from PIL import Image

        where = f"{self._where}, {name}"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with Image.open(io.BytesIO(data), formats=("WEBP", "PNG")) as image:
                    width, height = image.size
                    self._check_size(width, height, name, field, count)
                    pixels = np.array(image if image.mode == "RGBA" else image.convert("RGBA"), dtype=np.uint8)
        except InputError:
            raise
        except Image.DecompressionBombError:
            raise CorruptInputError(f"the plane '{name}' has more than {MAX_TEXTURE_PIXELS:,} pixels", where=where,
                                    todo=_TODO) from None
        except Exception as e:  # an image decoder may raise anything on bad bytes
            raise CorruptInputError(f"the plane '{name}' of '{field}' cannot be decoded ({type(e).__name__})",
                                    where=where, todo=_TODO) from None
        return pixels

    def _check_size(self, width: int, height: int, name: str, field: str, count: int) -> None:
        where = f"{self._where}, {name}"
        if width * height > MAX_TEXTURE_PIXELS:
            raise CorruptInputError(f"the plane '{name}' has {width:,} x {height:,} pixels, more than "
                                    f"{MAX_TEXTURE_PIXELS:,}", where=where, todo=_TODO)
        if width * height < count:
            raise CorruptInputError(f"the plane '{name}' of '{field}' has {width:,} x {height:,} pixels, too few for "
                                    f"the count {count:,}", where=where, todo=_TODO)


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__
