"""The benchmark tracks: what each observes, and its metrics."""

from __future__ import annotations

__all__ = ["load_tracks"]


def load_tracks() -> None:
    """Fill the registry with every built-in track (importing them registers; repeating is harmless)."""
    import spatialbench.tracks.spatial  # noqa: F401
