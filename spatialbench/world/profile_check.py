"""An exporter's conventions are checked against the file before they are believed (design section 7)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from spatialbench.types import Decision, Protocol, Scene
from spatialbench.types.profile import ExporterProfile
from spatialbench.world.camera import InitialCamera, try_origin
from spatialbench.world.decide import CONFIDENCE, default_forward, prior_up
from spatialbench.world.interior import analyse_interior
from spatialbench.world.subject import Subject
from spatialbench.world.up import axis_words

__all__ = ["checked_up", "profile_camera"]


def checked_up(scene: Scene, subject: Subject, up: NDArray[np.float64], decision: Decision, unit_m: float | None,
               protocol: Protocol) -> tuple[NDArray[np.float64], Decision, list[str]]:
    """The profile's up axis [3], or the format's where the file speaks for that one, and words about it.

    The profile is refused where the format's axis has more than ``finding.warn_ratio`` times the evidence of a room
    (E of real-worlds.md section 5b) that the profile's has. Decisions of other sources pass.
    """
    prior, by_prior = prior_up(scene)
    if decision.source != "profile" or prior @ up > 1 - 1e-9:
        return up, decision, []
    surfels = subject.surfels(unit_m or 1.0, protocol.finding)
    told, usual = (analyse_interior(surfels, axis, protocol.finding).evidence for axis in (up, prior))
    if not usual > protocol.finding.warn_ratio * told:
        return up, decision, []
    words = (f"the profile says that up is {axis_words(up)}, but the file looks as if it were {axis_words(prior)}, as "
             f"{scene.report.format} files are by convention (E = {usual:.3g} against {told:.3g}): the profile's axis "
             "was not taken; --up decides")
    return prior, by_prior, [words]


def profile_camera(profile: ExporterProfile, subject: Subject, up: NDArray[np.float64], unit_m: float | None,
                   protocol: Protocol) -> tuple[InitialCamera | None, list[str]]:
    """The initial camera that the profile gives, or None where it gives none or the file's origin fails the gates."""
    if profile.camera is None:
        return None, []
    trial = try_origin(subject, up, unit_m, protocol)
    if trial.reason:
        return None, [f"the profile puts the initial camera at the file's origin, but there {trial.reason}: it was not "
                      "taken; --camera decides"]
    forward = default_forward(up) if profile.forward is None else np.asarray(profile.forward, dtype=np.float64)
    flat = forward - up * (up @ forward)
    size = np.linalg.norm(flat)
    forward = flat / size if size > 1e-3 else default_forward(up)
    return InitialCamera(np.zeros(3), forward, "profile", CONFIDENCE["profile"],
                         f"where {profile.maker} puts it"), []
