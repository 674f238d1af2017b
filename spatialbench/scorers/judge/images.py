"""The frozen rule by which pictures reach a judge: 8-bit RGB, longest side bounded, PNG.

A picture is known by its pixels. PNG keeps them exactly, so equal identities are equal pictures whatever compressed
them, and a picture that a cache knows is never compressed at all.
"""

from __future__ import annotations

import hashlib
import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import CorruptInputError, MissingInputError, UnsupportedFormatError

__all__ = ["MAX_PIXELS", "JudgeImage", "Picture", "clip_pictures", "judge_image", "read_picture"]

MAX_PIXELS = 1 << 26
"""A larger file is refused by its header: a few kilobytes can announce billions of pixels."""
_KINDS = ("PNG", "JPEG", "WEBP", "BMP", "TIFF")


@dataclass(frozen=True, eq=False)
class JudgeImage:
    """A picture as it is sent.

    Attributes
    ----------
    pixels : [H,W,3] uint8 sRGB, top row first, read-only.
    """

    pixels: NDArray[np.uint8]

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        return int(self.pixels.shape[1]), int(self.pixels.shape[0])

    @cached_property
    def sha256(self) -> str:
        """Of the text ``rgb8 WIDTHxHEIGHT``, a line feed, and the pixels row by row."""
        w, h = self.size
        digest = hashlib.sha256(f"rgb8 {w}x{h}\n".encode())
        digest.update(self.pixels.data)
        return digest.hexdigest()

    def png(self) -> bytes:
        """The file that is sent."""
        from PIL import Image

        out = io.BytesIO()
        Image.fromarray(self.pixels).save(out, "PNG", compress_level=3)
        return out.getvalue()


@dataclass(frozen=True)
class Picture:
    """A picture and what the judge is told it is: ``before``, ``frame 3 of 16, 0.500 s``; or nothing."""

    image: JudgeImage
    label: str = ""


def judge_image(pixels: NDArray[Any], max_side: int = 768) -> JudgeImage:
    """A picture under the frozen rule.

    Parameters
    ----------
    pixels : [H,W,3] sRGB, top row first: uint8, or float in [0,1] (rounded to the nearest of 256 levels).
    max_side : a longer one is reduced to it (Lanczos, aspect kept to the pixel); nothing is ever enlarged.

    Raises
    ------
    ValueError : another shape or type, or values that are not finite.
    """
    if pixels.ndim != 3 or pixels.shape[2] != 3 or 0 in pixels.shape:
        raise ValueError(f"a picture is [H,W,3], not {pixels.shape}")
    if pixels.dtype.kind == "f":
        if not np.isfinite(pixels).all():
            raise ValueError("a picture has values that are not finite")
        pixels = np.rint(np.clip(pixels, 0.0, 1.0) * 255.0).astype(np.uint8)
    elif pixels.dtype != np.uint8:
        raise ValueError(f"a picture is uint8 or float, not {pixels.dtype}")
    h, w = pixels.shape[:2]
    if max(h, w) > max_side:
        from PIL import Image

        scale = max_side / max(h, w)
        small = Image.fromarray(np.ascontiguousarray(pixels)).resize(
            (max(1, round(w * scale)), max(1, round(h * scale))), Image.Resampling.LANCZOS)
        pixels = np.asarray(small)
    out = np.ascontiguousarray(pixels)
    out = out.copy() if out.flags.writeable else out
    out.flags.writeable = False
    return JudgeImage(out)


def read_picture(path: Path, max_side: int = 768) -> JudgeImage:
    """A picture from a PNG, JPEG, WebP, BMP or TIFF file: turned as it says, alpha over black.

    Raises
    ------
    MissingInputError, UnsupportedFormatError, CorruptInputError
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        if path.exists() and not path.is_file():  # a pipe would be waited for
            raise UnsupportedFormatError("is no file", where=str(path), todo="Give a picture")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the bound below is tighter
            opened = Image.open(path, formats=_KINDS)
        with opened as file:
            if file.width * file.height > MAX_PIXELS:
                raise UnsupportedFormatError(f"has {file.width} x {file.height} pixels, at most {MAX_PIXELS:,} "
                                             "are read", where=str(path), todo="Reduce it")
            if file.mode.startswith(("I", "F")):  # Pillow would clip them: nearly all white, or black
                raise UnsupportedFormatError(f"has gray levels of more than 8 bits (Pillow's mode {file.mode})",
                                             where=str(path), todo="Write it with 8 bits a channel")
            turned = ImageOps.exif_transpose(file)
            if turned.has_transparency_data:
                black = Image.new("RGBA", turned.size, (0, 0, 0, 255))
                turned = Image.alpha_composite(black, turned.convert("RGBA"))
            pixels = np.asarray(turned.convert("RGB"))
    except FileNotFoundError:
        raise MissingInputError("no such file", where=str(path), todo="Check the path") from None
    except UnidentifiedImageError:
        raise UnsupportedFormatError("is no picture that is read here", where=str(path),
                                     todo="Give a PNG, JPEG, WebP, BMP or TIFF file") from None
    except (Image.DecompressionBombError, OSError, ValueError, SyntaxError) as error:
        raise CorruptInputError(f"cannot be read as a picture ({error})", where=str(path),
                                todo="Write it again") from None
    return judge_image(pixels, max_side)


def clip_pictures(frames: Sequence[NDArray[Any]], times: Sequence[float], max_side: int = 768) -> tuple[Picture, ...]:
    """Frames of a clip in order, each labelled with its place and time.

    Parameters
    ----------
    frames : [H,W,3] each, as ``judge_image`` takes them.
    times : seconds from the clip's start, ascending, one a frame.

    Raises
    ------
    ValueError : not one time a frame, or times that do not ascend.
    """
    if len(frames) != len(times) or any(b <= a for a, b in pairwise(times)):
        raise ValueError("a clip has one time for each frame, ascending")
    return tuple(Picture(judge_image(f, max_side), f"frame {k} of {len(frames)}, {t:.3f} s")
                 for k, (f, t) in enumerate(zip(frames, times, strict=True), 1))
