"""M25 in a world: a crash of the simulator, and diagnostics where the facing rule has turned the mesh over."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from spatialbench.observe import REGISTRY, Context, Observations
from spatialbench.observe.evaluate import evaluate
from spatialbench.physics.placement import workers
from spatialbench.tracks import load_tracks
from spatialbench.types import Status, TriangleMesh, load_protocol
from spatialbench.types.protocol_rules import Crop
from spatialbench.world.collision import collision_mesh
from spatialbench.world.support_choice import Anchored, supports_of
from tests.physics.placement_scenes import box, join

PROTOCOL = load_protocol("happyworld-spatial-1", ("placement.steps=48",))
GROUND = -1.6


def observe() -> Observations:
    """A table of 1.2 x 0.8 m between a floor and a roof of 0.5 m, all closed: most of their area looks away from the
    camera."""
    load_tracks()
    v, f = join(box(-4, -4, GROUND - 0.5, 4, 4, GROUND), box(0.5, 0.5, 1, 3, 3, 1.5),
                box(1, 1, GROUND + 0.70, 2.2, 1.8, GROUND + 0.75))
    mesh = TriangleMesh(v, f.astype(np.int32))
    collision = collision_mesh(mesh, GROUND, Crop())
    supports, _ = supports_of(Anchored(mesh, np.eye(3), np.zeros(3), 1.0), collision, GROUND, None, PROTOCOL)
    world: Any = SimpleNamespace(collision=collision, footprint_area=64.0, gates=(), raised=lambda: (),
                                 scale=SimpleNamespace(protocol=True, branch="floor"), has_scale=True,
                                 supports=supports, support_annotated=False)
    return Observations(Context(PROTOCOL, {"main": world}, None, "case", "system"))


def test_a_mesh_that_was_turned_over_is_looked_at_as_it_is_wound() -> None:
    obs = observe()
    assert obs.world.collision.reversed
    assert obs.world.collision.facing_disagrees
    done = REGISTRY.metric("M25").compute(obs)
    assert (done.status, done.value) == (Status.MEASURED, 1.0)
    assert done.components["support_area"] == pytest.approx(0.96, rel=0.01)
    for trial in obs.get("spatial.placement").results["footprint_median"]:
        # Above every plate is the roof's underside; it is met from behind only where it is turned over.
        assert trial.diagnostics["inside_solid"] is False


def test_a_crash_of_the_simulator_costs_m25_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "WORKER", "tests.physics.crashing_worker")
    m25, m08 = evaluate(["M25", "M08"], observe())
    assert (m25.status, m25.value) == (Status.INVALID, None)
    assert "PyBullet crashed in this trial: its process was ended by SIGSEGV" in m25.reason
    assert m08.status is Status.MEASURED
