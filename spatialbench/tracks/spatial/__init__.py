"""HappyWorld-Bench, spatial track: 39 metrics of one world, of an edit and of an expansion, and ours beside them."""

from spatialbench.tracks.spatial import (  # noqa: F401
    editing,
    expansion,
    navigation,
    object_scores,
    object_views,
    objects,
    observations,
    places,
    quality,
    scored_views,
    simulators,
    weight_free,
)

__all__: list[str] = []
