"""The members of a zip archive (3MF, USDZ), read with bounds; nothing is ever unpacked to disk."""

from __future__ import annotations

import io
import posixpath
import zipfile
import zlib

from spatialbench.errors import CorruptInputError, MissingInputError

__all__ = ["MAX_EXPANSION", "MAX_MEMBER", "MAX_MEMBERS", "Archive"]

MAX_MEMBER = 1 << 30
"""Bytes that one member may have once unpacked."""
MAX_EXPANSION = 400
"""Largest ratio of unpacked to packed bytes of one member beyond the first MiB; deflate can reach 1,032."""
MAX_MEMBERS = 100_000
_TODO = "Download or export it again"


class Archive:
    """Reads members by name.

    Raises
    ------
    CorruptInputError : not a zip archive, too many members, a member whose name leaves the archive.
    """

    def __init__(self, data: bytes, where: str) -> None:
        self._where = where
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
            self._infos = self._zip.infolist()
        except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError, EOFError) as e:
            raise CorruptInputError(f"is a zip archive that cannot be opened ({_short(e)})", where=where,
                                    todo=_TODO) from None
        if len(self._infos) > MAX_MEMBERS:
            raise CorruptInputError(f"is an archive of {len(self._infos):,} files, more than {MAX_MEMBERS:,}",
                                    where=where, todo=_TODO)
        self.names = [i.filename for i in self._infos if not i.filename.endswith("/")]
        """In the order of the archive."""
        for name in self.names:
            self.clean(name)
        self._by_lower = {i.filename.lower(): i for i in reversed(self._infos)}

    def clean(self, reference: str, base: str = "", by: str = "") -> str:
        """A reference as a clean name within the archive; ``base`` is the folder that it is relative to, and a
        leading slash means the archive's root.

        Raises
        ------
        CorruptInputError : it leaves the archive.
        """
        path = reference.replace("\\", "/")
        name = posixpath.normpath(path.lstrip("/") if path.startswith("/") else posixpath.join(base, path))
        if not path.strip("/") or "\0" in path or ":" in path or name == ".." or name.startswith("../"):
            shown = reference if len(reference) <= 80 else reference[:77] + "..."
            raise CorruptInputError(f"refers to {shown!r}, which is outside the archive",
                                    where=f"{self._where}, {by}" if by else self._where, todo=_TODO)
        return name

    def has(self, name: str) -> bool:
        """Whether there is such a member; letter case does not count."""
        return name.lower() in self._by_lower

    def read(self, name: str, limit: int = MAX_MEMBER, by: str = "") -> bytes:
        """The bytes of a member.

        Raises
        ------
        MissingInputError : no such member.
        CorruptInputError : it cannot be unpacked, or to more than the bounds, however large it says it is.
        """
        where = f"{self._where}, {by}" if by else self._where
        info = self._by_lower.get(name.lower())
        if info is None:
            raise MissingInputError(f"the file '{name[:80]}' is not in the archive", where=where, todo=_TODO)
        limit = min(limit, (1 << 20) + MAX_EXPANSION * info.compress_size)
        try:
            with self._zip.open(info) as f:
                data = f.read(limit + 1)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError, NotImplementedError) as e:
            raise CorruptInputError(f"the file '{name[:80]}' in the archive cannot be read ({_short(e)})",
                                    where=where, todo=_TODO) from None
        if len(data) > limit:
            raise CorruptInputError(f"the file '{name[:80]}' unpacks to more than {limit:,} bytes "
                                    f"({info.compress_size:,} packed)", where=where, todo=_TODO)
        return data


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__
