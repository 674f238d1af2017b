"""The renderer of splats that needs no GPU: projected, sorted, binned into tiles and blended by compiled kernels.

The convention is that of gsplat's ``classic`` (and ``antialiased``) rasterisation, by its published kernels:

- A splat is drawn as the Gaussian whose covariance is J R S (J R)^T plus 0.3 square pixels on the diagonal, J
  being the Jacobian of the perspective at the centre; x/z and y/z are clamped there, beyond the image's sides by
  0.15 of its width or height. Centres nearer than 0.01 (gsplat's own; ``settings.near`` when above 0) are skipped.
- alpha = opacity exp(-d^T C^-1 d / 2), at most 0.999; below 1/255 it counts as nothing. With
  ``splats.antialiased``, opacity is first multiplied by (det C before / after the dilation)^(1/2).
- Front to back by the centre's depth, equal depths by index. A splat that would leave 1e-4 of the light or less
  ends the pixel and is not drawn.
- Colour is max(0, 0.5 + SH), encoded as trained: no gamma is applied anywhere. ``rgb`` is blended over the
  background and clipped to 1, as ``Frames`` promises; ``alpha`` is 1 minus the light left.
- Depth is the median depth: that of the centre of the first splat behind which at most half of the light is
  left, 0 where alpha is below a half. ``settings.depth`` may ask for another: ``plane`` is where the pixel's ray
  meets that splat's plane (``_splat_plane``); ``expected`` is the mean of the depths, weighted by what each adds, 0
  only where nothing is: for comparison with other renderers, not for geometry.

``settings.supersample`` and ``settings.shading`` are ignored: splats are filtered by their dilation, and are
trained so; more samples would show another world.

Images are equal to the bit for any number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spatialbench.renderers._splat_pack import CHUNK, pack_splats
from spatialbench.renderers._splat_plane import plane_depth
from spatialbench.renderers._splat_table import TILE
from spatialbench.renderers._threads import in_chunks, thread_count
from spatialbench.types import Camera, GaussianSplats, RenderSettings
from spatialbench.types.frames import DEPTHS

if TYPE_CHECKING:
    from spatialbench.renderers._splat_kernels import View

__all__ = ["NEAR", "SplatCpuBackend"]

NEAR = 0.01
"""Nearest depth of a centre unless the settings say otherwise."""
_SLACK = 2.0
"""Pixels around the image that a splat's dilation may bridge: above ``SIGMAS`` 0.3^(1/2) = 1.83."""
_ENTRIES = 1 << 26
"""Of the tiles' lists at a time, 8 bytes each: enough for any image but one of very many splats as large as it."""
_SHARES = 4
"""Pieces of work for each thread, so that none waits long for another."""

F32 = NDArray[np.float32]


class _Scratch(NamedTuple):
    """Tables of one image: projected splats [n,16], those in view [shares,room]; pages not used are not mapped."""

    out: F32
    found: NDArray[np.uint32]


class SplatCpuBackend:
    """Draws splats; what the images mean is said at the top of this module.

    Parameters
    ----------
    depth : in place of ``settings.depth``; None for that.

    Raises
    ------
    ValueError : an unknown ``depth``, or ``plane`` for more splats than there are whole numbers in float32.

    Spherical harmonics of degree 4 are drawn as degree 3; the import report says so.
    """

    def __init__(self, splats: GaussianSplats, settings: RenderSettings, depth: str | None = None) -> None:
        depth = settings.depth if depth is None else depth
        if depth not in DEPTHS:
            raise ValueError(f"depth is one of {', '.join(DEPTHS)}, not {depth!r}")
        self._splats = pack_splats(splats)
        self._offset = splats.offset if splats.offset is not None else np.zeros(3)
        self._compensate = splats.antialiased
        self._depth = depth
        if depth == "plane" and len(self._splats.shape) >= 1 << 24:
            raise ValueError(f"plane depth is drawn of fewer than {1 << 24:,} splats, got {len(self._splats.shape):,}")
        self._near = np.float32(settings.near if settings.near > 0 else NEAR)
        self._background = np.array(settings.background, np.float32)
        self._threads = thread_count()
        self._spare: list[_Scratch] = []

    def __call__(self, cameras: Sequence[Camera], want: Sequence[str]) -> tuple[
            F32 | None, F32 | None, F32 | None]:
        """Images of cameras of one size."""
        t, h, w = len(cameras), cameras[0].height, cameras[0].width
        rgb, depth, alpha = (np.empty(s, np.float32) for s in ((t, h, w, 3), (t, h, w), (t, h, w)))
        try:
            scratch = self._spare.pop()  # a single operation, safe between threads
        except IndexError:
            shares = self._threads * _SHARES
            room = -(-len(self._splats.boxes) // shares) * CHUNK
            scratch = _Scratch(_lines(len(self._splats.shape)), np.empty((shares, room), np.uint32))
        for k in range(t):
            self._draw(cameras[k], want, scratch, rgb[k], depth[k], alpha[k])
        self._spare.append(scratch)
        return rgb if "rgb" in want else None, depth if "depth" in want else None, \
            alpha if "alpha" in want else None

    def _draw(self, camera: Camera, want: Sequence[str], scratch: _Scratch, rgb: F32, depth: F32, alpha: F32) -> None:
        from spatialbench.renderers import _splat_kernels as kernels
        from spatialbench.renderers._splat_blend_kernels import OPAQUE
        from spatialbench.renderers._splat_blend_kernels import blend as blend_tiles

        splats, threads = self._splats, self._threads
        view = _view(camera, self._offset, self._near)
        shares = len(scratch.found)
        terms = splats.sh.shape[2] if "rgb" in want else 0
        tiles = -(-camera.width // TILE), -(-camera.height // TILE)
        total = np.zeros((shares, tiles[0] * tiles[1]), np.int64)
        found = in_chunks(lambda a, _: kernels.project(
            splats, view, a, shares, terms, self._compensate, *tiles, scratch.out, scratch.found[a], total[a]),
            shares, 1, threads)

        # Median depth is known once half of the light is gone.
        expected, plane = self._depth == "expected", self._depth == "plane"
        least = np.float32(0.5) if set(want) == {"depth"} and not expected else OPAQUE

        def lay(top: int, bottom: int) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
            band = slice(top * tiles[0], bottom * tiles[0])
            starts = np.concatenate([[0], np.cumsum(total[:, band].sum(0))])
            # Each share writes behind the shares before it; sorting then undoes what that order was.
            at = np.zeros_like(total)
            at[:, band] = starts[:-1] + np.cumsum(total[:, band], 0) - total[:, band]
            lists = np.empty(starts[-1], np.uint64)
            in_chunks(lambda a, _: kernels.scatter(
                scratch.out, scratch.found[a, :found[a]], *tiles, top, bottom, at[a], lists), shares, 1, threads)
            return starts, lists

        def blend(top: int, starts: NDArray[np.int64], lists: NDArray[np.uint64], of_depth: bool, into: F32) -> None:
            background, ceiling = (np.zeros(3, np.float32), np.inf) if of_depth else (self._background, 1.0)
            in_chunks(lambda a, _: blend_tiles(
                scratch.out, splats.source, lists, starts, tiles[0], top, a, shares, of_depth, plane and not of_depth,
                background, np.float32(ceiling), least, into, depth, alpha), shares, 1, threads)

        depths = np.empty_like(rgb) if expected and "depth" in want else None
        for top, bottom in _bands(total.sum(0).reshape(tiles[1], tiles[0]).sum(1)):
            starts, lists = lay(top, bottom)
            if "rgb" in want or depths is None:
                blend(top, starts, lists, False, rgb)
            if depths is not None:
                blend(top, starts, lists, True, depths)
        if depths is not None:
            np.divide(depths[..., 0], alpha, out=depth, where=alpha > 0)
            depth[alpha == 0] = 0
        elif plane and "depth" in want:
            plane_depth(splats, camera, camera.pose.position - self._offset, depth)


def _lines(n: int) -> F32:
    """Room for rows [n,16] that each lie in one line of the cache, 64 bytes."""
    flat = np.empty(16 * (n + 1), np.float32)
    first = -(flat.ctypes.data // 4) % 16
    return flat[first:first + 16 * n].reshape(n, 16)


def _bands(entries: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """First and one past the last of rows of tiles that are drawn together: no more than ``_ENTRIES``, or one row.

    Parameters
    ----------
    entries : [rows] how many entries the lists of each row's tiles hold.
    """
    top = 0
    while top < len(entries):
        fit = int(np.searchsorted(np.cumsum(entries[top:]), _ENTRIES, "right"))
        yield top, top + max(1, fit)
        top += max(1, fit)


def _view(camera: Camera, offset: NDArray[np.float64], near: np.float32) -> View:
    from spatialbench.renderers._splat_kernels import View

    position = camera.pose.position - offset
    rotation = camera.pose.rotation.T
    fx, fy, cx, cy, w, h = camera.fx, camera.fy, camera.cx, camera.cy, camera.width, camera.height
    # gsplat's limits: 0.3 of half the image's size beyond its sides.
    slopes = (-cx / fx - 0.15 * w / fx, (w - cx) / fx + 0.15 * w / fx,
              -cy / fy - 0.15 * h / fy, (h - cy) / fy + 0.15 * h / fy)
    # A centre farther than reach x steepness outside a side's plane cannot touch the image: a standard deviation
    # s gives at most s f/z (1 + slope^2)^(1/2) pixels.
    steep_x, steep_y = math.hypot(1.0, *slopes[:2]), math.hypot(1.0, *slopes[2:])
    normals = np.array([[-1, 0, -(cx + _SLACK) / fx], [1, 0, -(w - cx + _SLACK) / fx],
                        [0, -1, -(cy + _SLACK) / fy], [0, 1, -(h - cy + _SLACK) / fy]])
    sides = np.c_[normals @ rotation, [steep_x, steep_x, steep_y, steep_y]].astype(np.float32)
    with np.errstate(over="ignore"):  # from beyond float32 nothing is seen
        rounded = position.astype(np.float32)
    return View(np.ascontiguousarray(rotation, np.float32), rounded, (position - rounded).astype(np.float32),
                tuple(np.float32(v) for v in (fx, fy, cx, cy, w, h)), near, tuple(np.float32(v) for v in slopes),
                sides)
