"""What a run scores with: learned scorers and a judge, opened once in a process and lent to every world."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from spatialbench.errors import BackendUnavailableError, ConfigError, UsageError
from spatialbench.observe.context import ScorerAccess
from spatialbench.runs.judge_calls import journalled
from spatialbench.runs.lending import LentJudge, LentScorers
from spatialbench.runs.scorer_service.client import ServedScorers, ServiceTicket
from spatialbench.scorers.judge import JudgeSession, answers_text, doubts, judge_settings, open_judge
from spatialbench.scorers.registry import ScorerBox, scorer_specs
from spatialbench.scorers.settings import ScorerSettings, scorer_settings
from spatialbench.scorers.weights import weights_command
from spatialbench.scorers.worker.files import read_workers
from spatialbench.types import Measurement, Protocol

__all__ = ["LentJudge", "Scoring", "check_scoring", "check_substitutes", "judge_texts", "named_folder",
           "open_judge_of", "open_scorers", "scorers_used"]

_VERIFY = re.compile(r"spatialbench weights verify(?=[^ \w-]|$)")
"""Without ids or options behind it."""


@dataclass(frozen=True)
class Scoring:
    """What a user can say about scorers; nothing of it changes what is measured, only whether and where.

    Attributes
    ----------
    weights, device, workers, offline : as ``scorer_settings`` takes them; None: what the environment says.
    judge : judge file; None: what the environment says.
    judge_cache : ``refresh`` asks everything anew, ``off`` neither looks up nor keeps answers.
    max_cost : the judge stops before the call that could pass it; with ``calls`` of one world, else of the process.
    judge_dry_run : ask the judge nothing, and say what it would take.
    service : scorers are asked of this service; None: they are opened in this process.
    calls : file in which calls of the judge are noted (``judge_calls``); None: nowhere.
    """

    weights: Path | None = None
    device: str | None = None
    workers: Path | None = None
    offline: bool | None = None
    judge: Path | None = None
    judge_cache: Literal["use", "refresh", "off"] = "use"
    max_cost: float | None = None
    judge_dry_run: bool = False
    service: ServiceTicket | None = None
    calls: Path | None = None

    @property
    def settings(self) -> ScorerSettings:
        """Of the scorers."""
        return scorer_settings(self.weights, self.device, self.workers, self.offline)

    def sent(self, workers: int = 1) -> dict[str, Any]:
        """As JSON types, for a worker process; of several without ``calls`` each may spend its part of the money."""
        cost = None if self.max_cost is None else self.max_cost / workers
        paths = {k: None if (p := getattr(self, k)) is None else str(p.absolute())
                 for k in ("weights", "workers", "judge")}
        return {**paths, "device": self.device, "offline": self.offline, "judge_cache": self.judge_cache,
                "max_cost": cost, "judge_dry_run": self.judge_dry_run}

    @staticmethod
    def received(data: Mapping[str, Any]) -> Scoring:
        """What ``sent`` has made."""
        paths = {k: None if data.get(k) is None else Path(data[k]) for k in ("weights", "workers", "judge", "calls")}
        service = data.get("service")
        return Scoring(**{**data, **paths, "service": None if service is None else ServiceTicket(**service)})


_BOXES: dict[ScorerSettings, ScorerBox] = {}
_SERVED: dict[ServiceTicket, ServedScorers] = {}
_LENT: dict[ScorerSettings, LentScorers] = {}
_JUDGES: dict[tuple[Scoring, str], JudgeSession | str] = {}


def open_scorers(scoring: Scoring) -> LentScorers:
    """The scorers of this process, or of the service, for one world: what one has loaded, the next one finds."""
    settings = scoring.settings
    _LENT[settings] = LentScorers(_box_of(scoring, settings))
    return _LENT[settings]


def _box_of(scoring: Scoring, settings: ScorerSettings) -> ScorerBox | ServedScorers:
    if settings not in _BOXES:
        _BOXES[settings] = ScorerBox(settings)
    if scoring.service is None:
        return _BOXES[settings]
    if scoring.service not in _SERVED:  # the first unit, or the service was started again
        for served in _SERVED.values():
            served.close()
        _SERVED.clear()
        _SERVED[scoring.service] = ServedScorers(scoring.service, _BOXES[settings])
    _SERVED[scoring.service].renew()
    return _SERVED[scoring.service]


def open_judge_of(scoring: Scoring, protocol: Protocol) -> LentJudge | str:
    """The judge of this process, or why there is none.

    Raises
    ------
    MissingInputError, ConfigError, UsageError : something in its configuration is wrong.
    """
    most = scoring.max_cost
    if most is not None and scoring.calls is not None:
        most = 0.0  # there is a cap; what it is differs between worlds, and is said to the session's budget below
    key = (replace(scoring, service=None, calls=None, max_cost=most), protocol.judge.model_dump_json())
    if key not in _JUDGES:
        try:
            _JUDGES[key] = open_judge(protocol.judge, judge_settings(scoring.judge), cache=scoring.judge_cache,
                                      max_cost=most, dry_run=scoring.judge_dry_run)
        except BackendUnavailableError as error:
            _JUDGES[key] = str(error)
    session = _JUDGES[key]
    if isinstance(session, str):
        return session
    if scoring.calls is not None:
        journalled(session).begin(scoring.calls, scoring.max_cost)
    return LentJudge(session, replace(session.tally))


def check_scoring(scoring: Scoring, protocol: Protocol) -> None:
    """What would only come out after the world has been looked at: a folder, device or file that is none, a cap on
    cost that cannot be kept. Nothing is opened, loaded or asked. What is merely not here is left to the metrics.

    Raises
    ------
    MissingInputError, ConfigError, UsageError
    """
    settings = scoring.settings
    if scoring.weights is not None and not os.path.isdir(scoring.weights):
        raise UsageError("is no folder that can be entered", where=f"--weights {scoring.weights}",
                         todo="Give the folder that 'spatialbench weights fetch --dir' has filled, or leave it out")
    if scoring.workers is not None and settings.workers is not None:
        read_workers(settings.workers)
    with suppress(BackendUnavailableError):
        open_judge(protocol.judge, judge_settings(scoring.judge), cache="off", max_cost=scoring.max_cost,
                   dry_run=True).close()


def judge_texts(judge: LentJudge | None) -> dict[str, str]:
    """Files of a result: ``judge.jsonl`` with all answers, raw and read; empty where nothing was asked."""
    return {"judge.jsonl": answers_text(judge.answers)} if judge is not None and judge.answers else {}


def scorers_used(scorers: Scoring | ScorerAccess | None, judge: LentJudge | None) -> dict[str, Any]:
    """What ``run.json`` says of the scorers that a world was measured with, and of the judge that answered.

    Parameters
    ----------
    scorers : what the world was lent; a ``Scoring``: what the last world of this process was.
    """
    out: dict[str, Any] = {}
    lent = _LENT.get(scorers.settings) if isinstance(scorers, Scoring) else scorers
    if used := getattr(lent, "identity", None):
        out["scorers"] = used
    if judge is not None and judge.answers:
        backend = judge.session.backend
        out["judge"] = {"model": backend.model, "endpoint": backend.endpoint, "doubts": doubts(judge.answers)}
    return out


def named_folder(measurements: Iterable[Measurement], scoring: Scoring) -> list[Measurement]:
    """Reasons that tell to verify weights, with the command as it is to be typed for this weights folder."""
    command = weights_command("verify", scoring.settings.weights)
    return [m.model_copy(update={"reason": _VERIFY.sub(lambda _: command, m.reason)})
            if _VERIFY.search(m.reason) else m for m in measurements]


def check_substitutes(protocol: Protocol) -> None:
    """Whether each stand-in of the protocol is one for the scorer that it replaces.

    Raises
    ------
    ConfigError
    """
    specs = scorer_specs()
    for official, other in protocol.scorers.substitutes.items():
        fit = [s.id for s in specs.values() if s.stands_in_for == official]
        if other not in fit:
            raise ConfigError(f"'{other:.60}' is no stand-in for '{official:.60}'", where="scorers.substitutes",
                              todo=f"There are: {', '.join(fit)}" if fit else "There is none for it")
