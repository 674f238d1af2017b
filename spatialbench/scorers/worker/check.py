"""Whether a worker keeps the protocol: ``python -m spatialbench.scorers.worker.check ID [--scorer-workers FILE]``.

Starts the worker as scoring would, asks it what scoring could ask, and says line by line what was right. Ends with 0
when all was.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import BackendUnavailableError, SpatialbenchError, UsageError
from spatialbench.scorers.registry import scorer_specs
from spatialbench.scorers.settings import ScorerSettings, scorer_settings
from spatialbench.scorers.worker.declared import SPECS as OURS
from spatialbench.scorers.worker.declared import open_worker, reference_command
from spatialbench.scorers.worker.files import WorkerCommand, command_of
from spatialbench.scorers.worker.protocol import Capability
from spatialbench.scorers.worker.scene import DISTANCE, make_clip

__all__ = ["Outcome", "check_worker", "main"]

_REPEATS = 1e-3
"""How far two answers to one question may differ, relative to the largest value: a GPU's sums need not repeat."""
_TRACKED = 0.05
"""Of the distance: how far points of a world at rest may move (median)."""
_SAME = 8.0
"""Grey values: mean difference of an image between two equal ones, from those."""

_REFUSES = "the worker cannot do this"


class _Wrong(Exception):
    """A check failed."""


@dataclass(frozen=True)
class Outcome:
    """One check: its name, whether it was right, and what was seen."""

    name: str
    right: bool
    note: str = ""


def check_worker(scorer: str, plan: WorkerCommand, gives: Capability, device: str = "auto") -> Iterator[Outcome]:
    """Each check as it is done; the first that fails to start the worker is the last."""
    start = time.monotonic()
    try:
        adapter = open_worker(scorer, gives, plan, device)
    except SpatialbenchError as error:
        yield Outcome("starts and describes itself", False, str(error))
        return
    try:
        yield Outcome("starts and describes itself", True, f"{time.monotonic() - start:.1f} s; "
                      + ", ".join(f"{k} {v}" for k, v in adapter.identity.items()))
        for name, work in {"tracks": _tracks, "depth": _depth, "frames": _frames}[gives](adapter):
            yield _outcome(name, work)
        yield _outcome("says 'unsupported' to what it does not know", lambda: _unknown(adapter))
        yield _outcome("ends by itself, with 0, when its input ends", lambda: _ends(adapter))
    finally:
        adapter.close()


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m spatialbench.scorers.worker.check",
                                     description="Check whether a worker keeps the protocol (docs/workers.md).")
    parser.add_argument("scorer", metavar="ID", help="scorer that it works for, such as tapip3d")
    parser.add_argument("--scorer-workers", type=Path, metavar="FILE", help="default: SPATIALBENCH_WORKERS")
    parser.add_argument("--device", help="handed on to the worker [auto]")
    told = parser.parse_args(argv)
    try:
        gives, plan, settings = _plan(told.scorer, scorer_settings(device=told.device, workers=told.scorer_workers))
    except SpatialbenchError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    bad = 0
    for outcome in check_worker(told.scorer, plan, gives, settings.device):
        bad += not outcome.right
        sys.stdout.write(f"{'ok  ' if outcome.right else 'FAIL'}  {outcome.name}"
                         f"{': ' if outcome.note else ''}{outcome.note}\n")
        sys.stdout.flush()
    sys.stdout.write("the worker keeps the protocol\n" if not bad else f"{bad} checks failed\n")
    return 1 if bad else 0


def _plan(scorer: str, settings: ScorerSettings) -> tuple[Any, WorkerCommand, ScorerSettings]:
    spec = {s.id: s for s in OURS} | dict(scorer_specs())
    if scorer not in spec or spec[scorer].gives not in ("tracks", "depth", "frames"):
        raise UsageError(f"no worker's scorer '{scorer:.60}'",
                         todo=f"Known: {', '.join(s.id for s in OURS)}")
    reference = scorer.startswith("reference_") and scorer in {s.id for s in OURS}
    plan = reference_command() if reference else command_of(scorer, settings, verify=True)
    return spec[scorer].gives, plan, settings


def _outcome(name: str, work: Callable[[], str]) -> Outcome:
    try:
        return Outcome(name, True, work())
    except (SpatialbenchError, _Wrong) as error:
        return Outcome(name, False, str(error))


def _tracks(adapter: Any) -> Iterator[tuple[str, Callable[[], str]]]:
    clip = make_clip(5, 256, 192)

    def asked() -> NDArray[Any]:
        return np.asarray(adapter.track(clip.frames, clip.depth, clip.cameras, clip.points))

    def truth() -> str:
        off = np.linalg.norm(asked() - clip.points, axis=2)
        _must(bool(np.isfinite(off).any()), "all points are lost")
        middle = float(np.nanmedian(off))
        _must(middle <= _TRACKED * DISTANCE, f"they move by {middle:.3f} m (median), at {DISTANCE} m")
        return f"median {middle:.4f} m at {DISTANCE} m; {int(np.isnan(off).sum())} of {off.size} positions lost"

    def size(width: int, height: int, count: int, points: int) -> str:
        c = make_clip(count, width, height, points)
        adapter.track(c.frames, c.depth, c.cameras, c.points)
        return f"{count} frames of {width}x{height}, {points} points"

    yield "points of a world at rest stay", truth
    yield "the same question has the same answer", lambda: _repeats([asked(), asked()])
    yield "takes sizes that are no multiple of anything", lambda: size(67, 45, 3, 3)
    yield "takes a single frame and a single point", lambda: size(128, 96, 1, 1)


def _depth(adapter: Any) -> Iterator[tuple[str, Callable[[], str]]]:
    clip = make_clip(12, 256, 192)

    def known() -> str:
        found = adapter.estimate(clip.frames)
        share = float((found.depth > 0).mean())
        _must(share > 0.5, f"depth is known for {share:.0%} of the pixels of a plane")
        return f"known for {share:.0%} of {found.depth.shape[2]}x{found.depth.shape[1]}; metric: {found.metric}"

    def same() -> str:
        a, b = adapter.estimate(clip.frames), adapter.estimate(clip.frames)
        return max(_repeats([a.depth, b.depth]), _repeats([a.poses, b.poses]), _repeats([a.intrinsics, b.intrinsics]))

    def size(width: int, height: int, count: int) -> str:
        adapter.estimate(make_clip(count, width, height).frames)
        return f"{count} frames of {width}x{height}"

    yield "gives depth, poses and intrinsics", known
    yield "the same question has the same answer", same
    yield "takes sizes that are no multiple of anything", lambda: size(167, 145, 12)
    yield "takes a single frame, or says that it cannot", lambda: _or_refuses(lambda: size(256, 192, 1))


def _frames(adapter: Any) -> Iterator[tuple[str, Callable[[], str]]]:
    a, b = make_clip(2, 256, 192).frames

    def still() -> str:
        middle = adapter.between(a, a, 1)[0]
        off = float(np.abs(middle.astype(float) - a).mean())
        _must(off <= _SAME, f"between two equal images lies another (mean difference {off:.1f} of 255)")
        return f"mean difference {off:.2f} of 255"

    def size(width: int, height: int, count: int) -> str:
        c = make_clip(2, width, height).frames
        adapter.between(c[0], c[1], count)
        return f"{count} between two of {width}x{height}"

    yield "between two equal images lies the same", still
    yield "the same question has the same answer", lambda: _repeats(
        [np.stack(adapter.between(a, b, 1)), np.stack(adapter.between(a, b, 1))])
    yield "takes sizes that are no multiple of anything", lambda: size(67, 45, 1)
    yield "gives several between two, or says that it cannot", lambda: _or_refuses(lambda: size(128, 96, 3))


def _must(right: bool, otherwise: str) -> None:
    if not right:
        raise _Wrong(otherwise)


def _or_refuses(work: Callable[[], str]) -> str:
    try:
        return work()
    except BackendUnavailableError as error:
        if _REFUSES not in str(error):
            raise
        return str(error)


def _repeats(two: list[NDArray[Any]]) -> str:
    a, b = (x.astype(np.float64) for x in two)
    if a.tobytes() == b.tobytes():
        return "bit for bit"
    _must(bool((np.isnan(a) == np.isnan(b)).all()), "other points are lost")
    off = float(np.nanmax(np.abs(a - b)) / max(np.nanmax(np.abs(a)), 1e-12))
    _must(off <= _REPEATS, f"it differs by {off:.1e} of the largest value")
    return f"to {off:.1e} of the largest value"


def _unknown(adapter: Any) -> str:
    try:
        adapter.worker.ask("nonsense", {"x": np.zeros(1)}, {}, {})
    except BackendUnavailableError as error:
        _must(_REFUSES in str(error), str(error))
    else:
        _must(False, "it claims to have done it")
    adapter.worker.ask("describe", {}, {}, {})
    return "and goes on"


def _ends(adapter: Any) -> str:
    adapter.worker.ask("describe", {}, {}, {})
    code = adapter.close()
    _must(code == 0, f"it ended with {code}" if code is not None else "it had to be ended")
    return ""


if __name__ == "__main__":
    sys.exit(main())
