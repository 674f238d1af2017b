"""A judge in this process: Qwen3-VL (or another model of images and text) by transformers, from a local folder."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from spatialbench.errors import BackendUnavailableError, MissingInputError
from spatialbench.scorers.judge.contract import BackendFault, Reply, Request, Usage
from spatialbench.scorers.judge.settings import JudgeSettings

__all__ = ["TransformersBackend", "weights_identity"]


def weights_identity(folder: Path) -> str:
    """sha256 over the names and sizes of the files of weights and over the bytes of every ``.json`` file.

    Tells folders of different models apart; that the weights are what they should be is for their lock file to say.

    Raises
    ------
    MissingInputError : no folder, or no ``config.json`` in it.
    """
    if not (folder / "config.json").is_file():
        raise MissingInputError("holds no config.json, so no model", where=str(folder),
                                todo="Name the folder of the weights in 'weights' of the judge file")
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.iterdir() if p.suffix in (".json", ".safetensors", ".jinja", ".txt")):
        digest.update(f"{path.name} {path.stat().st_size}\n".encode())
        if path.suffix != ".safetensors":
            digest.update(path.read_bytes())
    return digest.hexdigest()


class TransformersBackend:
    """Greedy decoding on one device, one question at a time; nothing is ever downloaded.

    The form of an answer is not enforced while it is written, only checked afterwards.

    Parameters
    ----------
    load : without, nothing can be asked (for a dry run).

    Raises
    ------
    BackendUnavailableError : torch or transformers is missing, or the device; the weights are of another model than
        their configuration says, or cannot be read.
    MissingInputError : no weights in the folder.
    """

    provider = "transformers"
    concurrency = 1

    def __init__(self, settings: JudgeSettings, model: str, *, load: bool = True) -> None:
        assert settings.weights is not None
        self.model, self.endpoint = model, settings.cache_as or "in-process"
        self.options: Mapping[str, Any] = {
            "weights": weights_identity(settings.weights), "dtype": settings.dtype,
            "device": settings.device.split(":")[0],
            "transformers": version("transformers") if find_spec("transformers") else ""}
        self._settings, self._device, self._lock = settings, settings.device, threading.Lock()
        self._torch: Any = None
        self._model: Any = None
        self._marks: frozenset[str] = frozenset()
        self._special: frozenset[str] = frozenset()
        self._ends: frozenset[int] = frozenset()
        if load:
            self._load(str(settings.weights))

    def _load(self, folder: str) -> None:
        settings = self._settings
        try:
            self._torch = import_module("torch")
            transformers: Any = import_module("transformers")
        except ImportError as error:
            raise BackendUnavailableError(f"a judge in this process needs torch and transformers ({error})",
                                          todo='Install them with: pip install "spatialbench[vlm]"') from None
        if settings.device.startswith("cuda") and not self._torch.cuda.is_available():
            raise BackendUnavailableError("torch finds no CUDA device", where=settings.device,
                                          todo="Set 'device: cpu' in the judge file, or use an endpoint")
        try:
            self._processor = transformers.AutoProcessor.from_pretrained(folder, local_files_only=True)
            loaded = transformers.AutoModelForImageTextToText.from_pretrained(
                folder, dtype=getattr(self._torch, settings.dtype), local_files_only=True, output_loading_info=True)
            model, info = loaded if isinstance(loaded, tuple) else (loaded, {})
            # What the weights lack would be random, and a model that is in part random answers all the same.
            if wrong := [str(n) for k in ("missing_keys", "mismatched_keys") for n in info.get(k) or ()]:
                raise ValueError(f"{len(wrong)} tensors are missing or of another shape, such as {min(wrong):.80}")
            self._model = model.to(settings.device).eval()
        except ImportError as error:
            raise BackendUnavailableError(f"a judge in this process needs more ({_first_line(error)})",
                                          todo='Install it with: pip install "spatialbench[vlm]"') from None
        except Exception as error:
            raise BackendUnavailableError(f"the weights cannot be loaded ({_first_line(error)})",
                                          where=folder, todo="Copy the whole folder of the model again") from None
        tokenizer = getattr(self._processor, "tokenizer", None)
        self._marks = frozenset(tokenizer.get_added_vocab()) if tokenizer is not None else frozenset()
        self._special = frozenset(tokenizer.all_special_tokens) if tokenizer is not None else frozenset()
        ends = getattr(getattr(self._model, "generation_config", None), "eos_token_id", None)
        self._ends = frozenset(ends if isinstance(ends, list) else [] if ends is None else [ends])

    def complete(self, request: Request) -> Reply:
        """One answer. A temperature above 0 draws with the request's seed and leaves torch's own state as it was.

        Raises
        ------
        BackendFault : the question holds a mark of the model's own, such as the one that ends a turn; it cannot be
            made ready for the model; too little memory.
        """
        torch = self._torch
        # What the model itself has said may hold a thought's marks, but none that end a turn.
        texts = [p for m in request.messages for p in m.parts if isinstance(p, str) and m.role != "assistant"]
        said = [p for m in request.messages for p in m.parts if isinstance(p, str) and m.role == "assistant"]
        if forged := sorted(k for k in self._marks if any(k in t for t in texts)
                            or (k in self._special and any(k in t for t in said))):
            raise BackendFault("question", f"the question holds '{forged[0]}', which is a mark of the model's own")
        messages = [{"role": m.role, "content": [_part(p) for p in m.parts]} for m in request.messages]
        draw = {"do_sample": True, "temperature": request.temperature} if request.temperature > 0 else {
            "do_sample": False, "temperature": None, "top_p": None, "top_k": None}
        kind, _, number = self._device.partition(":")
        with self._lock, torch.inference_mode(), torch.random.fork_rng([int(number or 0)] if kind == "cuda" else []):
            try:
                torch.manual_seed(request.seed)
                inputs = self._processor.apply_chat_template(
                    messages, add_generation_prompt=True, tokenize=True, return_dict=True,
                    return_tensors="pt").to(self._device)
                n = int(inputs["input_ids"].shape[1])
                out = self._model.generate(**inputs, max_new_tokens=request.max_tokens, **draw)[0, n:]
            except torch.cuda.OutOfMemoryError:
                torch.cuda.empty_cache()
                raise BackendFault("question", "the device has too little memory for this question") from None
            except (ValueError, RuntimeError) as error:
                raise BackendFault("question", f"the model takes no such question ({_first_line(error)})") from None
        text = str(self._processor.decode(out, skip_special_tokens=True))
        made = int(out.shape[0])
        cut = made >= request.max_tokens and int(out[-1]) not in self._ends
        return Reply(text, self.model, str(self.options["weights"])[:12], "length" if cut else "stop", Usage(n, made))

    def close(self) -> None:
        """Let go of the model."""
        self._model = None
        if self._torch is not None and self._torch.cuda.is_available():
            self._torch.cuda.empty_cache()


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:200]


def _part(part: Any) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    from PIL import Image

    return {"type": "image", "image": Image.fromarray(part.pixels)}
