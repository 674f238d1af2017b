"""Pictures of plate trials show the plate where it is, from a side that nothing hides."""

from __future__ import annotations

import numpy as np
import pytest

from spatialbench.renderers import open_renderer
from spatialbench.report.plates import plate_mesh, plate_pictures
from spatialbench.types import PlacementSettings, RenderSettings, TrialResult
from tests.analytic import Soup

S = PlacementSettings()
LEVEL = (0.0, 0.0, 0.0, 1.0)


def result(id: int, release: tuple[float, float, float], rest: tuple[float, float, float]) -> TrialResult:
    return TrialResult(id, True, (), 0.75, 0.0, 0.0, 0.0, 0.0, 0.0, release, rest, LEVEL, 0.0)


def blue(image: np.ndarray) -> np.ndarray:
    c = image.astype(int)
    return (c[..., 2] > 80) & (c[..., 2] > 1.5 * c[..., 0]) & (c[..., 2] > 1.2 * c[..., 1])


def test_the_plate_mesh_is_the_cylinder() -> None:
    import trimesh

    m = plate_mesh(S)
    solid = trimesh.Trimesh(m.vertices, m.faces, process=False)
    assert solid.is_watertight
    assert solid.is_winding_consistent
    # A 48-gon's area is n/2 sin(2 pi/n) r^2 = 0.99715 of the disc's.
    assert solid.volume == pytest.approx(24 * np.sin(np.pi / 24) * 0.11**2 * 0.02, rel=1e-9)


def test_pictures_show_the_plate_where_it_is() -> None:
    s = Soup()
    s.box((-3, -3, -0.1), (3, 3, 0.0))
    s.box((-0.7, -0.4, 0.72), (0.7, 0.4, 0.75))
    s.box((-0.7, -0.4, 1.1), (0.7, 0.4, 1.13))  # a shelf that hides it from steeply above
    world = open_renderer(s.mesh(), RenderSettings())
    trials = [result(0, (0.0, 0.1, 0.77), (0.0, 0.1, 0.76)), result(1, (0.6, 0.1, 0.77), (0.9, 0.1, 0.01))]
    pictures = plate_pictures(world, trials, S)
    for release, rest in pictures:
        assert release.shape == rest.shape == (240, 320, 3)
        row, column = (np.median(k) for k in np.nonzero(blue(release)))
        assert abs(column - 160) < 8, "the camera looks at the plate"
        assert abs(row - 120) < 8
        # 0.95 m away, 160 / tan(20 deg) = 440 px: a disc of 0.11 m has pi (50.9 px)^2 = 8140 px face on, and no
        # less than sin(35 deg) of it from the lowest side, of which a tenth may be hidden.
        assert blue(release).sum() > 0.85 * 8140 * np.sin(np.radians(35))
    release, rest = pictures[0]
    assert (blue(release) & blue(rest)).sum() > 0.8 * blue(release).sum()
    release, rest = pictures[1]
    assert (blue(release) & blue(rest)).sum() < 0.2 * blue(release).sum()
    again = plate_pictures(world, trials, S)
    assert all((a == b).all() for p, q in zip(pictures, again, strict=True) for a, b in zip(p, q, strict=True))


def test_no_trial_no_picture() -> None:
    s = Soup()
    s.box((-1, -1, 0), (1, 1, 1))
    assert plate_pictures(open_renderer(s.mesh(), RenderSettings()), [], S) == []
