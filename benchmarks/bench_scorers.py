"""Learned scorers against the bare models: 36 frames of CLIP ViT-B/32, and all of W1 where CUDA and weights are there.

The first part makes a checkpoint of the true architecture with random weights, since time does not depend on them. The
second part is skipped, and says so, where there is no CUDA device or a scorer's weights are not here.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from spatialbench import assets
from spatialbench.runs import RunOptions, run_world
from spatialbench.runs.scoring import Scoring, open_scorers

FRAMES, SIDE, REPEATS, LIMIT = 36, 768, 5, 1.1
_W1 = {"topiq_nr": ("M01",), "pi": ("M03",), "q_align": ("M04",), "hpsv3": ("M05",), "clip_l14": ("M09",)}
"""Scorers of W1, and the metrics that need no other one."""


def main() -> None:
    """Print both tables."""
    print(f"\n{'scorers, 36 frames of 768 x 768':<62} {'value':>9} {'limit':>7} {'ratio':>6}")
    missing = [p for p in ("torch", "torchvision", "transformers", "safetensors") if find_spec(p) is None]
    if missing:
        print(f"  skipped: {missing[0]} is not installed (pip install \"spatialbench[vision]\")")
        return
    frames = [np.random.default_rng(k).integers(0, 256, (SIDE, SIDE, 3), np.uint8) for k in range(FRAMES)]
    _clip(frames)
    _whole(frames)


def _clip(frames: list[np.ndarray]) -> None:
    from spatialbench.scorers.clip import ClipEmbedder

    torch: Any = import_module("torch")
    transformers: Any = import_module("transformers")
    from tests.scorers.tiny_vision import save_clip_tokenizer

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        torch.manual_seed(0)
        words = save_clip_tokenizer(folder, 500)
        config = transformers.CLIPConfig(projection_dim=512, vision_config={
            "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12,
            "patch_size": 32, "image_size": 224}, text_config={
            "vocab_size": words, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1,
            "num_attention_heads": 2, "bos_token_id": words - 2, "eos_token_id": words - 1})
        transformers.CLIPModel(config).save_pretrained(folder)
        transformers.CLIPImageProcessor().save_pretrained(folder)
        scorer = ClipEmbedder(folder, 32, torch.device("cpu"))
        model, processor = scorer._model, scorer._processor

        def bare() -> Any:
            with torch.inference_mode():
                pixels = processor([torch.from_numpy(f).permute(2, 0, 1) for f in frames], return_tensors="pt",
                                   input_data_format="channels_first")["pixel_values"]
                return model.visual_projection(model.vision_model(pixel_values=pixels).pooler_output).numpy()

        ours, theirs = _both(lambda: scorer.embed_images(frames), bare)
    _row("CLIP ViT-B/32 through the scorer, against the bare model", ours, theirs)


def _whole(frames: list[np.ndarray]) -> None:
    """W1 of one world by ``run``, against the sum of what its scorers alone take for as many frames."""
    torch: Any = import_module("torch")
    if not torch.cuda.is_available():
        print("  all of W1: not run, torch finds no CUDA device")
        return
    box = open_scorers(Scoring())
    usable = {id: metrics for id, metrics in _W1.items() if not box.lacking(id)}
    for id in sorted(set(_W1) - set(usable)):
        print(f"  {id}: not run, {box.lacking(id)}")
    if not usable:
        return
    text = "A room with a table."
    bare = {id: _alone(torch, box.get(id), frames, text) for id in usable}
    with tempfile.TemporaryDirectory() as name:
        case = Path(name) / "case.yaml"
        case.write_text(f"id: bench\ntext: {text}\n")
        metrics = sorted({m for id in usable for m in usable[id]})
        options = RunOptions(case=case, settings=(f"metrics=[{', '.join(metrics)}]",))
        world = Path(assets.__file__).parent / "sample_room.glb"
        run_world(world, options)  # loops are compiled, weights are loaded
        start = time.perf_counter()
        run_world(world, options)
        seconds = time.perf_counter() - start
    for id, s in bare.items():
        print(f"  {id + ' alone':<60} {s:8.2f}s")
    print(f"  {'W1 of one world (' + ', '.join(metrics) + '), to the sum of these':<60} {seconds:8.2f}s {'':>7} "
          f"{seconds / sum(bare.values()):6.2f}")


def _alone(torch: Any, scorer: Any, frames: list[np.ndarray], text: str) -> float:
    def work() -> Any:
        return scorer.embed_images(frames) if hasattr(scorer, "embed_images") else scorer.rate(frames, text)

    work()
    torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def _both(a: Callable[[], Any], b: Callable[[], Any]) -> tuple[float, float]:
    """Median seconds of each, run in turn."""
    a(), b()
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(REPEATS):
        for work, into in zip((a, b), times, strict=True):
            start = time.perf_counter()
            work()
            into.append(time.perf_counter() - start)
    return statistics.median(times[0]), statistics.median(times[1])


def _row(what: str, ours: float, theirs: float) -> None:
    print(f"  {what:<60} {ours:8.2f}s {LIMIT:7.2f} {ours / theirs:6.2f}")
