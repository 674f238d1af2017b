"""Text of untrusted origin (names of systems and cases) made safe for CSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence

from spatialbench.aggregate.rounding import DASH
from spatialbench.types.words import one_line

__all__ = ["csv_cell", "csv_text", "latex_cell", "markdown_cell"]

_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?\Z")
_LATEX = {"\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "%": r"\%", "#": r"\#",
          "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
          ">": r"\textgreater{}", "|": r"\textbar{}", "[": "{[}", "]": "{]}", "*": "{*}", '"': r"\textquotedbl{}",
          "–": "--"}
_MARKDOWN = {**{c: "\\" + c for c in "\\`*_[]|~$#"}, "<": "&lt;", ">": "&gt;", "&": "&amp;"}


def csv_cell(text: str) -> str:
    """A cell that no spreadsheet takes for a formula: ``=``, ``+``, ``-``, ``@`` at its start get an apostrophe.

    Numbers stay as they are, a dash becomes an empty cell.

    >>> csv_cell("-0.50"), csv_cell("=1+1"), csv_cell("–")
    ('-0.50', "'=1+1", '')
    """
    text = one_line(text)
    if text == DASH:
        return ""
    # A spreadsheet may skip blanks, and reads full-width signs as plain ones.
    return "'" + text if text.lstrip()[:1] in tuple("=+-@＝＋－＠") and not _NUMBER.match(text) else text


def csv_text(rows: Iterable[Sequence[str]]) -> str:
    """Rows with quotes where needed, lines ended by a line feed."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([csv_cell(c) for c in row] for row in rows)
    return out.getvalue()


def markdown_cell(text: str) -> str:
    """A cell of a table in Markdown (GitHub's): no link, HTML, emphasis, formula or new column can start in it.

    >>> markdown_cell("a|b <i>")
    'a\\\\|b &lt;i&gt;'
    """
    return "".join(_MARKDOWN.get(c, c) for c in one_line(text))


def latex_cell(text: str) -> str:
    r"""A cell of a LaTeX table: no command, column or argument of a row's end can start in it.

    >>> latex_cell("50% & a_b")
    '50\\% \\& a\\_b'
    """
    return "".join(_LATEX.get(c, c) for c in one_line(text))
