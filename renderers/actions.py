"""Timed paths by held keys: the grammar of actions, and where a camera is at each sample.

Z up, X right, Y forward; yaw 0 looks along +Y and grows clockwise seen from above, pitch grows upwards.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spatialbench.types import Pose, level_pose

__all__ = ["LOOK_KEYS", "MAX_SAMPLES", "MOVE_KEYS", "TimedPath", "action_path", "held_keys", "parse_actions"]

MOVE_KEYS = {"W": (0, 1), "S": (0, -1), "A": (-1, 0), "D": (1, 0)}
"""Steps to the right and forward."""
LOOK_KEYS = {"Left": (-1, 0), "Right": (1, 0), "Up": (0, 1), "Down": (0, -1)}
"""Signs of yaw and pitch."""
MAX_SAMPLES = 100_000
"""Of one path."""
_MOST_SEGMENTS = 10_000
_LETTERS = {"I": "Up", "K": "Down", "J": "Left", "L": "Right", "↑": "Up", "↓": "Down", "←": "Left", "→": "Right"}
_WORDS = {"forward": "W", "backward": "S", "yaw_left": "Left", "yaw_right": "Right", "pitch_up": "Up",
          "pitch_down": "Down", "stop": "", "none": "", "idle": "", "wait": "",
          **{f"{before}{key.lower()}": key for key in LOOK_KEYS for before in ("", "mouse_", "cam_", "look_")}}
_KEY = r"[^\s\d.,:;+]+"
_SEGMENT = re.compile(rf"[\s,;]*({_KEY}(?:\s*\+\s*{_KEY})*)(?:\s*:\s*|[^\S\n]*)(\d+\.?\d*|\.\d+)?(?=[\s,;]|$)[\s,;]*")
_TODO = "known are W, A, S, D, Left, Right, Up, Down and idle"


@dataclass(frozen=True, eq=False)
class TimedPath:
    """A camera's timed walk with free motion (spec 2.2, equations 28 and 29).

    Attributes
    ----------
    times : [T] float64 seconds, first 0.
    positions : [T,3] float64, relative to the start; places visited twice are equal to the last bit.
    keys : T-1 strings, the keys held from each sample on.
    yaws, pitches : [T] float64 degrees.
    """

    times: NDArray[np.float64]
    positions: NDArray[np.float64]
    keys: tuple[str, ...]
    yaws: NDArray[np.float64]
    pitches: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.times)

    def poses(self, start: ArrayLike = (0.0, 0.0, 0.0)) -> list[Pose]:
        """Pose of every sample of a walk that starts at a place [3]."""
        return [level_pose(p, float(y), float(e)) for p, y, e in
                zip(self.positions + np.asarray(start, dtype=np.float64), self.yaws, self.pitches, strict=True)]


def held_keys(text: str) -> tuple[str, ...]:
    """Keys of one action, each once, in the order written: ``WD``, ``W+Left``, ``Mouse_Up``; none for ``idle`` or "".

    Keys are joined by ``+`` or blanks, letters need neither. Besides W, A, S, D and Left, Right, Up, Down there are
    forward, backward, I J K L, arrows, and Mouse_, look_, cam_, yaw_ and pitch_ before a direction, in any case.

    Raises
    ------
    ValueError : an unknown key, by name.
    """
    out: list[str] = []
    for word in text.replace("+", " ").split():
        known = _WORDS.get(word.lower())
        if known is not None:
            out += [known] if known else []
            continue
        for letter in word:
            key = _LETTERS.get(letter.upper(), letter.upper())
            if key not in MOVE_KEYS and key not in LOOK_KEYS:
                raise ValueError(f"unknown key '{word[:40] if len(word) > 2 else letter}', {_TODO}")
            out.append(key)
    return tuple(dict.fromkeys(out))


def parse_actions(text: str) -> list[tuple[str, float]]:
    """(keys, seconds) of each segment of ``W2, W+D1.5, Left:3, idle 1``; a segment without a number lasts a second.

    Segments are separated by commas, semicolons, line breaks or blanks.

    Raises
    ------
    ValueError : an unknown key, a segment that is none, none at all, or more than 10,000.
    """
    if len(text) > 100 * _MOST_SEGMENTS:
        raise ValueError(f"has more than {_MOST_SEGMENTS:,} segments")
    out: list[tuple[str, float]] = []
    at = 0
    while at < len(text):
        found = _SEGMENT.match(text, at)
        if found is None:
            raise ValueError(f"'{text[at:at + 40].strip()}' is no segment such as W2, W+D1.5, Left:3 or idle1")
        held_keys(found[1])
        out.append((found[1], 1.0 if found[2] is None else float(found[2])))
        at = found.end()
    if not 1 <= len(out) <= _MOST_SEGMENTS:
        raise ValueError(f"has {len(out):,} segments, 1 to {_MOST_SEGMENTS:,} are walked")
    return out


def action_path(segments: Iterable[tuple[str, float]], speed: float, samples_per_second: float,
                turn_rate: float = 45.0) -> TimedPath:
    """Samples of a walk by held keys, ``t = 0`` included (OPEN-12a, b, d).

    The heading is the yaw alone: who looks up or down still walks on the level. Times, angles and displacements along
    one heading are summed as exact fractions of the decimal numbers given and rounded once, which is what makes
    revisited places equal to the last bit; a walk that turns is an arc in closed form. Two keys that move are
    normalised to unit speed; opposite keys stand still. Pitch stops at 90 degrees. A last interval shorter than a
    sample is not sampled.

    Parameters
    ----------
    segments : (keys, seconds) in order; keys as ``held_keys`` reads them.
    speed : m/s.
    samples_per_second : sampling rate.
    turn_rate : degrees per second of a look key.

    Raises
    ------
    ValueError : an unknown key, a number that is not positive, or more than ``MAX_SAMPLES`` samples.
    """
    legs = [(held_keys(keys), _exact(seconds)) for keys, seconds in segments]
    rate, v, turn = _exact(samples_per_second), _exact(speed), _exact(turn_rate)
    if rate <= 0 or v <= 0 or turn <= 0 or any(s <= 0 for _, s in legs):
        raise ValueError("speed, samples_per_second, turn_rate and every segment's seconds must be positive")
    total = sum((s for _, s in legs), Fraction(0))
    if total * rate >= MAX_SAMPLES:
        raise ValueError(f"the path has {float(total * rate):.3g} samples, at most {MAX_SAMPLES:,} can be looked at")
    walk, leg, into = _Walk(v, turn), 0, Fraction(0)
    rows, keys = [], []
    for k in range(math.floor(total * rate) + 1):
        left = Fraction(k) / rate - walk.time
        while leg < len(legs) and left > 0:
            spent = min(left, legs[leg][1] - into)
            walk.hold(legs[leg][0], spent)
            left, into = left - spent, into + spent
            if into == legs[leg][1]:
                leg, into = leg + 1, Fraction(0)
        rows.append((float(walk.time), *walk.place(), 0.0, float(walk.yaw), float(walk.pitch)))
        keys.append(_written(legs[leg][0]) if leg < len(legs) else "")
    table = np.array(rows, dtype=np.float64)
    return TimedPath(table[:, 0], table[:, 1:4], tuple(keys[:-1]), table[:, 4], table[:, 5])


class _Walk:
    """Where the walker is after the time so far; all but arcs exact.

    ``sums`` holds displacements by (heading modulo 90 degrees, whether two keys were held), in quarter turns of that
    heading: right and forward.
    """

    def __init__(self, speed: Fraction, turn: Fraction) -> None:
        self.speed, self.turn = speed, turn
        self.time = self.yaw = self.pitch = Fraction(0)
        self.sums: dict[tuple[Fraction, bool], list[Fraction]] = {}
        self.arcs = (0.0, 0.0)

    def hold(self, keys: Sequence[str], seconds: Fraction) -> None:
        x, y = (sum(MOVE_KEYS[k][i] for k in keys if k in MOVE_KEYS) for i in (0, 1))
        yaw, pitch = (sum(LOOK_KEYS[k][i] for k in keys if k in LOOK_KEYS) for i in (0, 1))
        ahead = self.yaw + yaw * self.turn * seconds
        if (x or y) and yaw:
            self._arc(x, y, ahead, yaw)
        elif x or y:
            quarter, rest = divmod(self.yaw, 90)
            for _ in range(int(quarter) % 4):
                x, y = y, -x
            into = self.sums.setdefault((rest, bool(x and y)), [Fraction(0), Fraction(0)])
            into[0] += x * seconds
            into[1] += y * seconds
        self.yaw = ahead
        self.pitch = max(Fraction(-90), min(Fraction(90), self.pitch + pitch * self.turn * seconds))
        self.time += seconds

    def _arc(self, x: int, y: int, ahead: Fraction, sign: int) -> None:
        """From the yaw so far to ``ahead`` on the circle that speed and turn rate make."""
        radius = float(self.speed) / math.radians(float(self.turn)) * sign
        course = {(0, 1): 0, (1, 1): 45, (1, 0): 90, (1, -1): 135, (0, -1): 180, (-1, -1): 225, (-1, 0): 270,
                  (-1, 1): 315}[x, y]
        (sin0, cos0), (sin1, cos1) = (_direction(self.yaw + course), _direction(ahead + course))
        self.arcs = (self.arcs[0] + radius * (cos0 - cos1), self.arcs[1] + radius * (sin1 - sin0))

    def place(self) -> tuple[float, float]:
        """Right and forward of the start, m."""
        at = self.arcs
        for (rest, two), (right, ahead) in self.sums.items():
            # Rounded once, and then by the same factors at each visit.
            x, y = (float(self.speed * s) * (math.sqrt(0.5) if two else 1.0) for s in (right, ahead))
            sin, cos = _direction(rest)
            at = (at[0] + (x * cos + y * sin), at[1] + (y * cos - x * sin))
        return at


@lru_cache(maxsize=256)
def _direction(degrees: Fraction) -> tuple[float, float]:
    """Sine and cosine of a bearing, exact at quarter turns."""
    quarter, rest = divmod(degrees % 360, 90)
    if rest == 0:
        return ((0.0, 1.0), (1.0, 0.0), (0.0, -1.0), (-1.0, 0.0))[int(quarter)]
    angle = math.radians(float(degrees % 360))
    return math.sin(angle), math.cos(angle)


def _written(keys: Sequence[str]) -> str:
    moves = "".join(k for k in keys if k in MOVE_KEYS)
    return "+".join([*([moves] if moves else []), *(k for k in keys if k in LOOK_KEYS)])


def _exact(x: float) -> Fraction:
    """The decimal number that was written, 0.1 rather than its nearest binary fraction."""
    if not math.isfinite(x):
        raise ValueError(f"{x} is not a finite number")
    return Fraction(repr(float(x)))
