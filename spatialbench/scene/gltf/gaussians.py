"""Gaussians in a glTF document (``KHR_gaussian_splatting``, plain or as SPZ): every node's copy in one set."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import CorruptInputError, UnsupportedFormatError
from spatialbench.scene.clean import check_indices
from spatialbench.scene.gltf.accessors import Accessors
from spatialbench.scene.gltf.container import Buffers
from spatialbench.scene.gltf.extensions import SPLATS, SPZ_EXTENSIONS, holds_splats
from spatialbench.scene.gltf.nodes import Placed
from spatialbench.scene.gltf.schema import Gltf, Primitive
from spatialbench.scene.log import ReadLog
from spatialbench.scene.splats.raw import MAX_SPLATS, SH_C0, RawSplats, joined
from spatialbench.scene.splats.spz import read_spz
from spatialbench.scene.splats.transform import transform_splats

__all__ = ["read_gaussians"]

_TODO = "Export it again"
_LINEAR = {"lin_rec709_display", "linear"}
_SRGB = {"srgb_rec709_display", "BT.709", ""}
_TOWARD = {"R": (1, 0, 0), "L": (-1, 0, 0), "U": (0, 1, 0), "D": (0, -1, 0), "B": (0, 0, 1), "F": (0, 0, -1)}


def read_gaussians(doc: Gltf, placed: Placed, accessors: Accessors, buffers: Buffers, log: ReadLog, where: str
                   ) -> RawSplats | None:
    """All Gaussians that the default scene places, in the document's frame; None when there are none.

    Attributes are as ratified: linear scales, rotations xyzw, opacities in [0,1], harmonics up to degree 3. Drafts of
    the extension had logarithms for scales; where one is negative, it is such a file. Colours that the extension
    calls linear become sRGB splat by splat, higher harmonics to first order.

    Raises
    ------
    CorruptInputError : an attribute that is missing, of a wrong type or length; degrees with gaps.
    UnsupportedFormatError : more than ``MAX_SPLATS``.
    """
    copies: dict[tuple[int, int], list[NDArray[np.float64]]] = {}
    for _, mesh, matrix in placed.meshes:
        for k, p in enumerate(doc.meshes[mesh].primitives):
            if holds_splats(p):
                copies.setdefault((mesh, k), []).append(matrix)
    if not copies:
        return None
    reader = _Reader(accessors, buffers, log, where)
    reader.check_total({key: (doc.meshes[key[0]].primitives[key[1]], len(m)) for key, m in copies.items()})
    plain: list[tuple[RawSplats, str, list[NDArray[np.float64]]]] = []
    packed: list[tuple[RawSplats, str, list[NDArray[np.float64]]]] = []
    for (mesh, k), matrices in copies.items():
        p, by = doc.meshes[mesh].primitives[k], f"mesh {mesh} primitive {k}"
        view = _spz_view(p)
        raw = reader.plain(p, by) if view is None else reader.spz(p, view, by)
        (plain if view is None else packed).append((_in_srgb(raw, _color_space(p, log), log), by, matrices))
    reader.check_number(sum(len(raw.means) * len(m) for raw, _, m in plain + packed))
    if any((raw.scales < 0).any() for raw, _, _ in plain):
        log.warn("some scales of the Gaussians are negative, so all are read as logarithms, as drafts of "
                 f"{SPLATS} had them")
        plain = [(replace(raw, scales=np.exp(raw.scales)), by, m) for raw, by, m in plain]
    out = joined([transform_splats(raw, m, log, by) for raw, by, matrices in plain + packed for m in matrices])
    if len({raw.antialiased for raw, _, _ in plain + packed}) > 1:
        log.warn("some of the Gaussians are antialiased and some are not; all are drawn as if they were")
    log.details["gaussian_primitives"] = len(copies)
    return out


class _Reader:
    def __init__(self, accessors: Accessors, buffers: Buffers, log: ReadLog, where: str) -> None:
        self.accessors, self.buffers, self.log, self.where = accessors, buffers, log, where

    def check_total(self, primitives: dict[tuple[int, int], tuple[Primitive, int]]) -> None:
        """How many splats are placed, before memory is taken for them; SPZ says its own number later."""
        total = 0
        for (mesh, k), (p, n) in primitives.items():
            if "POSITION" not in p.attributes:
                raise CorruptInputError("its Gaussians have no attribute POSITION",
                                        where=f"{self.where}, mesh {mesh} primitive {k}", todo=_TODO)
            total += n * self.accessors.definition(p.attributes["POSITION"], f"mesh {mesh} primitive {k}").count
        self.check_number(total)

    def check_number(self, total: int) -> None:
        """Not more than can be read."""
        if total > MAX_SPLATS:
            raise UnsupportedFormatError(f"places {total:,} splats, more than {MAX_SPLATS:,}", where=self.where,
                                         todo="Prune it, or cut it into parts")

    def plain(self, p: Primitive, by: str) -> RawSplats:
        """Gaussians whose attributes are accessors; scales as they are stored."""
        means = self.accessors.floats(p.attributes["POSITION"], f"{by} POSITION", (3,))
        n = len(means)
        rows: NDArray[np.int64] | slice = slice(None)
        if p.indices is not None:
            rows = self.accessors.indices(p.indices, by)
            check_indices(rows, n, f"{self.where}, {by}, accessor {p.indices}")
        coefficients = [self._attribute(p, "SH_DEGREE_0_COEF_0", 3, n, by)]
        degree = 0
        while f"{SPLATS}:SH_DEGREE_{degree + 1}_COEF_0" in p.attributes and degree < 3:
            degree += 1
            coefficients += [self._attribute(p, f"SH_DEGREE_{degree}_COEF_{i}", 3, n, by)
                             for i in range(2 * degree + 1)]
        expected = {f"{SPLATS}:SH_DEGREE_{d}_COEF_{i}" for d in range(degree + 1) for i in range(2 * d + 1)}
        stray = sorted(a for a in p.attributes if a.startswith(f"{SPLATS}:SH_DEGREE_") and a not in expected)
        if stray:
            raise CorruptInputError(f"its Gaussians have the attribute {stray[0][:60]} but not all of the degrees up "
                                    "to it (3 at the most)", where=f"{self.where}, {by}", todo=_TODO)
        opacities = self._attribute(p, "OPACITY", 1, n, by)[:, 0]
        beyond = (opacities < 0) | (opacities > 1)
        self.log.repair("splats_opacity_out_of_range", int(beyond.sum()), "clipped to [0, 1]")
        rotation = self._attribute(p, "ROTATION", 4, n, by)[:, [3, 0, 1, 2]]
        kernel = _block(p).get("kernel", "ellipse")
        if kernel != "ellipse":
            self.log.warn(f"the Gaussians' kernel {str(kernel)[:40]!r} is not known; they are drawn as ellipses")
        return RawSplats(means=means[rows], scales=self._attribute(p, "SCALE", 3, n, by)[rows],
                         quaternions=np.ascontiguousarray(rotation[rows]), opacities=np.clip(opacities, 0, 1)[rows],
                         sh=np.stack(coefficients, axis=1)[rows])

    def _attribute(self, p: Primitive, name: str, width: int, n: int, by: str) -> NDArray[np.float32]:
        full = f"{SPLATS}:{name}"
        if full not in p.attributes:
            raise CorruptInputError(f"its Gaussians have no attribute {full}", where=f"{self.where}, {by}", todo=_TODO)
        values = self.accessors.floats(p.attributes[full], f"{by} {full}", (width,))
        if len(values) != n:
            raise CorruptInputError(f"{full} has {len(values):,} elements, POSITION has {n:,}",
                                    where=f"{self.where}, {by}", todo=_TODO)
        return values.astype(np.float32)

    def spz(self, p: Primitive, view: Any, by: str) -> RawSplats:
        """Gaussians in an SPZ stream, turned from its frame to that of the document."""
        if not isinstance(view, int) or isinstance(view, bool) or view < 0:
            raise CorruptInputError("its SPZ extension names no bufferView", where=f"{self.where}, {by}", todo=_TODO)
        inner = ReadLog()
        raw = read_spz(bytes(self.buffers.view(view, by)[0]), inner, f"{self.where}, {by}, bufferView {view}")
        for text in inner.warnings:
            self.log.warn(f"{by}: {text}")
        self.log.details.update({k: v for k, v in inner.details.items() if k != "antialiased"})
        stated = self.accessors.definition(p.attributes["POSITION"], by)
        if stated.count != len(raw.means):
            self.log.warn(f"{by}: its accessors announce {stated.count:,} splats, its SPZ stream holds "
                          f"{len(raw.means):,}, which are read")
        frame = inner.details.get("coordinate_system", "RUB")
        if raw.up is not None and np.linalg.det([_TOWARD[c] for c in frame]) < 0:
            frame = frame[:2] + dict(zip("LRUDFB", "RLDUBF", strict=True))[frame[2]]  # as its reader turned it over
        raw.up = None
        turn = np.eye(4)
        turn[:3, :3] = np.diag([-1.0, 1.0, -1.0]) @ np.array([_TOWARD[c] for c in frame], dtype=np.float64).T
        if self._bounds_fit(raw.means, np.eye(3), stated) and not self._bounds_fit(raw.means, turn[:3, :3], stated):
            self.log.warn(f"{by}: its SPZ data is taken as it stands, without the half turn about the vertical that "
                          "the extension asks for, since the bounds in the file fit only so")
            return raw
        return transform_splats(raw, turn, self.log, by)

    @staticmethod
    def _bounds_fit(means: NDArray[np.float32], turn: NDArray[np.float64], stated: Any) -> bool:
        """Whether the box that the accessor states is that of the turned centres, to a hundredth of its size."""
        box = (stated.min, stated.max)
        if not all(isinstance(b, list) and len(b) == 3 and all(isinstance(v, (int, float)) for v in b) for b in box):
            return False
        ends = np.sort(np.stack([means.min(axis=0), means.max(axis=0)]).astype(np.float64) @ turn.T, axis=0)
        slack = 0.01 * float(np.abs(ends).max()) + 1e-6
        return bool(np.abs(ends - np.array(box, dtype=np.float64)).max() <= slack)


def _block(p: Primitive) -> dict[str, Any]:
    block = p.extensions.get(SPLATS)
    return block if isinstance(block, dict) else {}


def _spz_view(p: Primitive) -> Any:
    """The buffer view of an SPZ stream, or None; the extension stands inside of the other one, in drafts beside it."""
    inside = _block(p).get("extensions")
    for place in (inside, p.extensions):
        for name in SPZ_EXTENSIONS:
            block = place.get(name) if isinstance(place, dict) else None
            if isinstance(block, dict):
                return block.get("bufferView", -1)
    return None


def _color_space(p: Primitive, log: ReadLog) -> str:
    space = str(_block(p).get("colorSpace", ""))[:40]
    if space not in _SRGB | _LINEAR:
        log.warn(f"the Gaussians' colour space {space!r} is not known; their colours are taken as sRGB")
    return space


def _in_srgb(raw: RawSplats, space: str, log: ReadLog) -> RawSplats:
    """Linear colours as sRGB: exact for the constant term, to first order for the others."""
    if space not in _LINEAR:
        return raw
    log.warn(f"the Gaussians' colours are linear ({space}); they are turned into sRGB splat by splat, harmonics to "
             "first order")
    sh = raw.sh.copy()
    c = 0.5 + SH_C0 * raw.sh[:, 0].astype(np.float64)
    bright = np.maximum(c, 0.0031308)  # below, the curve is a line (IEC 61966-2-1)
    sh[:, 0] = (np.where(c <= 0.0031308, 12.92 * c, 1.055 * bright ** (1 / 2.4) - 0.055) - 0.5) / SH_C0
    sh[:, 1:] *= np.where(c <= 0.0031308, 12.92, 1.055 / 2.4 * bright ** (1 / 2.4 - 1))[:, None]
    return replace(raw, sh=sh)

