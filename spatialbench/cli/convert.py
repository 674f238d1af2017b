"""``spatialbench convert``: a world in one file format, written in another and in a frame that needs no option."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from spatialbench.cli.options import frame_options, reading_options
from spatialbench.cli.progress import progress_line
from spatialbench.errors import EmptyWorldError, UsageError
from spatialbench.scene.reading import ReadOptions
from spatialbench.types import CollisionMesh, Decision, GaussianSplats, Protocol, Scene, TriangleMesh
from spatialbench.world.decide import FrameOverrides

__all__ = ["Placement", "convert", "placement"]

Tell = Callable[[str, int, int], None]
_SUFFIXES = (".ply", ".glb")


@dataclass(frozen=True, eq=False)
class Placement:
    """How a scene is anchored: ``x_world = factor * rotation @ (x_source - camera)``; ``metric``: in metres.

    ``scene`` is what was read, opacities as they were meant; ``decisions`` are those of anchoring.
    """

    scene: Scene
    rotation: NDArray[np.float64]
    camera: NDArray[np.float64]
    factor: float
    metric: bool
    warnings: tuple[str, ...] = ()
    decisions: dict[str, Decision] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class _Written:
    """What is in B, in words, what is to be known of it, and who decided on its frame."""

    words: str
    warnings: tuple[str, ...]
    decisions: dict[str, Decision]


def placement(scene: Scene, protocol: Protocol, overrides: FrameOverrides, tell: Tell) -> Placement:
    """The anchoring of ``build_world``, without the collision mesh, footprint and supports that follow there.

    Raises
    ------
    As :func:`spatialbench.world.build_world`.
    """
    from spatialbench.world import anchor_world

    at = anchor_world(scene, protocol, None, overrides, tell)
    return Placement(at.scene, at.rotation, at.camera.position, at.factor, at.scale.factor is not None, at.warnings,
                     at.decisions)


@click.command()
@click.argument("source", metavar="A", type=click.Path(path_type=Path))
@click.argument("target", metavar="B", type=click.Path(path_type=Path))
@click.option("--frame", "target_frame", type=click.Choice(["world", "source"]), default="world", show_default=True,
              help="world: metres, initial camera at the origin, axes as B's format has them, so that B needs no "
                   "options; source: numbers as in A, in a .glb below a node that scales them to metres.")
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
    from spatialbench.world.anchoring import reader_warnings

    suffix = _check_target(source, target, fused, target_frame, force)
    for name, value in (("--camera", frame.camera_position), ("--scale", frame.scale)):
        if target_frame == "source" and value is not None:
            raise UsageError("places the world frame, and B is to be in the frame of A", where=name,
                             todo=f"Leave {name} out, or --frame source")
    rules = load_protocol(protocol)
    ensure_kernel_cache()
    with progress_line(not quiet) as tell:
        tell("reading the world", 0, 0)
        scene = load_scene(source, **reading.as_arguments())
        if fused:
            written = _write_fused(scene, rules, frame, target, tell)
        elif suffix == ".ply":
            written = _write_splats(scene, rules, frame, target, target_frame, tell)
        else:
            written = _write_mesh(scene, rules, frame, target, target_frame, tell)
    if quiet:
        return
    click.echo(f"{target}: {written.words}")
    for warning in (*reader_warnings(scene.report, written.decisions), *written.warnings):
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
                  ) -> _Written:
    from spatialbench.scene.convert import write_source_ply, write_world_ply
    from spatialbench.world.decide import decide_unit, decide_up
    from spatialbench.world.opacity import decide_opacity
    from spatialbench.world.splat_anchor import anchor_splats

    if scene.splats is None:
        raise UsageError("is a mesh, and splats are not made from meshes", where=str(scene.path),
                         todo="Give B the suffix .glb")
    words = _count(scene.splats)
    left = () if scene.mesh is None else (f"{_mesh_of(scene)} is not in B: .ply holds the splats alone. Give B the "
                                          "suffix .glb for the mesh",)
    if frame == "source":
        tell("writing", 0, 0)
        meant, decisions, said = decide_opacity(scene, None, overrides)
        assert meant.splats is not None
        up, decisions["up"] = decide_up(scene, None, overrides)
        unit, decisions["unit"] = decide_unit(scene, None, overrides)
        write_source_ply(meant.splats, target, up, unit, scene.side.cameras)
        return _Written(words + " in the frame of A", (*said, *left), decisions)
    place = placement(scene, rules, overrides, tell)
    assert place.scene.splats is not None
    tell("writing", 0, 0)
    write_world_ply(anchor_splats(place.scene.splats, place.rotation, place.camera, place.factor), target,
                    metric=place.metric)
    return _Written(f"{words}, x right, y down, z forward, {_unit(place)}, initial camera at the origin",
                    (*place.warnings, *left), place.decisions)


def _write_mesh(scene: Scene, rules: Protocol, overrides: FrameOverrides, target: Path, frame: str, tell: Tell
                ) -> _Written:
    from spatialbench.scene.convert import write_world_glb
    from spatialbench.scene.write_glb import write_glb
    from spatialbench.world.anchor import anchor_mesh
    from spatialbench.world.decide import decide_unit, decide_up

    if scene.mesh is None:
        raise UsageError("has splats and no mesh", where=str(scene.path),
                         todo="Give B the suffix .ply, or write the mesh that is fused from them with --fused")
    words = _count(scene.mesh)
    left = [*_lights_left_out(scene.mesh)]
    if scene.splats is not None:
        left.append(f"{_count(scene.splats)} of A are not in B: .glb holds the mesh alone. Give B the suffix .ply for "
                    "the splats")
    if frame == "source":
        tell("writing", 0, 0)
        up, up_by = decide_up(scene, None, overrides)
        unit, unit_by = decide_unit(scene, None, overrides)
        write_glb(scene.mesh, target, scene.side.cameras, unit or 1.0)
        if unit is None:
            left.append("A has no unit, and glTF's is the metre: one unit of A is a metre of B. Give --unit if it is "
                        "another")
        if float(up @ [0.0, 1.0, 0.0]) < 1 - 1e-6:
            left.append(f"glTF is Y-up, A is not: give --up {','.join(f'{float(v):g}' for v in up)} with B")
        scaled = "" if unit in (None, 1.0) else f", scaled to metres by its root node ({unit:g})"
        return _Written(f"{words} in the frame of A{scaled}", tuple(left), {"up": up_by, "unit": unit_by})
    place = placement(scene, rules, overrides, tell)
    tell("writing", 0, 0)
    write_world_glb(anchor_mesh(scene.mesh, place.rotation, place.camera, place.factor), target)
    return _Written(f"{words}, Y up, {_unit(place)}, initial camera at the origin looking along -Z",
                    (*place.warnings, *left), place.decisions)


def _write_fused(scene: Scene, rules: Protocol, overrides: FrameOverrides, target: Path, tell: Tell
                 ) -> _Written:
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
    left = () if scene.mesh is None else (f"{_mesh_of(scene)} is not in B, which is fused from the splats. Leave "
                                          "--fused out for A's own mesh",)
    return _Written(f"{_count(collision.mesh)} fused from splats, Y up, {unit}, initial camera at the origin looking "
                    "along -Z", (*world.warnings, *left), world.decisions)


def _mesh_of(scene: Scene) -> str:
    """What stands beside a scene's splats, in words."""
    assert scene.mesh is not None
    found = scene.report.details.get("overlap")
    name = f"the collider '{found['collider']}'" if found and found["used"] else "the mesh of A"
    return f"{name} ({_count(scene.mesh)})"


def _lights_left_out(mesh: TriangleMesh) -> Iterator[str]:
    """A warning of lights that glTF has none of."""
    named = [f"{light.intensity:.3g} lx of colour {','.join(f'{c:.3g}' for c in light.color)}"
             for light in mesh.lights if light.kind == "ambient"]
    if named:
        rest = "" if len(named) < len(mesh.lights) else ", which leaves B without any light"
        yield (f"glTF has no light from all sides: {'that' if len(named) == 1 else 'those'} of A (a dome's, "
               f"{'; '.join(named[:4])}{', ...' if len(named) > 4 else ''}) {'is' if len(named) == 1 else 'are'} not "
               f"in B{rest}")


def _count(geometry: TriangleMesh | GaussianSplats) -> str:
    if isinstance(geometry, GaussianSplats):
        return f"{len(geometry):,} splats of degree {geometry.sh_degree}"
    return f"{len(geometry.faces):,} faces"


def _unit(place: Placement) -> str:
    return "metres" if place.metric else "units of A"
