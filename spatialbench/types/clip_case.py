"""Cases for clips: the video and the embodied track (happyworld-video section 1, happyworld-embodied section 1)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from spatialbench.types.case_parts import Id, RelativePath, Strict, listed_once

__all__ = ["Assertion", "Checklists", "EmbodiedCase", "Event", "Segment", "VideoCase"]

Seconds = Annotated[float, Field(ge=0, le=86_400, description="seconds")]
Length = Annotated[float, Field(gt=0, le=86_400, description="seconds")]
_MOVES = ("W", "A", "S", "D", "WA", "WD", "SA", "SD")


class Segment(Strict):
    """A control held for some time. Segments may overlap; gaps are no input."""

    t: Seconds
    """Start."""
    dt: Length
    """How long it is held."""
    move: Literal["W", "A", "S", "D", "WA", "WD", "SA", "SD"] | None = None
    """Forward, left, backward, right, and diagonals."""
    rotate: Literal["Mouse_Up", "Mouse_Down", "Mouse_Left", "Mouse_Right"] | None = None
    """Turn of the view."""
    subject: str | None = None
    """Who is addressed, where several subjects share a scene (W5)."""

    @field_validator("move", mode="before")
    @classmethod
    def _either_order(cls, value: object) -> object:
        turned = value[::-1] if isinstance(value, str) else value
        return turned if turned in _MOVES and value not in _MOVES else value

    @model_validator(mode="after")
    def _does_something(self) -> Segment:
        if self.move is None and self.rotate is None:
            raise ValueError("a segment needs 'move' or 'rotate'")
        return self


class Event(Strict):
    """An instruction in words, or a stage of an action, with its time."""

    t: Seconds
    """Start."""
    dt: Length
    """How long it takes."""
    text: str
    """What is to happen."""


class ChecklistItem(Strict):
    """One thing a judge is asked."""

    id: str
    """Its name within the checklist."""
    text: str
    """A statement that can be seen to hold or not."""


class FollowItem(ChecklistItem):
    """An item of IF; at W4 all are rated 0, 0.5 or 1 and ``rating`` is left out."""

    rating: Literal["binary", "five"] = "binary"
    """``five`` for a scale of 1 to 5 (style and the like)."""


class ActionItem(ChecklistItem):
    """An item of AE."""

    segment: int | None = Field(None, ge=0)
    """Which of ``segments`` it completes, from 0; the whole clip when left out."""


class StateItem(ChecklistItem):
    """An item of SF."""

    part: Literal["achievement", "persistence", "preservation"]
    """Of which subclass it is."""


class Checklists(Strict):
    """What the judged metrics of the video track ask; an empty list makes a metric inapplicable."""

    IF: tuple[FollowItem, ...] = ()
    """Instruction following."""
    PC: tuple[ChecklistItem, ...] = ()
    """Physical causality (W2 to W4)."""
    CC: tuple[ChecklistItem, ...] = ()
    """Content causality (W2 to W4)."""
    IP: tuple[ChecklistItem, ...] = ()
    """Interpenetration (W2 to W4)."""
    AE: tuple[ActionItem, ...] = ()
    """Action execution (W2, W3)."""
    IV: tuple[ChecklistItem, ...] = ()
    """Interaction validity: the case's red lines (W4)."""
    SF: tuple[StateItem, ...] = ()
    """State fidelity (W4)."""

    @model_validator(mode="after")
    def _once(self) -> Checklists:
        for name in type(self).model_fields:
            listed_once(name, [item.id for item in getattr(self, name)])
        return self


_CHECKED_AT = {"PC": ("W2", "W3", "W4"), "CC": ("W2", "W3", "W4"), "IP": ("W2", "W3", "W4"), "AE": ("W2", "W3"),
               "IV": ("W4",), "SF": ("W4",)}


class VideoCase(Strict):
    """One clip of the video track and the controls it was asked to follow."""

    kind: Literal["video"] = "video"
    """Says which keys there are."""
    id: Id
    """Names the case in results and output paths."""
    level: Literal["W1", "W2", "W3", "W4", "W5"]
    """W1 has no controls, W2 and W3 have segments, W4 has events too, W5 addresses subjects."""
    view: Literal["first", "third"]
    """Person that the clip is seen by."""
    text: str | None = None
    """Description of the scene."""
    image: RelativePath | None = None
    """First frame, relative to the case file."""
    subject_text: str | None = None
    """Description of the subject."""
    subject_prompt: str | None = None
    """What the subject (first person: the hands) is segmented by; without it SuC is inapplicable."""
    seconds: Length | None = None
    """Length that was asked for, where the controls do not say."""
    segments: tuple[Segment, ...] = ()
    """Controls over time."""
    events: tuple[Event, ...] = ()
    """Instructions in words over time."""
    checklists: Checklists = Checklists()
    """What a judge is asked."""
    tags: dict[str, str] = Field(default_factory=dict)
    """Free labels to group results by: capability, facet, domain, image_source..."""

    @property
    def horizon(self) -> float | None:
        """Seconds that the clip was asked to last; None when nobody says."""
        return self.seconds if self.seconds is not None else max(self._ends(), default=None)

    def _ends(self) -> list[float]:
        return [s.t + s.dt for s in self.segments] + [e.t + e.dt for e in self.events]

    @model_validator(mode="after")
    def _fits_its_level(self) -> VideoCase:
        level = self.level
        if level == "W1" and self.segments:
            raise ValueError("a case of W1 has no controls, and so no 'segments'")
        if level in ("W2", "W3") and not self.segments:
            raise ValueError(f"a case of {level} needs 'segments'")
        if level in ("W1", "W2", "W3") and self.events:
            raise ValueError(f"a case of {level} has no 'events'; they begin at W4")
        if level == "W4" and not self.events:
            raise ValueError("a case of W4 needs 'events'")
        if level == "W5" and not (self.segments or self.events):
            raise ValueError("a case of W5 needs 'segments' or 'events'")
        if self.seconds is not None and any(end > self.seconds for end in self._ends()):
            raise ValueError("'seconds' ends before the last of the controls")
        for name, levels in _CHECKED_AT.items():
            if getattr(self.checklists, name) and level not in (*levels, "W5"):
                raise ValueError(f"the checklist {name} is asked at {', '.join(levels)} only, not at {level}")
        if level == "W4" and any(item.rating != "binary" for item in self.checklists.IF):
            raise ValueError("at W4 all items of IF are rated 0, 0.5 or 1: leave out 'rating'")
        for item in self.checklists.AE:
            if item.segment is not None and item.segment >= len(self.segments):
                raise ValueError(f"item '{item.id}' of AE names segment {item.segment} of {len(self.segments)}, "
                                 "counted from 0")
        return self


class Assertion(Strict):
    """One statement a judge is asked about an embodied rollout (happyworld-embodied section 2.1)."""

    id: str
    """Its name within the case."""
    metric: Literal["SF", "SuF", "SSC", "PP", "TCO", "CTV", "GSA", "AAC", "FIS", "MAO"]
    """Which metric it counts for."""
    text: str
    """A statement that can be seen to hold or not."""
    weight: Literal[1, 2, 3] = 1
    """Importance."""
    part: Literal["scene", "state"] | None = None
    """For SSC: whether it is about the environment or about the robot and the objects."""

    @model_validator(mode="after")
    def _part(self) -> Assertion:
        if (self.metric == "SSC") != (self.part is not None):
            raise ValueError("an assertion of SSC needs 'part', and no other has one")
        return self


_ACTION_CHANGES = ("target", "action", "direction", "displacement")


class Branch(Strict):
    """Which of two matched rollouts a case of W4 is."""

    group: Id
    """The same for both branches."""
    branch: Literal["a", "b"]
    """Which of the two."""
    changes: Literal["target", "action", "direction", "displacement", "gravity", "friction", "mass", "rigidity",
                     "collision"]
    """What differs between them: the first four are the action's conditions, the others physical rules."""
    condition: str
    """This branch's own action or rule, as it can be seen."""
    outcome: str
    """What it should lead to."""
    difference: str
    """How the two outcomes must differ; the same for both branches."""

    @property
    def condition_type(self) -> Literal["action", "physical_rule"]:
        """Which kind of pair it is."""
        return "action" if self.changes in _ACTION_CHANGES else "physical_rule"


class EmbodiedCase(Strict):
    """One rollout of the embodied track."""

    kind: Literal["embodied"] = "embodied"
    """Says which keys there are."""
    id: Id
    """Names the case in results and output paths."""
    level: Literal["W2", "W3", "W4"]
    """W2 one action (5 s), W3 several in order (12 s), W4 one branch of a matched pair (5 s)."""
    prompt: str = Field(min_length=1)
    """The full action condition the clip was generated from."""
    image: RelativePath | None = None
    """Reference image of the robot's head camera, relative to the case file."""
    environment_text: str | None = None
    """Description of the environment."""
    subject_text: str | None = None
    """Description of the robot."""
    subject_prompt: str | None = None
    """What the robot is tracked by (SAC)."""
    anchors: tuple[str, ...] = ()
    """What static things are segmented by (GC); none makes GC inapplicable."""
    touched: tuple[str, ...] = ()
    """What the action moves, and so is taken out of the anchors."""
    stages: tuple[Event, ...] = ()
    """The actions in order, with their times."""
    assertions: tuple[Assertion, ...] = ()
    """What a judge is asked."""
    pair: Branch | None = None
    """At W4 only: the group and branch."""
    tags: dict[str, str] = Field(default_factory=dict)
    """Free labels to group results by."""

    @model_validator(mode="after")
    def _fits_its_level(self) -> EmbodiedCase:
        if (self.level == "W4") != (self.pair is not None):
            raise ValueError("a case of W4 needs 'pair', and no other has one")
        listed_once("assertions", [a.id for a in self.assertions])
        for a in self.assertions:
            if (a.metric == "AAC" and self.level == "W4") or (a.metric == "MAO" and self.level != "W3"):
                raise ValueError(f"assertion '{a.id}': {a.metric} is not asked at {self.level}")
        return self
