"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Literal

import click

from spatialbench.types.case import parse_axis
from spatialbench.types.profile import ExporterProfile, load_profile, profile_names

__all__ = ["axis_option", "export_options", "frame_options", "read_axis", "read_profile",
           "read_vector", "reading_options", "thinning_options"]

Vec3 = tuple[float, float, float]


def read_vector(ctx: click.Context, param: click.Parameter, value: str | None) -> Vec3 | None:
    """Three numbers, separated by commas or spaces."""
    if value is None:
        return None
    try:
        x, y, z = (float(p) for p in value.replace(",", " ").split())
    except ValueError:
        raise click.BadParameter(f"'{value}' is not three numbers such as 0,1.6,0") from None
    return x, y, z


def read_axis(ctx: click.Context, param: click.Parameter, value: str | None) -> Vec3 | None:
    """A signed axis name, or three numbers."""
    if value is None:
        return None
    if "," in value:
        return read_vector(ctx, param, value)
    try:
        return parse_axis(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def axis_option(name: str, text: str) -> Callable[[Any], Any]:
    """An option that takes an axis."""
    return click.option(name, callback=read_axis, metavar="AXIS", help=text)


def reading_options(command: Any) -> Any:
    """How a world is read, given to the command as ``reading``, a ``ReadOptions``."""
    side_cars = click.option("--sidecar", "side_cars", multiple=True, type=click.Path(path_type=Path), metavar="FILE",
                             help="Marble, nerfstudio, 3DGS, COLMAP or habitat file about WORLD's frame; may be "
                                  "repeated. Replaces the search beside it.")

    @wraps(command)
    def collected(*args: Any, side_cars: tuple[Path, ...], max_splats: int | None, drop_outliers: bool,
                  **rest: Any) -> Any:
        from spatialbench.scene.reading import ReadOptions

        return command(*args, reading=ReadOptions(max_splats, side_cars, drop_outliers), **rest)

    return side_cars(thinning_options(collected))


def thinning_options(command: Any) -> Any:
    """``--max-splats`` and ``--drop-outliers``: what of a world is left out."""
    most = click.option("--max-splats", type=click.IntRange(min=1), metavar="N",
                        help="Read at most N splats, picked evenly by a fixed rule; said in the report.")
    drop = click.option("--drop-outliers", is_flag=True,
                        help="Leave out far outliers, huge splats and floaters [default: only reported].")
    return most(drop(command))


def read_profile(ctx: click.Context, param: click.Parameter, value: str | None) -> ExporterProfile | None:
    """A packaged profile by name, or a YAML file."""
    return None if value is None else load_profile(value)


def export_options(command: Any) -> Any:
    """``--profile`` and ``--opacity``: what is known of the program that wrote the world."""
    opacity = click.option("--opacity", type=click.Choice(["logit", "activated"]),
                           help="How opacities of splats are stored [default: as the format asks].")
    profile = click.option("--profile", callback=read_profile, metavar="NAME",
                           help=f"Conventions of what wrote the world: {', '.join(profile_names())}, or a YAML file. "
                                "They are checked against the world.")
    return profile(opacity(command))


def frame_options(*, scale: bool = True) -> Callable[[Any], Any]:
    """All that a user can say about the frame, given to the command as ``frame``, a ``FrameOverrides``.

    Parameters
    ----------
    scale : whether ``--scale`` is one of the options.
    """
    positive = click.FloatRange(min=0, min_open=True)
    options = [
        axis_option("--up", "Up in the file: +Y, -Y, +Z... or x,y,z."),
        click.option("--unit", type=positive, metavar="METRES", help="Metres per unit of the file."),
        *([click.option("--scale", type=positive, metavar="METRES",
                        help="Fix the scale to this, instead of the protocol's rule (camera 1.6 m above the floor); "
                             "marks the result.")] if scale else []),
        click.option("--camera", callback=read_vector, metavar="X,Y,Z", help="Initial camera, in the file's frame."),
        click.option("--forward", callback=read_vector, metavar="X,Y,Z",
                     help="Direction that camera looks in [default: the format's own]."),
        export_options]

    def decorate(command: Any) -> Any:
        @wraps(command)
        def collected(*args: Any, up: Vec3 | None, unit: float | None, camera: Vec3 | None, forward: Vec3 | None,
                      profile: ExporterProfile | None, opacity: Literal["logit", "activated"] | None,
                      scale: float | None = None, **rest: Any) -> Any:
            from spatialbench.world.decide import FrameOverrides

            frame = FrameOverrides(up=up, unit_m=unit, scale=scale, camera_position=camera, camera_forward=forward,
                                   profile=profile, opacity=opacity)
            return command(*args, frame=frame, **rest)

        for option in reversed(options):
            collected = option(collected)
        return collected
    return decorate
