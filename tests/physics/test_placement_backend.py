"""Finding PyBullet, and keeping its chatter to itself."""

from __future__ import annotations

import sys

import pytest

from spatialbench.errors import BackendUnavailableError
from spatialbench.physics.placement import Release, backend, placement_backend_status, run_trials
from spatialbench.types import PlacementSettings
from tests.physics.placement_scenes import FLAT, rectangle, sheet

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
