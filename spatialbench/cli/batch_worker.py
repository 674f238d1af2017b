"""What a worker process of ``spatialbench batch`` runs."""

from __future__ import annotations

from collections.abc import Sequence

from spatialbench.runs import RunResult
from spatialbench.runs.batch.worker import serve
from spatialbench.runs.pair import PairResult

__all__ = ["main", "make_page"]


def make_page(result: RunResult | PairResult, kept: Sequence[str]) -> str:
    """The page of a unit; it says which numbers an earlier run has made, of which there are no pictures."""
    if isinstance(result, PairResult):
        from spatialbench.report.edit_page import make_pair_page

        return make_pair_page(result, kept)
    from spatialbench.report.collect import collect
    from spatialbench.report.page import render_page

    data = collect(result)
    if kept:
        note = (f"Kept from an earlier run, and without pictures here: {', '.join(kept)}. "
                "With --force the batch measures and draws all again.")
        data.preview_note = f"{data.preview_note} {note}".strip()
    return render_page(data)


def main() -> None:
    """Serve until there is no more work."""
    serve(make_page)
