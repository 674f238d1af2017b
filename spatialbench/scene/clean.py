"""From raw triangles to a mesh that every later stage can rely on, with a count of all that was mended."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import CorruptInputError, EmptyWorldError
from spatialbench.scene.blocks import in_blocks
from spatialbench.scene.log import ReadLog, Soup, plural
from spatialbench.scene.weld import Welded, referred, weld
from spatialbench.types import TriangleMesh

__all__ = ["WARN_SHARE", "Cleaned", "check_indices", "check_used_finite", "clean", "warn_of_many"]

WARN_SHARE = 0.05
"""Of the faces, corners, vertices or splats: when more are mended, that is a warning too."""
_LARGEST = float(np.finfo(np.float32).max)
_EPS = float(np.finfo(np.float64).eps)


def check_indices(indices: NDArray, n_vertices: int, where: str, noun: str = "index") -> None:
    """Every index is in [0, n_vertices).

    Raises
    ------
    CorruptInputError : names the first that is not, and how many there are.
    """
    if indices.size == 0:
        return
    low, high = int(indices.min()), int(indices.max())
    if low >= 0 and high < n_vertices:
        return
    flat = indices.reshape(-1)
    bad = np.flatnonzero((flat < 0) | (flat >= n_vertices))
    raise CorruptInputError(
        f"{noun} {int(flat[bad[0]])} at position {int(bad[0])} is out of range: the number of vertices is "
        f"{n_vertices:,} ({len(bad):,} out of range in all)", where=where, todo="Export the file again")


def check_used_finite(vertices: NDArray, faces: NDArray, where: str) -> int:
    """Every vertex that a face uses is finite (and within the range of float32, in which it is drawn).

    Returns
    -------
    Number of vertices that are not, but that no face uses.

    Raises
    ------
    CorruptInputError : says how many are not and names the first.
    """
    if not vertices.size or max(float(vertices.max()), -float(vertices.min())) <= _LARGEST:  # not so where one is NaN
        return 0
    with np.errstate(invalid="ignore"):
        bad = ~(np.abs(vertices) <= _LARGEST).all(axis=1)
    n_bad = int(bad.sum())
    hit = np.flatnonzero(bad & referred(faces, len(vertices)))
    if len(hit):
        x, y, z = vertices[hit[0]].tolist()
        raise CorruptInputError(f"{len(hit):,} of the vertices that faces use are not finite, the first is "
                                f"vertex {int(hit[0])} (from 0): {x:g} {y:g} {z:g}", where=where,
                                todo="Repair the mesh in the tool that made it and export again")
    return n_bad


@dataclass(frozen=True, eq=False)
class Cleaned:
    """A mesh, and what was found out about its faces on the way: areas [F] > 0 and corners at one place."""

    mesh: TriangleMesh
    area: NDArray[np.float64]
    welded: Welded


def clean(soup: Soup, log: ReadLog, where: str) -> Cleaned:
    """Drop faces without area and vertices without faces; count duplicates; mend uv and colours.

    Vertices are not merged and no face is moved, so what is left is exactly what the file holds.

    Raises
    ------
    CorruptInputError : a face uses a vertex that is not finite.
    EmptyWorldError : no face is left.
    """
    vertices, faces = soup.vertices, soup.faces
    if len(faces) == 0:
        raise EmptyWorldError("holds no faces", where=where, todo="Export the world as a mesh with faces")
    log.details["faces_read"] = len(faces)
    check_indices(faces, len(vertices), where, "vertex index")  # readers have: compiled loops do not look again
    n_nonfinite = check_used_finite(vertices, faces, where)
    log.repair("vertices_nonfinite", n_nonfinite, "no face uses them; dropped")
    area, flat = _areas(vertices, faces)
    n_flat = int(np.count_nonzero(flat))
    if n_flat == len(faces):
        raise EmptyWorldError(f"none of its {plural(n_flat, 'face')} has an area", where=where,
                              todo="Check the scale and the transforms it was exported with")
    uv, colors, ids = soup.uv, soup.colors, soup.material_ids
    used = referred(faces, len(vertices))
    log.repair("vertices_unreferenced", len(vertices) - int(used.sum()) - n_nonfinite, "no face uses them; dropped")
    if n_flat:
        log.repair("faces_degenerate", n_flat, "without area; dropped, with the vertices that only they use")
        keep = ~flat
        faces, ids, area = faces[keep], ids[keep], area[keep]
        uv = None if uv is None else uv[keep]
        colors = None if colors is None else colors[keep]
        used = referred(faces, len(vertices))
    if not used.all():
        faces = np.take(np.cumsum(used, dtype=np.int32) - np.int32(1), faces)
        vertices = vertices[used]
    welded = weld(vertices, faces)
    log.repair("faces_duplicate", welded.duplicate_faces, "same corners as an earlier face; kept")
    uv, colors = _mend_uv(uv, log), _mend_colors(colors, log)
    left_out = log.repairs["faces_not_polygons"].count if "faces_not_polygons" in log.repairs else 0
    warn_of_many(log, faces=len(soup.faces) + left_out, corners=3 * len(soup.faces), vertices=len(soup.vertices))
    kept = np.flatnonzero(np.bincount(ids, minlength=len(soup.materials)))
    if len(kept) < len(soup.materials):
        ids = (np.cumsum(np.isin(np.arange(len(soup.materials)), kept)) - 1).astype(np.int32)[ids]
    mesh = TriangleMesh(vertices=vertices, faces=faces, material_ids=ids,
                        materials=tuple(soup.materials[i] for i in kept), uv=uv, colors=colors)
    return Cleaned(mesh, area, welded)


_MENDED = (
    ("faces_degenerate", "faces", "have no area and were dropped"),
    ("faces_not_polygons", "faces", "have fewer than three corners and were left out"),
    ("faces_duplicate", "faces", "have the corners of an earlier one and count twice"),
    ("vertices_nonfinite", "vertices", "are not finite, are used by no face and were dropped"),
    ("vertices_unreferenced", "vertices", "are used by no face and were dropped"),
    ("uv_nonfinite", "corners", "had texture coordinates that are not finite"),
    ("colors_nonfinite", "corners", "had colours that are not finite"),
    ("splats_position_not_finite", "splats", "have a position that is not finite and were dropped"),
    ("splats_scale_nan", "splats", "have a scale that is no number and were dropped"),
    ("splats_scale_infinite", "splats", "have an infinite scale and were dropped"),
    ("splats_scale_negative", "splats", "have a negative scale and were dropped"),
    ("splats_rotation_not_finite", "splats", "have a rotation that is not finite and were dropped"),
    ("splats_rotation_zero", "splats", "have a rotation of zero and were dropped"),
    ("splats_opacity_nan", "splats", "have an opacity that is no number and were dropped"),
    ("splats_opacity_out_of_range", "splats", "had an opacity outside [0, 1], which was clipped"),
    ("splats_color_not_finite", "splats", "have a colour that is not finite and were dropped"),
    ("sh_labels_out_of_range", "splats", "refer to a colour that is not there"))
"""Repairs of something broken: what they are counted in, and what is said of many."""


def warn_of_many(log: ReadLog, **wholes: int) -> None:
    """Say which repairs took more than ``WARN_SHARE`` of what they are counted in.

    Parameters
    ----------
    wholes : how many ``faces``, ``vertices``, ``corners`` or ``splats`` were read; repairs counted in others are
        passed over.
    """
    for name, noun, words in _MENDED:
        whole = wholes.get(noun, 0)
        count = log.repairs[name].count if name in log.repairs else 0
        if whole and count > WARN_SHARE * whole:
            log.warn(f"{count:,} of {whole:,} {noun} {words} ({count / whole:.0%}): look at how the world was exported")


def _areas(vertices: NDArray[np.float64], faces: NDArray[np.int32]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """[F] areas, and which of them cannot be told from 0.

    A corner at distance m from the origin carries a rounding of eps m, so twice the area of a face whose
    longest edge is e carries one of about 8 eps m e (four products of an edge and a rounded difference).
    """
    from spatialbench.scene import _mesh_kernels as kernels

    vertices, faces = np.ascontiguousarray(vertices), np.ascontiguousarray(faces)
    area, flat = np.empty(len(faces)), np.empty(len(faces), bool)
    in_blocks(len(faces), lambda part: kernels.areas(vertices, faces, 8 * _EPS, part.start, part.stop, area, flat))
    return area, flat


def _mend_uv(uv: NDArray[np.float32] | None, log: ReadLog) -> NDArray[np.float32] | None:
    if uv is None:
        return None
    bad = ~np.isfinite(uv)
    if bad.any():
        log.repair("uv_nonfinite", int(bad.any(axis=2).sum()), "texture coordinates of corners set to 0")
        uv = np.where(bad, np.float32(0), uv)
    return uv


def _mend_colors(colors: NDArray[np.float32] | None, log: ReadLog) -> NDArray[np.float32] | None:
    if colors is None:
        return None
    bad = np.isnan(colors)
    if bad.any():
        log.repair("colors_nonfinite", int(bad.any(axis=2).sum()), "colours of corners set to white")
        colors = np.where(bad, np.float32(1), colors)
    return np.clip(colors, 0, 1, out=colors)
