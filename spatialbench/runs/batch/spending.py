"""What the judge of a batch was asked and what that cost, kept beside the results; and what each unit may spend.

``judge_usage.jsonl`` has a line for each attempt at a unit that asked the judge. While one runs, its worker notes its
calls in a file of ``.judge-calls`` (``runs.judge_calls``), which is counted whatever becomes of the worker, and of us.
"""

from __future__ import annotations

import json
import math
import os
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from spatialbench.errors import ResultError
from spatialbench.runs.judge_calls import read_calls
from spatialbench.runs.lending import LentJudge
from spatialbench.scorers.judge import Tally, doubts

__all__ = ["JudgeUse", "Spending", "asked_json"]

_LEDGER, _CALLS = "judge_usage{}.jsonl", ".judge-calls{}"
_COUNTS = tuple(f.name for f in fields(Tally) if f.name not in ("cost", "saved", "currency"))
_MONEY = ("cost", "saved")


@dataclass
class JudgeUse:
    """What one model was asked at one endpoint, by all workers together.

    Attributes
    ----------
    doubts : warnings about its answers, and of how many units.
    """

    model: str
    endpoint: str
    tally: Tally = field(default_factory=Tally)
    doubts: Counter[str] = field(default_factory=Counter)


class Spending:
    """The ledger of one call of a batch. Use it from one thread, while the folder is held.

    Parameters
    ----------
    out : result folder.
    most : cap on all that the batch has cost in this folder, whenever it was; None: there is none.
    suffix : of a shard, which counts for itself alone; empty for a whole batch, to which its shards count.
    """

    def __init__(self, out: Path, most: float | None = None, suffix: str = "") -> None:
        self._out, self._most, self._suffix = out, most, suffix
        self._ledger = out / _LEDGER.format(suffix)
        self._folder = out.absolute() / _CALLS.format(suffix)
        self._spent = 0.0
        self._known: set[str] = set()
        self._open: dict[str, tuple[Path, float]] = {}
        self._attempts: Counter[str] = Counter()
        self._uses: dict[tuple[str, str, str], JudgeUse] = {}

    @property
    def spent(self) -> float:
        """All that is known to have been spent, in the currency of the price file."""
        return self._spent

    @property
    def most(self) -> float | None:
        """The cap."""
        return self._most

    @property
    def uses(self) -> list[JudgeUse]:
        """Of this call of the batch, by model and endpoint."""
        return [use for _, use in sorted(self._uses.items())]

    def start(self) -> None:
        """Read what was spent before, also by workers that were killed with their batch.

        Raises
        ------
        ResultError : the ledger is damaged, or cannot be read or written.
        """
        try:
            _mend(self._ledger)
            ledgers = [self._ledger] if self._suffix else sorted(self._out.glob(_LEDGER.format("*")))
            self._spent, self._known = 0.0, set()
            for path in ledgers:
                for line in _lines(path):
                    self._spent += line["spent"]
                    self._known.add(line["file"])
            folders = [self._folder] if self._suffix else sorted(self._out.glob(_CALLS.format("*")))
            for path in sorted(p for folder in folders for p in folder.glob("*.jsonl")):
                self._fold(path, "", 0, "killed", None)
        except OSError as error:
            raise _refused(error, self._ledger) from error

    def lend(self, unit: str, places: int) -> dict[str, Any]:
        """What a unit's worker is told, as ``Scoring.received`` reads it: where it notes its calls, and what they may
        cost: a part of what is left for each of so many units that may run at a time."""
        path = self._folder / f"{secrets.token_hex(8)}.jsonl"
        self._attempts[unit] += 1
        if self._most is None:
            self._open[unit] = path, 0.0
            return {"calls": str(path)}
        left = max(0.0, self._most - self._spent)
        part = max(0.0, min(left / max(1, places), left - math.fsum(lent for _, lent in self._open.values())))
        self._open[unit] = path, part
        return {"calls": str(path), "max_cost": part}

    def settle(self, unit: str, end: str, asked: Mapping[str, Any] | None) -> None:
        """An attempt at a unit has ended.

        Parameters
        ----------
        asked : what its worker said of it (``asked_json``); None: nothing, as after a crash.

        Raises
        ------
        ResultError : the ledger cannot be written.
        """
        held = self._open.pop(unit, None)
        if held is None:
            return
        try:
            self._fold(held[0], unit, self._attempts[unit], end, asked)
        except OSError as error:
            raise _refused(error, self._ledger) from error

    def close(self) -> None:
        """No worker is left: count what those that were ended had begun.

        Raises
        ------
        ResultError : as ``settle``.
        """
        for unit in list(self._open):
            self.settle(unit, "ended", None)
        with suppress(OSError):  # it was not made, or something is left in it
            os.rmdir(self._folder)

    def _fold(self, path: Path, unit: str, attempt: int, end: str, asked: Mapping[str, Any] | None) -> None:
        """Into the ledger, and then away with the file: an interruption counts nothing twice, and loses nothing."""
        calls = read_calls(path)
        if path.name not in self._known and (calls.calls or _any(asked)):
            told = _checked(asked) if asked is not None else None
            tally = told.tally if told is not None else Tally(
                calls=calls.calls, input=calls.input, output=calls.output, cost=calls.spent if calls.spent else None,
                currency=calls.currency or Tally.currency)
            use = told or JudgeUse(calls.model, calls.endpoint)
            line = {"time": datetime.now(timezone.utc).isoformat(timespec="seconds"), "unit": unit, "attempt": attempt,
                    "end": end, "model": use.model, "endpoint": use.endpoint, "spent": calls.spent, "file": path.name,
                    **asdict(tally)}
            with open(self._ledger, "a", encoding="utf-8", newline="\n") as f:
                f.write(json.dumps(line) + "\n")
                f.flush()
                os.fsync(f.fileno())
            self._known.add(path.name)
            self._spent += calls.spent
            if unit:
                self._add(use.model, use.endpoint, tally, use.doubts)
        path.unlink(missing_ok=True)

    def _add(self, model: str, endpoint: str, tally: Tally, warned: Counter[str]) -> None:
        use = self._uses.setdefault((model, endpoint, tally.currency),
                                    JudgeUse(model, endpoint, Tally(currency=tally.currency)))
        for name in _COUNTS:
            setattr(use.tally, name, getattr(use.tally, name) + getattr(tally, name))
        for name in _MONEY:
            both = [x for x in (getattr(use.tally, name), getattr(tally, name)) if x is not None]
            setattr(use.tally, name, math.fsum(both) if both else None)
        use.doubts += warned


def asked_json(judge: LentJudge) -> dict[str, Any]:
    """What a worker says of a unit's judge: who was asked, counts, money, doubts. JSON types."""
    backend = judge.session.backend
    return {"model": backend.model, "endpoint": backend.endpoint, "tally": asdict(judge.tally),
            "doubts": doubts(judge.answers)}


def _checked(asked: Mapping[str, Any]) -> JudgeUse:
    """From a worker's message, of which nothing is believed but numbers and texts."""
    said = asked.get("tally")
    said = said if isinstance(said, Mapping) else {}
    counts: dict[str, Any] = {k: v for k in _COUNTS if isinstance(v := said.get(k), int) and v >= 0}
    money: dict[str, Any] = {k: float(v) for k in _MONEY
                             if isinstance(v := said.get(k), int | float) and math.isfinite(v)}
    warned = asked.get("doubts")
    return JudgeUse(str(asked.get("model", "")), str(asked.get("endpoint", "")),
                    Tally(**counts, **money, currency=str(said.get("currency", Tally.currency))),
                    Counter(map(str, warned)) if isinstance(warned, list) else Counter())


def _any(asked: Mapping[str, Any] | None) -> bool:
    return asked is not None and any(getattr(_checked(asked).tally, k) for k in _COUNTS)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """Lines of a ledger; the last may be being written by a shard that was stopped."""
    if not path.exists():
        return
    with open(path, encoding="utf-8", errors="replace") as f:
        for number, text in enumerate(f, start=1):
            if not text.endswith("\n"):
                return
            try:
                line = json.loads(text)
                spent, file = line["spent"], line["file"]
                if not (isinstance(spent, int | float) and math.isfinite(spent) and spent >= 0
                        and isinstance(file, str)):
                    raise ValueError
            except (ValueError, KeyError, TypeError, RecursionError):
                raise ResultError("is no line of what a judge has cost", where=f"{path}, line {number}",
                                  todo="Move the file away; what is in it then counts no more for --max-cost") from None
            yield line


def _mend(path: Path) -> None:
    """Cut off a line that was not finished; the file of calls that it is about is still there."""
    if not path.exists():
        return
    with open(path, "r+b") as f:
        size = f.seek(0, os.SEEK_END)
        at = size
        while at:
            f.seek(at - 1)
            if f.read(1) == b"\n":
                break
            at -= 1
        if at < size:
            f.truncate(at)


def _refused(error: OSError, path: Path) -> ResultError:
    return ResultError(f"cannot be read or written: {error.strerror}", where=str(error.filename or path),
                       todo="Free some space or choose another folder with -o")

