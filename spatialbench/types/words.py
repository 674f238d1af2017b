"""Text that comes from files, made fit to be printed."""

from __future__ import annotations

__all__ = ["one_line"]


def one_line(text: str) -> str:
    """Control characters and line ends as spaces: a name in a file must not be able to steer a terminal or a table.

    >>> one_line("\\x1b[31mred.obj")
    ' [31mred.obj'
    """
    return "".join(c if c.isprintable() else " " for c in text)
