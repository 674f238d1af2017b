"""Masks, lifted points and crops of objects, against other libraries and by hand."""

from __future__ import annotations

import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from spatialbench.metrics.object_pixels import fitted_mask, lifted, object_crop, polygon_mask
from spatialbench.types import Camera, level_pose

UNIT = st.floats(0, 1, width=32)


def test_polygon_takes_the_pixels_whose_centre_is_inside():
    mask = polygon_mask([(0.0, 0.0), (0.5, 0.0), (0.5, 0.25), (0.0, 0.25)], 8, 8)
    assert mask.sum() == 8
    assert mask[:2, :4].all()
    assert not polygon_mask([(0.01, 0.01), (0.04, 0.01), (0.04, 0.04)], 8, 8).any()
    assert polygon_mask([(0, 0), (1, 0), (1, 1), (0, 1)], 5, 3).all()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(UNIT, UNIT), min_size=3, max_size=3))
def test_triangles_against_shapely(corners):
    """Centres nearer to an edge than 1e-6 pixels may fall to either side."""
    width, height = 23, 17
    mask = polygon_mask(corners, width, height)
    shape = shapely.Polygon(np.array(corners, float) * [width, height])
    y, x = np.mgrid[:height, :width] + 0.5
    points = shapely.points(x.ravel(), y.ravel())
    clear = shapely.distance(shape.boundary, points) > 1e-6
    inside = shapely.contains(shapely.make_valid(shape), points)
    assert (mask.ravel() == inside)[clear].all()


def test_a_polygon_that_crosses_itself_is_even_odd():
    bow = [(0.0, 0.0), (1.0, 1.0), (1.0, 0.0), (0.0, 1.0)]  # two triangles that meet in the middle, left and right
    mask = polygon_mask(bow, 10, 10)
    assert mask[5, 0]
    assert mask[5, 9]
    assert not mask[0, 5]
    assert not mask[9, 5]


def test_a_mask_is_fitted_by_the_pixel_under_each_centre():
    mask = np.array([[True, False], [False, True]])
    assert fitted_mask(mask, 4, 4).tolist() == np.kron(mask, np.ones((2, 2), bool)).tolist()
    big = np.kron(mask, np.ones((3, 3), bool))
    assert fitted_mask(big, 2, 2).tolist() == mask.tolist()


def test_lifted_points_lie_on_their_rays_at_their_depth():
    camera = Camera.from_fov(level_pose((1.0, 2.0, 3.0), 90.0), 90.0, 4, 4)  # looks along +X, f = 2
    depth = np.full((4, 4), 5.0, np.float32)
    points = lifted(np.array([[0, 3], [2, 1]]), depth, camera)
    # pixel (3.5, 0.5): 0.75 right (that is -Y) and 0.75 up a metre of depth
    assert points == pytest.approx(np.array([[6.0, 2 - 3.75, 3 + 3.75], [6.0, 2 + 1.25, 3 - 1.25]]))


def test_crop_is_padded_clipped_and_filled_with_the_mean_colour():
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (300, 400, 3), dtype=np.uint8)
    mask = np.zeros((300, 400), bool)
    mask[2:250, 100:340] = True
    mask[10:20, 110:120] = False
    crop = object_crop(image, mask)
    assert crop.shape == (258, 256, 3)  # rows 0 to 257 (clipped above), columns 92 to 347
    inside = mask[0:258, 92:348]
    assert (crop[inside] == image[0:258, 92:348][inside]).all()
    mean = np.rint(image[mask].astype(float).mean(axis=0))
    assert (crop[~inside] == mean).all()


def test_a_small_crop_is_enlarged_to_a_short_side_of_224_bicubic():
    rng = np.random.default_rng(1)
    image = rng.integers(0, 256, (100, 100, 3), dtype=np.uint8)
    mask = np.zeros((100, 100), bool)
    mask[40:60, 30:54] = True
    crop = object_crop(image, mask)  # 36 x 40 before
    assert crop.shape == (224, 249, 3)  # 224 * 40 / 36 = 248.9
    filled = np.where(mask[..., None], image, np.rint(image[mask].mean(axis=0)).astype(np.uint8))[32:68, 22:62]
    expected = Image.fromarray(filled).resize((249, 224), Image.Resampling.BICUBIC)
    assert (crop == np.asarray(expected)).all()


def test_a_crop_of_one_colour_stays_of_one_colour():
    image = np.full((50, 50, 3), (200, 10, 30), np.uint8)
    image[:10] = 77
    mask = np.zeros((50, 50), bool)
    mask[20:30, 20:30] = True
    crop = object_crop(image, mask)
    assert crop.shape == (224, 224, 3)
    assert (crop == (200, 10, 30)).all()


def test_a_mask_of_one_pixel_in_the_corner():
    image = np.zeros((20, 20, 3), np.uint8)
    mask = np.zeros((20, 20), bool)
    mask[0, 19] = True
    assert object_crop(image, mask, padding=0, side=1).shape == (1, 1, 3)
    assert object_crop(image, mask).shape == (224, 224, 3)
