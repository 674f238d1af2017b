"""Calls of a judge that costs money, written down by the process that makes them: before each, and after it.

So the batch knows what a worker has spent that was killed in the middle of a unit. A file holds the calls of one
attempt at one unit, as lines of JSON: ``{"call", "amount"}`` before a call and ``{"call", "spent", "input", "output"}``
after it, and in the first who is asked. Amounts are in the currency of the price file; without a price they are 0.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spatialbench.errors import BackendUnavailableError
from spatialbench.scorers.judge import JudgeSession
from spatialbench.scorers.judge.contract import Usage
from spatialbench.scorers.judge.cost import Budget, Price

__all__ = ["Calls", "JournalBudget", "journalled", "read_calls"]


@dataclass(frozen=True)
class Calls:
    """What a file of calls says.

    Attributes
    ----------
    calls, input, output : calls that were begun, and the tokens of those that came back.
    spent : of all of them; of a call of which nothing is known, what was set aside for it.
    model, endpoint, currency : who was asked; empty when nobody was.
    """

    calls: int = 0
    input: int = 0
    output: int = 0
    spent: float = 0.0
    model: str = ""
    endpoint: str = ""
    currency: str = ""


class JournalBudget(Budget):
    """A budget for one unit after another, of which every reservation is on the disk before the call is made."""

    def __init__(self, price: Price | None, model: str, endpoint: str, currency: str) -> None:
        super().__init__(None, price)
        self._who = {"model": model, "endpoint": endpoint, "currency": currency}
        self._path: Path | None = None
        self._file = -1
        self._token, self._begun = "", 0
        self._amounts: dict[float, list[str]] = {}
        self._noting = threading.RLock()

    def begin(self, path: Path, most: float | None) -> None:
        """Another unit: its calls go to ``path``, and may cost ``most``, less what is in there already (of a worker
        that was lost with its machine)."""
        with self._noting:
            self._close()
            self._path, self._token, self._begun, self._amounts = path, secrets.token_hex(4), 0, {}
            self.most = None if most is None else self.spent + max(0.0, most - read_calls(path).spent)

    def reserve(self, estimate: Usage) -> float | None:
        """As of ``Budget``.

        Raises
        ------
        BackendUnavailableError : it cannot be written down; then the call must not be made.
        """
        with self._noting:
            amount = super().reserve(estimate)
            if amount is not None and self._path is not None:
                name = f"{self._token}.{self._begun}"
                self._begun += 1
                self._amounts.setdefault(amount, []).append(name)
                try:
                    self._write(call=name, amount=amount)
                    os.fsync(self._file)
                except OSError as error:
                    raise BackendUnavailableError(
                        f"the judge's calls cannot be written down ({error.strerror})", where=str(self._path),
                        todo="Free some space, and run the same command again") from None
            return amount

    def settle(self, reserved: float, estimate: Usage, used: Usage | None, billed: bool = False) -> None:
        """As of ``Budget``."""
        with self._noting:
            before = self.spent
            super().settle(reserved, estimate, used, billed)
            if names := self._amounts.get(reserved):
                tokens = used or Usage()
                with contextlib.suppress(OSError):  # then what was set aside for it counts
                    self._write(call=names.pop(), spent=self.spent - before, input=tokens.input,
                                output=tokens.output)

    def _write(self, **line: Any) -> None:
        if self._file < 0:
            assert self._path is not None
            self._path.parent.mkdir(parents=True, exist_ok=True)
            how = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
            self._file = os.open(self._path, how, 0o666)
            line = {**self._who, **line}
            if os.fstat(self._file).st_size:
                os.write(self._file, b"\n")  # what a worker before was killed in may be cut off
        os.write(self._file, json.dumps(line).encode() + b"\n")

    def _close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def journalled(session: JudgeSession) -> JournalBudget:
    """The budget of a session, made to be a ``JournalBudget``."""
    budget = session.budget
    if not isinstance(budget, JournalBudget):
        session.budget = budget = JournalBudget(session.price, session.backend.model, session.backend.endpoint,
                                                session.tally.currency)
    return budget


def read_calls(path: Path) -> Calls:
    """What is in a file of calls; nothing where there is none. Its last line may be cut off: then the call that it is
    about was not made, or what was set aside for it counts."""
    costs: dict[str, float] = {}
    tokens: dict[str, tuple[int, int]] = {}
    who = {"model": "", "endpoint": "", "currency": ""}
    for line in _lines(path):
        name, amount = str(line.get("call")), line.get("spent", line.get("amount"))
        if isinstance(amount, int | float) and math.isfinite(amount) and amount >= 0:
            costs[name] = float(amount)
            counts = [line.get(k) for k in ("input", "output")]
            tokens[name] = tuple(n if isinstance(n, int) and n >= 0 else 0 for n in counts)  # type: ignore[assignment]
        who = {k: str(line.get(k, v)) for k, v in who.items()}
    return Calls(len(costs), sum(i for i, _ in tokens.values()), sum(o for _, o in tokens.values()),
                 math.fsum(costs.values()), **who)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            for text in f:
                try:
                    line = json.loads(text)
                except (ValueError, RecursionError):
                    continue
                if isinstance(line, dict):
                    yield line
    except FileNotFoundError:
        return
