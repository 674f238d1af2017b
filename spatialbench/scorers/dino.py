"""DINOv2 base and DINOv3 ViT-B/16 by transformers: patch tokens (M34) and class tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import UsageError
from spatialbench.scorers.contract import Image, TextVectors
from spatialbench.scorers.registry import Opening, ScorerSpec
from spatialbench.scorers.torch_support import in_batches, load_pretrained, torch_device
from spatialbench.scorers.vision_support import IMAGENET, as_tensors, check_images, checked_config, stacked

__all__ = ["SPECS", "DinoEmbedder"]

GRID = 37
"""Patches a side of ``patch_tokens`` (eq. 67)."""
_PATCHED, _WHOLE = 16, 64


@dataclass(frozen=True)
class _Kind:
    """One of the two models: transformers' classes, patch in pixels, PIL's number of the filter, cropping."""

    name: str
    type: str
    model: str
    processor: str
    patch: int
    position: int | None
    resample: int
    crop: bool


_V2 = _Kind("DINOv2", "dinov2", "Dinov2Model", "BitImageProcessor", 14, 518, 3, True)
_V3 = _Kind("DINOv3", "dinov3_vit", "DINOv3ViTModel", "DINOv3ViTImageProcessor", 16, None, 2, False)


class DinoEmbedder:
    """Tokens of the last layer after its norm, in float32; class and register tokens are no patches.

    Pixels are made by the torchvision backend of transformers on the CPU, antialiased, with ImageNet's mean and
    deviation. DINOv2: bicubic in 8 bits. ``patch_tokens`` squeezes the image to 518 x 518 (37 patches of 14 a side,
    the resolution of its positions); ``embed_images`` takes the shorter side to 224 and the middle 224 x 224, where
    positions are interpolated as transformers does, without the offset of 0.1 of Meta's own code. DINOv3: bilinear in
    floating point, as its own processor, squeezed to 592 x 592 (37 patches of 16) and to 224 x 224.

    Raises
    ------
    BackendUnavailableError : other weights, or damaged ones.
    """

    def __init__(self, folder: Path, kind: _Kind, device: Any) -> None:
        wanted = {"patch_size": kind.patch} | ({"image_size": kind.position} if kind.position else {})
        config = checked_config(folder, kind.type, wanted)
        transformers: Any = import_module("transformers")
        make = getattr(transformers, kind.processor)
        common = {"do_resize": True, "resample": kind.resample, "do_rescale": True, "rescale_factor": 1 / 255,
                  "do_normalize": True, "image_mean": IMAGENET[0], "image_std": IMAGENET[1]}
        side = GRID * kind.patch
        self._square = make(size={"height": side, "width": side}, do_center_crop=False, **common)
        small: dict[str, Any] = {"size": {"height": 224, "width": 224}, "do_center_crop": False}
        if kind.crop:
            small = {"size": {"shortest_edge": 224}, "do_center_crop": True, "crop_size": {"height": 224, "width": 224}}
        self._small = make(**small, **common)
        self._model = load_pretrained(kind.model, folder, device, dtype="float32")
        self._kind, self._device = kind, device
        self._before = 1 + int(getattr(config, "num_register_tokens", 0))
        self.dimension = int(config.hidden_size)

    def patch_tokens(self, images: Sequence[Image]) -> NDArray[np.float32]:
        """[N,37,37,D], row by row from the top left, not normalised."""
        check_images(images)
        return stacked(in_batches(images, _PATCHED, self._patches), GRID, GRID, self.dimension)

    def _patches(self, images: Sequence[Image]) -> list[NDArray[np.float32]]:
        tokens = self._tokens(self._square, images)[:, self._before:]
        return list(tokens.reshape(len(images), GRID, GRID, self.dimension).cpu().numpy())

    def embed_images(self, images: Sequence[Image]) -> NDArray[np.float32]:
        """[N,D] class tokens; images up to 100 to 1 for DINOv2."""
        check_images(images, elongated=not self._kind.crop)
        return stacked(in_batches(images, _WHOLE, self._class), self.dimension)

    def _class(self, images: Sequence[Image]) -> list[NDArray[np.float32]]:
        return list(self._tokens(self._small, images)[:, 0].cpu().numpy())

    def _tokens(self, processor: Any, images: Sequence[Image]) -> Any:
        pixels = processor(as_tensors(images), input_data_format="channels_first", device="cpu",
                           return_tensors="pt")["pixel_values"].to(self._device)
        return self._model(pixel_values=pixels).last_hidden_state

    def embed_texts(self, texts: Sequence[str]) -> TextVectors:
        """Raises ``UsageError``: there is no text tower."""
        raise UsageError(f"{self._kind.name} embeds no texts", todo="Use CLIP (clip_l14)")


def _opener(entry: str, kind: _Kind) -> Callable[[Opening], DinoEmbedder]:
    return lambda opening: DinoEmbedder(opening.folders[entry], kind, torch_device(opening.settings))


_PACKAGES = ("torch", "torchvision", "transformers", "safetensors")
_DISTRIBUTIONS = ("torch", "torchvision", "transformers")
SPECS = (
    ScorerSpec("dinov2", "DINOv2 base", "patches", "patch features", _opener("dinov2-base", _V2), packages=_PACKAGES,
               distributions=_DISTRIBUTIONS, extra="vision", weights=("dinov2-base",)),
    ScorerSpec("dinov3", "DINOv3 ViT-B/16", "patches", "patch features and subject consistency",
               _opener("dinov3-vitb16", _V3), packages=_PACKAGES, distributions=_DISTRIBUTIONS, extra="vision",
               weights=("dinov3-vitb16",)),
)
