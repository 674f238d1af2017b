"""What the gates of a world do to its metrics (design: with a case they only flag)."""

from __future__ import annotations

from spatialbench.observe import Observations, Outcome, invalid

__all__ = ["invalidated", "world_flags"]

_MEANING = {
    "no_interior": "the world has no interior that a camera could stand in",
    "too_blurry_for_geometry": "its splats are too large for their geometry to mean anything",
}


def invalidated(obs: Observations, gates: tuple[str, ...]) -> Outcome | None:
    """The outcome ``invalid`` when one of these gates is up and no case was given, else None.

    With a case the value stays: a bad world must not leave the mean.
    """
    if obs.context.case is not None:
        return None
    for gate in obs.world.gates:
        if gate.raised and gate.name in gates:
            seen = "" if gate.value is None else f" ({gate.value:.2f}, threshold {gate.threshold:.2f})"
            return invalid(f"{gate.name}: {_MEANING[gate.name]}{seen}", flags=(gate.name,))
    return None


def world_flags(obs: Observations) -> tuple[str, ...]:
    """Doubts about the world that every measured metric of it carries."""
    world = obs.world
    flags = list(world.raised())
    if not world.scale.protocol:
        flags.append("scale_overridden")
    elif world.scale.branch == "depth":
        flags.append("scale_fallback")
    elif world.scale.branch == "failed":
        flags.append("no_scale_anchor")
    return tuple(flags)
