"""Who decides the up axis and the unit: user > case > file or side-car > profile > format prior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spatialbench.errors import ConfigError, CorruptInputError, UsageError
from spatialbench.types import Decision, Scene, SnapshotCase
from spatialbench.types.case import parse_axis
from spatialbench.types.profile import ExporterProfile
from spatialbench.types.scene import Source

__all__ = ["CONFIDENCE", "FrameOverrides", "decide_unit", "decide_up", "default_forward", "level_rotation",
           "named_profile", "prior_up"]

Vec3 = tuple[float, float, float]

_LARGEST = 1e12
"""Of a coordinate, or metres per unit, that somebody says."""

CONFIDENCE: dict[Source, float] = {"user": 1.0, "case": 1.0, "file": 0.95, "side-car": 0.9, "profile": 0.8,
                                   "prior": 0.6, "origin": 0.6, "found": 0.5, "rule": 1.0, "none": 0.0}
"""How far a source is believed; an order made visible, not a probability."""


@dataclass(frozen=True)
class FrameOverrides:
    """What a user says about the frame; stands above everything else.

    Attributes
    ----------
    up : up axis in the source frame, any length.
    unit_m : metres per source unit; feeds the camera search and ``scale_doubtful``, not the scale.
    scale : metres per source unit in place of the protocol's rule; the result is then not the protocol's.
    camera_position : initial camera in the source frame and unit.
    camera_forward : its viewing direction; only the horizontal part is used. None looks the format's way.
    profile : conventions of the exporter that the user names; below what the file and the case say.
    opacity : ``logit`` or ``activated``: how opacities of splats are stored. None as the format asks.

    Raises
    ------
    UsageError : a value that is no axis, length or camera.
    """

    up: Vec3 | None = None
    unit_m: float | None = None
    scale: float | None = None
    camera_position: Vec3 | None = None
    camera_forward: Vec3 | None = None
    profile: ExporterProfile | None = None
    opacity: Literal["logit", "activated"] | None = None

    def __post_init__(self) -> None:
        for name, number in (("unit", self.unit_m), ("scale", self.scale)):
            if number is not None and not 1 / _LARGEST <= number <= _LARGEST:
                raise UsageError(f"{number:g} is not a plausible number of metres per unit", where=f"--{name}",
                                 todo="Give for example 1 for metres or 0.01 for centimetres")
        for name, vector in (("up", self.up), ("camera position", self.camera_position),
                             ("camera forward", self.camera_forward)):
            if vector is not None and (len(vector) != 3 or not (np.abs(vector) <= _LARGEST).all()):
                raise UsageError(f"the {name} is not three finite numbers of at most {_LARGEST:g}",
                                 where="frame overrides", todo="Give x, y and z in the file's own frame")
        if self.up is not None and not np.any(self.up):
            raise UsageError("the up axis is zero", where="--up", todo="Give for example +Y or +Z")
        if self.camera_forward is not None and self.camera_position is None:
            raise UsageError("a viewing direction without a camera position", where="frame overrides",
                             todo="Give the camera's position too")


def named_profile(case: SnapshotCase | None, overrides: FrameOverrides) -> ExporterProfile | None:
    """Conventions of the exporter: those that the user names, else the case's."""
    return overrides.profile if overrides.profile is not None or case is None else case.profile


def decide_up(scene: Scene, case: SnapshotCase | None, overrides: FrameOverrides
              ) -> tuple[NDArray[np.float64], Decision]:
    """Unit up axis [3] in the source frame, and who said so (design section 7).

    Raises
    ------
    ConfigError : the case's axis is none.
    CorruptInputError : the file's axis is zero or not finite.
    """
    if overrides.up is not None:
        return _up(overrides.up, "user", "")
    if case is not None and case.up is not None:
        try:
            axis = parse_axis(case.up) if isinstance(case.up, str) else case.up
            return _up(axis, "case", "")
        except (ValueError, CorruptInputError) as e:
            raise ConfigError(f"key 'up': {e}", where=f"case {case.id}", todo="Correct the axis") from None
    if scene.side.up is not None:
        return _up(scene.side.up, scene.side.up_source, "")
    profile = named_profile(case, overrides)
    if profile is not None and profile.up is not None:
        return _up(profile.up, "profile", f"what {profile.maker} writes")
    return prior_up(scene)


def prior_up(scene: Scene) -> tuple[NDArray[np.float64], Decision]:
    """The axis that the format has by convention, when nobody says another."""
    return _up(scene.prior_up, "prior", f"what {scene.report.format} files are by convention")


def _up(axis: ArrayLike, source: Source, note: str) -> tuple[NDArray[np.float64], Decision]:
    v = np.asarray(axis, dtype=np.float64)
    largest = np.abs(v).max(initial=0.0)
    length = np.linalg.norm(v / largest) * largest if 0 < largest < np.inf else largest
    if v.shape != (3,) or not np.isfinite(length) or length == 0:
        raise CorruptInputError(f"the up axis {v.tolist()} has no direction", where=f"up axis of the {source}",
                                todo="Give the axis with --up")
    v = v / length
    return v, Decision(value=[float(x) for x in v], source=source, confidence=CONFIDENCE[source], note=note)


def decide_unit(scene: Scene, case: SnapshotCase | None, overrides: FrameOverrides
                ) -> tuple[float | None, Decision]:
    """Metres per source unit, or None when nobody says, and who said so (design section 7)."""
    profile = named_profile(case, overrides)
    says: list[tuple[float | None, Source]] = [
        (overrides.unit_m, "user"), (None if case is None else case.unit_m, "case"),
        (scene.side.unit_m, scene.side.unit_source),
        (None if profile is None else profile.unit_m, "profile"), (scene.prior_unit_m, "prior")]
    for value, source in says:
        if value is not None:
            note = f"what {scene.report.format} files are by convention" if source == "prior" else ""
            if source == "profile" and profile is not None:
                note = f"what {profile.maker} writes"
            return float(value), Decision(value=float(value), source=source, note=note,
                                          confidence=CONFIDENCE[source])
    return None, Decision(value=None, source="none", confidence=0.0,
                          note=f"{scene.report.format} files carry no unit and nothing else gives one")


def default_forward(up: ArrayLike) -> NDArray[np.float64]:
    """Horizontal unit direction [3] that a file's origin looks along, by its up axis.

    +Y up (glTF, OBJ): -Z. -Y up (3DGS, COLMAP): +Z. Z or X up: +Y. For a tilted axis the horizontal part
    of the nearest of these is taken.
    """
    u = np.asarray(up, dtype=np.float64)
    main = int(np.argmax(np.abs(u)))
    forward = np.array([0.0, 0.0, -np.sign(u[1])]) if main == 1 else np.array([0.0, 1.0, 0.0])
    flat = forward - u * (u @ forward)
    return np.asarray(flat / np.linalg.norm(flat))


def level_rotation(up: ArrayLike, forward: ArrayLike) -> NDArray[np.float64]:
    """Rotation [3,3] from the source frame to X right, Y forward, Z up.

    ``forward`` needs not be horizontal; its horizontal part is used.

    Raises
    ------
    ValueError : ``forward`` is parallel to ``up``.
    """
    u = np.asarray(up, dtype=np.float64)
    u = u / np.linalg.norm(u)
    f = np.asarray(forward, dtype=np.float64)
    flat = f - u * (u @ f)
    length = np.linalg.norm(flat)
    if not length > 1e-12 * np.linalg.norm(f):
        raise ValueError("the viewing direction is vertical")
    flat = flat / length
    return np.stack([np.cross(flat, u), flat, u])
