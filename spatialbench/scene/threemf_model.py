"""The XML of a 3MF model part as plain tables, parsed as a stream; entities and document types are refused."""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass, field
from typing import NoReturn
from xml.parsers import expat

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import CorruptInputError, UnsupportedFormatError
from spatialbench.scene.log import MAX_FACES, MAX_VERTICES

__all__ = ["Instance", "ModelObject", "ModelPart", "Palette", "parse_model"]

_CORE = "http://schemas.microsoft.com/3dmanufacturing/core/2015/02"
_MATERIAL = "http://schemas.microsoft.com/3dmanufacturing/material/2015/02"
_PRODUCTION = "http://schemas.microsoft.com/3dmanufacturing/production/2015/06"
_KNOWN = {_CORE, _MATERIAL, _PRODUCTION}
_REFUSED = {"beamlattice": "a beam lattice", "multiproperties": "mixed properties of triangles",
            "compositematerials": "mixed materials", "slicestack": "slices", "volumetricstack": "volumetric data",
            "implicitfunction": "implicit functions", "displacementmesh": "a displacement mesh"}
_COLOR = re.compile(r"#([0-9a-fA-F]{6})([0-9a-fA-F]{2})?")
_TODO = "Download or export it again"
_IDENTITY = np.eye(4)


@dataclass
class Palette:
    """Colours [N,4] sRGB in [0,1] with names, or texture coordinates [N,2] (v up) of texture ``texture``."""

    colors: list[tuple[float, float, float, float]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    uv: array[float] = field(default_factory=lambda: array("d"))
    texture: str = ""

    def __len__(self) -> int:
        return len(self.uv) // 2 if self.texture else len(self.colors)


@dataclass
class Instance:
    """A copy of an object: its id, the part it is in (empty: this one), and its matrix [4,4]."""

    object: str
    path: str
    matrix: NDArray[np.float64]


@dataclass
class ModelObject:
    """A mesh, or copies of other objects."""

    name: str = ""
    pid: str = ""
    pindex: int = 0
    vertices: array[float] = field(default_factory=lambda: array("d"))
    corners: array[int] = field(default_factory=lambda: array("q"))
    pids: list[str] = field(default_factory=list)
    """Of triangles: the palette, empty where the object's own counts; only filled when one has its own."""
    picks: array[int] = field(default_factory=lambda: array("q"))
    """Three for each triangle: places in the palette, -1 where the object's own counts."""
    components: list[Instance] = field(default_factory=list)


@dataclass
class ModelPart:
    """One model file of the archive."""

    unit: str | None = None
    objects: dict[str, ModelObject] = field(default_factory=dict)
    palettes: dict[str, Palette] = field(default_factory=dict)
    textures: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    """Path, and how u and v leave [0,1] (3MF's words), by id."""
    items: list[Instance] = field(default_factory=list)


def parse_model(data: bytes, where: str) -> ModelPart:
    """The tables of a model part. Nothing is resolved yet.

    Raises
    ------
    CorruptInputError : not XML, a document type or an entity, an attribute that is no number (with line).
    UnsupportedFormatError : an extension that it requires, or geometry, that is not read.
    """
    return _Parser(where).parse(data)


class _Parser:
    def __init__(self, where: str) -> None:
        self._where = where
        self._part = ModelPart()
        self._object: ModelObject | None = None
        self._palette: Palette | None = None
        self._seen_root = False
        self._prefixes: dict[str, str] = {}
        p = expat.ParserCreate(namespace_separator="}")
        p.buffer_text = True
        p.StartElementHandler = self._start
        p.EndElementHandler = self._end
        p.StartNamespaceDeclHandler = self._prefix
        p.StartDoctypeDeclHandler = self._refuse_doctype
        p.EntityDeclHandler = self._refuse_doctype
        self._expat = p

    def parse(self, data: bytes) -> ModelPart:
        try:
            self._expat.Parse(data, True)
        except expat.ExpatError as e:
            raise CorruptInputError(f"its XML cannot be read ({expat.ErrorString(e.code)})",
                                    where=f"{self._where}, line {e.lineno}", todo=_TODO) from None
        except (ValueError, OverflowError, LookupError) as e:
            self._bad(f"an attribute is missing or is no number, or its encoding is unknown ({str(e)[:60]})")
        return self._part

    def _bad(self, what: str) -> NoReturn:
        raise CorruptInputError(what, where=f"{self._where}, line {self._expat.CurrentLineNumber}",
                                todo=_TODO) from None

    def _refuse_doctype(self, *_: object) -> None:
        self._bad("has a document type or an entity, which 3MF forbids and which is never followed")

    def _prefix(self, prefix: str | None, uri: str) -> None:
        self._prefixes[prefix or ""] = uri

    def _start(self, tag: str, a: dict[str, str]) -> None:
        name = tag.rpartition("}")[2]
        if name == "vertex" and self._object is not None:
            self._object.vertices.extend((float(a["x"]), float(a["y"]), float(a["z"])))
            if len(self._object.vertices) > 3 * MAX_VERTICES:
                self._bad(f"has more than {MAX_VERTICES:,} vertices")
        elif name == "triangle" and self._object is not None:
            self._triangle(self._object, a)
        elif name == "tex2coord" and self._palette is not None:
            self._palette.uv.extend((float(a["u"]), float(a["v"])))
        elif name in _REFUSED:
            raise UnsupportedFormatError(f"holds {_REFUSED[name]}, which is not read", where=self._where,
                                         todo="Export it as a plain mesh")
        else:
            handler = getattr(self, f"_on_{name}", None)
            if handler is not None:
                handler(a)

    def _end(self, tag: str) -> None:
        name = tag.rpartition("}")[2]
        if name == "object":
            self._object = None
        elif name in ("basematerials", "colorgroup", "texture2dgroup"):
            self._palette = None

    def _triangle(self, o: ModelObject, a: dict[str, str]) -> None:
        o.corners.extend((int(a["v1"]), int(a["v2"]), int(a["v3"])))
        if len(o.corners) > 3 * MAX_FACES:
            self._bad(f"has more than {MAX_FACES:,} triangles")
        if "p1" not in a and "pid" not in a and not o.pids:
            return
        missing = len(o.corners) // 3 - 1 - len(o.pids)
        o.pids.extend([""] * missing)
        o.picks.extend([-1] * (3 * missing))
        o.pids.append(a.get("pid", ""))
        first = int(a.get("p1", -1))
        o.picks.extend((first, int(a.get("p2", first)), int(a.get("p3", first))))

    def _on_model(self, a: dict[str, str]) -> None:
        self._part.unit = a.get("unit")
        for prefix in a.get("requiredextensions", "").split():
            uri = self._prefixes.get(prefix, prefix)
            if uri not in _KNOWN:
                raise UnsupportedFormatError(f"requires the 3MF extension {uri[:80]}, which is not read",
                                             where=self._where, todo="Export it without that extension")

    def _on_object(self, a: dict[str, str]) -> None:
        self._object = ModelObject(name=a.get("name", "")[:200], pid=a.get("pid", ""), pindex=int(a.get("pindex", 0)))
        if a["id"] in self._part.objects:
            self._bad(f"defines object {a['id'][:20]} twice")
        self._part.objects[a["id"]] = self._object

    def _on_component(self, a: dict[str, str]) -> None:
        if self._object is not None:
            self._object.components.append(self._instance(a))

    def _on_item(self, a: dict[str, str]) -> None:
        self._part.items.append(self._instance(a))

    def _instance(self, a: dict[str, str]) -> Instance:
        path = next((v for k, v in a.items() if k.rpartition("}")[2] == "path"), "")
        return Instance(a["objectid"], path, self._matrix(a.get("transform", "")))

    def _matrix(self, text: str) -> NDArray[np.float64]:
        """3MF multiplies row vectors from the left: twelve numbers, row by row, the shift last."""
        if not text.strip():
            return _IDENTITY
        m = np.eye(4)
        m[:3] = np.array([float(v) for v in text.split()]).reshape(4, 3).T
        if not np.isfinite(m).all():
            self._bad("a transform is not finite")
        return m

    def _new_palette(self, a: dict[str, str], texture: str = "") -> None:
        self._palette = Palette(texture=texture)
        self._part.palettes[a["id"]] = self._palette

    def _on_basematerials(self, a: dict[str, str]) -> None:
        self._new_palette(a)

    def _on_colorgroup(self, a: dict[str, str]) -> None:
        self._new_palette(a)

    def _on_texture2dgroup(self, a: dict[str, str]) -> None:
        self._new_palette(a, a["texid"])

    def _on_texture2d(self, a: dict[str, str]) -> None:
        self._part.textures[a["id"]] = (a["path"], a.get("tilestyleu", "wrap"), a.get("tilestylev", "wrap"))

    def _on_base(self, a: dict[str, str]) -> None:
        self._color(a["displaycolor"], a.get("name", ""))

    def _on_color(self, a: dict[str, str]) -> None:
        self._color(a["color"], "")

    def _color(self, text: str, name: str) -> None:
        found = _COLOR.fullmatch(text.strip())
        if found is None:
            self._bad(f"{text[:20]!r} is no colour")
        if self._palette is not None:
            whole = int(found[1] + (found[2] or "ff"), 16)
            r, g, b, alpha = ((whole >> s & 255) / 255 for s in (24, 16, 8, 0))
            self._palette.colors.append((r, g, b, alpha))
            self._palette.names.append(name[:200])
