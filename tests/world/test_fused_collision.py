"""Which collision mesh a world of splats gets: its collider's, a fused one, or none where none can count."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spatialbench.scene import load_scene
from spatialbench.scene.splats.write_ply import write_splat_ply
from spatialbench.types import TriangleMesh
from spatialbench.world import FrameOverrides, build_world, fused_collision
from tests import analytic as A
from tests.splats import splat_mesh
from tests.worlds import quick_protocol

pytest.importorskip("embreex")

P = quick_protocol("fusion.rounds=[2, 2, 2]", "fusion.image=128", "fusion.checks=1")
AT = FrameOverrides(up=(0.0, 0.0, 1.0), unit_m=1.0, camera_position=A.EYE, camera_forward=(0.0, 1.0, 0.0))


def pair(folder: Path, collider: TriangleMesh) -> Path:
    """A room of splats and a collider named after it."""
    write_splat_ply(splat_mesh(A.table_room(), 0.06), folder / "room.ply")
    lines = [f"v {x:.6f} {y:.6f} {z:.6f}" for x, y, z in collider.vertices]
    lines += [f"f {a + 1} {b + 1} {c + 1}" for a, b, c in collider.faces]
    (folder / "room_collider.obj").write_text("\n".join(lines) + "\n")
    return folder / "room.ply"


def moved(shift: tuple[float, float, float] = (0.0, 0.0, 0.0), factor: float = 1.0) -> TriangleMesh:
    mesh = A.table_room()
    return TriangleMesh(factor * mesh.vertices + shift, mesh.faces)


@pytest.mark.parametrize("shift", [(0.0, 0.0, 0.0), (0.05, -0.05, 0.0)])
def test_a_collider_that_lies_on_the_splats_wins(tmp_path: Path, shift: tuple[float, float, float]) -> None:
    scene = load_scene(pair(tmp_path, moved(shift)))
    assert scene.report.kind == "both"
    assert scene.report.details["overlap"]["used"]
    world = build_world(scene, P, None, AT)
    assert world.collision.geometry == "collider"
    assert world.collision.fusion is None
    assert world.collision.mesh is not None
    assert len(world.collision.mesh.faces) == len(A.table_room().faces)
    # As given: nothing of it was fused. The camera is 1.6 m over the splats' floor.
    assert world.collision.mesh.vertices[:, 2].min() == pytest.approx(-1.6, abs=1e-4)
    assert world.seen_geometry == "splats"
    assert len(world.supports) == 1


@pytest.mark.parametrize(("shift", "factor"), [((4.0, 0.0, 0.0), 1.0), ((0.0, 0.0, 0.0), 100.0)])
def test_a_collider_elsewhere_or_of_another_unit_is_replaced_by_a_fused_mesh(
        tmp_path: Path, shift: tuple[float, float, float], factor: float) -> None:
    scene = load_scene(pair(tmp_path, moved(shift, factor)))
    assert scene.report.kind == "splats"
    assert not scene.report.details["overlap"]["used"]
    assert any("room_collider.obj' is not used" in w for w in scene.report.warnings)
    world = build_world(scene, P, None, AT)
    assert world.collision.geometry == "fused_mesh"
    assert world.collision.fusion is not None
    assert world.collision.fusion.backend == "fusion"


def test_a_world_of_one_point_has_nothing_to_fuse() -> None:
    splats = splat_mesh(A.box_room(), 0.5)
    far = type(splats)(splats.means + np.float32(1000), splats.scales, splats.quaternions, splats.opacities, splats.sh)
    collision, words = fused_collision.fused_collision(far, -1.6, P, lambda *_: None)
    assert collision.mesh is None
    assert len(words) == 1
