"""How metrics reach learned scorers: the official one, or the stand-in that the protocol names, which is flagged."""

from __future__ import annotations

from typing import Any

from spatialbench.errors import BackendUnavailableError, UsageError
from spatialbench.observe import Observations
from spatialbench.scorers.catalogue import JUDGE
from spatialbench.scorers.registry import scorer_spec
from spatialbench.types import SnapshotCase
from spatialbench.types.scoring import substitute_flag

__all__ = ["NEEDS", "case_of", "lacking", "need", "substitutes", "the_scorer"]

NEEDS = {"text": "the case gives no scene description ('text')",
         "image": "the case gives no input image ('image')",
         "categories": "the case requests no object categories ('categories')",
         "objects": "the case annotates no objects ('objects')"}


def lacking(obs: Observations, *ids: str) -> str:
    """Why a metric that needs these scorers is unavailable; empty when all can be used. Loads nothing."""
    words = []
    for id in ids:
        if id == JUDGE:
            if isinstance(obs.context.judge, str):
                words.append(f"needs a judge (such as {obs.protocol.judge.model}): {obs.context.judge}")
            continue
        used, access = _used(obs, id), obs.context.scorers
        try:
            if why := "no scorers are open" if access is None else access.lacking(used):
                words.append(f"needs {scorer_spec(used).model}: {why}")
        except UsageError as error:
            words.append(str(error))
    return "; ".join(words)


def need(obs: Observations, *ids: str) -> None:
    """Raises ``BackendUnavailableError`` when one of them cannot be used."""
    if why := lacking(obs, *ids):
        raise BackendUnavailableError(why)


def the_scorer(obs: Observations, id: str) -> Any:
    """The scorer, or its stand-in.

    Raises
    ------
    BackendUnavailableError
    """
    need(obs, id)
    assert obs.context.scorers is not None
    return obs.context.scorers.get(_used(obs, id))


def substitutes(obs: Observations, *ids: str) -> tuple[str, ...]:
    """Flags of a value that was made with these scorers: one for each that was replaced."""
    judged = JUDGE in ids and getattr(obs.context.judge, "substitute", False)
    return (*(substitute_flag(used) for id in ids if id != JUDGE and (used := _used(obs, id)) != id),
            *((substitute_flag(JUDGE),) if judged else ()))


def case_of(obs: Observations) -> SnapshotCase | None:
    """The case of one world."""
    return obs.context.case if isinstance(obs.context.case, SnapshotCase) else None


def _used(obs: Observations, id: str) -> str:
    return obs.protocol.scorers.substitutes.get(id, id)
