"""A weights folder of tiny checkpoints of the real architectures, for whole runs; and what makes them be accepted."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from spatialbench.scorers import hpsv3_prompt
from tests.scorers import test_aesthetic, test_hpsv3, test_hpsv3_golden, test_perceptual, test_sam3
from tests.scorers.tiny_vision import forget_pins, save_clip, save_dino

ENTRIES = ("clip-l14", "laion-aes", "sam3", *test_hpsv3.ENTRIES, "dinov2-base", "lpips-vgg")


def write_weights(root: Path) -> None:
    """CLIP ViT-L/14, LAION's head, SAM3, HPSv3, DINOv2 and a trunk of LPIPS, 62 MB of which 59 are the trunk's."""
    save_clip(root / "clip-l14", 14, projection=768)
    head = {f"layers.{k}": v for k, v in test_aesthetic.sequential().state_dict().items()}
    test_aesthetic.save(root, test_aesthetic.MLP, head)
    test_sam3.write_sam3(root / "sam3")
    test_hpsv3.write_hpsv3(root)
    save_dino(root / "dinov2-base", 2)
    test_perceptual.write_trunk(root / "lpips-vgg")


def accept_weights(patch: Any) -> None:
    """A lock file without their sizes and hashes; ``patch`` has ``setattr``, as pytest's monkeypatch."""
    forget_pins(patch, *ENTRIES)
    words = test_hpsv3_golden.INSTRUCTION + test_hpsv3_golden.QUESTION
    patch.setattr(hpsv3_prompt, "TEMPLATE_SHA256", hashlib.sha256(words.encode()).hexdigest())
