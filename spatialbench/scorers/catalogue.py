"""Every learned scorer that the metrics name, and whether it can be used on this machine.

A scorer without an adapter is listed too: what needs it is ``unavailable``, with the reason from here.
"""

from __future__ import annotations

from dataclasses import dataclass

from spatialbench.errors import UsageError

__all__ = ["ScorerInfo", "scorer", "scorers"]


@dataclass(frozen=True)
class ScorerInfo:
    """A frozen model that scores, detects or judges.

    Attributes
    ----------
    id : what metrics name.
    model : what it is.
    gives : what it is used for.
    usable : whether it can be used here.
    reason : why not, and what to do.
    """

    id: str
    model: str
    gives: str
    usable: bool
    reason: str


_NO_ADAPTER = "this version of spatialbench has no adapter for it; its metrics stay unavailable"

_MODELS = (
    ("topiq_nr", "TOPIQ-NR, KonIQ checkpoint", "image quality"),
    ("laion_aes", "LAION aesthetic head on CLIP ViT-L/14", "aesthetics"),
    ("pi", "Ma and NIQE (perceptual index)", "perceptual index"),
    ("q_align", "Q-Align, image quality", "image quality"),
    ("hpsv3", "HPSv3 7B", "human preference reward"),
    ("vlm_judge", "Qwen3-VL", "yes/no judgments of views"),
    ("clip", "CLIP ViT-L/14", "image and text similarity"),
    ("sam3", "SAM3", "detection and masks by text"),
    ("tapip3d", "TAPIP3D", "3D point tracks"),
    ("lpips_vgg", "spatial LPIPS-VGG", "perceptual distance"),
    ("dinov2", "DINOv2 base", "patch features"),
)


def scorers() -> list[ScorerInfo]:
    """All known scorers, by id."""
    return [ScorerInfo(id, model, gives, False, _NO_ADAPTER) for id, model, gives in sorted(_MODELS)]


def scorer(id: str) -> ScorerInfo:
    """One scorer.

    Raises
    ------
    UsageError : unknown id.
    """
    for info in scorers():
        if info.id == id:
            return info
    raise UsageError(f"no scorer '{id}'", todo=f"Known: {', '.join(s.id for s in scorers())}")
