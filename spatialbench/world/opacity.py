"""Whether opacities of splats were stored as logits, as the format asks, or as they are (design section 7)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from spatialbench.types import Decision, Scene
from spatialbench.types.scene import Source
from spatialbench.world.decide import CONFIDENCE, FrameOverrides

__all__ = ["decide_opacity"]

_LOOKS = "opacity_looks_activated"


def decide_opacity(scene: Scene, overrides: FrameOverrides) -> tuple[Scene, dict[str, Decision], list[str]]:
    """The scene with its opacities as they were meant, the decision ``opacity`` where there is one, and words about it.

    Files are read as their format asks. Where the user or the exporter's profile says that opacities are stored as
    they are, and every stored value lies in [0,1], the sigmoid is taken back; it is exact to 1e-6.
    """
    profile = overrides.profile
    told: str | None
    told, source = overrides.opacity, "user"
    if told is None and profile is not None:
        told, source = profile.opacity, "profile"
    if told is None or scene.splats is None:
        return scene, {}, []
    who: Source = "user" if source == "user" else "profile"
    if told == "logit":
        return scene, {"opacity": Decision(value="logit", source=who, confidence=CONFIDENCE[who])}, []
    if _LOOKS not in scene.report.details:
        return scene, {}, [f"opacities were said to be stored as they are, but in a {scene.report.format} with these "
                           "values they cannot be: they were read as the format asks"]
    read = scene.splats.opacities.astype(np.float64)
    with np.errstate(divide="ignore"):
        stored = np.log(read) - np.log1p(-read)
    splats = replace(scene.splats, opacities=np.clip(stored, 0.0, 1.0).astype(np.float32))
    decision = Decision(value="activated", source=who, confidence=CONFIDENCE[who], note="stored as they are")
    return replace(scene, splats=splats), {"opacity": decision}, []
