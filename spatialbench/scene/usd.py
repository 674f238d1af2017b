"""USD (.usda, .usdc, .usd, .usdz) through usd-core, whose reader runs in a process of its own."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench import errors
from spatialbench.errors import CorruptInputError, EmptyWorldError, InputError, UnsupportedFormatError
from spatialbench.scene.archive import Archive
from spatialbench.scene.clean import check_indices
from spatialbench.scene.folder import WorldFolder
from spatialbench.scene.images import TextureStore, UndecodedTextureError
from spatialbench.scene.log import MAX_FACES, MAX_VERTICES, ReadLog, Soup, warn_folded
from spatialbench.scene.polygons import count_folded, fan
from spatialbench.scene.usd_lights import usd_lights
from spatialbench.types import Material

__all__ = ["read_usd"]

_LIMIT_S = 120.0
_MEMORY = 6 << 30
_WRAP = {"clamp": "clamp", "black": "clamp", "mirror": "mirror"}
_UP = {"X": [1.0, 0.0, 0.0], "Y": [0.0, 1.0, 0.0], "Z": [0.0, 0.0, 1.0]}
_TODO = "Download or export it again"


def read_usd(folder: WorldFolder, log: ReadLog, where: str) -> Soup:
    """Read the visible meshes of a stage at its first time, with transforms; polygons are cut into fans.

    ``upAxis`` and ``metersPerUnit`` go into the soup where the file states them. Of materials the base colour of
    UsdPreviewSurface is read (a constant or one texture), else ``displayColor``; subdivision is not carried out.
    Lights are those of UsdLux, see ``usd_lights``.

    Raises
    ------
    UnsupportedFormatError : usd-core is not installed, or a kind of geometry that is not read.
    CorruptInputError : cannot be opened, takes too long or too much, or refers to files outside its folder.
    EmptyWorldError : no visible mesh.
    """
    if find_spec("pxr") is None:
        raise UnsupportedFormatError("is a USD scene, which needs usd-core", where=where,
                                     todo='pip install "spatialbench[usd]", or export it as .glb')
    data = folder.read_main()
    archive = Archive(data, where) if data[:2] == b"PK" else None
    with tempfile.TemporaryDirectory(prefix="usd-") as name:
        stage = _extract(folder.path, Path(name), where)
        reader = _Reader(stage, Path(name), folder, archive, log, where)
        return reader.read()


def _extract(path: Path, out: Path, where: str) -> dict[str, Any]:
    path = path.resolve()
    script = Path(__file__).with_name("usd_extract.py")  # run as a file, so that it starts without this package
    command = [sys.executable, str(script), str(path), str(path.parent), str(out), str(_MEMORY)]
    try:
        with (out / "said.txt").open("wb") as said:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, timeout=_LIMIT_S,
                                  check=False)
    except OSError as e:
        raise UnsupportedFormatError(f"is a USD scene whose reader cannot be started ({e.strerror})", where=where,
                                     todo="Export it as .glb") from None
    except subprocess.TimeoutExpired:
        raise CorruptInputError(f"is a USD scene that takes more than {_LIMIT_S:g} s to open", where=where,
                                todo="Export it as .glb") from None
    try:
        stage = json.loads((out / "stage.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise CorruptInputError(f"is a USD scene that its reader gives up on (exit status {done.returncode})",
                                where=where, todo="Download or export it again, or export it as .glb") from None
    if "error" in stage:
        kind, what, place, todo = stage["error"]
        raise getattr(errors, kind)(what, where=f"{where}, {place}" if place else where, todo=todo)
    return dict(stage)


@dataclass
class _Part:
    """One mesh, cut into triangles."""

    vertices: NDArray[np.float64]
    faces: NDArray[np.int32]
    ids: NDArray[np.int32]
    uv: NDArray[np.float32] | None
    colors: NDArray[np.float32] | None


class _Reader:
    def __init__(self, stage: dict[str, Any], out: Path, folder: WorldFolder, archive: Archive | None, log: ReadLog,
                 where: str) -> None:
        self.stage, self.out, self.folder, self.archive, self.log, self.where = stage, out, folder, archive, log, where
        self.looks: list[Material] = []
        self._index: dict[str, int] = {}
        self._store = TextureStore(log)

    def read(self) -> Soup:
        parts = []
        n_faces = n_vertices = 0
        for k, entry in enumerate(self.stage["meshes"]):
            with np.load(self.out / f"mesh_{k}.npz", allow_pickle=False) as arrays:
                part = self._part(dict(arrays), entry, f"{self.where}, {entry['path'][:80]}")
            n_faces, n_vertices = n_faces + len(part.faces), n_vertices + len(part.vertices)
            if n_faces > MAX_FACES or n_vertices > MAX_VERTICES:
                raise UnsupportedFormatError(f"places more than {MAX_FACES:,} faces", where=self.where,
                                             todo="Simplify the world")
            parts.append(part)
        if n_faces == 0:
            raise EmptyWorldError("its stage shows no mesh with faces", where=self.where,
                                  todo="Export the world as meshes that are visible")
        self._notes()
        starts = np.cumsum([0] + [len(p.vertices) for p in parts])
        uv = colors = None
        if any(p.uv is not None for p in parts):
            uv = np.concatenate([np.zeros((len(p.faces), 3, 2), np.float32) if p.uv is None else p.uv for p in parts])
        if any(p.colors is not None for p in parts):
            colors = np.concatenate([np.ones((len(p.faces), 3, 4), np.float32) if p.colors is None else p.colors
                                     for p in parts])
        up, unit = self.stage["up"], self.stage["unit"]
        return Soup(np.concatenate([p.vertices for p in parts]),
                    np.concatenate([p.faces + np.int32(s) for p, s in zip(parts, starts, strict=False)]),
                    np.concatenate([p.ids for p in parts]), self.looks, uv, colors,
                    lights=usd_lights(self.stage["lights"], self.stage["n_lights"], self._dome, self.log),
                    up=np.array(_UP[up]) if up in _UP else None,
                    unit_m=unit if unit is not None and 1e-6 < unit < 1e6 else None)

    def _notes(self) -> None:
        log, stage = self.log, self.stage
        for name in stage["layers"]:
            self.folder.read(name)  # for the record of files
        log.brings_lights = stage["n_lights"] > 0
        log.details["meshes"] = len(stage["meshes"])
        for what, count in stage["skipped"].items():
            log.repair(f"prims_{what.split()[0]}_skipped", count, f"{what}; left out")
        if any(e["smooth"] for e in stage["meshes"]):
            log.details["meshes_subdivided_elsewhere"] = sum(e["smooth"] for e in stage["meshes"])
        if any(e["skinned"] for e in stage["meshes"]):
            log.warn("skinned meshes are read as modelled, without their skeleton")
        for error in stage["errors"]:
            log.warn(f"USD says: {' '.join(error.split())[:160]}")

    def _part(self, a: dict[str, NDArray], entry: dict[str, Any], where: str) -> _Part:
        points, counts, indices = a["points"], a["counts"], a["indices"]
        if len(counts) and (counts.min() < 0 or counts.sum() != len(indices)):
            raise CorruptInputError(f"its faces take {int(counts.sum()):,} corners, it has {len(indices):,}",
                                    where=where, todo=_TODO)
        check_indices(indices, len(points), where, "vertex index")
        matrix = a["matrix"]
        if not np.isfinite(matrix).all():
            raise CorruptInputError("its transform is not finite", where=where, todo=_TODO)
        if len(a["holes"]):
            check_indices(a["holes"], len(counts), where, "hole")
        corner, source = fan(counts)
        if len(a["holes"]):
            keep = ~np.isin(source, a["holes"])
            corner, source = corner[keep], source[keep]
        self.log.repair("faces_not_polygons", int((counts < 3).sum()), "fewer than three corners; left out")
        if entry["left"] != (np.linalg.det(matrix[:3, :3]) < 0):
            corner = corner[:, [0, 2, 1]]
        faces = indices[corner].astype(np.int32).reshape(-1, 3)
        warn_folded(count_folded(faces, source, points), self.log)
        vertices = points @ matrix[:3, :3].T + matrix[:3, 3]
        places = [self._look(m, entry) for m in entry["materials"]]
        ids = np.array(places, np.int32)[a["material"][source]] if len(source) else np.zeros(0, np.int32)
        spread = _Spread(faces, corner, source)
        return _Part(vertices, faces, ids, self._uv(a, entry, spread, ids, where),
                     self._colors(a, entry, spread, places, ids))

    def _colors(self, a: dict[str, NDArray], entry: dict[str, Any], spread: _Spread, places: list[int],
                ids: NDArray[np.int32]) -> NDArray[np.float32] | None:
        """displayColor is linear; it counts where no material is bound."""
        rgb = spread.get(a.get("color"), entry.get("color_per", ""))
        if rgb is None:
            return None
        out = np.ones((*rgb.shape[:2], 4), np.float32)
        out[..., :3] = rgb
        opacity = spread.get(a.get("opacity"), entry.get("opacity_per", ""))
        if opacity is not None:
            out[..., 3] = opacity
        bound = [p for p, m in zip(places, entry["materials"], strict=True) if m is not None and "unread" not in m]
        out[np.isin(ids, bound)] = 1
        return out

    def _uv(self, a: dict[str, NDArray], entry: dict[str, Any], spread: _Spread, ids: NDArray[np.int32], where: str
            ) -> NDArray[np.float32] | None:
        out = None
        for m in entry["materials"]:
            if not m or not m.get("uv"):
                continue
            place = self._look(m, entry)
            if self.looks[place].texture is None:
                continue
            key = entry.get("sets", {}).get(m["uv"], "")
            st = spread.get(a.get(key), entry.get(f"{key}_per", ""))
            if st is None:
                self.log.warn(f"{where.rpartition(', ')[2]} has no texture coordinates '{m['uv'][:40]}'; its texture "
                              "is drawn in one colour")
                continue
            st = _transformed(st.astype(np.float64), m.get("transform"))
            out = np.zeros((len(ids), 3, 2), np.float32) if out is None else out
            own = ids == place
            out[own, :, 0], out[own, :, 1] = st[own, :, 0], 1 - st[own, :, 1]
        return out

    def _look(self, m: dict[str, Any] | None, entry: dict[str, Any]) -> int:
        key = json.dumps([m, entry["double"], None if m else entry["name"]])
        if key not in self._index:
            self._index[key] = len(self.looks)
            self.looks.append(self._material(m, entry))
        return self._index[key]

    def _material(self, m: dict[str, Any] | None, entry: dict[str, Any]) -> Material:
        if m is None:
            return Material(name=entry["name"], double_sided=entry["double"])
        if "unread" in m:
            self.log.warn(f"the material '{m['name'][:60]}' is of a kind that is not read ({m['unread'][:40]}); drawn "
                          "in the mesh's own colour")
            return Material(name=m["name"], double_sided=entry["double"])
        if m.get("maps"):
            self.log.warn(f"the material '{m['name'][:60]}': its maps for {', '.join(m['maps'])} are not used")
        r, g, b = (min(max(float(c), 0.0), 1.0) for c in m["color"])
        alpha = min(max(float(m["opacity"]), 0.0), 1.0)
        pixels = self._pixels(m) if "file" in m else None
        mode = "opaque" if alpha == 1 and not m["threshold"] else "mask" if m["threshold"] else "blend"
        red, green, blue = (max(float(c), 0.0) for c in m["emissive"])
        return Material(name=m["name"], base_color=(r, g, b, alpha), texture=pixels,
                        wrap=(_WRAP.get(m.get("wrapS", ""), "repeat"), _WRAP.get(m.get("wrapT", ""), "repeat")),
                        alpha_mode=mode, alpha_cutoff=float(m["threshold"]) or 0.5, double_sided=entry["double"],
                        emissive=(red, green, blue))

    def _dome(self, light: dict[str, Any]) -> NDArray[np.uint8] | None:
        try:
            return self._pixels(light)
        except UndecodedTextureError as e:
            self.log.warn(f"{e.what}; its light is white")
            return None

    def _pixels(self, m: dict[str, Any]) -> NDArray[np.uint8] | None:
        name = m["file"]
        try:
            if self.archive is not None:
                inner = m["resolved"].rpartition("[")[2].rstrip("]") or name
                data = self.archive.read(self.archive.clean(inner), by=m["name"])
            else:
                resolved, home = Path(m["resolved"] or name), self.folder.path.resolve().parent
                name = resolved.relative_to(home).as_posix() if resolved.is_absolute() and resolved.is_relative_to(
                    home) else name
                data = self.folder.read(name, needed_by=m["name"])
        except (InputError, ValueError) as e:
            self.log.warn(f"texture '{m['file'][:80]}' is left out: {getattr(e, 'what', e)}")
            return None
        return self._store.decode(data, m["file"][:80])


@dataclass(frozen=True)
class _Spread:
    """Values of a primvar to the corners of triangles."""

    faces: NDArray[np.int32]
    corner: NDArray[np.int64]
    source: NDArray[np.int64]

    def get(self, values: NDArray | None, per: str) -> NDArray | None:
        """[F,3,...]; None where there are none, or not as many as their interpolation needs."""
        if values is None or not len(values):
            return None
        index = {"constant": np.zeros_like(self.corner), "uniform": np.repeat(self.source[:, None], 3, axis=1),
                 "faceVarying": self.corner}.get(per, self.faces)
        if index.size and int(index.max()) >= len(values):
            return None
        out: NDArray = values[index]
        return out


def _transformed(st: NDArray[np.float64], t: dict[str, Any] | None) -> NDArray[np.float64]:
    """UsdTransform2d: scaled, turned against the clock by degrees, shifted; v runs up."""
    if not t:
        return st
    angle = math.radians(t["rotation"] or 0.0)
    c, s = math.cos(angle), math.sin(angle)
    out = st * np.array(t["scale"] or [1.0, 1.0])
    return np.asarray(out @ np.array([[c, s], [-s, c]]) + np.array(t["translation"] or [0.0, 0.0]))
