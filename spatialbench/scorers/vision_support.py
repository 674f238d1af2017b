"""What the adapters of image models share: images made ready for them, and folders of the right architecture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import BackendUnavailableError, InputError
from spatialbench.scorers.contract import Image
from spatialbench.scorers.weights import fetch_again

__all__ = ["CLIP", "IMAGENET", "as_tensors", "check_characters", "check_finite", "check_images", "check_pairs",
           "check_pixels", "check_texts", "checked_config", "load_into", "refuse", "stacked"]

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
"""Mean and deviation of R, G, B in [0,1]."""
CLIP = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))
"""The same of OpenAI's CLIP, and of models that begin with its pictures."""
_MOST_ELONGATED = 100
"""Long side over short side, up to which an image is resized by its short side: 64 of them are then 1 GB."""


def check_images(images: Sequence[Image], *, least: int = 1, elongated: bool = True) -> None:
    """That all are [H,W,3] uint8 with sides of ``least`` pixels, and none is so long that it fills the memory.

    Raises
    ------
    ValueError : something that is no such array.
    InputError : an image that the model cannot take.
    """
    for k, image in enumerate(images):
        if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8 or 0 in image.shape:
            raise ValueError(f"image {k} is {image.dtype} {image.shape}, not uint8 [H,W,3]")
        height, width = image.shape[:2]
        if min(height, width) < least:
            raise InputError(f"{width} x {height} pixels are too few for this scorer", where=f"image {k}",
                             todo=f"Give images of {least} x {least} pixels or more")
        if not elongated and max(height, width) > _MOST_ELONGATED * min(height, width):
            raise InputError(f"{width} x {height} pixels are too elongated for this scorer", where=f"image {k}",
                             todo=f"Give images of at most {_MOST_ELONGATED} to 1")


def check_pairs(first: Sequence[Image], second: Sequence[Image], *, least: int = 1) -> None:
    """``check_images`` of both, and that they are pairs of one size.

    Raises
    ------
    ValueError, InputError
    """
    if len(first) != len(second):
        raise ValueError(f"{len(first)} and {len(second)} images are no pairs")
    check_images(first, least=least)
    check_images(second, least=least)
    for k, (a, b) in enumerate(zip(first, second, strict=True)):
        if a.shape != b.shape:
            raise ValueError(f"pair {k}: images of {a.shape} and {b.shape}")


def check_texts(tokenizer: Any, texts: Sequence[str], model: str) -> list[int]:
    """Tokens of each text, begin and end included, uncut.

    Raises
    ------
    InputError : a text holds a mark of the model's own, behind which it would not read on, or half a character.
    """
    lengths = []
    for text in texts:
        check_characters(text)
        ids = tokenizer(text, verbose=False)["input_ids"]
        if marks := set(ids[1:-1]) & set(tokenizer.all_special_ids):
            raise InputError(f"the text holds '{tokenizer.convert_ids_to_tokens(min(marks))}', which is a mark of "
                             f"{model}'s own", todo="Take it out")
        lengths.append(len(ids))
    return lengths


def check_characters(text: str) -> None:
    """That a text is Unicode: JSON can name half of a pair of surrogates, which tokenizers choke on.

    Raises
    ------
    InputError
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"character {error.start} of the text is half of a pair of surrogates",
                         todo="Write the whole character") from None


def as_tensors(images: Sequence[Image]) -> list[Any]:
    """[3,H,W] uint8 tensors on the CPU: copies, so that arrays that cannot be written to are as good."""
    torch: Any = import_module("torch")
    return [torch.from_numpy(np.array(np.moveaxis(image, 2, 0), order="C", copy=True)) for image in images]


def stacked(vectors: Sequence[NDArray[np.float32]], *shape: int) -> NDArray[np.float32]:
    """[N,...] of N arrays of one ``shape``, also of none.

    Raises
    ------
    BackendUnavailableError : a value that is not finite.
    """
    out = np.stack(vectors).astype(np.float32, copy=False) if vectors else np.zeros((0, *shape), np.float32)
    check_finite(out)
    return out


def check_finite(values: Any) -> None:
    """That what a model gave, an array or a tensor, is all numbers: compared with a threshold NaN would be "no".

    Raises
    ------
    BackendUnavailableError
    """
    finite = np.isfinite(values) if isinstance(values, np.ndarray) else import_module("torch").isfinite(values)
    if not finite.all():
        raise BackendUnavailableError("the model gave values that are not finite",
                                      todo="Check the weights (spatialbench weights verify) or use another device")


def refuse(what: str, where: Path | str) -> BackendUnavailableError:
    """The error of weights that are not those of the model."""
    return BackendUnavailableError(what, where=str(where),
                                   todo=fetch_again(Path(where)))


def checked_config(folder: Path, kind: str, wanted: Mapping[str, Any], part: str = "") -> Any:
    """Configuration of a transformers model in a local folder, after a look that it is of the right architecture.

    A wrong folder is so refused before anything large is made. No code of the folder is run.

    Parameters
    ----------
    kind : its ``model_type``.
    wanted : values that it must have.
    part : the nested configuration that they are in.

    Raises
    ------
    BackendUnavailableError
    """
    transformers: Any = import_module("transformers")
    try:
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:
        first = (str(error) or type(error).__name__).splitlines()[0]
        raise refuse(f"holds no configuration of a model ({first[:200]})", folder) from None
    if config.model_type != kind:
        raise refuse(f"the weights are of a model '{config.model_type}', not '{kind}'", folder)
    inner = getattr(config, part) if part else config
    for name, value in wanted.items():
        if getattr(inner, name, None) != value:
            raise refuse(f"the weights are of another model: {name} is {getattr(inner, name, None)}, not {value}",
                         folder)
    return config


def check_pixels(processor: Any, wanted: Mapping[str, Any], folder: Path) -> None:
    """That an image processor of transformers, as it was read from a folder, has these settings.

    Raises
    ------
    BackendUnavailableError
    """
    found = processor.to_dict()
    for name, value in wanted.items():
        is_ = found.get(name)
        is_ = tuple(is_) if isinstance(is_, list) else is_
        near = name == "rescale_factor" and isinstance(is_, float) and abs(is_ - value) < 1e-9
        if is_ != value and not near:
            raise refuse(f"the image processor's {name} is {is_}, not {value}", folder)


def load_into(module: Any, state: Mapping[str, Any], where: Path, *, assign: bool = False) -> None:
    """Tensors into a module of torch, all of them; refuses missing ones, other shapes and values that are no numbers.

    Parameters
    ----------
    state : may hold more than the module needs.
    assign : the tensors themselves are taken, for a module on the meta device.

    Raises
    ------
    BackendUnavailableError
    """
    torch: Any = import_module("torch")
    wanted = module.state_dict()
    for name, value in wanted.items():
        if name not in state:
            raise refuse(f"the weights are of another model: no '{name:.80}'", where)
        found = state[name]
        if not isinstance(found, torch.Tensor) or found.shape != value.shape:
            raise refuse(f"the weights are of another model: '{name:.80}' is {_shape(found)}, not {_shape(value)}",
                         where)
        if not torch.isfinite(found).all():
            raise refuse(f"the weights are damaged: '{name:.80}' holds values that are not finite", where)
    module.load_state_dict({name: state[name] for name in wanted}, strict=True, assign=assign)


def _shape(value: Any) -> str:
    return "x".join(str(n) for n in value.shape) if hasattr(value, "shape") else type(value).__name__
