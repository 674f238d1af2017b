"""CLIP of OpenAI (ViT-B/32, ViT-B/16, ViT-L/14) by transformers: image and text embeddings (M09, M10, M02)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import BackendUnavailableError
from spatialbench.scorers.contract import Image, TextVectors
from spatialbench.scorers.registry import Opening, ScorerSpec
from spatialbench.scorers.torch_support import in_batches, load_pretrained, torch_device
from spatialbench.scorers.vision_support import (
    CLIP,
    as_tensors,
    check_images,
    check_pixels,
    check_texts,
    checked_config,
    refuse,
    stacked,
)

__all__ = ["SPECS", "ClipEmbedder"]

TOKENS = 77
"""Longest text, with its begin and end tokens."""
_IMAGES, _TEXTS = 64, 256
_PIXELS: dict[str, Any] = {
    "do_convert_rgb": True, "do_resize": True, "size": {"shortest_edge": 224}, "resample": 3, "do_center_crop": True,
    "crop_size": {"height": 224, "width": 224}, "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True,
    "image_mean": CLIP[0], "image_std": CLIP[1]}


class ClipEmbedder:
    """Both towers with their projections, in float32; vectors are not normalised.

    Images: shorter side to 224 (bicubic, antialiased), the middle 224 x 224, scaled to [0,1], CLIP's mean and
    deviation; by the torchvision backend of transformers, always on the CPU and in 8 bits up to the crop, so that the
    device does not change the pixels. Its PIL backend differs by up to 0.015.

    Texts: transformers' CLIP tokenizer (lower case, single spaces), padded to 77 tokens; a longer text is cut to 77
    with its end token kept, and said to be (OPEN-6g).

    Parameters
    ----------
    folder : of the weights: model, tokenizer and the image processor's settings, which must be those above.
    patch : side of a patch in pixels, which tells the three models apart.

    Raises
    ------
    BackendUnavailableError : other weights, or damaged ones.
    """

    def __init__(self, folder: Path, patch: int, device: Any) -> None:
        config = checked_config(folder, "clip", {"patch_size": patch, "image_size": 224}, "vision_config")
        if config.text_config.max_position_embeddings != TOKENS:
            raise refuse(f"the text tower takes {config.text_config.max_position_embeddings} tokens, not {TOKENS}",
                         folder)
        transformers: Any = import_module("transformers")
        try:
            self._processor = transformers.CLIPImageProcessor.from_pretrained(folder, local_files_only=True)
            check_pixels(self._processor, _PIXELS, folder)
            self._tokenizer = transformers.CLIPTokenizer.from_pretrained(folder, local_files_only=True)
        except BackendUnavailableError:
            raise
        except Exception as error:
            first = (str(error) or type(error).__name__).splitlines()[0]
            raise refuse(f"holds no tokenizer or image processor of CLIP ({first[:200]})", folder) from None
        if len(self._tokenizer) != config.text_config.vocab_size:
            raise refuse(f"the tokenizer has {len(self._tokenizer)} tokens and the model "
                         f"{config.text_config.vocab_size}", folder)
        self._model = load_pretrained("CLIPModel", folder, device, dtype="float32")
        self._device = device
        self.dimension = int(config.projection_dim)

    def embed_images(self, images: Sequence[Image]) -> NDArray[np.float32]:
        """[N,D]; images as in the contract, up to 100 to 1."""
        check_images(images, elongated=False)
        return stacked(in_batches(images, _IMAGES, self._images), self.dimension)

    def _images(self, images: Sequence[Image]) -> list[NDArray[np.float32]]:
        pixels = self._processor(as_tensors(images), input_data_format="channels_first", device="cpu",
                                 return_tensors="pt")["pixel_values"].to(self._device)
        seen = self._model.vision_model(pixel_values=pixels).pooler_output
        return list(self._model.visual_projection(seen).cpu().numpy())

    def embed_texts(self, texts: Sequence[str]) -> TextVectors:
        """[N,D], and which texts were cut.

        Raises
        ------
        InputError : a text holds a token of the model's own.
        """
        if not texts:
            return TextVectors(stacked([], self.dimension), ())
        lengths = check_texts(self._tokenizer, texts, "CLIP")
        return TextVectors(stacked(in_batches(texts, _TEXTS, self._texts), self.dimension),
                           tuple(n > TOKENS for n in lengths))

    def _texts(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        tokens = self._tokenizer(list(texts), padding="max_length", truncation=True, max_length=TOKENS,
                                 return_tensors="pt").to(self._device)
        read = self._model.text_model(input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"])
        return list(self._model.text_projection(read.pooler_output).cpu().numpy())


def _opener(entry: str, patch: int) -> Callable[[Opening], ClipEmbedder]:
    return lambda opening: ClipEmbedder(opening.folders[entry], patch, torch_device(opening.settings))


def _spec(id: str, name: str, patch: int, role: str) -> ScorerSpec:
    entry = id.replace("_", "-")
    return ScorerSpec(id, f"CLIP {name} (OpenAI)", "embedding", role, _opener(entry, patch),
                      packages=("torch", "torchvision", "transformers", "safetensors"),
                      distributions=("torch", "torchvision", "transformers", "tokenizers"), extra="vision",
                      weights=(entry,))


SPECS = (
    _spec("clip_b32", "ViT-B/32", 32, "background consistency of videos"),
    _spec("clip_b16", "ViT-B/16", 16, "consistency of videos"),
    _spec("clip_l14", "ViT-L/14", 14, "image and text similarity"),
)
