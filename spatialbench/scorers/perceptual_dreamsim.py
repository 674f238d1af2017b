"""DreamSim, its default ensemble: perceptual distance of whole images."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow

from spatialbench.errors import UsageError
from spatialbench.scorers.contract import Image
from spatialbench.scorers.registry import Opening, ScorerSpec
from spatialbench.scorers.torch_support import in_batches, load_state, torch_device
from spatialbench.scorers.vision_support import CLIP, IMAGENET, check_pairs, load_into, refuse, stacked

__all__ = ["ARCHIVE", "DINO", "SPECS", "DreamSim"]

ARCHIVE = "dreamsim_ensemble_checkpoint.zip"
"""The authors' archive, read as it is."""
DINO = "dino_vitbase16_pretrain.pth"
"""Meta's DINO ViT-B/16, which the archive lacks."""
_PAIRS = 32
_SIDE = 224
_MOST_BYTES = 1 << 30
_LORA = re.compile(r"extractor_list\.([0-2])\.model\.blocks\.(\d+)\.attn\.qkv\.lora_([AB])\.weight$")
_PLAIN = ("use_rslora", "use_dora", "fan_in_fan_out", "rank_pattern", "alpha_pattern")
"""Settings of an adapter that change what is computed; DreamSim uses none."""


class DreamSim:
    """1 - cos of concatenated embeddings of DINO, CLIP and OpenCLIP (ViT-B/16 each) with DreamSim's adapters.

    The package's own loader fetches code and weights from the network, so its networks are put together here: class
    token of DINO's last block before the norm, projected embeddings of the other two, concatenated, their mean taken
    off, made unit. The adapters (LoRA on every qkv) are added into the weights, W + alpha/r B A.

    Images are squeezed to 224 x 224 (bicubic of PIL, antialiased, in 8 bits), as the package's own preprocessing.

    Parameters
    ----------
    folder : with ``ARCHIVE`` and ``DINO``.

    Raises
    ------
    BackendUnavailableError : other weights, or damaged ones.
    """

    def __init__(self, folder: Path, device: Any) -> None:
        archive = folder / ARCHIVE
        dino = import_module("dreamsim.feature_extraction.vision_transformer").vit_base(patch_size=16)
        load_into(dino, load_state(folder / DINO), folder / DINO)
        try:
            with ZipFile(archive) as inside:
                clip, by_clip = _tower(inside, "clip_vitb16_pretrain.pth.tar", archive, quick=True)
                other, by_other = _tower(inside, "open_clip_vitb16_pretrain.pth.tar", archive, quick=False)
                models = [dino, clip, other]
                _add_adapters(models, inside, archive)
        except (BadZipFile, OSError) as error:
            raise refuse(f"is no archive that can be read ({error})", archive) from None
        self._models = [model.float().to(device).eval() for model in models]
        self._projections = [by_clip.float().to(device), by_other.float().to(device)]
        self._device = device

    def distances(self, first: Sequence[Image], second: Sequence[Image]) -> NDArray[np.float64]:
        """[N] in [0,2]."""
        check_pairs(first, second)
        pairs = list(zip(first, second, strict=True))
        return stacked(in_batches(pairs, _PAIRS, self._run)).reshape(-1).astype(np.float64)

    def _run(self, pairs: Sequence[tuple[Image, Image]]) -> list[NDArray[np.float32]]:
        torch: Any = import_module("torch")
        a, b = (self._embed([pair[k] for pair in pairs]) for k in (0, 1))
        # Of equal images the cosine may be over 1 by a rounding.
        return list((1 - torch.nn.functional.cosine_similarity(a, b, dim=-1)).clamp(min=0).cpu().numpy())

    def _embed(self, images: Sequence[Image]) -> Any:
        torch: Any = import_module("torch")
        small = np.stack([np.asarray(Pillow.fromarray(i).resize((_SIDE, _SIDE), Pillow.Resampling.BICUBIC))
                          for i in images])
        pixels = torch.from_numpy(small).to(self._device).permute(0, 3, 1, 2).float() / 255
        as_clip = _normalised(pixels, CLIP)
        x = self._models[0].prepare_tokens(_normalised(pixels, IMAGENET))
        for block in self._models[0].blocks:
            x = block(x)
        parts = [x[:, 0]] + [model(as_clip) @ projection for model, projection in
                             zip(self._models[1:], self._projections, strict=True)]
        x = torch.cat(parts, dim=-1)
        x = x - x.mean(dim=-1, keepdim=True)
        return x / x.norm(dim=-1, keepdim=True)

    def difference_maps(self, first: Sequence[Image], second: Sequence[Image]) -> list[NDArray[np.float32]]:
        """Raises ``UsageError``: there is no map."""
        raise UsageError("DreamSim compares whole images and gives no map", todo="Use LPIPS (lpips_vgg)")


def _normalised(pixels: Any, values: tuple[tuple[float, ...], tuple[float, ...]]) -> Any:
    mean, deviation = (pixels.new_tensor(v)[:, None, None] for v in values)
    return (pixels - mean) / deviation


def _member(inside: ZipFile, name: str, archive: Path, read: Callable[[bytes], Any]) -> Any:
    where = f"{archive}, {name}"
    try:
        info = inside.getinfo(name)
        if info.file_size > _MOST_BYTES:
            raise refuse(f"has {info.file_size:,} bytes, which is too many", where)
        return read(inside.read(info))
    except KeyError:
        raise refuse("is not in the archive", where) from None
    except (BadZipFile, OSError):
        raise
    except Exception as error:
        first = (str(error) or type(error).__name__).splitlines()[0]
        raise refuse(f"cannot be read ({first[:200]})", where) from None


def _tower(inside: ZipFile, name: str, archive: Path, *, quick: bool) -> tuple[Any, Any]:
    """A tower of CLIP in the form of a ViT of DINO, and its projection [768,512]."""
    torch: Any = import_module("torch")
    where = Path(f"{archive}, {name}")
    state = _member(inside, name, archive,
                    lambda data: torch.load(BytesIO(data), map_location="cpu", weights_only=True)["state_dict"])
    model = import_module("dreamsim.feature_extraction.vision_transformer").vit_base(patch_size=16)
    model.pos_drop = torch.nn.LayerNorm(model.embed_dim)  # CLIP has a norm before its blocks
    load_into(model, state, where)
    projection = state.get("proj")
    if not isinstance(projection, torch.Tensor) or projection.ndim != 2 or len(projection) != model.embed_dim:
        raise refuse("the weights are of another model: they hold no projection", where)
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = 1e-5
    if quick:  # OpenAI's activation; OpenCLIP's is the exact one
        gelu = import_module("dreamsim.feature_extraction.load_clip_as_dino").QuickGELU
        for block in model.blocks:
            block.mlp.act = gelu()
    return model, projection


def _add_adapters(models: Sequence[Any], inside: ZipFile, archive: Path) -> None:
    torch: Any = import_module("torch")
    where = f"{archive}, ensemble_lora"
    config = _member(inside, "ensemble_lora/adapter_config.json", archive, json.loads)
    try:
        scale = float(config["lora_alpha"]) / int(config["r"])
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise refuse(f"its configuration tells no scale ({error})", where) from None
    if strange := [name for name in _PLAIN if config.get(name)]:
        raise refuse(f"the adapter is of another kind: it sets {strange[0]}", where)
    found: dict[tuple[int, int], dict[str, Any]] = {}
    state = _member(inside, "ensemble_lora/adapter_model.safetensors", archive,
                    lambda data: import_module("safetensors.torch").load(data))
    for name, tensor in state.items():
        match = _LORA.search(name)
        if match is None:
            raise refuse(f"the adapter is of another model: '{name:.80}'", where)
        found.setdefault((int(match[1]), int(match[2])), {})[match[3]] = tensor
    wanted = {(k, b) for k, model in enumerate(models) for b in range(len(model.blocks))}
    if set(found) != wanted or any(set(pair) != {"A", "B"} for pair in found.values()):
        raise refuse(f"the adapter is of another model: it is for {len(found)} layers, not {len(wanted)}", where)
    for (k, b), pair in found.items():
        weight = models[k].blocks[b].attn.qkv.weight
        low, high = tuple(pair["A"].shape), tuple(pair["B"].shape)
        if len(low) != 2 or len(high) != 2 or (high[0], low[1]) != tuple(weight.shape) or high[1] != low[0]:
            raise refuse(f"the adapter is of another model: {high} x {low} numbers for {tuple(weight.shape)}", where)
        with torch.no_grad():
            weight += scale * (pair["B"].float() @ pair["A"].float())


def _open(opening: Opening) -> DreamSim:
    return DreamSim(opening.folders["dreamsim"], torch_device(opening.settings))


SPECS = (
    ScorerSpec("dreamsim", "DreamSim ensemble", "difference", "perceptual distance of whole images", _open,
               packages=("torch", "torchvision", "dreamsim", "peft", "safetensors"),
               distributions=("torch", "torchvision", "dreamsim", "pillow"), extra="dreamsim", weights=("dreamsim",)),
)
