"""Pictures of trials: what carries a plate is seen, whichever way its faces are wound."""

from __future__ import annotations

import numpy as np
import pytest

from spatialbench.physics.placement import plate
from spatialbench.physics.placement.studio import CHUNK, Studio, plan_camera, project
from spatialbench.types import PlacementSettings
from tests.physics.placement_scenes import sheet


@pytest.mark.parametrize("turned", [False, True])
def test_a_single_sheet_is_seen_from_above_on_either_side(turned: bool) -> None:
    v, f = sheet(-0.5, -0.3, 0.5, 0.3, 0.75)
    camera = plan_camera((-1.0, -0.75, 1.0, 0.75), 0.75, (200, 150))
    with Studio(v, f[:, ::-1] if turned else f, plate(PlacementSettings()), 0.6) as studio:
        picture = studio.picture(camera, (0.2, 0.0, 0.76, 0.0, 0.0, 0.0, 1.0)).astype(int)

    def at(x: float, y: float) -> np.ndarray:
        i, j = project(camera, [[x, y, 0.75]])[0, :2].astype(int)
        return picture[j, i]

    r, g, b = at(-0.3, 0.1)
    assert r > g > b, "sand"
    assert r > b + 20
    assert (at(-0.8, 0.5) > 240).all(), "nothing is beside it"
    r, g, b = at(0.2, 0.0)
    assert b > r + 80, "the plate is blue"


def test_the_largest_piece_keeps_pybullets_limit() -> None:
    assert CHUNK * 6 <= 131_072
