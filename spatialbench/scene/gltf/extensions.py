"""Which extensions of a glTF file can be read, ignored or must be refused."""

from __future__ import annotations

from typing import Any

from spatialbench.errors import UnsupportedFormatError
from spatialbench.scene.gltf.schema import Gltf, Primitive
from spatialbench.scene.log import ReadLog

__all__ = ["check_extensions", "compressed_by", "holds_splats"]

_COMPRESSED = "Export it again without mesh compression"
_UNREAD = {
    "KHR_draco_mesh_compression": ("its geometry is compressed with KHR_draco_mesh_compression, which is not decoded",
                                   _COMPRESSED),
    "EXT_meshopt_compression": ("its geometry is compressed with EXT_meshopt_compression, which is not decoded",
                                _COMPRESSED),
    "KHR_meshopt_compression": ("its geometry is compressed with KHR_meshopt_compression, which is not decoded",
                                _COMPRESSED),
    "EXT_mesh_gpu_instancing": ("it places copies with EXT_mesh_gpu_instancing, which is not read",
                                "Export it with one node for each copy"),
}
_FINE = {"KHR_mesh_quantization", "KHR_texture_transform", "KHR_lights_punctual", "EXT_texture_webp",
         "EXT_texture_avif", "KHR_texture_basisu", "KHR_xmp", "KHR_xmp_json_ld", "KHR_animation_pointer",
         "KHR_accessor_float64", "EXT_lights_image_based", "CESIUM_RTC"}
_SPLATS = "KHR_gaussian_splatting"
_NOTES = {
    "KHR_lights_punctual": "lights are not used: images are drawn unlit",
    "EXT_lights_image_based": "lights are not used: images are drawn unlit",
    "KHR_texture_basisu": "KTX2 (Basis) textures are not decoded; materials fall back to other textures or colours",
    "CESIUM_RTC": "the centre of CESIUM_RTC is ignored: geometry stays near the origin",
    "EXT_mesh_gpu_instancing": "copies placed by EXT_mesh_gpu_instancing are left out",
}


def check_extensions(doc: Gltf, log: ReadLog, where: str) -> None:
    """Refuse a document that requires what is not read here; note what is ignored.

    Raises
    ------
    UnsupportedFormatError : names the extension and what to do.
    """
    for name in doc.extensionsRequired:
        if name.startswith(_SPLATS):
            raise UnsupportedFormatError(f"holds 3D Gaussian splats ({name}), which are not read by this version",
                                         where=where, todo="Give the world as a mesh")
        if name in _UNREAD:
            what, todo = _UNREAD[name]
            raise UnsupportedFormatError(what, where=where, todo=todo)
        if name not in _FINE and not name.startswith("KHR_materials_"):
            raise UnsupportedFormatError(f"requires the extension {name[:60]}, which is not read", where=where,
                                         todo="Export it without that extension")
    used = sorted(set(doc.extensionsUsed) | set(doc.extensionsRequired))
    log.details["extensions_used"] = used
    if doc.extensionsRequired:
        log.details["extensions_required"] = sorted(set(doc.extensionsRequired))
    for name in used:
        if name in _NOTES:
            log.warn(_NOTES[name])
    log.brings_lights = _has_lights(doc.extensions)


def _has_lights(extensions: dict[str, Any]) -> bool:
    for name in ("KHR_lights_punctual", "EXT_lights_image_based"):
        block = extensions.get(name)
        if isinstance(block, dict) and block.get("lights"):
            return True
    return False


def compressed_by(primitive: Primitive) -> str:
    """Name of the extension that holds a primitive's geometry, or ``""``."""
    return "KHR_draco_mesh_compression" if "KHR_draco_mesh_compression" in primitive.extensions else ""


def holds_splats(primitive: Primitive) -> bool:
    """Whether the primitive is a cloud of Gaussians."""
    return any(name.startswith(_SPLATS) for name in primitive.extensions)
