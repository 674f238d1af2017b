"""Real rooms: the frame, the camera, the scale and the facing shares of real-worlds.md section 4."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spatialbench.scene import load_scene
from spatialbench.types import World, load_protocol
from spatialbench.world import FrameOverrides, build_world

ROOMS = {
    # name: file, facing share of the table, reversed by the literal rule, up that the user gives
    "drake": ("drake_living_room/living_room.gltf", 0.99, False, None),
    "office": ("office.glb", 0.81, False, None),
    "ar_living": ("ar_living_room.glb", 0.86, False, None),
    "garage": ("garage/garage.gltf", 0.79, False, None),
    "simple_room": ("habitat_simple_room/simple_room.glb", 0.45, True, (0.0, 0.0, 1.0)),
    "dungeon": ("dungeon.obj", 0.71, False, None),
    "living_room": ("living_room.glb", 0.45, True, None),
}


def built(data_dir: Path, name: str) -> World:
    file, _, _, up = ROOMS[name]
    scene = load_scene(data_dir / "scenes" / "meshes" / file)
    # The room's own side-car, where it was read, says the same as the override.
    overrides = FrameOverrides(up=up if scene.side.up is None else None)
    return build_world(scene, load_protocol("happyworld-spatial-1"), None, overrides)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(ROOMS))
def test_a_real_room(data_dir: Path, name: str) -> None:
    world = built(data_dir, name)
    _, share, turned, up = ROOMS[name]
    # 1. Up stays what the file or its format says.
    expected = (0.0, 1.0, 0.0) if up is None else up
    assert world.decisions["up"].value == pytest.approx(expected)
    # 2. The camera is found, in the open, and sees a floor at eye height.
    assert world.decisions["camera"].source == "found"
    assert "camera_inside_geometry" not in world.raised()
    assert "no_interior" not in world.raised()
    rays = [d for d in world.scale.ray_distances if d is not None]
    assert len(rays) == 9
    assert float(np.median(rays)) == pytest.approx(1.6, abs=0.005)
    assert world.scale.factor == pytest.approx(1.0, abs=0.03)
    # 3. The table's shares have two digits, and its cameras stood a little elsewhere: 0.01 beyond rounding.
    collision = world.collision
    assert collision.facing_share == pytest.approx(share, abs=0.015)
    assert collision.first_hit_share == pytest.approx(1.0, abs=0.001)
    assert (collision.reversed, collision.facing_disagrees) == (turned, turned)
    if name == "dungeon":
        assert collision.cropped_faces == 4213
