"""The shared real worlds as placed, against trimesh; the reported cases. (All of them, against the manifest: see
test_all_scenes.py.)"""

from __future__ import annotations

import numpy as np
import pytest

from spatialbench.errors import CorruptInputError
from spatialbench.scene import load_scene


def counts(scene):
    return {r.name: r.count for r in scene.report.repairs}


MESHES = ["meshes/ar_living_room.glb", "meshes/cave/cave.gltf", "meshes/cube-room/cube-room.gltf",
          "meshes/drake_living_room/living_room.gltf", "meshes/drake_living_room/painted_wooden_stool_1k.gltf",
          "meshes/drake_living_room/sofa_03_1k.gltf", "meshes/drake_living_room/wooden_table_02_1k.gltf",
          "meshes/dungeon.obj", "meshes/dutility/dutility.obj", "meshes/garage/garage.gltf",
          "meshes/habitat_simple_room/simple_room.glb", "meshes/house.glb", "meshes/level.glb", "meshes/level.nav.glb",
          "meshes/level_mesh.obj", "meshes/living_room.glb", "meshes/nav_test.obj", "meshes/obstacle_world.stl",
          "meshes/office.glb", "meshes/proto-level.glb", "objects/habitat_chair.glb", "objects/plate.obj",
          "objects/miniworld_office_chair/office_chair.obj", "objects/monobloc/plastic_monobloc_chair_01_1k.gltf",
          "objects/kaykit_restaurant/bowl.gltf", "objects/double-bed.glb", "objects/sofa.ply"]


@pytest.mark.parametrize("name", [m for m in MESHES if "proto" not in m])  # which takes trimesh a minute
def test_the_same_triangles_as_trimesh(data_dir, name):
    """Every face as placed and as wound: trimesh is another reader, used node by node."""
    import trimesh

    path = data_dir / "scenes" / name
    loaded = trimesh.load(path, process=False)
    other = loaded.to_geometry() if isinstance(loaded, trimesh.Scene) else loaded
    t = np.asarray(other.triangles)
    area = 0.5 * np.linalg.norm(np.cross(t[:, 1] - t[:, 0], t[:, 2] - t[:, 0]), axis=1)
    t = t[area > 1e-14]
    ours = load_scene(path).mesh.triangles
    assert len(ours) == len(t)

    def moments(t):
        """Sums over faces that see position and winding but not the order of faces or their first corner."""
        centre, normal = t.mean(axis=1), np.cross(t[:, 1] - t[:, 0], t[:, 2] - t[:, 0])
        size = np.linalg.norm(normal, axis=1, keepdims=True)
        return np.concatenate([(size * centre).sum(0), (size * centre * centre).sum(0), normal.sum(0),
                               (normal * centre).sum(0), (normal * normal).sum(0), (normal * centre**3).sum(0)]), size

    (a, size), (b, _) = moments(ours), moments(t)
    # trimesh keeps positions in float32 in places: 1e-7 of the largest coordinate, on each of the summed terms
    largest = max(1.0, float(np.abs(ours).max()))
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6 * float(size.sum()) * largest)


@pytest.mark.parametrize("name", ["meshes/office.glb", "meshes/cube-room/cube-room.gltf", "meshes/house.glb",
                                  "objects/habitat_chair.glb", "objects/kaykit_restaurant/bowl.gltf"])
def test_texture_colours_match_trimesh(data_dir, name):
    """Nearest texel at each corner: trimesh counts v upwards and samples from the bottom row."""
    import trimesh

    path = data_dir / "scenes" / name
    scene = trimesh.load(path, process=False)
    expected = []
    for node in scene.graph.nodes_geometry:
        _, key = scene.graph[node]
        g = scene.geometry[key]
        image = getattr(g.visual.material, "baseColorTexture", None) if g.visual.kind == "texture" else None
        if image is None or g.visual.uv is None:
            continue
        pixels = np.asarray(image.convert("RGB"), np.float64)
        uv = np.asarray(g.visual.uv)[g.faces]
        expected.append(sample(pixels, uv[..., 0], 1 - uv[..., 1]))
    expected = np.concatenate(expected)
    mesh = load_scene(path).mesh
    ours = []
    for i, m in enumerate(mesh.materials):
        if m.texture is not None:
            uv = mesh.uv[mesh.material_ids == i]
            ours.append(sample(m.texture[..., :3].astype(np.float64), uv[..., 0], uv[..., 1]))
    ours = np.concatenate(ours)
    # faces without area are dropped here, and coordinates on the seam between texels may round either way
    assert ours.mean(axis=(0, 1)) == pytest.approx(expected.mean(axis=(0, 1)), abs=0.5)
    assert ours.std(axis=(0, 1)) == pytest.approx(expected.std(axis=(0, 1)), abs=0.5)


def sample(pixels, u, v):
    h, w = pixels.shape[:2]
    return pixels[np.floor(v * h).astype(int) % h, np.floor(u * w).astype(int) % w]


def test_office_as_placed(data_dir):
    """50,065 faces as placed (47,511 as listed, which is what a reader that forgets the nodes finds); WebP textures."""
    scene = load_scene(data_dir / "scenes/meshes/office.glb")
    assert scene.report.details["faces_read"] == 50_065
    assert counts(scene)["faces_degenerate"] == 2
    assert scene.report.details["primitives_placed"] == 299
    assert scene.report.n_textures > 0
    assert scene.report.has_color


def test_living_room_loses_its_faces_without_area(data_dir):
    """Spec, section 4: 3,537 of 5,088 faces have none."""
    assert counts(load_scene(data_dir / "scenes/meshes/living_room.glb"))["faces_degenerate"] == 3_537


def test_drake_room_lacks_maps_that_are_not_needed(data_dir):
    r = load_scene(data_dir / "scenes/meshes/drake_living_room/living_room.gltf").report
    assert r.n_textures == 2
    assert any("4 texture files are missing" in w for w in r.warnings)
    assert sum(f.name.startswith("textures/") for f in r.files) == 2


def test_simple_room_is_z_up_by_its_side_car(data_dir):
    scene = load_scene(data_dir / "scenes/meshes/habitat_simple_room/simple_room.glb")
    assert scene.prior_up.tolist() == [0, 1, 0]
    assert scene.side.up.tolist() == [0, 0, 1]
    assert scene.side.up_source == "side-car"


def test_ar_living_room_brings_lights(data_dir):
    r = load_scene(data_dir / "scenes/meshes/ar_living_room.glb").report
    assert r.brings_lights
    assert r.n_textures == 0
    assert r.has_color  # COLOR_0 in greys


def test_case_b14_only_the_default_scene(data_dir):
    r = load_scene(data_dir / "reports/import/two_scenes.glb").report
    assert (r.n_faces, r.bounds) == (12, [[0, 0, 0], [4, 2.5, 3]])
    assert any("left out: scene 0 ('draft')" in w for w in r.warnings)


def test_case_b18_decimal_commas(data_dir):
    with pytest.raises(CorruptInputError, match=r"line 3: .*'-0,750'"):
        load_scene(data_dir / "reports/import/comma_decimals.obj")


def test_case_b19_solid_binary_in_millimetres(data_dir):
    scene = load_scene(data_dir / "reports/import/solid_binary_mm.stl")
    assert (scene.report.n_faces, scene.report.bounds) == (12, [[0, 0, 0], [4000, 3000, 2500]])
    assert scene.prior_unit_m is None
    assert any("millimetres" in w for w in scene.report.warnings)
