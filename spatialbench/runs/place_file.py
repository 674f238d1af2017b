"""Files of explicit releases for ``spatialbench place --trials``: the format of the placement oracle.

The mesh is taken in its file's own frame: ``up`` (``x``, ``y``, ``z``, with a sign or without) and ``units`` say how
it becomes Z up and metres, nothing else does. The numbers of the trials are Z up and metres: ``release_centre`` and
``quaternion_xyzw`` of the body, ``surface_z`` that the drop is measured from, ``support_boundary`` in plan.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from spatialbench.errors import ConfigError, MissingInputError
from spatialbench.physics.placement import Boundary, Release
from spatialbench.types import PlacementSettings
from spatialbench.types.case import parse_axis
from spatialbench.types.strict import validate_strict

__all__ = ["MAX_TRIALS", "TrialsFile", "read_trials", "to_z_up"]

MAX_TRIALS = 10_000
_MAX_BYTES = 16 << 20
_MAX_CORNERS = 10_000
_UNITS = {"m": 1.0, "dm": 0.1, "cm": 0.01, "mm": 0.001, "in": 0.0254, "ft": 0.3048}
_Metre = Annotated[float, Field(ge=-1e6, le=1e6)]
_Positive = Annotated[float, Field(gt=0, le=1e6)]


class _Open(BaseModel):
    """Keys that are not known are notes of whoever wrote the file."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class _Plate(_Open):
    diameter: float | None = None
    thickness: float | None = None
    density: float | None = None
    mass: _Positive | None = None
    friction: float | None = None


class _Limits(_Open):
    initial_penetration: float | None = None
    drop: float | None = None
    outside: float | None = None


class _Trial(_Open):
    id: int = Field(ge=0, le=10**9)
    release_centre: tuple[_Metre, _Metre, _Metre]
    quaternion_xyzw: tuple[_Metre, _Metre, _Metre, _Metre] = (0.0, 0.0, 0.0, 1.0)
    surface_z: _Metre

    @field_validator("quaternion_xyzw")
    @classmethod
    def _unit(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if abs(sum(x * x for x in value) - 1.0) > 1e-6:
            raise ValueError("is not of unit length")
        return value


class _File(_Open):
    trials: tuple[_Trial, ...] = Field(min_length=1, max_length=MAX_TRIALS)
    support_boundary: tuple[tuple[_Metre, _Metre], ...] = Field(min_length=3, max_length=_MAX_CORNERS)
    name: str = ""
    mesh: str = ""
    up: str = "z"
    units: str | _Positive = "m"
    plate: _Plate = _Plate()
    scene_friction: float | None = None
    gravity: float | None = None
    dt: str | float | None = None
    steps: int | None = None
    solver_iterations: int | None = None
    limits: _Limits = _Limits()

    @model_validator(mode="after")
    def _ids_once(self) -> _File:
        ids = [t.id for t in self.trials]
        if len(set(ids)) < len(ids):
            raise ValueError(f"'trials' has the id {next(i for i in ids if ids.count(i) > 1)} twice")
        return self


@dataclass(frozen=True, eq=False)
class TrialsFile:
    """What a file of releases asks for.

    Attributes
    ----------
    releases : Z up, m.
    boundary : of the support, in plan.
    settings : the protocol's with what the file says otherwise.
    up : unit vector in the mesh file's frame. unit_m : metres per unit of it.
    notes : what is odd about the file, for people.
    """

    name: str
    mesh: str
    releases: tuple[Release, ...]
    boundary: Boundary
    settings: PlacementSettings
    up: tuple[float, float, float]
    unit_m: float
    notes: tuple[str, ...] = field(default=())


def read_trials(path: Path, settings: PlacementSettings | None = None) -> TrialsFile:
    """Read and check a file of releases (JSON, at most 16 MiB and 10,000 trials).

    Parameters
    ----------
    settings : for what the file does not say; the protocol's defaults when None.

    Raises
    ------
    MissingInputError : no such file.
    ConfigError : not JSON, a wrong or missing key, a boundary without area, a mass that is not the plate's.
    """
    where = str(path)
    given = _json(path)
    _check_present(_File, given, where)
    _check_trials(given["trials"], where)
    data = validate_strict(_File, given, where)
    try:
        up = parse_axis(data.up)
    except ValueError as error:
        raise ConfigError(f"key 'up': {error}", where=where, todo="Correct the value") from None
    if isinstance(data.units, str) and data.units not in _UNITS:
        raise ConfigError(f"key 'units': '{data.units:.40}' is no unit", where=where,
                          todo=f"Use one of {', '.join(_UNITS)}, or metres per unit as a number")
    unit = _UNITS[data.units] if isinstance(data.units, str) else data.units
    releases = tuple(Release(t.id, t.release_centre, t.quaternion_xyzw, t.surface_z, "given") for t in data.trials)
    boundary = Boundary(np.array(data.support_boundary))
    notes = []
    if _area(boundary) < 1e-6:
        raise ConfigError("key 'support_boundary': encloses no area", where=where,
                          todo="Give at least three corners in plan that are not in one line, in order")
    if not boundary.is_simple():
        notes.append("the support boundary crosses itself; all that its parts enclose counts as support")
    return TrialsFile(data.name, data.mesh, releases, boundary,
                      _settings(data, settings or PlacementSettings(), where), up, unit, tuple(notes))


def to_z_up(vertices: NDArray[np.float64], up: tuple[float, float, float], unit_m: float) -> NDArray[np.float64]:
    """[V,3] m, Z up, of vertices in a file's own frame; by cyclic exchange of the axes, so that no digit is lost.

    +Y becomes +Z with (x, y, z) -> (x, -z, y), +X with (x, y, z) -> (-z, y, x); a negative axis is turned over first.
    """
    v = np.asarray(vertices, dtype=np.float64) * unit_m
    axis = int(np.argmax(np.abs(up)))
    x, y, z = v.T
    if up[axis] < 0:  # half a turn about another axis
        x, y, z = (x, -y, -z) if axis else (-x, y, -z)
    if axis == 2:
        return np.column_stack([x, y, z])
    return np.column_stack([x, -z, y] if axis == 1 else [-z, y, x])


def _area(boundary: Boundary) -> float:
    import shapely

    return float(shapely.make_valid(shapely.Polygon(boundary.outline)).area)


def _json(path: Path) -> dict[str, Any]:
    where = str(path)
    try:
        if not path.is_file():
            raise MissingInputError("no such file", where=where, todo="Check the path given with --trials")
        if path.stat().st_size > _MAX_BYTES:
            raise ConfigError("is larger than 16 MiB, which no file of trials is", where=where,
                              todo="Give the JSON file of the releases, not the world")
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise MissingInputError(f"cannot be read ({error.strerror})", where=where,
                                todo="Check the path and its permissions") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"is not valid JSON: {error}", where=where, todo="Correct it") from None
    if not isinstance(data, dict):
        raise ConfigError(f"must hold keys and values, holds {type(data).__name__}", where=where,
                          todo="Write an object with 'trials' and 'support_boundary'")
    for key, most in (("trials", MAX_TRIALS), ("support_boundary", _MAX_CORNERS)):
        if isinstance(data.get(key), list) and len(data[key]) > most:
            raise ConfigError(f"key '{key}': {len(data[key])} of them, at most {most} are taken", where=where,
                              todo="Split the file")
    return data


def _check_trials(trials: Any, where: str) -> None:
    """Each alone, so that an error names its id and the wrong value instead of the whole trial."""
    for k, trial in enumerate(trials if isinstance(trials, list) else ()):
        if not isinstance(trial, dict):
            raise ConfigError(f"key 'trials.{k}': holds {type(trial).__name__}, not keys and values", where=where,
                              todo="Write an object with 'id', 'release_centre' and 'surface_z'")
        here = f"{where}, trials.{k}" + (f" (id {str(trial['id'])[:20]})" if type(trial.get("id")) is int else "")
        _check_present(_Trial, trial, here)
        validate_strict(_Trial, trial, here)


def _check_present(model: type[BaseModel], data: dict[str, Any], where: str) -> None:
    missing = [name for name, field in model.model_fields.items() if field.is_required() and name not in data]
    if missing:
        raise ConfigError(f"key '{missing[0]}' is missing", where=where, todo="Add it")


def _settings(data: _File, base: PlacementSettings, where: str) -> PlacementSettings:
    said = {"plate_diameter": data.plate.diameter, "plate_thickness": data.plate.thickness,
            "plate_density": data.plate.density, "plate_friction": data.plate.friction,
            "scene_friction": data.scene_friction, "steps": data.steps, "solver_iterations": data.solver_iterations,
            "gravity": None if data.gravity is None else abs(data.gravity),
            "steps_per_second": None if data.dt is None else _rate(data.dt, where),
            "max_initial_penetration": data.limits.initial_penetration, "max_drop": data.limits.drop,
            "max_outside": data.limits.outside}
    given = {k: v for k, v in said.items() if v is not None}
    s = validate_strict(PlacementSettings, {**base.model_dump(), **given}, where)
    mass = data.plate.mass
    if mass is None:
        return s
    volume = np.pi * (s.plate_diameter / 2) ** 2 * s.plate_thickness
    if data.plate.density is None:
        return s.model_copy(update={"plate_density": mass / volume})
    if abs(mass / (s.plate_density * volume) - 1) > 1e-3:
        raise ConfigError(f"key 'plate.mass': {mass:g} kg is not what the density gives "
                          f"({s.plate_density * volume:g} kg)", where=where, todo="Give one of the two")
    return s


def _rate(dt: str | float, where: str) -> int:
    """Steps per second of a step such as ``1/240`` or 0.005."""
    try:
        step = Fraction(dt.strip()) if isinstance(dt, str) else Fraction(dt).limit_denominator(1_000_000)
        rate = 1 / step
    except (ValueError, ZeroDivisionError):
        rate = Fraction(0)
    if rate < 1 or rate.denominator != 1 or rate > 1_000_000:
        raise ConfigError(f"key 'dt': {str(dt)[:40]!r} is not a whole part of a second", where=where,
                          todo="Write it as '1/240'")
    return int(rate)
