"""The process behind ``place --gui``: plays trials in PyBullet's window."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.physics.placement.objects import plan_radius
from spatialbench.physics.placement.release import Release
from spatialbench.physics.placement.session import Session, open_session
from spatialbench.physics.placement.studio import BODY_COLOR, CHUNK, LOW_COLOR, SCENE_COLOR, add_picture
from spatialbench.physics.placement.worker import read_job

__all__ = ["Controls", "Window", "dotted", "main"]

OPTIONS = "--width=1280 --height=800 --background_color_red=1 --background_color_green=1 --background_color_blue=1"
_HELP = "space: play/pause   S: step   R: replay   N/P: next/previous trial   Q: quit"
_STRIDE = 4
"""Steps between two pictures: 60 a second at 240 steps."""
_SPACING, _MOST_DOTS = 0.004, 5000
_OUTLINE, _PATH, _CONTACT = (0.05, 0.15, 0.7), (0.9, 0.5, 0.0), (0.9, 0.0, 0.4)
_GOOD, _BAD, _TEXT = (0.05, 0.5, 0.2), (0.8, 0.1, 0.1), (0.1, 0.1, 0.1)
Color = tuple[float, float, float]


@dataclass
class Controls:
    """What the keys have asked for.

    Attributes
    ----------
    trial : index of the trial that is shown. count : how many there are.
    playing, quit : state. steps : single steps asked for. restart : the trial is to begin anew.
    """

    count: int
    trial: int = 0
    playing: bool = True
    steps: int = 0
    restart: bool = False
    quit: bool = False

    def press(self, keys: Iterable[str]) -> None:
        """Take the keys that went down: ``space``, letters, ``escape``."""
        for key in keys:
            if key == "space":
                self.playing = not self.playing
            elif key == "s":
                self.playing, self.steps = False, self.steps + 1
            elif key == "r":
                self.restart, self.playing = True, True
            elif key in ("n", "p"):
                self.trial = (self.trial + (1 if key == "n" else -1)) % self.count
                self.restart, self.playing = True, True
            elif key in ("q", "escape"):
                self.quit = True


@dataclass(eq=False)
class Window:
    """One set of trials in a session that has a window.

    Attributes
    ----------
    trials : rows of ``write_window_job``. rings : outline of the support and of its holes, in plan.
    body, step : of the trial that is shown.
    """

    session: Session
    trials: list[dict[str, Any]]
    rings: list[list[list[float]]]
    controls: Controls = field(init=False)
    body: int = -1
    step: int = 0
    _items: list[int] = field(default_factory=list)
    _text: int = -1
    _last: tuple[float, ...] = ()
    _contacts: list[int] = field(default_factory=list)
    _held: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        self.controls = Controls(len(self.trials))
        p, c = self.session.p, self.session.client
        for flag in (p.COV_ENABLE_GUI, p.COV_ENABLE_KEYBOARD_SHORTCUTS, p.COV_ENABLE_SHADOWS):
            p.configureDebugVisualizer(flag, 0, physicsClientId=c)

    def draw_scene(self, v: Any, f: Any, level: float) -> None:
        """Show the collision mesh; what is drawn collides with nothing."""
        p, c = self.session.p, self.session.client
        p.configureDebugVisualizer(p.COV_ENABLE_RENDERING, 0, physicsClientId=c)
        for fixed in self.session.scene:  # the window would draw these too, in a colour of its own
            p.changeVisualShape(fixed, -1, rgbaColor=(0, 0, 0, 0), physicsClientId=c)
        low = v[f][:, :, 2].mean(axis=1) < level
        for part, color in ((f[low], LOW_COLOR), (f[~low], SCENE_COLOR)):
            for start in range(0, len(part), CHUNK):
                add_picture(p, c, v, part[start:start + CHUNK], color)
        p.configureDebugVisualizer(p.COV_ENABLE_RENDERING, 1, physicsClientId=c)

    def begin(self) -> None:
        """Show the trial that the controls name, at its release."""
        p, c, t = self.session.p, self.session.client, self.trials[self.controls.trial]
        if self.body >= 0:
            p.removeBody(self.body, physicsClientId=c)
        for item in (*self._items, *self._contacts, *([self._text] if self._text >= 0 else [])):
            p.removeUserDebugItem(item, physicsClientId=c)
        self._items, self._contacts, self._text, self.step = [], [], -1, 0
        release = Release(t["id"], tuple(t["centre"]), tuple(t["quaternion"]), t["surface_z"])
        self.body, _ = self.session.put(release)
        p.changeVisualShape(self.body, -1, rgbaColor=BODY_COLOR, physicsClientId=c)
        self._last = release.centre
        edge = np.vstack([dotted(np.array(ring)) for ring in self.rings])
        self._items.append(self._dots(np.column_stack([edge, np.full(len(edge), t["surface_z"] + 0.003)]), _OUTLINE))
        self._items.append(self._say(_HELP, 0.15, 1.0, _TEXT))
        distance = 9.0 * max(0.06, plan_radius(self.session.placed))
        p.resetDebugVisualizerCamera(distance, 30.0, -35.0, t["centre"], physicsClientId=c)
        self._head()

    def advance(self, steps: int) -> None:
        """Make steps, at most to the trial's end, and draw the path, the contacts and where it stands."""
        s = self.session
        steps = min(steps, s.settings.steps - self.step)
        if steps <= 0:
            return
        for _ in range(steps):
            s.p.stepSimulation(physicsClientId=s.client)
        self.step += steps
        here = s.pose(self.body)[:3]
        if sum((a - b) ** 2 for a, b in zip(here, self._last, strict=True)) > 0.002**2 and len(self._items) < 2000:
            self._items.append(self._line(self._last, here, _PATH))
            self._last = here
        if self.step % 24 < steps or self.over or not self.controls.playing:
            self._draw_contacts()
            self._head()

    @property
    def over(self) -> bool:
        """Whether the trial that is shown has come to its end."""
        return self.step >= self.session.settings.steps

    def run(self) -> None:
        """Until the user ends it."""
        self.begin()
        p, client, parent = self.session.p, self.session.client, os.getppid()
        while not self.controls.quit and os.getppid() == parent and p.isConnected(physicsClientId=client):
            began = time.perf_counter()
            self.controls.press(self._keys())
            if self.controls.restart:
                self.controls.restart = False
                self.begin()
            if self.controls.steps:
                self.advance(self.controls.steps)
                self.controls.steps = 0
            elif self.controls.playing:
                self.advance(_STRIDE)
            rate = self.session.settings.steps_per_second
            time.sleep(max(0.001, _STRIDE / rate - (time.perf_counter() - began)))

    def _keys(self) -> list[str]:
        p = self.session.p
        events: Mapping[int, int] = p.getKeyboardEvents(physicsClientId=self.session.client)
        names = {32: "space", 27: "escape", **{ord(k): k for k in "srnpq"}}
        # A key that went down and up since the last look is only told as released.
        went_down = [k for k, state in events.items() if state & p.KEY_WAS_TRIGGERED
                     or (state & p.KEY_WAS_RELEASED and k not in self._held)]
        self._held = frozenset(k for k, state in events.items() if state & p.KEY_IS_DOWN)
        return [names[k] for k in went_down if k in names]

    def _head(self) -> None:
        t = self.trials[self.controls.trial]
        place = f"trial {t['id']} ({self.controls.trial + 1} of {len(self.trials)})"
        if self.over:
            text, color = f"{place}: {t['verdict']}", _GOOD if t["success"] else _BAD
        else:
            text, color = f"{place}: step {self.step} of {self.session.settings.steps}", _TEXT
        self._text = self._say(text, 0.20, 1.5, color, self._text)

    def _draw_contacts(self) -> None:
        p, c = self.session.p, self.session.client
        for item in self._contacts:
            p.removeUserDebugItem(item, physicsClientId=c)
        self._contacts = []
        points = [k[6] for fixed in self.session.scene
                  for k in p.getContactPoints(self.body, fixed, physicsClientId=c) if k[8] <= 0.001][:40]
        if points:  # a stroke of 4 cm at each, since the body hides the point itself
            strokes = np.array(points)[:, None] + np.linspace(0, 0.04, 21)[:, None] * [0.0, 0.0, 1.0]
            self._contacts = [self._dots(strokes.reshape(-1, 3), _CONTACT)]

    def _line(self, a: Any, b: Any, color: Color) -> int:
        return int(self.session.p.addUserDebugLine(a, b, color, 3, physicsClientId=self.session.client))

    def _dots(self, points: NDArray[np.float64], color: Color) -> int:
        """All at once: a line takes as long as a picture of the window, and outlines have hundreds."""
        return int(self.session.p.addUserDebugPoints(points.tolist(), [color] * len(points), 3,
                                                     physicsClientId=self.session.client))

    def _say(self, text: str, above: float, size: float, color: Color, replace: int = -1) -> int:
        x, y, z = self.trials[self.controls.trial]["centre"]
        more = {"replaceItemUniqueId": replace} if replace >= 0 else {}
        return int(self.session.p.addUserDebugText(text, (x, y, z + above), color, size,
                                                   physicsClientId=self.session.client, **more))


def dotted(ring: NDArray[np.float64]) -> NDArray[np.float64]:
    """[N,2] points at most 4 mm apart, or as many as are drawn fast, along a closed outline [K,2], its corners first
    of each side."""
    d = np.roll(ring, -1, axis=0) - ring
    length = np.hypot(d[:, 0], d[:, 1])
    spacing = max(_SPACING, float(length.sum()) / _MOST_DOTS)
    n = np.maximum(np.ceil(length / spacing).astype(np.int64), 1)
    side = np.repeat(np.arange(len(ring)), n)
    t = (np.arange(len(side)) - np.repeat(np.cumsum(n) - n, n)) / n[side]
    return ring[side] + t[:, None] * d[side]


def main() -> None:
    """Open the window for the job in the folder that the first argument names."""
    v, f, settings, placed, job = read_job(Path(sys.argv[1]))
    with open_session(v, f, settings, placed, window=OPTIONS) as session:
        window = Window(session, job["trials"], job["rings"])
        window.draw_scene(v, f, min(t["surface_z"] for t in job["trials"]) - 0.1)
        window.run()
