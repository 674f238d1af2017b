"""Hostile protocols and cases: refused in one sentence before anything is looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from spatialbench.errors import ConfigError, MissingInputError, UsageError
from spatialbench.types import load_case, load_protocol
from spatialbench.types.protocol_rules import Consistency
from spatialbench.world import FrameOverrides

NAME = "happyworld-spatial-1-fast"


@pytest.mark.parametrize("setting", [
    "views.lens.width=100000000", "views.lens.fov_deg=179.9999", "views.probe_size=100000",
    "views.background=[.nan,0,0]",
    "scale.camera_height=0", "scale.fallback_percentile=200", "scale.ray_tilt=.nan", "crop.above_ground=.nan",
    "footprint.cell=.inf", "footprint.max_samples=0", "footprint.seed=-1",
    "path.speed=0", "path.speed=-1", "path.speed=.nan", "path.samples_per_second=0", "path.samples_per_second=1e9",
    "path.segments=[{keys: W, seconds: 1.0e+9}]", "path.segments=[{keys: W, seconds: .inf}]",
    "sampler.radius_factors=[]", "sampler.radius_factors=[.nan]", "sampler.quota=0", "sampler.bearings=-2",
    "consistency.gray_edges=[]", "consistency.gray_edges=[256,0]", "consistency.hue_edges=[0,5,5,180]",
    "supports.grid=0", "supports.grid=1e-7", "supports.band=[1,0]", "supports.band=[0,1e9]", "supports.peak_width=0",
    "supports.min_area=0", "finding.max_voxels=0", "finding.max_surfels=0", "finding.voxel=.nan", "finding.reach=.inf",
    "gates.level_depth_percentile=101", "gates.min_enclosure=.nan",
    "placement.trials=0", "placement.plate_diameter=0", "placement.steps=1000000000", "placement.steps_per_second=0",
    "placement.gravity=.nan", "metrics=[]", "metrics=[M07, M07]", "views.lens.width=[", "views.lens.width={",
    "views.lens.width=!!python/object/apply:os.getcwd []",
])
def test_settings_that_cannot_be_computed_are_refused_at_once(setting: str) -> None:
    with pytest.raises(ConfigError):
        load_protocol(NAME, (setting,))


def test_the_paths_length_is_bounded_by_its_samples() -> None:
    ok = load_protocol(NAME, ("path.segments=[{keys: W, seconds: 100000}]", "path.samples_per_second=1"))
    assert ok.path.segments[0].seconds == 100_000
    with pytest.raises(ConfigError, match="samples"):
        load_protocol(NAME, ("path.segments=[{keys: W, seconds: 100001}]", "path.samples_per_second=1"))


def test_bins_take_every_pixel() -> None:
    assert Consistency(gray_edges=(0, 1, 256), hue_edges=(0, 180)).hue_edges == (0, 180)
    with pytest.raises(ValueError, match="ascend from 0 to 180"):
        Consistency(hue_edges=(0, 179))


@pytest.mark.parametrize("name", ["z" * 5000, "..", "/", "", "a\0b", "<script>"])
def test_names_that_are_no_protocol(name: str) -> None:
    with pytest.raises(UsageError):
        load_protocol(name)


@pytest.mark.parametrize(("text", "key"), [
    ("camera: {position: [.nan, 0, 0], forward: [0, 0, -1]}", "camera.position.0"),
    ("camera: {position: [1.0e+30, 0, 0], forward: [0, 0, -1]}", "camera.position.0"),
    ("camera: {position: [0, 0, 0], forward: [0, 0, -1.0e+300]}", "camera.forward.2"),
    ("unit_m: 1.0e-30", "unit_m"), ("unit_m: 1.0e+300", "unit_m"), ("unit_m: .inf", "unit_m"),
    # Pixels in place of shares would otherwise be looked for outside the image, and be a measured zero.
    ("support: {image_polygon: [[100, 100], [300, 100], [300, 200]]}", "support.image_polygon.0.0"),
])
def test_absurd_numbers_in_a_case_are_named(text: str, key: str, tmp_path: Path) -> None:
    path = tmp_path / "case.yaml"
    path.write_text(f"id: a\n{text}\n")
    with pytest.raises(ConfigError, match=rf"key '{key}'"):
        load_case(path)


@pytest.mark.parametrize("text", ["id: " + "[" * 5000 + "]" * 5000, "id: &a [*a]", "unit_m: " + "9" * 5000, "id: a\0b"])
def test_yaml_made_to_hurt(text: str, tmp_path: Path) -> None:
    path = tmp_path / "case.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError):
        load_case(path)


def test_a_case_path_that_no_file_can_have() -> None:
    with pytest.raises(MissingInputError):
        load_case(Path("z" * 5000))


@pytest.mark.parametrize("what", [
    {"unit_m": 1e-300}, {"scale": 1e300}, {"scale": float("nan")}, {"up": (0.0, 1e300, 0.0)},
    {"camera_position": (1e308, 0.0, 0.0), "camera_forward": (0.0, 0.0, -1.0)},
])
def test_absurd_options(what: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        FrameOverrides(**what)  # type: ignore[arg-type]
