"""What must not change an image: turning world and cameras together, the order of splats and of faces, doubling."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from spatialbench.renderers import open_renderer
from spatialbench.types import Camera, GaussianSplats, Pose, RenderSettings, TriangleMesh
from spatialbench.types.sh_rotation import rotate_sh

from .splat_reference import facing, random_splats
from .test_render import EACH, front, soup

FEW = settings(max_examples=8, deadline=None, derandomize=True)
TURNS = st.tuples(*[st.floats(-3, 3)] * 3)
SHIFTS = st.tuples(*[st.floats(-5, 5)] * 3)


@FEW
@given(st.integers(0, 1000), TURNS, SHIFTS, st.integers(0, 3))
def test_splats_and_cameras_moved_together(seed, turn, shift, degree):
    splats, r = random_splats(150, seed, degree), Rotation.from_rotvec(turn)
    q = (r * Rotation.from_quat(splats.quaternions[:, [1, 2, 3, 0]])).as_quat()[:, [3, 0, 1, 2]]
    f = np.float32
    moved = GaussianSplats((r.apply(splats.means) + shift).astype(f), splats.scales, q.astype(f), splats.opacities,
                           rotate_sh(splats.sh, r.as_matrix()))
    a = open_renderer(splats, backend="splat-cpu").render([facing(40, 32)])
    b = open_renderer(moved, backend="splat-cpu").render(
        [facing(40, 32, rotation=r.as_matrix(), position=np.array(shift))])
    # Means below 13 m are rounded by 5e-7 m: at 0.3 m and f = 64 by 1e-4 pixels, of splats some pixels wide. A pixel
    # where a splat is at 1/255 may go either way (4e-3, a few in 1280).
    assert np.abs(a.rgb - b.rgb).mean() < 5e-5
    assert np.abs(a.alpha - b.alpha).mean() < 5e-5
    assert (np.abs(a.depth - b.depth) > 1e-5).mean() < 5e-3


@FEW
@given(st.integers(0, 1000), st.randoms(use_true_random=False))
def test_the_order_of_splats_of_distinct_depths(seed, random):
    splats = random_splats(120, seed, 1)
    assert len(np.unique(splats.means[:, 2])) == 120
    order = list(range(120))
    random.shuffle(order)
    for depth in ("median", "plane", "expected"):
        a, b = (open_renderer(s, RenderSettings(depth=depth), "splat-cpu").render([facing(40, 32)])
                for s in (splats, splats.select(np.array(order))))
        for name in ("rgb", "depth", "alpha"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


@EACH
@FEW
@given(st.integers(0, 1000), TURNS, SHIFTS)
def test_a_mesh_and_cameras_moved_together(backend, seed, turn, shift):
    mesh = soup(seed, 60)
    move = np.eye(4)
    move[:3, :3], move[:3, 3] = Rotation.from_rotvec(turn).as_matrix(), shift
    camera = front(32)
    moved = Camera(Pose(move @ camera.pose.matrix), camera.fx, camera.fy, camera.cx, camera.cy, 32, 32)
    a = open_renderer(mesh, backend=backend).render([camera])
    b = open_renderer(mesh.transformed(move), backend=backend).render([moved])
    # Only samples within 1e-5 pixels of an outline (gl: whose corner goes to another 256th) may see another face;
    # 60 faces have some 500 pixels of outline here, each with a chance of a hundredth by gl.
    for name in ("rgb", "depth", "alpha"):
        assert (np.abs(getattr(a, name) - getattr(b, name)) > 1e-3).mean() < (2e-2 if backend == "gl" else 3e-3)


@EACH
@pytest.mark.parametrize("seed", [1, 2])
def test_the_order_of_faces(backend, seed):
    mesh = soup(seed, 80)
    order = np.random.default_rng(seed).permutation(len(mesh.faces))
    shuffled = TriangleMesh(mesh.vertices, mesh.faces[order], mesh.material_ids[order], mesh.materials, mesh.uv[order],
                            mesh.colors[order])
    a, b = (open_renderer(m, backend=backend).render([front(48)]) for m in (mesh, shuffled))
    # No two of these faces lie in one plane: which is nearest does not depend on what is drawn first.
    for name in ("rgb", "depth", "alpha"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), atol=1e-6)
