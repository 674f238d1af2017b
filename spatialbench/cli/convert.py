"""``spatialbench convert``: a world in one file format, written in another and in a frame that needs no option."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from spatialbench.cli.options import frame_options, reading_options
from spatialbench.cli.progress import progress_line
from spatialbench.errors import EmptyWorldError, UsageError
from spatialbench.scene.reading import ReadOptions
from spatialbench.types import CollisionMesh, GaussianSplats, Protocol, Scene, TriangleMesh
from spatialbench.world.decide import FrameOverrides

__all__ = ["Placement", "convert", "placement"]

Tell = Callable[[str, int, int], None]
_SUFFIXES = (".ply", ".glb")


@dataclass(frozen=True, eq=False)
class Placement:
    """How a scene is anchored: ``x_world = factor * rotation @ (x_source - camera)``; ``metric``: in metres."""

    rotation: NDArray[np.float64]
    camera: NDArray[np.float64]
    factor: float
    metric: bool
    warnings: tuple[str, ...] = ()


def placement(scene: Scene, protocol: Protocol, overrides: FrameOverrides, tell: Tell) -> Placement:
    """The anchoring of ``build_world``, without the collision mesh, footprint and supports that follow there.

    Raises
    ------
    As :func:`spatialbench.world.build_world`.
    """
    from spatialbench.world import anchor_world

    at = anchor_world(scene, protocol, None, overrides, tell)
    return Placement(at.rotation, at.camera.position, at.factor, at.scale.factor is not None, at.warnings)


@click.command()
@click.argument("source", metavar="A", type=click.Path(path_type=Path))
@click.argument("target", metavar="B", type=click.Path(path_type=Path))
@click.option("--frame", "target_frame", type=click.Choice(["world", "source"]), default="world", show_default=True,
              help="world: metres, initial camera at the origin, axes as B's format has them, so that B needs no "
                   "options; source: coordinates as in A.")
@click.option("--fused", is_flag=True, help="Write the collision mesh that is fused from A's splats (.glb).")
@click.option("--protocol", default="happyworld-spatial-1", show_default=True,
              help="Packaged protocol or YAML file, for the rules of anchoring.")
@frame_options()
@reading_options
@click.option("--force", is_flag=True, help="Replace B if it is there.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
def convert(source: Path, target: Path, target_frame: str, fused: bool, protocol: str, frame: FrameOverrides,
            reading: ReadOptions, force: bool, quiet: bool) -> None:
    """Write world A as B: splats as 3DGS .ply, a mesh as .glb, by the suffix of B."""
    from spatialbench.runs.cache import ensure_kernel_cache
    from spatialbench.scene import load_scene
    from spatialbench.types import load_protocol

    suffix = _check_target(source, target, fused, target_frame, force)
    rules = load_protocol(protocol)
    ensure_kernel_cache()
    with progress_line(not quiet) as tell:
        tell("reading the world", 0, 0)
        scene = load_scene(source, **reading.as_arguments())
        if fused:
            words, said = _write_fused(scene, rules, frame, target, tell)
        elif suffix == ".ply":
            words, said = _write_splats(scene, rules, frame, target, target_frame, tell)
        else:
            words, said = _write_mesh(scene, rules, frame, target, target_frame, tell)
    if quiet:
        return
    click.echo(f"{target}: {words}")
    for warning in (*scene.report.warnings, *said):
        click.echo(f"warning: {warning}", err=True)


def _check_target(source: Path, target: Path, fused: bool, frame: str, force: bool) -> str:
    """The suffix of B, after all checks that need no reading."""
    suffix = target.suffix.lower()
    where = str(target)
    if suffix not in _SUFFIXES:
        raise UsageError(f"its suffix '{target.suffix}' is neither .ply (splats) nor .glb (mesh)", where=where,
                         todo="Give B one of both")
    if fused and suffix != ".glb":
        raise UsageError("the fused collision mesh is a mesh", where=where, todo="Give B the suffix .glb")
    if fused and frame != "world":
        raise UsageError("the fused collision mesh is made in the world frame", where="--frame",
                         todo="Leave --frame out")
    if not target.parent.is_dir():
        raise UsageError("no such folder", where=str(target.parent), todo="Make it first")
    if target.is_dir():
        raise UsageError("is a folder", where=where, todo="Give the name of a file")
    if target.exists() and source.exists() and target.samefile(source):
        raise UsageError("A and B are the same file", where=where, todo="Give B another name")
    if target.exists() and not force:
        raise UsageError("is there already", where=where, todo="Give another name, or replace it with --force")
    return suffix


def _write_splats(scene: Scene, rules: Protocol, overrides: FrameOverrides, target: Path, frame: str, tell: Tell
                  ) -> tuple[str, tuple[str, ...]]:
    from spatialbench.scene.convert import write_source_ply, write_world_ply
    from spatialbench.world.decide import decide_unit, decide_up
    from spatialbench.world.splat_anchor import anchor_splats

    if scene.splats is None:
        raise UsageError("is a mesh, and splats are not made from meshes", where=str(scene.path),
                         todo="Give B the suffix .glb")
    words = _count(scene.splats)
    if frame == "source":
        tell("writing", 0, 0)
        up, _ = decide_up(scene, None, overrides)
        unit, _ = decide_unit(scene, None, overrides)
        write_source_ply(scene.splats, target, up, unit, scene.side.cameras)
        return words + " in the frame of A", ()
    place = placement(scene, rules, overrides, tell)
    tell("writing", 0, 0)
    write_world_ply(anchor_splats(scene.splats, place.rotation, place.camera, place.factor), target,
                    metric=place.metric)
    return f"{words}, x right, y down, z forward, {_unit(place)}, initial camera at the origin", place.warnings


def _write_mesh(scene: Scene, rules: Protocol, overrides: FrameOverrides, target: Path, frame: str, tell: Tell
                ) -> tuple[str, tuple[str, ...]]:
    from spatialbench.scene.convert import write_world_glb
    from spatialbench.scene.write_glb import write_glb
    from spatialbench.world.anchor import anchor_mesh
    from spatialbench.world.decide import decide_up

    if scene.mesh is None:
        raise UsageError("has splats and no mesh", where=str(scene.path),
                         todo="Give B the suffix .ply, or write the mesh that is fused from them with --fused")
    words = _count(scene.mesh)
    if frame == "source":
        tell("writing", 0, 0)
        write_glb(scene.mesh, target, scene.side.cameras)
        up, _ = decide_up(scene, None, overrides)
        tilted = float(up @ [0.0, 1.0, 0.0]) < 1 - 1e-6
        axis = ",".join(f"{float(v):g}" for v in up)
        return words + " in the frame of A", (f"glTF is Y-up, A is not: give --up {axis} with B",) if tilted else ()
    place = placement(scene, rules, overrides, tell)
    tell("writing", 0, 0)
    write_world_glb(anchor_mesh(scene.mesh, place.rotation, place.camera, place.factor), target)
    return f"{words}, Y up, {_unit(place)}, initial camera at the origin looking along -Z", place.warnings


def _write_fused(scene: Scene, rules: Protocol, overrides: FrameOverrides, target: Path, tell: Tell
                 ) -> tuple[str, tuple[str, ...]]:
    from spatialbench.scene.convert import write_world_glb
    from spatialbench.world import build_world

    if scene.splats is None:
        raise UsageError("has no splats that a mesh could be fused from", where=str(scene.path),
                         todo="Leave --fused out: its own mesh is written")
    splats_alone = Scene(path=scene.path, mesh=None, prior_up=scene.prior_up, prior_unit_m=scene.prior_unit_m,
                         report=scene.report, side=scene.side, splats=scene.splats)
    world = build_world(splats_alone, rules, None, overrides, progress=tell)
    collision: CollisionMesh = world.collision
    if collision.mesh is None:
        raise EmptyWorldError("no collision mesh could be fused from its splats", where=str(scene.path),
                              todo="Look at the warnings of 'spatialbench run'")
    tell("writing", 0, 0)
    write_world_glb(collision.mesh, target)
    unit = "metres" if world.has_scale else "units of A"
    return (f"{_count(collision.mesh)} fused from splats, Y up, {unit}, initial camera at the origin looking along -Z",
            world.warnings)


def _count(geometry: TriangleMesh | GaussianSplats) -> str:
    if isinstance(geometry, GaussianSplats):
        return f"{len(geometry):,} splats of degree {geometry.sh_degree}"
    return f"{len(geometry.faces):,} faces"


def _unit(place: Placement) -> str:
    return "metres" if place.metric else "units of A"
