"""Which extensions of a glTF file can be read, ignored or must be refused."""

from __future__ import annotations

from typing import Any

from spatialbench.errors import UnsupportedFormatError
from spatialbench.scene.gltf.meshopt import MESHOPT
from spatialbench.scene.gltf.schema import Gltf, Primitive
from spatialbench.scene.log import ReadLog

__all__ = ["SPLATS", "SPZ_EXTENSIONS", "check_extensions", "holds_splats"]

SPLATS = "KHR_gaussian_splatting"
SPZ_EXTENSIONS = (f"{SPLATS}_compression_spz_2", f"{SPLATS}_compression_spz")

_FINE = {*MESHOPT, "EXT_mesh_gpu_instancing", "KHR_draco_mesh_compression", "KHR_mesh_quantization",
         "KHR_texture_transform", "KHR_lights_punctual", "EXT_texture_webp", "EXT_texture_avif",
         "KHR_texture_basisu", "KHR_xmp", "KHR_xmp_json_ld", "KHR_animation_pointer", "KHR_accessor_float64",
         "EXT_lights_image_based", "CESIUM_RTC"}
_NOTES = {
    "EXT_lights_image_based": "image-based lights are not used",
    "CESIUM_RTC": "the centre of CESIUM_RTC is ignored: geometry stays near the origin",
}


def check_extensions(doc: Gltf, log: ReadLog, where: str) -> None:
    """Refuse a document that requires what is not read here; note what is ignored.

    Raises
    ------
    UnsupportedFormatError : names the extension and what to do.
    """
    for name in doc.extensionsRequired:
        if name == SPLATS or name in SPZ_EXTENSIONS:
            continue
        if name.startswith(SPLATS):
            raise UnsupportedFormatError(f"holds 3D Gaussian splats packed with {name[:60]}, which is not read",
                                         where=where, todo="Export it without that extension, or as .ply or .spz")
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


def holds_splats(primitive: Primitive) -> bool:
    """Whether the primitive is a cloud of Gaussians."""
    return any(name.startswith(SPLATS) for name in primitive.extensions)
