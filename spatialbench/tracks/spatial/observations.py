"""What the spatial track looks at: the origin ring, the six-face probes, the action path, the locations.

All cameras are in the world frame (X right, Y forward, Z up, origin at the initial camera). Images are
streamed: only what the metrics and the page need is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.metrics.bounds import OobResult, SampleObservation, observe_sample, oob_ratio, usable
from spatialbench.metrics.consistency import gray_histogram, hue_histogram
from spatialbench.metrics.coverage import hole_rate
from spatialbench.observe import Observations, observation
from spatialbench.tracks.spatial.reads import COLLISION, IMAGES
from spatialbench.types import Camera, PlanGrid, RenderSettings, TriangleMesh, level_pose, to_uint8

if TYPE_CHECKING:
    from spatialbench.renderers import Renderer
    from spatialbench.renderers.trajectories import TimedPath

__all__ = ["Location", "LocationPlan", "PathImages", "Probes", "Ring"]

_THUMBNAIL = 256
_PROBING = ("spatial.filled_footprint", "spatial.renderer")


@dataclass(frozen=True, eq=False)
class Ring:
    """The origin ring V_0.

    Attributes
    ----------
    cameras : the T cameras.
    hole_rates : [T] share of pixels with opacity under the threshold.
    median_depth : over pixels with depth and opacity, without the sky (OPEN-14), m; None when there is none.
    thumbnails : [T,h,w,3] uint8.
    hole_thumbnails : [T,h,w] bool.
    """

    cameras: tuple[Camera, ...]
    hole_rates: NDArray[np.float64]
    median_depth: float | None
    thumbnails: NDArray[np.uint8]
    hole_thumbnails: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Probes:
    """Six-face probes at the path's samples (and at the origin).

    Attributes
    ----------
    origin : of the unmoved initial pose; its hole rate is the reference.
    samples : one per path sample.
    result : the M12 test of every sample.
    path : the timed path.
    """

    origin: SampleObservation
    samples: tuple[SampleObservation, ...]
    result: OobResult
    path: TimedPath


@dataclass(frozen=True, eq=False)
class PathImages:
    """Histograms of every frame of the action path: gray [T,3] and hue [T,7], each row sums to 1."""

    gray: NDArray[np.float64]
    hue: NDArray[np.float64]


@dataclass(frozen=True)
class Location:
    """One place that the sampler tried."""

    ring: int
    bearing: int
    radius: float
    position: tuple[float, float, float]
    accepted: bool
    cause: str
    hole_rate: float
    slot: int | None = None


@dataclass(frozen=True)
class LocationPlan:
    """The eight-location sampler's outcome: every place tried, and which of the eight slots is usable."""

    median_depth: float | None
    tried: tuple[Location, ...]
    usable_slots: tuple[bool, ...] = field(default=())


@observation("spatial.renderer", label="preparing the renderer", version=2, reads=IMAGES)
def _renderer(obs: Observations) -> Renderer:
    from spatialbench.renderers import open_renderer

    views = obs.protocol.views
    return open_renderer(obs.world.seen, RenderSettings(supersample=views.supersample,
                                                        background=views.background, shading=views.shading))


@observation("spatial.origin_ring", label="rendering the origin panorama", reads=(*IMAGES, "usability"),
             needs=("spatial.renderer",))
def _origin_ring(obs: Observations) -> Ring:
    from spatialbench.renderers import open_renderer
    from spatialbench.renderers.trajectories import ring
    from spatialbench.scene.sky import without_sky

    views, use = obs.protocol.views, obs.protocol.usability
    cameras = ring((0.0, 0.0, 0.0), views.ring_frames, views.lens.width, views.lens.height,
                   views.lens.fov_deg)
    renderer = obs.get("spatial.renderer")
    holes: list[NDArray[np.float64]] = []
    depths: list[NDArray[np.float32]] = []
    thumbs, hole_thumbs = [], []
    for frames in renderer.stream(cameras, want=("depth", "alpha")):
        assert frames.depth is not None and frames.alpha is not None
        holes.append(hole_rate(frames.alpha, use.hole_alpha))
        depths.append(frames.depth[(frames.depth > use.min_depth) & (frames.alpha >= use.hole_alpha)])
        hole_thumbs += [_shrink((alpha < use.hole_alpha).astype(np.uint8) * 255) > 127 for alpha in frames.alpha]
        obs.progress(len(hole_thumbs), 2 * len(cameras))
    # The colours are for people only: drawn at the size that the page shows, a ninth of the rays.
    height, width = hole_thumbs[0].shape
    small = [Camera.from_fov(c.pose, views.lens.fov_deg, width, height) for c in cameras]
    for frames in renderer.stream(small, want=("rgb",)):
        assert frames.rgb is not None
        thumbs += [to_uint8(rgb) for rgb in frames.rgb]
        obs.progress(len(cameras) + len(thumbs), 2 * len(cameras))
    earthly = without_sky(obs.world.seen)
    if earthly is not obs.world.seen:  # holes are those of the picture, which shows the sky
        depths = []
        if len(earthly.faces if isinstance(earthly, TriangleMesh) else earthly):
            for frames in open_renderer(earthly).stream(cameras, want=("depth", "alpha")):
                assert frames.depth is not None and frames.alpha is not None
                depths.append(frames.depth[(frames.depth > use.min_depth) & (frames.alpha >= use.hole_alpha)])
    pooled = np.concatenate([np.zeros(0, np.float32), *depths])
    return Ring(tuple(cameras), np.concatenate(holes), float(np.median(pooled)) if pooled.size else None,
                np.stack(thumbs), np.stack(hole_thumbs))


@observation("spatial.filled_footprint", label="filling the footprint", reads=COLLISION)
def _filled_footprint(obs: Observations) -> PlanGrid | None:
    from spatialbench.world.footprint import fill_holes

    grid = obs.world.footprint
    return None if grid is None or grid.count == 0 else fill_holes(grid)


@observation("spatial.path", label="planning the action path", reads=("path",))
def _path(obs: Observations) -> TimedPath:
    from spatialbench.renderers.trajectories import action_path

    p = obs.protocol.path
    return action_path([(s.keys, s.seconds) for s in p.segments], p.speed, p.samples_per_second)


@observation("spatial.origin_probe", label="probing the origin", reads=(*IMAGES, *COLLISION, "usability"),
             needs=_PROBING)
def _origin_probe(obs: Observations) -> SampleObservation:
    return _probe(obs, np.zeros((1, 3)))[0]


@observation("spatial.path_probes", label="probing the action path",
             reads=(*IMAGES, *COLLISION, "usability", "path"),
             needs=(*_PROBING, "spatial.path", "spatial.origin_probe"))
def _path_probes(obs: Observations) -> Probes:
    path = obs.get("spatial.path")
    origin = obs.get("spatial.origin_probe")
    places, index = np.unique(path.positions, axis=0, return_inverse=True)
    seen = _probe(obs, places)
    samples = tuple(seen[i] for i in index.ravel())
    result = oob_ratio(samples, origin.hole_rate, obs.protocol.usability, obs.world.has_scale)
    return Probes(origin, samples, result, path)


@observation("spatial.path_images", label="rendering the action path", reads=(*IMAGES, "path", "consistency"),
             needs=("spatial.path", "spatial.renderer"))
def _path_images(obs: Observations) -> PathImages:
    path, views, rule = obs.get("spatial.path"), obs.protocol.views, obs.protocol.consistency
    places, index = np.unique(path.positions, axis=0, return_inverse=True)
    cameras = [Camera.from_fov(level_pose(p), views.lens.fov_deg, views.lens.width, views.lens.height)
               for p in places]
    gray, hue = [], []
    for frames in obs.get("spatial.renderer").stream(cameras, want=("rgb",)):
        assert frames.rgb is not None
        for rgb in frames.rgb:
            image = to_uint8(rgb)
            gray.append(gray_histogram(image, rule.gray_edges))
            hue.append(hue_histogram(image, rule.hue_edges))
        obs.progress(len(gray), len(cameras))
    order = index.ravel()
    return PathImages(np.stack(gray)[order], np.stack(hue)[order])


@observation("spatial.locations", label="sampling eight locations",
             reads=(*IMAGES, *COLLISION, "usability", "sampler"),
             needs=(*_PROBING, "spatial.origin_ring", "spatial.origin_probe"))
def _locations(obs: Observations) -> LocationPlan:
    from spatialbench.renderers.trajectories import location_plan

    rule = obs.protocol.sampler
    slots = rule.quota * len(rule.radius_factors)
    d = obs.get("spatial.origin_ring").median_depth
    if d is None:
        return LocationPlan(None, (), (False,) * slots)
    origin = obs.get("spatial.origin_probe")
    tried: list[Location] = []
    usable_slots: list[bool] = []
    for j, candidates in enumerate(location_plan(d, rule.radius_factors, rule.bearings)):
        kept = 0
        for bearing, position in candidates:
            if kept == rule.quota:
                break
            sample = _probe(obs, np.asarray(position, dtype=np.float64)[None])[0]
            ok, cause = _usable(obs, sample, origin)
            tried.append(Location(j, bearing, d * rule.radius_factors[j],
                                  (float(position[0]), float(position[1]), float(position[2])), ok, cause,
                                  sample.hole_rate, slot=j * rule.quota + kept if ok else None))
            kept += ok
        usable_slots += [True] * kept + [False] * (rule.quota - kept)
        obs.progress(j + 1, len(rule.radius_factors))
    return LocationPlan(d, tuple(tried), tuple(usable_slots))


def _probe(obs: Observations, places: NDArray[np.float64]) -> list[SampleObservation]:
    """Six faces at each place [P,3]: hole rate, share of near pixels, whether over the filled footprint."""
    from spatialbench.renderers.trajectories import cube_faces

    use = obs.protocol.usability
    footprint: PlanGrid | None = obs.get("spatial.filled_footprint")
    cameras = [c for p in places for c in cube_faces(p, obs.protocol.views.probe_size)]
    out: list[SampleObservation] = []
    for frames in obs.get("spatial.renderer").stream(cameras, want=("depth", "alpha"), batch=6):
        assert frames.depth is not None and frames.alpha is not None
        place = places[len(out)]
        inside = None if footprint is None else bool(footprint.contains(place[None, :2])[0])
        out.append(observe_sample(frames.alpha, frames.depth, inside, use))
        if len(places) > 1:
            obs.progress(len(out), len(places))
    return out


def _usable(obs: Observations, sample: SampleObservation, origin: SampleObservation) -> tuple[bool, str]:
    return usable(sample, origin.hole_rate, obs.protocol.usability, obs.world.has_scale)


def _shrink(image: NDArray[Any]) -> NDArray[np.uint8]:
    """At most 256 pixels wide, by averaging."""
    import cv2

    h, w = image.shape[:2]
    if w <= _THUMBNAIL:
        return image
    return cv2.resize(image, (_THUMBNAIL, max(1, round(h * _THUMBNAIL / w))), interpolation=cv2.INTER_AREA)
