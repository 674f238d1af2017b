"""HappyWorld-Bench, spatial track: 39 metrics of one world, of an edit and of an expansion, and ours beside them."""

from spatialbench.tracks.spatial import (  # noqa: F401
    editing,
    expansion,
    learned,
    navigation,
    observations,
    simulators,
    weight_free,
)

__all__: list[str] = []
