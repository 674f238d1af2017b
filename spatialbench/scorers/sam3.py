"""SAM3: instances of what a text names, each with a score and a mask.

Preprocessing, frozen: torchvision's bilinear resize to 1008 x 1008 (antialiased, the aspect is not kept), values to
[-1,1]; the text is cut to 32 tokens, as the model's own tokenizer does. All in float32. An instance's score is the
product of its own and of the image's presence probability; its mask is the model's, resized bilinearly to the image
and cut at one half. Instances are not merged: the model gives each object once.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from spatialbench.errors import BackendUnavailableError, UsageError
from spatialbench.scorers.contract import Detection, Image
from spatialbench.scorers.registry import Opening, ScorerSpec
from spatialbench.scorers.torch_support import in_batches, load_pretrained, torch_device
from spatialbench.scorers.vision_support import (
    as_tensors,
    check_finite,
    check_images,
    check_pixels,
    check_texts,
    checked_config,
    refuse,
)

__all__ = ["FLOOR", "SPECS", "Sam3", "load_processor"]

FLOOR = 0.05
"""Weaker instances are left out: nobody's threshold is below, and most of the model's 200 guesses are."""
_MASK_CUT = 0.5
_TOKENS = 32
_BATCH = 4


class Sam3:
    """A ``Detector``.

    Parameters
    ----------
    model, processor : transformers' ``Sam3Model`` and ``Sam3Processor``.
    device : the model's.
    """

    def __init__(self, model: Any, processor: Any, device: Any) -> None:
        self._model, self._processor, self._device = model, processor, device

    def truncates(self, text: str) -> bool:
        """Whether a text has more tokens than the model takes, so that its end is not looked at."""
        return len(self._processor.tokenizer(text)["input_ids"]) > _TOKENS

    def detect(self, images: Sequence[Image], text: str) -> list[tuple[Detection, ...]]:
        """For each image [H,W,3] its instances with a score above ``FLOOR``, best first.

        Raises
        ------
        UsageError : the text is empty.
        InputError : it holds a token of the model's own.
        BackendUnavailableError : too little memory.
        """
        check_images(images)
        if not text.strip():
            raise UsageError("SAM3 was given no text to look for", todo="Name the object")
        check_texts(self._processor.tokenizer, [text], "SAM3")
        words = self._processor.tokenizer(text, return_tensors="pt", padding="max_length", truncation=True,
                                          max_length=_TOKENS).to(self._device)

        def work(part: Sequence[Image]) -> list[tuple[Detection, ...]]:
            inputs = self._processor.image_processor(as_tensors(part), return_tensors="pt",
                                                     input_data_format="channels_first")
            n = len(part)
            out = self._model(pixel_values=inputs["pixel_values"].to(self._device),
                              input_ids=words["input_ids"].expand(n, -1),
                              attention_mask=words["attention_mask"].expand(n, -1))
            for values in (out.pred_logits, out.presence_logits, out.pred_masks):
                check_finite(values)  # NaN is above no threshold, and would be an image without the object
            found = self._processor.post_process_instance_segmentation(
                out, threshold=FLOOR, mask_threshold=_MASK_CUT, target_sizes=[i.shape[:2] for i in part])
            return [_best_first(f["scores"], f["masks"]) for f in found]

        return in_batches(images, _BATCH, work)


def _best_first(scores: Any, masks: Any) -> tuple[Detection, ...]:
    values, cut = scores.cpu().double().numpy(), masks.bool().cpu().numpy()
    return tuple(Detection(float(values[k]), cut[k]) for k in np.argsort(-values, kind="stable"))


def load_processor(kind: str, folder: Path, **options: Any) -> Any:
    """A processor or tokenizer of transformers from a local folder; nothing is downloaded.

    Raises
    ------
    BackendUnavailableError
    """
    transformers: Any = import_module("transformers")
    try:
        return getattr(transformers, kind).from_pretrained(folder, local_files_only=True, **options)
    except Exception as error:
        why = (str(error) or type(error).__name__).splitlines()[0][:200]
        raise refuse(f"the {kind} cannot be loaded ({why})", folder) from None


def _open(opening: Opening) -> Sam3:
    folder, device = opening.folders["sam3"], torch_device(opening.settings)
    try:
        config = checked_config(folder, "sam3_video", {}).detector_config  # published together with its tracker
    except BackendUnavailableError:
        config = checked_config(folder, "sam3", {})
    processor = load_processor("Sam3Processor", folder)
    side = config.vision_config.backbone_config.image_size
    check_pixels(processor.image_processor, {
        "do_resize": True, "size": {"height": side, "width": side}, "resample": 2, "do_rescale": True,
        "rescale_factor": 1 / 255, "do_normalize": True, "image_mean": (0.5,) * 3, "image_std": (0.5,) * 3}, folder)
    return Sam3(load_pretrained("Sam3Model", folder, device, dtype="float32"), processor, device)


SPECS = (
    ScorerSpec("sam3", "SAM3", "detection", "detection and masks by text", _open,
               packages=("torch", "torchvision", "transformers"),
               distributions=("torch", "torchvision", "transformers"), extra="vision", weights=("sam3",)),
)
