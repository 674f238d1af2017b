"""Exporters' conventions: who stands above whom, and that none is believed against the file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spatialbench.errors import ConfigError, UsageError
from spatialbench.types import GaussianSplats
from spatialbench.types.profile import ExporterProfile, load_profile, profile_names
from spatialbench.world import FrameOverrides, build_world
from spatialbench.world.decide import decide_unit, decide_up
from spatialbench.world.opacity import decide_opacity
from tests import analytic as A
from tests.splats import splat_mesh, splat_scene
from tests.worlds import moved, quick_protocol, scene_of

P = quick_protocol("fusion.rounds=[2, 2, 2]", "fusion.image=128", "fusion.checks=0")


def profile(**keys: object) -> ExporterProfile:
    return ExporterProfile.model_validate({"id": "p", "maker": "Somebody", "files": "f", "evidence": "e", **keys})


def test_every_packaged_profile_says_where_it_is_known_from() -> None:
    assert {"marble", "hyworld2", "worldgen", "matrix3d", "lyra2", "hunyuanworld1"} <= set(profile_names())
    for name in profile_names():
        p = load_profile(name)
        assert p.id == name
        assert len(p.evidence) > 40


def test_names_and_keys_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="marble"):
        load_profile("marbel")
    path = tmp_path / "mine.yaml"
    path.write_text("id: mine\nmaker: m\nfiles: f\nevidence: e\nupp: +Y\n")
    with pytest.raises(ConfigError, match="up"):
        load_profile(str(path))


def test_a_profile_stands_between_the_file_and_the_format() -> None:
    told = FrameOverrides(profile=profile(up="+Z", unit_m=0.5))
    bare = scene_of(A.box_room(), up=(0, 1, 0), unit_m=None)
    up, decision = decide_up(bare, None, told)
    assert (up.tolist(), decision.source) == ([0, 0, 1], "profile")
    assert decide_unit(bare, None, told)[1].source == "profile"
    said = scene_of(A.box_room(), up=(0, 1, 0), up_axis=(1, 0, 0), up_source="file", side_unit=2.0,
                    unit_source="file")
    assert decide_up(said, None, told)[1].source == "file"
    assert decide_unit(said, None, told)[0] == 2.0
    assert decide_up(bare, None, FrameOverrides(up=(0, 0, -1), profile=profile(up="+Z")))[1].source == "user"


@pytest.fixture(scope="module")
def table() -> GaussianSplats:
    """Eyes at the origin, Z up."""
    return splat_mesh(moved(A.table_room(), np.eye(3), (0, 0, -1.6)), 0.08)


def test_a_right_profile_decides(table: GaussianSplats) -> None:
    told = FrameOverrides(profile=profile(up="+Z", camera="origin", forward=[1, 0, 0.2]))
    world = build_world(splat_scene(table, up=(0, 1, 0), unit_m=None), P, None, told)
    assert {k: world.decisions[k].source for k in ("up", "camera")} == {"up": "profile", "camera": "profile"}
    assert world.decisions["camera"].value["forward"] == [1.0, 0.0, 0.0]
    assert world.scale.factor == pytest.approx(1.0, rel=1e-4)


def test_a_wrong_axis_is_refused_and_said(table: GaussianSplats) -> None:
    """Upside down the table hangs from what would be the ceiling."""
    told = FrameOverrides(profile=profile(up="-Z"))
    world = build_world(splat_scene(table, up=(0, 0, 1), unit_m=None), P, None, told)
    assert world.decisions["up"].source == "prior"
    assert any("the profile's axis was not taken" in w for w in world.warnings)


def test_a_camera_that_the_gates_refuse_is_not_taken(table: GaussianSplats) -> None:
    low = splat_mesh(moved(A.table_room(), np.eye(3), (0, 0, -0.01)), 0.08)
    world = build_world(splat_scene(low, unit_m=None), P, None, FrameOverrides(profile=profile(camera="origin")))
    assert world.decisions["camera"].source == "found"
    assert any("the profile puts the initial camera" in w for w in world.warnings)


def test_opacities_stored_as_they_are_are_taken_back(table: GaussianSplats) -> None:
    """Read as logits, 0.98 becomes 1 / (1 + exp(-0.98)) = 0.727; a profile or the user undoes it."""
    read = np.full(len(table), 1 / (1 + np.exp(-0.98)), np.float32)
    scene = splat_scene(replace(table, opacities=read))
    scene.report.details.update(opacity_looks_activated=True, format_version="3DGS PLY")
    for told in (FrameOverrides(profile=profile(opacity="activated")), FrameOverrides(opacity="activated")):
        found, decisions, words = decide_opacity(scene, None, told)
        assert found.splats is not None
        np.testing.assert_allclose(found.splats.opacities, 0.98, atol=1e-6)
        assert decisions["opacity"].value == "activated"
        assert not words
    both = FrameOverrides(profile=profile(opacity="activated"), opacity="logit")
    kept, decisions, _ = decide_opacity(scene, None, both)
    assert kept is scene
    assert decisions["opacity"].source == "user"
    # Values beyond [0,1] cannot have been opacities.
    other = splat_scene(table)
    other.report.details["format_version"] = "3DGS PLY"
    assert decide_opacity(other, None, FrameOverrides(opacity="activated"))[0] is other
    assert "as the format asks" in decide_opacity(other, None, FrameOverrides(opacity="activated"))[2][0]


@pytest.mark.parametrize("version", [".splat", "SPZ 3", "KSPLAT 0.1", "SOG 2", "PlayCanvas compressed PLY"])
def test_formats_that_hold_opacities_as_they_are_are_read_so_whatever_is_said(table: GaussianSplats, version: str
                                                                               ) -> None:
    scene = splat_scene(table)
    scene.report.details["format_version"] = version
    found, decisions, words = decide_opacity(scene, None, FrameOverrides(opacity="activated"))
    assert (found, decisions["opacity"].value, decisions["opacity"].source, words) == (scene, "activated", "user", [])
    found, decisions, words = decide_opacity(scene, None, FrameOverrides(opacity="logit"))
    assert found is scene
    assert not decisions  # so the prior stands: nothing says that the file was read as it was not
    assert len(words) == 1
    assert version in words[0]
