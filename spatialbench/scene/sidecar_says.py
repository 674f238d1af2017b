"""What one side-car says, before it is weighed against others and against the world."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import CorruptInputError
from spatialbench.scene.cameras.listed import CameraList, number
from spatialbench.types.scene import Source

__all__ = ["SideCarSays", "direction", "json_object"]


@dataclass(frozen=True, eq=False)
class SideCarSays:
    """Values in the source frame; None where nothing is said.

    Attributes
    ----------
    kind : ``marble``, ``habitat``, ``nerfstudio``, ``inria``, ``colmap`` or ``spatialbench``.
    up : unit vector [3].
    up_source : ``side-car``, or ``profile`` for what is believed only where the world does not speak against it.
    unit_m : metres per source unit.
    ground_m : where the floor lies along the file's +Y, metres.
    lists : the cameras in each frame that the splats may be in, likeliest first, with words for it.
    notes : the rest, in words.
    warnings : what a person should know.
    """

    kind: str
    up: NDArray[np.float64] | None = None
    up_source: Source = "side-car"
    unit_m: float | None = None
    ground_m: float | None = None
    lists: tuple[tuple[str, CameraList], ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def json_object(value: Any, where: str) -> dict[str, Any]:
    """The value, which must be a JSON object.

    Raises
    ------
    CorruptInputError
    """
    if not isinstance(value, dict):
        raise CorruptInputError("holds no JSON object", where=where, todo="Write it again, or leave it out")
    return value


def direction(value: Any, where: str) -> NDArray[np.float64] | None:
    """A unit vector [3] of three numbers; None for None.

    Raises
    ------
    CorruptInputError
    """
    if value is None:
        return None
    if isinstance(value, list) and len(value) == 3:
        axis = np.array([number(v, f"{where}[{i}]") for i, v in enumerate(value)])
        length = float(np.linalg.norm(axis))
        if length > 1e-6:
            return axis / length
    raise CorruptInputError("is not a direction of three numbers", where=where, todo="Correct it, or leave it out")
