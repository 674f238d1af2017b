"""Published summary columns from published detail columns, by the packaged plans.

Every printed number is off by at most half a unit of its last digit, and so is any mean of such numbers; a printed
summary adds its own half unit. The tolerances below are these sums and nothing more. What cannot be had from the
papers' own columns is listed in the test that comes nearest to it.
"""

import csv
from decimal import Decimal
from fractions import Fraction

import pytest

from spatialbench.aggregate import (
    exact_mean,
    group_score,
    half_up,
    load_aggregation,
    scores_from_columns,
    weighted_mean,
)
from spatialbench.tracks.spatial.inventory import INVENTORY

SPATIAL = {"W1": 8, "W2": 9, "W3": 10, "W4": 11, "W5": 12}
WBENCH = {
    "Aesthetic Quality": "aesthetic", "Imaging Quality": "imaging", "Background Consistency": "background",
    "Temporal Flickering": "flickering", "Dynamic Degree": "dynamic_degree", "Motion Smoothness": "smoothness",
    "HPSv3 Quality": "hpsv3", "Scene Adherence": "scene", "Subject Adherence": "subject_adherence",
    "Navigation Trajectory": "navscore", "Event Edit Adherence": "event", "Subject Action Adherence": "subject_action",
    "Perspective Switch Adherence": "perspective_switch", "Spatial Consistency": "spatial",
    "Gated Spatial Consistency": "gated_spatial", "Perspective Consistency": "perspective",
    "Segment Continuity": "segment", "Geometric Consistency": "geometric", "Photometric Consistency": "photometric",
    "Subject Consistency Cross-Model": "subject_consistency", "Visual Plausibility": "visual_plausibility",
    "Causal Fidelity": "causal_fidelity", "Physical Plausibility": "visual_plausibility",
    "Physics Fidelity": "causal_fidelity",
}
TEXT = ("paradigm", "model", "dimension")


def read(path, key="model"):
    """model -> column -> printed number; None for a dash."""
    with path.open(newline="") as fh:
        rows = list(csv.DictReader(fh))
    return {r.pop(key): {k: Decimal(v) if v else None for k, v in r.items() if k not in TEXT} for r in rows}


def rows_of(path):
    with path.open(newline="") as fh:
        return list(csv.DictReader(fh))


def with_ids(rows, name):
    return {system: {name(k): v for k, v in row.items()} for system, row in rows.items()}


def test_spatial_table_7(published):
    plan = load_aggregation("happyworld-spatial-1")
    want = read(published / "table07.csv")
    seen = 0
    for name, number in SPATIAL.items():
        level = plan.level(name)
        rows = read(published / f"table{number:02d}.csv")
        ids = dict(zip(next(iter(rows.values())), level.metrics, strict=True))
        for system, g in scores_from_columns(with_ids(rows, ids.__getitem__), level).items():
            # Stronger than the 0.01 that rounding allows: to the printed digit.
            assert g.shown == str(want[system][name]), (system, name)
            seen += 1
    assert seen == 37
    assert plan.level("W6").metrics == ()


def test_the_spatial_plan_is_the_inventory_and_table_18(published):
    plan = load_aggregation("happyworld-spatial-1")
    kept = {}
    for spec in INVENTORY.values():
        if spec.retained:
            kept.setdefault(spec.level, []).append(spec.id)
    assert {x.level: sorted(x.metrics) for x in plan.plan if x.metrics} == {k: sorted(v) for k, v in kept.items()}
    levels = {}
    for row in rows_of(published / "table18.csv"):
        for id in row["metric_ids"].split(";"):
            levels[id] = row["level"]
    for level in plan.plan:
        assert {levels[id] for id in level.metrics} <= {level.level}


def test_embodied_table_14(published):
    """Two decimals on both sides: 0.005 + 0.005. Table 14 was made from unrounded values: Sora 2 at W2 (60.9155 from
    the columns, 60.91 printed) and Seedance 2.5 at W3 (86.7244, 86.73) are those not reproduced to the digit."""
    plan = load_aggregation("happyworld-embodied-1")
    want = read(published / "table14.csv")
    seen, off = 0, {}
    for name, number in (("W2", 15), ("W3", 16), ("W4", 17)):
        level = plan.level(name)
        rows = with_ids(read(published / f"table{number}.csv"), lambda c, at=name: f"embodied.{c.lower()}@{at}")
        assert {c for r in rows.values() for c in r} == set(level.metrics)
        for system, g in scores_from_columns(rows, level).items():
            assert g.score == pytest.approx(float(want[system][name]), abs=0.01)
            assert [d.weight for d in g.dimensions] == [0.2, 0.2, 0.3, 0.3]
            seen += 1
            if g.shown != str(want[system][name]):
                off[system, name] = g.shown
    assert seen == 24
    assert off == {("Sora 2", "W2"): "60.92", ("Seedance 2.5", "W3"): "86.72"}


def test_video_table_2(published):
    """The unweighted mean of dimension means gives all 44 printed levels; Table 3 has five more systems without one."""
    plan = load_aggregation("happyworld-video-1")
    want = read(published / "table02.csv")
    seen = 0
    for name, number in (("W1", 3), ("W2", 4), ("W3", 5), ("W4", 6)):
        level = plan.level(name)
        rows = with_ids(read(published / f"table{number:02d}.csv"), lambda c, at=name: f"video.{c.lower()}@{at}")
        assert {c for r in rows.values() for c in r} == set(level.metrics)
        for system, g in scores_from_columns(rows, level).items():
            if system in want:
                assert g.shown == str(want[system][name]), (system, name)
                seen += 1
    assert seen == 44


def test_omniworld_groups_and_agentic_score(published):
    """Groups: 0.005 + 0.005. AgenticScore is a convex combination of the same columns: 0.01 again. The paper prints
    neither set of weights; they were identified from this table, so the last column is a check of consistency."""
    plans = {True: load_aggregation("omniworld-camera-1"), False: load_aggregation("omniworld-noncamera-1")}
    seen = {True: 0, False: 0}
    for row in rows_of(published / "omniworld_results.csv"):
        camera = row["paradigm"] == "camera"
        values = {f"omniworld.{k}": Decimal(v) / 100 for k, v in row.items() if v and k not in TEXT}
        scores = {x.level: group_score(x, values) for x in plans[camera].plan}
        for level, column in (("A_I", "interaction_avg"), ("A_G", "quality_avg"), ("A_C", "controllability_avg"),
                              ("AgenticScore", "agentic_score")):
            assert scores[level].score == pytest.approx(float(row[column]), abs=0.01), (row["model"], level)
            assert scores[level].n_available == scores[level].n_retained
            seen[camera] += 1
        if not camera:  # the other group's rule does not fit
            flat = group_score(plans[True].level("AgenticScore"), values)
            assert abs(flat.score - float(row["agentic_score"])) > 0.5
    assert seen == {True: 28, False: 44}


@pytest.mark.parametrize(("split", "n"), [("navi", 31), ("full", 11)])
def test_wbench_boards(published, split, n):
    """Dimensions: 0.05 + 0.05 may be off, 0.05 holds. The average rounds the dimensions first: it is
    exact from printed ones."""
    plan = load_aggregation(f"wbench-{split}-1")
    want = read(published / f"leaderboard_{split}_{n}models_dimensions.csv", "Model")
    rows = with_ids(read(published / f"leaderboard_{split}_{n}models_submetrics.csv", "Model"),
                    lambda c: f"wbench.{WBENCH[c]}")
    assert set(rows) == set(want)
    assert len(rows) == n
    used = {m for level in plan.plan for m in level.metrics}
    for system, row in rows.items():
        assert used == set(row)
        for level in plan.plan[:5]:
            g = scores_from_columns({system: row}, level)[system]
            assert g.score == pytest.approx(float(want[system][level.level]), abs=0.05 + 1e-9), (system, level.level)
        # From the printed dimensions, by the rule of the file: one stand-in metric a dimension, same weights.
        average = plan.level("Average")
        printed = {m: want[system][d.name.capitalize()] / 100 for d in average.dimensions for m in d.metrics}
        g = group_score(average, printed)
        assert g.shown == str(want[system]["Average"]), system
        # From the sub-metrics: a dimension may round the other way, 0.1 in one is 0.02 in the mean.
        assert scores_from_columns({system: row}, average)[system].score == pytest.approx(
            float(want[system]["Average"]), abs=0.05 + 0.1)


@pytest.mark.parametrize(("split", "n"), [("navi", 20), ("full", 9)])
def test_wbench_paper_from_the_first_release(published, split, n):
    """The paper averaged columns rounded to one decimal: 0.05 for these and 0.05 for its own print."""
    plan = load_aggregation(f"wbench-{split}-1")
    want = read(published / f"leaderboard_paper_{split}_{n}models_dimensions.csv", "Model")
    rows = with_ids(read(published / f"leaderboard_{split}_{n}models_release.csv", "Model"),
                    lambda c: f"wbench.{WBENCH[c]}")
    seen = 0
    for system, row in rows.items():
        for level in plan.plan[:5]:
            name = {"navi": {"Interaction": "Navigation"}, "full": {}}[split].get(level.level, level.level)
            g = scores_from_columns({system: row}, level)[system]
            assert g.score == pytest.approx(float(want[system][name]), abs=0.1 + 1e-9), (system, name)
            seen += 1
    assert seen == 5 * n


def test_worldreason_score_pr(published):
    """From printed Acc (0.05) and s_dyn/Acc (0.005): 0.05 + 0.05 r^0.2 + 0.005 * 0.2 A r^-0.8, 0.09 to 0.13."""
    level = load_aggregation("worldreason-1").level("ScorePR")
    rows = rows_of(published / "worldreason_elo.csv")
    for row in rows:
        acc, ratio = Decimal(row["acc_qa"]) / 100, Decimal(row["sdyn_over_acc"])
        g = group_score(level, {"worldreason.acc_qa": acc, "worldreason.s_dyn": acc * ratio})
        a, r = float(row["acc_qa"]), float(ratio)
        tolerance = 0.05 + 0.05 * r**0.2 + 0.001 * a * r**-0.8
        assert g.score == pytest.approx(float(row["score_pr"]), abs=tolerance), row["model"]
        # The definition itself: Acc * ratio^0.2.
        assert g.score == pytest.approx(a * r**0.2, rel=1e-12)
    assert len(rows) == 11


def test_worldreason_pooled_and_by_dimension(published):
    """One decimal on both sides: 0.1. ScorePR of all cases is no mean of the dimensions' (up to 0.9 off, and it must
    not be: it is made of means); S(v) and accuracy are."""
    parts = rows_of(published / "worldreason_dimensions.csv")
    for row in rows_of(published / "worldreason_bootstrap.csv"):
        own = [p for p in parts if p["model"] == row["model"]]
        pooled = weighted_mean([(Decimal(p["s_v"]), int(p["s_v_n"])) for p in own])
        assert float(pooled) == pytest.approx(float(row["s_v"]), abs=0.1)
        assert sum(int(p["score_pr_n"]) for p in own) == int(row["n_cases"]) == 80
    for row in rows_of(published / "worldreason_phases.csv"):
        macro = exact_mean(Decimal(row[d]) for d in ("wk", "hc", "lr", "ib"))
        assert float(macro) == pytest.approx(float(row["overall"]), abs=0.1)


def test_worldreason_human_totals(published):
    """Ratings r as (r - 1)/4, weighted 0.4, 0.3, 0.3, and back to 1-5; four decimals: 5e-5 + 5e-5. The overall total
    weighs the dimensions by their ratings."""
    level = load_aggregation("worldreason-1").level("S")
    totals = {}
    rows = rows_of(published / "worldreason_human_scores.csv")
    for row in rows:
        g = group_score(level, {f"worldreason.rating_{k}": (Decimal(row[k]) - 1) / 4
                                for k in ("reasoning", "temporal", "aesthetics")})
        total = 1 + 4 * Fraction(g.score) / 100
        assert float(total) == pytest.approx(float(row["weighted_total"]), abs=1e-4 + 1e-12)
        totals.setdefault((row["model"], row["model_weighted_total"]), []).append((total, int(row["n_ratings"])))
    assert len(rows) == 44
    for (model, printed), pairs in totals.items():
        assert float(weighted_mean(pairs)) == pytest.approx(float(printed), abs=1e-4 + 1e-12), model


def test_arena_means_are_1000(published):
    """Fourteen integers: half a unit each, so the mean is within 0.5."""
    for number, want in ((2, "1000.07"), (7, "1000.00"), (14, "1000.00")):
        elo = [r["arena_elo"] for r in read(published / f"table{number:02d}.csv").values()]
        assert half_up(exact_mean(elo)) == want
