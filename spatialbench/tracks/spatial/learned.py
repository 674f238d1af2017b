"""Metrics of one world that cannot be computed without a learned scorer.

Each says which it lacks; none ever gives a number here. Those of an edit and an expansion are in ``editing`` and
``expansion``.
"""

from __future__ import annotations

from collections.abc import Callable

from spatialbench.metrics.harmonic import usable_recall
from spatialbench.observe import Observations, Outcome, inapplicable, unavailable
from spatialbench.scorers import scorer
from spatialbench.tracks.spatial.gating import invalidated
from spatialbench.tracks.spatial.inventory import spatial_metric
from spatialbench.types import SnapshotCase

__all__: list[str] = []

# metric: scorers it needs, and what the case must give for it to apply
_OF_A_WORLD: dict[str, tuple[tuple[str, ...], str]] = {
    "M01": (("topiq_nr",), ""),
    "M02": (("laion_aes",), ""),
    "M03": (("pi",), ""),
    "M04": (("q_align",), ""),
    "M05": (("hpsv3",), "text"),
    "M06": (("vlm_judge",), ""),
    "M09": (("clip",), "text"),
    "M10": (("clip",), "image"),
    "M11": (("sam3",), "categories"),
    "M15": (("hpsv3",), "text"),
    "M16": (("sam3",), "objects"),
    "M17": (("sam3", "hpsv3"), "objects"),
    "M18": (("sam3", "hpsv3"), "objects"),
    "M19": (("sam3", "tapip3d"), "objects"),
    "M20": (("sam3", "tapip3d"), "objects"),
    "M21": (("vlm_judge",), "objects"),
    "M22": (("vlm_judge",), "objects"),
    "M23": (("vlm_judge",), "objects"),
    "M24": (("vlm_judge",), "objects"),
}

_NEEDS = {"text": "the case gives no scene description ('text')",
          "image": "the case gives no input image ('image')",
          "categories": "the case requests no object categories ('categories')",
          "objects": "the case annotates no objects ('objects')"}


def lacking(ids: tuple[str, ...]) -> str:
    """Why a metric that needs these scorers is unavailable; empty when all are usable."""
    return "; ".join(f"needs {s.model}: {s.reason}" for s in map(scorer, ids) if not s.usable)


def _of_a_world(scorers: tuple[str, ...], need: str) -> Callable[[Observations], Outcome]:
    def compute(obs: Observations) -> Outcome:
        case = obs.context.case if isinstance(obs.context.case, SnapshotCase) else None
        if need and not (case and getattr(case, need)):
            return inapplicable(_NEEDS[need] if case else f"no case was given, and so no {need}")
        return unavailable(lacking(scorers))
    return compute


@spatial_metric("M39", observations=("spatial.locations",), scorers=("hpsv3",),
                reads=("sampler", "usability", "views", "scale"))
def place_hpsv3_f1(obs: Observations) -> Outcome:
    """M39: harmonic combination of inverse reward spread and place recall (needs HPSv3)."""
    gated = invalidated(obs, ("no_interior",))
    if gated:
        return gated
    usable = obs.get("spatial.locations").usable_slots
    return unavailable(lacking(("hpsv3",)), components={"r_usable": usable_recall(usable, len(usable))},
                       counts={"usable_locations": sum(usable), "slots": len(usable)})


for _id, (_scorers, _need) in _OF_A_WORLD.items():
    spatial_metric(_id, scorers=_scorers)(_of_a_world(_scorers, _need))
