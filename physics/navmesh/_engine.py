"""What the recipe needs of a Recast, whichever build of it answers, and how a build fails."""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import DTypeLike, NDArray

__all__ = ["BuildFailure", "Engine", "ModuleFailure", "Oversized"]


class BuildFailure(Exception):
    """Nothing came out at this voxel size."""

    def __init__(self, stage: str, reason: str, cause: str = "build_failed") -> None:
        self.stage, self.reason, self.cause = stage, reason, cause
        super().__init__(f"{stage}: {reason}")


class ModuleFailure(Exception):
    """The engine stopped (trap, abort, memory, work); it must not be used again."""


class Oversized(Exception):
    """The build may take so long that it has to be started again on an engine that counts its work."""


class Engine(Protocol):
    """Recast's functions and objects. Objects are known by their address; all go when the engine is closed.

    Attributes
    ----------
    clearance_offset : added to the free voxels that the ledge and the low-height filter are given. For Recast 1.6 an
        agent fits where that many are free, for older ones where more are (spec/navmesh.md section 3, which names the
        low-height filter alone; the ledge filter differs likewise).
    pointer : dtype of an address inside an object.
    metered : counts its work and stops by itself, or has nobody who could: no use in starting again.
    """

    clearance_offset: int
    pointer: str
    metered: bool

    def new(self, kind: str) -> int:
        """A fresh ``Heightfield``, ``CompactHeightfield``, ``ContourSet`` or ``PolyMesh``; 0 without memory."""

    def free(self, kind: str, address: int) -> None:
        """Free it before the rest."""

    def vector(self, data: NDArray[Any]) -> int:
        """Address of a copy of ``data``, for arguments that are plain pointers."""

    def array(self, data: NDArray[Any]) -> int:
        """A copy of ``data`` (float32, int32 or uint8) for arguments that are arrays; 0 without memory."""

    def drop(self, array: int) -> None:
        """Free an array before the rest."""

    def call(self, step: str, *args: int | float) -> int:
        """``rcSTEP`` with a context that neither logs nor keeps time; 0 for one that failed.

        Raises
        ------
        ModuleFailure
        """

    def read(self, address: int, count: int, dtype: DTypeLike) -> NDArray[Any]:
        """[count] values from ``address``, copied."""

    def why(self) -> str:
        """Why memory was refused, for people; empty when it was not."""

    def close(self) -> None:
        """Free everything."""
