"""Open3D as a second opinion on the same depth images, where it is installed; what is said where it is not."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from spatialbench.errors import BackendUnavailableError
from spatialbench.renderers.backends import open_renderer
from spatialbench.types.protocol_rules import Fusion
from spatialbench.world.fusion import FusedMesh, fuse, open3d_backend
from tests import analytic as A

pytest.importorskip("embreex")

ROOM = np.array([[-3.0, -2.5, 0.0], [3.0, 2.5, 2.7]])
SETTINGS: dict[str, Any] = {"image": 128, "rounds": (3, 4, 4), "backend": "open3d"}
installed = pytest.mark.skipif(find_spec("open3d") is None, reason="Open3D is not installed (extra 'open3d')")


def fused(**settings: Any) -> FusedMesh:
    return fuse(open_renderer(A.box_room()), ROOM[0] - 0.3, ROOM[1] + 0.3, Fusion(**{**SETTINGS, **settings}), A.EYE)


@installed
@pytest.mark.slow
def test_both_find_the_same_room() -> None:
    theirs, ours = fused(), fused(backend="fusion")
    assert theirs.mesh is not None
    assert theirs.quality.backend.startswith("open3d ")
    assert ours.quality.backend == "fusion"
    np.testing.assert_array_equal(theirs.viewpoints, ours.viewpoints)
    assert theirs.quality.free_volume == ours.quality.free_volume
    # The walls, as tests/world/test_fusion.py has them for ours.
    middle, vector = theirs.mesh.triangles.mean(axis=1), theirs.mesh.area_vectors()
    for axis in range(3):
        for side in range(2):
            inner = np.delete((middle > ROOM[0] + 0.2) & (middle < ROOM[1] - 0.2), axis, axis=1).all(axis=1)
            of = inner & (np.abs(middle[:, axis] - ROOM[side, axis]) < 0.3)
            # Of the nearest pixel's depth along the image's axis: pixels are up to 6.5 m / 64 apart on a plane that is
            # met aslant, which ours makes good by the incidence.
            assert np.median(np.abs(middle[of, axis] - ROOM[side, axis])) <= 6.5 / 64 / 2
            seen = np.delete(ROOM[1] - ROOM[0] - 0.4, axis).prod()
            assert np.abs(vector[of, axis].sum()) == pytest.approx(seen, rel=0.05)
    inwards = np.einsum("ij,ij->i", vector, ROOM.mean(axis=0) - middle) > 0
    assert inwards.mean() > 0.99
    assert theirs.quality.holes == pytest.approx(0.0, abs=0.01)


@installed
@pytest.mark.slow
def test_the_same_images_give_the_same_bytes_within_the_grid() -> None:
    one, two = (fused(rounds=(1, 1, 1), image=64) for _ in range(2))
    assert one.mesh is not None
    assert two.mesh is not None
    assert one.mesh.vertices.tobytes() == two.mesh.vertices.tobytes()
    assert one.mesh.faces.tobytes() == two.mesh.faces.tobytes()
    low, high = one.mesh.bounds()
    assert (low >= one.quality.low).all()
    assert (high <= one.quality.high).all()


def test_without_open3d_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open3d_backend, "find_spec", lambda name: None)
    with pytest.raises(BackendUnavailableError, match=r"spatialbench\[open3d\]"):
        fused()


def test_a_library_that_does_not_load_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open3d_backend, "find_spec", lambda name: object())
    monkeypatch.setattr(open3d_backend, "version", lambda name: "0.0")
    real = subprocess.run

    def run(command: list[str], **more: Any) -> Any:
        code = "raise ImportError('libusb-1.0.so.0: cannot open shared object file')"
        return real([sys.executable, "-c", code, *command[2:]], **more)

    monkeypatch.setattr(open3d_backend.subprocess, "run", run)
    with pytest.raises(BackendUnavailableError, match="libusb"):
        fused(rounds=(1,), clearances=(0.3,), image=16)


def test_open3d_is_never_loaded_into_this_process() -> None:
    assert "open3d" not in sys.modules
