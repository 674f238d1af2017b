"""The constants of W1 and W3 to W5 in the published protocol, as the spec names them; none may move by accident."""

from __future__ import annotations

import inspect

import pytest

from spatialbench.metrics import editing, object_pixels, objects, quality
from spatialbench.types import load_protocol

SPEC = {
    # section 6 and OPEN-6a, 6b, 8
    "views.ring_frames": 36, "views.lens.width": 768, "views.lens.height": 768, "views.lens.fov_deg": 75.0,
    "views.probe_size": 256, "views.background": (0.0, 0.0, 0.0),
    "scorers.detection_score": 0.5, "scorers.detection_pixels": 64, "scorers.substitutes": {},
    # section 8, the sampler; OPEN-16
    "sampler.radius_factors": (1.5, 1.0, 0.6, 0.3), "sampler.quota": 2, "sampler.bearings": 8, "sampler.ring_views": 8,
    # section 9; OPEN-17b, 17c, 20
    "editing.orbit_views": 24, "editing.orbit_fov_deg": 60.0, "editing.box_percentiles": (2.0, 98.0),
    "objects.radius_factor": 1.5, "objects.radius_limits": (0.5, 4.0), "objects.min_detections": 2,
    "objects.crop_padding": 8, "objects.crop_side": 224, "objects.min_crops": 2, "objects.track_points": 64,
    "objects.track_seed": 0, "objects.track_tolerance": 0.01,
    # section 10; OPEN-21
    "editing.views": 6, "editing.min_pixels": 64, "editing.psnr_floor": 1e-12, "editing.psnr_top": 99.0,
    "editing.patch_background": 0.5, "editing.min_patches": 4, "editing.min_alpha": 0.5,
    "editing.depth_tolerance": 0.05,
    # section 11; hole rate as in M07
    "expansion.path_frames": 16, "usability.hole_alpha": 0.5,
    # OPEN-25
    "judge.temperature": 0.0, "judge.repeats": 1,
}


@pytest.mark.parametrize("key", SPEC)
def test_the_published_protocol_has_the_constants_of_the_spec(key: str) -> None:
    value = load_protocol("happyworld-spatial-1").model_dump()
    for part in key.split("."):
        value = value[part]
    assert value == SPEC[key]


def test_functions_have_the_same_defaults_as_the_protocol() -> None:
    """They are called with the protocol's values; whoever calls them alone gets the same."""
    rule = load_protocol("happyworld-spatial-1")
    edit, of = rule.editing, rule.objects
    for function, wanted in (
            (objects.object_recall, {"least": of.min_detections}),
            (objects.object_dispersion, {"least": of.min_crops}),
            (objects.start_points, {"count": of.track_points, "seed": of.track_seed}),
            (objects.orbit_radius, {"factor": of.radius_factor, "limits": of.radius_limits}),
            (object_pixels.object_crop, {"padding": of.crop_padding, "side": of.crop_side}),
            (quality.top_mean, {"count": 3}), (quality.spread_views, {"count": 18}),
            (editing.background_psnr, {"min_pixels": edit.min_pixels, "floor": edit.psnr_floor, "top": edit.psnr_top}),
            (editing.background_mean, {"min_pixels": edit.min_pixels}),
            (editing.patch_distance, {"least": edit.patch_background, "min_patches": edit.min_patches}),
            (editing.depth_agreement, {"min_alpha": edit.min_alpha, "tolerance": edit.depth_tolerance,
                                       "min_pixels": edit.min_pixels})):
        given = inspect.signature(function).parameters
        assert {name: given[name].default for name in wanted} == wanted, function.__name__
