"""What one world is lent of the scorers and the judge that a process has open, and what of it the world has used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from spatialbench.errors import BackendUnavailableError
from spatialbench.runs.scorer_service.client import ServedScorers
from spatialbench.scorers.judge import Answer, JudgeSession, Question, Tally
from spatialbench.scorers.registry import ScorerBox

__all__ = ["LentJudge", "LentScorers", "tally_since"]


class LentScorers:
    """A ``ScorerAccess`` for one world: what other worlds of the process have opened is no part of its result.

    Parameters
    ----------
    box : of the process, or of the service.
    """

    def __init__(self, box: ScorerBox | ServedScorers) -> None:
        self._box = box
        self._used: set[str] = set()

    def lacking(self, id: str) -> str:
        """Why a scorer cannot be used, or nothing; loads nothing."""
        return self._box.lacking(id)

    def get(self, id: str) -> Any:
        """The scorer, opened if it has not been.

        Raises
        ------
        BackendUnavailableError : it cannot be used; says why and what to do.
        UsageError : no such scorer.
        """
        scorer = self._box.get(id)
        self._used.add(id)
        return scorer

    @property
    def identity(self) -> dict[str, dict[str, str]]:
        """As ``ScorerBox.identity``, of those that this world has asked for."""
        return {id: about for id, about in self._box.identity.items() if id in self._used}


class LentJudge:
    """A ``Judge`` for one world: asks the session, and keeps every answer for the result.

    Parameters
    ----------
    since : what the session had done before.

    Attributes
    ----------
    answers : all that were given, in the order they were asked for.
    """

    def __init__(self, session: JudgeSession, since: Tally | None = None) -> None:
        self.session = session
        self.answers: list[Answer] = []
        self._since = Tally() if since is None else since
        self._failed = ""

    @property
    def substitute(self) -> bool:
        """Whether another model is asked than the protocol's."""
        return self.session.substitute

    @property
    def lacked(self) -> bool:
        """Whether it could not be used, or left a question without an answer."""
        return bool(self._failed) or any(a.status != "answered" for a in self.answers)

    @property
    def tally(self) -> Tally:
        """What this world has asked for, of all that the session has."""
        return tally_since(self.session.tally, self._since)

    def ask(self, questions: Sequence[Question]) -> list[Answer]:
        """As ``Judge.ask``; a judge that could not be used is not tried again for the same world."""
        if self._failed:
            raise BackendUnavailableError(self._failed)
        try:
            answers = self.session.ask(questions)
        except BackendUnavailableError as error:
            self._failed = str(error)
            raise
        self.answers += answers
        return answers


def tally_since(now: Tally, before: Tally) -> Tally:
    """What was added to a tally."""
    added: dict[str, Any] = {f.name: value - (getattr(before, f.name) or 0) for f in fields(Tally)
                             if isinstance(value := getattr(now, f.name), int | float)}
    return replace(now, **added)
