"""Fusion of real rooms against their own surfaces: the table of real-worlds.md section 2."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from spatialbench.renderers.backends import open_renderer
from spatialbench.scene import load_scene
from spatialbench.types import TriangleMesh
from spatialbench.types.protocol_rules import Fusion
from spatialbench.world.fusion import FusedMesh, _kernels, fuse
from tests.worlds import TO_Y_UP, moved

pytest.importorskip("embreex")

ROOMS = {
    # name: file, yaw to a forward axis and initial camera (Y-up file, m), p50 and p95 of the table at +2/-1, mm
    "ar_living": ("ar_living_room.glb", 4.0, (1.018, 1.620, -0.610), (3, 13)),
    "garage": ("garage/garage.gltf", 31.0, (-0.708, 1.609, 0.541), (2, 9)),
}


def room(data_dir: Path, name: str) -> TriangleMesh:
    """In the world frame: Z up, turned to its forward axis, camera at the origin."""
    file, yaw, eye, _ = ROOMS[name]
    mesh = load_scene(data_dir / "scenes" / "meshes" / file).mesh
    assert mesh is not None
    s, c = math.sin(math.radians(yaw)), math.cos(math.radians(yaw))
    turn = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]) @ TO_Y_UP.T
    return moved(mesh, turn, -turn @ eye)


def fused(mesh: TriangleMesh) -> FusedMesh:
    low, high = mesh.bounds()
    return fuse(open_renderer(mesh), np.maximum(low - 0.3, -8), np.minimum(high + 0.3, 8), Fusion(image=256))


def distances(result: FusedMesh, source: TriangleMesh) -> NDArray[np.float64]:
    """Millimetres from 2,000 of the fused vertices to the source's surface."""
    assert result.mesh is not None
    source = source.select(np.linalg.norm(source.area_vectors(), axis=1) > 0)
    reach = np.linalg.norm(source.triangles - np.roll(source.triangles, 1, axis=1), axis=2).max()
    v = result.mesh.vertices
    v = v[np.random.default_rng(0).choice(len(v), 2000, replace=False)]
    return 1000 * _kernels.mesh_distances(v, source.vertices, source.faces, float(reach))


@pytest.mark.slow
@pytest.mark.parametrize("name", list(ROOMS))
def test_a_real_room_is_as_near_to_its_source_as_published(data_dir: Path, name: str) -> None:
    source = room(data_dir, name)
    result = fused(source)
    p50, p95 = np.percentile(distances(result, source), [50, 95])
    table = ROOMS[name][3]
    # The table has whole millimetres, 31 viewpoints of another draw and another yaw against the grid. The median is on
    # flat surfaces: within its rounding. The 95th percentile is on edges and rims, whose share changes with where the
    # viewpoints stand and with the grid: a third more.
    assert p50 <= table[0] + 0.5
    assert p95 <= 1.33 * table[1]
    q = result.quality
    assert q.viewpoints == 31
    assert q.holes is not None
    assert q.holes < 0.005
    assert q.bias is not None
    assert abs(q.bias) < 0.005
    assert q.far is not None
    assert q.far < 0.02
    assert q.clearance is not None
    assert q.clearance > 0.05
