"""Materials of a glTF document: base colour with its texture and sampler, alpha, emission."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from spatialbench.errors import InputError
from spatialbench.scene.folder import WorldFolder
from spatialbench.scene.gltf.container import Buffers, data_uri
from spatialbench.scene.gltf.schema import Gltf, MaterialDef, SpecGloss, TextureInfo, TextureTransform
from spatialbench.scene.images import TextureStore, UndecodedTextureError
from spatialbench.scene.log import ReadLog
from spatialbench.types import Material

__all__ = ["Look", "Materials"]

_WRAP = {33071: "clamp", 33648: "mirror", 10497: "repeat"}
_NEAREST = 9728
_IMAGE_EXTENSIONS = ("KHR_texture_basisu", "EXT_texture_webp", "EXT_texture_avif")


@dataclass(frozen=True)
class Look:
    """A material, the set of texture coordinates it needs, and the map [2,3] to apply to them."""

    material: Material
    texcoord: int = 0
    uv_map: NDArray[np.float64] | None = None

    def bare(self) -> Look:
        """Without its texture."""
        return Look(replace(self.material, texture=None))


class Materials:
    """Builds each material once; what cannot be had of it is a warning."""

    def __init__(self, doc: Gltf, buffers: Buffers, folder: WorldFolder, log: ReadLog, where: str) -> None:
        self._doc, self._buffers, self._folder, self._log, self._where = doc, buffers, folder, log, where
        self._store = TextureStore(log)
        self._made: dict[int | None, Look] = {None: Look(Material())}

    def look(self, index: int | None, by: str) -> Look:
        """The look of material ``index``; white for None (glTF's default material)."""
        if index not in self._made:
            if index is None or index >= len(self._doc.materials):
                self._log.warn(f"{by} uses material {index}, there are {len(self._doc.materials)}; it is drawn white")
                return self._made[None]
            self._made[index] = self._build(index, self._doc.materials[index])
        return self._made[index]

    def note_missing(self) -> None:
        """Warn once about image files that are not there, other than those of base colours (warned of by name)."""
        lost = []
        for image in self._doc.images:
            try:
                if image.uri is None or image.uri[:5].lower() == "data:":
                    continue
                if not self._folder.has(self._folder.locate(image.uri, encoded=True)):
                    lost.append(image.uri)
            except InputError:
                lost.append(image.uri or "")
        if lost:
            names = ", ".join(sorted(lost)[:4])[:200] + (", ..." if len(lost) > 4 else "")
            self._log.warn(f"{len(lost)} texture files are missing ({names}); only those of base colours would be used")

    def _build(self, index: int, m: MaterialDef) -> Look:
        name = str(m.name) if m.name is not None else f"material {index}"
        factor, info = [1.0] * 4, None
        if m.pbrMetallicRoughness is not None:
            factor, info = m.pbrMetallicRoughness.baseColorFactor, m.pbrMetallicRoughness.baseColorTexture
        elif "KHR_materials_pbrSpecularGlossiness" in m.extensions:
            try:
                old = SpecGloss.model_validate(m.extensions["KHR_materials_pbrSpecularGlossiness"])
                factor, info = old.diffuseFactor, old.diffuseTexture
            except ValidationError:
                self._log.warn(f"material '{name}': KHR_materials_pbrSpecularGlossiness cannot be read")
        r, g, b, a = (min(max(v, 0.0), 1.0) for v in factor)
        material = Material(name=name, base_color=(r, g, b, a), alpha_mode=m.alphaMode.lower(),
                            alpha_cutoff=m.alphaCutoff, double_sided=m.doubleSided,
                            unlit="KHR_materials_unlit" in m.extensions, emissive=self._emissive(name, m))
        if info is None:
            return Look(material)
        pixels = self._pixels(info.index, name)
        if pixels is None:
            return Look(material)
        wrap, filter_ = self._sampler(info.index)
        texcoord, uv_map = self._transform(info, name)
        return Look(replace(material, texture=pixels, wrap=wrap, filter=filter_), texcoord, uv_map)

    def _emissive(self, name: str, m: MaterialDef) -> tuple[float, float, float]:
        strength = m.extensions.get("KHR_materials_emissive_strength")
        k = strength.get("emissiveStrength", 1.0) if isinstance(strength, dict) else 1.0
        k = float(k) if isinstance(k, (int, float)) and 0 <= k < 1e6 else 1.0
        r, g, b = (max(v, 0.0) * k for v in m.emissiveFactor)
        if m.emissiveTexture is not None and max(r, g, b) > 0:
            self._log.warn(f"material '{name}': its emissive texture is not used, so it does not glow")
            return (0.0, 0.0, 0.0)
        return (r, g, b)

    def _pixels(self, index: int, name: str) -> NDArray[np.uint8] | None:
        """Pixels of texture ``index``: of an extension's image, else of its plain source."""
        if index >= len(self._doc.textures):
            self._log.warn(f"material '{name}' uses texture {index}, there are {len(self._doc.textures)}")
            return None
        texture = self._doc.textures[index]
        sources = [block.get("source") for e in _IMAGE_EXTENSIONS
                   if isinstance(block := texture.extensions.get(e), dict)]
        sources.append(texture.source)
        undecoded: UndecodedTextureError | None = None
        for source in sources:
            if isinstance(source, int) and 0 <= source < len(self._doc.images):
                try:
                    pixels = self._image(source)
                except UndecodedTextureError as e:
                    undecoded = e  # a plain image beside it may stand in
                    continue
                if pixels is not None:
                    return pixels
        if undecoded is not None:
            raise UndecodedTextureError(undecoded.what, where=f"{self._where}, material '{name[:60]}'",
                                        todo=undecoded.todo)
        if not any(isinstance(s, int) for s in sources):
            self._log.warn(f"material '{name}': its texture has no image that can be read")
        return None

    def _image(self, index: int) -> NDArray[np.uint8] | None:
        image = self._doc.images[index]
        label = str(image.name) if image.name else f"image {index}"
        try:
            if image.bufferView is not None:
                data = bytes(self._buffers.view(image.bufferView, f"image {index}")[0])
            elif image.uri is not None:
                inline = data_uri(image.uri, f"{self._where}, image {index}")
                if inline is not None:
                    data = inline
                else:
                    label = image.uri
                    data = self._folder.read(image.uri, encoded=True, needed_by=f"image {index}")
            else:
                self._log.warn(f"image {index} has neither bytes nor a file")
                return None
        except InputError as e:
            self._log.warn(f"texture '{label[:80]}' is left out: {e.what}")
            return None
        return self._store.decode(data, label[:80])

    def _sampler(self, index: int) -> tuple[tuple[str, str], str]:
        sampler = self._doc.textures[index].sampler
        if sampler is None or sampler >= len(self._doc.samplers):
            return ("repeat", "repeat"), "linear"
        s = self._doc.samplers[sampler]
        return ((_WRAP.get(s.wrapS, "repeat"), _WRAP.get(s.wrapT, "repeat")),
                "nearest" if s.magFilter == _NEAREST else "linear")

    def _transform(self, info: TextureInfo, name: str) -> tuple[int, NDArray[np.float64] | None]:
        """``KHR_texture_transform``: uv' = shift + R(-rotation) scale uv, as v runs down."""
        block = info.extensions.get("KHR_texture_transform")
        if block is None:
            return info.texCoord, None
        try:
            t = TextureTransform.model_validate(block)
        except ValidationError:
            self._log.warn(f"material '{name}': its KHR_texture_transform cannot be read")
            return info.texCoord, None
        c, s = math.cos(t.rotation), math.sin(t.rotation)
        uv_map = np.array([[c * t.scale[0], s * t.scale[1], t.offset[0]],
                           [-s * t.scale[0], c * t.scale[1], t.offset[1]]])
        return info.texCoord if t.texCoord is None else t.texCoord, uv_map
