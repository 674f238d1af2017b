"""Colliders that hold no faces: the splats load, and a warning says why the collider was left out."""

import numpy as np
import pytest
from scene_files import GltfBuilder, cube_glb
from splat_files import gaussian_glb, ply, row

from spatialbench.scene import load_scene
from spatialbench.scene.pair import join_pair


def points_glb():
    b = GltfBuilder()
    b.mesh(np.zeros((3, 3), np.float32), None, mode=0)
    return b.glb()


@pytest.mark.parametrize(("collider", "words"), [(gaussian_glb(4), "splats and no faces"),
                                                 (points_glb(), "point cloud")])
def test_a_collider_without_faces(tmp_path, collider, words):
    (tmp_path / "a.ply").write_bytes(ply([row(x=i) for i in range(5)]))
    (tmp_path / "a_collider.glb").write_bytes(collider)
    scene = load_scene(tmp_path / "a.ply")
    assert (scene.report.kind, scene.report.n_splats, scene.mesh) == ("splats", 5, None)
    assert [w for w in scene.report.warnings if "'a_collider.glb' is not used" in w and words in w]
    assert [f.name for f in scene.report.files] == ["a.ply"]


def test_splats_beside_the_faces_of_a_collider_do_not_matter(tmp_path):
    """One of both is judged by its faces: here a cube of one unit far from the splats."""
    (tmp_path / "a.ply").write_bytes(ply([row(x=i) for i in range(5)]))
    (tmp_path / "b.glb").write_bytes(gaussian_glb(4, cube=True))
    (tmp_path / "c.glb").write_bytes(cube_glb())
    splats = load_scene(tmp_path / "a.ply")
    both, faces = (join_pair(splats, load_scene(tmp_path / n)) for n in ("b.glb", "c.glb"))
    assert both.report.details["overlap"]["near"] == faces.report.details["overlap"]["near"]
    assert len(both.splats) == 5
