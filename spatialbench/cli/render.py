"""``spatialbench render``: pictures and films of a world from any cameras."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spatialbench.cli.options import frame_options, read_vector, reading_options
from spatialbench.cli.progress import progress_line

if TYPE_CHECKING:
    from spatialbench.scene.reading import ReadOptions
    from spatialbench.world import FrameOverrides

__all__ = ["render"]

Vec3 = tuple[float, float, float]
_POSITIVE = click.FloatRange(min=0, min_open=True, max=1e6)


def _place(ctx: click.Context, param: click.Parameter, value: str | None) -> Vec3 | None:
    """Three finite numbers."""
    out = read_vector(ctx, param, value)
    if out is not None and not all(math.isfinite(x) and abs(x) < 1e9 for x in out):
        raise click.BadParameter(f"'{value}' is not finite, or far beyond any world")
    return out


def _target(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[float, ...] | None:
    """A place, or two corners of a box."""
    if value is None:
        return None
    try:
        numbers = tuple(float(p) for p in value.replace(",", " ").split())
    except ValueError:
        numbers = ()
    if len(numbers) not in (3, 6) or not all(math.isfinite(x) and abs(x) < 1e9 for x in numbers):
        raise click.BadParameter(f"'{value}' is neither a place X,Y,Z nor a box X,Y,Z,X,Y,Z")
    return numbers


def _size(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, int] | None:
    """Width and height."""
    if value is None:
        return None
    width, _, height = value.lower().partition("x")
    if not (width.isdecimal() and height.isdecimal() and len(value) < 20):
        raise click.BadParameter(f"'{value}' is no size such as 1280x720")
    return int(width), int(height)


@click.command()
@click.argument("world", type=click.Path(path_type=Path))
@click.option("--panorama", is_flag=True, help="All directions in one equirectangular picture, 2048x1024.")
@click.option("--ring", is_flag=True, help="A level turn on the spot: the protocol's origin views.")
@click.option("--probe", is_flag=True, help="Six square faces: front, right, back, left, up, down.")
@click.option("--orbit", is_flag=True, help="Views from a circle around --target, or around all of the world.")
@click.option("--path", metavar="KEYS",
              help="A timed walk: keys and seconds, W2,W+D1.5,Left3,idle1; W A S D move, Left Right Up Down look. "
                   "'protocol' for the protocol's own path.")
@click.option("--connect", callback=_place, metavar="X,Y,Z", help="The straight way to a place, 16 views.")
@click.option("--cameras", type=click.Path(path_type=Path), metavar="FILE",
              help="Cameras of a list: ours, nerfstudio's transforms.json, 3DGS's cameras.json, COLMAP's images.txt.")
@click.option("--frame", "stated", type=click.Choice(["world", "file", "capture"]),
              help="Frame of the list, of --at, --target and --connect, and of written cameras and depths: the "
                   "world frame (metres), the world file's own axes and unit, or nerfstudio's capture, before "
                   "'applied_transform' [default: what the list states, else file with a list, world without].")
@click.option("--at", callback=_place, metavar="X,Y,Z", help="Where to stand [default: the initial camera].")
@click.option("--target", callback=_target, metavar="X,Y,Z[,X,Y,Z]",
              help="What the orbit looks at: a place, or two corners of a box.")
@click.option("--radius", type=_POSITIVE, help="Of the orbit [default: 1.5 diagonals; of a target 0.5 to 4 m].")
@click.option("--elevation", type=click.FloatRange(-89, 89), metavar="DEG",
              help="Of the orbit's cameras above its centre [default: a quarter of the radius in plan].")
@click.option("--frames", type=click.IntRange(1, 20_000), help="Of --ring [36], --orbit [24] and --connect [16].")
@click.option("--speed", type=_POSITIVE, metavar="M/S", help="Of the path [default: the protocol's].")
@click.option("--turn-rate", type=_POSITIVE, metavar="DEG/S", help="Of the path's look keys [default: 45].")
@click.option("--size", callback=_size, metavar="WxH", help="Pixels [default: the protocol's, or the list's].")
@click.option("--fov", type=click.FloatRange(1, 170), metavar="DEG",
              help="Across the width [default: the protocol's, 60 for --orbit, or the list's].")
@click.option("--fps", type=click.FloatRange(0.1, 240),
              help="Samples of the path and frames of films, a second [default: 24; a turn lasts 6 s].")
@click.option("--backend", metavar="NAME", help="Renderer; 'spatialbench doctor' lists them [default: the best here].")
@click.option("--depth", is_flag=True, help="Write depths as NPZ, in the unit of --frame.")
@click.option("--depth-kind", type=click.Choice(["median", "expected", "plane"]), default="median", show_default=True,
              help="Of splats.")
@click.option("--alpha", is_flag=True, help="Write opacities as NPZ.")
@click.option("--video", is_flag=True, help="Write an MP4 of each sequence (H.264 with PyAV, else VP9).")
@click.option("--cameras-as", "lists", multiple=True, type=click.Choice(["nerfstudio", "inria", "colmap"]),
              help="Write the cameras in this format too.")
@click.option("--case", type=click.Path(path_type=Path), help="What was asked of the world: a YAML file.")
@click.option("--protocol", default="happyworld-spatial-1", show_default=True, help="Packaged protocol or YAML file.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE",
              help="Override one key of the protocol: views.supersample=1, views.background=[1,1,1]...")
@frame_options()
@reading_options
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Folder [default: results/WORLD-render].")
@click.option("--json", "as_json", is_flag=True, help="Print what render.json holds and nothing else.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
def render(world: Path, panorama: bool, ring: bool, probe: bool, orbit: bool, path: str | None, connect: Vec3 | None,
           cameras: Path | None, stated: str | None, at: Vec3 | None, target: tuple[float, ...] | None,
           radius: float | None, elevation: float | None, frames: int | None, speed: float | None,
           turn_rate: float | None, size: tuple[int, int] | None, fov: float | None, fps: float | None,
           backend: str | None, depth: bool, depth_kind: str, alpha: bool, video: bool, lists: tuple[str, ...],
           case: Path | None, protocol: str, settings: tuple[str, ...], frame: FrameOverrides, reading: ReadOptions,
           out: Path | None, as_json: bool, quiet: bool) -> None:
    """Draw WORLD as its scores see it: PNG, films, depths, and the cameras that were used.

    What is there already and was made in the same way is kept, so that a command that was stopped can be given again.
    """
    from spatialbench.runs.cache import kernels_compiled
    from spatialbench.runs.render import RenderOptions, render_world
    from spatialbench.runs.render_cameras import Views

    views = Views(ring=ring, panorama=panorama, probe=probe, orbit=orbit, path=path, connect=connect, cameras=cameras,
                  frame=stated, at=at, target=target, radius=radius, elevation=elevation, frames=frames, speed=speed,
                  turn_rate=turn_rate, size=size, fov=fov, fps=fps)
    options = RenderOptions(protocol=protocol, settings=settings, case=case, frame=frame, reading=reading,
                            views=views, backend=backend, depth=depth, depth_kind=depth_kind, alpha=alpha, video=video,
                            lists=lists)
    folder = out if out is not None else Path("results") / f"{world.name.split('.')[0] or 'world'}-render"
    if not (quiet or as_json or kernels_compiled()):
        click.echo("The first run on a machine compiles: about half a minute more, once.", err=True)
    with progress_line(not (quiet or as_json)) as tell:
        result = render_world(world, folder, options, tell)
    if as_json:
        click.echo(json.dumps(result.record, sort_keys=True))
    elif not quiet:
        for warning in result.record["warnings"]:
            click.secho(f"warning: {warning}", fg="yellow")
        kept = f", {result.kept} kept from before" if result.kept else ""
        click.echo(f"{result.drawn} pictures drawn{kept} ({', '.join(result.record['backend'])})")
        click.echo(f"results: {folder} ({len(result.files)} files)")
