"""What rays meet in images, against the ray caster on the same surface."""

from __future__ import annotations

import math

import numpy as np

from spatialbench.renderers import open_renderer
from spatialbench.renderers.raycast import MeshRayCaster
from spatialbench.types.protocol_rules import ScaleRule
from spatialbench.world.decide import level_rotation
from spatialbench.world.probe import enclosure_at, level_ranges, nine_rays
from spatialbench.world.sight import RenderedSight
from tests import analytic as A
from tests.splats import splat_mesh

Z = np.array([0.0, 0.0, 1.0])
LEVEL = level_rotation(Z, (0, 1, 0))


def test_images_of_a_mesh_say_what_rays_say() -> None:
    room = A.table_room()
    cast, seen = MeshRayCaster(room.vertices, room.faces), RenderedSight(open_renderer(room), Z)
    np.testing.assert_allclose(nine_rays(seen, A.EYE, LEVEL, ScaleRule()), nine_rays(cast, A.EYE, LEVEL, ScaleRule()),
                               rtol=1e-6)
    a, b = level_ranges(seen, A.EYE, LEVEL), level_ranges(cast, A.EYE, LEVEL)
    # The nearest pixel is half a pixel, 1/512, away at most; a wall met at 45 degrees or steeper moves by that share
    # of the range, twice that where it is the diagonal of a pixel. Corners may fall on the other wall.
    assert (np.abs(a - b) <= b * 2 * math.sqrt(2) / 512).mean() > 0.97


def test_what_is_seen_of_splats_is_the_surface_they_lie_on() -> None:
    room = A.table_room()
    sight = RenderedSight(open_renderer(splat_mesh(room)), Z)
    # Centres lie on the floor: the median depth is theirs, to float32.
    rays = nine_rays(sight, A.EYE, LEVEL, ScaleRule())
    np.testing.assert_allclose(rays, 1.6, rtol=1e-5)
    e, front = enclosure_at(sight, A.EYE, LEVEL, 25.0)
    assert (e, front) == (1.0, None)


def test_nothing_is_met_where_nothing_is_and_at_any_reach() -> None:
    sight = RenderedSight(open_renderer(splat_mesh(A.open_plane(4.0), 0.2)), Z)
    assert np.isinf(level_ranges(sight, A.EYE, LEVEL)).all()
    e, _ = enclosure_at(sight, A.EYE, LEVEL, math.inf)
    # Down by 0.35 rad the floor would be met 4.4 m away, outside 2 m: only the ray straight down meets it.
    assert e == 1 / 50


def test_rays_of_several_places_and_any_length() -> None:
    room = A.box_room()
    sight = RenderedSight(open_renderer(room), Z)
    hits = sight.first_hits([[0, 0, 1.6], [0, 0, 1.0], [0, 0, 1.6]], [[0, 0, -2.0], [0, 0, -0.1], [0, 0, 5]])
    np.testing.assert_allclose(hits.distance, [1.6, 1.0, 1.1], rtol=1e-6)
    assert hits.hit.all()


def test_up_may_be_any_axis() -> None:
    room = A.box_room()
    turned = room.transformed(np.array([[0, 0, 1.0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1]]))  # up is now +X
    up = np.array([1.0, 0, 0])
    sight = RenderedSight(open_renderer(turned), up)
    rays = nine_rays(sight, [1.6, 0, 0], level_rotation(up, (0, 1, 0)), ScaleRule())
    np.testing.assert_allclose(rays, 1.6, rtol=1e-6)
