"""Quality models that are used through pyiqa, whose licence (PolyForm Noncommercial, S-Lab) allows no commercial use.

pyiqa is asked for networks without weights, which are then filled from files of the weights folder, wholly and without
running code of the file; nothing is downloaded, and no cache folder of torch or of the hub is read or changed. Each
model does its own preprocessing on RGB in [0,1] at the size it is given: TOPIQ and Q-Align whatever the size; MUSIQ
with two smaller scales beside the full one, so that a metric that resizes frames first does so itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import BackendUnavailableError, InputError
from spatialbench.scorers.contract import Image
from spatialbench.scorers.registry import Opening, ScorerSpec
from spatialbench.scorers.torch_support import in_batches, load_state, torch_device
from spatialbench.scorers.vision_support import check_images, load_into
from spatialbench.scorers.weights import fetch_again

__all__ = ["SPECS", "PyiqaRater"]

_LOCK = threading.Lock()
_HUB_ID = "q-future/one-align"
_Q_ALIGN_PARTS = (("pyiqa.archs.qalign_arch", "MPLUGOwl2LlamaForCausalLM", "CLIPImageProcessor"),
                  ("pyiqa.archs.q_align.modeling_mplug_owl2", "LlamaTokenizer", "CLIPImageProcessor"))
"""Names by which modules of pyiqa know the classes that load Q-Align's parts."""
_PI_BORDER, _PI_PATCH, _PI_COLOURS = 4, 96, "ycbcr"


class PyiqaRater:
    """``Rater``: the model's own unit, one number an image.

    Parameters
    ----------
    score : tensor [B,3,H,W] in [0,1] -> scores [B].
    batch : most images of one size that are scored together.
    """

    def __init__(self, score: Callable[[Any], Any], device: Any, batch: int) -> None:
        self._score, self._device, self._batch = score, device, batch

    def rate(self, images: Sequence[Image], text: str = "") -> NDArray[np.float64]:
        """[N]; raises ``InputError`` for an image that the model gives no finite score."""
        torch: Any = import_module("torch")
        check_images(images)

        def work(part: Sequence[Image]) -> list[float]:
            out: list[float] = []
            for _, same in groupby(part, key=lambda image: image.shape):
                batch = torch.from_numpy(np.stack(list(same))).to(self._device)
                scores = self._score(batch.permute(0, 3, 1, 2).float() / 255.0)
                out += [float(s) for s in torch.as_tensor(scores).reshape(-1).cpu()]
            return out

        scores = np.array(in_batches(list(images), self._batch, work), dtype=np.float64)
        if len(scores) != len(images):
            raise BackendUnavailableError("this version of pyiqa gives other scores than one an image", todo=_TODO)
        if not np.isfinite(scores).all():
            at = int(np.flatnonzero(~np.isfinite(scores))[0])
            raise InputError(f"image {at} has no finite score; it is flat or too small", todo="Leave it out")
        return scores


_TODO = 'Install another: pip install "spatialbench[iqa-noncommercial]"'


def _network(opening: Opening, name: str, **options: Any) -> Any:
    """A metric of pyiqa on the device."""
    try:
        metric = import_module("pyiqa").create_metric(name, device=torch_device(opening.settings), **options)
    except BackendUnavailableError:
        raise
    except Exception as error:
        raise BackendUnavailableError(f"pyiqa cannot make '{name}' ({_brief(error)})", todo=_TODO) from None
    return metric.eval()


def _filled(entry: str, file: str, name: str, batch: int, **options: Any) -> Callable[[Opening], Any]:
    def open(opening: Opening) -> PyiqaRater:
        metric = _network(opening, name, pretrained=False, **options)
        path = opening.folders[entry] / file
        state = load_state(path)
        if isinstance(state.get("params"), dict):
            state = state["params"]
        load_into(metric.net, {str(k).removeprefix("module."): v for k, v in state.items()}, path)
        return PyiqaRater(metric, torch_device(opening.settings), batch)
    return open


def _open_pi(opening: Opening) -> PyiqaRater:
    """(10 - Ma + NIQE) / 2, eq. (33), on luma (YCbCr) without a border of 4 pixels, as the common tool does.

    Its NIQE is not that of ``niqe``, which keeps the border and takes other weights for gray.
    """
    torch: Any = import_module("torch")
    folder = opening.folders["pi"]
    made = [_network(opening, name, crop_border=_PI_BORDER, color_space=_PI_COLOURS,
                     pretrained_model_path=str(folder / file))
            for name, file in (("nrqm", "NRQM_model.mat"), ("niqe", "niqe_modelparameters.mat"))]

    def score(x: Any) -> Any:
        rows, columns = (max(0, side - 2 * _PI_BORDER) // _PI_PATCH for side in x.shape[2:])
        if rows * columns < 2:
            raise InputError(f"an image of {x.shape[3]} x {x.shape[2]} pixels is too small for NIQE, a part of PI",
                             todo="Give images of at least 104 x 200 pixels")
        try:
            return (10.0 - made[0](x) + made[1](x)) / 2
        except torch.linalg.LinAlgError:
            raise InputError("an image is flat: NIQE, a part of PI, is not defined", todo="Leave it out") from None

    return PyiqaRater(score, torch_device(opening.settings), 1)


def _open_q_align(opening: Opening) -> PyiqaRater:
    """Image quality, not the aesthetic or video variant; half precision, as pyiqa has it."""
    folder = opening.folders["q-align"]
    with _LOCK, _hub_is(folder):
        metric = _network(opening, "qalign", dtype="fp16")
    levels = getattr(metric.net.model, "preferential_ids_", ())
    if len(set(levels)) != 5:
        raise BackendUnavailableError("the tokenizer does not tell Q-Align's five words of quality apart",
                                      where=str(folder), todo=fetch_again(folder))
    for module in metric.modules():  # A helper that newer releases of transformers took out of its base class.
        if hasattr(module, "get_extended_attention_mask") and not hasattr(module, "invert_attention_mask"):
            module.invert_attention_mask = _inverted
    return PyiqaRater(lambda x: metric(x, task_="quality"), torch_device(opening.settings), 1)


def _inverted(mask: Any) -> Any:
    """[B,1,1,K] to be added to scores of attention: 0 where a mask [B,K] is 1, the smallest number where it is 0."""
    torch: Any = import_module("torch")
    return (1.0 - mask[:, None, None, :].half()) * torch.finfo(torch.half).min


@contextmanager
def _hub_is(folder: Path) -> Iterator[None]:
    """pyiqa's Q-Align reads its parts from the folder instead of the hub, which it names in its code."""
    try:
        places = [(module, kind, getattr(module, kind)) for name, *kinds in _Q_ALIGN_PARTS
                  for module in [import_module(name)] for kind in kinds]
    except (ImportError, AttributeError) as error:
        raise BackendUnavailableError(f"this version of pyiqa makes Q-Align in another way ({_brief(error)})",
                                      todo=_TODO) from None
    try:
        for module, kind, original in places:
            setattr(module, kind, _Local(original, folder))
        yield
    finally:
        for module, kind, original in places:
            setattr(module, kind, original)


class _Local:
    """Stands for a class of transformers; whatever is loaded by the hub's name is loaded from a folder."""

    def __init__(self, original: Any, folder: Path) -> None:
        self._original, self._folder = original, folder

    def from_pretrained(self, name: str, **options: Any) -> Any:
        if name != _HUB_ID:
            raise BackendUnavailableError(f"this version of pyiqa wants other weights for Q-Align ({name:.80})",
                                          todo=_TODO)
        options.pop("trust_remote_code", None)
        if not hasattr(self._original, "base_model_prefix"):
            return self._original.from_pretrained(self._folder, local_files_only=True, **options)
        model, info = self._original.from_pretrained(self._folder, local_files_only=True, output_loading_info=True,
                                                     **options)
        parameters = {name for name, _ in model.named_parameters()}  # Buffers are made by the code.
        wrong = sorted({str(k) for k in info.get("missing_keys") or ()} & parameters
                       | {str(k) for k in info.get("mismatched_keys") or ()})
        if wrong:
            raise BackendUnavailableError(f"the weights are of another model than Q-Align: {len(wrong)} missing or "
                                          f"mismatched, such as {wrong[0]:.80}", where=str(self._folder),
                                          todo=fetch_again(self._folder))
        return model


def _brief(error: Exception) -> str:
    return " ".join((str(error) or type(error).__name__).split())[:200]


def _spec(id: str, model: str, role: str, open: Callable[[Opening], Any], weights: str) -> ScorerSpec:
    return ScorerSpec(id, model, "rating", role, open, packages=("torch", "torchvision", "pyiqa"),
                      distributions=("torch", "torchvision", "transformers", "timm", "pyiqa"),
                      extra="iqa-noncommercial", weights=(weights,))


SPECS = (
    _spec("topiq_nr", "TOPIQ-NR, KonIQ checkpoint", "image quality",
          _filled("topiq-nr", "cfanet_nr_koniq_res50-9a73138b.pth", "topiq_nr", 8,
                  backbone_pretrain=False), "topiq-nr"),
    _spec("musiq", "MUSIQ, KonIQ checkpoint", "image quality",
          _filled("musiq", "musiq_koniq_ckpt-e95806b9.pth", "musiq", 8), "musiq"),
    _spec("musiq_spaq", "MUSIQ, SPAQ checkpoint", "image quality",
          _filled("musiq-spaq", "musiq_spaq_ckpt-358bb6af.pth", "musiq-spaq", 8), "musiq-spaq"),
    _spec("q_align", "Q-Align (OneAlign), image quality", "image quality", _open_q_align, "q-align"),
    _spec("pi", "Ma and NIQE (perceptual index)", "perceptual index", _open_pi, "pi"),
)
