"""What a file is, told from its bytes and never from its name."""

from __future__ import annotations

import io
import json
import re
import struct
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from spatialbench.errors import CorruptInputError, InputError, UnsupportedFormatError
from spatialbench.scene.folder import WORLD_SUFFIXES, check_given_path
from spatialbench.scene.off import OFF_HEADER
from spatialbench.scene.ply_header import MAX_HEADER, PlyHeader, parse_ply_header

__all__ = ["READABLE", "Sniffed", "refuse", "sniff", "sniff_bytes"]

READABLE = ("glb", "gltf", "obj", "ply", "stl", "off", "3mf", "drc", "usd",
            "splat-ply", "spz", "splat", "ksplat", "sog")
"""Kinds that this version reads."""
_AS_WORLD = ("Give the world as a mesh (.glb, .gltf, .usd, .obj, .ply, .stl, .off, .3mf or .drc) or as splats (.ply, "
             ".spz, .splat, .ksplat, .sog, or in a .glb or .gltf)")
_AGAIN = "Download it again"
_MAGIC: tuple[tuple[bytes, str, str, str], ...] = (
    (b"glTF", "glb", "binary glTF", ""),
    (b"PXR-USDC", "usd", "a USD scene (binary)", ""),
    (b"#usda", "usd", "a USD scene (text)", ""),
    (b"version https://git-lfs.github.com/spec/", "lfs", "a git-lfs pointer, not the file itself",
     "Fetch the content with 'git lfs pull'"),
    (b"Kaydara FBX Binary", "fbx", "an FBX scene", "Export it as .glb"),
    (b"BLENDER", "blend", "a Blender project", "Export it as .glb"),
    (b"DRACO", "drc", "a bare Draco stream", ""),
    (b"\x89HDF", "hdf5", "an HDF5 file", _AS_WORLD),
    (b"\x93NUMPY", "npy", "a NumPy array", _AS_WORLD),
    (b"\x89PNG", "image", "a PNG image", _AS_WORLD),
    (b"\xff\xd8\xff", "image", "a JPEG image", _AS_WORLD),
    (b"RIFF", "media", "a RIFF file (WebP image, sound or video)", _AS_WORLD),
    (b"%PDF", "pdf", "a PDF document", _AS_WORLD),
    (b"Rar!", "archive", "a RAR archive", "Unpack it and give the file inside"),
    (b"7z\xbc\xaf\x27\x1c", "archive", "a 7z archive", "Unpack it and give the file inside"),
    (b"\x28\xb5\x2f\xfd", "archive", "Zstandard-compressed data", "Unpack it and give the file inside"),
)
_SPLAT_COLUMNS = ({"f_dc_0", "features_dc_0"}, {"scale_0", "scaling_0"}, {"rot_0", "rotation_0"})
_PICKLE_TODO = "Ask its maker for a PLY or GLB, or convert it in a place that you trust"
_PICKLE_STARTS = b"(c}])SVIFL"
"""First opcodes of pickles of protocols 0 and 1: containers, globals, and values that end with their line."""
_PICKLE_SAMPLE, _PICKLE_OPS = 1 << 16, (20, 3)
"""Bytes that are looked at; opcodes in a row that no other file begins with, and as many before one of which the end
is not among those bytes."""
_OBJ_LINE = re.compile(rb"(?:^|[\r\n])[ \t]*v[ \t]+[-+.\dnNiI]")


@dataclass(frozen=True)
class Sniffed:
    """``kind`` is a short name (see ``READABLE``), ``label`` says it in words, ``todo`` what helps."""

    kind: str
    label: str
    todo: str = ""


def sniff(path: Path) -> Sniffed:
    """What the file at ``path`` is. Reads its first MiB (all of a JSON file up to 4 MiB).

    Raises
    ------
    MissingInputError, CorruptInputError : not there, a folder, or empty; a PLY header that cannot be read.
    """
    check_given_path(path)
    try:
        with path.open("rb") as f:
            head = f.read(MAX_HEADER)
            if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{":
                head += f.read(3 << 20)
        return sniff_bytes(head, path.stat().st_size, path)
    except OSError as e:
        raise CorruptInputError(f"cannot be read ({e.strerror})", where=str(path), todo="Check it") from None


def refuse(found: Sniffed, path: Path) -> InputError:
    """The error for a kind that is not read."""
    if found.kind in ("binary", "text"):
        what = f"is {found.label}, not a world in a known format"
    elif found.label.endswith("never opened"):
        what = f"is {found.label}"
    else:
        what = f"is {found.label}, which is not read by this version"
    return UnsupportedFormatError(what, where=str(path), todo=found.todo or _AS_WORLD)


def sniff_bytes(head: bytes, size: int, path: Path) -> Sniffed:
    """As :func:`sniff`, from the first bytes and the size; ``path`` serves archives and messages."""
    if len(head) >= 84 and size == 84 + 50 * struct.unpack_from("<I", head, 80)[0]:
        return Sniffed("stl", "binary STL")  # first: its free 80-byte header may look like anything
    if head.startswith(b"NGSP"):
        return Sniffed("spz", "3D Gaussian splats (SPZ)")
    for magic, kind, label, todo in _MAGIC:
        if head.startswith(magic):
            return Sniffed(kind, label, todo)
    if re.match(rb"ply[\r\n]", head):
        return _sniff_ply(parse_ply_header(head, str(path)))
    if OFF_HEADER.match(head.removeprefix(b"\xef\xbb\xbf").lstrip()):
        return Sniffed("off", "OFF mesh")
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _sniff_zip(path)
    if not _is_text(head):  # before the shorter magics, which any coordinate may hold
        if _is_ksplat(head, size) or (path.suffix.lower() == ".ksplat" and head[:2] == b"\x00\x01"):
            return Sniffed("ksplat", "3D Gaussian splats (KSPLAT)")
        if _is_splat(head, size):
            return Sniffed("splat", "3D Gaussian splats (.splat)")
    if head.startswith(b"\x1f\x8b"):
        return _sniff_gzip(head, path)
    if head[4:8] == b"ftyp" or head.startswith(b"\x1aE\xdf\xa3"):
        return Sniffed("video", "a video", "For clips use the video track")
    if head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return Sniffed("pickle", "a Python pickle (torch.save writes such), which could run code and is never opened",
                       _PICKLE_TODO)
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return Sniffed("text", "text in UTF-16", "Save it as UTF-8")
    if _is_pickle(head, size):
        return Sniffed("pickle", "a Python pickle of an early protocol, which could run code and is never opened",
                       _PICKLE_TODO)
    if _is_text(head):
        return _sniff_text(head, path)
    return _sniff_binary(head, size, path)


def _sniff_ply(header: PlyHeader) -> Sniffed:
    vertex, face = header.element("vertex"), header.element("face")
    names = set(vertex.names) if vertex else set()
    if header.element("chunk") and "packed_position" in names:
        return Sniffed("splat-ply", "3D Gaussian splats (compressed PLY)")
    if sum(bool(any_of & names) for any_of in _SPLAT_COLUMNS) >= 2:
        return Sniffed("splat-ply", "3D Gaussian splats (PLY)")
    if vertex and vertex.count and not (face and face.count) and not header.element("tristrips"):
        return Sniffed("points-ply", f"a point cloud (PLY, {vertex.count:,} points and no faces)",
                       "Give a mesh: a point cloud has no surface to draw or to walk on")
    return Sniffed("ply", "PLY mesh")


def _sniff_zip(path: Path) -> Sniffed:
    try:
        with zipfile.ZipFile(path) as z:
            names = [n for n in z.namelist()[:10000] if not n.endswith("/")]
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return Sniffed("zip", "a zip archive that cannot be opened", _AGAIN)
    lower = [n.lower() for n in names]
    if any(n.endswith("data.pkl") for n in lower):
        return Sniffed("pickle", "a PyTorch archive holding a pickle, which could run code and is never opened",
                       _PICKLE_TODO)
    if "meta.json" in lower and any(n.endswith(".webp") for n in lower):
        return Sniffed("sog", "3D Gaussian splats (SOG)")
    if any(n.endswith((".usdc", ".usda", ".usd")) for n in lower):
        return Sniffed("usd", "a USD scene (USDZ)")
    if "3d/3dmodel.model" in lower:
        return Sniffed("3mf", "a 3MF model")
    worlds = [n for n in names if n.lower().endswith(WORLD_SUFFIXES)]
    inside = f"Unpack it and give {', '.join(worlds[:4])}" if worlds else "It holds no world file by name"
    return Sniffed("zip", "a zip archive", inside)


def _sniff_gzip(head: bytes, path: Path) -> Sniffed:
    try:
        start = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(head, 16)
    except zlib.error as e:
        raise CorruptInputError(f"is gzip-compressed data that cannot be unpacked ({str(e).rpartition(': ')[2]})",
                                where=str(path), todo="Download or export it again") from None
    if start.startswith(b"NGSP"):
        return Sniffed("spz", "3D Gaussian splats (SPZ)")
    return Sniffed("archive", "gzip-compressed data", "Unpack it and give the file inside")


def _is_text(head: bytes) -> bool:
    sample = head[:1 << 16]
    return b"\x00" not in sample and sum(c < 9 or 13 < c < 32 for c in sample) <= len(sample) // 1000


def _sniff_text(head: bytes, path: Path) -> Sniffed:
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    start = text[:512].lower()
    if not text:
        return Sniffed("text", "nothing but white space", _AGAIN)
    if start.startswith((b"<!doctype html", b"<html")) or (start.startswith(b"<") and b"<html" in start):
        return Sniffed("html", "an HTML page (an error page saved in place of the download?)",
                       "Open it in a browser to see the message, then download the file itself")
    if start.startswith(b"<"):
        if b"<collada" in start:
            return Sniffed("collada", "a COLLADA scene", "Export it as .glb")
        return Sniffed("xml", "an XML document", _AS_WORLD)
    if text.startswith((b"{", b"[")):
        return _sniff_json(text)
    if start.startswith(b"solid") and (b"facet" in text.lower() or b"endsolid" in text.lower()):
        return Sniffed("stl", "ASCII STL")
    if _OBJ_LINE.search(text):
        return Sniffed("obj", "Wavefront OBJ")
    if re.search(rb"(?:^|[\r\n])newmtl[ \t]", text):
        return Sniffed("mtl", "a material library (MTL)", "Give the .obj file that uses it")
    if path.suffix.lower() == ".obj" and re.search(rb"(?:^|[\r\n])(?:mtllib|usemtl|o|g|f)[ \t]", text):
        return Sniffed("obj", "Wavefront OBJ")  # an OBJ without vertices: its reader says so
    return Sniffed("text", "plain text", _AS_WORLD)


def _sniff_json(text: bytes) -> Sniffed:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # not JSON, or only its beginning was read
        if re.search(rb'"asset"\s*:', text):
            return Sniffed("gltf", "glTF")
        return Sniffed("text", "text that begins like JSON", _AS_WORLD)
    if isinstance(value, dict):
        asset = value.get("asset")
        if isinstance(asset, dict) and "version" in asset:
            return Sniffed("gltf", "glTF")
        if "means" in value and "scales" in value:
            return Sniffed("sog", "3D Gaussian splats (SOG, unbundled)")
        if "render_asset" in value:
            return Sniffed("stage", "a habitat stage configuration", f"Give the file it names: {value['render_asset']}")
    return Sniffed("json", "a JSON file, but not glTF (it has no asset.version)", _AS_WORLD)


def _sniff_binary(head: bytes, size: int, path: Path) -> Sniffed:
    if path.suffix.lower() == ".splat":
        return Sniffed("splat", "3D Gaussian splats (.splat)")  # odd values or cut off: its reader says so
    if path.suffix.lower() == ".stl" or head[:5].lower() == b"solid":
        if size < 84:
            why = f"a binary STL has at least 84 bytes, the file has {size:,}"
        else:
            n = struct.unpack_from("<I", head, 80)[0]
            why = (f"its header announces {n:,} triangles, which takes {84 + 50 * n:,} bytes, "
                   f"the file has {size:,}")
        raise CorruptInputError(f"is not a whole STL file: {why}", where=f"{path}, byte 80",
                                todo="Download or export it again")
    named = path.suffix.lower()
    hint = f" (although it is named {named})" if named in WORLD_SUFFIXES else ""
    return Sniffed("binary", f"binary data of unknown kind{hint}", _AS_WORLD)


def _is_ksplat(head: bytes, size: int) -> bool:
    """Version 0.1, a header of 4,096 bytes that is mostly empty, then 1,024 bytes for every section."""
    if len(head) < 4096 or head[:4] != b"\x00\x01\x00\x00" or head.count(0, 48, 4096) < 4000:
        return False
    max_sections, sections, max_splats, splats = struct.unpack_from("<4I", head, 4)
    level = struct.unpack_from("<H", head, 20)[0]
    return (max_sections > 0 and sections <= max_sections and 4096 + 1024 * max_sections <= size
            and splats > 0 and (max_splats == 0 or splats <= max_splats) and level <= 2)


def _is_pickle(head: bytes, size: int) -> bool:
    """Protocol 0 or 1, which have no magic: opcodes from the first byte to a STOP that ends the file, or many of them.

    They are parsed and never carried out.
    """
    import pickletools

    sample = head[:_PICKLE_SAMPLE]
    if not sample or sample[0] not in _PICKLE_STARTS:
        return False
    count, stream = 0, io.BytesIO(sample)
    try:
        for opcode, argument, _ in pickletools.genops(stream):
            if opcode.name == "GLOBAL" and not re.fullmatch(r"[\w.]+ [\w.<>]+", str(argument)):
                return False
            count += 1
            if opcode.name == "STOP":
                return not stream.read().strip() and size == len(sample)
            if count >= _PICKLE_OPS[0]:
                return True
    except (ValueError, LookupError, ArithmeticError, struct.error):
        return count >= _PICKLE_OPS[1] and size > len(sample) and not stream.read(1)
    return False


def _is_splat(head: bytes, size: int) -> bool:
    """32-byte records without any magic: three coordinates, three scales, a colour, a rotation of length 1."""
    n = min(len(head) // 32, 256)
    if size % 32 or n == 0:
        return False
    rows = np.frombuffer(head, np.dtype([("f", "<f4", 6), ("b", "u1", 8)]), n)
    turn = rows["b"][:, 4:] / 128 - 1.0
    with np.errstate(invalid="ignore"):  # any bytes may come here, signalling NaN among them
        values = rows["f"].astype(np.float64)
        sane = (np.abs(values) < 1e6).all(axis=1) & (values[:, 3:] >= 0).all(axis=1) & (values[:, 3:] < 1e4).all(axis=1)
    # A byte is 1/256 off at the most, so the length is within 0.02 of 1 (clipping at 255 included).
    unit = np.abs(np.sqrt((turn * turn).sum(axis=1)) - 1) < 0.03
    return bool((sane & unit).mean() >= 0.9 and (values[:, 3:] > 1e-9).any())
