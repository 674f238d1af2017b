"""What a page is made from: plain records without logic, filled from a finished run.

Pictures are uint8 [H,W,3] sRGB. Lengths are metres, angles degrees, times seconds, in the world frame
(X right, Y forward, Z up). Nothing in here reads files, clocks or the machine, so that the same data always
gives the same page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.types.grid import PlanGrid
from spatialbench.types.measurement import Status

__all__ = ["CollisionCard", "DecisionRow", "GateRow", "GroupRow", "LocationDot", "MapData", "MetricRow", "ObjectCard",
           "ObjectView", "PathChart", "Picture", "ProbeRow", "ReportData", "SupportShape", "TrialRow"]

Picture = NDArray[np.uint8]


@dataclass(eq=False)
class GroupRow:
    """Score of one level.

    Attributes
    ----------
    level, name : ``W2``, ``Interactive Simulation``.
    score : 0 to 100, or None when no retained metric of the level was measured.
    n, m : retained metrics that entered the score, and retained metrics that the level has.
    missing : ids of the retained metrics that did not enter it.
    note : in words, if there is something to say.
    """

    level: str
    name: str
    score: float | None
    n: int
    m: int
    missing: Sequence[str] = ()
    note: str = ""


@dataclass(eq=False)
class MetricRow:
    """One metric's outcome for the case.

    Attributes
    ----------
    id, name, title : ``M08``, ``navigable_ratio``, ``Navigable ratio``.
    level : as in ``GroupRow.level``.
    retained : enters the level's score.
    raw : value in the metric's own unit and direction; None unless ``status`` is measured.
    unit : of the raw value, empty for a ratio.
    normalised : 0 to 1 (higher is better), or None.
    reason : why there is no value, or which rule gave a zero.
    flags, components, counts : as in ``Measurement``.
    why : one sentence for the list of lowest metrics; a fallback is made when empty.
    score_name : name of the normalised value where the title names the raw one (``In-bounds ratio``).
    geometry : what was measured, as in ``Measurement``; empty where nothing was.
    """

    id: str
    name: str
    title: str
    level: str
    retained: bool
    raw: float | None
    unit: str
    higher_is_better: bool
    normalised: float | None
    status: Status
    reason: str = ""
    flags: Sequence[str] = ()
    components: dict[str, Any] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    why: str = ""
    score_name: str = ""
    geometry: str = ""

    def __post_init__(self) -> None:
        self.status = Status(self.status)


@dataclass(eq=False)
class LocationDot:
    """A place that the eight-location sampler probed; ``slot`` is its number among the accepted, or None."""

    x: float
    y: float
    accepted: bool
    cause: str = ""
    slot: int | None = None


@dataclass(eq=False)
class SupportShape:
    """Outline [N,2] of a support surface; ``chosen`` is the one that the plates were put on."""

    id: str
    outline: NDArray[np.float64]
    chosen: bool = False


@dataclass(eq=False)
class MapData:
    """Everything that the top-down map shows.

    Attributes
    ----------
    footprint : cells that geometry covers.
    nav_labels : [NX,NY] integers in the extent of ``footprint``: 0 not walkable, 1 the largest component,
        2 and more the others; or None when no navigation mesh was built.
    path : [T,2] positions; ``path_oob`` [T] which of them are out of bounds.
    trials : (x, y, success) of every plate.
    trial_ids : their numbers; counted from 0 when empty.
    camera : XY of the initial camera, which looks along +Y.
    """

    footprint: PlanGrid
    nav_labels: NDArray[np.integer[Any]] | None = None
    path: NDArray[np.float64] | None = None
    path_oob: NDArray[np.bool_] | None = None
    locations: Sequence[LocationDot] = ()
    supports: Sequence[SupportShape] = ()
    trials: Sequence[tuple[float, float, bool]] = ()
    trial_ids: Sequence[int] = ()
    camera: tuple[float, float] = (0.0, 0.0)
    notes: Sequence[str] = ()


@dataclass(eq=False)
class TrialRow:
    """One plate (M25).

    Attributes
    ----------
    reasons : why it failed, as in ``TrialResult.reasons``.
    drop, displacement, penetration : m; ``tilt_deg`` at the end.
    other_references : reference height → whether the trial succeeds above that one (OPEN-11g).
    release_picture, rest_picture : at the start and at the end, or None.
    """

    id: int
    success: bool
    reasons: Sequence[str]
    drop: float | None
    tilt_deg: float | None
    displacement: float | None
    penetration: float | None
    other_references: dict[str, bool] = field(default_factory=dict)
    release_picture: Picture | None = None
    rest_picture: Picture | None = None
    note: str = ""


@dataclass(eq=False)
class ProbeRow:
    """Six cube faces at one path sample: front, right, back, left, up, down.

    ``hole_rate`` is over the six faces there, ``reference_hole_rate`` the one at the initial camera.
    """

    title: str
    cause: str
    step: int
    time_s: float
    position: Sequence[float]
    faces: Sequence[Picture]
    hole_rate: float | None
    reference_hole_rate: float | None


@dataclass(eq=False)
class PathChart:
    """Per path sample: ``times`` s, ``hole_rate`` [0,1] against ``threshold``, share of close pixels, whether
    it is out of bounds, and the scores in [0,1] that enter M13 (``brightness``) and M14 (``hue``);
    ``rule`` says in words when a
    sample is out of bounds."""

    times: Sequence[float]
    hole_rate: Sequence[float]
    threshold: float | None
    close_share: Sequence[float] | None = None
    oob: Sequence[bool] = ()
    brightness: Sequence[float] | None = None
    hue: Sequence[float] | None = None
    rule: str = ""


@dataclass(eq=False)
class CollisionCard:
    """A collision mesh that was fused: views (name, what is seen, the mesh), and facts about it in words."""

    views: Sequence[tuple[str, Picture, Picture]]
    facts: Sequence[tuple[str, str]]


@dataclass(eq=False)
class ObjectView:
    """One orbit view of an object: its name, the picture with the detected mask outlined, and what was said of it.

    ``state``: ``good`` (detected, or valid where it was judged), ``bad``, or empty where nobody said anything.
    """

    name: str
    picture: Picture
    notes: Sequence[str] = ()
    state: str = ""


@dataclass(eq=False)
class ObjectCard:
    """One annotated object: id, its text, scores as (metric, value in words), facts, orbit views, and a note where
    there are none."""

    id: str
    text: str
    scores: Sequence[tuple[str, str]] = ()
    facts: Sequence[tuple[str, str]] = ()
    views: Sequence[ObjectView] = ()
    note: str = ""


@dataclass(eq=False)
class DecisionRow:
    """A choice about the frame, with its source and confidence (0 to 1)."""

    name: str
    value: Any
    source: str
    confidence: float
    note: str = ""


@dataclass(eq=False)
class GateRow:
    """A check of whether the world can be judged as an interior, as in ``Gate``."""

    name: str
    raised: bool
    value: float | None
    threshold: float
    note: str = ""


@dataclass(eq=False)
class ReportData:
    """One page. Every part may be empty; the page then says so.

    Attributes
    ----------
    preview_note : printed beside the fixed words that this is no benchmark result.
    panorama : frames of the origin ring with their yaws (degrees, clockwise from +Y) and, if known, the
        pixels [H,W] without anything behind them.
    panorama_fov_deg : across the width of a frame.
    repairs : name, count, note. ``inputs`` : name, bytes, sha256. ``machine`` : key, value.
    backends : what for, name and version.
    scorers : learned scorers and the judge that were used: id, and with what.
    """

    title: str
    world_name: str
    system: str = ""
    case_id: str = ""
    protocol_id: str = ""
    protocol_hash: str = ""
    protocol_fast: bool = False
    version: str = ""
    created: str = ""
    preview_note: str = ""
    headline: Sequence[GroupRow] = ()
    metrics: Sequence[MetricRow] = ()
    panorama: Sequence[Picture] = ()
    panorama_yaws: Sequence[float] = ()
    hole_masks: Sequence[NDArray[np.bool_]] | None = None
    panorama_fov_deg: float = 75.0
    map: MapData | None = None
    collision: CollisionCard | None = None
    trials: Sequence[TrialRow] = ()
    trials_note: str = ""
    support_note: str = ""
    probes: Sequence[ProbeRow] = ()
    path_chart: PathChart | None = None
    objects: Sequence[ObjectCard] = ()
    decisions: Sequence[DecisionRow] = ()
    gates: Sequence[GateRow] = ()
    repairs: Sequence[tuple[str, int, str]] = ()
    warnings: Sequence[str] = ()
    inputs: Sequence[tuple[str, int, str]] = ()
    machine: Sequence[tuple[str, str]] = ()
    backends: Sequence[tuple[str, str]] = ()
    scorers: Sequence[tuple[str, str]] = ()
