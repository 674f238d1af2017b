"""A value, or the status and reason why there is none: what the rules of one metric give for one case."""

from __future__ import annotations

from dataclasses import dataclass

from spatialbench.types import Status

__all__ = ["Ruling", "no_value", "ruled"]


@dataclass(frozen=True)
class Ruling:
    """What a metric's rules say about one case.

    Attributes
    ----------
    value : raw value; present exactly when ``status`` is measured.
    status : one of the six.
    reason : why there is no value, or which rule gave a zero; empty for an ordinary value.
    """

    value: float | None
    status: Status
    reason: str = ""

    def __post_init__(self) -> None:
        if (self.value is None) == (self.status is Status.MEASURED):
            raise ValueError(f"value {self.value!r} does not go with status {self.status}")
        if self.value is None and not self.reason:
            raise ValueError(f"status {self.status} needs a reason")


def ruled(value: float, reason: str = "") -> Ruling:
    """A value; with a reason it is one that a rule gave (e.g. a zero)."""
    return Ruling(float(value), Status.MEASURED, reason)


def no_value(status: Status, reason: str) -> Ruling:
    """No value, and why."""
    return Ruling(None, status, reason)
