"""What each viewpoint sees: depth of six faces, rendered once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import UsageError
from spatialbench.types.protocol_rules import Fusion

if TYPE_CHECKING:
    from spatialbench.renderers.backends import Renderer

__all__ = ["Depths", "cube_depths"]

_MAX_BYTES = 8 << 30


def cube_depths(renderer: Renderer, position: NDArray[np.float64], image: int, alpha: float) -> NDArray[np.float32]:
    """[6,image,image] z-depth, row and column, in the order of ``cube_faces``; 0 where alpha is below ``alpha``."""
    from spatialbench.renderers.trajectories import cube_faces

    # Depth is that of half the light: below an alpha of one half there is none, and alpha need not be drawn.
    half = alpha == 0.5
    frames = renderer.render(cube_faces(position, image), want=("depth",) if half else ("depth", "alpha"))
    if frames.depth is None or (frames.alpha is None and not half):
        raise ValueError(f"the renderer {renderer.name_version} gives no depth or no alpha")
    seen = np.isfinite(frames.depth)
    if frames.alpha is not None:
        seen &= frames.alpha >= np.float32(alpha)
    return np.where(seen, frames.depth, np.float32(0.0)).astype(np.float32, copy=False)


class Depths:
    """Viewpoints and their depth images, laid out for the voting kernel.

    Parameters
    ----------
    most : viewpoints that there can be; memory is only touched for those that are added.

    Raises
    ------
    UsageError : images of so many viewpoints would not fit in 8 GiB.
    """

    def __init__(self, renderer: Renderer, settings: Fusion, most: int, on_render: Callable[[], None]) -> None:
        self._renderer, self._settings, self._on_render = renderer, settings, on_render
        size = settings.image
        if most * 6 * size * size * 5 > _MAX_BYTES:
            raise UsageError(f"depth of {most} viewpoints with six faces of {size} x {size} pixels takes more than "
                             f"{_MAX_BYTES >> 30} GiB", where="fusion", todo="Lower 'fusion.image' or 'fusion.rounds'")
        self._images = np.empty((most, 6, size, size), np.float32)
        self._incidence = np.empty((most, 6, size, size), np.uint8)
        self._positions = np.empty((most, 3))
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def positions(self) -> NDArray[np.float64]:
        """[V,3] in the order in which they were added."""
        return self._positions[:self._count]

    @property
    def images(self) -> NDArray[np.float32]:
        """[V,6,S,S] as ``_kernels.vote`` reads them: level faces transposed."""
        return self._images[:self._count]

    @property
    def incidence(self) -> NDArray[np.uint8]:
        """[V,6,S,S] of ``images``, as ``_kernels.incidence`` says."""
        return self._incidence[:self._count]

    def add(self, position: NDArray[np.float64]) -> None:
        """Render one more viewpoint [3]."""
        from spatialbench.renderers._threads import in_chunks, thread_count
        from spatialbench.world.fusion import _kernels

        images = self.look(position)
        kept, incidence = self._images[self._count], self._incidence[self._count]
        kept[:4] = images[:4].transpose(0, 2, 1)
        kept[4:] = images[4:]
        in_chunks(lambda a, _: _kernels.incidence(kept[a], incidence[a]), 6, 1, thread_count())
        self._positions[self._count] = position
        self._count += 1

    def look(self, position: NDArray[np.float64]) -> NDArray[np.float32]:
        """Depth [6,S,S] (row, column) from a place, without keeping it."""
        images = cube_depths(self._renderer, position, self._settings.image, self._settings.alpha)
        self._on_render()
        return images

    def kept(self, index: int) -> NDArray[np.float32]:
        """Depth [6,S,S] (row, column) of a viewpoint that was added."""
        images = self._images[index].copy()
        images[:4] = images[:4].transpose(0, 2, 1)
        return images
