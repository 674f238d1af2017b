"""Spatial LPIPS on VGG16 (M33, eq. 66), by the package ``lpips``."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.scorers.contract import Image
from spatialbench.scorers.registry import Opening, ScorerSpec
from spatialbench.scorers.torch_support import in_batches, load_state, torch_device
from spatialbench.scorers.vision_support import as_tensors, check_pairs, load_into, stacked

__all__ = ["SPECS", "LpipsVgg"]

LEAST = 16
"""Shorter side, pixels: VGG16 halves it four times."""
_PAIRS = 2
_Pair = tuple[Image, Image]


class LpipsVgg:
    """LPIPS 0.1: squared differences of unit features after five stages, weighted by the learned linear heads.

    Images are scaled to [-1,1] and not resized. The map is the sum of the five stages' maps, each brought to the
    image's size (bilinear, corners not aligned). The distance is the usual scalar: the sum of the stages' means at
    their own sizes, which differs a little from the mean of the map.

    Parameters
    ----------
    trunk : torchvision's VGG16 (ImageNet, ``vgg16-397923af.pth``); only its convolutions are used.
    heads : ``weights/v0.1/vgg.pth`` of the package.

    Raises
    ------
    BackendUnavailableError : other weights, or damaged ones.
    """

    def __init__(self, trunk: Path, heads: Path, device: Any) -> None:
        torch: Any = import_module("torch")
        lpips: Any = import_module("lpips")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of torchvision, on the way in which lpips calls it
            with torch.device("meta"):  # nothing is drawn at random, and no classifier of 500 MB is made
                model = lpips.LPIPS(net="vgg", version="0.1", spatial=True, pretrained=False, pnet_rand=True,
                                    verbose=False)
        model.scaling_layer = lpips.ScalingLayer()
        state = load_state(trunk)
        # slice2.5.weight of lpips is features.5.weight of torchvision.
        names = {name: f"features.{name.split('.', 1)[1]}" for name in model.net.state_dict()}
        load_into(model.net, {n: state[source] for n, source in names.items() if source in state}, trunk, assign=True)
        learned = load_state(heads)
        for k in range(5):
            load_into(getattr(model, f"lin{k}"), {n.removeprefix(f"lin{k}."): v for n, v in learned.items()
                                                  if n.startswith(f"lin{k}.")}, heads, assign=True)
        self._maps = model.float().to(device).eval()
        self._scalar = copy.copy(self._maps)  # the same layers
        self._scalar.spatial = False
        self._device = device

    def distances(self, first: Sequence[Image], second: Sequence[Image]) -> NDArray[np.float64]:
        """[N], at least 0; images of 16 x 16 pixels or more."""
        check_pairs(first, second, least=LEAST)
        pairs = list(zip(first, second, strict=True))
        return stacked(in_batches(pairs, _PAIRS, lambda part: self._run(self._scalar, part))).reshape(-1).astype(
            np.float64)

    def difference_maps(self, first: Sequence[Image], second: Sequence[Image]) -> list[NDArray[np.float32]]:
        """[H,W] for each pair, at least 0; images of 16 x 16 pixels or more."""
        check_pairs(first, second, least=LEAST)
        maps = in_batches(list(zip(first, second, strict=True)), _PAIRS, lambda part: self._run(self._maps, part))
        for one in maps:
            stacked([one])
        return maps

    def _run(self, model: Any, pairs: Sequence[_Pair]) -> list[NDArray[np.float32]]:
        torch: Any = import_module("torch")
        out: list[NDArray[np.float32]] = []
        for _, group in groupby(pairs, key=lambda pair: pair[0].shape):
            a, b = zip(*group, strict=True)
            x, y = (torch.stack(as_tensors(side)).to(self._device).float() / 127.5 - 1 for side in (a, b))
            out += list(model(x, y)[:, 0].cpu().numpy())
        return out


def _open(opening: Opening) -> LpipsVgg:
    return LpipsVgg(opening.folders["lpips-vgg"] / "vgg16-397923af.pth", opening.folders["lpips-heads"] / "vgg.pth",
                    torch_device(opening.settings))


SPECS = (
    ScorerSpec("lpips_vgg", "spatial LPIPS-VGG 0.1", "difference", "perceptual distance", _open,
               packages=("torch", "torchvision", "lpips"), distributions=("torch", "torchvision", "lpips"),
               extra="lpips", weights=("lpips-vgg", "lpips-heads")),
)
