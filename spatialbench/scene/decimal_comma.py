"""Numbers written with a decimal comma, told apart from other damage so that a message can name the cause."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["COMMA_TODO", "with_comma"]

COMMA_TODO = "Export it with decimal points (locale 'C' or English)"
_COMMA = re.compile(rb"[-+]?(?:\d{1,3}(?:\.\d{3})+|\d*),\d+(?:[eE][-+]?\d+)?")
"""``-0,750``, ``,5``, ``1,5e-3``, and ``1.234,5`` with points between thousands."""


def with_comma(words: Iterable[bytes]) -> str | None:
    """The first of the words that is a number with a decimal comma, for a message; None when none is."""
    return next((w.decode("latin-1")[:40] for w in words if _COMMA.fullmatch(w)), None)
