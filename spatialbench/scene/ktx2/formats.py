"""Formats by their numbers: which hold plain bytes, and the names of those that are not decoded.

Numbers are those of ``VkFormat`` (Vulkan 1.3) and of the Khronos data format's colour models.
"""

from __future__ import annotations

from spatialbench.scene.ktx2.container import Container

__all__ = ["ETC1S", "LINEAR", "PLAIN", "SRGB", "UASTC", "format_name"]

ETC1S, UASTC = 163, 166
"""Colour models of the two Basis Universal formats."""
LINEAR, SRGB = 1, 2
"""Transfer functions."""

PLAIN: dict[int, tuple[tuple[int, ...], int]] = {
    9: ((0,), LINEAR), 15: ((0,), SRGB), 16: ((0, 1), LINEAR), 22: ((0, 1), SRGB),
    23: ((0, 1, 2), LINEAR), 29: ((0, 1, 2), SRGB), 30: ((2, 1, 0), LINEAR), 36: ((2, 1, 0), SRGB),
    37: ((0, 1, 2, 3), LINEAR), 43: ((0, 1, 2, 3), SRGB), 44: ((2, 1, 0, 3), LINEAR), 50: ((2, 1, 0, 3), SRGB)}
"""Formats of a byte for each channel: the channel (0 red to 3 alpha) of each byte, and the transfer function."""

_RANGES = ((131, 134, "BC1"), (135, 136, "BC2"), (137, 138, "BC3"), (139, 140, "BC4"), (141, 142, "BC5"),
           (143, 144, "BC6H"), (145, 146, "BC7"), (147, 152, "ETC2"), (153, 156, "EAC"), (157, 184, "ASTC"),
           (1000054000, 1000054007, "PVRTC"), (1000066000, 1000066013, "ASTC HDR"))
_MODELS = {128: "BC1", 129: "BC2", 130: "BC3", 131: "BC4", 132: "BC5", 133: "BC6H", 134: "BC7", 160: "ETC1",
           161: "ETC2", 162: "ASTC", 164: "PVRTC", 165: "PVRTC2", 167: "UASTC HDR", 168: "UASTC HDR 6x6"}
_SCHEMES = {1: "BasisLZ", 2: "Zstandard", 3: "ZLIB", 4: "UASTC HDR 6x6"}


def format_name(c: Container) -> str:
    """What the format of a file is called."""
    if c.vk_format == 0:
        known = {ETC1S: "ETC1S", UASTC: "UASTC", **_MODELS}
        name = known.get(c.model, f"colour model {c.model}")
    else:
        name = next((n for low, high, n in _RANGES if low <= c.vk_format <= high), f"VkFormat {c.vk_format}")
        if c.vk_format in PLAIN:
            name = "plain bytes"
    return name if c.scheme == 0 else f"{name} and {_SCHEMES.get(c.scheme, f'supercompression {c.scheme}')}"
