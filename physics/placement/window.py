"""PyBullet's window for a set of trials, in a process of its own: PyBullet ends that instead of raising errors."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import BackendUnavailableError
from spatialbench.physics.placement.backend import load_pybullet
from spatialbench.physics.placement.outline import Boundary
from spatialbench.physics.placement.release import Release
from spatialbench.physics.placement.simulate import CROP_MARGIN, near_faces
from spatialbench.physics.placement.static_scene import check_mesh, with_area
from spatialbench.physics.placement.workers import end_words, start_process, write_job
from spatialbench.types.placement import PlacedObject, PlacementSettings, TrialResult

__all__ = ["WINDOW", "check_display", "show_trials", "write_window_job"]

WINDOW = "spatialbench.physics.placement.window_process"
_TODO = "Run it on a desktop, with 'ssh -X', or under Xvfb ('xvfb-run -s \"-screen 0 1280x800x24\"'); the pictures " \
        "of -o need no display"


def check_display() -> None:
    """Whether PyBullet could open a window; without a display it would end the process.

    Raises
    ------
    BackendUnavailableError : no display, or none that answers; or no PyBullet.
    """
    load_pybullet()
    if not sys.platform.startswith("linux"):
        return
    name = os.environ.get("DISPLAY", "")
    if not name:
        raise BackendUnavailableError("there is no display (DISPLAY is not set)", where="--gui", todo=_TODO)
    with contextlib.suppress(OSError):  # without the library PyBullet's own process says so
        x11 = ctypes.CDLL("libX11.so.6")
        x11.XOpenDisplay.restype = ctypes.c_void_p
        x11.XOpenDisplay.argtypes = [ctypes.c_char_p]
        x11.XCloseDisplay.argtypes = [ctypes.c_void_p]
        display = x11.XOpenDisplay(None)
        if not display:
            raise BackendUnavailableError(f"the display '{name[:60]}' does not answer", where="--gui", todo=_TODO)
        x11.XCloseDisplay(display)


def show_trials(vertices: NDArray[np.float64], faces: NDArray[np.int64], boundary: Boundary,
                trials: Sequence[TrialResult], settings: PlacementSettings, placed: PlacedObject) -> None:
    """Play trials in a window until the user closes it.

    Keys: space plays and pauses, S makes one step, R replays, N and P go to the next and previous trial, Q ends.

    Raises
    ------
    BackendUnavailableError : no display, or the window's process ended by itself.
    """
    check_display()
    with tempfile.TemporaryDirectory(prefix="spatialbench-window-") as name:
        write_window_job(Path(name), vertices, faces, boundary, trials, settings, placed)
        process = start_process(WINDOW, Path(name))
        try:
            _, _ = process.communicate()
        except BaseException:
            process.kill()
            process.communicate()
            raise
    if process.returncode != 0:
        raise BackendUnavailableError(f"PyBullet's window {end_words(process.returncode)}", where="--gui",
                                      todo="It needs OpenGL 3; the pictures of -o do not")


def write_window_job(folder: Path, vertices: NDArray[np.float64], faces: NDArray[np.int64], boundary: Boundary,
                     trials: Sequence[TrialResult], settings: PlacementSettings, placed: PlacedObject) -> None:
    """Put what the window's process needs into an empty folder: the very scene that was simulated."""
    shown = [t for t in trials if not t.error]
    releases = [Release(t.id, t.release_centre, t.release_quaternion, t.surface_z) for t in trials]
    v, f = check_mesh(vertices, faces)
    f = near_faces(v, with_area(v, f), boundary, releases, CROP_MARGIN)
    rows = [{"id": t.id, "centre": t.release_centre, "quaternion": t.release_quaternion, "surface_z": t.surface_z,
             "success": t.success, "verdict": _verdict(t)} for t in shown]
    rings = [boundary.outline.tolist(), *(h.tolist() for h in boundary.holes)]
    write_job(folder, v, f, settings, placed, trials=rows, rings=rings)


def _verdict(t: TrialResult) -> str:
    if t.success:
        return f"stays: drop {t.drop * 1000:.1f} mm, tilt {t.tilt_deg:.1f} deg"
    return "fails: " + ", ".join(reason.replace("_", " ") for reason in t.reasons)
