"""What World Labs' API says of a Marble world: metres per unit and where the ground is."""

from __future__ import annotations

from typing import Any

import numpy as np

from spatialbench.errors import CorruptInputError, UnsupportedFormatError
from spatialbench.scene.cameras.listed import number
from spatialbench.scene.sidecar_says import SideCarSays

__all__ = ["marble_metadata", "parse_marble"]

_KEYS = {"metric_scale_factor", "ground_plane_offset"}
_WRAPPERS = ((), ("response",), ("world",), ("response", "world"))
_UNIT = (1e-6, 1e6)
_FARTHEST = 1e4
"""Metres from the origin to a floor."""


def marble_metadata(value: Any) -> dict[str, Any] | None:
    """The object with ``metric_scale_factor`` and ``ground_plane_offset`` in a response of the API, or a bare one.

    It lies at ``assets.splats.semantics_metadata`` of a world, which an operation wraps as ``response``; a draft's is
    null, and empty here. None for anything else.
    """
    if isinstance(value, dict) and value.keys() & _KEYS:
        return value
    for path in _WRAPPERS:
        at = value
        for key in (*path, "assets", "splats"):
            at = at.get(key) if isinstance(at, dict) else None
        if isinstance(at, dict) and "semantics_metadata" in at:
            found = at["semantics_metadata"]
            return {} if found is None else found if isinstance(found, dict) else None
    return None


def parse_marble(meta: dict[str, Any], where: str, *, splats: bool) -> SideCarSays:
    """Metres per unit, the floor along the file's +Y in metres (``y * scale - offset`` is 0 there), and ``flip_y``.

    ``flip_y`` (seen in responses, not in the documents) says that y points down, or, false, up: a convention, which
    anchoring checks against the world like a profile's. Any value may be null.

    Raises
    ------
    UnsupportedFormatError : the world is a mesh; the values are of the splats.
    CorruptInputError : a value of another kind, by name.
    """
    if not splats:
        raise UnsupportedFormatError("is about splats, and the world is a mesh", where=where,
                                     todo="Give the mesh's unit with --unit")
    scale, offset, flip = (meta.get(k) for k in ("metric_scale_factor", "ground_plane_offset", "flip_y"))
    unit = None if scale is None else number(scale, f"{where}, metric_scale_factor", positive=True)
    if unit is not None and not _UNIT[0] <= unit <= _UNIT[1]:
        raise CorruptInputError(f"is {unit:g} metres per unit", where=f"{where}, metric_scale_factor",
                                todo="Correct it, or leave it out")
    ground = None if offset is None else number(offset, f"{where}, ground_plane_offset")
    if ground is not None and not abs(ground) <= _FARTHEST:
        raise CorruptInputError(f"is {ground:g} m", where=f"{where}, ground_plane_offset",
                                todo="Correct it, or leave it out")
    if flip is not None and not isinstance(flip, bool):
        raise CorruptInputError("is neither true nor false", where=f"{where}, flip_y",
                                todo="Correct it, or leave it out")
    notes = [] if unit is None else [f"{unit:g} m per unit"]
    if ground is not None:
        notes.append(f"floor at y = {ground:g} m" if unit is not None else
                     "ground_plane_offset without metric_scale_factor means nothing here")
    if flip is not None:
        notes.append(f"y points {'down' if flip else 'up'} (flip_y)")
    return SideCarSays("marble", up=None if flip is None else np.array([0.0, -1.0 if flip else 1.0, 0.0]),
                       up_source="profile", unit_m=unit, ground_m=ground if unit is not None else None,
                       notes=tuple(notes or ["neither scale nor ground, as for a draft"]))
