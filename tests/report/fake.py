"""A page's data with made-up pictures and a small two-room flat, for tests and for looking at the page."""

from __future__ import annotations

import math

import numpy as np

from spatialbench.report.data import (
    DecisionRow,
    GateRow,
    GroupRow,
    LocationDot,
    MapData,
    MetricRow,
    PathChart,
    ProbeRow,
    ReportData,
    SupportShape,
    TrialRow,
)
from spatialbench.types import PlanGrid, Status

CELL = 0.05
INVENTORY = """M01 topiq_nr up W1 yes|M02 laion_aes up W1 yes|M03 pi down W1 yes|M04 q_align up W1 yes
M05 hpsv3 up W1 yes|M06 vlm_score up W1 yes|M07 hole_rate down W1 yes|M08 navigable_ratio up W2 yes
M09 clip_t up W1 yes|M10 clip_i up W1 yes|M11 object_coverage up W1 yes|M12 oob_ratio down W3 yes
M13 brightness_consistency up W3 yes|M14 color_temperature_constraint up W3 yes|M15 place_hpsv3_std down W3 no
M16 obj_sam_recall up W3 no|M17 obj_hpsv3_std down W3 no|M18 obj_hpsv3_f1 up W3 yes
M19 obj_track_accuracy up W3 no|M20 obj_track_f1 up W3 yes|M21 obj_vlm_recall up W3 no
M22 obj_vlm_artifact_free up W3 no|M23 obj_vlm_completeness up W3 no|M24 obj_vlm_f1 up W3 yes
M25 tabletop_ready_rate up W2 yes|M26 expand_area_ratio up W5 yes|M27 junction_coverage_gain up W5 yes
M28 new_region_hpsv3 up W5 yes|M29 old_region_hpsv3_delta up W5 yes|M30 connect_hpsv3_delta up W5 yes
M31 edit_execution up W4 yes|M32 rgb_psnr_bg up W4 yes|M33 lpips_bg down W4 yes|M34 dinov2_bg_distance down W4 yes
M35 depth_agree_ratio up W4 yes|M36 edit_score_object up W4 yes|M37 edit_score_global up W4 yes
M38 place_recall up W3 no|M39 place_hpsv3_f1 up W3 yes"""
MEASURED = {"M07": (0.1075, 0.8925), "M08": (0.4391, 0.4391), "M12": (8 / 65, 57 / 65), "M13": (0.7312, 0.7312),
            "M14": (0.6149, 0.6149), "M25": (4 / 6, 4 / 6)}
HEADLINE = (("W1", "Generative Construction", 89.25, 1, 10), ("W2", "Interactive Simulation", 55.29, 2, 2),
            ("W3", "State Persistence", 74.10, 3, 7), ("W4", "Programmable Dynamics", None, 0, 7),
            ("W5", "Scalable Shared World", None, 0, 5))


def view(yaw: float, size: int = 160, pitch: float = 0.0, fov: float = 75.0) -> np.ndarray:
    """What a camera in the middle of a 4 x 4 x 2.6 m room with a window and stripes on its floor sees."""
    f = size / 2 / math.tan(math.radians(fov) / 2)
    u = (np.arange(size) + 0.5 - size / 2) / f
    cx, cz = np.meshgrid(u, -u)
    p, y = math.radians(pitch), math.radians(yaw)
    fy, fz = math.cos(p) - cz * math.sin(p), math.sin(p) + cz * math.cos(p)
    d = np.stack([cx * math.cos(y) + fy * math.sin(y), -cx * math.sin(y) + fy * math.cos(y), fz], axis=-1)
    with np.errstate(divide="ignore"):
        t = np.stack([2 / np.abs(d[..., 0]), 2 / np.abs(d[..., 1]),
                      np.where(d[..., 2] < 0, 1.6, 1.0) / np.abs(d[..., 2])])
    hit, far = t.argmin(axis=0), t.min(axis=0)
    at = d * far[..., None]
    floor, ceiling = (hit == 2) & (d[..., 2] < 0), (hit == 2) & (d[..., 2] > 0)
    rgb = np.where((hit == 0)[..., None], [196, 186, 168], [176, 182, 190]).astype(float)
    rgb[floor] = np.where((np.floor(at[..., 0] * 4) % 2 == 0)[floor, None], [150, 112, 76], [132, 96, 64])
    rgb[ceiling] = [228, 226, 220]
    window = (hit == 1) & (at[..., 1] > 0) & (np.abs(at[..., 0]) < 0.8) & (np.abs(at[..., 2]) < 0.6)
    rgb[window] = [150, 196, 232]
    rgb *= (1.12 - 0.08 * far)[..., None]
    return np.clip(rgb, 0, 255).astype(np.uint8)


def holes(yaw: float, size: int = 80) -> np.ndarray:
    """A ragged hole that is seen to the right."""
    u = (np.arange(size) + 0.5) / size * 75 - 37.5 + (yaw + 180) % 360 - 180
    v = np.linspace(-1, 1, size)[:, None]
    return ((u[None] - 110) / 42) ** 2 + ((v - 0.1) / (0.6 + 0.1 * np.sin(u[None] / 3))) ** 2 < 1


def plate(rest: bool, ok: bool, width: int = 320, height: int = 240) -> np.ndarray:
    """A disc over a table edge."""
    img = np.full((height, width, 3), (206, 204, 198), np.uint8)
    img[150:170, 40:240] = (120, 88, 60)
    img[170:230, 54:62] = img[170:230, 218:226] = (96, 70, 48)
    y, x = np.mgrid[:height, :width]
    cx, cy, slope = (140, 136 if not rest else 146, 0.0) if ok or not rest else (272, 212, 0.6)
    img[(np.abs(x - cx) < 38) & (np.abs(y - cy - slope * (x - cx) * 0.5) < 5)] = (236, 238, 240)
    return img


def flat() -> tuple[PlanGrid, np.ndarray]:
    """Footprint of two rooms with a corridor, and its walkable components."""
    mask, labels = np.zeros((192, 150), bool), np.zeros((192, 150), np.int32)
    mask[6:100, 8:110], mask[100:184, 30:92], mask[120:184, 92:140] = True, True, True
    labels[10:96, 12:106] = 1
    labels[40:60, 60:80] = 0
    labels[106:180, 34:88] = 2
    labels[124:180, 96:136] = 3
    labels[150:156, 100:108] = 0
    return PlanGrid(mask, -60, -50, CELL), labels


def make_map() -> MapData:
    footprint, labels = flat()
    legs = [((0, 0), (0, 2), 8), ((0, 2), (0, -2), 16), ((0, -2), (0, 0), 8), ((0, 0), (-2, 0), 8),
            ((-2, 0), (2, 0), 16), ((2, 0), (0, 0), 8)]
    path = [np.array([0.0, 0.0])]
    for a, b, n in legs:
        path += [np.array(a) + (np.array(b) - a) * (k + 1) / n for k in range(n)]
    oob = np.zeros(len(path), bool)
    oob[[7, 8, 9, 46, 47, 48, 49, 50]] = True
    spots = [(0.0, 2.6, False, "outside_footprint", None), (0, -2.1, True, "", 0), (2.55, 0, False, "not_free", None),
             (1.8, 1.8, True, "", 1), (0, 1.7, True, "", 2), (0, -1.7, True, "", 3), (1.1, 0.2, True, "", 4),
             (-1.1, 0, False, "outside_footprint", None), (0.4, 0.36, True, "", 6)]
    outline = np.array([[-1.0, 0.5], [0.0, 0.5], [0.0, 1.5], [-1.0, 1.5]])
    return MapData(footprint=footprint, nav_labels=labels, path=np.array(path), path_oob=oob,
                   locations=[LocationDot(*s) for s in spots],
                   supports=[SupportShape("support_0", outline, True),
                             SupportShape("support_1", outline * 0.5 + [4, 0.5], False)],
                   trials=[(-0.8, 0.7, True), (-0.2, 0.7, True), (-0.8, 1.3, True), (-0.2, 1.3, True),
                           (-0.5, 1.0, False), (-0.05, 1.0, False)],
                   trial_ids=[0, 1, 2, 3, 4, 5], notes=["Walkable areas were built with 0.05 m voxels."])


def make_metrics() -> list[MetricRow]:
    rows = []
    for line in INVENTORY.replace("\n", "|").split("|"):
        mid, name, direction, level, retained = line.split()
        raw, z = MEASURED.get(mid, (None, None))
        status, reason = Status.MEASURED, ""
        if raw is None:
            status, reason = Status.UNAVAILABLE, f"the scorer of {name} is not installed"
            if level in ("W4", "W5"):
                status, reason = Status.UNTESTED, "needs a second world"
            elif mid in ("M10", "M11"):
                status, reason = Status.INAPPLICABLE, "the case names no input image or categories"
            elif mid == "M38":
                status, reason = Status.INVALID, "no location could be judged"
            elif mid == "M31":
                status, reason = Status.UNSUPPORTED, "the system edits nothing"
        rows.append(MetricRow(mid, name, name.replace("_", " ").capitalize(), level, retained == "yes", raw, "",
                              direction == "up", z, status, reason,
                              ("facing_disagrees",) if mid == "M08" else (),
                              {"largest_area_m2": 22.48, "voxel": [0.05], "settings": {"agent_radius": 0.1}}
                              if mid == "M08" else {}, {"frames": 65} if mid == "M12" else {},
                              score_name={"M07": "Hole-free ratio", "M12": "In-bounds ratio"}.get(mid, "")))
    return rows


def make_chart(oob: np.ndarray) -> PathChart:
    t = np.arange(65) / 4
    hole = 0.06 + 0.03 * np.sin(t) + np.where(oob, 0.22, 0.0)
    close = np.clip(0.05 + 0.25 * np.sin(t / 2 - 1), 0, 1)
    bright = np.clip(1 - 0.5 * np.abs(np.sin(t / 3.1)), 0, 1)
    hue = np.clip(1 - 0.7 * np.abs(np.sin(t / 2.2)) ** 2, 0, 1)
    return PathChart(t.tolist(), hole.tolist(), 0.16, close.tolist(), oob.tolist(), bright.tolist(), hue.tolist())


def make_report(**changes: object) -> ReportData:
    """Everything filled; ``changes`` replace fields."""
    plan = make_map()
    faces = [view(y, 128, p, 90) for y, p in ((0, 0), (90, 0), (180, 0), (270, 0), (0, 90), (0, -90))]
    yaws = [10.0 * i for i in range(36)]
    metrics = make_metrics()
    trials = [TrialRow(i, i < 4, () if i < 4 else (("dropped", "outside") if i == 4 else ("initial_penetration",)),
                       0.0004 if i < 4 else 0.741, 0.3 if i < 4 else 88.26, 0.0011 if i < 4 else 0.31,
                       0.0 if i < 5 else 0.0043, {"plane": i < 3, "footprint_max": True},
                       plate(False, i < 4), plate(True, i < 4)) for i in range(6)]
    values: dict[str, object] = {
        "title": "two-rooms.glb: does this world hold up?", "world_name": "two-rooms.glb", "system": "made-up",
        "case_id": "two-rooms", "protocol_id": "happyworld-spatial-1", "protocol_hash": "0123456789abcdef" * 4,
        "protocol_fast": True, "version": "0.1.0", "created": "2026-01-02 03:04 UTC",
        "preview_note": "No case was given: what the world was asked to be is not known.",
        "headline": [GroupRow(lv, name, s, n, m, [r.id for r in metrics if r.level == lv and r.retained
                                                  and r.raw is None]) for lv, name, s, n, m in HEADLINE],
        "metrics": metrics, "panorama": [view(y) for y in yaws], "panorama_yaws": yaws,
        "hole_masks": [holes(y) for y in yaws], "map": plan, "trials": trials,
        "trials_note": "6 of 6 places were tried. Released 1 cm above the median surface height under it.",
        "support_note": "support_0 (found, the largest of 2): 1.00 m², 0.74 m above the floor.",
        "probes": [ProbeRow("Step 7", "outside_footprint", 7, 1.75, (0.0, 1.75, 0.0), faces, 0.31, 0.06),
                   ProbeRow("Step 46", "not_free", 46, 11.5, (1.5, 0.0, 0.0), faces[::-1], 0.24, 0.06)],
        "path_chart": make_chart(plan.path_oob),
        "decisions": [DecisionRow("up", "+Y", "prior", 0.8, "glTF is Y-up"),
                      DecisionRow("unit", 1.0, "file", 1.0, ""),
                      DecisionRow("camera", [0.0, 1.6, 0.0], "found", 0.62, "enclosed spot with the widest view"),
                      DecisionRow("scale", {"branch": "floor", "factor": 0.9821}, "rule", 1.0, "9 of 9 rays hit")],
        "gates": [GateRow("no_interior", False, 0.83, 0.35, ""),
                  GateRow("scale_doubtful", True, 3.4, 3.0, "1.6 m above the floor would make the room 9 m high")],
        "repairs": [("faces_degenerate", 12, "removed"), ("vertices_unreferenced", 431, "")],
        "warnings": ["The up axis that was estimated (+Z) disagrees with the format's."],
        "inputs": [("two-rooms.glb", 1_482_337, "ab" * 32)],
        "machine": [("CPU", "2 cores"), ("Python", "3.11.7")],
        "backends": [("rendering", "embree 4.4.0"), ("navmesh", "recast 0.43.1"), ("placement", "pybullet 3.2.7")],
    }
    values.update(changes)
    return ReportData(**values)  # type: ignore[arg-type]
