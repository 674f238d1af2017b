"""Lights of KHR_lights_punctual, against what the extension's text gives by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scene_files import GltfBuilder

from spatialbench.errors import CorruptInputError
from spatialbench.scene import load_scene
from spatialbench.scene.gltf.lights import MAX_LIGHTS
from spatialbench.types import Light

HALF = math.sqrt(0.5)
TILTED = {"rotation": [-HALF, 0, 0, HALF]}
"""A quarter turn about X that takes -Z to -Y."""


def lit(lights, nodes, *, roots=None, name="KHR_lights_punctual"):
    """A cube at node 0, then ``nodes``, in which the key ``light`` places one of ``lights``."""
    b = GltfBuilder()
    b.mesh()
    b.doc["extensionsUsed"] = [name]
    b.doc["extensions"] = {name: {"lights": lights}}
    for node in nodes:
        own = dict(node)
        if "light" in own:
            own["extensions"] = {name: {"light": own.pop("light")}}
        b.doc["nodes"].append(own)
    b.doc["scenes"][0]["nodes"] = [0, *(range(1, len(nodes) + 1) if roots is None else roots)]
    return b


def load(tmp_path, *args, **more):
    return load_scene(lit(*args, **more).save(tmp_path / "w.glb"))


def near(values):
    return pytest.approx(values, abs=1e-12)


def test_defaults(tmp_path):
    """White, 1 cd (lx), without an end; a spot fades from its axis to 45 degrees."""
    scene = load(tmp_path, [{"type": "point"}, {"type": "spot"}, {"type": "directional"}],
                 [{"light": 0}, {"light": 1}, {"light": 2}])
    assert scene.report.brings_lights
    assert not any("light" in w for w in scene.report.warnings)
    for light, kind in zip(scene.mesh.lights, ("point", "spot", "directional"), strict=True):
        assert light == Light(kind, (1, 1, 1), 1.0, (0, 0, 0), (0, 0, -1), 0.0, 0.0, math.pi / 4)


def test_values(tmp_path):
    point = {"type": "point", "color": [1, 0.5, 0.25], "intensity": 800, "range": 7.5, "name": "lamp"}
    spot = {"type": "spot", "intensity": 3, "spot": {"innerConeAngle": 0.2, "outerConeAngle": math.pi / 2}}
    a, b = load(tmp_path, [point, spot], [{"light": 0, "translation": [1, 2, 3]}, {"light": 1}]).mesh.lights
    assert (a.kind, a.color, a.intensity, a.reach, a.position) == ("point", (1, 0.5, 0.25), 800, 7.5, (1, 2, 3))
    assert (b.intensity, b.inner, b.outer) == (3, 0.2, math.pi / 2)


def test_a_light_stands_and_points_as_its_node(tmp_path):
    """A parent at (10, 0, 0), turned by a quarter about Y (which takes X to -Z and Z to X), and its child at
    (0, 2, 1), tilted down: at (10, 0, 0) + (1, 2, 0), along -Y whatever the parent's turn."""
    nodes = [{"translation": [10, 0, 0], "rotation": [0, HALF, 0, HALF], "children": [2]},
             {"light": 0, "translation": [0, 2, 1], **TILTED}, {"light": 0, "rotation": [0, HALF, 0, HALF]}]
    child, own = load(tmp_path, [{"type": "spot"}], nodes, roots=[1, 3]).mesh.lights
    assert child.position == near([11, 2, 0])
    assert child.direction == near([0, -1, 0])
    assert own.direction == near([-1, 0, 0])


def test_scale_moves_a_light_and_changes_nothing_else(tmp_path):
    """Brightness, range and cone stay; a direction has length 1."""
    spot = {"type": "spot", "intensity": 5, "range": 2, "spot": {"outerConeAngle": 0.5}}
    nodes = [{"scale": [3, 4, 5], "children": [2]}, {"light": 0, "translation": [1, 1, 1], **TILTED}]
    light, = load(tmp_path, [spot], nodes, roots=[1]).mesh.lights
    assert (light.intensity, light.reach, light.outer) == (5, 2, 0.5)
    assert light.position == near([3, 4, 5])
    assert light.direction == near([0, -1, 0])


def test_a_mirrored_node_mirrors_its_light_with_what_it_lights(tmp_path):
    """Scale (1, -1, 1) above a lamp at height 2 that shines down: at height -2, and shines up. A mirror across X leaves
    a light along -Z alone."""
    nodes = [{"scale": [1, -1, 1], "children": [2]}, {"light": 0, "translation": [0, 2, 0], **TILTED},
             {"light": 0, "scale": [-1, 1, 1]}]
    up, along = load(tmp_path, [{"type": "directional"}], nodes, roots=[1, 3]).mesh.lights
    assert (up.position, up.direction) == (near([0, -2, 0]), near([0, 1, 0]))
    assert along.direction == near([0, 0, -1])


def test_only_lights_of_the_default_scene_and_each_as_often_as_placed(tmp_path):
    lights = load(tmp_path, [{"type": "point"}], [{"light": 0, "translation": [x, 0, 0]} for x in range(3)],
                  roots=[1, 3]).mesh.lights
    assert [light.position[0] for light in lights] == [0, 2]
    assert load(tmp_path, [{"type": "point"}], [{}]).mesh.lights == ()


def test_a_node_without_a_direction(tmp_path):
    """Scale 0: a point needs none, a sun has nowhere to shine."""
    scene = load(tmp_path, [{"type": "point"}, {"type": "directional"}],
                 [{"light": 0, "scale": [0, 0, 0], "translation": [4, 5, 6]}, {"light": 1, "scale": [1, 1, 0]}])
    light, = scene.mesh.lights
    assert (light.kind, light.position, light.direction) == ("point", (4, 5, 6), (0, 0, -1))
    assert "the light of node 2 has no direction and is left out" in scene.report.warnings


def test_more_than_are_used(tmp_path):
    nodes = [{"light": 0, "translation": [x, 0, 0]} for x in range(MAX_LIGHTS + 3)]
    scene = load(tmp_path, [{"type": "point"}], nodes)
    assert [light.position[0] for light in scene.mesh.lights] == list(range(MAX_LIGHTS))
    assert f"only the first {MAX_LIGHTS} of {MAX_LIGHTS + 3} lights are used" in scene.report.warnings
    full = load(tmp_path, [{"type": "point"}], nodes[:MAX_LIGHTS])
    assert len(full.mesh.lights) == MAX_LIGHTS
    assert not full.report.warnings


@pytest.mark.parametrize("light", [
    {}, {"type": "area"}, {"type": 3}, {"type": "point", "color": [1, 1]}, {"type": "point", "color": "white"},
    {"type": "point", "color": [1, -0.1, 1]}, {"type": "point", "intensity": -1},
    {"type": "point", "intensity": None}, {"type": "point", "range": -2}, {"type": "point", "range": "far"},
    {"type": "spot", "spot": {"innerConeAngle": 0.5, "outerConeAngle": 0.5}}, {"type": "spot", "spot": 3},
    {"type": "spot", "spot": {"outerConeAngle": 1.6}}, {"type": "spot", "spot": {"innerConeAngle": -0.1}}, 7, None])
def test_values_without_meaning(tmp_path, light):
    with pytest.raises(CorruptInputError, match=r"w\.glb: light 0 is not what KHR_lights_punctual says"):
        load(tmp_path, [light], [{"light": 0}])
    assert load(tmp_path, [light], [{}]).mesh.lights == ()  # what is not placed is not looked at


@pytest.mark.parametrize("index", [1, -1, "0", None, True, 0.5])
def test_a_light_that_is_not_there(tmp_path, index):
    with pytest.raises(CorruptInputError, match="node 1 places a light that is not there"):
        load(tmp_path, [{"type": "point"}], [{"light": index}])


def test_other_lights_are_said_to_be_unused(tmp_path):
    scene = load(tmp_path, [{"intensity": 1}], [{}], name="EXT_lights_image_based")
    assert scene.report.brings_lights
    assert scene.mesh.lights == ()
    assert any("image-based lights are not used" in w for w in scene.report.warnings)


def test_moved_with_the_world(tmp_path):
    """Metres to half metres: what is lit is twice as far, so candela go with the square, lux stay. Z up out of Y up:
    (x, y, z) to (x, -z, y), which takes a light down -Y to one down -Z."""
    lights = load(tmp_path, [{"type": "spot", "intensity": 3, "range": 5}, {"type": "directional", "intensity": 3}],
                  [{"light": 0, "translation": [1, 2, 3], **TILTED}, {"light": 1, **TILTED}]).mesh.lights
    matrix = np.array([[2, 0, 0, 0], [0, 0, -2, 0], [0, 2, 0, 10], [0, 0, 0, 1.0]])
    spot, sun = (light.transformed(matrix) for light in lights)
    assert (spot.intensity, spot.reach) == (near(12), near(10))
    assert spot.position == near([2, -6, 14])
    assert spot.direction == near([0, 0, -1])
    assert (sun.intensity, sun.direction) == (3, near([0, 0, -1]))
    assert spot.outer == lights[0].outer
