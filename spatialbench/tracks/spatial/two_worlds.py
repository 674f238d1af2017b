"""What is observed of a world before and one after: renderers, the six origin probes of both, doubts about the pair.

All cameras are in the frame of the world before; both worlds are drawn with the same ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.metrics.editing import depth_agreement
from spatialbench.observe import Observations, Outcome, inapplicable, observation, untested
from spatialbench.tracks.spatial.reads import IMAGES
from spatialbench.types import Camera, EditCase, ExpandCase, Frames, RenderSettings, World, to_uint8
from spatialbench.world.agreement import FrameAgreement, frame_agreement

__all__ = ["PAIR", "PAIR_READS", "OriginPair", "PairView", "drawn_of", "not_of_this_pair", "origin_cameras",
           "pair_case", "pair_flags", "pair_of", "pair_view", "pair_worlds", "picture"]

PAIR = ("spatial.before_renderer", "spatial.after_renderer")
PAIR_READS = (*IMAGES, "editing", "agreement")
_PICTURE = 320


@dataclass(frozen=True, eq=False)
class PairView:
    """One camera's image of both worlds for people: uint8 [h,w,3], and the mean absolute difference of the channels,
    uint8 [h,w]."""

    before: NDArray[np.uint8]
    after: NDArray[np.uint8]
    difference: NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class OriginPair:
    """The six origin probes of both worlds.

    Attributes
    ----------
    agreement : share of the common pixels of each probe whose depths agree; None where too few are common.
    common : number of common pixels of each.
    pictures : of each probe.
    disagree : bool [h,w] of each: common pixels whose depths do not agree.
    identical : not a pixel differs in colour, depth or opacity.
    """

    agreement: tuple[float | None, ...]
    common: tuple[int, ...]
    pictures: tuple[PairView, ...]
    disagree: tuple[NDArray[np.bool_], ...]
    identical: bool


def pair_of(obs: Observations) -> str:
    """``edit`` or ``expand``; empty where one world was given."""
    return str(obs.context.media.get("pair", "")) if "before" in obs.context.worlds else ""


def pair_worlds(obs: Observations) -> tuple[World, World]:
    """Before and after."""
    return obs.context.worlds["before"], obs.context.worlds["after"]


def pair_case(obs: Observations) -> Any:
    """The case of an edit or expansion, or None when none was given."""
    case = obs.context.case
    return case if isinstance(case, EditCase | ExpandCase) else None


def not_of_this_pair(obs: Observations, pair: str, what: str) -> Outcome | None:
    """Why a metric of another kind of pair has no value here; None when it is of this kind."""
    given = pair_of(obs)
    if not given:
        return untested(f"it compares a world before and after {what}; only one world was given")
    return None if given == pair else inapplicable(f"it compares a world before and after {what}")


def pair_flags(obs: Observations) -> tuple[str, ...]:
    """Doubts about the worlds that every measured metric of the pair carries."""
    before, after = pair_worlds(obs)
    flags = list(before.raised())
    branch = {"depth": "scale_fallback", "failed": "no_scale_anchor"}.get(before.scale.branch)
    flags += ["scale_overridden"] if not before.scale.protocol else [branch] if branch else []
    agreement: FrameAgreement = obs.get("spatial.frame_agreement")
    flags += [] if agreement.agree else ["frames_disagree"]
    flags += ["geometry_differs"] if before.seen_geometry != after.seen_geometry else []
    flags += ["identical_worlds"] if obs.context.media.get("same_files") or obs.get("spatial.origin_pair").identical \
        else []
    return tuple(flags)


@observation("spatial.before_renderer", label="preparing the renderer", version=2, reads=IMAGES)
def _before_renderer(obs: Observations) -> Any:
    return _open(obs, "before")


@observation("spatial.after_renderer", label="preparing the renderer", version=2, reads=IMAGES)
def _after_renderer(obs: Observations) -> Any:
    return _open(obs, "after")


def _open(obs: Observations, role: str) -> Any:
    from spatialbench.renderers import open_renderer

    views = obs.protocol.views
    return open_renderer(obs.context.worlds[role].seen, RenderSettings(
        supersample=views.supersample, background=views.background, shading=views.shading))


@observation("spatial.frame_agreement", label="comparing the frames of both worlds", reads=(*IMAGES, "agreement"))
def _frame_agreement(obs: Observations) -> FrameAgreement:
    return frame_agreement(*pair_worlds(obs), obs.protocol.agreement)


@observation("spatial.origin_pair", label="rendering the origin probes of both worlds", reads=PAIR_READS, needs=PAIR)
def _origin_pair(obs: Observations) -> OriginPair:
    from spatialbench.renderers.trajectories import cube_faces

    rule = obs.protocol.editing
    cameras = cube_faces((0.0, 0.0, 0.0), obs.protocol.views.probe_size)
    shares: list[float | None] = []
    common, pictures, disagree = [], [], []
    same = True
    for camera in cameras:
        a, b = (obs.get(name).render([camera]) for name in PAIR)
        share, both, agree = depth_agreement(a.depth[0], a.alpha[0], b.depth[0], b.alpha[0], min_alpha=rule.min_alpha,
                                             tolerance=rule.depth_tolerance, min_pixels=rule.min_pixels)
        shares.append(share)
        common.append(int(both.sum()))
        pictures.append(pair_view(a, b))
        disagree.append(both & ~agree)
        same &= all(np.array_equal(getattr(a, k), getattr(b, k)) for k in ("rgb", "depth", "alpha"))
        obs.progress(len(shares), len(cameras))
    return OriginPair(tuple(shares), tuple(common), tuple(pictures), tuple(disagree), same)


def drawn_of(obs: Observations, role: str, cameras: list[Camera]) -> list[NDArray[np.uint8]]:
    """[H,W,3] uint8 of each camera in the world ``before`` or ``after``, for scorers, with progress."""
    renderer = obs.get(PAIR[0] if role == "before" else PAIR[1])
    out: list[NDArray[np.uint8]] = []
    for frames in renderer.stream(cameras, want=("rgb",)):
        out += [to_uint8(rgb) for rgb in frames.rgb]
        obs.progress(len(out), len(cameras))
    return out


def pair_view(before: Frames, after: Frames, index: int = 0) -> PairView:
    """Pictures of one frame of both worlds."""
    assert before.rgb is not None and after.rgb is not None
    a, b = before.rgb[index], after.rgb[index]
    return PairView(picture(to_uint8(a)), picture(to_uint8(b)), picture(to_uint8(np.abs(a - b).mean(axis=-1))))


def picture(image: NDArray[Any]) -> NDArray[np.uint8]:
    """At most 320 pixels wide, by averaging."""
    import cv2

    h, w = image.shape[:2]
    if w <= _PICTURE:
        return np.asarray(image, dtype=np.uint8)
    return np.asarray(cv2.resize(image, (_PICTURE, max(1, round(h * _PICTURE / w))), interpolation=cv2.INTER_AREA),
                      dtype=np.uint8)


def origin_cameras(size: int) -> list[Camera]:
    """The six origin probes: cube faces at the initial camera."""
    from spatialbench.renderers.trajectories import cube_faces

    return cube_faces((0.0, 0.0, 0.0), size)
