"""Material libraries of OBJ files: what an unlit image needs of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile

from spatialbench.errors import InputError
from spatialbench.scene.color import srgb_to_linear
from spatialbench.scene.folder import WorldFolder
from spatialbench.scene.images import TextureStore, UndecodedTextureError
from spatialbench.scene.log import ReadLog
from spatialbench.types import Material

__all__ = ["ObjMaterial", "build_materials", "parse_mtl"]

_OPTIONS = {"-blendu": 1, "-blendv": 1, "-bm": 1, "-boost": 1, "-cc": 1, "-clamp": 1, "-imfchan": 1, "-mm": 2,
            "-texres": 1, "-type": 1, "-o": 3, "-s": 3, "-t": 3}
_PLACED = {"-o", "-s", "-t"}


@dataclass
class ObjMaterial:
    """One ``newmtl`` block; None where it says nothing."""

    name: str
    kd: tuple[float, float, float] | None = None
    ke: tuple[float, float, float] | None = None
    opacity: float = 1.0
    map_kd: str = ""
    map_d: str = ""
    clamp: bool = False


def parse_mtl(data: bytes, name: str, log: ReadLog) -> list[ObjMaterial]:
    """Read a library; lines that cannot be read are warned about and left out."""
    out: list[ObjMaterial] = []
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    for number, line in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        words = line.split(None, 1)
        if not words or words[0].startswith("#"):
            continue
        key, rest = words[0], words[1].strip() if len(words) > 1 else ""
        if key == "newmtl":
            out.append(ObjMaterial(rest))
        elif out:
            try:
                _statement(out[-1], key, rest, log)
            except ValueError:
                log.warn(f"'{name}', line {number}: cannot read '{line.strip()[:60]}'")
    return out


def _statement(material: ObjMaterial, key: str, rest: str, log: ReadLog) -> None:
    lower = key.lower()
    if lower in ("kd", "ke"):
        values = [float(w) for w in rest.split()[:3]]
        rgb = (values * 3)[:3] if len(values) == 1 else values
        if len(rgb) != 3 or not all(0 <= v < 1e6 for v in rgb):
            raise ValueError
        if lower == "kd":
            material.kd = (min(rgb[0], 1.0), min(rgb[1], 1.0), min(rgb[2], 1.0))
        else:
            material.ke = (rgb[0], rgb[1], rgb[2])
    elif lower in ("d", "tr"):
        value = float(rest.split()[-1]) if rest else 1.0
        if not 0 <= value <= 1:
            raise ValueError
        material.opacity = value if lower == "d" else 1 - value
    elif lower == "map_kd":
        material.map_kd, material.clamp = _map(rest, log)
    elif lower == "map_d":
        material.map_d = _map(rest, log)[0]


def _map(rest: str, log: ReadLog) -> tuple[str, bool]:
    """File name behind the options (it may hold spaces), and whether ``-clamp on`` is among them."""
    clamp = False
    while rest.startswith("-"):
        words = rest.split()
        option, n = words[0].lower(), _OPTIONS.get(words[0].lower(), 0)
        if not n:
            break
        if option in _PLACED:  # one to three numbers
            n = 1 + sum(1 for _ in takewhile(_is_number, words[2:4]))
            log.warn(f"the texture option '{option}' of a material library is not used")
        clamp = clamp or (option == "-clamp" and words[1:2] == ["on"])
        parts = rest.split(None, 1 + n)
        rest = parts[1 + n] if len(parts) > 1 + n else ""
    return rest.strip(), clamp


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def build_materials(source: ObjMaterial, folder: WorldFolder, store: TextureStore, log: ReadLog) -> Material:
    """The material with its texture; a texture that is missing or broken is a warning.

    Kd multiplies the texture; it is white where the library gives none, or gives black beside a texture
    (some exporters write 0 0 0 there and mean the texture alone).
    """
    pixels = None
    if source.map_kd:
        try:
            pixels = store.decode(folder.read(source.map_kd, needed_by=f"material '{source.name}'"), source.map_kd)
        except UndecodedTextureError:
            raise
        except InputError as e:
            log.warn(f"texture '{source.map_kd}' is left out: {e.what}")
    kd = source.kd or (1.0, 1.0, 1.0)
    if source.map_kd and max(kd) == 0:
        log.warn(f"material '{source.name}' has a texture and a black Kd; the Kd is taken as white")
        kd = (1.0, 1.0, 1.0)
    rgb = [float(v) for v in srgb_to_linear(kd)]  # type: ignore[arg-type]
    cut = bool(source.map_d) and source.map_d == source.map_kd
    if source.map_d and not cut:
        log.warn(f"the opacity texture '{source.map_d}' is not used")
    mode = "blend" if source.opacity < 1 else "mask" if cut and pixels is not None else "opaque"
    wrap = "clamp" if source.clamp else "repeat"
    return Material(name=source.name, base_color=(rgb[0], rgb[1], rgb[2], source.opacity), texture=pixels,
                    wrap=(wrap, wrap), alpha_mode=mode, emissive=source.ke or (0.0, 0.0, 0.0))
