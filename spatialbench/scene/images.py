"""Decoding textures with bounds on size and memory.

What is broken, missing or too large is a warning, as the material is drawn without it; a sound texture of a kind that
this version cannot decode is an error, as the world is whole and would be drawn wrong.
"""

from __future__ import annotations

import hashlib
import io
import warnings
import weakref

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import CorruptInputError, UnsupportedFormatError
from spatialbench.scene import ktx2
from spatialbench.scene.log import ReadLog

__all__ = ["MAX_TEXTURE_PIXELS", "MAX_TEXTURE_TOTAL", "TextureStore", "UndecodedTextureError", "encoded_image"]

MAX_TEXTURE_PIXELS = 8192 * 8192
"""Larger images are not decoded: a few kilobytes can announce billions of pixels."""
MAX_TEXTURE_TOTAL = 2 << 30
"""Bytes of decoded textures of one world."""
_DDS = b"DDS "
_TODO = "Export it with PNG, JPEG or WebP textures"
_PORTABLE = (b"\x89PNG", b"\xff\xd8\xff")
_ENCODED: dict[int, tuple[weakref.ref[NDArray[np.uint8]], bytes]] = {}
_STRIP = 1 << 19
"""Bytes of a picture that are converted at a time."""
_SIXTEEN_BIT = ("I;16", "I;16L", "I;16B", "I;16N", "I")


def encoded_image(pixels: NDArray[np.uint8]) -> bytes | None:
    """The PNG or JPEG that the pixels were decoded from, as it was in the world's files; None for all others."""
    found = _ENCODED.get(id(pixels))
    return found[1] if found is not None and found[0]() is pixels else None


def _remember(pixels: NDArray[np.uint8], data: bytes) -> None:
    key = id(pixels)
    if data.startswith(_PORTABLE):
        _ENCODED[key] = (weakref.ref(pixels, lambda _: _ENCODED.pop(key, None)), data)


class UndecodedTextureError(UnsupportedFormatError):
    """A texture of a kind that is not decoded; leaves the import as its base class, with the world's path."""


class TextureStore:
    """Decoded textures of one world; equal bytes share one array."""

    def __init__(self, log: ReadLog) -> None:
        self._log = log
        self._seen: dict[str, NDArray[np.uint8] | None] = {}
        self._bytes = 0

    def decode(self, data: bytes, name: str) -> NDArray[np.uint8] | None:
        """Pixels [H,W,4] uint8, top row first, sRGB with linear alpha; None with a warning when impossible.

        Raises
        ------
        UndecodedTextureError : a kind that is not decoded.
        """
        key = hashlib.sha256(data).hexdigest()
        if key not in self._seen:
            self._seen[key] = self._decode(data, name)
            self._log.n_textures += self._seen[key] is not None
        return self._seen[key]

    def _decode(self, data: bytes, name: str) -> NDArray[np.uint8] | None:
        if data.startswith(_DDS):
            raise UndecodedTextureError(f"the texture '{name}' is of the kind DDS, which is not decoded", where=name,
                                        todo=_TODO)
        pixels = self._ktx2(data, name) if data.startswith(ktx2.MAGIC) else self._picture(data, name)
        if pixels is not None:
            self._bytes += pixels.nbytes
            pixels.setflags(write=False)
            _remember(pixels, data)
        return pixels

    def _ktx2(self, data: bytes, name: str) -> NDArray[np.uint8] | None:
        """Level 0 of a KTX2 file."""
        try:
            too_large = self._too_large(*ktx2.image_size(data, name))
            if too_large:
                return self._skip(name, too_large)
            image = ktx2.decode_ktx2(data, name)
        except UnsupportedFormatError as e:
            raise UndecodedTextureError(f"the texture '{name}' {e.what}, which is not decoded", where=name,
                                        todo=_TODO) from None
        except CorruptInputError as e:
            return self._skip(name, f"cannot be decoded: {e.what}")
        for note in image.notes:
            self._log.warn(f"texture '{name}': {note}")
        return image.pixels

    def _picture(self, data: bytes, name: str) -> NDArray[np.uint8] | None:
        """What Pillow reads."""
        from PIL import Image

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                warnings.simplefilter("error", Image.DecompressionBombWarning)
                with Image.open(io.BytesIO(data)) as image:
                    too_large = self._too_large(*image.size)
                    return self._skip(name, too_large) if too_large else _rgba(image)
        except (Image.DecompressionBombError, Image.DecompressionBombWarning):
            return self._skip(name, f"has more than {MAX_TEXTURE_PIXELS:,} pixels")
        except Exception as e:  # an image decoder may raise anything on bad bytes
            return self._skip(name, f"cannot be decoded ({type(e).__name__})")

    def _too_large(self, width: int, height: int) -> str:
        """Why an image of this size may not be decoded; empty if it may."""
        if width * height > MAX_TEXTURE_PIXELS:
            return f"has {width} x {height} pixels, more than {MAX_TEXTURE_PIXELS:,}"
        if self._bytes + 4 * width * height > MAX_TEXTURE_TOTAL:
            return f"would take the textures of this world over {MAX_TEXTURE_TOTAL >> 30} GiB"
        return ""

    def _skip(self, name: str, why: str) -> NDArray[np.uint8] | None:
        self._log.warn(f"texture '{name}' {why}; its material is drawn without it")
        return None


def _rgba(image: object) -> NDArray[np.uint8]:
    """Eight-bit RGBA of a Pillow image; 16-bit greys are scaled, not clipped."""
    mode = image.mode  # type: ignore[attr-defined]
    if mode in _SIXTEEN_BIT:
        grey = np.clip(np.asarray(image, dtype=np.float64) / 257.0 + 0.5, 0, 255).astype(np.uint8)
        return np.dstack([grey, grey, grey, np.full_like(grey, 255)])
    width, height = image.size  # type: ignore[attr-defined]
    image.load()  # type: ignore[attr-defined]
    out = np.empty((height, width, 4), np.uint8)
    opaque = mode == "RGB" and "transparency" not in image.info  # type: ignore[attr-defined]
    rows = max(1, _STRIP // (4 * max(width, 1)))
    for top in range(0, height, rows):  # a whole picture would be copied three times on its way
        strip = image.crop((0, top, width, min(top + rows, height)))  # type: ignore[attr-defined]
        pixels = strip.tobytes("raw", "RGBX") if opaque else strip.convert("RGBA").tobytes()
        out[top:top + rows] = np.frombuffer(pixels, np.uint8).reshape(-1, width, 4)
        if opaque:
            out[top:top + rows, :, 3] = 255
    return out
