"""SOG, versions 1 and 2: splats in the pixels of lossless pictures, described by meta.json."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import CorruptInputError, UnsupportedFormatError
from spatialbench.scene.blocks import in_blocks
from spatialbench.scene.folder import WorldFolder
from spatialbench.scene.log import ReadLog, plural
from spatialbench.scene.splats.planes import META, SogFiles
from spatialbench.scene.splats.raw import SH_REST, RawSplats, check_count, sigmoid, smallest_three

__all__ = ["PALETTE_WIDTH", "read_sog"]

PALETTE_WIDTH = 64
"""Sets of harmonics in one row of the palette's picture."""
_TODO = "Download or export it again"


def read_sog(data: bytes, folder: WorldFolder, log: ReadLog, where: str) -> RawSplats:
    """Read a bundled .sog or a meta.json beside its pictures.

    Positions have 16 bits over a range of sign(x) ln(1 + abs(x)). Version 2 stores scales (logarithms) and colours
    as indices into code books and opacity as a byte; version 1 stores both linearly between bounds, opacity as a
    logit. Higher harmonics are a palette and a label for every splat.

    Raises
    ------
    UnsupportedFormatError : version 3 or later. EmptyWorldError : no splats. MissingInputError : a picture.
    CorruptInputError : meta.json or a picture that cannot be followed; each is named.
    """
    files = SogFiles(data, folder, where)
    return _Sog(files, _parse(files.meta(), where), log, f"{where}, {META}").read()


def _parse(data: bytes, where: str) -> dict[str, Any]:
    try:
        meta = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as e:
        raise CorruptInputError(f"its {META} is not valid JSON ({str(e)[:100]})", where=where, todo=_TODO) from None
    if not isinstance(meta, dict):
        raise CorruptInputError(f"its {META} holds no JSON object", where=where, todo=_TODO)
    return meta


class _Sog:
    def __init__(self, files: SogFiles, meta: dict[str, Any], log: ReadLog, where: str) -> None:
        self._files, self._meta, self._log, self._where = files, meta, log, where
        version = meta.get("version", 1)
        if not isinstance(version, int) or isinstance(version, bool):
            raise self._bad(f"its version is {str(version)[:20]!r}, which is no number")
        if version not in (1, 2):
            raise UnsupportedFormatError(f"is SOG version {version}, of which this version reads 1 and 2",
                                         where=where, todo="Export it as SOG version 2, .ply or .spz")
        self._version = version
        log.details["format_version"] = f"SOG {version}"
        asset = meta.get("asset")
        if isinstance(asset, dict) and isinstance(asset.get("generator"), str):
            log.details["generator"] = asset["generator"][:100]
        log.details["antialiased"] = meta.get("antialias") is True

    def read(self) -> RawSplats:
        n = self._count()
        low, high = self._plane("means", n, 0), self._plane("means", n, 1)
        rotation, scale, color = self._plane("quats", n), self._plane("scales", n), self._plane("sh0", n)
        ends = [self._ends("means", 3)]
        if self._version == 1:
            ends += [self._ends("scales", 3), self._ends("sh0", 4)]
            books = []
        else:
            books = [self._book("scales"), self._book("sh0")]
        sets, label = self._harmonics(n) if self._meta.get("shN") is not None else (None, None)
        means, scales = np.empty((n, 3)), np.empty((n, 3), np.float32)
        quaternions, opacities = np.empty((n, 4), np.float32), np.empty(n, np.float32)
        sh = np.empty((n, 1 if sets is None else 1 + sets.shape[1], 3), np.float32)

        def block(part: slice) -> None:
            mapped = _between(ends[0], (low[part, :3] | (high[part, :3].astype(np.uint16) << 8)) / 65535)
            means[part] = np.sign(mapped) * np.expm1(np.abs(mapped))
            _rotations(rotation[part], quaternions[part])
            if self._version == 1:
                scales[part] = np.exp(_between(ends[1], scale[part, :3] / 255))
                shades = _between(ends[2], color[part] / 255)
                sh[part, 0], opacities[part] = shades[:, :3], sigmoid(shades[:, 3])
            else:
                scales[part] = np.exp(books[0][scale[part, :3]])
                sh[part, 0], opacities[part] = books[1][color[part, :3]], color[part, 3] / 255
            if sets is not None and label is not None:
                sh[part, 1:] = sets[label[part]]

        in_blocks(n, block)
        return RawSplats(means, scales, quaternions, opacities, sh, logit=self._version == 1,
                         antialiased=bool(self._log.details["antialiased"]))

    def _bad(self, what: str) -> CorruptInputError:
        return CorruptInputError(what, where=self._where, todo=_TODO)

    def _count(self) -> int:
        name = "count" if self._version == 2 else "means.shape"
        value = self._meta.get("count")
        if self._version == 1:
            shape = self._part("means").get("shape")
            value = shape[0] if isinstance(shape, list) and shape else None
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self._bad(f"its '{name}' is {str(value)[:20]}, not a number of splats")
        check_count(value, self._where)
        return value

    def _part(self, name: str) -> dict[str, Any]:
        part = self._meta.get(name)
        if not isinstance(part, dict):
            raise self._bad(f"it has no '{name}'")
        return part

    def _file(self, name: str, index: int) -> object:
        files = self._part(name).get("files")
        return files[index] if isinstance(files, list) and len(files) > index else None

    def _plane(self, name: str, count: int, index: int = 0) -> NDArray[np.uint8]:
        """The first ``count`` pixels [N,4] of a plane, row by row."""
        return self._files.plane(self._file(name, index), name, count).reshape(-1, 4)[:count]

    def _numbers(self, name: str, key: str, sizes: range) -> NDArray[np.float64]:
        value = self._part(name).get(key)
        values = value if isinstance(value, list) else [value]
        if len(values) not in sizes or not all(_is_number(v) for v in values):
            raise self._bad(f"its '{name}.{key}' is no list of {sizes.start} numbers" if len(sizes) == 1 else
                            f"its '{name}.{key}' is no list of {sizes.start} to {sizes.stop - 1} numbers")
        return np.array(values, dtype=np.float64)

    def _ends(self, name: str, width: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        low, high = (self._numbers(name, k, range(width, width + 1)) for k in ("mins", "maxs"))
        return low, high

    def _book(self, name: str) -> NDArray[np.float64]:
        """256 entries; those beyond a shorter book are NaN, so that splats that use them are dropped and counted."""
        part = self._part(name)
        book = part.get("codebook")
        if isinstance(book, list) and len(book) > 2 and book[0] is None and all(map(_is_number, book[1:])):
            # Some writers lose the first entry; the entries are sorted, so it lies about one step below the next.
            part = {**part, "codebook": [book[1] - (book[-1] - book[1]) / (len(book) - 1), *book[1:]]}
            self._meta = {**self._meta, name: part}
            self._log.warn(f"the first entry of '{name}.codebook' is missing and was extrapolated")
        values = self._numbers(name, "codebook", range(1, 257))
        return np.concatenate([values, np.full(256 - len(values), np.nan)])

    def _harmonics(self, n: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """The palette's sets of harmonics [M+1,K,3], the last of them zeros, and which of them each splat has, [N]."""
        palette = self._files.plane(self._file("shN", 0), "shN", 1)
        labels = self._plane("shN", n, 1)
        height, width = palette.shape[:2]
        bands = {PALETTE_WIDTH * k: d for d, k in SH_REST.items() if k}.get(width)
        stated = self._part("shN").get("bands", bands if self._version == 1 else None)
        if not isinstance(stated, int) or stated not in (1, 2, 3, 4):
            raise self._bad(f"its 'shN.bands' is {str(stated)[:20]}, not 1 to 4")
        if stated != bands:
            raise self._bad(f"its 'shN.bands' is {stated}, which takes a palette {PALETTE_WIDTH * SH_REST[stated]:,} "
                            f"pixels wide, but that has {width:,}")
        k = SH_REST[stated]
        size = min(height * PALETTE_WIDTH, 1 << 16)  # labels have 16 bits
        if self._version == 2:
            stated_size = self._part("shN").get("count", size)
            if not isinstance(stated_size, int) or not 0 < stated_size <= size:
                raise self._bad(f"its 'shN.count' is {str(stated_size)[:20]}, but the palette has {size:,} places")
            size = stated_size
            entries = self._book("shN").astype(np.float32)
        else:
            low, high = (self._numbers("shN", key, range(1, 2))[0] for key in ("mins", "maxs"))
            entries = (low + np.arange(256) / 255 * (high - low)).astype(np.float32)
        label = labels[:, 0].astype(np.int64) | (labels[:, 1].astype(np.int64) << 8)
        beyond = label >= size
        if beyond.any():
            self._log.repair("sh_labels_out_of_range", int(beyond.sum()),
                             f"beyond the palette of {plural(size, 'set')}; read without higher harmonics")
            label[beyond] = size
        sets = np.zeros((size + 1, k, 3), np.float32)
        sets[:size] = entries[palette.reshape(height * PALETTE_WIDTH, k, 4)[:size, :, :3]]
        return sets, label


def _between(ends: tuple[NDArray[np.float64], NDArray[np.float64]], share: NDArray) -> NDArray[np.float64]:
    low, high = ends
    return low + share * (high - low)


def _rotations(pixels: NDArray[np.uint8], into: NDArray[np.float32]) -> None:
    """Fill in wxyz; zeros, which is judged as a rotation of length 0, where no component is marked as left out."""
    tag = pixels[:, 3].astype(np.int64) - 252
    step = (np.arange(256) / 255 - 0.5) * 2**0.5
    smallest_three([np.take(step, pixels[:, k]) for k in range(3)], np.clip(tag, 0, 3), [into[:, k] for k in range(4)])
    into[tag < 0] = 0


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e30
