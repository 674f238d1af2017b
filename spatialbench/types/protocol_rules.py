"""The sections of a protocol: what each part of a track fixes, with its defaults and their reasons."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = ["ActionPath", "Agreement", "CameraFinding", "Consistency", "Crop", "Editing", "Expansion", "Footprint",
           "Fusion", "Gates", "Lens", "Objects", "Sampler", "ScaleRule", "Segment", "StrictRules", "SupportFinding",
           "Usability", "Views"]

Share = Annotated[float, Field(ge=0, le=1)]
NotNegative = Annotated[float, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]
_MAX_SAMPLES = 100_000


class StrictRules(BaseModel):
    """Ranges of the fields leave out what cannot be computed, and what would take days or terabytes."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Lens(StrictRules):
    """Image size and field of view (across the width) of a square-pixel camera."""

    width: int = Field(ge=1, le=8192)
    height: int = Field(ge=1, le=8192)
    fov_deg: float = Field(ge=1, le=170)


class Views(StrictRules):
    """OPEN-6, OPEN-12c."""

    ring_frames: int = Field(36, ge=1, le=3600)
    lens: Lens = Lens(width=768, height=768, fov_deg=75.0)
    probe_size: int = Field(256, ge=8, le=4096)
    supersample: int = Field(2, ge=1, le=4)
    background: tuple[Share, Share, Share] = (0.0, 0.0, 0.0)
    shading: Literal["auto", "unlit", "normal"] = "auto"


class ScaleRule(StrictRules):
    """Spec section 3; OPEN-1."""

    camera_height: Positive = 1.6
    ray_tilt: float = Field(0.1, ge=0, le=10)
    min_distance: NotNegative = 1e-6
    min_hits: int = Field(1, ge=1, le=9)
    warn_below_hits: int = 5
    fallback_depth: Positive = 5.0
    fallback_percentile: float = Field(90.0, ge=0, le=100)
    assumed_ground_z: float = -1.6


class Crop(StrictRules):
    """Heights kept for navigation, relative to the ground, m."""

    below_ground: float = 2.0
    above_ground: float = 10.0


class Footprint(StrictRules):
    """Spec section 4.2."""

    cell: Positive = 0.05
    samples_per_cell: Positive = 16.0
    min_samples: Count = 1_000
    max_samples: int = Field(20_000_000, ge=1, le=1_000_000_000)
    seed: int = Field(0, ge=0)


class Segment(StrictRules):
    """A key held for some seconds."""

    keys: str = Field(pattern="^[WASD]{1,2}$")
    seconds: Positive


class ActionPath(StrictRules):
    """OPEN-12."""

    segments: tuple[Segment, ...] = ()
    speed: float = Field(1.0, gt=0, le=1000)
    samples_per_second: Positive = 4.0

    @model_validator(mode="after")
    def _few_samples(self) -> ActionPath:
        samples = sum(s.seconds for s in self.segments) * self.samples_per_second
        if not samples <= _MAX_SAMPLES:
            raise ValueError(f"the path has {samples:.3g} samples, at most {_MAX_SAMPLES:,} can be looked at")
        return self


class Usability(StrictRules):
    """Constants of M12 (spec section 8)."""

    hole_alpha: Share = 0.5
    hole_margin: Share = 0.10
    hole_cap: Share = 0.5
    min_depth: NotNegative = 1e-6
    clearance: NotNegative = 0.10
    max_close_share: Share = 0.5


class Sampler(StrictRules):
    """The eight-location sampler (spec section 8; OPEN-14 to 16)."""

    radius_factors: tuple[Annotated[float, Field(gt=0, le=1000)], ...] = Field((1.5, 1.0, 0.6, 0.3), min_length=1)
    quota: int = Field(2, ge=1, le=3600)
    bearings: int = Field(8, ge=1, le=3600)
    ring_views: int = Field(8, ge=1, le=3600)


class Consistency(StrictRules):
    """M13 and M14."""

    gain: NotNegative = 15.0
    eps: Positive = 1e-8
    gray_edges: tuple[int, ...] = (0, 64, 192, 256)
    hue_edges: tuple[int, ...] = (0, 16, 31, 61, 91, 121, 151, 180)

    @model_validator(mode="after")
    def _bins(self) -> Consistency:
        for name, edges, end in (("gray_edges", self.gray_edges, 256), ("hue_edges", self.hue_edges, 180)):
            if len(edges) < 2 or edges[0] != 0 or edges[-1] != end or any(
                    a >= b for a, b in pairwise(edges)):
                raise ValueError(f"'{name}' must ascend from 0 to {end}, so that every pixel has its bin")
        return self


class SupportFinding(StrictRules):
    """real-worlds.md section 5d; OPEN-11a."""

    band: tuple[float, float] = (0.35, 1.25)
    max_tilt_deg: float = Field(15.0, ge=0, le=90)
    headroom: NotNegative = 0.15
    peak_width: float = Field(0.04, ge=0.001)
    min_area: Positive = 0.04
    grid: float = Field(0.02, ge=0.005)
    plane_distance: Positive = 0.05

    @model_validator(mode="after")
    def _low_to_high(self) -> SupportFinding:
        if not -100 <= self.band[0] < self.band[1] <= 100:
            raise ValueError("'band' must be two heights within 100 m, the lower one first")
        return self


class CameraFinding(StrictRules):
    """real-worlds.md section 5a to 5c."""

    seed: int = Field(0, ge=0)
    surfels_per_m2: Positive = 800.0
    min_surfels: Count = 200_000
    max_surfels: int = Field(1_500_000, ge=1, le=100_000_000)
    voxel: Positive = 0.1
    max_voxels: float = Field(20e6, ge=1, le=1e9)
    eye_height: float = Field(1.6, gt=0, le=1000)
    agent_height: float = Field(1.5, gt=0, le=1000)
    reach: float = Field(25.0, gt=0, le=10_000)
    enclosure_keep: Share = 0.7
    clearance_cap: NotNegative = 2.4
    warn_ratio: NotNegative = 2.0
    plausible_height: Positive = 50.0
    """Without a unit, the file's origin is no camera if by its nine rays the world were higher than this, m."""
    blind_enclosure: Share = 0.6
    """Without a unit and a floor, share of the directions that must meet something at the origin."""
    blind_clearance: NotNegative = 0.05
    """Likewise, how far the nearest tenth of what is level must be, in widths of the world."""


class Fusion(StrictRules):
    """Collision mesh from rendered depth: real-worlds.md section 2; OPEN-3."""

    backend: Literal["fusion", "open3d"] = "fusion"
    """What makes surfaces of the depths: the own fusion, or Open3D's voxel block grid, as a second opinion."""
    voxel: float = Field(0.05, ge=0.005, le=10)
    front: float = Field(2.0, ge=1, le=20)
    """Truncation on the seen side of a surface, voxels."""
    behind: float = Field(1.0, ge=0.5, le=20)
    """Truncation behind it, voxels."""
    free_weight: NotNegative = 0.2
    """Of a vote that a voxel lies in the free space of a ray, against a vote near a surface."""
    image: int = Field(512, ge=16, le=4096)
    """Pixels of a side of each of the six faces of a viewpoint."""
    alpha: Share = 0.5
    rounds: tuple[Annotated[int, Field(ge=0, le=1000)], ...] = (6, 12, 12)
    """Viewpoints added in each round, beside the initial camera."""
    clearances: tuple[Annotated[float, Field(gt=0, le=100)], ...] = (0.30, 0.20, 0.15)
    """How far a viewpoint of each round must be from anything that is not free, m."""
    spacing: Positive = 0.3
    """Least distance between viewpoints, m."""
    coarse_voxel: float = Field(0.1, ge=0.01, le=10)
    """Of the grid on which free space is looked for, m."""
    min_faces: NotNegative = 200
    """Connected pieces with fewer faces are dropped."""
    margin: NotNegative = 0.3
    """Around the bulk of the splats, m."""
    trim: float = Field(0.002, ge=0, lt=0.5)
    """Share of the splats' opacity times size beyond each side that is not the bulk."""
    reach: float = Field(8.0, gt=0, le=1000)
    """Only so far from the initial camera, horizontally along each axis, m."""
    max_voxels: float = Field(40e6, ge=1e3, le=1e9)
    """A larger grid gets larger voxels, which is said."""
    checks: int = Field(4, ge=0, le=100)
    """Viewpoints that are not fused, from which the mesh is compared with what was rendered."""

    @model_validator(mode="after")
    def _rounds_and_clearances(self) -> Fusion:
        if len(self.rounds) != len(self.clearances):
            raise ValueError("'rounds' and 'clearances' must be equally long")
        return self


class Gates(StrictRules):
    """real-worlds.md section 7."""

    min_level_depth: float = 0.3
    level_depth_percentile: float = Field(10.0, ge=0, le=100)
    min_ray_hits: int = 5
    min_scale: float = 1 / 3
    max_scale: float = 3.0
    max_splat_sigma: float = 0.10
    min_enclosure: float = 0.35
    min_floor: NotNegative = 1.0
    """m2; less is a pedestal, not a floor."""


class Editing(StrictRules):
    """M31 to M37 (spec section 10; OPEN-17, 20c and 21)."""

    orbit_views: int = Field(24, ge=1, le=3600)
    orbit_fov_deg: float = Field(60.0, ge=1, le=170)
    """Images of the orbit are as large as those of ``views.lens``."""
    box_percentiles: tuple[Annotated[float, Field(ge=0, le=100)], Annotated[float, Field(ge=0, le=100)]] = (2.0, 98.0)
    """Ends of the box of points that were lifted from masks."""
    views: int = Field(6, ge=1, le=3600)
    """At most so many of the views in which the target is detectable."""
    min_pixels: Count = 64
    """Background or common pixels that a frame must have."""
    psnr_floor: NotNegative = 1e-12
    psnr_top: Positive = 99.0
    patch_background: Share = 0.5
    min_patches: Count = 4
    min_alpha: Share = 0.5
    depth_tolerance: NotNegative = 0.05


class Objects(StrictRules):
    """M16 to M24 (spec section 9; OPEN-17b and 20). Number of views, lens, opacity and percentiles of the box are those
    of ``editing``; the least score of a detection and the least mask of a crop those of ``scorers``."""

    radius_factor: Positive = 1.5
    """Of the orbit, in plan, as a multiple of the box's diagonal."""
    radius_limits: tuple[Positive, Positive] = (0.5, 4.0)
    """m."""
    min_detections: Count = 2
    """Fewer are a recall of 0."""
    crop_padding: int = Field(8, ge=0, le=8192)
    """Around the box of a mask, pixels."""
    crop_side: int = Field(224, ge=1, le=8192)
    """A shorter side of a crop is enlarged to it, pixels."""
    min_crops: Count = 2
    track_points: int = Field(64, ge=1, le=10_000)
    track_seed: int = Field(0, ge=0)
    track_tolerance: NotNegative = 0.01
    """Of the box's diagonal: a point that ends so near to where it began has closed."""

    @model_validator(mode="after")
    def _low_to_high(self) -> Objects:
        if self.radius_limits[0] > self.radius_limits[1]:
            raise ValueError("'radius_limits' must be the smaller radius, then the larger")
        return self


class Expansion(StrictRules):
    """M26 to M30 (spec section 11; OPEN-23)."""

    path_frames: int = Field(16, ge=1, le=3600)


class Agreement(StrictRules):
    """When two worlds are said to lie in different frames: never changes a value."""

    distance: Positive = 0.1
    """Surfaces this near are the same, m; or ``distance_share`` of the diagonal where that is more."""
    distance_share: Share = 0.01
    min_near: Share = 0.5
    """Least share of the surface before that must be near the surface after."""
    floor: Positive = 0.1
    """Largest difference of the floor below the camera, m."""
