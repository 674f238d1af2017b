"""Finding PyBullet, and pictures from it."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from spatialbench.errors import BackendUnavailableError
from spatialbench.physics.placement import Release, backend, placement_backend_status, run_trials, trial_pictures
from spatialbench.types import PlacementSettings, Support
from tests.physics.placement_scenes import FLAT, join, rectangle, sheet

S = PlacementSettings()


def test_status_names_the_version() -> None:
    usable, text = placement_backend_status()
    assert usable
    assert text.startswith("pybullet")
    assert any(c.isdigit() for c in text)


@pytest.mark.parametrize(("system", "machine", "python", "advice"), [
    ("linux", "x86_64", (3, 11), "pip install 'pybullet>=3.2.7'"),
    ("linux", "x86_64", (3, 13), "pip install 'pybullet-arm64>=3.2.8'"),
    ("darwin", "arm64", (3, 11), "pip install 'pybullet-arm64>=3.2.8'"),
    ("linux", "aarch64", (3, 11), "no wheel for Linux on this processor"),
])
def test_missing_pybullet_says_what_to_install_here(monkeypatch: pytest.MonkeyPatch, system: str, machine: str,
                                                   python: tuple[int, int], advice: str) -> None:
    monkeypatch.setattr(backend, "_module", None)
    monkeypatch.setitem(sys.modules, "pybullet", None)
    monkeypatch.setattr(backend.sys, "platform", system)
    monkeypatch.setattr(backend.platform, "machine", lambda: machine)
    monkeypatch.setattr(backend.sys, "version_info", (*python, 0))
    usable, text = placement_backend_status()
    assert not usable
    assert advice in text
    with pytest.raises(BackendUnavailableError):
        run_trials(*sheet(-1, -1, 1, 1, 0), [Release(0, (0, 0, 1), FLAT, 1)], rectangle(-1, -1, 1, 1), S)


def test_c_text_does_not_reach_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    p = backend.load_pybullet()
    with backend.bullet_client() as (_, client):
        print("before")
        with backend.quiet(), pytest.raises(p.error):
            p.createCollisionShape(p.GEOM_MESH, vertices=[[0, 0, 0]] * 131_073, indices=[0, 1, 2], flags=1,
                                   physicsClientId=client)
        print("after")
    assert capfd.readouterr() == ("before\nafter\n", "")


def orange(image: np.ndarray) -> np.ndarray:
    c = image.astype(int)
    return (c[..., 0] > 100) & (c[..., 0] > 1.8 * c[..., 1]) & (c[..., 1] > c[..., 2])


def test_pictures_show_the_plate_where_it_is() -> None:
    # A table below a shelf that hides it from above; the third plate misses the table.
    v, f = join(sheet(-0.7, -0.4, 0.7, 0.4, 0.75), sheet(-3, -3, 3, 3, 0.0), sheet(-0.7, -0.4, 0.7, 0.4, 1.1))
    f[2:4] = f[2:4, ::-1]  # a floor that looks down is drawn all the same
    releases = [Release(i, (x, 0.1, 0.77), FLAT, 0.75) for i, x in enumerate((0.0, 0.4, 0.85))]
    s = Support("s", rectangle(-0.7, -0.4, 0.7, 0.4), 0.75, (0, 0, 0.75), 1.12, "case")
    results = run_trials(v, f, releases, s, S)
    assert [r.success for r in results] == [True, True, False]
    pictures = trial_pictures(v, f, results, s, S)
    assert len(pictures) == 3
    for release, rest in pictures:
        assert release.shape == rest.shape == (240, 320, 3)
        assert release.dtype == rest.dtype == np.uint8
        row, column = (np.median(k) for k in np.nonzero(orange(release)))
        assert abs(column - 160) < 8  # it is what the camera looks at
        assert abs(row - 120) < 8
        # At 0.9 m and 240 / (2 tan 25 deg) = 257 px a disc of 0.11 m spans pi (31.5 px)^2 = 3100 px face on,
        # a third of that at the lowest view, 20 degrees.
        assert orange(release).sum() > 0.9 * 3100 * np.sin(np.radians(20))
    for release, rest in pictures[:2]:  # these hardly move
        assert (orange(release) & orange(rest)).sum() > 0.9 * orange(release).sum()
    release, rest = pictures[2]
    assert (orange(release) & orange(rest)).sum() < 0.5 * orange(release).sum()
    again = trial_pictures(v, f, results, s, S)
    assert all((a == b).all() for p, q in zip(pictures, again, strict=True) for a, b in zip(p, q, strict=True))


def test_pictures_take_face_colours_and_a_size() -> None:
    v, f = join(sheet(-0.7, -0.4, 0.7, 0.4, 0.75), sheet(-3, -3, 3, 3, 0.0))
    colors = np.array([[0.1, 0.2, 0.9]] * 2 + [[0.1, 0.8, 0.1]] * 2)
    s = Support("s", rectangle(-0.7, -0.4, 0.7, 0.4), 0.75, (0, 0, 0.75), 1.12, "case")
    results = run_trials(v, f, [Release(0, (0, 0, 0.77), FLAT, 0.75)], s, S)
    ((release, _),) = trial_pictures(v, f, results, s, S, colors=colors, size=(160, 90))
    assert release.shape == (90, 160, 3)
    mean = release[~orange(release)].reshape(-1, 3).mean(axis=0)
    assert mean[2] > 1.5 * mean[0]  # mostly the blue table
    assert trial_pictures(v, f, [], s, S) == []
