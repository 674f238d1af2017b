"""The room as splats: a valid file that looks and measures like the mesh."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from spatialbench.assets.room import layout
from spatialbench.assets.room.splats import THICKNESS, to_splat_frame
from spatialbench.renderers.backends import open_renderer
from spatialbench.renderers.raycast import MeshRayCaster
from spatialbench.renderers.trajectories import ring
from spatialbench.scene.load import load_scene
from spatialbench.types import (
    Camera,
    Frames,
    GaussianSplats,
    Pose,
    TriangleMesh,
    level_pose,
    look_at_pose,
)

ASSETS = Path(str(resources.files("spatialbench.assets")))
PLY = ASSETS / "sample_room_splats.ply"
README = (ASSETS / "README.md").read_text(encoding="utf-8")
SIZE = 384
TO_FILE = np.array([[1.0, 0, 0, 0], [0, 0, -1, 0], [0, 1, 0, 0], [0, 0, 0, 1]])
"""World (X right, Y forward, Z up, camera at the origin) to the splats' frame (x right, y down, z forward)."""
LATTICE = 0.052
"""Widest cells of the shell, m."""


@pytest.fixture(scope="module")
def splats() -> GaussianSplats:
    s = load_scene(PLY).splats
    assert s is not None
    return s


@pytest.fixture(scope="module")
def mesh() -> TriangleMesh:
    """World frame, by the README's formula."""
    m = load_scene(ASSETS / "sample_room.glb").mesh
    assert m is not None
    v = m.vertices.astype(np.float64)
    return replace(m, vertices=np.stack([v[:, 0] + 0.94, 1.05 - v[:, 2], v[:, 1] - 1.6], axis=1))


@dataclass
class Pair:
    """The same views of both."""

    splats: Frames
    mesh: Frames

    def both(self) -> NDArray[np.bool_]:
        return (self.alpha(self.splats) >= 0.5) & (self.alpha(self.mesh) >= 0.5)

    @staticmethod
    def alpha(f: Frames) -> NDArray[np.float32]:
        assert f.alpha is not None
        return f.alpha

    def depth_difference(self) -> NDArray[np.float32]:
        """Splats minus mesh, m, where both have depth."""
        assert self.splats.depth is not None
        assert self.mesh.depth is not None
        return (self.splats.depth - self.mesh.depth)[self.both()]


def pair(splats: GaussianSplats, mesh: TriangleMesh, cameras: list[Camera]) -> Pair:
    turned = [replace(c, pose=Pose(TO_FILE @ c.pose.matrix)) for c in cameras]
    return Pair(open_renderer(splats).render(turned), open_renderer(mesh).render(cameras))


@pytest.fixture(scope="module")
def around(splats: GaussianSplats, mesh: TriangleMesh) -> Pair:
    """Every third view of the protocol's ring, at half of its resolution."""
    return pair(splats, mesh, ring(np.zeros(3), 12, SIZE))


def test_file_is_a_plain_small_3dgs_ply(splats: GaussianSplats) -> None:
    assert PLY.stat().st_size <= 6 << 20
    head = PLY.read_bytes()[:2000].split(b"end_header\n")[0].decode()
    names = re.findall(r"property float (\S+)", head)
    assert names == ["x", "y", "z", "f_dc_0", "f_dc_1", "f_dc_2", "opacity", "scale_0", "scale_1", "scale_2",
                     "rot_0", "rot_1", "rot_2", "rot_3"]
    assert "Apache-2.0" in head
    assert len(splats) >= 100_000
    assert splats.sh_degree == 0
    report = load_scene(PLY).report
    assert report.warnings == []
    assert report.repairs == []
    assert f"{len(splats):,} splats" in README


def test_splats_are_flat_and_none_floats(splats: GaussianSplats, mesh: TriangleMesh) -> None:
    np.testing.assert_allclose(np.sort(splats.scales, axis=1)[:, 0], np.minimum(THICKNESS, splats.scales[:, :2].min(1)),
                               rtol=1e-5)
    assert splats.scales.max() < 0.10
    assert splats.opacities.min() > 0.8
    # Along its third axis every centre meets the mesh at once: at 5 mm from a place 5 mm off the surface, or before
    # where sheets are thin or surfaces near.
    w, x, y, z = splats.quaternions.astype(np.float64).T
    normal = np.stack([2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)], axis=1) @ TO_FILE[:3, :3]
    centre = splats.means.astype(np.float64) @ TO_FILE[:3, :3]
    caster = MeshRayCaster(mesh.vertices, mesh.faces)
    distance = caster.first_hits(centre + 0.005 * normal, -normal).distance
    assert np.mean(np.abs(distance - 0.005) < 2e-5) > 0.98
    assert distance.max() < 0.005 + 2e-6  # of float32 coordinates up to 5 m


def test_frame_is_the_world_frame_turned() -> None:
    np.testing.assert_allclose(to_splat_frame(np.array(layout.CAMERA) + [1, 2, 3]), [1, -3, 2], atol=1e-12)
    np.testing.assert_allclose(TO_FILE[:3, :3] @ [1, 2, 3], [1, -3, 2])


def test_hole_rate_agrees_with_the_mesh(around: Pair) -> None:
    holes = {k: float((Pair.alpha(f) < 0.5).mean()) for k, f in (("splats", around.splats), ("mesh", around.mesh))}
    assert holes["mesh"] == pytest.approx(0.072, abs=0.001)
    assert holes["splats"] == pytest.approx(holes["mesh"], abs=0.005)
    # Along outlines only: those of the openings are about 9 sides of an image long in the twelve views, and 2 pixels'
    # width of that is 9 * 2 / (12 * 384) of all.
    differ = (Pair.alpha(around.splats) < 0.5) != (Pair.alpha(around.mesh) < 0.5)
    assert differ.mean() < 0.004


def test_depth_agrees_with_the_mesh(around: Pair) -> None:
    """A surface seen aslant shows the nearer ones of the splats that overlap in a pixel.

    By a simulation of a lattice of pitch p at this opacity and width, its depth is 0.46 p sin(a) too near on average
    and 0.78 p sin(a) in 95 of 100 pixels, a being the angle between viewing direction and normal; p is 5.2 cm.
    """
    d = around.depth_difference()
    assert -0.46 * LATTICE < np.median(d) <= 0.0
    assert np.quantile(np.abs(d), 0.95) < 0.78 * LATTICE + 0.008  # a = 90 degrees; the 8 mm for pixels on outlines


def test_surfaces_seen_straight_on_have_the_mesh_s_depth(splats: GaussianSplats, mesh: TriangleMesh) -> None:
    """The floor from the camera, table and book from above: no lattice shows, each centre is on the surface."""
    down = [Camera.from_fov(level_pose(p, 0.0, -90.0), 40.0, 96) for p in
            ((0.0, 0.0, 0.0), (2.19, 1.11, -0.3), (2.3, 0.3, -0.4))]
    p = pair(splats, mesh, down)
    d = np.abs(p.depth_difference())
    assert np.median(d) < 1e-5
    assert np.median(np.abs(p.splats.depth[0] - 1.6)) < 1e-5  # type: ignore[index]
    # The book's upper side is 2.4 cm above the table (the README), here in one image.
    assert p.splats.depth is not None
    x, y, z = 1.41 + 0.94, 0.06 + 1.05, 0.75 + 0.024 - 1.6
    above = pair(splats, mesh, [Camera.from_fov(level_pose((x, y, z + 0.5), 0.0, -90.0), 30.0, 33)])
    assert above.splats.depth is not None
    assert above.splats.depth[0, 16, 16] == pytest.approx(0.5, abs=1e-5)


def test_edges_of_the_doorway_are_the_mesh_s(splats: GaussianSplats, mesh: TriangleMesh) -> None:
    """To 2 cm, 1.36 m away."""
    n, fov = 640, 75.0
    p = pair(splats, mesh, [Camera.from_fov(level_pose(np.zeros(3), -90.0), fov, n)])
    pixels = 0.02 / 1.36 * 0.5 * n / math.tan(math.radians(fov / 2))
    for line in ((0, slice(n // 2, n // 2 + 1), slice(None)), (0, slice(None), slice(n // 2, n // 2 + 1))):
        ends = [np.flatnonzero(Pair.alpha(f)[line].ravel() < 0.5)[[0, -1]] for f in (p.splats, p.mesh)]
        assert np.abs(ends[0] - ends[1]).max() < pixels


def test_colours_agree_with_the_mesh(around: Pair) -> None:
    assert around.splats.rgb is not None
    assert around.mesh.rgb is not None
    both = around.both()
    for k in range(12):
        difference = (around.splats.rgb[k] - around.mesh.rgb[k])[both[k]]
        # Of the whole view; splats let through 3 to 5 % of the light, which their colours make up for.
        assert np.abs(difference.mean(axis=0)).max() < 0.02
    difference = np.abs((around.splats.rgb - around.mesh.rgb)[both])
    assert difference.mean() < 0.035


def test_surfaces_are_opaque(splats: GaussianSplats, mesh: TriangleMesh, around: Pair) -> None:
    """Away from holes and from steps in depth, in the ring and in views from elsewhere."""
    from scipy.ndimage import maximum_filter, minimum_filter

    views = ring((1.2, 1.6, -0.3), 6, SIZE) + [Camera.from_fov(look_at_pose(a, b), 75.0, SIZE) for a, b in (
        ((0.0, 2.2, -0.6), (2.0, 3.6, -1.0)), ((1.3, -0.4, -0.4), (3.0, -2.0, -0.8)))]
    for p in (around, pair(splats, mesh, views)):
        assert p.mesh.depth is not None
        for a, solid, z in zip(Pair.alpha(p.splats), Pair.alpha(p.mesh), p.mesh.depth, strict=True):
            near, far = minimum_filter(z, 7), maximum_filter(z, 7)
            inner = (minimum_filter(solid, 7) > 0.5) & (far < 1.15 * near)
            assert a[inner].min() > 0.75  # no pinhole: half is what counts as one
            assert np.quantile(a[inner], 0.002) > 0.9
            assert np.mean(a[inner] >= 0.95) > 0.95
