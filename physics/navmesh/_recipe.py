"""One build at one voxel size: habitat-sim's sequence of Recast calls (spec/navmesh.md section 2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spatialbench.physics.navmesh._voxels import MAX_SPANS, VoxelSettings, grid_size, heap_needed
from spatialbench.physics.navmesh._wasm import HEAP_LIMIT, Instance, ModuleFailure

__all__ = ["BuildFailure", "build_once"]

_TESSELLATE_WALL_EDGES = 1
_NO_VERTEX = 0xFFFF


class BuildFailure(Exception):
    """Nothing came out at this voxel size."""

    def __init__(self, stage: str, reason: str) -> None:
        self.stage, self.reason = stage, reason
        super().__init__(f"{stage}: {reason}")


def build_once(vertices: NDArray[np.float32], faces: NDArray[np.int32], s: VoxelSettings,
               ) -> tuple[NDArray[np.float32], tuple[tuple[int, ...], ...]]:
    """Polygon vertices [N,3] (float32, metres, y up) and polygons, from a y-up triangle soup.

    Raises
    ------
    BuildFailure : with the stage; ``trap`` when the module itself stopped.
    BackendUnavailableError
    """
    if len(faces) == 0:
        raise BuildFailure("bounds", "the mesh has no triangle")
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    size = _check_grid(low, high, len(vertices), len(faces), s)
    with Instance() as instance:
        run = _Run(instance, s)
        try:
            spans = run.voxelise(vertices, faces, low, high, size)
            if spans > MAX_SPANS:
                raise BuildFailure("spans", f"{spans:,} walkable spans; Recast can number {MAX_SPANS:,}")
            run.partition()
            return run.polygons(low)
        except ModuleFailure as e:
            raise BuildFailure("trap", f"{e} (in the stage '{run.stage}')") from e


def _check_grid(low: NDArray[np.float32], high: NDArray[np.float32], n_vertices: int, n_faces: int,
                s: VoxelSettings) -> tuple[int, int]:
    try:
        width, depth = grid_size(low, high, s.cell_size)
    except OverflowError as e:
        raise BuildFailure("bounds", str(e)) from e
    if width < 1 or depth < 1:
        raise BuildFailure("bounds", f"the mesh is {width} x {depth} columns of {s.cell_size:g} m in plan")
    needed = heap_needed(width * depth, n_vertices, n_faces)
    if needed > HEAP_LIMIT:
        raise BuildFailure("bounds", f"{width:,} x {depth:,} columns and {n_faces:,} triangles need at least "
                           f"{needed / 2**30:.1f} GiB; the limit is {HEAP_LIMIT / 2**30:.3g} GiB")
    return width, depth


class _Run:
    """The objects of one build, on the heap of one instance. They go when the instance goes; only what is large
    and done with is freed before."""

    def __init__(self, instance: Instance, settings: VoxelSettings) -> None:
        self.i = instance
        self.s = settings
        self.stage = "start"
        self.recast = self._new("Recast_Recast_0")
        self.context = self._new("RecastBuildContext_RecastBuildContext_1", 0)
        # Without an implementation behind it the context would call through a null pointer.
        self.i.call("RecastBuildContext_enableLog_1", self.context, 0)
        self.i.call("RecastBuildContext_enableTimer_1", self.context, 0)
        self.compact = 0

    def voxelise(self, vertices: NDArray[np.float32], faces: NDArray[np.int32], low: NDArray[np.float32],
                 high: NDArray[np.float32], size: tuple[int, int]) -> int:
        """Steps 1 to 4: the filtered heightfield; number of its walkable spans."""
        s, n = self.s, len(faces)
        self.stage = "heightfield"
        box = self.i.allocate(24)
        self.i.write(box, np.concatenate([low, high]))
        corners = self._array("FloatArray", vertices)
        indices = self._array("IntArray", faces)
        areas = self._array("UnsignedCharArray", np.zeros(n, np.uint8))
        field = self.field = self._new("Recast_allocHeightfield_0", self.recast)
        self._do("createHeightfield_8", field, *size, box, box + 12, float(s.cell_size), float(s.cell_height))
        self.stage = "rasterise"
        self._call("markWalkableTriangles_7", s.slope_deg, corners, len(vertices), indices, n, areas)
        self._do("rasterizeTriangles_8", corners, len(vertices), indices, areas, n, field, s.climb)
        for kind, array in (("FloatArray", corners), ("IntArray", indices), ("UnsignedCharArray", areas)):
            self.i.call(f"{kind}___destroy___0", array)
        self.stage = "filter"
        hanging, ledges, low_height = s.filters
        if hanging:
            self._call("filterLowHangingWalkableObstacles_3", s.climb, field)
        if ledges:
            self._call("filterLedgeSpans_4", s.height, s.climb, field)
        if low_height:
            self._call("filterWalkableLowHeightSpans_3", s.low_height, field)
        return self._call("getHeightFieldSpanCount_2", field)

    def partition(self) -> None:
        """Steps 5 and 6: the compact heightfield, eroded, in watershed regions."""
        s = self.s
        self.stage = "compact"
        self.compact = self._new("Recast_allocCompactHeightfield_0", self.recast)
        self._do("buildCompactHeightfield_5", s.height, s.climb, self.field, self.compact)
        self.i.call("Recast_freeHeightfield_1", self.recast, self.field)
        self.stage = "erode"
        self._do("erodeWalkableArea_3", s.radius, self.compact)
        self.stage = "regions"
        self._do("buildDistanceField_2", self.compact)
        self._do("buildRegions_5", self.compact, 0, s.min_region_area, s.merge_region_area)

    def polygons(self, low: NDArray[np.float32]) -> tuple[NDArray[np.float32], tuple[tuple[int, ...], ...]]:
        """Steps 7 to 9: contours, polygons, and their vertices in metres."""
        s = self.s
        self.stage = "contours"
        contours = self._new("Recast_allocContourSet_0", self.recast)
        self._do("buildContours_6", self.compact, s.max_edge_error, s.max_edge_len, contours,
                 _TESSELLATE_WALL_EDGES)
        self.stage = "polymesh"
        mesh = self._new("Recast_allocPolyMesh_0", self.recast)
        self._do("buildPolyMesh_4", contours, s.verts_per_poly, mesh)
        n_vertices = self.i.call("rcPolyMesh_get_nverts_0", mesh)
        n_polygons = self.i.call("rcPolyMesh_get_npolys_0", mesh)
        if n_polygons == 0 or n_vertices == 0:
            # Detour refuses a mesh without polygons, and habitat-sim reports that as a failed build.
            raise BuildFailure("empty", f"nothing is walkable at {s.cell_size:g} m")
        stride = 2 * self.i.call("rcPolyMesh_get_nvp_0", mesh)
        at_vertices, at_polygons = (int(p) for p in self.i.read(mesh, 2, "<u4"))
        voxels = self.i.read(at_vertices, 3 * n_vertices, "<u2").reshape(-1, 3).astype(np.float32)
        scale = np.array([s.cell_size, s.cell_height, s.cell_size], np.float32)
        rows = self.i.read(at_polygons, stride * n_polygons, "<u2").reshape(-1, stride)[:, : stride // 2]
        return low + voxels * scale, tuple(tuple(k for k in row if k != _NO_VERTEX) for row in rows.tolist())

    def _new(self, constructor: str, *args: int) -> int:
        address = self.i.call(constructor, *args)
        if address == 0:
            raise BuildFailure(self.stage, self.i.memory_reason())
        return address

    def _array(self, kind: str, data: NDArray) -> int:
        """One of the module's own array objects with a copy of ``data``."""
        array = self._new(f"{kind}_{kind}_0")
        self.i.call(f"{kind}_resize_1", array, data.size)
        address = self.i.call(f"{kind}_getDataPointer_0", array)
        if address == 0:
            raise BuildFailure(self.stage, self.i.memory_reason())
        self.i.write(address, data)
        return array

    def _call(self, name: str, *args: int | float) -> int:
        return self.i.call(f"Recast_{name}", self.recast, self.context, *args)

    def _do(self, name: str, *args: int | float) -> None:
        """A step that tells whether it worked."""
        if not self._call(name, *args) & 0xFF:
            reason = self.i.memory_reason() if self.i.heap_refused else f"Recast's {name.split('_')[0]} gave up"
            if self.stage == "polymesh" and not self.i.heap_refused:
                reason += " (it takes no 65,534 contour vertices or more)"
            raise BuildFailure(self.stage, reason)
