"""``spatialbench navmesh``: where an agent can walk on a mesh, in words, as JSON, as a picture and as files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from spatialbench.cli.options import reading_options
from spatialbench.cli.progress import progress_line
from spatialbench.cli.refusal import told_as_json
from spatialbench.cli.say import echo_line
from spatialbench.errors import UsageError
from spatialbench.physics.navmesh import NavPath, navmesh_backend_names
from spatialbench.types import NavMesh, NavMeshSettings, PlanGrid, Scene, TriangleMesh

if TYPE_CHECKING:
    from spatialbench.scene.reading import ReadOptions

__all__ = ["Walk", "navmesh", "walk_json", "walk_over"]

PROFILES = ("habitat-0.3.4", "habitat-0.3.3")


@dataclass(frozen=True, eq=False)
class Walk:
    """A navigation mesh and its plan, in the frame of the file.

    Attributes
    ----------
    navmesh : polygons and attempts.
    up : ``y`` or ``z``. In plan, the first axis is x, the second y of a Z-up mesh and z of a Y-up one.
    labels : component of each cell, 0 none, 1 the largest; on ``plan``'s grid, whose origin is the file's (``world0``).
    plan : cells that polygons cover.
    areas : m2 of the components, largest first.
    planar_area : sum of the polygons' areas in plan, m2.
    footprint : cells that the mesh covers; None where they lie too far apart for a picture.
    footprint_area : m2.
    ratio : largest component over footprint, or None; ``reason`` says why it is 0 or None.
    ends : start and goal that were asked for, m in plan, or None. path : between them, or None.
    """

    navmesh: NavMesh
    up: str
    labels: Any
    plan: PlanGrid
    areas: tuple[float, ...]
    planar_area: float
    footprint: PlanGrid | None
    footprint_area: float
    ratio: float | None
    reason: str
    ends: tuple[tuple[float, float], tuple[float, float]] | None = None
    path: NavPath | None = None


def walk_over(mesh: TriangleMesh, up: str, settings: NavMeshSettings, backend: str = "recast",
              ends: tuple[tuple[float, float], tuple[float, float]] | None = None) -> Walk:
    """Build, project, label, divide (spec/navmesh.md section 5); the mesh as it is, its numbers as metres.

    Raises
    ------
    CorruptInputError : coordinates too large for a grid.
    BackendUnavailableError : nothing here can build with that backend.
    """
    from spatialbench.metrics.navigation import navigable_ratio
    from spatialbench.physics.navmesh import build_navmesh, components, find_path, planar_area, rasterise
    from spatialbench.types.protocol_rules import Footprint
    from spatialbench.world.footprint import footprint

    rules = Footprint()
    axes = [0, 1] if up == "z" else [0, 2]
    built = build_navmesh(mesh.vertices, mesh.faces, settings, up=up, backend=backend)
    flat = built.vertices[:, axes]
    plan = rasterise(flat, built.polygons, rules.cell)
    found = components(plan)
    areas = tuple(float(n) * rules.cell**2 for n in found.sizes)
    covered = footprint(TriangleMesh(mesh.vertices[:, [*axes, 3 - sum(axes)]], mesh.faces), rules)
    area = 0.0 if covered is None else covered.area
    exists = built.cell_size is not None
    ruling = navigable_ratio((areas[0] if areas else 0.0) if exists else None, area, built.cause)
    reason = ruling.reason if exists or not built.attempts else f"{ruling.reason}: {built.attempts[0].reason}"
    path = None if ends is None else find_path(built, *ends, up=up)
    return Walk(built, up, found.labels, plan, areas, planar_area(flat, built.polygons),
                None if covered is None else covered.grid, area, ruling.value, reason, ends, path)


def walk_json(walk: Walk) -> dict[str, Any]:
    """What ``--json`` prints: m and m2, points in the frame of the file."""
    n = walk.navmesh
    out: dict[str, Any] = {
        "profile": n.profile, "backend": n.backend,
        "attempts": [{"cell_size": a.cell_size, "ok": a.ok, "stage": a.stage, "reason": a.reason, "cause": a.cause}
                     for a in n.attempts],
        "cell_size": n.cell_size, "n_polygons": len(n.polygons), "planar_area": walk.planar_area,
        "n_components": len(walk.areas), "largest_component_area": walk.areas[0] if walk.areas else 0.0,
        "footprint_area": walk.footprint_area, "navigable_ratio": walk.ratio, "reason": walk.reason}
    if walk.path is not None:
        p = walk.path
        out["path"] = {"length": p.length, "points": p.points.tolist(), "reason": p.reason, "moved": list(p.moved)}
    return out


def _point(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[float, float] | None:
    if value is None:
        return None
    try:
        x, y = (float(p) for p in value.replace(",", " ").split())
    except ValueError:
        raise click.BadParameter(f"'{value}' is not two numbers such as 1.5,-2") from None
    if not np.isfinite([x, y]).all():
        raise click.BadParameter(f"'{value}' is not finite")
    return x, y


@click.command()
@click.argument("mesh", type=click.Path(path_type=Path))
@click.option("--up", type=click.Choice(["y", "z"]), help="Up in the file [default: as its format has it].")
@click.option("--profile", type=click.Choice(PROFILES), default=PROFILES[0], show_default=True,
              help="Whose behaviour: 0.3.3 and older need one more free voxel under a ceiling.")
@click.option("--backend", type=click.Choice(navmesh_backend_names()), default=navmesh_backend_names()[0],
              show_default=True, help="What builds; 'spatialbench doctor' says which can be used here.")
@click.option("--from", "start", callback=_point, metavar="X,Y",
              help="Start of a path, m in plan (x,y of a Z-up file, x,z of a Y-up one).")
@click.option("--to", "goal", callback=_point, metavar="X,Y", help="Its end.")
@reading_options
@click.option("-o", "--out", type=click.Path(path_type=Path),
              help="Folder for navmesh.png, .glb, .obj and .json [default: nothing is written].")
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else; a refusal is JSON too.")
def navmesh(mesh: Path, up: str | None, profile: str, backend: str, start: tuple[float, float] | None,
            goal: tuple[float, float] | None, reading: ReadOptions, out: Path | None, as_json: bool) -> None:
    """Build habitat-sim's NavMesh of MESH and say how much of it can be walked on.

    MESH is taken as it is, in its own frame: its numbers are metres, nothing is anchored, cropped, scaled or turned
    over (that is what 'spatialbench run' does).
    """
    from spatialbench.runs.cache import ensure_kernel_cache
    from spatialbench.runs.store import check_folder
    from spatialbench.scene import load_scene

    with told_as_json(as_json), progress_line(not as_json) as tell:
        if (start is None) != (goal is None):
            raise UsageError("a path has two ends", where="--from, --to", todo="Give both, or neither")
        if reading.max_splats is not None:
            raise UsageError("agents walk on meshes, and of splats nothing is read", where="--max-splats",
                             todo="Leave it out")
        if out is not None:
            check_folder(out)
        ensure_kernel_cache()
        tell("reading the mesh", 0, 0)
        scene = load_scene(mesh, **reading.as_arguments())
        surface = _surface(scene)
        axis = up or _prior_up(scene)
        tell("building the NavMesh", 0, 0)
        walk = walk_over(surface, axis, NavMeshSettings(profile=profile), backend,
                         None if start is None or goal is None else (start, goal))
        found = {**walk_json(walk), "warnings": list(scene.report.warnings)}
        if out is not None:
            tell("writing", 0, 0)
            _write(out, walk, found)
    if as_json:
        click.echo(json.dumps(found))
        return
    _print(mesh, walk, found, scene.report.warnings)
    if out is not None:
        click.echo(f"picture:    {(out / 'navmesh.png').resolve()}")


def _surface(scene: Scene) -> TriangleMesh:
    if scene.mesh is None:
        raise UsageError("has splats and no mesh, and agents walk on meshes", where=str(scene.path),
                         todo="Score it with 'spatialbench run', which fuses a mesh, or write that mesh first: "
                         "spatialbench convert --fused A B.glb")
    return scene.mesh


def _prior_up(scene: Scene) -> str:
    from spatialbench.world.decide import FrameOverrides, decide_up

    axis, _ = decide_up(scene, None, FrameOverrides())
    for k, name in ((1, "y"), (2, "z")):
        if axis[k] > 1 - 1e-6:
            return name
    raise UsageError(f"up is {[round(float(x), 3) for x in axis]} by the file, neither +Y nor +Z",
                     where=str(scene.path), todo="Say --up y or --up z, or turn the mesh with 'spatialbench convert'")


def _write(out: Path, walk: Walk, found: dict[str, Any]) -> None:
    from spatialbench.cli.navmesh_files import write_navmesh_glb, write_navmesh_obj
    from spatialbench.cli.navmesh_picture import picture
    from spatialbench.runs.store import prepare_folder, write_json

    prepare_folder(out)
    picture(walk).save(out / "navmesh.png")
    write_json(out / "navmesh.json", found)
    if walk.navmesh.polygons:
        write_navmesh_glb(walk, out / "navmesh.glb")
        write_navmesh_obj(walk, out / "navmesh.obj")


def _print(mesh: Path, walk: Walk, found: dict[str, Any], warnings: list[str]) -> None:
    n = walk.navmesh
    echo_line(f"{mesh.name}: {walk.up.upper()} up, {n.profile} by {n.backend}")
    for a in n.attempts:
        echo_line(f"attempt:    {a.cell_size:g} m: {'built' if a.ok else f'{a.cause} ({a.stage}): {a.reason}'}")
    echo_line(f"polygons:   {len(n.polygons)}, {walk.planar_area:.3f} m2 in plan, storeys counted each")
    listed = ", ".join(f"{a:.3f}" for a in walk.areas[:8]) + (", ..." if len(walk.areas) > 8 else "")
    echo_line(f"components: {len(walk.areas)}" + (f" ({listed} m2)" if walk.areas else ""))
    echo_line(f"footprint:  {walk.footprint_area:.3f} m2")
    value = "none" if walk.ratio is None else f"{walk.ratio:.4f}"
    echo_line(f"ratio:      {value}" + (f" ({walk.reason})" if walk.reason else ""))
    if walk.path is not None:
        p = walk.path
        moved = [f"{name} moved by {m:.2f} m" for name, m in zip(("start", "goal"), p.moved, strict=True) if m > 0]
        echo_line(f"path:       {p.reason}" if p.length is None else
                  f"path:       {p.length:.3f} m over {len(p.points)} points" + "".join(f", {m}" for m in moved))
    for w in warnings:
        echo_line(f"warning: {w}")
