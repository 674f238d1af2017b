"""Objects end to end: a red box in a room, models whose answers are known, values derived by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from PIL import Image

from spatialbench.runs.batch.keys import recipes
from spatialbench.scorers.contract import Detection
from spatialbench.tracks.spatial.cameras import placed
from spatialbench.tracks.spatial.object_scores import Detections
from spatialbench.tracks.spatial.object_views import ObjectTarget, best_instance
from spatialbench.types import Frames, Status
from tests.object_world import (
    BOX,
    METRICS,
    PROTOCOL,
    RED,
    SIZE,
    FakeJudge,
    RedDetector,
    Rewards,
    Tracker,
    case_of,
    encoded,
    first_view,
    lifted_box,
    measure,
    observe,
    room,
    said,
    seen_pixels,
)
from tests.worlds import quick_protocol

ZEROS = ("M16", "M18", "M20", "M21", "M24")
UNDEFINED = ("M17", "M19", "M22", "M23")
CENTRED = [(0.4, 0.6), (0.6, 0.6), (0.6, 0.9), (0.4, 0.9)]
"""A polygon in the first view that holds the front and top of the box, and some floor."""


def models(**other):
    return {"sam3": RedDetector(), "hpsv3": Rewards(), "tapip3d": Tracker(),
            "judge": FakeJudge(lambda k: said()), **other}


def cameras(obs):
    return obs.get("spatial.object_orbits").cameras["box"]


# --- where it is, and the orbit ---------------------------------------------------------------------------


def test_the_orbit_is_laid_around_what_was_lifted():
    obs = observe(room(), sam3=RedDetector())
    target: ObjectTarget = obs.get("spatial.object_targets")["box"]
    centre, diagonal = lifted_box()
    assert target.source == "sam3"
    assert target.score == 0.9
    assert target.centre == pytest.approx(centre, abs=1e-5)  # depths are float32: 3e-7 of some 3 m
    assert target.diagonal == pytest.approx(diagonal, abs=1e-5)
    assert target.radius == pytest.approx(1.5 * diagonal, abs=2e-5)
    assert len(cameras(obs)) == 24
    for k, camera in enumerate(cameras(obs)):
        # OPEN-17c: view 0 on the side of the initial camera (the object is ahead, so towards -Y), then clockwise seen
        # from above: -Y, -X, +Y, +X
        a = math.radians(180 + 15 * k)
        place = centre + target.radius * np.array([math.sin(a), math.cos(a), 0.25])
        assert camera.pose.position == pytest.approx(place, abs=1e-4)
        towards = centre - place
        assert camera.pose.forward == pytest.approx(towards / np.linalg.norm(towards), abs=1e-4)
        assert (camera.width, camera.height) == (SIZE, SIZE)
        assert 2 * math.degrees(math.atan(camera.width / 2 / camera.fx)) == pytest.approx(60.0)


def test_view_0_is_towards_the_initial_camera_wherever_the_object_is():
    obs = observe(room(((1.0, 2.0, 0.0), (1.5, 2.5, 0.5))), sam3=RedDetector())
    target = obs.get("spatial.object_targets")["box"]
    towards = -target.centre[:2] / np.linalg.norm(target.centre[:2])
    start = cameras(obs)[0].pose.position - target.centre
    assert start[:2] / np.linalg.norm(start[:2]) == pytest.approx(towards, abs=1e-6)


def test_a_few_flying_points_move_neither_centre_nor_box():
    """x = 0 to 100 in steps of 1 but for two that fly: the 2nd and 98th percentile are 2 and 98, the median is 50."""
    x = np.arange(101.0)
    x[0], x[100] = -1e4, 1e4
    at = placed(PROTOCOL, np.stack([x, np.zeros(101), np.full(101, -1.0)], axis=1)[::-1])
    assert (at.centre.tolist(), at.diagonal, at.radius) == ([50.0, 0.0, -1.0], 96.0, 4.0)
    assert placed(PROTOCOL, np.zeros((0, 3))) is None


@pytest.mark.parametrize(("box", "radius"), [
    (((-0.05, 3.8, 0.7), (0.05, 3.95, 0.8)), 0.5),  # 1.5 x 0.2 m, at the wall
    (((-1.9, 2.8, 0.0), (1.9, 3.9, 0.9)), 4.0)])  # 1.5 x 3.8 m
def test_a_small_or_large_object_at_the_wall_gets_the_nearest_radius_and_keeps_all_views(box, radius):
    obs = observe(room(box), **models())
    m = measure(obs)
    assert m["M16"].components["orbit_radius"] == radius
    detected = [bool(seen_pixels(c, box, ()).any()) and inside(c.pose.position) for c in cameras(obs)]
    if radius == 0.5:  # views beyond the wall see its back, and count
        assert 2 <= sum(detected) < 24
        assert m["M16"].components["detected"] == [k for k, d in enumerate(detected) if d]
    assert m["M16"].counts["views"] == 24
    assert m["M16"].value == m["M16"].counts["detected"] / 24


def inside(place) -> bool:
    return bool((np.abs(place[:2]) < 4.0).all() and -1.6 < place[2] < 1.1)


@pytest.mark.parametrize("place", ["polygon", "mask"])
def test_an_annotated_place_needs_no_detector(tmp_path, place):
    if place == "polygon":
        # the front face, 2.2 m ahead and 1.0 to 1.6 m down, spans 0.80 to 0.97 of the height (tan 37.5 deg = 0.767)
        obs = observe(room(), case_of({"id": "box", "text": "a red box", "image_polygon": [
            (0.47, 0.85), (0.53, 0.85), (0.53, 0.95), (0.47, 0.95)]}))
    else:
        mask = np.kron(seen_pixels(first_view()), np.ones((2, 2), bool))  # twice the size
        Image.fromarray(mask.astype(np.uint8) * 255).save(tmp_path / "m.png")
        obs = observe(room(), case_of({"id": "box", "text": "a red box", "mask": "m.png"}),
                      files={"00.mask": tmp_path / "m.png"})
    target = obs.get("spatial.object_targets")["box"]
    assert target.score is None
    if place == "mask":
        centre, diagonal = lifted_box()
        assert target.centre == pytest.approx(centre, abs=1e-5)
        assert target.diagonal == pytest.approx(diagonal, abs=1e-5)
    else:
        assert target.source == "image_polygon"
        assert target.centre[1] == pytest.approx(2.2, abs=1e-5)  # the front face
    m = measure(obs)
    for id in METRICS:  # lifted, and nobody to say more
        assert m[id].status is Status.UNAVAILABLE, id
        assert m[id].components["orbit_radius"] == target.radius  # so that its views can be drawn
    assert "sam3" in m["M16"].reason.lower()
    assert "evidence ('masks')" in m["M16"].reason
    assert "judge" in m["M24"].reason


# --- values -----------------------------------------------------------------------------------------------


def test_a_box_that_stays_itself():
    """Every view's mask is that of rays against the box; one colour gives one reward; nothing moves."""
    rewards, tracker, detector = Rewards(), Tracker(), RedDetector()
    obs = observe(room(), **models(hpsv3=rewards, tapip3d=tracker, sam3=detector))
    m = measure(obs)
    masks = obs.get("spatial.object_detections")["box"].masks
    for camera, mask in zip(cameras(obs), masks, strict=True):
        assert (mask == seen_pixels(camera)).all()
    assert {id: m[id].value for id in METRICS} == {
        "M16": 1.0, "M17": 0.0, "M18": 1.0, "M19": 1.0, "M20": 1.0, "M21": 1.0, "M22": 1.0, "M23": 1.0, "M24": 1.0}
    assert m["M17"].components["rewards"] == pytest.approx([encoded(RED) / 3] * 24)
    assert rewards.text == "a red box"
    assert all(min(c.shape[:2]) == 224 for c in rewards.crops)
    for id in METRICS:
        assert m[id].object == "box"
        assert m[id].flags == ()
        assert m[id].geometry == "mesh"
    assert detector.asked == 1 + 24
    # 64 points on the box's surface, by depth of float32 (some 2 m: 2e-7)
    low, high = (np.array(edge) - [0, 0, 1.6] for edge in BOX)
    assert tracker.points.shape == (64, 3)
    outside = np.maximum(np.maximum(low - tracker.points, tracker.points - high), 0)
    inside_by = np.minimum(tracker.points - low, high - tracker.points).min(axis=1)
    assert np.abs(outside).max() < 1e-5
    assert np.abs(inside_by).max() < 1e-5
    assert [c.key() for c in tracker.cameras] == [cameras(obs)[k % 24].key() for k in range(25)]
    assert (tracker.frames[0] == tracker.frames[24]).all()


def test_rewards_that_alternate():
    """0 and 1 in turn: s = 1/2, p = 2/3, r = 1: H = (4/3) / (5/3)."""
    m = measure(observe(room(), **models(hpsv3=Rewards(lambda crop, k: k % 2))), ("M17", "M18"))
    assert m["M17"].value == 0.5
    assert m["M18"].value == pytest.approx(0.8)
    assert m["M18"].components["precision"] == pytest.approx(2 / 3)


def test_points_that_drift_by_a_known_amount():
    """Of 64 points 16 end 1.1 hundredths of the box's diagonal away, 16 nine thousandths, 16 are lost."""
    _, diagonal = lifted_box()

    def drift(n):
        out = np.zeros((n, 3))
        out[:16, 0], out[16:32, 2], out[32:48] = 0.011 * diagonal, 0.009 * diagonal, np.nan
        return out
    m = measure(observe(room(), **models(tapip3d=Tracker(drift))), ("M19", "M20"))
    assert m["M19"].value == 0.5
    assert m["M19"].counts["lost"] == 16
    assert m["M20"].value == pytest.approx(2 / 3)  # H(1/2, 1)


def test_a_screen_behind_the_box_hides_it_from_some_views():
    """Detected where rays meet the box before the screen; points begin at the first such view."""
    screen = ((-1.2, 3.0, 0.0), (1.2, 3.05, 1.4))
    tracker, rewards = Tracker(), Rewards()
    obs = observe(room(screens=(screen,)), **models(tapip3d=tracker, hpsv3=rewards))
    m = measure(obs)
    counts = [int(seen_pixels(c, BOX, (screen,)).sum()) for c in cameras(obs)]
    seen = [k for k, n in enumerate(counts) if n]
    assert 8 < len(seen) < 22
    assert seen[0] == 0
    assert m["M16"].components["mask_pixels"] == counts
    assert m["M16"].value == len(seen) / 24
    assert m["M17"].components["views"] == [k for k, n in enumerate(counts) if n >= 64]
    assert len(rewards.crops) == m["M17"].counts["crops"]
    r = len(seen) / 24
    assert m["M20"].value == pytest.approx(2 * r / (1 + r))


def test_points_begin_at_the_first_view_that_shows_the_object(tmp_path):
    """A screen before the box: the place is annotated, and the first views see the screen."""
    screen = ((-0.8, 1.7, 0.0), (0.8, 1.75, 1.5))
    tracker = Tracker()
    case = case_of({"id": "box", "text": "a red box", "mask": "m.png"})
    Image.fromarray(seen_pixels(first_view()).astype(np.uint8) * 255).save(tmp_path / "m.png")
    obs = observe(room(screens=(screen,)), case, files={"00.mask": tmp_path / "m.png"}, **models(tapip3d=tracker))
    m = measure(obs)
    seen = [k for k, c in enumerate(cameras(obs)) if seen_pixels(c, BOX, (screen,)).any()]
    assert m["M16"].components["detected"] == seen
    assert m["M19"].components["start_view"] == seen[0] > 0
    order = [(seen[0] + k) % 24 for k in range(25)]
    assert [c.key() for c in tracker.cameras] == [cameras(obs)[k].key() for k in order]


# --- nothing there ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("annotated", [False, True])
def test_an_object_that_was_not_built_is_a_zero_and_is_not_dropped(annotated):
    """Sought in vain it has no orbit; annotated, the orbit is around the floor there."""
    place = {"image_polygon": CENTRED} if annotated else {}
    judge = FakeJudge(lambda k: said(visible=False))
    obs = observe(room(None), case_of({"id": "box", "text": "a red box", **place}), **models(judge=judge))
    m = measure(obs)
    for id in ZEROS:
        assert m[id].value == 0.0, id
        assert m[id].reason, id
        assert m[id].components["lifted"] is annotated
        assert m[id].object == "box"
    for id in UNDEFINED:
        assert m[id].status is Status.INVALID, id
    assert m["M16"].reason == ("not_detected" if annotated else "target_not_lifted")
    assert m["M19"].reason == ("no_visible_start" if annotated else "target_not_lifted")
    assert m["M24"].reason == ("no_valid_view" if annotated else "target_not_lifted")
    assert len(judge.questions) == (24 if annotated else 0)


def test_a_place_without_depth_is_zero_whoever_judges():
    """OPEN-17d. The wall ahead is missing, and the polygon lies in its middle."""
    case = case_of({"id": "box", "text": "a red box", "image_polygon": [(0.4, 0.45), (0.6, 0.45), (0.6, 0.55)]})
    m = measure(observe(room(None, skip="2"), case))
    assert {id for id in METRICS if m[id].value == 0.0} == set(ZEROS)
    assert {id for id in METRICS if m[id].status is Status.INVALID} == set(UNDEFINED)
    assert {m[id].reason for id in METRICS} == {"target_not_lifted"}
    assert m["M16"].counts["lifted_points"] == 0


class Halves:
    """A renderer: red everywhere at 2 m, and of an opacity that just does not count in the left half."""

    def render(self, cameras, want=()):
        shape = (len(cameras), cameras[0].height, cameras[0].width)
        alpha = np.full(shape, 0.5, np.float32)
        alpha[..., :shape[2] // 2] = 0.49
        return Frames(tuple(cameras), np.tile(np.float32([0.8, 0, 0]), (*shape, 1)), np.full(shape, 2.0, np.float32),
                      alpha)

    def stream(self, cameras, want=(), batch=8):
        for k in range(0, len(cameras), batch):
            yield self.render(cameras[k:k + batch], want)


def test_pixels_of_less_than_half_an_opacity_have_no_depth():
    """Neither is the object lifted from them, nor do points begin there; the tracker is given 0."""
    tracker, given = Tracker(), []

    class Keeps(Tracker):
        def track(self, frames, depth, cameras, points):
            given.append(depth)
            return tracker.track(frames, depth, cameras, points)
    obs = observe(room(), **models(tapip3d=Keeps()))
    obs._values["spatial.renderer"] = Halves()
    target = obs.get("spatial.object_targets")["box"]
    assert target.points == SIZE * SIZE // 2
    # columns 48 to 95 at 2 m: their median is the middle of the right half, a quarter of 2 * 2 * tan 37.5 deg
    assert target.centre == pytest.approx((math.tan(math.radians(37.5)), 2.0, 0.0), abs=1e-6)
    m = measure(obs, ("M19",))["M19"]
    assert m.counts["drawn_from"] == SIZE * SIZE // 2
    assert (given[0][..., :SIZE // 2] == 0).all() and (given[0][..., SIZE // 2:] == 2).all()
    camera = cameras(obs)[0]
    assert (camera.pose.matrix[:3, 0] @ (tracker.points - camera.pose.position).T > 0).all(), "right of its axis"


def test_an_object_without_depth_where_it_is_seen_first_has_no_points_to_follow():
    """OPEN-20b. Seen is the hole where the wall ahead is missing: r_s > 0, and no track."""
    class Holes(RedDetector):
        def detect(self, images, text):
            return [(Detection(0.9, mask),) if (mask := (i == 0).all(axis=-1)).any() else () for i in images]
    case = case_of({"id": "box", "text": "a red box", "image_polygon": CENTRED})
    m = measure(observe(room(None, skip="2"), case, **models(sam3=Holes())), ("M16", "M19", "M20"))
    assert m["M16"].value > 0
    assert m["M19"].status is m["M20"].status is Status.UNAVAILABLE
    assert "no pixel of the object has depth in the view" in m["M20"].reason


def test_a_weak_detection_is_none():
    for score, value in ((0.5, 1.0), (0.49, 0.0)):
        m = measure(observe(room(), sam3=RedDetector(score)), ("M16",))
        assert m["M16"].value == value
        assert m["M16"].components["place_score"] == score


def test_the_best_of_several_instances_is_taken_if_it_has_a_pixel():
    """OPEN-18: weak ones are not merged with it, and one without a pixel is none."""
    masks = np.eye(4, dtype=bool).reshape(4, 2, 2)
    found = tuple(Detection(score, mask) for score, mask in zip((0.6, 0.8, 0.3), masks, strict=False))
    for order in (found, found[::-1]):
        mask, score = best_instance(order, 0.5)
        assert (mask == masks[1]).all() and score == 0.8
        mask, score = best_instance((*order, Detection(0.9, np.zeros((2, 2), bool))), 0.5)
        assert (mask == masks[1]).all() and score == 0.8
    assert best_instance(found, 0.85) == (None, 0.8)
    assert best_instance((), 0.5) == (None, None)


def test_a_mask_of_64_pixels_is_rated():
    masks = [None, *(np.arange(100) < n for n in (63, 64, 65))]
    assert Detections(tuple(masks), (None,) * 4).scored(64) == (2, 3)


def test_one_detection_is_a_recall_of_zero_also_without_a_tracker(tmp_path):
    """M20 is 0 though there is a start, a view to follow from, and nobody to follow; M19 is not known."""
    Image.fromarray(seen_pixels(first_view()).astype(np.uint8) * 255).save(tmp_path / "m.png")
    case = case_of({"id": "box", "text": "a red box", "mask": "m.png", "evidence": {"masks": "m/{view}.png"}})
    files = {"00.mask": tmp_path / "m.png", "00.masks.07": tmp_path / "m.png"}
    m = measure(observe(room(), case, files=files), ("M16", "M17", "M18", "M19", "M20"))
    assert m["M16"].counts["detected"] == 1
    assert (m["M16"].value, m["M18"].value, m["M20"].value) == (0.0, 0.0, 0.0)
    assert m["M20"].reason == "too_few_detections"
    assert m["M19"].status is Status.UNAVAILABLE
    assert (m["M17"].status, m["M17"].reason) == (Status.INVALID, "too_few_crops")


def test_masks_too_small_to_be_rated_leave_m18_without_a_value():
    """Seen in every view, but in too few pixels: r_s > 0 and no spread (OPEN-19)."""
    protocol = PROTOCOL.model_copy(update={
        "scorers": PROTOCOL.scorers.model_copy(update={"detection_pixels": SIZE * SIZE})})
    m = measure(observe(room(), protocol=protocol, **models()))
    assert m["M16"].value == 1.0
    assert m["M17"].status is m["M18"].status is Status.INVALID
    assert m["M17"].reason == m["M18"].reason == "too_few_crops"
    assert m["M17"].counts["crops"] == 0
    assert m["M20"].value == 1.0


# --- models that are lacking or fail ----------------------------------------------------------------------


def test_without_a_tracker_recall_decides():
    m = measure(observe(room(), sam3=RedDetector()), ("M19", "M20"))
    assert m["M19"].status is m["M20"].status is Status.UNAVAILABLE
    gone = measure(observe(room(None), case_of({"id": "box", "text": "a red box", "image_polygon": CENTRED}),
                           sam3=RedDetector()), ("M18", "M19", "M20"))
    assert gone["M18"].value == gone["M20"].value == 0.0
    assert gone["M19"].reason == "no_visible_start"


def test_without_a_judge():
    m = measure(observe(room(), sam3=RedDetector()))
    for id in ("M21", "M22", "M23", "M24"):
        assert m[id].status is Status.UNAVAILABLE
        assert "no judge is named" in m[id].reason
    assert m["M16"].value == 1.0


def test_without_a_detector_and_a_place_nothing_is_known():
    m = measure(observe(room(), judge=FakeJudge(lambda k: said())))
    for id in METRICS:
        assert m[id].status is Status.UNAVAILABLE
        assert m[id].object == "box"
        assert "image_polygon" in m[id].reason


@pytest.mark.parametrize(("errors", "value"), [(2, 1.0), (3, None)])
def test_judge_errors_are_left_out_while_a_tenth_at_most(errors, value):
    """22 of 24 answers are 92 %, 21 are 87.5 %."""
    judge = FakeJudge(lambda k: None if k < errors else said(clean=k % 2 == 0))
    m = measure(observe(room(), sam3=RedDetector(), judge=judge), ("M21", "M22", "M24"))
    assert m["M21"].value == value
    if value is None:
        assert {x.status for x in m.values()} == {Status.UNAVAILABLE}
        assert "21 of 24" in m["M21"].reason
    else:
        assert m["M22"].value == 0.5
        assert m["M24"].value == pytest.approx(2 * 0.75 / 1.75)  # p = (1/2 + 1) / 2, r = 1
        assert m["M24"].counts["judge_errors"] == 2
        assert m["M24"].components["valid"][:3] == [None, None, True]


def test_the_judge_is_asked_once_about_each_view_with_the_objects_text():
    judge = FakeJudge(lambda k: said())
    measure(observe(room(), sam3=RedDetector(), judge=judge), ("M21", "M22", "M23", "M24"))
    assert len(judge.questions) == 24
    assert {q.fields["target"] for q in judge.questions} == {"a red box"}
    assert {q.prompt.name for q in judge.questions} == {"object-view-1"}
    assert len({q.id for q in judge.questions}) == 24


def test_another_judge_is_flagged():
    judge = FakeJudge(lambda k: said(), substitute=True)
    m = measure(observe(room(), sam3=RedDetector(), judge=judge), ("M16", "M24"))
    assert m["M24"].flags == ("substitute:vlm_judge",)
    assert m["M16"].flags == ()


def test_a_reward_that_is_no_number_makes_the_scorer_unavailable():
    m = measure(observe(room(), **models(hpsv3=Rewards(lambda crop, k: math.nan))), ("M17", "M18"))
    assert m["M17"].status is m["M18"].status is Status.UNAVAILABLE


# --- several objects --------------------------------------------------------------------------------------


def test_each_object_is_measured_by_itself():
    case = case_of({"id": "box", "text": "a red box"}, {"id": "ball", "text": "a blue ball"})
    m = measure(observe(room(), case, **models()))
    assert set(m) == {f"{id}/{of}" for id in METRICS for of in ("box", "ball")}
    assert m["M16/box"].value == m["M24/box"].value == 1.0
    assert m["M16/ball"].value == m["M24/ball"].value == 0.0
    assert m["M17/ball"].status is Status.INVALID


def test_images_of_many_objects_are_drawn_again_rather_than_kept():
    case = case_of(*({"id": f"o{k}", "text": "a red box"} for k in range(6)))
    obs = observe(room(), case, sam3=RedDetector())
    m = measure(obs, ("M16",))
    assert {x.value for x in m.values()} == {1.0}
    assert len(obs.get("spatial.object_orbits")._views) == 4


def test_no_case_and_no_objects_are_inapplicable():
    from spatialbench.types import SnapshotCase

    m = measure(observe(room(), SnapshotCase(id="c")))
    assert {m[id].status for id in METRICS} == {Status.INAPPLICABLE}
    assert {m[id].object for id in METRICS} == {None}


# --- the protocol -----------------------------------------------------------------------------------------


def test_protocol_keys_are_in_the_recipes():
    """A kept result is made anew when a key that bears on it changes."""
    other = quick_protocol("objects.track_points=32")
    a, b = recipes(PROTOCOL, METRICS), recipes(other, METRICS)
    assert all(a[id] != b[id] for id in METRICS)


def test_fewer_views_and_points():
    protocol = PROTOCOL.model_copy(update={
        "editing": PROTOCOL.editing.model_copy(update={"orbit_views": 6}),
        "objects": PROTOCOL.objects.model_copy(update={"track_points": 8, "min_detections": 7})})
    tracker = Tracker()
    m = measure(observe(room(), protocol=protocol, **models(tapip3d=tracker)))
    assert m["M16"].value == 0.0
    assert m["M16"].reason == "too_few_detections"
    assert tracker.points.shape == (8, 3)
    assert m["M19"].components["start_view"] == 0
