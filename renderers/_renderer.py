"""The object that draws: checks of what is asked for, and the change to another backend when one fails."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import BackendUnavailableError, UsageError
from spatialbench.types import Camera, Frames

__all__ = ["MAX_PIXELS", "WANT", "DrawImages", "Renderer"]

WANT = ("rgb", "depth", "alpha")

MAX_PIXELS = 1 << 26
"""Of one call of ``Renderer.render``: 1.3 GB of results."""


class DrawImages(Protocol):
    """What a backend provides: images of some cameras of one size, only those in ``want``.

    Returns rgb [T,H,W,3], depth [T,H,W], alpha [T,H,W] (float32, as ``Frames`` says) or None each.
    """

    def __call__(self, cameras: Sequence[Camera], want: Sequence[str]) -> tuple[
            NDArray[np.float32] | None, NDArray[np.float32] | None, NDArray[np.float32] | None]: ...


class Renderer:
    """Draws one mesh or one set of splats; whatever has to be built for it is built once.

    Attributes
    ----------
    name_version : e.g. ``embree 2 (embreex 4.4.0)``; it is in every ``Frames`` that this renderer gives.
    warnings : what went otherwise than asked, so far.
    """

    def __init__(self, name_version: str, draw: DrawImages, others: Iterator[tuple[str, DrawImages]] | None = None,
                 ) -> None:
        self.name_version = name_version
        self.warnings: tuple[str, ...] = ()
        self._draw = draw
        self._others = others if others is not None else iter(())

    def render(self, cameras: Sequence[Camera], want: Sequence[str] = WANT) -> Frames:
        """Images of all cameras at once; use ``stream`` for many.

        Raises
        ------
        UsageError : ``want`` names something else than rgb, depth and alpha; images of more than ``MAX_PIXELS``.
        BackendUnavailableError : the backend failed while drawing, and was forced or is the last one.
        ValueError : cameras of different sizes, or with a lens that is not finite.

        Warns
        -----
        UserWarning : the backend failed, and another one draws from now on.
        """
        unknown = [w for w in want if w not in WANT]
        if unknown:
            raise UsageError(f"'{unknown[0]}' cannot be rendered", where="want",
                             todo=f"Choose among {', '.join(WANT)}")
        if len({(c.width, c.height) for c in cameras}) > 1:
            raise ValueError("all cameras of one call must have the same image size")
        for k, c in enumerate(cameras):
            if not all(map(math.isfinite, (c.fx, c.fy, c.cx, c.cy))):
                raise ValueError(f"camera {k} has a lens that is not finite: {c.fx}, {c.fy}, {c.cx}, {c.cy}")
        if not cameras:
            return Frames((), backend=self.name_version, warnings=self.warnings)
        pixels = len(cameras) * cameras[0].width * cameras[0].height
        if pixels > MAX_PIXELS:
            raise UsageError(f"{len(cameras)} images of {cameras[0].width}x{cameras[0].height} are {pixels:,} pixels, "
                             f"more than the {MAX_PIXELS:,} of one call", where="cameras",
                             todo="Draw smaller images, or fewer at a time")
        while True:
            try:
                rgb, depth, alpha = self._draw(cameras, want)
                break
            except BackendUnavailableError as e:
                self._replace(e)
        return Frames(tuple(cameras), rgb, depth, alpha, self.name_version, self.warnings)

    def stream(self, cameras: Sequence[Camera], want: Sequence[str] = WANT, batch: int = 4) -> Iterator[Frames]:
        """The same images, at most ``batch`` at a time, so that memory stays bounded."""
        for k in range(0, len(cameras), batch):
            yield self.render(cameras[k:k + batch], want)

    def _replace(self, error: BackendUnavailableError) -> None:
        """Draw with the next backend from now on, or raise the error."""
        following = next(self._others, None)
        if following is None:
            raise error
        warning = f"{following[0]} draws instead of {self.name_version}: {error.what}"
        warnings.warn(warning, stacklevel=4)
        self.name_version = f"{following[0]} (instead of {self.name_version})"
        self.warnings += (warning,)
        self._draw = following[1]
