"""Tiny checkpoints of the real architectures, written from a seed, and pictures that are awkward for an image model."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from spatialbench.scorers import registry, weights
from spatialbench.scorers.registry import ScorerBox
from spatialbench.scorers.settings import ScorerSettings


def use_modules(monkeypatch: Any, *names: str) -> None:
    """Registers modules of scorers, unless they are."""
    more = tuple(n for n in names if n not in registry._MODULES)
    monkeypatch.setattr(registry, "_MODULES", registry._MODULES + more)


def forget_pins(monkeypatch: Any, *entries: str) -> None:
    """A lock file that knows neither sizes nor hashes of these entries: tiny weights are other files."""
    lock = weights.load_lock()
    changed = [e.model_copy(update={"files": tuple(f.model_copy(update={"bytes": None, "sha256": None})
                                                   for f in e.files)}) if e.id in entries else e
               for e in lock.weights]
    lock = lock.model_copy(update={"weights": tuple(changed)})
    monkeypatch.setattr(weights, "load_lock", lambda: lock)


def box(folder: Path) -> ScorerBox:
    return ScorerBox(ScorerSettings(weights=folder, device="cpu"))


def torch_of_tests() -> Any:
    import torch

    torch.set_num_threads(1)
    return torch


def noise(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def awkward() -> dict[str, np.ndarray]:
    """Pictures that lead image pipelines astray: sides that look like channels, no colour, no contrast."""
    gray = np.repeat(noise(40, 60, 3)[..., :1], 3, axis=2)
    frozen = noise(33, 47, 4)
    frozen.setflags(write=False)
    return {"one pixel": np.array([[[200, 30, 90]]], np.uint8), "three rows": noise(3, 50, 1),
            "three columns": noise(50, 3, 2), "one row": noise(1, 9, 5), "gray": gray,
            "constant": np.full((64, 64, 3), 128, np.uint8), "read only": frozen,
            "flipped": noise(30, 20, 6)[::-1, ::-1], "large": noise(300, 500, 7)}


def save_clip_tokenizer(folder: Path, merged: int) -> int:
    """The real BPE of CLIP, or its first merges, from those that open_clip brings along; returns its size."""
    import open_clip
    import transformers
    from open_clip.tokenizer import bytes_to_unicode

    packed = Path(open_clip.__file__).parent / "bpe_simple_vocab_16e6.txt.gz"
    merges = [tuple(line.split()) for line in
              gzip.decompress(packed.read_bytes()).decode().split("\n")[1:merged + 1]]
    letters = list(bytes_to_unicode().values())
    words = [*letters, *(x + "</w>" for x in letters), *("".join(m) for m in merges),
             "<|startoftext|>", "<|endoftext|>"]
    vocab = {w: k for k, w in enumerate(words)}
    transformers.CLIPTokenizer(vocab=vocab, merges=merges, model_max_length=77).save_pretrained(folder)
    return len(words)


ALL_MERGES = 49152 - 256 - 2


def save_clip(folder: Path, patch: int, *, projection: int = 12, torch_file: bool = False,
              merged: int = 500) -> None:
    """CLIP of two layers; ``torch_file``: as a ``pytorch_model.bin``; with all merges its token ids are true."""
    torch = torch_of_tests()
    import transformers

    size = save_clip_tokenizer(folder, merged)
    transformers.CLIPImageProcessor().save_pretrained(folder)
    text = {"vocab_size": size, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2,
            "num_attention_heads": 2, "max_position_embeddings": 77, "bos_token_id": size - 2, "eos_token_id": size - 1}
    vision = {"hidden_size": 24, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
              "image_size": 224, "patch_size": patch}
    torch.manual_seed(patch)
    model = transformers.CLIPModel(transformers.CLIPConfig(text_config=text, vision_config=vision,
                                                           projection_dim=projection)).eval()
    model.save_pretrained(folder)
    if torch_file:
        (folder / "model.safetensors").unlink()
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
    for name in ("vocab.json", "merges.txt", "special_tokens_map.json"):  # of the real repositories; not always written
        if not (folder / name).is_file():
            (folder / name).write_text("{}", encoding="utf-8")


def save_dino(folder: Path, version: int, **changes: Any) -> None:
    """DINOv2 or DINOv3 of two layers."""
    torch = torch_of_tests()
    import transformers

    torch.manual_seed(version)
    common = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    if version == 2:
        config = transformers.Dinov2Config(**common, mlp_ratio=2, **({"image_size": 518, "patch_size": 14} | changes))
        model = transformers.Dinov2Model(config)
    else:
        config = transformers.DINOv3ViTConfig(**common, intermediate_size=48, **(
            {"image_size": 224, "patch_size": 16, "num_register_tokens": 4} | changes))
        model = transformers.DINOv3ViTModel(config)
    model.eval().save_pretrained(folder)


def cut(path: Path, keep: float = 0.6) -> None:
    """Only the first part of a file."""
    data = path.read_bytes()
    path.write_bytes(data[:int(len(data) * keep)])


def copied(source: Path, to: Path, *without: str) -> Path:
    """Links to the files of a folder, but for some."""
    to.mkdir(parents=True)
    for path in source.iterdir():
        if path.name not in without:
            (to / path.name).symlink_to(path)
    return to


def rewritten(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """A file of safetensors with its tensors changed; a link to it is replaced."""
    from safetensors.torch import load_file, save_file

    tensors = load_file(path)
    change(tensors)
    path.unlink()
    save_file(tensors, path, metadata={"format": "pt"})


@contextmanager
def out_of_order(model: Any) -> Iterator[None]:
    """The first matrix of a model is NaN meanwhile, and with it all that follows."""
    first = next(p for p in model.parameters() if p.ndim > 1)
    kept = first.data.clone()
    first.data.fill_(float("nan"))
    try:
        yield
    finally:
        first.data.copy_(kept)
