"""One PyBullet simulation with the scene in it, and single releases of a body there (placement.md sections 1 and 2)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.physics.placement.backend import bullet_client
from spatialbench.physics.placement.release import Quaternion, Release, Vec3
from spatialbench.physics.placement.static_scene import add_static_scene

if TYPE_CHECKING:
    from spatialbench.types.placement import PlacedObject, PlacementSettings

__all__ = ["Motion", "Session", "open_session"]

LOST = "PyBullet lost the body (its position is not finite)"


@dataclass(frozen=True)
class Motion:
    """What became of one release, before it is judged.

    Attributes
    ----------
    position, quaternion : of the centre at the end, m and xyzw.
    velocity : m/s at the end.
    penetration : m at the release.
    path : x, y, z and quaternion every so many steps, from the release on; empty unless asked for.
    error : what went wrong instead; nothing else holds then.
    """

    position: Vec3 = (0.0, 0.0, 0.0)
    quaternion: Quaternion = (0.0, 0.0, 0.0, 1.0)
    velocity: Vec3 = (0.0, 0.0, 0.0)
    penetration: float = 0.0
    path: tuple[tuple[float, ...], ...] = ()
    error: str = ""


@dataclass(eq=False)
class Session:
    """A client with the static scene. Releases do not influence each other.

    Attributes
    ----------
    p, client : PyBullet and the number of this simulation.
    scene : body numbers of the scene.
    """

    p: Any
    client: int
    settings: PlacementSettings
    placed: PlacedObject
    scene: list[int] = field(default_factory=list)

    def drop(self, release: Release, record: int = 0) -> Motion:
        """Let the body go and step to the end; its pose is kept every ``record`` steps, if that is not 0."""
        body, penetration = self.put(release)
        path: list[tuple[float, ...]] = []
        try:
            for k in range(self.settings.steps):
                if record and k % record == 0:
                    path.append(self.pose(body))
                self.p.stepSimulation(physicsClientId=self.client)
            position, quaternion = self.p.getBasePositionAndOrientation(body, physicsClientId=self.client)
            velocity, _ = self.p.getBaseVelocity(body, physicsClientId=self.client)
            if record:
                path.append(self.pose(body))
        finally:
            self.p.removeBody(body, physicsClientId=self.client)
        if not np.isfinite([*position, *quaternion, *velocity]).all():
            return Motion(error=LOST)
        return Motion(tuple(position), tuple(quaternion), tuple(velocity), penetration, tuple(path))

    def put(self, release: Release) -> tuple[int, float]:
        """Add the body at rest; its number and how deep it starts inside of the scene, m."""
        p, s = self.p, self.settings
        p.setGravity(0, 0, -s.gravity, physicsClientId=self.client)
        # The contact threshold is global to the process: another user of PyBullet may have changed it.
        p.setPhysicsEngineParameter(fixedTimeStep=1.0 / s.steps_per_second, numSubSteps=0,
                                    numSolverIterations=s.solver_iterations, contactBreakingThreshold=0.02,
                                    physicsClientId=self.client)
        body = self._add(release)
        p.performCollisionDetection(physicsClientId=self.client)
        # Points with a positive distance (not yet touching) are listed too.
        distances = [c[8] for fixed in self.scene
                     for c in p.getContactPoints(body, fixed, physicsClientId=self.client)]
        return body, max(0.0, -min(distances, default=0.0))

    def pose(self, body: int) -> tuple[float, ...]:
        """x, y, z and quaternion xyzw."""
        position, quaternion = self.p.getBasePositionAndOrientation(body, physicsClientId=self.client)
        return (*position, *quaternion)

    def _add(self, r: Release) -> int:
        p, o = self.p, self.placed
        if o.shape == "cylinder":
            what: dict[str, Any] = {"shapeType": p.GEOM_CYLINDER, "radius": o.size[0], "height": o.size[1]}
        elif o.shape == "box":
            what = {"shapeType": p.GEOM_BOX, "halfExtents": [e / 2 for e in o.size]}
        elif o.shape == "sphere":
            what = {"shapeType": p.GEOM_SPHERE, "radius": o.size[0]}
        else:  # vertices without indices are taken as a convex hull
            what = {"shapeType": p.GEOM_MESH, "vertices": o.hull.tolist()}
        shape = p.createCollisionShape(**what, physicsClientId=self.client)
        body = p.createMultiBody(o.mass, shape, -1, r.centre, r.quaternion, physicsClientId=self.client)
        p.changeDynamics(body, -1, lateralFriction=o.friction, physicsClientId=self.client)
        if o.shape == "hull":  # its margin is around the corners, not inside of them
            p.changeDynamics(body, -1, collisionMargin=0.0, physicsClientId=self.client)
        return int(body)


@contextmanager
def open_session(v: NDArray[np.float64], f: NDArray[np.int64], settings: PlacementSettings, placed: PlacedObject, *,
                 window: str = "") -> Iterator[Session]:
    """A simulation with a checked mesh in it, closed afterwards.

    Parameters
    ----------
    v, f : [V,3] m, Z up, and [F,3], as ``check_mesh`` and ``with_area`` give them.
    window : options of PyBullet's window; none is opened when empty.

    Raises
    ------
    BackendUnavailableError, SimulationError : no PyBullet, or it refuses the mesh.
    """
    with bullet_client(window) as (p, client):
        session = Session(p, client, settings, placed)
        p.setGravity(0, 0, -settings.gravity, physicsClientId=client)
        session.scene = add_static_scene(p, client, v, f, settings.chunk_triangles, settings.scene_friction)
        yield session
