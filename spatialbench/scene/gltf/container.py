"""From bytes to a glTF document and its buffers: GLB chunks, JSON, data URIs, files beside it."""

from __future__ import annotations

import base64
import binascii
import json
import struct
from typing import Any
from urllib.parse import unquote_to_bytes

from pydantic import ValidationError

from spatialbench.errors import CorruptInputError, UnsupportedFormatError
from spatialbench.scene.folder import WorldFolder
from spatialbench.scene.gltf.meshopt import MESHOPT, decode_view, meshopt_of
from spatialbench.scene.gltf.schema import BufferView, Gltf
from spatialbench.scene.log import ReadLog

__all__ = ["Buffers", "data_uri", "parse_document", "split_glb"]

_TODO = "Download or export it again"
_JSON, _BIN = 0x4E4F534A, 0x004E4942


def split_glb(data: bytes, log: ReadLog, where: str) -> tuple[bytes, memoryview | None]:
    """The JSON chunk and the binary chunk (None when there is none).

    Raises
    ------
    CorruptInputError : cut off, or a chunk that does not fit; with the byte and both numbers.
    UnsupportedFormatError : another version than 2.
    """
    have = len(data)
    if have < 12:
        raise CorruptInputError(f"is cut off: a GLB header takes 12 bytes, the file has {have}",
                                where=f"{where}, byte {have}", todo=_TODO)
    version, length = struct.unpack_from("<II", data, 4)
    if version != 2:
        raise UnsupportedFormatError(f"is binary glTF of version {version}, only 2 is read", where=f"{where}, byte 4",
                                     todo="Export it as glTF 2.0")
    if length > have:
        raise CorruptInputError(f"is cut off: its header announces {length:,} bytes, the file has {have:,}",
                                where=f"{where}, byte 8", todo=_TODO)
    if length < have:
        log.warn(f"{have - length:,} bytes after the end of the GLB are ignored")
    chunks: list[tuple[int, int, int]] = []
    position = 12
    while position < length:
        if length - position < 8:
            raise CorruptInputError(f"a chunk header takes 8 bytes, {length - position} are left",
                                    where=f"{where}, byte {position}", todo=_TODO)
        size, kind = struct.unpack_from("<II", data, position)
        if position + 8 + size > length:
            raise CorruptInputError(f"a chunk of {size:,} bytes is announced, {length - position - 8:,} are left",
                                    where=f"{where}, byte {position}", todo=_TODO)
        chunks.append((kind, position + 8, size))
        position += 8 + size
    if not chunks or chunks[0][0] != _JSON:
        raise CorruptInputError("its first chunk is not JSON", where=f"{where}, byte 12", todo=_TODO)
    _, start, size = chunks[0]
    binary = next(((s, n) for kind, s, n in chunks[1:] if kind == _BIN), None)
    view = None if binary is None else memoryview(data)[binary[0]:sum(binary)]
    return data[start:start + size], view


def parse_document(text: bytes, log: ReadLog, where: str) -> Gltf:
    """The document, checked for types and required fields.

    Raises
    ------
    CorruptInputError : not JSON (with line and column), or a field of a wrong type (with its path).
    UnsupportedFormatError : glTF 1.
    """
    if text.startswith(b"\xef\xbb\xbf"):
        log.warn("the JSON begins with a byte-order mark, which glTF forbids")
        text = text[3:]
    try:
        value = json.loads(text.decode("utf-8").rstrip("\x00"), parse_constant=_no_constant)
    except UnicodeDecodeError as e:
        raise CorruptInputError("its JSON is not UTF-8", where=f"{where}, byte {e.start} of the JSON",
                                todo=_TODO) from None
    except json.JSONDecodeError as e:
        raise CorruptInputError(f"its JSON cannot be read ({e.msg})",
                                where=f"{where}, JSON line {e.lineno} column {e.colno}", todo=_TODO) from None
    except (ValueError, RecursionError) as e:
        raise CorruptInputError(f"its JSON cannot be read ({str(e)[:60]})", where=where, todo=_TODO) from None
    _check_version(value, where)
    try:
        return Gltf.model_validate(value)
    except ValidationError as e:
        first = e.errors(include_url=False, include_context=False)[0]
        field = ".".join(str(p) for p in first["loc"])
        raise CorruptInputError(f"field '{field}' is wrong: {first['msg']}", where=where, todo=_TODO) from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _check_version(value: Any, where: str) -> None:
    asset = value.get("asset") if isinstance(value, dict) else None
    version = asset.get("version") if isinstance(asset, dict) else None
    if not isinstance(version, str):
        raise CorruptInputError("its JSON has no asset.version, so it is not glTF", where=where, todo=_TODO)
    least = asset.get("minVersion") if isinstance(asset, dict) else None
    if not version.startswith("2.") or (least is not None and least != "2.0"):
        raise UnsupportedFormatError(f"is glTF {str(least or version)[:20]}, only 2.0 is read", where=where,
                                     todo="Export it as glTF 2.0")


def data_uri(uri: str, where: str) -> bytes | None:
    """The bytes of a ``data:`` URI, or None when it is none."""
    if uri[:5].lower() != "data:":
        return None
    head, comma, body = uri[5:].partition(",")
    if not comma:
        raise CorruptInputError("a data URI has no comma", where=where, todo=_TODO)
    if not head.lower().endswith(";base64"):
        return unquote_to_bytes(body)
    try:
        return base64.b64decode(unquote_to_bytes(body) if "%" in body else body, validate=True)
    except (binascii.Error, ValueError) as e:
        raise CorruptInputError(f"a data URI cannot be decoded ({e})", where=where, todo=_TODO) from None


class Buffers:
    """Buffers and views of a document; a file is read when it is first needed."""

    def __init__(self, doc: Gltf, binary: memoryview | None, folder: WorldFolder, where: str) -> None:
        self._doc, self._binary, self._folder, self._where = doc, binary, folder, where
        self._loaded: dict[int, memoryview] = {}
        self._plain: dict[int, memoryview] = {}

    def view(self, index: int, by: str) -> tuple[memoryview, BufferView]:
        """The bytes of a buffer view, checked to lie in its buffer, and its definition."""
        where = f"{self._where}, {by}"
        if index >= len(self._doc.bufferViews):
            raise CorruptInputError(f"bufferView {index} does not exist, there are {len(self._doc.bufferViews)}",
                                    where=where, todo=_TODO)
        view = self._doc.bufferViews[index]
        if any(name in view.extensions for name in MESHOPT) and self._is_fallback(view.buffer):
            return self._decoded(index, view, where), view
        data = self._buffer(view.buffer, where)
        if view.byteOffset + view.byteLength > len(data):
            raise CorruptInputError(f"bufferView {index} ends at byte {view.byteOffset + view.byteLength:,} of buffer "
                                    f"{view.buffer}, which has {len(data):,}", where=where, todo=_TODO)
        return data[view.byteOffset:view.byteOffset + view.byteLength], view

    def _decoded(self, index: int, view: BufferView, where: str) -> memoryview:
        """The bytes of a view whose only form is compressed; decoded once."""
        if index not in self._plain:
            packed = meshopt_of(view.extensions, where)
            assert packed is not None
            data = self._buffer(packed.buffer, where)
            if packed.byteOffset + packed.byteLength > len(data):
                raise CorruptInputError(f"the meshopt stream of bufferView {index} ends beyond its buffer", where=where,
                                        todo=_TODO)
            if packed.count * packed.byteStride != view.byteLength:
                raise CorruptInputError(f"bufferView {index} has {view.byteLength:,} bytes, its meshopt stream "
                                        f"{packed.count * packed.byteStride:,}", where=where, todo=_TODO)
            part = data[packed.byteOffset:packed.byteOffset + packed.byteLength]
            self._plain[index] = decode_view(part, packed, where)
        return self._plain[index]

    def _is_fallback(self, index: int) -> bool:
        """A buffer that exists only on paper, as the compressed one takes its place."""
        if index >= len(self._doc.buffers):
            return False
        return self._doc.buffers[index].uri is None and (index > 0 or self._binary is None)

    def _buffer(self, index: int, where: str) -> memoryview:
        if index in self._loaded:
            return self._loaded[index]
        if index >= len(self._doc.buffers):
            raise CorruptInputError(f"buffer {index} does not exist, there are {len(self._doc.buffers)}", where=where,
                                    todo=_TODO)
        buffer = self._doc.buffers[index]
        if buffer.uri is None:
            if index or self._binary is None:
                raise CorruptInputError(f"buffer {index} has neither a uri nor a binary chunk", where=where, todo=_TODO)
            data = self._binary
        else:
            inline = data_uri(buffer.uri, f"{self._where}, buffer {index}")
            data = memoryview(self._folder.read(buffer.uri, encoded=True, needed_by=f"buffer {index}")
                              if inline is None else inline)
        if buffer.byteLength > len(data):
            raise CorruptInputError(f"buffer {index} announces {buffer.byteLength:,} bytes, {len(data):,} are there",
                                    where=where, todo=_TODO)
        self._loaded[index] = data[:buffer.byteLength]
        return self._loaded[index]
