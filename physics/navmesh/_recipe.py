"""One build at one voxel size: habitat-sim's sequence of Recast calls (spec/navmesh.md section 2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from spatialbench.physics.navmesh._engine import BuildFailure, Engine, ModuleFailure, Oversized
from spatialbench.physics.navmesh._voxels import (
    HEAP_LIMIT,
    MAX_SPANS,
    UNIT_HINT,
    VoxelSettings,
    grid_size,
    heap_needed,
    raster_work,
    span_bound,
    spans_in_heap,
)

__all__ = ["Polygons", "build_once"]

RASTER_LIMIT = 2_000_000_000
"""Cells in the boxes of all triangles that are rasterised without counting the work: some ten seconds."""
CONTOUR_LIMIT = 1_000_000_000
"""Likewise the sum of n^3 over the contours: polygons are merged by comparing all pairs again and again."""

_TESSELLATE_WALL_EDGES = 1
_NO_VERTEX = 0xFFFF

Polygons = tuple[NDArray[np.float32], tuple[tuple[int, ...], ...]]


def build_once(open_engine: Callable[[bool], Engine], vertices: NDArray[np.float32], faces: NDArray[np.int32],
               s: VoxelSettings, bounded: Callable[[bool], Engine] | None = None) -> Polygons:
    """Polygon vertices [N,3] (float32, metres, y up) and polygons, from a y-up triangle soup.

    Parameters
    ----------
    open_engine : gives a fresh engine; told whether it has to count its work. Counting costs a fifth of the time, so
        that only builds that might take minutes are counted.
    bounded : for an engine without limits of its own gives one that has them. What might make more spans than its
        heap holds is rasterised by it first, so that the other is never asked for more. None: not needed.

    Raises
    ------
    BuildFailure : with the stage; ``trap`` when the engine itself stopped.
    BackendUnavailableError
    """
    if len(faces) == 0:
        raise BuildFailure("bounds", "the mesh has no triangle", "no_floor")
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    size = _check_grid(low, high, len(vertices), len(faces), s)

    def build(engine: Engine) -> Polygons:
        with _running(engine, vertices, faces, low, high, size, s) as run:
            return _build(run)

    room = spans_in_heap(size[0] * size[1], len(vertices), len(faces))
    if bounded is not None and span_bound(vertices, faces, s.cell_size) > room:
        with _running(bounded(True), vertices, faces, low, high, size, s) as trial:
            trial.rasterise()
    if raster_work(vertices, faces, s.cell_size) <= RASTER_LIMIT:
        try:
            return build(open_engine(False))
        except Oversized:
            pass
    return build(open_engine(True))


@contextmanager
def _running(engine: Engine, vertices: NDArray[np.float32], faces: NDArray[np.int32], low: NDArray[np.float32],
             high: NDArray[np.float32], size: tuple[int, int], s: VoxelSettings) -> Iterator[_Run]:
    """A build with that engine, which is closed at its end; BuildFailure when the engine stops."""
    run = _Run(engine, s, vertices, faces, low, high, size)
    try:
        yield run
    except ModuleFailure as e:
        raise BuildFailure("trap", f"{run.why_refused() or e} (in the stage '{run.stage}')") from e
    finally:
        engine.close()


def _build(run: _Run) -> Polygons:
    spans = run.voxelise()
    if spans > MAX_SPANS:
        raise BuildFailure("spans", f"{spans:,} walkable spans at {run.s.cell_size:g} m; Recast can number "
                           f"{MAX_SPANS:,}; {UNIT_HINT}")
    if spans == 0:
        raise run.why_no_span()
    run.partition()
    return run.polygons()


def _check_grid(low: NDArray[np.float32], high: NDArray[np.float32], n_vertices: int, n_faces: int,
                s: VoxelSettings) -> tuple[int, int]:
    try:
        width, depth = grid_size(low, high, s.cell_size)
    except OverflowError as e:
        raise BuildFailure("bounds", str(e)) from e
    if width < 1 or depth < 1:
        raise BuildFailure("bounds", f"the mesh is {width} x {depth} columns of {s.cell_size:g} m in plan", "no_floor")
    needed = heap_needed(width * depth, n_vertices, n_faces)
    if needed > HEAP_LIMIT:
        raise BuildFailure("bounds", f"{width:,} x {depth:,} columns of {s.cell_size:g} m and {n_faces:,} triangles "
                           f"need at least {needed / 2**30:.1f} GiB; the limit is {HEAP_LIMIT / 2**30:.3g} GiB; "
                           f"{UNIT_HINT}")
    return width, depth


class _Run:
    """The objects of one build. They go when the engine is closed; only what is large and done with goes before."""

    def __init__(self, engine: Engine, settings: VoxelSettings, vertices: NDArray[np.float32],
                 faces: NDArray[np.int32], low: NDArray[np.float32], high: NDArray[np.float32],
                 size: tuple[int, int]) -> None:
        self.e, self.s = engine, settings
        self.vertices, self.faces = vertices, faces
        self.low, self.high, self.size = low, high, size
        self.stage = "start"
        self.field = self.compact = 0

    def voxelise(self) -> int:
        """Steps 1 to 4: the filtered heightfield; number of its walkable spans."""
        self.rasterise()
        self.stage = "filter"
        s = self.s
        hanging, ledges, low_height = s.filters
        if hanging:
            self.e.call("filterLowHangingWalkableObstacles", s.climb, self.field)
        clearance = s.clearance + self.e.clearance_offset
        if ledges:
            self.e.call("filterLedgeSpans", clearance, s.climb, self.field)
        if low_height:
            self.e.call("filterWalkableLowHeightSpans", clearance, self.field)
        return self._spans()

    def why_no_span(self) -> BuildFailure:
        """Which filter took the last floor; voxelises once more."""
        s = self.s
        self.e.free("Heightfield", self.field)
        self.rasterise()
        self.stage = "empty"
        where = f"nothing is walkable at {s.cell_size:g} m: "
        if not self._spans():
            return BuildFailure("empty", where + f"no face looks up within {s.slope_deg:g} degrees", "no_floor")
        if s.filters[0]:
            self.e.call("filterLowHangingWalkableObstacles", s.climb, self.field)
        if s.filters[1]:
            self.e.call("filterLedgeSpans", s.clearance + self.e.clearance_offset, s.climb, self.field)
        why = ("every floor is under something: the agent needs "
               f"{s.clearance} free voxels ({s.clearance * float(s.cell_height):g} m)" if self._spans() else
               f"every floor is a step or a drop of more than {s.climb * float(s.cell_height):g} m")
        return BuildFailure("empty", where + why, "agent_does_not_fit")

    def why_refused(self) -> str:
        """That memory was refused, and what to do; empty when it was not."""
        why = self.e.why()
        return f"{why} with voxels of {self.s.cell_size:g} m; {UNIT_HINT}" if why else ""

    def partition(self) -> None:
        """Steps 5 and 6: the compact heightfield, eroded, in watershed regions."""
        s = self.s
        self.stage = "compact"
        self.compact = self._new("CompactHeightfield")
        self._do("buildCompactHeightfield", s.height, s.climb, self.field, self.compact)
        self.e.free("Heightfield", self.field)
        self.stage = "erode"
        self._do("erodeWalkableArea", s.radius, self.compact)
        self.stage = "regions"
        self._do("buildDistanceField", self.compact)
        self._do("buildRegions", self.compact, 0, s.min_region_area, s.merge_region_area)

    def polygons(self) -> Polygons:
        """Steps 7 to 9: contours, polygons, and their vertices in metres."""
        s = self.s
        self.stage = "contours"
        contours = self._new("ContourSet")
        self._do("buildContours", self.compact, s.max_edge_error, s.max_edge_len, contours, _TESSELLATE_WALL_EDGES)
        if not self.e.metered and float((self._contour_sizes(contours) ** 3).sum()) > CONTOUR_LIMIT:
            raise Oversized
        self.stage = "polymesh"
        mesh = self._new("PolyMesh")
        self._do("buildPolyMesh", contours, s.verts_per_poly, mesh)
        # rcPolyMesh: pointers to vertices, polygons, regions, flags and areas, then nverts, npolys, maxpolys, nvp.
        at_vertices, at_polygons = (int(p) for p in self.e.read(mesh, 2, self.e.pointer))
        counts = self.e.read(mesh + 5 * np.dtype(self.e.pointer).itemsize, 4, "<i4")
        n_vertices, n_polygons, stride = int(counts[0]), int(counts[1]), 2 * int(counts[3])
        if n_polygons == 0 or n_vertices == 0:
            # Detour refuses a mesh without polygons, and habitat-sim reports that as a failed build.
            raise self._why_no_polygon(contours)
        voxels = self.e.read(at_vertices, 3 * n_vertices, "<u2").reshape(-1, 3).astype(np.float32)
        scale = np.array([s.cell_size, s.cell_height, s.cell_size], np.float32)
        rows = self.e.read(at_polygons, stride * n_polygons, "<u2").reshape(-1, stride)[:, : stride // 2]
        return self.low + voxels * scale, tuple(tuple(k for k in row if k != _NO_VERTEX) for row in rows.tolist())

    def rasterise(self) -> None:
        """Steps 1 and 2: the heightfield with all spans."""
        s, n, e = self.s, len(self.faces), self.e
        self.stage = "heightfield"
        box = e.vector(np.concatenate([self.low, self.high]))
        corners, indices, areas = (self._made(e.array(a)) for a in (
            self.vertices, self.faces, np.zeros(n, np.uint8)))
        self.field = self._new("Heightfield")
        self._do("createHeightfield", self.field, *self.size, box, box + 12, float(s.cell_size), float(s.cell_height))
        self.stage = "rasterise"
        e.call("markWalkableTriangles", s.slope_deg, corners, len(self.vertices), indices, n, areas)
        self._do("rasterizeTriangles", corners, len(self.vertices), indices, areas, n, self.field, s.climb)
        for array in (corners, indices, areas):
            e.drop(array)

    def _spans(self) -> int:
        return self.e.call("getHeightFieldSpanCount", self.field)

    def _contour_sizes(self, contours: int) -> NDArray[np.float64]:
        """Vertices of each. rcContourSet: pointer, count; rcContour: pointer, n, pointer, n, short, byte."""
        size = np.dtype(self.e.pointer).itemsize
        at = int(self.e.read(contours, 1, self.e.pointer)[0])
        n = int(self.e.read(contours + size, 1, "<i4")[0])
        row = 20 if size == 4 else 32
        counts = self.e.read(at, n * row // 4, "<i4").reshape(n, row // 4)[:, size // 4]
        return np.asarray(counts, dtype=np.float64)

    def _why_no_polygon(self, contours: int) -> BuildFailure:
        """rcCompactHeightfield: six ints (the third: spans), two shorts, 8 floats, then pointers to cells, spans,
        distances and areas."""
        s = self.s
        n_spans = int(self.e.read(self.compact + 8, 1, "<i4")[0])
        size = np.dtype(self.e.pointer).itemsize
        pointers = -(-60 // size) * size
        at = int(self.e.read(self.compact + pointers + 3 * size, 1, self.e.pointer)[0])
        fits = int(np.count_nonzero(self.e.read(at, n_spans, "u1")))
        where = f"nothing is walkable at {s.cell_size:g} m: "
        if not fits:
            return BuildFailure("empty", where + "every floor is narrower than the agent", "agent_does_not_fit")
        if not len(self._contour_sizes(contours)):
            least = s.min_region_area * float(s.cell_size) ** 2
            return BuildFailure("empty", where + f"every piece is smaller than {s.min_region_area} cells ({least:g} "
                                f"m2); {fits} cells in all", "only_islands")
        return BuildFailure("empty", where + "no contour has an area")

    def _new(self, kind: str) -> int:
        return self._made(self.e.new(kind))

    def _made(self, address: int) -> int:
        if address == 0:
            raise BuildFailure(self.stage, self.why_refused() or "there is no memory left")
        return address

    def _do(self, step: str, *args: int | float) -> None:
        """A step that tells whether it worked."""
        if not self.e.call(step, *args) & 0xFF:
            refused = self.why_refused()
            reason = refused or f"Recast's {step} gave up"
            if self.stage == "polymesh" and not refused:
                reason += " (it takes no 65,534 contour vertices or more)"
            raise BuildFailure(self.stage, reason)
