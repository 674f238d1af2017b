"""The views that an edit is judged on, by its operation, and what they show (spec section 10; OPEN-17, 20c, 21)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spatialbench.metrics.editing import allowed_change, background_psnr, chosen_views
from spatialbench.observe import Observations, observation
from spatialbench.tracks.spatial.evidence import EditGiven, located_in, target_views
from spatialbench.tracks.spatial.two_worlds import PAIR, PAIR_READS, PairView, pair_case, pair_view
from spatialbench.types import Camera

__all__ = ["NO_MASKS", "NO_TARGET", "PATCHES", "EditFrames", "EditViews", "Target", "given"]

PATCHES = 37
"""Patches a side of a DINOv2 image of 518 x 518."""
NO_MASKS = "the case's evidence gives no masks of the target"
NO_TARGET = "the case's evidence says neither where the target is ('target_box') nor masks of the probes"
_MIN_RADIUS, _MAX_RADIUS = 0.5, 4.0


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
    """

    numbers: tuple[int, ...]
    cameras: tuple[Camera, ...]
    changed: tuple[NDArray[np.bool_] | None, ...]
    reason: str
    target: Target | None
    detectable: int = 0

    def background(self, index: int) -> NDArray[np.bool_]:
        """B [H,W] of a view: all but the allowed change."""
        changed, camera = self.changed[index], self.cameras[index]
        return np.ones((camera.height, camera.width), bool) if changed is None else ~changed


@dataclass(frozen=True, eq=False)
class EditFrames:
    """What the views show: PSNR over the background of each (None with too little of it), number of background
    pixels, and pictures."""

    psnr: tuple[float | None, ...]
    background: tuple[int, ...]
    pictures: tuple[PairView, ...]


def given(obs: Observations) -> EditGiven:
    """The evidence of the case; empty when it gives none."""
    found = obs.context.media.get("evidence")
    return found if isinstance(found, EditGiven) else EditGiven()


@observation("spatial.edit_target", label="locating the edited object", reads=PAIR_READS, needs=PAIR)
def _edit_target(obs: Observations) -> Target | None:
    """From the box of the evidence, else lifted from its probe masks; None without either or without depth there."""
    from spatialbench.renderers.trajectories import orbit_of_box

    case, evidence = pair_case(obs), given(obs)
    if evidence.box is not None:
        transform = obs.context.worlds["before"].transform
        centre, size = evidence.box
        place = transform[:3, :3] @ centre + transform[:3, 3]
        half = float(np.cbrt(np.linalg.det(transform[:3, :3]))) * size / 2  # the diagonal does not turn
        return Target(*orbit_of_box(place - half, place + half))
    if evidence.probe_masks is None or case is None:
        return None
    points = _lifted(obs, located_in(case.operation))
    if not len(points):
        return None
    low, high = np.percentile(points, obs.protocol.editing.box_percentiles, axis=0)
    return Target(np.median(points, axis=0), orbit_of_box(low, high)[1], len(points))


@observation("spatial.edit_views", label="choosing the views of the edited object", reads=PAIR_READS,
             needs=("spatial.edit_target",))
def _edit_views(obs: Observations) -> EditViews:
    from spatialbench.renderers.trajectories import orbit

    case, evidence, rule, lens = pair_case(obs), given(obs), obs.protocol.editing, obs.protocol.views.lens
    if case is None or case.scope == "global":
        return EditViews((), (), (), "the edit has no target", None)
    masks = evidence.after if located_in(case.operation) == "after" else evidence.before
    reason = _lacks(case.operation, evidence)
    target: Target | None = obs.get("spatial.edit_target")
    if masks is None:
        numbers = chosen_views([True] * rule.orbit_views, rule.views)  # pictures only
    else:
        numbers = target_views(masks, rule.views)
    if target is None:  # sought and not found is no view (OPEN-17d); not sought is a lack
        return EditViews((), (), (), "" if evidence.probe_masks is not None else reason or NO_TARGET, None)
    cameras = orbit(target.centre, target.radius, rule.orbit_views, lens.width, lens.height, rule.orbit_fov_deg,
                    start=(0.0, 0.0, 0.0))
    changed = tuple(None if reason else allowed_change(case.operation, _of(evidence.before, k), _of(evidence.after, k))
                    for k in numbers)
    return EditViews(numbers, tuple(cameras[k] for k in numbers), changed, reason, target,
                     0 if masks is None else sum(m is not None for m in masks))


@observation("spatial.edit_frames", label="rendering the edited object in both worlds", reads=PAIR_READS,
             needs=("spatial.edit_views", *PAIR))
def _edit_frames(obs: Observations) -> EditFrames:
    views, rule = obs.get("spatial.edit_views"), obs.protocol.editing
    psnr: list[float | None] = []
    pixels, pictures = [], []
    for k, camera in enumerate(views.cameras):
        a, b = (obs.get(name).render([camera], want=("rgb",)) for name in PAIR)
        background = views.background(k)
        psnr.append(background_psnr(a.rgb[0], b.rgb[0], background, min_pixels=rule.min_pixels,
                                    floor=rule.psnr_floor, top=rule.psnr_top))
        pixels.append(int(background.sum()))
        pictures.append(pair_view(a, b))
        obs.progress(k + 1, len(views.cameras))
    return EditFrames(tuple(psnr), tuple(pixels), tuple(pictures))


def _lacks(operation: str, evidence: EditGiven) -> str:
    """Which masks the operation needs and the evidence has not; empty when all are there."""
    needed = {"addition": ("after",), "deletion": ("before",)}.get(operation, ("before", "after"))
    missing = [f"'masks_{w}'" for w in needed if getattr(evidence, w) is None]
    return f"{NO_MASKS}: {' and '.join(missing)}" if missing else ""


def _of(masks: tuple[NDArray[np.bool_] | None, ...] | None, view: int) -> NDArray[np.bool_] | None:
    return None if masks is None else masks[view]


def _lifted(obs: Observations, role: str) -> NDArray[np.float64]:
    """[N,3] points of the target, world frame: pixels of the probe masks with depth and opacity (OPEN-17a)."""
    from spatialbench.renderers.trajectories import cube_faces

    renderer = obs.get(PAIR[0] if role == "before" else PAIR[1])
    masks = given(obs).probe_masks or ()
    cameras = cube_faces((0.0, 0.0, 0.0), obs.protocol.views.probe_size)
    out = [np.zeros((0, 3))]
    for camera, mask in zip(cameras, masks, strict=True):
        if mask is None:
            continue
        frames = renderer.render([camera], want=("depth", "alpha"))
        depth = frames.depth[0].astype(np.float64)
        row, column = np.nonzero(mask & (depth > 0) & (frames.alpha[0] >= obs.protocol.editing.min_alpha))
        d = depth[row, column]
        local = np.stack([(column + 0.5 - camera.cx) / camera.fx * d, (row + 0.5 - camera.cy) / camera.fy * d, d], 1)
        out.append(local @ camera.pose.rotation.T + camera.pose.position)
    return np.concatenate(out)
