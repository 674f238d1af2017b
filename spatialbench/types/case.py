"""What was asked of a world or a clip: the case file, in five kinds."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from spatialbench.errors import ConfigError
from spatialbench.types.case_parts import (
    CameraAnnotation,
    Id,
    RelativePath,
    Strict,
    SupportAnnotation,
    Vec3,
    check_relative,
    listed_once,
    parse_axis,
    resolve_reference,
)
from spatialbench.types.clip_case import EmbodiedCase, VideoCase
from spatialbench.types.evidence import EditEvidence, ExpandEvidence
from spatialbench.types.object_case import ObjectAnnotation
from spatialbench.types.profile import ExporterProfile, is_profile_path, profile_value
from spatialbench.types.strict import load_strict, read_yaml, validate_strict

__all__ = ["CASE_KINDS", "WORLD_CASES", "CameraAnnotation", "Case", "EditCase", "EmbodiedCase", "ExpandCase",
           "ObjectAnnotation", "ProfileName", "SnapshotCase", "SupportAnnotation", "VideoCase", "check_references",
           "load_any_case", "load_case", "parse_axis", "parse_case", "side_cars_of", "with_profile"]

EditCategory = Literal["addition", "deletion", "replacement", "colour", "state", "material",
                       "weather", "lighting", "atmosphere", "terrain"]
ProfileName = Annotated[ExporterProfile, BeforeValidator(profile_value), Field(description="name or path")]
"""A profile that is written as its name, or as the path of a YAML file relative to the file it is written in."""
SideCarPaths = Annotated[tuple[RelativePath, ...], BeforeValidator(lambda v: (v,) if isinstance(v, str) else v),
                         Field(max_length=16, description="path, or list of paths")]
_OBJECT_EDITS = ("addition", "deletion", "replacement", "colour", "state", "material")


class _WorldCase(Strict):
    """What the three kinds for worlds have in common. Everything but the id may be left out."""

    id: Id
    """Names the case in results and output paths."""
    text: str | None = None
    """Scene description the world was generated from."""
    image: RelativePath | None = None
    """Input image, relative to the case file."""
    camera: CameraAnnotation | None = None
    """Initial camera; found when nothing gives it."""
    up: str | Vec3 | None = None
    """``+Y``, ``-Z``... or a vector, in the world file's own frame."""
    unit_m: float | None = Field(None, gt=1e-12, lt=1e12)
    """Metres per unit of the world file."""
    profile: ProfileName | None = None
    """Conventions of what wrote the world; below what the file says, and checked against it."""
    opacity: Literal["logit", "activated"] | None = None
    """How opacities of splats are stored, where it is not as the format asks."""
    sidecar: SideCarPaths = ()
    """What says something about the world's frame, relative to the case file; stands in for the search beside it."""
    max_splats: int | None = Field(None, ge=1)
    """Of larger worlds only so many splats are read, picked evenly by a fixed rule."""
    drop_outliers: bool = False
    """Leave out far outliers, huge splats and floaters."""
    tags: dict[str, str] = Field(default_factory=dict)
    """Free labels to group results by."""


class SnapshotCase(_WorldCase):
    """One world and what it should show: levels W1 to W3 of the spatial track."""

    kind: Literal["snapshot"] = "snapshot"
    """May be left out."""
    categories: tuple[Annotated[str, Field(max_length=2000, pattern=r"\S")], ...] = ()
    """Object categories that were asked for (M11)."""
    objects: tuple[ObjectAnnotation, ...] = ()
    """Objects that are looked at from all sides (M16 to M24)."""
    support: SupportAnnotation | None = None
    """The surface that plates are put on (M25)."""

    @model_validator(mode="after")
    def _objects_once(self) -> SnapshotCase:
        listed_once("objects", [o.id for o in self.objects])
        return self


class _TwoWorlds(_WorldCase):
    def snapshot(self) -> SnapshotCase:
        """The case of the world before, which fixes the frame, scale and grid of both."""
        return SnapshotCase(id=self.id, text=self.text, image=self.image, camera=self.camera, up=self.up,
                            unit_m=self.unit_m, profile=self.profile, opacity=self.opacity, sidecar=self.sidecar,
                            max_splats=self.max_splats, drop_outliers=self.drop_outliers, tags=self.tags)


class EditCase(_TwoWorlds):
    """A world before and after an instruction: level W4. Camera, up and unit are those of the world before."""

    kind: Literal["edit"] = "edit"
    """Says which keys there are."""
    instruction: str = Field(min_length=1)
    """What was to be changed, as the system was told."""
    category: EditCategory
    """The first six change an object, the last four the whole scene."""
    target_before: str | None = None
    """The object as it looks before; for every object edit but an addition."""
    target_after: str | None = None
    """The object as it looks after; for an addition or replacement, and where a change alters its description."""
    evidence: EditEvidence | None = None
    """Files with what models would say, for metrics whose model is not here."""

    @model_validator(mode="after")
    def _targets(self) -> EditCase:
        needed = {"addition": (False, True), "deletion": (True, False), "replacement": (True, True)}
        before, after = needed.get(self.category, (self.scope == "object", None))
        for name, have, need in (("target_before", self.target_before, before),
                                 ("target_after", self.target_after, after)):
            if need and not have:
                raise ValueError(f"the category '{self.category}' needs '{name}'")
            if have and (need is False or self.scope == "global"):
                raise ValueError(f"the category '{self.category}' has no '{name}'")
        given = set() if self.evidence is None else self.evidence.model_fields_set
        if self.scope == "global" and given - {"judge"}:
            raise ValueError(f"the category '{self.category}' has no target, and so no evidence but 'judge'")
        return self

    @property
    def scope(self) -> Literal["object", "global"]:
        """Which metrics apply: M32 to M34 and M36, or M35 and M37."""
        return "object" if self.category in _OBJECT_EDITS else "global"

    @property
    def operation(self) -> Literal["addition", "deletion", "replacement", "modification", "global"]:
        """How the mask of allowed change is made (spec section 10)."""
        if self.category in ("addition", "deletion", "replacement"):
            return self.category  # type: ignore[return-value]
        return "modification" if self.scope == "object" else "global"


class ExpandCase(_TwoWorlds):
    """A world before and after it was made larger: level W5. Camera, up and unit are those of the world before."""

    kind: Literal["expand"] = "expand"
    """Says which keys there are."""
    instruction: str | None = None
    """What was asked of the expansion; kept with the result."""
    evidence: ExpandEvidence | None = None
    """Files with what a reward model would say."""


Case = Annotated[SnapshotCase | EditCase | ExpandCase | VideoCase | EmbodiedCase, Field(discriminator="kind")]
CASE_KINDS: dict[str, type[SnapshotCase] | type[EditCase] | type[ExpandCase] | type[VideoCase] | type[EmbodiedCase]] = {
    "snapshot": SnapshotCase, "edit": EditCase, "expand": ExpandCase, "video": VideoCase, "embodied": EmbodiedCase}
WORLD_CASES = (SnapshotCase, EditCase, ExpandCase)
"""The kinds for worlds, which say something about their frame."""


def parse_case(data: dict[str, Any], where: str) -> Case:
    """A case from a mapping; without ``kind`` it is a snapshot.

    Raises
    ------
    ConfigError : an unknown kind or key (the nearest is named), or a wrong value.
    """
    kind = data.get("kind", "snapshot")
    if not isinstance(kind, str) or kind not in CASE_KINDS:
        near = difflib.get_close_matches(str(kind)[:80], CASE_KINDS, n=1)
        raise ConfigError(f"key 'kind': there are no '{str(kind)[:80]}' cases", where=where,
                          todo=f"Did you mean '{near[0]}'?" if near else f"Known: {', '.join(CASE_KINDS)}")
    return validate_strict(CASE_KINDS[kind], data, where)


def with_profile(data: dict[str, Any], folder: Path, root: Path, where: str) -> dict[str, Any]:
    """The mapping with the path of a profile (key ``profile``) replaced by what that file holds.

    Parameters
    ----------
    folder : that the path is relative to; in ``root``, which it must not lead out of.

    Raises
    ------
    MissingInputError : no such file.
    ConfigError : no path below ``root``, or no profile.
    """
    name = data.get("profile")
    if not isinstance(name, str) or not is_profile_path(name):
        return data
    here = f"{where}, key 'profile'"
    try:
        check_relative(name)
    except ValueError as error:
        raise ConfigError(f"'{name:.100}' {error}", where=here, todo="Correct it") from None
    return {**data, "profile": load_strict(ExporterProfile, resolve_reference(name, folder, root, here))}


def load_any_case(path: Path, root: Path | None = None) -> Case:
    """Read a case file (YAML) of any kind.

    Parameters
    ----------
    root : folder that the case's files must lie in; the case file's own folder when None. Only a profile is opened.

    Raises
    ------
    MissingInputError, ConfigError : with the key, its place and the nearest known one.
    """
    case = parse_case(with_profile(read_yaml(path), path.parent, root or path.parent, str(path)), str(path))
    check_references(case, path.parent, root or path.parent, str(path))
    return case


def check_references(case: Case, folder: Path, root: Path, where: str) -> None:
    """The paths of a case lie in ``root``; none is opened. Evidence is checked by who reads it.

    Raises
    ------
    ConfigError : one leads out of it.
    """
    if case.image is not None:
        resolve_reference(case.image, folder, root, f"{where}, key 'image'")
    side_cars_of(case, folder, root, where)


def side_cars_of(case: Case | None, folder: Path, root: Path, where: str) -> tuple[Path, ...]:
    """Where the case's side-cars lie; they need not be there.

    Raises
    ------
    ConfigError : one leads out of ``root``.
    """
    names = case.sidecar if isinstance(case, WORLD_CASES) else ()
    return tuple(resolve_reference(name, folder, root, f"{where}, key 'sidecar'") for name in names)


def load_case(path: Path) -> SnapshotCase:
    """Read a case file of the kind ``snapshot``.

    Raises
    ------
    MissingInputError, ConfigError : with the key, its place and the nearest known one; another kind of case.
    """
    case = load_any_case(path)
    if not isinstance(case, SnapshotCase):
        raise ConfigError(f"is a case of the kind '{case.kind}', and one world alone needs a 'snapshot'",
                          where=str(path), todo="Give a snapshot case, or list this one in a suite")
    return case
