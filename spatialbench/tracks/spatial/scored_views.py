"""What learned scorers look at: each frame is drawn once and seen once by each of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import InputError, MissingInputError
from spatialbench.observe import Observations, observation
from spatialbench.scorers.judge import read_picture
from spatialbench.tracks.spatial.cameras import origin_ring, ring_at
from spatialbench.tracks.spatial.observations import LocationPlan
from spatialbench.tracks.spatial.reads import COLLISION, IMAGES
from spatialbench.tracks.spatial.scored import case_of, directed, rated, the_scorer
from spatialbench.types import Camera, to_uint8

__all__ = ["PlaceRewards", "drawn"]

_RENDERER = ("spatial.renderer",)


@dataclass(frozen=True, eq=False)
class PlaceRewards:
    """Rewards around the origin and the accepted locations.

    Attributes
    ----------
    origin : [V] of the ring views there.
    locations : [K,V], by slot in ascending order.
    slots : the slot of each location.
    """

    origin: NDArray[np.float64]
    locations: NDArray[np.float64]
    slots: tuple[int, ...]


def drawn(obs: Observations, cameras: list[Camera]) -> list[NDArray[np.uint8]]:
    """[H,W,3] uint8 of each camera, drawn in colour, with progress."""
    out: list[NDArray[np.uint8]] = []
    for frames in obs.get("spatial.renderer").stream(cameras, want=("rgb",)):
        assert frames.rgb is not None
        out += [to_uint8(rgb) for rgb in frames.rgb]
        obs.progress(len(out), len(cameras))
    return out


@observation("spatial.origin_frames", label="drawing the origin panorama for scorers", reads=IMAGES, needs=_RENDERER)
def _origin_frames(obs: Observations) -> list[NDArray[np.uint8]]:
    return drawn(obs, origin_ring(obs.protocol))


@observation("spatial.origin_faces", label="drawing the six origin probes", reads=IMAGES, needs=_RENDERER)
def _origin_faces(obs: Observations) -> list[NDArray[np.uint8]]:
    from spatialbench.renderers.trajectories import cube_faces

    return drawn(obs, cube_faces((0.0, 0.0, 0.0), obs.protocol.views.probe_size))


@observation("spatial.clip_vectors", label="embedding the origin panorama", reads=(*IMAGES, "scorers"),
             needs=("spatial.origin_frames",))
def _clip_vectors(obs: Observations) -> NDArray[np.float32]:
    scorer = the_scorer(obs, "clip_l14")
    return directed(obs, "clip_l14", scorer.embed_images(obs.get("spatial.origin_frames")))


@observation("spatial.input_image", label="reading the input image")
def _input_image(obs: Observations) -> NDArray[np.uint8]:
    path: Any = obs.context.media.get("image")
    if not isinstance(path, Path):
        raise MissingInputError("the case names an input image, and its place is not known", where="image",
                                todo="Give the case as a file")
    try:
        return read_picture(path, 1 << 16).pixels
    except InputError as error:  # the reason is part of results, which must not depend on where the case lies
        raise type(error)(error.what.replace(str(path), path.name), where=f"input image {path.name}",
                          todo=error.todo) from None


@observation("spatial.place_rewards", label="rating the views around each location",
             reads=(*IMAGES, *COLLISION, "usability", "sampler", "scorers"),
             needs=(*_RENDERER, "spatial.locations"))
def _place_rewards(obs: Observations) -> PlaceRewards:
    plan: LocationPlan = obs.get("spatial.locations")
    taken = sorted((t for t in plan.tried if t.slot is not None), key=lambda t: t.slot or 0)
    places = [(0.0, 0.0, 0.0), *(t.position for t in taken)]
    case = case_of(obs)
    text = (case.text if case else None) or ""
    rows = []
    for place in places:
        cameras = ring_at(obs.protocol, place, obs.protocol.sampler.ring_views)
        rows.append(rated(obs, "hpsv3", [to_uint8(f) for f in _colours(obs, cameras)], text))
        obs.progress(len(rows), len(places))
    rewards = np.stack(rows)
    return PlaceRewards(rewards[0], rewards[1:], tuple(t.slot for t in taken if t.slot is not None))


def _colours(obs: Observations, cameras: list[Camera]) -> NDArray[np.float32]:
    frames = obs.get("spatial.renderer").render(cameras, want=("rgb",))
    assert frames.rgb is not None
    return frames.rgb


