"""M25: does a plate stay on the support surface? (eq. 43)."""

from __future__ import annotations

from collections.abc import Sequence

from spatialbench.metrics.ruling import Ruling, ruled

__all__ = ["NO_LOCATION", "NO_MESH", "NO_SCALE", "NO_SUPPORT", "tabletop_ready_rate"]

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
