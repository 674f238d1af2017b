"""Optical flow: RAFT, and OpenCV's DIS as a stand-in that needs no weights."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import UsageError
from spatialbench.scorers.contract import Image
from spatialbench.scorers.registry import Opening, ScorerSpec
from spatialbench.scorers.torch_support import in_batches, load_state, torch_device
from spatialbench.scorers.vision_support import check_finite, check_images, load_into

__all__ = ["SPECS", "DisFlow", "RaftFlow"]

_UPDATES = 20
_RAFT_MULTIPLE, _RAFT_LEAST = 8, 128
_DIS_LEAST = 16
_RAFT_FILE = "raft_large_C_T_V1-22a6c225.pth"


class DisFlow:
    """``FlowEstimator`` by dense inverse search (Kroeger et al., ECCV 2016), OpenCV's preset "medium".

    On OpenCV's gray of the images. Sides under 16 pixels are made so long by repeating the edge: the method needs a
    patch of 8 pixels at half the size. The same for any number of threads.
    """

    def flow(self, first: Image, second: Image) -> NDArray[np.float32]:
        """[H,W,2] pixels in x and y; raises ``UsageError`` for images of two sizes."""
        cv2: Any = import_module("cv2")
        (first, second), inside = _padded(first, second, 1, _DIS_LEAST)
        grays = [cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) for image in (first, second)]
        # It keeps buffers between calls, so that one for each call is also safe among threads.
        method = cv2.DISOpticalFlow_create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
        return np.ascontiguousarray(method.calc(*grays, None)[inside], dtype=np.float32)


class RaftFlow:
    """``FlowEstimator`` by RAFT (Teed and Deng, ECCV 2020): torchvision's ``raft_large``, 20 updates.

    Preprocessing as the authors': sides brought to multiples of 8 (and, for its four levels of correlation, to 128 at
    least) by repeating the edges, half of it on each side, and values to [-1,1]; the flow is cut back. No resizing: the
    caller gives the size that its metric names.
    """

    def __init__(self, model: Any, device: Any) -> None:
        self._model, self._device = model, device

    def flow(self, first: Image, second: Image) -> NDArray[np.float32]:
        """[H,W,2] pixels in x and y; raises ``UsageError`` for images of two sizes."""
        torch: Any = import_module("torch")
        pair, inside = _padded(first, second, _RAFT_MULTIPLE, _RAFT_LEAST)

        def work(pairs: Any) -> list[Any]:
            tensors = [torch.from_numpy(image).to(self._device).permute(2, 0, 1)[None].float() / 127.5 - 1.0
                       for image in pairs[0]]
            flow = self._model(*tensors, num_flow_updates=_UPDATES)[-1]
            return [flow[0].permute(1, 2, 0).float().cpu().numpy()]

        found = in_batches([pair], 1, work)[0]
        check_finite(found)
        return np.ascontiguousarray(found[inside])


def _padded(first: Image, second: Image, multiple: int, least: int) -> tuple[list[Image], tuple[slice, slice]]:
    """Both images with sides that are multiples and not under the least, and where in them the images are."""
    check_images([first, second])
    if first.shape != second.shape:
        sizes = " and ".join(f"{image.shape[1]} x {image.shape[0]}" for image in (first, second))
        raise UsageError(f"flow is between images of one size, not {sizes}")
    sides, inside = [], []
    for length in first.shape[:2]:
        more = max(-(-length // multiple) * multiple, least) - length
        sides.append((more // 2, more - more // 2))
        inside.append(slice(more // 2, more // 2 + length))
    return [np.pad(image, (*sides, (0, 0)), mode="edge") for image in (first, second)], (inside[0], inside[1])


def _open_dis(opening: Opening) -> DisFlow:
    return DisFlow()


def _open_raft(opening: Opening) -> RaftFlow:
    device = torch_device(opening.settings)
    path = opening.folders["raft"] / _RAFT_FILE
    model = import_module("torchvision.models.optical_flow").raft_large(weights=None)
    load_into(model, load_state(path), path)
    return RaftFlow(model.to(device).eval(), device)


SPECS = (
    ScorerSpec("raft", "RAFT, C+T (raft-things)", "flow", "apparent motion", _open_raft,
               packages=("torch", "torchvision"), distributions=("torch", "torchvision"), extra="torch",
               weights=("raft",)),
    ScorerSpec("flow_dis", "DIS, OpenCV's preset medium", "flow", "apparent motion", _open_dis,
               distributions=("opencv-python-headless",), stands_in_for="raft"),
)
