"""An object that a world was asked to have, as a case annotates it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator, model_validator

from spatialbench.types.case_parts import ImagePolygon, RelativePath, Strict
from spatialbench.types.evidence import ObjectEvidence

__all__ = ["ObjectAnnotation"]


class ObjectAnnotation(Strict):
    """An object that the world was asked to have."""

    id: Annotated[str, Field(max_length=128)]
    """Its name within the case."""
    text: Annotated[str, Field(min_length=1, max_length=2000, pattern=r"\S")]
    """What it looks like, for a detector and a judge."""
    image_polygon: ImagePolygon | None = None
    """Where it is: at least three corners in the first view of the origin ring, each in [0,1], y down."""
    mask: RelativePath | None = None
    """Or a PNG of that view, of any size, white on the object. Without either it is sought by its text."""
    evidence: ObjectEvidence | None = None
    """Files with what models would say, for metrics whose model is not here."""

    @field_validator("id")
    @classmethod
    def _named(cls, id: str) -> str:
        if not id.strip() or not id.isprintable():
            raise ValueError("must be a name: something that can be seen, and no control characters")
        return id

    @model_validator(mode="after")
    def _one_place(self) -> ObjectAnnotation:
        probe = None if self.evidence is None else self.evidence.probe_mask
        if sum(place is not None for place in (self.image_polygon, self.mask, probe)) > 1:
            raise ValueError("give one of 'image_polygon', 'mask' and 'evidence.probe_mask'")
        if self.image_polygon is not None and len(self.image_polygon) < 3:
            raise ValueError("the polygon of an object needs at least three corners")
        return self
