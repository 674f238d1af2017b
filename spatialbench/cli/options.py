"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from spatialbench.types.case import parse_axis
from spatialbench.types.profile import ExporterProfile, load_profile, profile_names

__all__ = ["axis_option", "export_options", "max_splats_option", "read_axis", "read_profile", "read_vector"]

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


def max_splats_option(command: Any) -> Any:
    """``--max-splats N``: how much of a large world of splats is read."""
    return click.option("--max-splats", type=click.IntRange(min=1), metavar="N",
                        help="Read at most N splats, picked evenly by a fixed rule; said in the report.")(command)


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
