"""Readers: from the bytes of a world file to a :class:`~spatialbench.types.Scene` in its source frame."""

from spatialbench.scene.load import load_scene
from spatialbench.scene.sniff import Sniffed, sniff

__all__ = ["Sniffed", "load_scene", "sniff"]
