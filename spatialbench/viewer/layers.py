"""What can be switched on and off: each layer draws itself once, from the world or from an observation of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.report.plates import plate_mesh
from spatialbench.report.raster import AREA_COLORS, FOOTPRINT_COLOR
from spatialbench.report.text import cause_words
from spatialbench.runs import RunResult
from spatialbench.scene.sky import sky_faces, without_sky
from spatialbench.types import Camera, GaussianSplats, TriangleMesh, level_pose
from spatialbench.viewer.appearance import glb_bytes, shown_splats, thin_splats
from spatialbench.viewer.shapes import cell_faces, copies, fan_faces, frustum_lines, largest_faces, support_lines

__all__ = ["MAX_FACES", "Canvas", "Layer", "Legend", "layers_of"]

MAX_FACES = 1_500_000
"""Faces of one mesh that are sent to the page: of more, those of the largest area."""
GREEN, RED, BLUE, YELLOW = (46, 176, 110), (222, 70, 60), (70, 140, 255), (240, 190, 40)
GREY, ORANGE = FOOTPRINT_COLOR[:3], (255, 140, 40)
_LIFT = 0.03
"""How far above the floor flat layers float, so that it does not hide them, m."""

RGB = tuple[int, int, int]
Legend = tuple[tuple[RGB | None, str], ...]
"""Lines for the panel: a colour, or None, and words."""


@dataclass(frozen=True, eq=False)
class Canvas:
    """Where a layer draws: nodes under ``root`` of viser's scene, of a run's world, within limits.

    Attributes
    ----------
    scene : viser's ``SceneApi``. root : path of the layer's own node.
    shown : the run. most_splats : that are sent to the page.
    """

    scene: Any
    root: str
    shown: RunResult
    most_splats: int

    def observation(self, name: str) -> Any:
        """An observation of the world, made now where it has not been."""
        return self.shown.observations.get(name)

    def lines(self, name: str, segments: NDArray[np.float64], colour: RGB | NDArray[np.uint8], width: float = 2.0
              ) -> None:
        """Segments [N,2,3], ``width`` pixels wide."""
        if len(segments):
            self.scene.add_line_segments(f"{self.root}/{name}", segments.astype(np.float32), colour, thickness=width,
                                         thickness_units="screen")

    def surface(self, name: str, vertices: NDArray[Any], faces: NDArray[np.int32], colour: RGB, opacity: float,
                side: str = "double") -> None:
        """Faces of one colour."""
        self.scene.add_mesh_simple(f"{self.root}/{name}", vertices.astype(np.float32), faces, color=colour,
                                   opacity=None if opacity >= 1 else opacity, side=side, flat_shading=True,
                                   cast_shadow=False, receive_shadow=False)

    def dots(self, name: str, points: NDArray[np.float64], colours: NDArray[np.uint8], size: float) -> None:
        """Discs at points [N,3], ``size`` metres wide."""
        if len(points):
            self.scene.add_point_cloud(f"{self.root}/{name}", points.astype(np.float32), colours, point_size=size / 2,
                                       point_shape="circle", precision="float32")

    def label(self, name: str, text: str, place: NDArray[np.float64]) -> None:
        """Words at a place [3]."""
        self.scene.add_label(f"{self.root}/{name}", text, position=tuple(float(v) for v in place),
                             anchor="bottom-center", font_screen_scale=0.7)


@dataclass(frozen=True)
class Layer:
    """One switch.

    Attributes
    ----------
    key, title : name of its node, and beside the switch.
    draw : adds its nodes and says what they are.
    needs : the observation that it shows; empty for the world's own.
    on : shown at once.
    """

    key: str
    title: str
    draw: Callable[[Canvas], Legend]
    needs: str = ""
    on: bool = False


def layers_of(shown: RunResult) -> tuple[Layer, ...]:
    """The layers that this world can have, in the panel's order."""
    seen = shown.world.seen
    sky = (bool(seen.sky.any()) if seen.sky is not None else False) if isinstance(seen, GaussianSplats) \
        else sky_faces(seen) is not None
    return (
        Layer("world", "World", lambda c: _geometry(c, without_sky(seen)), on=True),
        *([Layer("sky", "Sky", lambda c: _geometry(c, _sky_of(seen)))] if sky else []),
        Layer("collision", "Collision mesh", _collision),
        Layer("wire", "Collision mesh as wires", lambda c: _collision(c, wire=True)),
        Layer("footprint", "Footprint", _footprint),
        Layer("navmesh", "NavMesh", _navmesh, needs="spatial.walkable"),
        Layer("camera", "Initial camera", _camera, on=True),
        Layer("ring", "Origin ring", _ring),
        Layer("path", "Action path", _path, needs="spatial.path_probes"),
        Layer("locations", "Locations", _locations, needs="spatial.locations"),
        Layer("supports", "Supports", _supports, on=True),
        Layer("trials", "Plate trials", _trials, needs="spatial.placement"),
    )


def _sky_of(seen: TriangleMesh | GaussianSplats) -> TriangleMesh | GaussianSplats:
    if isinstance(seen, GaussianSplats):
        assert seen.sky is not None
        return seen.select(seen.sky)
    faces = sky_faces(seen)
    assert faces is not None
    return seen.select(faces)


def _geometry(c: Canvas, seen: TriangleMesh | GaussianSplats) -> Legend:
    if isinstance(seen, GaussianSplats):
        if not len(seen):
            return ((None, "no splats"),)
        part, growth = thin_splats(seen, c.most_splats)
        s = shown_splats(part)
        c.scene.add_gaussian_splats(f"{c.root}/splats", s.centres, s.covariances, s.colours, s.opacities)
        words = f"{len(seen):,} splats, in their mean colour over all directions"
        if len(part) < len(seen):
            words = (f"{len(part):,} of {len(seen):,} splats: those with the smallest hash of their number, seed 0, "
                     f"each {growth:.2f} times as wide so that surfaces stay closed; scores see all (--show-splats for "
                     "more). Mean colour over all directions")
        return ((None, words),)
    if not len(seen.faces):
        return ((None, "no faces"),)
    mesh = largest_faces(seen, MAX_FACES)
    c.scene.add_glb(f"{c.root}/mesh", glb_bytes(mesh), cast_shadow=False, receive_shadow=False)
    return ((None, _face_words(mesh, seen)),)


def _face_words(mesh: TriangleMesh, of: TriangleMesh) -> str:
    if mesh is of:
        return f"{len(of.faces):,} faces"
    return f"{len(mesh.faces):,} of {len(of.faces):,} faces, the largest; scores see all"


def _collision(c: Canvas, wire: bool = False) -> Legend:
    collision = c.shown.world.collision
    if collision.mesh is None or not len(collision.mesh.faces):
        return ((None, "no collision geometry"),)
    mesh = largest_faces(collision.mesh, MAX_FACES)
    if wire:
        c.scene.add_mesh_simple(f"{c.root}/mesh", mesh.vertices.astype(np.float32), mesh.faces, color=ORANGE,
                                wireframe=True, cast_shadow=False, receive_shadow=False)
    else:
        c.surface("mesh", mesh.vertices, mesh.faces, ORANGE, 0.45, side="front")
    turned = ", reversed by the facing rule" if collision.reversed else ""
    return ((ORANGE, f"{collision.geometry.replace('_', ' ')}, {_face_words(mesh, collision.mesh)}{turned}"),
            *([] if wire else [(None, "seen from the front of its faces only")]))


def _footprint(c: Canvas) -> Legend:
    world = c.shown.world
    if world.footprint is None or not world.footprint.count:
        return ((None, "no footprint"),)
    c.surface("cells", *cell_faces(world.footprint, world.ground_z + _LIFT / 2), GREY, 0.6)
    return ((GREY, f"{world.footprint.area:.2f} m² of {world.footprint.cell:g} m cells, drawn on the floor"),)


def _navmesh(c: Canvas) -> Legend:
    walk = c.observation("spatial.walkable")
    if walk.navmesh is None or not walk.navmesh.polygons:
        words = "no collision geometry" if walk.navmesh is None else walk.navmesh.cause.replace("_", " ")
        return ((None, f"nowhere to walk: {words}"),)
    nav = walk.navmesh
    vertices = nav.vertices.astype(np.float64) + [0, 0, _LIFT]
    labels = polygon_labels(vertices, nav.polygons, walk)
    edges = np.array([(p[k], p[(k + 1) % len(p)]) for p in nav.polygons for k in range(len(p))])
    for slot, colour in enumerate(AREA_COLORS):
        of = [p for p, k in zip(nav.polygons, labels, strict=True) if _slot(k) == slot]
        if of:
            c.surface(f"component_{slot}", vertices, fan_faces(of), colour[:3], 0.7)
    c.lines("edges", vertices[edges], (20, 40, 30), 1.0)
    sizes = walk.areas
    legend = [(AREA_COLORS[_slot(k + 1)][:3], f"component {k + 1}: {a:.2f} m²") for k, a in enumerate(sizes[:4])]
    more = [(None, f"and {len(sizes) - 4} smaller")] if len(sizes) > 4 else []
    return (*legend, *more, (None, f"voxels of {nav.cell_size} m, {nav.backend}"))


def polygon_labels(vertices: NDArray[np.float64], polygons: tuple[tuple[int, ...], ...], walk: Any) -> list[int]:
    """Component of each polygon, by the cell under its centre, else under points between that and its corners; 0 where
    the plan has none there."""
    out = []
    corner = np.array([walk.grid_i0, walk.grid_j0])
    for p in polygons:
        xy = vertices[list(p), :2]
        at = np.concatenate([xy.mean(axis=0)[None], (xy + xy.mean(axis=0)) / 2])
        ij = np.floor(at / walk.cell).astype(np.int64) - corner
        inside = ((ij >= 0) & (ij < walk.labels.shape)).all(axis=1)
        found = walk.labels[tuple(ij[inside].T)]
        out.append(int(next((k for k in found if k > 0), 0)))
    return out


def _slot(label: int) -> int:
    """Colour of a component: the first for the largest, the others in turn."""
    return 0 if label == 1 else 1 + max(label - 2, 0) % (len(AREA_COLORS) - 1)


def _camera(c: Canvas) -> Legend:
    lens = c.shown.protocol.views.lens
    camera = Camera.from_fov(level_pose((0.0, 0.0, 0.0)), lens.fov_deg, lens.width, lens.height)
    c.lines("frustum", frustum_lines(camera, 0.4), YELLOW, 2.5)
    return ((YELLOW, f"at the origin of the world frame, looking along +Y, {lens.fov_deg:g} degrees wide"),)


def _ring(c: Canvas) -> Legend:
    from spatialbench.renderers.trajectories import ring

    views = c.shown.protocol.views
    cameras = ring((0.0, 0.0, 0.0), views.ring_frames, views.lens.width, views.lens.height, views.lens.fov_deg)
    c.lines("frusta", np.concatenate([frustum_lines(camera, 0.25) for camera in cameras]), BLUE, 1.0)
    return ((BLUE, f"{len(cameras)} cameras, a level turn on the spot"),)


def _path(c: Canvas) -> Legend:
    probes = c.observation("spatial.path_probes")
    points, out = probes.path.positions, np.array(probes.result.out, dtype=bool)
    c.lines("line", np.stack([points[:-1], points[1:]], axis=1), BLUE)
    c.dots("samples", points, _either(~out), 0.06)
    return ((GREEN, f"{int((~out).sum())} of {len(out)} samples in bounds"),
            *([(RED, f"{int(out.sum())} out of bounds")] if out.any() else []))


def _locations(c: Canvas) -> Legend:
    plan = c.observation("spatial.locations")
    if not plan.tried:
        return ((None, "no depth is known, so no place was tried"),)
    points = np.array([t.position for t in plan.tried], dtype=np.float64)
    good = np.array([t.accepted for t in plan.tried])
    c.dots("places", points, _either(good), 0.12)
    for k, t in enumerate(plan.tried):
        words = f"location {t.slot}" if t.accepted else cause_words(t.cause)
        c.label(f"name_{k}", words, points[k] + [0, 0, 0.1])
    return ((GREEN, f"{int(good.sum())} of {len(plan.usable_slots)} locations found"),
            *([(RED, f"{int((~good).sum())} places were refused")] if not good.all() else []))


def _either(good: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Green where it is good, else red: [N,3]."""
    return np.where(good[:, None], np.array(GREEN, np.uint8), np.array(RED, np.uint8))


def _supports(c: Canvas) -> Legend:
    supports = c.shown.world.supports
    for k, s in enumerate(supports):
        c.lines(f"outline_{k}", support_lines(s), YELLOW if k == 0 else BLUE, 4.0 if k == 0 else 2.0)
        c.label(f"name_{k}", s.id, np.array([*s.boundary.mean(axis=0), s.height + 0.05]))
    if not supports:
        return ((None, "no support was found"),)
    first = supports[0]
    return ((YELLOW, f"{first.id}, for the plates: {first.area:.2f} m² ({first.source})"),
            *([(BLUE, f"{len(supports) - 1} others")] if len(supports) > 1 else []))


def _trials(c: Canvas) -> Legend:
    placement, settings = c.observation("spatial.placement"), c.shown.protocol.placement
    results = placement.results.get(settings.reference, ())
    if not results:
        return ((None, "no plate could be tried"),)
    plate = plate_mesh(settings)
    for success, colour in ((True, GREEN), (False, RED)):
        of = [r for r in results if r.success == success]
        for name, opacity, poses in (("release", 0.35, [(*r.release_centre, *r.release_quaternion) for r in of]),
                                     ("rest", 1.0, [(*r.rest_centre, *r.rest_quaternion) for r in of])):
            known = np.array([p for p in poses if np.isfinite(p).all()], dtype=np.float64).reshape(-1, 7)
            if len(known):
                c.surface(f"{name}_{colour[0]}", *copies(plate, known[:, :3], known[:, 3:]), colour, opacity)
    for r in results:
        words = "stays" if r.success else ", ".join(cause_words(k) for k in r.reasons) or r.error
        c.label(f"name_{r.id}", f"{r.id}: {words}", np.array(r.release_centre) + [0, 0, 0.06])
    stayed = sum(r.success for r in results)
    failed = len(results) - stayed
    return (*([(GREEN, f"{stayed} of {len(results)} plates stay")] if stayed else []),
            *([(RED, f"{failed} of {len(results)} do not")] if failed else []),
            (None, "faint: as released; solid: at the end"))
