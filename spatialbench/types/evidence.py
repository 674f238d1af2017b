"""Evidence that a model would give, as files in a case: masks, judge answers, features, rewards."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from spatialbench.types.case_parts import RelativePath, Strict, Vec3, check_relative

__all__ = ["VIEW", "BoxAnnotation", "EditEvidence", "ExpandEvidence", "MaskPath", "ObjectEvidence"]

VIEW = "{view}"
"""In the path of masks: the number of the view, two digits from 00."""


def _mask_path(text: str) -> str:
    check_relative(text)
    if text.count(VIEW) > 1 or "{" in text.replace(VIEW, "") or "}" in text.replace(VIEW, ""):
        raise ValueError(f"has another placeholder than one {VIEW}")
    if text.lower().endswith(".npz") != (VIEW not in text):
        raise ValueError(f"is neither one .npz file nor PNG files with {VIEW} in their name")
    return text


MaskPath = Annotated[str, AfterValidator(_mask_path), Field(description="path of .npz, or of PNG with {view}")]
"""One mask for each view: ``masks/before-{view}.png`` (a view without a file has no target), or an ``.npz`` file."""


class BoxAnnotation(Strict):
    """A box in the frame and unit of the world file before."""

    low: Vec3
    """Least x, y and z."""
    high: Vec3
    """Largest x, y and z."""

    @model_validator(mode="after")
    def _low_to_high(self) -> BoxAnnotation:
        if any(a > b for a, b in zip(self.low, self.high, strict=True)) or self.low == self.high:
            raise ValueError("'low' must not be above 'high', and the box not be a point")
        return self


class EditEvidence(Strict):
    """What a detector, a judge and feature extractors said of an edit; paths are relative to the case file."""

    target_box: BoxAnnotation | None = None
    """Where the target is; the orbit is laid around it. Else it is lifted from `probe_masks`."""
    probe_masks: MaskPath | None = None
    """The target in the six origin probes (front, right, back, left, up, down) of the world that it is sought in: after
    for additions and replacements, before for the others."""
    masks_before: MaskPath | None = None
    """The target in the 24 orbit views of the world before; for every object edit but an addition."""
    masks_after: MaskPath | None = None
    """The same of the world after; for every object edit but a deletion."""
    judge: RelativePath | None = None
    """JSON: `views`, and an answer (true or false) for each of them in `before` and `after` (M31)."""
    lpips: RelativePath | None = None
    """npz: `views` [V] and `maps` [V,H,W], the spatial LPIPS of before and after (M33)."""
    dino: RelativePath | None = None
    """npz: `views` [V], `before` and `after` [V,37,37,D], patch tokens (M34)."""


class ExpandEvidence(Strict):
    """What a reward model said of an expansion; paths are relative to the case file."""

    rewards: RelativePath | None = None
    """npz: rewards by frame, `junction_after` [T] (M28), `origin_before` and `origin_after` [T] (M29), `path_before`
    and `path_after` [16] (M30); what is left out is unavailable."""


class ObjectEvidence(Strict):
    """What a detector, a judge, a reward model and a tracker said of an object; paths are relative to the case file."""

    probe_mask: RelativePath | None = None
    """PNG: the object in the first view of the origin ring; in place of 'image_polygon', 'mask' and the detector."""
    masks: MaskPath | None = None
    """The object in the 24 orbit views around it (M16 to M20)."""
    judge: RelativePath | None = None
    """JSON: `views`, and for each `inside_scene`, `target_visible`, `artifact_free`, `complete` (M21 to M24)."""
    rewards: RelativePath | None = None
    """npz: `views` [V] and `rewards` [V] of the crops that are scored (M17, M18)."""
    tracks: RelativePath | None = None
    """npz: `views` [25] in the order they were looked at, `tracks` [25,64,3] in the world frame, m; NaN where a point
    was lost (M19, M20)."""
