"""What all scorers on torch share: the device, batches that fit, and loading that refuses other architectures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from spatialbench.errors import BackendUnavailableError
from spatialbench.scorers.settings import ScorerSettings
from spatialbench.scorers.weights import fetch_again

__all__ = ["in_batches", "lacks_memory", "load_pretrained", "load_state", "quiet_transformers", "torch_device"]

T = TypeVar("T")


def torch_device(settings: ScorerSettings) -> Any:
    """The ``torch.device`` to compute on.

    Raises
    ------
    BackendUnavailableError : torch has no such device.
    """
    torch: Any = import_module("torch")
    wanted = settings.device
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    kind, _, number = wanted.partition(":")
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}[kind]
    if not there or (kind == "cuda" and int(number or 0) >= torch.cuda.device_count()):
        raise BackendUnavailableError(f"torch finds no device '{wanted}'", where="--device",
                                      todo="Use --device cpu, or install a build of torch for this machine's GPU")
    if kind == "cuda":  # full single precision, as on a CPU
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    return torch.device(wanted)


def in_batches(items: Sequence[T], size: int, work: Callable[[Sequence[T]], list[Any]]) -> list[Any]:
    """``work`` over consecutive parts of at most ``size`` items, results joined; halves a part that does not fit in
    the device's memory.

    Raises
    ------
    BackendUnavailableError : not even one item fits.
    """
    torch: Any = import_module("torch")
    out: list[Any] = []
    at = 0
    while at < len(items):
        part = items[at:at + size]
        try:
            with torch.inference_mode():
                done = work(part)
        except (RuntimeError, MemoryError) as error:
            if not lacks_memory(error):
                raise
            done = None
        if done is not None:
            out += done
            at += len(part)
            continue
        # Not where the error is handled: it holds on to the tensors of the frames that it came through.
        torch.cuda.empty_cache()
        if len(part) == 1:
            raise BackendUnavailableError("the device has too little memory for one image",
                                          todo="Use another device (--device)")
        size = max(1, len(part) // 2)
    return out


def lacks_memory(error: BaseException) -> bool:
    """Whether torch, on whatever device, says by this error that memory is used up."""
    torch: Any = import_module("torch")
    if isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(
        words in str(error) for words in ("out of memory", "can't allocate memory", "not enough memory",
                                          "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED"))


def quiet_transformers() -> Any:
    """The package, which then prints neither progress nor advice."""
    transformers: Any = import_module("transformers")
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    return transformers


def load_pretrained(kind: str, folder: Path, device: Any, **options: Any) -> Any:
    """A transformers model of the class ``kind`` from a local folder, in evaluation mode, on ``device``.

    Nothing is downloaded. Weights that do not fit the class, wholly, are refused: a model that is in part random gives
    numbers all the same.

    Raises
    ------
    BackendUnavailableError
    """
    transformers = quiet_transformers()
    try:
        model, info = getattr(transformers, kind).from_pretrained(
            folder, local_files_only=True, output_loading_info=True, **options)
    except Exception as error:
        if lacks_memory(error):  # no fault of the weights
            raise
        raise BackendUnavailableError(
            f"the weights cannot be loaded as {kind} ({_first_line(error)})", where=str(folder),
            todo=fetch_again(folder)) from None
    wrong = {k: sorted(str(n) for n in info.get(k) or ()) for k in ("missing_keys", "mismatched_keys")}
    if any(wrong.values()):
        what, names = next((k, v) for k, v in wrong.items() if v)
        raise BackendUnavailableError(
            f"the weights are of another model than {kind}: {len(names)} {what.replace('_', ' ')}, such as "
            f"{names[0]:.80}",
            where=str(folder), todo=fetch_again(folder))
    return model.to(device).eval()


def load_state(path: Path, device: Any = "cpu") -> dict[str, Any]:
    """Tensors by name from a ``.safetensors`` or a torch file, without running any code of the file.

    Raises
    ------
    BackendUnavailableError
    """
    try:
        if path.suffix == ".safetensors":
            state = import_module("safetensors.torch").load_file(path, device=str(device))
        else:
            state = import_module("torch").load(path, map_location=device, weights_only=True)
    except Exception as error:
        if lacks_memory(error):
            raise
        raise BackendUnavailableError(f"holds no tensors that can be read ({_first_line(error)})", where=str(path),
                                      todo=fetch_again(path)) from None
    if isinstance(state, dict) and isinstance(state.get("state_dict"), dict):
        state = state["state_dict"]
    if not isinstance(state, dict):
        raise BackendUnavailableError("holds no tensors by name", where=str(path),
                                      todo=fetch_again(path))
    return state


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:200]
