"""HPSv3: how well people would like an image that is to show a text; a reward head on Qwen2-VL-7B (M05, M17, M28).

A port of the published model to transformers 5, which its own package cannot be used with. What differs from Qwen2-VL:

* rotary positions are flat, one a token, also over the image: HPSv3 leaves out Qwen2-VL's own (M-RoPE), and was
  trained so;
* rotary frequencies are rounded to bfloat16 like everything else (and, in the vision tower, the angles and their
  sines too): the published code casts the whole model, in training too;
* a head (Linear - 1024 - ReLU - 16 - ReLU - 2) on the last hidden state of the token ``<|Reward|>`` gives the mean
  and the logarithm of the deviation of the reward; the mean is the score;
* every image is resized to about 256 tokens of 28 x 28 pixels (bicubic of Pillow, aspect kept to the token), then
  normalised as Qwen2-VL does it (torchvision).

The backbone computes in bfloat16, the head in float32, as published. One image goes at a time: with its instruction
it is some thousand tokens, which fill a GPU, and in bfloat16 a score would otherwise depend on the other images.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import InputError, UsageError
from spatialbench.scorers.contract import Image
from spatialbench.scorers.hpsv3_prompt import FILE, REWARD, Template, read_template
from spatialbench.scorers.registry import Opening, ScorerSpec
from spatialbench.scorers.sam3 import load_processor
from spatialbench.scorers.torch_support import in_batches, lacks_memory, load_state, quiet_transformers, torch_device
from spatialbench.scorers.vision_support import (
    CLIP,
    check_characters,
    check_finite,
    check_images,
    check_pixels,
    checked_config,
    refuse,
)

__all__ = ["SPECS", "HPSv3", "flat_positions", "load_hpsv3", "target_size"]

_CHECKPOINT = "HPSv3.safetensors"
_SIDE = 28
"""Pixels of a token's side: patches of 14, merged two by two."""
_PIXELS = 256 * _SIDE * _SIDE
_MOST_ASPECT = 200


def target_size(height: int, width: int) -> tuple[int, int]:
    """Height and width in pixels that an image is resized to: multiples of 28, area as near to 256 tokens as keeping
    the aspect allows, rounded down from more and up from less. In double precision and in this order, as published:
    768 x 768 becomes 420 x 420, by a last bit.

    Raises
    ------
    InputError : one side is over 200 times the other.
    """
    if max(height, width) > _MOST_ASPECT * min(height, width):
        raise InputError(f"{width} x {height} pixels are too elongated for HPSv3",
                         todo=f"Give images of at most {_MOST_ASPECT} to 1")
    near = [max(_SIDE, round(n / _SIDE) * _SIDE) for n in (height, width)]
    if near[0] * near[1] == _PIXELS:
        return near[0], near[1]
    if near[0] * near[1] > _PIXELS:
        shrink = math.sqrt(height * width / _PIXELS)
        return tuple(math.floor(n / shrink / _SIDE) * _SIDE for n in (height, width))  # type: ignore[return-value]
    grow = math.sqrt(_PIXELS / (height * width))
    return tuple(math.ceil(n * grow / _SIDE) * _SIDE for n in (height, width))  # type: ignore[return-value]


def flat_positions(ids: Any) -> Any:
    """[3,B,L] rotary positions of tokens [B,L]: 0, 1, 2... in all three axes."""
    torch: Any = import_module("torch")
    return torch.arange(ids.shape[1], device=ids.device).view(1, 1, -1).expand(3, ids.shape[0], -1)


class HPSv3:
    """A ``Rater``.

    Parameters
    ----------
    backbone, head : Qwen2-VL without its language head, and the reward head.
    processor : Qwen2-VL's, to which ``<|Reward|>`` was added.
    template : HPSv3's prompt.
    device : the model's.
    """

    def __init__(self, backbone: Any, head: Any, processor: Any, template: Template, device: Any) -> None:
        self._backbone, self._head, self._processor, self._device = backbone, head, processor, device
        self._template = template
        self._reward = int(processor.tokenizer.convert_tokens_to_ids(REWARD))
        self._most = int(backbone.config.text_config.max_position_embeddings)

    def rate(self, images: Sequence[Image], text: str = "") -> NDArray[np.float64]:
        """[N] mean rewards of images [H,W,3], unbounded, of which about -4 to 10 occur; ``text`` says what they show.

        Raises
        ------
        UsageError : the text holds a token of the model's own, or is longer than the model takes.
        InputError : an image that is too elongated, or a text that is no Unicode.
        BackendUnavailableError : too little memory, or a reward that is no number.
        """
        check_images(images)
        check_characters(text)
        taken = next((t for t in self._processor.tokenizer.get_added_vocab() if t in text), None)
        if taken is not None:
            raise UsageError(f"the text holds '{taken}', which is a mark of HPSv3's own", todo="Take it out")
        sizes = [target_size(*i.shape[:2]) for i in images]
        message = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": self._template.fill(text)}]}
        chat = self._processor.apply_chat_template([message], tokenize=False, add_generation_prompt=True)
        rewards = np.array(in_batches(list(zip(images, sizes, strict=True)), 1,
                                      lambda part: [self._one(chat, *part[0])]), np.float64)
        check_finite(rewards)
        return rewards

    def _one(self, chat: str, image: Image, size: tuple[int, int]) -> float:
        from PIL import Image as Pillow

        small = Pillow.fromarray(np.ascontiguousarray(image)).resize(size[::-1], Pillow.Resampling.BICUBIC)
        inputs = self._processor(text=[chat], images=[small], return_tensors="pt",
                                 images_kwargs={"do_resize": False}).to(self._device)
        ids = inputs["input_ids"]
        if ids.shape[1] > self._most:
            raise UsageError(f"the text is too long for HPSv3: {ids.shape[1]:,} tokens with image and instruction, of "
                             f"{self._most:,}", todo="Shorten it")
        hidden = self._backbone(
            input_ids=ids, attention_mask=inputs["attention_mask"], position_ids=flat_positions(ids),
            pixel_values=inputs["pixel_values"], image_grid_thw=inputs["image_grid_thw"],
            use_cache=False).last_hidden_state
        return float(self._head(hidden[ids == self._reward].float())[0, 0])


def load_hpsv3(checkpoint: Path, base: Path, template: Template, device: Any, dtype: str = "bfloat16") -> HPSv3:
    """The model from its own weights, and Qwen2-VL-7B-Instruct's configuration and tokenizer (not its weights).

    Parameters
    ----------
    checkpoint : ``HPSv3.safetensors``, named as in transformers before 4.52.
    base : folder with the configuration and processor of Qwen2-VL-7B-Instruct.
    dtype : of the backbone; another than bfloat16 is not what is published.

    Raises
    ------
    BackendUnavailableError : files that cannot be read, or are of another model.
    """
    torch: Any = import_module("torch")
    transformers = quiet_transformers()
    config = checked_config(base, "qwen2_vl", {})
    processor = load_processor("Qwen2VLProcessor", base)
    check_pixels(processor.image_processor, {
        "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True, "image_mean": CLIP[0],
        "image_std": CLIP[1], "patch_size": _SIDE // 2, "merge_size": 2, "temporal_patch_size": 2}, base)
    processor.tokenizer.add_tokens([REWARD], special_tokens=True)
    state = load_state(checkpoint)
    words = state.get("model.embed_tokens.weight")
    try:
        if words is None or words.ndim != 2 or words.shape[0] != len(processor.tokenizer):
            raise ValueError(f"{'no' if words is None else len(words)} embeddings, {len(processor.tokenizer)} tokens")
        config.text_config.vocab_size = len(words)
        wide = config.text_config.hidden_size
        head = torch.nn.Sequential(torch.nn.Linear(wide, 1024), torch.nn.ReLU(), torch.nn.Dropout(0.05),
                                   torch.nn.Linear(1024, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
        head.load_state_dict({k.removeprefix("rm_head."): v.float() for k, v in state.items()
                              if k.startswith("rm_head.")})
        backbone, info = transformers.Qwen2VLModel.from_pretrained(
            None, config=config, state_dict=_renamed(state), dtype=getattr(torch, dtype), attn_implementation="sdpa",
            output_loading_info=True)
    except Exception as error:
        if lacks_memory(error):  # no fault of the weights
            raise
        why = (str(error) or type(error).__name__).splitlines()[0][:200]
        raise refuse(f"the weights cannot be loaded as HPSv3 ({why})", checkpoint) from None
    wrong = [str(n) for k in ("missing_keys", "unexpected_keys", "mismatched_keys") for n in info.get(k) or ()]
    if wrong:
        raise refuse(f"the weights are of another model than HPSv3: {len(wrong)} names do not fit, such as "
                     f"{min(wrong):.80}", checkpoint)
    _round_rotary(backbone, getattr(torch, dtype))
    return HPSv3(backbone.to(device).eval(), head.to(device).eval(), processor, template, device)


def _round_rotary(backbone: Any, dtype: Any) -> None:
    """Rotary frequencies as a cast of the whole model leaves them: transformers itself keeps them in float32."""
    backbone.language_model.rotary_emb.to(dtype)
    rotary = backbone.visual.rotary_pos_emb.to(dtype)
    if hasattr(rotary, "recomposition_frequencies"):  # before it had that, it took its frequencies' precision

        def forward(x: Any, position_ids: Any) -> tuple[Any, Any]:
            angles = position_ids[..., None].to(dtype) * rotary.inv_freq
            return rotary.recomposition_frequencies(angles.cos()), rotary.recomposition_frequencies(angles.sin())

        rotary.forward = forward


def _renamed(state: Mapping[str, Any]) -> dict[str, Any]:
    """The backbone's tensors by their names in transformers 5; the language head is not needed."""
    out = {}
    for name, tensor in state.items():
        if name.startswith("model."):
            out["language_model." + name.removeprefix("model.")] = tensor
        elif not name.startswith("rm_head.") and name != "lm_head.weight":
            out[name] = tensor
    return out


def _open(opening: Opening) -> HPSv3:
    template = read_template(opening.folders["hpsv3-prompt"] / FILE)
    return load_hpsv3(opening.folders["hpsv3"] / _CHECKPOINT, opening.folders["qwen2-vl-7b-instruct"], template,
                      torch_device(opening.settings))


SPECS = (
    ScorerSpec("hpsv3", "HPSv3 7B", "rating", "human preference reward", _open,
               packages=("torch", "torchvision", "transformers"),
               distributions=("torch", "torchvision", "transformers", "pillow"), extra="vlm",
               weights=("hpsv3", "hpsv3-prompt", "qwen2-vl-7b-instruct")),
)
