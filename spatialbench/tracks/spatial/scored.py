"""How metrics reach learned scorers: the official one, or the stand-in that the protocol names, which is flagged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spatialbench.errors import BackendUnavailableError, UsageError
from spatialbench.observe import Observations
from spatialbench.scorers.catalogue import JUDGE
from spatialbench.scorers.registry import scorer_spec
from spatialbench.types import SnapshotCase
from spatialbench.types.scoring import substitute_flag

__all__ = ["NEEDS", "VERIFY", "case_of", "checked_ratings", "directed", "lacking", "need", "rated", "substitutes",
           "the_scorer", "truncates"]

NEEDS = {"text": "the case gives no scene description ('text')",
         "image": "the case gives no input image ('image')",
         "categories": "the case requests no object categories ('categories')",
         "objects": "the case annotates no objects ('objects')"}
VERIFY = "Verify its weights: spatialbench weights verify"
"""What to do about a model that gives what it cannot."""


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


def need(obs: Observations, *ids: str, todo: str = "") -> None:
    """Raises ``BackendUnavailableError`` when one of them cannot be used; ``todo`` says what would stand in for it."""
    if why := lacking(obs, *ids):
        raise BackendUnavailableError(why, todo=todo)


def the_scorer(obs: Observations, id: str) -> Any:
    """The scorer, or its stand-in.

    Raises
    ------
    BackendUnavailableError
    """
    need(obs, id)
    assert obs.context.scorers is not None
    return obs.context.scorers.get(_used(obs, id))


def rated(obs: Observations, id: str, images: Sequence[NDArray[np.uint8]], text: str = "") -> NDArray[np.float64]:
    """[N] ratings of N images by a scorer, or its stand-in.

    Raises
    ------
    BackendUnavailableError : it cannot be used, or gives something else than N numbers.
    """
    return checked_ratings(obs, id, the_scorer(obs, id).rate(images, text), len(images))


def checked_ratings(obs: Observations, id: str, ratings: ArrayLike, count: int) -> NDArray[np.float64]:
    """What a scorer gave as [count] finite numbers; raises ``BackendUnavailableError`` for anything else."""
    found = np.asarray(ratings, dtype=np.float64)
    if found.shape != (count,):
        raise BackendUnavailableError(f"{_used(obs, id)} gave ratings of the shape {found.shape} for {count} images",
                                      todo=VERIFY)
    if not np.isfinite(found).all():
        raise BackendUnavailableError(f"{_used(obs, id)} gave a rating that is not finite", todo=VERIFY)
    return found


def directed(obs: Observations, id: str, vectors: ArrayLike) -> NDArray[np.float32]:
    """Embeddings [N,D] that have a direction; raises ``BackendUnavailableError`` where one is zero or not finite."""
    found = np.asarray(vectors, dtype=np.float32)
    lengths = np.linalg.norm(found.astype(np.float64), axis=-1)
    if not (np.isfinite(lengths) & (lengths > 0)).all():
        raise BackendUnavailableError(f"{_used(obs, id)} gave an embedding that is zero or not finite", todo=VERIFY)
    return found


def truncates(detector: Any, text: str) -> bool:
    """Whether a detector looks only at the beginning of a text; one that does not say so reads all of it."""
    cut = getattr(detector, "truncates", None)
    return bool(cut is not None and cut(text))


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
