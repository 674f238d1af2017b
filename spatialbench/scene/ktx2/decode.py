"""A KTX2 file to pixels: level 0 of a flat image, turned, swizzled and brought to sRGB as the file says."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import CorruptInputError, UnsupportedFormatError
from spatialbench.scene.color import srgb_to_linear
from spatialbench.scene.ktx2.container import BASIS_LZ, NO_SCHEME, TODO, ZLIB, ZSTANDARD, Container, read_container
from spatialbench.scene.ktx2.formats import ETC1S, LINEAR, PLAIN, SRGB, UASTC, format_name
from spatialbench.scene.ktx2.inflate import inflate

__all__ = ["Ktx2Image", "decode_ktx2", "image_size"]

_ORIENTATIONS = ("rd", "ru", "ld", "lu")
_RED = ((ETC1S, (3,)), (UASTC, (4,)))
_RED_AND_GREEN = ((ETC1S, (3, 4)), (UASTC, (5,)))
"""Colour model and channels of Basis images of one channel, which fills all colours, and of two: green is in alpha."""


@dataclass(frozen=True)
class Ktx2Image:
    """Pixels [H,W,4] uint8, top row first, sRGB with straight linear alpha; and what was done to make them so."""

    pixels: NDArray[np.uint8]
    notes: tuple[str, ...] = ()


def image_size(data: bytes, where: str) -> tuple[int, int]:
    """Width and height, before anything is decoded.

    Raises
    ------
    As :func:`read_container`.
    """
    c = read_container(data, where)
    return c.width, c.height


def decode_ktx2(data: bytes, where: str) -> Ktx2Image:
    """Decode the largest image of a file. Its size is bounded by the caller (:func:`image_size`).

    ``KTXswizzle`` is applied. Without one, Basis images of one or two channels stay as the reference transcoder gives
    them (grey, and grey with alpha), and plain ones have 0 for each colour that is missing. Colours that the file
    calls linear are brought to sRGB, premultiplied ones divided by alpha in linear light. ``KTXorientation`` is
    undone, so that the first row is the top one.

    Raises
    ------
    CorruptInputError : a file that breaks off or contradicts itself.
    UnsupportedFormatError : a format that is not decoded, by name.
    """
    c = read_container(data, where)
    if c.orientation not in _ORIENTATIONS:
        raise CorruptInputError(f"its orientation is {ascii(c.orientation)[:20]}", where=where, todo=TODO)
    pixels, notes = _level(c, where), []
    transfer = PLAIN[c.vk_format][1] if c.vk_format else c.transfer
    if c.swizzle != "rgba":
        pixels = _swizzled(pixels, c, where)
        notes.append(f"its channels are taken in the order {c.swizzle}")
    if transfer not in (0, LINEAR, SRGB):
        notes.append(f"its transfer function {transfer} is taken for that of sRGB")
    if c.premultiplied and (pixels[..., 3] != 255).any():
        pixels = _straight(pixels, transfer == LINEAR)
        notes.append("its colours are premultiplied: they were divided by alpha")
    elif transfer == LINEAR:
        pixels = pixels.copy()
        pixels[..., :3] = _encode(np.arange(256) / 255)[pixels[..., :3]]
    if transfer == LINEAR:
        notes.append("its colours are linear: they were brought to sRGB")
    pixels = pixels[::1 if c.orientation[1] == "d" else -1, ::1 if c.orientation[0] == "r" else -1]
    return Ktx2Image(np.ascontiguousarray(pixels), tuple(notes))


def _level(c: Container, where: str) -> NDArray[np.uint8]:
    """Level 0 as it is stored, [H,W,4]."""
    if c.vk_format in PLAIN and c.scheme in (NO_SCHEME, ZSTANDARD, ZLIB):
        return _plain(c, where)
    if c.vk_format == 0 and c.model == ETC1S and c.scheme == BASIS_LZ:
        from spatialbench.scene.ktx2.etc1s import decode_etc1s

        return decode_etc1s(c, where)
    if c.vk_format == 0 and c.model == UASTC and c.scheme in (NO_SCHEME, ZSTANDARD, ZLIB):
        from spatialbench.scene.ktx2.uastc import BLOCK_BYTES, decode_uastc

        size = -(-c.width // 4) * -(-c.height // 4) * BLOCK_BYTES
        return decode_uastc(_bytes(c, size, where), c.width, c.height, where)
    raise UnsupportedFormatError(f"is KTX2 with {format_name(c)}", where=where,
                                 todo="Export it with PNG, JPEG or WebP textures, or with Basis Universal ones")


def _bytes(c: Container, size: int, where: str) -> NDArray[np.uint8]:
    if c.level_size not in (0, size):
        raise CorruptInputError(f"its level 0 holds {c.level_size:,} bytes, its pixels take {size:,}", where=where,
                                todo=TODO)
    return inflate(c.level, c.scheme, size, where)


def _plain(c: Container, where: str) -> NDArray[np.uint8]:
    places = PLAIN[c.vk_format][0]
    raw = _bytes(c, c.width * c.height * len(places), where).reshape(c.height, c.width, len(places))
    pixels = np.zeros((c.height, c.width, 4), np.uint8)
    pixels[..., 3] = 255
    pixels[..., places] = raw
    return pixels


def _swizzled(pixels: NDArray[np.uint8], c: Container, where: str) -> NDArray[np.uint8]:
    """Each output channel from the channel, or the constant, that the metadata names."""
    if len(c.swizzle) != 4 or not set(c.swizzle) <= set("rgba01"):
        raise CorruptInputError(f"its swizzle is {ascii(c.swizzle)[:20]}", where=where, todo=TODO)
    planes = {name: pixels[..., k] for k, name in enumerate("rgba")}
    planes["0"], planes["1"] = np.zeros_like(planes["r"]), np.full_like(planes["r"], 255)
    if c.vk_format == 0 and (c.model, c.channels) in _RED_AND_GREEN:
        planes.update(g=planes["a"], b=planes["0"], a=planes["1"])
    elif c.vk_format == 0 and (c.model, c.channels) in _RED:
        planes.update(g=planes["0"], b=planes["0"])
    return np.stack([planes[name] for name in c.swizzle], axis=-1)


def _straight(pixels: NDArray[np.uint8], linear: bool) -> NDArray[np.uint8]:
    """Divided by alpha, in rows that keep the memory small; black where alpha is 0."""
    out = pixels.copy()
    value = np.arange(256) / 255
    light = value if linear else srgb_to_linear(value).astype(np.float64)
    for row, stored in zip(out, pixels, strict=True):
        alpha = stored[:, 3:].astype(np.float64)
        row[:, :3] = _encode(np.minimum(light[stored[:, :3]] * 255 / np.maximum(alpha, 1), 1) * (alpha > 0))
    return out


def _encode(light: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Bytes in sRGB (IEC 61966-2-1) of linear light in [0,1]."""
    curve = np.where(light <= 0.0031308, 12.92 * light, 1.055 * np.power(light, 1 / 2.4) - 0.055)
    return np.asarray(np.floor(255 * curve + 0.5), dtype=np.uint8)
