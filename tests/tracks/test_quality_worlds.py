"""W1 and W3 places with scorers whose answers follow from the picture: values by hand, and every way to have none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from spatialbench.aggregate import summarise
from spatialbench.observe import REGISTRY
from spatialbench.runs import RunOptions, RunResult, run_world
from spatialbench.types import Measurement, Status, level_pose
from tests.analytic import EYE, box_room, textured, write_glb
from tests.fake_scorers import Brightness, Colours, Says, Thresholds, lend

FAST = ("path.samples_per_second=0.25", "views.lens.width=64", "views.lens.height=64", "views.probe_size=48",
        "views.supersample=1", "finding.min_surfels=2000", "finding.max_surfels=2000", "finding.voxel=0.3")
METRICS = ("M01", "M02", "M03", "M04", "M05", "M06", "M09", "M10", "M11", "M15", "M38", "M39")
IDS = "[" + ", ".join(METRICS) + "]"


def score(folder: Path, case: str = "text: grey room\n", *settings: str) -> dict[str, Measurement]:
    return {m.metric: m for m in run(folder, case, *settings).measurements}


def run(folder: Path, case: str | None = "text: grey room\n", *settings: str) -> RunResult:
    world = write_glb(folder / "world.glb", box_room(), level_pose(EYE))
    path = None
    if case is not None:
        path = folder / "case.yaml"
        path.write_text("id: c\n" + case)
    return run_world(world, RunOptions(protocol="happyworld-spatial-1-fast", case=path,
                                       settings=(*FAST, f"metrics={IDS}", *settings)))


@pytest.fixture
def all_of_them(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    scorers = {"topiq_nr": Brightness(), "laion_aes": Brightness(), "pi": Brightness(), "q_align": Brightness(),
               "hpsv3": Brightness(), "clip_l14": Colours(grey=(1, 1, 1), red=(1, 0, 0)),
               "sam3": Thresholds(wall=lambda i: i.sum(axis=-1) > 30, unicorn=lambda i: i.sum(axis=-1) > 5000)}
    judge = Says(lambda q, p: {"artifact_free": True, "sharp": p.mean() > 0, "plausible_layout": False})
    lend(monkeypatch, judge, **scorers)
    return {**scorers, "judge": judge}


def test_every_metric_from_the_same_frames(tmp_path: Path, all_of_them: dict[str, Any]) -> None:
    Image.fromarray(np.full((8, 8, 3), 200, np.uint8)).save(tmp_path / "input.png")
    m = score(tmp_path, "text: grey room\nimage: input.png\ncategories: [wall, unicorn]\n")
    level = m["M01"].value
    assert level is not None and 0 < level < 1
    # One rule for four scorers: the same frames give the same mean.
    assert m["M03"].value == m["M04"].value == m["M05"].value == level
    assert m["M01"].counts == {"frames": 18}
    assert len(set(np.round(m["M01"].components["frame_quality"], 12))) > 1, "the walls differ in brightness"
    assert m["M01"].value == pytest.approx(np.mean(m["M01"].components["frame_quality"]))
    # The room is grey: each view's mean colour, the text's and the image's vector point the same way.
    assert m["M09"].value == pytest.approx(1.0, abs=1e-4)
    assert m["M10"].value == pytest.approx(1.0, abs=1e-4)
    # The head gives the first of three equal components of a unit vector.
    assert m["M02"].value == pytest.approx(3**-0.5, abs=1e-4)
    assert m["M11"].value == 0.5
    assert m["M11"].components["faces"]["wall"] == list(range(6))
    assert m["M06"].value == pytest.approx(2 / 3), "two of three answers are yes in each of 18 views"
    assert m["M06"].counts == {"views": 18, "answered": 18, "judge_errors": 0, "not_asked": 0}
    assert all_of_them["hpsv3"].texts[0] == "grey room"
    assert all_of_them["topiq_nr"].texts == [""], "it takes no text"
    for id, scorer, most in (("M01", "topiq_nr", 18), ("M02", "clip_l14", 19)):  # and the input image
        assert all_of_them[scorer].seen == most, id


def test_places_by_reward(tmp_path: Path, all_of_them: dict[str, Any]) -> None:
    """The spread is that of the ring means, M38 counts the usable slots, M39 is 2pr/(p+r)."""
    m = score(tmp_path)
    means = [m["M15"].components["origin"], *m["M15"].components["locations"]]
    assert m["M15"].value == pytest.approx(np.std(means), abs=1e-12)
    usable = m["M38"].components["usable_slots"]
    assert len(means) == 1 + sum(usable)
    assert m["M38"].value == sum(usable) / 8
    p, r = 1 / (1 + m["M15"].value), sum(usable) / 8
    assert m["M39"].value == pytest.approx(2 * p * r / (p + r) if r else 0.0)


def test_what_the_case_does_not_say_is_inapplicable(tmp_path: Path, all_of_them: dict[str, Any]) -> None:
    m = score(tmp_path, "up: +Y\n")
    for id, key in (("M05", "text"), ("M09", "text"), ("M10", "image"), ("M11", "categories"), ("M15", "text"),
                    ("M38", "text"), ("M39", "text")):
        assert m[id].status is Status.INAPPLICABLE, id
        assert f"'{key}'" in m[id].reason
    assert m["M38"].components["r_usable"] is not None
    assert m["M01"].value is not None


def test_without_scorers_everything_is_unavailable_and_says_what_to_do(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPATIALBENCH_WEIGHTS", str(tmp_path / "none"))
    for name in ("SPATIALBENCH_JUDGE", "SPATIALBENCH_JUDGE_URL"):
        monkeypatch.delenv(name, raising=False)
    Image.fromarray(np.zeros((4, 4, 3), np.uint8)).save(tmp_path / "input.png")
    m = score(tmp_path, "text: grey room\nimage: input.png\ncategories: [wall]\n")
    for id in METRICS:
        assert m[id].status is Status.UNAVAILABLE, id
        assert m[id].value is None
        assert any(todo in m[id].reason for todo in ("spatialbench weights fetch", "pip install", "--judge")), id
    assert m["M38"].counts["slots"] == 8, "the geometric part is there"


def test_a_judge_that_fails_too_often_gives_no_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = iter(range(1000))

    def answer(q: Any, p: Any) -> dict[str, bool] | None:
        return None if next(count) < 2 else {"artifact_free": True, "sharp": True, "plausible_layout": True}

    lend(monkeypatch, Says(answer))
    m = score(tmp_path)["M06"]
    assert m.status is Status.UNAVAILABLE, "16 of 18 are under 90 %"
    assert "answered 16 of 18" in m.reason
    assert m.counts["judge_errors"] == 2
    count = iter(range(1, 1000))
    m = score(tmp_path)["M06"]
    assert m.value == 1.0, "17 of 18 are enough, and the missing one is no zero"
    assert m.counts == {"views": 18, "answered": 17, "judge_errors": 1, "not_asked": 0}


def test_a_text_that_was_cut_is_flagged(tmp_path: Path, all_of_them: dict[str, Any]) -> None:
    m = score(tmp_path, f"text: grey {'room ' * 40}\n")["M09"]
    assert "text_truncated" in m.flags
    assert m.components["text_truncated"] is True


def test_a_rating_that_is_no_number_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def rate(self, images: Any, text: str = "") -> np.ndarray:
            return np.full(len(images), np.nan)

    lend(monkeypatch, topiq_nr=Broken())
    m = score(tmp_path)["M01"]
    assert m.status is Status.UNAVAILABLE
    assert "not finite" in m.reason


def test_a_stand_in_is_flagged_and_enters_no_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from spatialbench.scorers import registry

    spec = registry.ScorerSpec("grey_vectors", "mean colours", "embedding", "a test", open=lambda o: None,
                               stands_in_for="clip_l14")
    monkeypatch.setitem(registry._SPECS, "grey_vectors", spec)
    lend(monkeypatch, grey_vectors=Colours(grey=(1, 1, 1)), topiq_nr=Brightness())
    result = run(tmp_path, "text: grey room\n", "scorers.substitutes={clip_l14: grey_vectors}")
    m = {x.metric: x for x in result.measurements}
    assert m["M09"].value == pytest.approx(1.0, abs=1e-4)
    assert "substitute:grey_vectors" in m["M09"].flags
    assert m["M01"].flags == ()
    summary = summarise(result.measurements, REGISTRY.specs("happyworld.spatial"), "wmbench-normalization-v1")
    w1 = summary.system("local").group("W1")
    assert [p.metric for p in w1.parts] == ["M01"]
    why = next(g.why for g in w1.missing if g.metric == "M09")
    assert "stand-in" in why and "grey_vectors" in why
    assert summary.system("local").metric("M09").mean == pytest.approx(1.0, abs=1e-4), "it is shown all the same"


def test_a_stand_in_that_is_none_is_refused(tmp_path: Path) -> None:
    from spatialbench.errors import ConfigError

    with pytest.raises(ConfigError, match="no stand-in"):
        run(tmp_path, None, "scorers.substitutes={clip_l14: hpsv3}")


def test_another_world_the_same_scorers(tmp_path: Path, all_of_them: dict[str, Any]) -> None:
    """Textured walls change the ratings: what is rated is the picture."""
    plain = score(tmp_path)["M01"].value
    write_glb(tmp_path / "world.glb", textured(box_room()), level_pose(EYE))
    path = tmp_path / "case.yaml"
    other = run_world(tmp_path / "world.glb", RunOptions(protocol="happyworld-spatial-1-fast", case=path,
                                                         settings=(*FAST, "metrics=[M01]")))
    assert other.measurements[0].value != plain


def test_categories_that_are_the_same_are_one_request_and_long_ones_are_said(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of wall, WALL and unicorn one of two is there, as with wall and unicorn."""
    detector = Thresholds(wall=lambda i: i.sum(axis=-1) > 30)
    detector.truncates = lambda text: len(text) > 20  # type: ignore[attr-defined]
    lend(monkeypatch, sam3=detector)
    m = score(tmp_path, "categories: [wall, ' WALL ', unicorn]\n", "metrics=[M11]")["M11"]
    assert (m.value, m.counts, m.flags) == (0.5, {"categories": 2, "detected": 1}, ())
    assert list(m.components["faces"]) == ["wall", "unicorn"]
    m = score(tmp_path, "categories: [wall, a unicorn that is very long]\n", "metrics=[M11]")["M11"]
    assert (m.value, m.flags) == (0.5, ("text_truncated",))


def test_a_blank_text_is_none(tmp_path: Path, all_of_them: dict[str, Any]) -> None:
    m = score(tmp_path, "text: '  '\n", "metrics=[M05, M09]")
    assert {m[id].status for id in ("M05", "M09")} == {Status.INAPPLICABLE}
