"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from spatialbench.types.case import parse_axis

__all__ = ["axis_option", "read_axis", "read_vector"]

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
