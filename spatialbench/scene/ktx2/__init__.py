"""KTX2 textures, as ``KHR_texture_basisu`` puts them into glTF: container, supercompression, block decoders."""

from spatialbench.scene.ktx2.container import MAGIC
from spatialbench.scene.ktx2.decode import Ktx2Image, decode_ktx2, image_size

__all__ = ["MAGIC", "Ktx2Image", "decode_ktx2", "image_size"]
