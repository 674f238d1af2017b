"""The 39 metrics of the spatial track as the paper's inventory lists them (spec section 1.1), and ours beside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from spatialbench.observe import REGISTRY
from spatialbench.observe.registry import MetricFunction
from spatialbench.types import MetricSpec

__all__ = ["INVENTORY", "TRACK", "spatial_metric"]

TRACK = "happyworld.spatial"

_QUALITY = ("W1", "Observable Quality")
_PHYSICS = ("W2", "Physical Usability")
_PLACE = ("W3", "Scene/Place Consistency")
_OBJECT = ("W3", "Object Consistency")
_EDIT = ("W4", "Controlled Editing")
_EXPAND = ("W5", "Expansion and Preservation")

# id, name, title, higher is better, group, retained, scored on, range, unit, table column, equations
_ROWS = (
    ("M01", "topiq_nr", "Image quality (TOPIQ)", 1, _QUALITY, 1, "scene", "about [0,1]", "", "T8 TOPIQ", "31"),
    ("M02", "laion_aes", "Aesthetics (LAION)", 1, _QUALITY, 1, "scene", "nominal [1,10]", "", "T8 AES", "32"),
    ("M03", "pi", "Perceptual index", 0, _QUALITY, 1, "scene", "about [0,10+]", "", "T8 PI", "33-34"),
    ("M04", "q_align", "Image quality (Q-Align)", 1, _QUALITY, 1, "scene", "[1,5]", "", "T8 Q-Align", "35"),
    ("M05", "hpsv3", "Preference reward of origin views", 1, _QUALITY, 1, "scene", "unbounded", "reward",
     "T8 HPS", "36"),
    ("M06", "vlm_score", "Judged views", 1, _QUALITY, 1, "scene", "[0,1]", "", "T8 VLM", "37"),
    ("M07", "hole_rate", "Hole rate of origin views", 0, _QUALITY, 1, "scene", "[0,1]", "",
     "T8 Hole-free ratio", "38"),
    ("M08", "navigable_ratio", "Navigable ratio", 1, _PHYSICS, 1, "scene", "[0,inf)", "",
     "T9 Navigable ratio", "42"),
    ("M08c", "navigable_ratio_corrected", "Navigable ratio, facing and stray faces put right", 1, _PHYSICS, 0, "scene",
     "[0,inf)", "", "", "42), corrected (OPEN-27"),
    ("M09", "clip_t", "Text fidelity (CLIP)", 1, _QUALITY, 1, "scene", "[-1,1]", "", "T8 CLIP-T", "39"),
    ("M10", "clip_i", "Image fidelity (CLIP)", 1, _QUALITY, 1, "scene", "[-1,1]", "", "T8 CLIP-I", "40"),
    ("M11", "object_coverage", "Requested objects present", 1, _QUALITY, 1, "scene", "[0,1]", "",
     "T8 Object coverage", "41"),
    ("M12", "oob_ratio", "Out-of-bounds ratio of the action path", 0, _PLACE, 1, "scene", "[0,1]", "",
     "T10 In-bounds ratio", "44-45"),
    ("M13", "brightness_consistency", "Brightness consistency along the path", 1, _PLACE, 1, "scene",
     "[1/T,1]", "", "T10 Brightness consistency", "46-47"),
    ("M14", "color_temperature_constraint", "Hue consistency along the path", 1, _PLACE, 1, "scene",
     "[1/T,1]", "", "T10 Hue consistency", "48"),
    ("M15", "place_hpsv3_std", "Reward spread over locations", 0, _PLACE, 0, "scene", "[0,inf)", "reward",
     "", "49"),
    ("M16", "obj_sam_recall", "Object seen in its orbit", 1, _OBJECT, 0, "object", "[0,1]", "", "", "53"),
    ("M17", "obj_hpsv3_std", "Reward spread over an object's views", 0, _OBJECT, 0, "object", "[0,inf)",
     "reward", "", "54"),
    ("M18", "obj_hpsv3_f1", "Object reward F1", 1, _OBJECT, 1, "object", "[0,1]", "", "T10 HPS F1", "55"),
    ("M19", "obj_track_accuracy", "Object point tracks that close", 1, _OBJECT, 0, "object", "[0,1]", "",
     "", "56"),
    ("M20", "obj_track_f1", "Object track F1", 1, _OBJECT, 1, "object", "[0,1]", "", "T10 Track F1", "57"),
    ("M21", "obj_vlm_recall", "Object views accepted by the judge", 1, _OBJECT, 0, "object", "[0,1]", "",
     "", "58"),
    ("M22", "obj_vlm_artifact_free", "Object views free of artifacts", 1, _OBJECT, 0, "object", "[0,1]", "",
     "", "59"),
    ("M23", "obj_vlm_completeness", "Object views without missing parts", 1, _OBJECT, 0, "object", "[0,1]",
     "", "", "60"),
    ("M24", "obj_vlm_f1", "Object judge F1", 1, _OBJECT, 1, "object", "[0,1]", "", "T10 VLM F1", "61"),
    ("M25", "tabletop_ready_rate", "Plates that stay on the support", 1, _PHYSICS, 1, "support", "[0,1]", "",
     "T9 Placement rate", "43"),
    ("M26", "expand_area_ratio", "Footprint growth", 1, _EXPAND, 1, "expansion", "[0,inf)", "",
     "T12 Area score", "72"),
    ("M27", "junction_coverage_gain", "Holes closed at the new place", 1, _EXPAND, 1, "expansion", "[-1,1]",
     "", "T12 Junction score", "73"),
    ("M28", "new_region_hpsv3", "Reward of the new region", 1, _EXPAND, 1, "expansion", "unbounded",
     "reward", "T12 New-region quality", "74"),
    ("M29", "old_region_hpsv3_delta", "Reward change of the old region", 1, _EXPAND, 1, "expansion",
     "unbounded", "reward", "T12 Old-region preservation", "75"),
    ("M30", "connect_hpsv3_delta", "Reward change on the way", 1, _EXPAND, 1, "expansion", "unbounded",
     "reward", "T12 Path preservation", "76"),
    ("M31", "edit_execution", "Edit carried out", 1, _EDIT, 1, "edit", "{0,1}", "", "T11 Succ. rate", "62"),
    ("M32", "rgb_psnr_bg", "Background PSNR", 1, _EDIT, 1, "object edit", "[0,120]", "dB",
     "T11 BG RGB retention", "63-65"),
    ("M33", "lpips_bg", "Background LPIPS", 0, _EDIT, 1, "object edit", "[0,inf)", "",
     "T11 BG LPIPS similarity", "66"),
    ("M34", "dinov2_bg_distance", "Background DINO distance", 0, _EDIT, 1, "object edit", "[0,2]", "",
     "T11 BG DINO similarity", "67"),
    ("M35", "depth_agree_ratio", "Depth agreement", 1, _EDIT, 1, "global edit", "[0,1]", "",
     "T11 Depth agreement", "68-69"),
    ("M36", "edit_score_object", "Object edit score", 1, _EDIT, 1, "object edit", "(-inf,1]", "",
     "T11 Object score", "70"),
    ("M37", "edit_score_global", "Global edit score", 1, _EDIT, 1, "global edit", "[0,1]", "",
     "T11 Global score", "71"),
    ("M38", "place_recall", "Usable and scored locations", 1, _PLACE, 0, "scene", "[0,1]", "", "", "50-51"),
    ("M39", "place_hpsv3_f1", "Location reward F1", 1, _PLACE, 1, "scene", "[0,1]", "",
     "T10 Location HPS F1", "52"),
)

INVENTORY: dict[str, MetricSpec] = {
    id: MetricSpec(id=id, name=name, title=title, track=TRACK, level=group[0], group=group[1],
                   retained=bool(retained), scored_on=scored_on, range=range_, unit=unit,
                   higher_is_better=bool(up), table=table,
                   source=f"HappyWorld-Bench (arXiv 2609.24308v1), section 4, eq. ({equations})")
    for id, name, title, up, group, retained, scored_on, range_, unit, table, equations in _ROWS
}


def spatial_metric(id: str, *, version: int = 1, observations: tuple[str, ...] = (),
                   scorers: tuple[str, ...] = (), reads: tuple[str, ...] = (),
                   ) -> Callable[[MetricFunction], MetricFunction]:
    """Decorator: registers the function as one metric of the inventory."""
    spec = replace(INVENTORY[id], version=version, observations=observations, scorers=scorers, reads=reads)

    def register(function: MetricFunction) -> MetricFunction:
        REGISTRY.add_metric(spec, function)
        return function
    return register
