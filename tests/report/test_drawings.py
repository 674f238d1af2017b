"""Panorama strip, map raster, charts and sentences against what was put in."""

from __future__ import annotations

import base64
import io
import math
import re

import fake
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from spatialbench.report import LocationDot, MapData, MetricRow, PathChart, ReportData, TrialRow
from spatialbench.report.charts import consistency_chart, hole_chart, score_bar
from spatialbench.report.images import mark_holes, panorama_strip
from spatialbench.report.map import map_views, nice_length
from spatialbench.report.raster import AREA_COLORS, FOOTPRINT_COLOR, components, label_place, paint_cells
from spatialbench.report.svg import num, tag
from spatialbench.report.view import FACES
from spatialbench.report.why import lowest_metrics, sentence
from spatialbench.types import PlanGrid, Status, level_pose


def direction_image(yaw: float, size: int, fov: float) -> np.ndarray:
    """Red is the azimuth (0 to 240 over a turn from behind), green the slope, of each pixel's ray."""
    f = size / 2 / math.tan(math.radians(fov) / 2)
    x, y = np.meshgrid((np.arange(size) + 0.5 - size / 2) / f, (np.arange(size) + 0.5 - size / 2) / f)
    rays = np.stack([x, y, np.ones_like(x)], -1) @ level_pose((0, 0, 0), yaw).rotation.T
    azimuth = np.degrees(np.arctan2(rays[..., 0], rays[..., 1]))
    slope = rays[..., 2] / np.hypot(rays[..., 0], rays[..., 1])
    return np.stack([(azimuth + 180) / 1.5, 128 + 100 * slope, np.full_like(x, 9)], -1).round().astype(np.uint8)


@pytest.mark.parametrize("n", [8, 18, 36])
def test_strip_puts_every_direction_where_it_belongs(n):
    yaws = [360 * i / n for i in range(n)]
    strip = panorama_strip([direction_image(y, 256, 75) for y in yaws], yaws, 75, width=720)
    want = (np.arange(720) + 0.5) / 2 / 1.5
    inner = slice(8, -8)  # the frame that looks straight back wraps from 240 to 0 within one pixel
    # 0.5 for 8-bit rounding of the frames and 0.5 for that of the strip, with bilinear error far below.
    assert np.abs(strip[:, inner, 0] - want[None, inner]).max() <= 1.01
    rise = math.tan(math.radians(37.5)) * math.cos(math.radians(180 / n))
    slope = rise * (1 - 2 * (np.arange(len(strip)) + 0.5) / len(strip))
    # The height is a whole number of pixels, so that slopes may be off by half a pixel of 1/114.6.
    assert np.abs(strip[:, inner, 1] - (128 + 100 * slope)[:, None]).max() <= 1.5


def test_strip_leaves_grey_where_no_frame_looks():
    strip = panorama_strip([direction_image(0, 64, 75)], [0], 75, width=360)
    assert (strip[:, :90] == strip[0, 0]).all()
    assert (strip[:, 180, 2] == 9).all()


def test_holes_are_marked_and_nothing_else():
    picture, holes = np.full((60, 60, 3), 50, np.uint8), np.zeros((30, 30), bool)
    holes[:, 15:] = True
    marked = mark_holes(picture, holes)
    assert (marked[:, :30] == 50).all()
    assert (marked[:, 30:] != 50).any(axis=-1).all()


def test_raster_is_up_and_right_and_coloured():
    mask = np.zeros((4, 3), bool)
    mask[0, 0] = mask[3, 2] = mask[1, 1] = mask[2, 2] = True
    labels = np.zeros((4, 3), int)
    labels[3, 2], labels[1, 1] = 1, 2
    data = MapData(PlanGrid(mask, -2, 5, 0.5), labels)
    rgba, box = paint_cells(data, (-10, 10, -10, 10))
    assert box == (-1.0, 1.0, 2.5, 4.0)
    assert rgba.shape == (3, 4, 4)
    assert tuple(rgba[2, 0]) == FOOTPRINT_COLOR  # lowest x, lowest y: bottom left
    assert tuple(rgba[0, 3]) == AREA_COLORS[0]  # highest x, highest y: top right
    assert tuple(rgba[1, 1]) == AREA_COLORS[1]
    assert rgba[0, 0, 3] == 0


def test_large_maps_are_joined_to_blocks_that_keep_the_most_telling_cell():
    mask, labels = np.ones((1000, 10), bool), np.zeros((1000, 10), int)
    labels[500:, 5] = 3
    labels[999, 9] = 1
    rgba, box = paint_cells(MapData(PlanGrid(mask, 0, 0, 0.1), labels), (0, 100, 0, 1), max_side=100)
    assert rgba.shape == (1, 100, 4)
    assert box == (0, pytest.approx(100), 0, pytest.approx(1))
    assert tuple(rgba[0, 0]) == FOOTPRINT_COLOR
    assert tuple(rgba[0, 60]) == AREA_COLORS[2]
    assert tuple(rgba[0, 99]) == AREA_COLORS[0]


def test_components_have_the_areas_of_their_cells():
    footprint, labels = fake.flat()
    parts = components(MapData(footprint, labels))
    # By hand: 86 x 94 - 20 x 20, 74 x 54 and 56 x 40 - 6 x 8 cells of 0.0025 m².
    assert [p.area for p in parts] == pytest.approx([19.21, 9.99, 5.48])
    for p in parts:
        x, y = label_place(MapData(footprint, labels), p.label)
        i, j = int(x // 0.05) - footprint.i0, int(y // 0.05) - footprint.j0
        assert labels[i, j] == p.label


def test_map_shows_what_it_was_given():
    svg = str(map_views(fake.make_map())[0].svg)
    assert svg.count("m-oob") == 8
    assert svg.count("m-step") == 65 - 8
    assert svg.count("m-yes") == 6
    assert svg.count("m-no") == 3
    assert svg.count("m-ok") == 4
    assert svg.count("m-bad") == 2
    assert svg.count("m-chosen") == 1
    assert "19.2\u00a0m²" in svg


def test_map_places_points_by_their_metres():
    grid = PlanGrid(np.ones((40, 40), bool), -20, -20, 0.1)
    data = MapData(grid, locations=[LocationDot(1.0, 1.0, True, "", 0), LocationDot(-1.0, -1.0, False, "hole")])
    view = map_views(data)[0]
    dots = [tuple(float(v) for v in m) for m in
            re.findall(r'cx="([\d.]+)" cy="([\d.]+)" r="8" class="m-loc', str(view.svg))]
    side = 720 / (4 + 2 * 0.4)  # pixels per metre: 4 m of cells and 0.4 m of margin on either side
    assert dots == [pytest.approx((3.4 * side, 1.4 * side), abs=0.01),
                    pytest.approx((1.4 * side, 3.4 * side), abs=0.01)]


def test_a_wide_world_gets_a_close_up():
    plan = fake.make_map()
    wide = PlanGrid(np.ones((1200, 1000), bool), -600, -500, 0.05)
    far = map_views(MapData(wide, path=plan.path, path_oob=plan.path_oob))
    assert len(far) == 2
    assert "m-frame" in str(far[0].svg)
    assert str(far[1].svg).count("m-oob") == 8
    data = re.search(r'href="data:image/png;base64,([^"]+)"', str(far[0].svg)).group(1)
    with Image.open(io.BytesIO(base64.b64decode(data))) as image:
        assert image.size == (1200, 1000)


def test_labels_of_another_extent_are_refused():
    with pytest.raises(ValueError, match="different extent"):
        components(MapData(PlanGrid(np.ones((3, 3), bool), 0, 0), np.ones((2, 2), int)))


@given(st.floats(1e-6, 1e6))
def test_nice_length(limit):
    nice = nice_length(limit)
    assert nice <= limit * (1 + 1e-6) < nice * 2.5 * (1 + 1e-5)
    mantissa = nice / 10 ** math.floor(math.log10(nice) + 1e-9)
    assert min(abs(mantissa - m) for m in (1, 2, 5)) < 1e-6


def test_score_bar():
    assert "width:44%" in score_bar(0.44, "x")
    assert "width:100%" in score_bar(1.7, "x")
    assert "no score" in score_bar(None, "x")
    assert "width" not in score_bar(None, "x")
    assert "no score" in score_bar(float("nan"), "x")
    assert "<b>" not in score_bar(0.1, "<b>")


def test_hole_chart_marks_every_step_that_is_out_of_bounds():
    plan = fake.make_map()
    svg = str(hole_chart(fake.make_chart(plan.path_oob)))
    assert svg.count("c-band") == 8
    assert svg.count("c-cross") == 8
    assert "threshold 16 %" in svg


@pytest.mark.parametrize("chart", [
    PathChart([0.0], [0.0], None), PathChart([], [], 0.1), PathChart([0, 1], [float("nan"), 0.2], 0.1),
    PathChart([0, 1], [1.0, 1.0], 0.5, oob=[True, True], brightness=[1.0, float("nan")], hue=[])])
def test_charts_of_little_data(chart):
    for svg in (hole_chart(chart), consistency_chart(chart)):
        assert "nan" not in svg
        assert "inf" not in svg


def test_a_gap_breaks_the_line():
    chart = PathChart([0, 1, 2, 3, 4], [0.1, 0.1, float("nan"), 0.1, 0.1], None)
    assert str(hole_chart(chart)).count("<polyline") == 2


def metric(mid: str, z: float | None, retained: bool = True, **more: object) -> MetricRow:
    status = Status.MEASURED if z is not None else Status.UNAVAILABLE
    return MetricRow(mid, mid, mid, "W1", retained, z, "", True, z, status, **more)  # type: ignore[arg-type]


def test_lowest_metrics_are_measured_retained_and_imperfect():
    rows = [metric("M01", 0.9), metric("M02", None), metric("M03", 0.2), metric("M38", 0.1, retained=False),
            metric("M04", 1.0), metric("M05", 0.0)]
    assert [m.id for m in lowest_metrics(rows)] == ["M05", "M03", "M01"]
    assert [m.id for m in lowest_metrics(rows[3:4])] == ["M38"]


def test_sentences_come_from_the_evidence():
    data = fake.make_report()
    assert sentence(metric("M08", 0.4), data) == \
        "the largest walkable area is 19.2 of 44.7\u00a0m²; 3 components"
    assert sentence(metric("M12", 0.9), data) == "8 of 65 steps leave the world, first at step 7"
    assert sentence(metric("M25", 0.7), data).startswith("4 of 6 plates stayed; 1 dropped")
    assert sentence(metric("M38", 0.7), data) == "6 of 8 locations are usable; 9 places were probed"
    assert "of all pixels show nothing; most in the view at 110° (" in sentence(metric("M07", 0.9), data)


def test_sentences_fall_back():
    bare = ReportData("t", "w")
    assert sentence(metric("M08", 0.4, why="Said already."), bare) == "Said already."
    assert sentence(metric("M08", 0.4, components={"largest_area": 22.5, "settings": {}}), bare) == "largest area 22.50"
    assert sentence(metric("M08", 0.0, reason="navmesh_build_failed"), bare) == "navmesh build failed"
    assert sentence(metric("M08", 0.4, counts={"frames": 3}), bare) == "3 frames"
    assert "see its row" in sentence(metric("M08", 0.4), bare)
    lost = ReportData("t", "w", trials=[TrialRow(0, False, ("no_collision_geometry",), None, None, None, None)])
    assert sentence(metric("M25", 0.0), lost) == "0 of 1 plates stayed; 1 no collision geometry"


def test_faces_are_in_the_order_of_the_probes():
    assert FACES == ("front", "right", "back", "left", "up", "down")


@pytest.mark.parametrize(("x", "text"), [(1.0, "1"), (-0.001, "0"), (12.346, "12.35"), (0.1, "0.1"), (100.0, "100")])
def test_num(x, text):
    assert num(x) == text


def test_tags_are_escaped():
    assert str(tag("a", class_='"><script>')) == '<a class="&#34;&gt;&lt;script&gt;"></a>'
