"""The views that an edit is judged on, by its operation, and what they show (spec section 10; OPEN-17, 18, 20c, 21).

Where the target is seen is said by the evidence of the case, else by SAM3; each kind of mask by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import SpatialbenchError
from spatialbench.metrics.editing import allowed_change, background_psnr, chosen_views
from spatialbench.metrics.object_pixels import lifted
from spatialbench.observe import Observations, observation
from spatialbench.tracks.spatial.cameras import RADIUS_READS, orbit_around, placed, placed_in_box
from spatialbench.tracks.spatial.evidence import EditGiven, Masks, located_in, target_views
from spatialbench.tracks.spatial.object_views import best_instance
from spatialbench.tracks.spatial.scored import lacking, the_scorer, truncates
from spatialbench.tracks.spatial.two_worlds import (
    PAIR,
    PAIR_READS,
    PairView,
    drawn_of,
    origin_cameras,
    pair_case,
    pair_view,
)
from spatialbench.types import Camera, EditCase, to_uint8

__all__ = ["EDIT_READS", "NO_MASKS", "NO_TARGET", "PATCHES", "EditFrames", "EditViews", "Target", "given"]

PATCHES = 37
"""Patches a side of a DINOv2 image of 518 x 518."""
EDIT_READS = (*PAIR_READS, *RADIUS_READS, "scorers")
"""Protocol keys that bear on every metric of an edited object."""
NO_MASKS = "the case's evidence gives no masks of the target"
NO_TARGET = "the case's evidence says neither where the target is ('target_box') nor masks of the probes"
_SAM3 = "sam3"
_NEEDED = {"addition": ("after",), "deletion": ("before",)}
_BOTH = ("before", "after")


@dataclass(frozen=True, eq=False)
class Sought:
    """Where the target was sought in some views.

    Attributes
    ----------
    before, after : a mask [H,W] for each view of that world, None where it is not seen; None where it was not sought.
    given, detected : whether evidence, or the detector, had a part in it.
    truncated : a text was longer than the detector reads.
    error : that the detector ended with.
    """

    before: Masks | None = None
    after: Masks | None = None
    given: bool = False
    detected: bool = False
    truncated: bool = False
    error: SpatialbenchError | None = None

    def of(self, role: str) -> Masks | None:
        """Of one world."""
        return self.before if role == "before" else self.after


@dataclass(frozen=True, eq=False)
class Target:
    """Where the edited object is: centre [3] and radius of its orbit in plan, world frame, m; how many points it was
    lifted from (0 for a given box)."""

    centre: NDArray[np.float64]
    radius: float
    points: int = 0


@dataclass(frozen=True, eq=False)
class EditViews:
    """Orbit views of an object edit.

    Attributes
    ----------
    numbers, cameras : views that are looked at.
    changed : M [H,W] of each, where the operation may change the image; None where no mask was produced.
    reason : why metrics that need masks have none; empty when they have.
    target : what the orbit is laid around, or None.
    detectable : how many of the orbit views show the target.
    known : whether it is known which views show the target.
    given, detected, truncated, error : as of ``Sought``, of all that led to these views.
    """

    numbers: tuple[int, ...]
    cameras: tuple[Camera, ...]
    changed: tuple[NDArray[np.bool_] | None, ...]
    reason: str
    target: Target | None
    detectable: int = 0
    known: bool = False
    given: bool = False
    detected: bool = False
    truncated: bool = False
    error: SpatialbenchError | None = None

    def background(self, index: int) -> NDArray[np.bool_]:
        """B [H,W] of a view: all but the allowed change."""
        changed, camera = self.changed[index], self.cameras[index]
        return np.ones((camera.height, camera.width), bool) if changed is None else ~changed


@dataclass(frozen=True, eq=False)
class EditFrames:
    """What the views show: PSNR over the background of each (None with too little of it), number of background
    pixels, pictures, and the images [H,W,3] uint8 of both worlds for scorers."""

    psnr: tuple[float | None, ...]
    background: tuple[int, ...]
    pictures: tuple[PairView, ...]
    before: tuple[NDArray[np.uint8], ...]
    after: tuple[NDArray[np.uint8], ...]


def given(obs: Observations) -> EditGiven:
    """The evidence of the case; empty when it gives none."""
    found = obs.context.media.get("evidence")
    return found if isinstance(found, EditGiven) else EditGiven()


@observation("spatial.edit_probes", label="seeking the edited object in the origin probes", reads=EDIT_READS,
             needs=PAIR)
def _edit_probes(obs: Observations) -> Sought:
    """In the one world that the object is located in, where no box says where it is."""
    case, evidence = pair_case(obs), given(obs)
    if not isinstance(case, EditCase) or case.scope == "global" or evidence.box is not None:
        return Sought()
    role = located_in(case.operation)
    return _sought(obs, case, (role,), {role: evidence.probe_masks},
                   lambda: origin_cameras(obs.protocol.views.probe_size))


@observation("spatial.edit_target", label="locating the edited object", reads=EDIT_READS,
             needs=("spatial.edit_probes", *PAIR))
def _edit_target(obs: Observations) -> Target | None:
    """From the box of the evidence, else lifted from its masks in the probes; None without either or without depth
    there."""
    case, evidence = pair_case(obs), given(obs)
    if evidence.box is not None:
        transform = obs.context.worlds["before"].transform
        centre, size = evidence.box
        place = transform[:3, :3] @ centre + transform[:3, 3]
        half = float(np.cbrt(np.linalg.det(transform[:3, :3]))) * size / 2  # the diagonal does not turn
        at = placed_in_box(obs.protocol, place - half, place + half)
        return Target(at.centre, at.radius)
    if not isinstance(case, EditCase):
        return None
    role = located_in(case.operation)
    masks = obs.get("spatial.edit_probes").of(role)
    points = np.zeros((0, 3)) if masks is None else _lifted(obs, role, masks)
    found = placed(obs.protocol, points)
    return None if found is None else Target(found.centre, found.radius, len(points))


@observation("spatial.edit_masks", label="seeking the edited object around it", reads=EDIT_READS,
             needs=("spatial.edit_target", *PAIR))
def _edit_masks(obs: Observations) -> Sought:
    """In the orbit views of each world that the operation needs masks of."""
    case, evidence = pair_case(obs), given(obs)
    target: Target | None = obs.get("spatial.edit_target")
    if not isinstance(case, EditCase) or case.scope == "global" or target is None:
        return Sought(evidence.before, evidence.after, given=evidence.before is not None or evidence.after is not None)
    return _sought(obs, case, _NEEDED.get(case.operation, _BOTH),
                   {"before": evidence.before, "after": evidence.after},
                   lambda: orbit_around(obs.protocol, target.centre, target.radius))


@observation("spatial.edit_views", label="choosing the views of the edited object", reads=EDIT_READS,
             needs=("spatial.edit_probes", "spatial.edit_target", "spatial.edit_masks"))
def _edit_views(obs: Observations) -> EditViews:
    case, rule = pair_case(obs), obs.protocol.editing
    if case is None or case.scope == "global":
        return EditViews((), (), (), "the edit has no target", None)
    probes: Sought = obs.get("spatial.edit_probes")
    target: Target | None = obs.get("spatial.edit_target")
    masks: Sought = obs.get("spatial.edit_masks")
    role = located_in(case.operation)
    located, error = masks.of(role), probes.error or masks.error
    parts = (probes,) if target is None else (probes, masks)
    how = {name: any(getattr(p, name) for p in parts) for name in ("detected", "truncated")}
    from_box = given(obs).box is not None
    how["given"] = from_box or any(p.given for p in parts)
    reason = str(error) if error is not None else _lacks(case.operation, masks)
    if target is None:  # sought and not found is no view (OPEN-17d); not sought is a lack
        sought = probes.of(role) is not None
        return EditViews((), (), (), "" if sought else reason or NO_TARGET, None, known=sought, error=error, **how)
    cameras = orbit_around(obs.protocol, target.centre, target.radius)
    if located is None:
        numbers = chosen_views([True] * rule.orbit_views, rule.views)  # pictures only
    else:
        numbers = target_views(located, rule.views)
    changed = tuple(None if reason else allowed_change(case.operation, _of(masks.before, k), _of(masks.after, k))
                    for k in numbers)
    return EditViews(numbers, tuple(cameras[k] for k in numbers), changed, reason, target,
                     0 if located is None else sum(m is not None for m in located), located is not None, error=error,
                     **how)


@observation("spatial.edit_frames", label="rendering the edited object in both worlds", reads=EDIT_READS,
             needs=("spatial.edit_views", *PAIR))
def _edit_frames(obs: Observations) -> EditFrames:
    views, rule = obs.get("spatial.edit_views"), obs.protocol.editing
    psnr: list[float | None] = []
    pixels, pictures = [], []
    images: tuple[list[NDArray[np.uint8]], list[NDArray[np.uint8]]] = ([], [])
    for k, camera in enumerate(views.cameras):
        a, b = (obs.get(name).render([camera], want=("rgb",)) for name in PAIR)
        background = views.background(k)
        psnr.append(background_psnr(a.rgb[0], b.rgb[0], background, min_pixels=rule.min_pixels,
                                    floor=rule.psnr_floor, top=rule.psnr_top))
        pixels.append(int(background.sum()))
        pictures.append(pair_view(a, b))
        for side, frames in zip(images, (a, b), strict=True):
            side.append(to_uint8(frames.rgb[0]))
        obs.progress(k + 1, len(views.cameras))
    return EditFrames(tuple(psnr), tuple(pixels), tuple(pictures), tuple(images[0]), tuple(images[1]))


def _sought(obs: Observations, case: EditCase, roles: tuple[str, ...], evidence: dict[str, Masks | None],
            cameras: Callable[[], list[Camera]]) -> Sought:
    """The masks that evidence gives, and those that SAM3 finds in the other worlds of ``roles``, if it can be used."""
    found: dict[str, Masks | None] = dict(evidence)
    todo = [role for role in roles if found[role] is None]
    told = any(found[role] is not None for role in roles)
    if not todo or lacking(obs, _SAM3):
        return Sought(found.get("before"), found.get("after"), given=told)
    truncated = False
    try:
        detector = the_scorer(obs, _SAM3)
        for role in todo:
            text = _text(case, role)
            truncated |= truncates(detector, text)
            instances = detector.detect(drawn_of(obs, role, cameras()), text)
            found[role] = tuple(best_instance(f, obs.protocol.scorers.detection_score)[0] for f in instances)
    except SpatialbenchError as error:
        return Sought(evidence.get("before"), evidence.get("after"), told, True, error=error)
    return Sought(found.get("before"), found.get("after"), told, True, truncated)


def _text(case: EditCase, role: str) -> str:
    """What the target is called in a world; a change may alter its description, and else does not."""
    before, after = case.target_before, case.target_after
    return ((before or after) if role == "before" else (after or before)) or ""


def _lacks(operation: str, masks: Sought) -> str:
    """Which masks the operation needs and nobody gives; empty when all are there."""
    missing = [f"'masks_{w}'" for w in _NEEDED.get(operation, _BOTH) if masks.of(w) is None]
    return f"{NO_MASKS}: {' and '.join(missing)}" if missing else ""


def _of(masks: Masks | None, view: int) -> NDArray[np.bool_] | None:
    return None if masks is None else masks[view]


def _lifted(obs: Observations, role: str, masks: Masks) -> NDArray[np.float64]:
    """[N,3] points of the target, world frame: pixels of the probe masks with depth and opacity (OPEN-17a)."""
    renderer = obs.get(PAIR[0] if role == "before" else PAIR[1])
    cameras = origin_cameras(obs.protocol.views.probe_size)
    out = [np.zeros((0, 3))]
    for camera, mask in zip(cameras, masks, strict=True):
        if mask is None:
            continue
        frames = renderer.render([camera], want=("depth", "alpha"))
        usable = (frames.depth[0] > 0) & (frames.alpha[0] >= obs.protocol.editing.min_alpha)
        out.append(lifted(np.argwhere(mask & usable), frames.depth[0], camera))
    return np.concatenate(out)
