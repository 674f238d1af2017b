"""HappyWorld-Bench, spatial track: 39 metrics of one world, of an edit and of an expansion."""

from spatialbench.tracks.spatial import learned, observations, simulators, weight_free  # noqa: F401

__all__: list[str] = []
