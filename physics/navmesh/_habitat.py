"""An installed habitat-sim as a backend, through its public Python API alone (spec/navmesh.md section 8).

It has no way to build from arrays: the mesh is written as a GLB, loaded as the scene without a renderer, and its
NavMesh is recomputed. What comes back are the triangles of the detail mesh, whose union in plan is that of the
polygons; it says that a build failed, never where.
"""

from __future__ import annotations

import importlib
import json
import re
import struct
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import BackendUnavailableError
from spatialbench.physics.navmesh._engine import BuildFailure
from spatialbench.physics.navmesh._recipe import Polygons
from spatialbench.types import NavMeshSettings

__all__ = ["build_with_habitat", "habitat_version", "profile_of"]

_WHERE = "navmesh backend 'habitat'"
_SAME = ("cell_height", "agent_height", "agent_radius", "agent_max_climb", "agent_max_slope", "region_min_size",
         "region_merge_size", "edge_max_len", "edge_max_error", "detail_sample_dist", "detail_sample_max_error",
         "filter_low_hanging_obstacles", "filter_ledge_spans", "filter_walkable_low_height_spans")


def habitat_version() -> str:
    """Version of the installed habitat-sim.

    Raises
    ------
    BackendUnavailableError : there is none, or it cannot be imported.
    """
    return str(getattr(_module(), "__version__", "of unknown version"))


def profile_of(version: str) -> str:
    """Whose behaviour a release of habitat-sim has (spec/navmesh.md section 3)."""
    numbers = tuple(int(n) for n in re.findall(r"\d+", version)[:3])
    return "habitat-0.3.4" if numbers >= (0, 3, 4) else "habitat-0.3.3"


def build_with_habitat(vertices: NDArray[np.float32], faces: NDArray[np.int32], settings: NavMeshSettings,
                       cell_size: float) -> Polygons:
    """Vertices [N,3] (float32, metres, y up) and triangles, from a y-up triangle soup.

    Raises
    ------
    BuildFailure : ``recompute_navmesh`` said so, or gave nothing.
    BackendUnavailableError : no habitat-sim, or one that behaves as another profile than the one asked for.
    """
    sim_module = _module()
    version = habitat_version()
    if profile_of(version) != settings.profile:
        raise BackendUnavailableError(f"habitat-sim {version} behaves as {profile_of(version)}, not as "
                                      f"{settings.profile}", where=_WHERE,
                                      todo=f"Ask for the profile {profile_of(version)}, or for another backend")
    if len(faces) == 0:
        raise BuildFailure("bounds", "the mesh has no triangle", "no_floor")
    wanted = sim_module.NavMeshSettings()
    wanted.set_defaults()
    wanted.cell_size, wanted.verts_per_poly = cell_size, float(settings.verts_per_poly)
    for name in _SAME:
        setattr(wanted, name, getattr(settings, name))
    if hasattr(wanted, "include_static_objects"):
        wanted.include_static_objects = False
    with tempfile.TemporaryDirectory(prefix="navmesh-") as folder:
        path = Path(folder) / "mesh.glb"
        path.write_bytes(_glb(vertices, faces))
        config = sim_module.SimulatorConfiguration()
        config.scene_id, config.enable_physics = str(path), False
        if hasattr(config, "create_renderer"):
            config.create_renderer = False
        agent = sim_module.agent.AgentConfiguration()
        agent.sensor_specifications = []
        with sim_module.Simulator(sim_module.Configuration(config, [agent])) as sim:
            if not sim.recompute_navmesh(sim.pathfinder, wanted):
                raise BuildFailure("habitat", f"recompute_navmesh gave up at {cell_size:g} m")
            points = np.array(sim.pathfinder.build_navmesh_vertices(), dtype=np.float32).reshape(-1, 3)
            corners = np.array(sim.pathfinder.build_navmesh_vertex_indices(), dtype=np.int64).reshape(-1, 3)
    if not len(corners):
        raise BuildFailure("empty", f"nothing is walkable at {cell_size:g} m")
    return points, tuple((a, b, c) for a, b, c in corners.tolist())


def _module() -> ModuleType:
    try:
        return importlib.import_module("habitat_sim")
    except Exception as e:  # Its compiled part raises whatever its own imports do.
        raise BackendUnavailableError(f"habitat-sim cannot be imported ({type(e).__name__}: {e})", where=_WHERE,
                                      todo="Install it with conda, as docs/habitat.md says, or use the backend "
                                      "'recast'") from e


def _glb(vertices: NDArray[np.float32], faces: NDArray[np.int32]) -> bytes:
    """One node with one mesh of float32 positions and 32-bit indices; neither welded nor reordered."""
    indices, positions = faces.astype("<u4").tobytes(), vertices.astype("<f4").tobytes()
    views = [{"buffer": 0, "byteOffset": 0, "byteLength": len(positions), "target": 34962},
             {"buffer": 0, "byteOffset": len(positions), "byteLength": len(indices), "target": 34963}]
    accessors: list[dict[str, Any]] = [
        {"bufferView": 0, "componentType": 5126, "count": len(vertices), "type": "VEC3",
         "min": vertices.min(axis=0).tolist(), "max": vertices.max(axis=0).tolist()},
        {"bufferView": 1, "componentType": 5125, "count": faces.size, "type": "SCALAR"}]
    text = json.dumps({"asset": {"version": "2.0"}, "scene": 0, "scenes": [{"nodes": [0]}], "nodes": [{"mesh": 0}],
                       "meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "indices": 1}]}],
                       "buffers": [{"byteLength": len(positions) + len(indices)}], "bufferViews": views,
                       "accessors": accessors}, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 4)
    body = positions + indices
    return (struct.pack("<4sII", b"glTF", 2, 28 + len(text) + len(body)) + struct.pack("<I4s", len(text), b"JSON")
            + text + struct.pack("<I4s", len(body), b"BIN\0") + body)
