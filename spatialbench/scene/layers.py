"""Several mesh files of one world: HunyuanWorld writes foreground, background and sky as ``mesh_layer*.ply``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from spatialbench.errors import EmptyWorldError, UnsupportedFormatError
from spatialbench.scene.draco import read_drc
from spatialbench.scene.folder import WorldFolder
from spatialbench.scene.log import MAX_FACES, ReadLog, Soup, plural
from spatialbench.scene.ply import read_ply
from spatialbench.scene.sky import is_sky_shell, sky_named
from spatialbench.scene.sniff import refuse, sniff

__all__ = ["LAYERS_UP", "merge_soups", "read_layers"]

LAYERS_UP = np.array([0.0, 0.0, 1.0])
"""HunyuanWorld casts the rays of its panorama with Z up."""


def read_layers(paths: tuple[Path, ...], folder: WorldFolder, log: ReadLog) -> Soup:
    """All layers as one soup, each layer's materials named after its file.

    The sky's layer is the one whose name says so, or that :func:`~spatialbench.scene.sky.is_sky_shell` tells from the
    others. Its materials are flagged.

    Raises
    ------
    As :func:`spatialbench.scene.load_scene`; the layer is named.
    """
    soups, names = [], []
    for path in paths:
        found = sniff(path)
        if found.kind not in ("ply", "drc"):
            raise refuse(found, path) if found.kind == "points-ply" else UnsupportedFormatError(
                f"is {found.label}, not the mesh that a layer is", where=str(path), todo="Export the layers as meshes")
        try:
            data = folder.read(path.name)
            soup = read_drc(data, log, str(path)) if found.kind == "drc" else read_ply(data, folder, log, str(path))
        except EmptyWorldError as e:
            log.warn(f"the layer '{path.name}' {e.what}; left out")
            continue
        soups.append(soup)
        names.append(path.stem)
    if not soups:
        raise EmptyWorldError("none of its layers has a face", where=str(paths[0].parent), todo="Export it again")
    log.details["layers"] = {name: len(soup.faces) for name, soup in zip(names, soups, strict=True)}
    shells = [s.vertices[s.faces] for s in soups]
    for k, (name, soup) in enumerate(zip(names, soups, strict=True)):
        others = [t for i, t in enumerate(shells) if i != k]
        sky = sky_named(name) or (bool(others) and is_sky_shell(shells[k], np.concatenate(others), LAYERS_UP))
        label = name if not sky or sky_named(name) else f"{name} sky"
        soup.materials = [replace(m, name=label, sky=sky) for m in soup.materials]
        if sky:
            log.warn(f"the layer '{name}' ({plural(len(soup.faces), 'face')}) is taken for the sky: it is drawn, but "
                     "is no ground and gives no scale")
            log.details.setdefault("sky", []).append(label)
    return merge_soups(soups)


def merge_soups(soups: list[Soup]) -> Soup:
    """One after the other; where only some have colours or texture coordinates, the others get white and 0.

    Raises
    ------
    UnsupportedFormatError : more faces together than one world may have.
    """
    n = sum(len(s.faces) for s in soups)
    if n > MAX_FACES:
        raise UnsupportedFormatError(f"its layers have {n:,} faces together, more than {MAX_FACES:,}",
                                     todo="Simplify the world")
    vertex = np.cumsum([0] + [len(s.vertices) for s in soups])
    material = np.cumsum([0] + [len(s.materials) for s in soups])
    uv = colors = None
    if any(s.uv is not None for s in soups):
        uv = np.concatenate([np.zeros((len(s.faces), 3, 2), np.float32) if s.uv is None else s.uv for s in soups])
    if any(s.colors is not None for s in soups):
        colors = np.concatenate([np.ones((len(s.faces), 3, 4), np.float32) if s.colors is None else s.colors
                                 for s in soups])
    return Soup(np.concatenate([s.vertices for s in soups]),
                np.concatenate([s.faces + np.int32(v) for s, v in zip(soups, vertex, strict=False)]),
                np.concatenate([s.material_ids + np.int32(m) for s, m in zip(soups, material, strict=False)]),
                [m for s in soups for m in s.materials], uv, colors,
                cameras=tuple(c for s in soups for c in s.cameras))
