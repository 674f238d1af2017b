"""Whether opacities of splats were stored as logits or as they are, by user, case or profile (design section 7)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from spatialbench.types import Decision, Scene, SnapshotCase
from spatialbench.types.scene import Source
from spatialbench.world.decide import CONFIDENCE, FrameOverrides, named_profile

__all__ = ["decide_opacity", "opacity_by_format"]

_LOOKS = "opacity_looks_activated"
_LOGITS = ("3DGS PLY", "SOG 1")
"""Versions of formats that store logits; all others store a byte of opacity."""


def decide_opacity(scene: Scene, case: SnapshotCase | None, overrides: FrameOverrides
                   ) -> tuple[Scene, dict[str, Decision], list[str]]:
    """The scene with its opacities as they were meant, the decision ``opacity`` where there is one, and words about it.

    Files are read as their format asks. Where the user, the case or the exporter's profile says that opacities are
    stored as they are, and every stored value lies in [0,1], the sigmoid is taken back; it is exact to 1e-6.
    """
    profile = named_profile(case, overrides)
    says: list[tuple[str | None, Source, str]] = [
        (overrides.opacity, "user", ""), (None if case is None else case.opacity, "case", ""),
        (None if profile is None else profile.opacity, "profile",
         "" if profile is None else f"what {profile.maker} writes")]
    told = next((s for s in says if s[0] is not None), None)
    if told is None or scene.splats is None:
        return scene, {}, []
    value, who, note = told
    said = {"opacity": Decision(value=value, source=who, confidence=CONFIDENCE[who], note=note)}
    version = _version(scene)
    if version not in _LOGITS:
        return (scene, said, []) if value == "activated" else (scene, {}, [
            f"opacities were said to be stored as logits, but {version} files hold them as they are: they "
            "were read as that"])
    if value == "logit":
        return scene, said, []
    if _LOOKS not in scene.report.details:
        return scene, {}, [f"opacities were said to be stored as they are, but in a {scene.report.format} with these "
                           "values they cannot be: they were read as the format asks"]
    read = scene.splats.opacities.astype(np.float64)
    with np.errstate(divide="ignore"):
        stored = np.log(read) - np.log1p(-read)
    splats = replace(scene.splats, opacities=np.clip(stored, 0.0, 1.0).astype(np.float32))
    decision = Decision(value="activated", source=who, confidence=CONFIDENCE[who],
                        note=f"stored as they are; {note}" if note else "stored as they are")
    return replace(scene, splats=splats), {"opacity": decision}, []


def opacity_by_format(scene: Scene) -> Decision:
    """How opacities were read where nobody says: as the format asks; undecided in a world without splats."""
    if scene.splats is None:
        return Decision(value=None, source="none", confidence=0.0, note="there are no splats")
    version = _version(scene)
    return Decision(value="logit" if version in _LOGITS else "activated", source="prior",
                    confidence=CONFIDENCE["prior"], note=f"what {version} files are by convention")


def _version(scene: Scene) -> str:
    return str(scene.report.details.get("format_version", scene.report.format))
