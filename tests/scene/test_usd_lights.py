"""Lights of UsdLux on stages written by usd-core, against photometry by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scene_files import CUBE, CUBE_FACES, png

from spatialbench.renderers import open_renderer
from spatialbench.scene import load_scene
from spatialbench.scene.gltf.lights import MAX_LIGHTS
from spatialbench.types import Camera, RenderSettings, level_pose

pxr = pytest.importorskip("pxr", reason="usd-core is an extra")

BRIGHT = {"intensity": 40.0, "exposure": 3.0, "color": (1.0, 0.5, 0.25), "diffuse": 0.5}
LUMINANCE = 40.0 * 2**3 * 0.5


def written(path, *lights, up="Z"):
    """A stage with a cube and lights (kind, inputs, transform 4x4 or None) under a parent at (10, 0, 0)."""
    from pxr import Gf, Sdf, Usd, UsdGeom, UsdLux

    stage = Usd.Stage.CreateNew(str(path))
    UsdGeom.SetStageUpAxis(stage, up)
    mesh = UsdGeom.Mesh.Define(stage, "/mesh")
    mesh.CreatePointsAttr(CUBE.tolist())
    mesh.CreateFaceVertexCountsAttr([3] * len(CUBE_FACES))
    mesh.CreateFaceVertexIndicesAttr(np.asarray(CUBE_FACES).ravel().tolist())
    parent = UsdGeom.Xform.Define(stage, "/lamps")
    parent.AddTranslateOp().Set((10.0, 0.0, 0.0))
    for k, (kind, inputs, matrix) in enumerate(lights):
        light = stage.DefinePrim(f"/lamps/lamp{k}", kind)
        if any(name.startswith("shaping") for name in inputs):
            UsdLux.ShapingAPI.Apply(light)
        for name, value in inputs.items():
            if name == "hidden":
                UsdGeom.Imageable(light).MakeInvisible()
                continue
            kinds = {bool: Sdf.ValueTypeNames.Bool, tuple: Sdf.ValueTypeNames.Color3f, str: Sdf.ValueTypeNames.Asset}
            value_type = kinds.get(type(value), Sdf.ValueTypeNames.Float)
            light.CreateAttribute(f"inputs:{name}", value_type).Set(value)
        if matrix is not None:
            UsdGeom.Xformable(light).AddTransformOp().Set(Gf.Matrix4d(np.asarray(matrix, np.float64).T.tolist()))
    stage.GetRootLayer().Save()
    return path


def load(tmp_path, *lights, **more):
    return load_scene(written(tmp_path / "w.usda", *lights, **more))


def lights(tmp_path, *given):
    """Of kinds, inputs and, where there is one, a transform: one stage for all, as each takes a process."""
    scene = load(tmp_path, *[(*g, None)[:3] for g in given])
    assert scene.report.brings_lights and not scene.report.warnings, scene.report.warnings
    assert len(scene.mesh.lights) == len(given)
    return scene.mesh.lights


def near(value, rel=1e-6):
    """USD's numbers are float32."""
    return pytest.approx(value, rel=rel, abs=1e-6)


DOWN_Y = [[2.0, 0, 0, 1], [0, 0, -3, 2], [0, 3, 0, 3], [0, 0, 0, 1]]
"""Twice as wide along x, thrice along y and z; -Z goes to +Y; at (1, 2, 3)."""


def test_sphere(tmp_path):
    """Far away a sphere is a disk of pi r^2 of its luminance; scaled by 2 x 3 x 3 about one of 18^(1/3) r."""
    plain, scaled, *normalized, default = lights(
        tmp_path, ("SphereLight", {**BRIGHT, "radius": 0.2}), ("SphereLight", {**BRIGHT, "radius": 0.2}, DOWN_Y),
        *[("SphereLight", {**BRIGHT, "radius": r, "normalize": True}) for r in (0.2, 7.0, 0.0)], ("SphereLight", {}))
    assert (plain.kind, plain.color, plain.reach) == ("point", near((1, 0.5, 0.25)), 0)
    assert plain.intensity == near(LUMINANCE * math.pi * 0.2**2)
    assert plain.position == (10, 0, 0)
    assert scaled.intensity == near(LUMINANCE * math.pi * 0.2**2 * 18 ** (2 / 3))
    assert scaled.position == (11, 2, 3)
    # Normalised, the power is pi x area x L / area, all around: a quarter of L however large it is.
    assert [light.intensity for light in normalized] == [near(LUMINANCE / 4)] * 3
    assert default.intensity == near(math.pi / 4)  # a radius of a half, 1 cd/m2


def test_rectangle_disk_and_cylinder(tmp_path):
    """L A along the axis, the flux of a matt surface: pi L A."""
    flat, disk, normalized, tube = lights(
        tmp_path, ("RectLight", {**BRIGHT, "width": 0.5, "height": 2.0}, DOWN_Y),
        ("DiskLight", {**BRIGHT, "radius": 0.3}, DOWN_Y),
        ("DiskLight", {**BRIGHT, "radius": 0.3, "normalize": True}, DOWN_Y),
        ("CylinderLight", {**BRIGHT, "radius": 0.1, "length": 3.0}))
    assert (flat.kind, flat.position, flat.direction) == ("spot", (11, 2, 3), near((0, 1, 0)))
    assert flat.intensity == near(LUMINANCE * 0.5 * 2 * 2 * 3)
    x = np.linspace(0, 1, 200_001)  # cosine from the axis
    scale = 1 / (math.cos(flat.inner) - math.cos(flat.outer))
    fade = np.clip((x - math.cos(flat.outer)) * scale, 0, 1) ** 2
    assert 2 * math.pi * (fade[1:] + fade[:-1]).sum() / 400_000 == pytest.approx(math.pi, rel=1e-6)
    assert np.abs(fade - x).max() <= 0.25 + 1e-12
    assert disk.intensity == near(LUMINANCE * math.pi * 0.09 * 6)
    assert normalized.intensity == near(LUMINANCE)
    # Seen from all sides a convex body shows a quarter of its surface on average (Cauchy).
    assert (tube.kind, tube.intensity) == ("point", near(LUMINANCE * 2 * math.pi * 0.1 * 3 / 4))


def test_distant(tmp_path):
    """A cone of half angle a of luminance L gives pi L sin^2 a lux to what faces it."""
    wide, *normalized, sun = lights(
        tmp_path, ("DistantLight", {**BRIGHT, "angle": 60.0}, DOWN_Y),
        *[("DistantLight", {**BRIGHT, "angle": a, "normalize": True}) for a in (0.0, 60.0)], ("DistantLight", {}))
    assert (wide.kind, wide.direction) == ("directional", near((0, 1, 0)))
    assert wide.intensity == near(LUMINANCE * math.pi / 4)
    assert [light.intensity for light in normalized] == [near(LUMINANCE)] * 2
    # The sun as USD has it: 50,000 cd/m2 over 0.53 degrees.
    assert sun.intensity == near(50_000 * math.pi * math.sin(math.radians(0.265)) ** 2)


def test_dome(tmp_path):
    """pi L lux on every side; a texture counts by solid angle: its upper half red, its lower half blue, here equal."""
    pixels = np.zeros((4, 2, 3), np.uint8)
    pixels[:2], pixels[2:] = (255, 0, 0), (0, 0, 255)
    pixels[0, 0] = (255, 255, 0)  # half of the topmost quarter: (1 - cos 45) / 2 / 2 of the sphere
    (tmp_path / "sky.png").write_bytes(png(pixels))
    (tmp_path / "sky.hdr").write_bytes(b"#?RADIANCE\n")
    (tmp_path / "sky.dds").write_bytes(b"DDS |\0\0\0")
    scene = load(tmp_path, ("DomeLight", BRIGHT, None), ("DomeLight", {"texture:file": "sky.png"}, None),
                 *[("DomeLight", {"texture:file": f"sky.{kind}"}, None) for kind in ("hdr", "dds")])
    plain, textured, *white = scene.mesh.lights
    assert (plain.kind, plain.intensity) == ("ambient", near(math.pi * LUMINANCE))
    # Rows of latitude weigh as the sine at their middles, within 6 % of their solid angle with four of them.
    assert textured.color == pytest.approx((0.5, (1 - math.cos(math.pi / 4)) / 4, 0.5), rel=0.06)
    assert [light.color for light in white] == [(1, 1, 1)] * 2
    assert [sum(name in w for w in scene.report.warnings) for name in ("sky.hdr", "sky.dds")] == [1, 1]


def test_cones_and_black_bodies(tmp_path):
    cone = {"shaping:cone:angle": 30.0, "shaping:cone:softness": 0.25, "normalize": True}
    soft, wide, flat, body = lights(
        tmp_path, ("SphereLight", {**BRIGHT, **cone}, DOWN_Y), ("SphereLight", {**cone, "shaping:cone:angle": 180.0}),
        ("RectLight", {**cone, "shaping:cone:softness": 0.0}),
        ("SphereLight", {"enableColorTemperature": True, "colorTemperature": 2000.0}))
    assert (soft.kind, soft.intensity, soft.direction) == ("spot", near(LUMINANCE / 4), near((0, 1, 0)))
    assert (soft.inner, soft.outer) == (near(math.radians(22.5)), near(math.radians(30)))
    assert (wide.kind, flat.kind, flat.outer) == ("point", "spot", near(math.radians(30)))
    # A black body of 2000 K is red, and as bright as white (by BT.709's weights).
    red, green, blue = body.color
    assert red > green > blue
    assert 0.2126 * red + 0.7152 * green + 0.0722 * blue == pytest.approx(1, abs=1e-3)


def test_what_is_not_used_is_said(tmp_path):
    scene = load(tmp_path, ("GeometryLight", {}, None), ("SphereLight", {"hidden": True}, None),
                 ("SphereLight", {"intensity": -1.0}, None), ("SphereLight", {"exposure": 1e6}, None),
                 ("SphereLight", {"color": (math.nan, 0, 0)}, None), ("SphereLight", {"intensity": 0.0}, None),
                 ("DistantLight", {}, np.diag([0.0, 0, 0, 1])), ("SphereLight", {"shaping:focus": 2.0}, None))
    assert len(scene.mesh.lights) == 1 and scene.report.brings_lights
    words = " ".join(scene.report.warnings)
    assert "/lamps/lamp0 is a GeometryLight, which is not used" in words
    assert [f"/lamps/lamp{k} has values that are no light" in words for k in range(8)] == \
        [k in (2, 3, 4, 6) for k in range(8)]
    assert "/lamps/lamp7: its focus is not used" in words


def test_more_than_are_used(tmp_path):
    hidden = ("SphereLight", {"hidden": True}, None)
    scene = load(tmp_path, *[("SphereLight", {}, None)] * (MAX_LIGHTS + 3), hidden)
    assert len(scene.mesh.lights) == MAX_LIGHTS
    assert f"only the first {MAX_LIGHTS} of {MAX_LIGHTS + 3} lights are used" in scene.report.warnings


def test_the_images_show_it(tmp_path):
    """A sun from above: the cube's top is brighter than its sides, which have the first bounce alone."""
    scene = load(tmp_path, ("DistantLight", {}, None))
    rgb = open_renderer(scene.mesh, RenderSettings(supersample=1), "raster").render(
        [Camera.from_fov(level_pose([0.5, -2, 2.5], 0.0, -45.0), 30.0, 9)]).rgb[0, ..., 0]
    top, side = rgb[0, 4], rgb[4, 4]
    assert top > 1.5 * side > 0
