"""M25: does a plate stay on the support surface? (eq. 43)."""

from __future__ import annotations

from collections.abc import Sequence

from spatialbench.metrics.ruling import Ruling, no_value, ruled
from spatialbench.types import Status

__all__ = ["NO_LOCATION", "NO_MESH", "NO_SCALE", "NO_SUPPORT", "tabletop_ready_rate", "without_trials"]

NO_MESH = "no_usable_mesh"
NO_SCALE = "no_scale_anchor"
NO_SUPPORT = "no_support_surface"
NO_LOCATION = "no_placement_location"


def tabletop_ready_rate(successes: Sequence[bool], reason: str = NO_LOCATION) -> Ruling:
    """T_i of one support scene: successes over the trials that were kept (not over six).

    Parameters
    ----------
    successes : outcome of every kept trial.
    reason : why there is none, of ``NO_MESH``, ``NO_SCALE``, ``NO_SUPPORT``, ``NO_LOCATION``; used only then.

    Returns
    -------
    A value; 0 by rule with the reason when no trial was kept. A run that was never made is not this
    function's business: it is ``unavailable``.
    """
    if len(successes) == 0:
        return ruled(0.0, reason)
    return ruled(sum(bool(b) for b in successes) / len(successes))


def without_trials(*, mesh: bool, scale: bool, support: bool, annotated: bool) -> Ruling | None:
    """What the rules say of a world on which no trial can even be planned; None where one can.

    Parameters
    ----------
    mesh : there is a collision mesh. scale : lengths are metres. support : there is one.
    annotated : a case names the support, so that its absence is a measured zero.
    """
    if not mesh:
        return ruled(0.0, NO_MESH)
    if not scale:
        return ruled(0.0, NO_SCALE)
    if support:
        return None
    if annotated:
        return ruled(0.0, NO_SUPPORT)
    return no_value(Status.INAPPLICABLE, "no support surface was found, and no case names one")
