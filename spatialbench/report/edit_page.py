"""The page of two worlds: self-contained HTML, like that of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from spatialbench.report.data import Picture
from spatialbench.report.edit_collect import PairPage, collect_pair
from spatialbench.report.edit_pictures import PictureRow
from spatialbench.report.expand_plan import LEGEND, growth_map, legend_swatch
from spatialbench.report.images import jpeg_uri
from spatialbench.report.page import MAX_BYTES, _environment
from spatialbench.report.view import build_view

if TYPE_CHECKING:
    from spatialbench.runs.pair import PairResult

__all__ = ["make_pair_page", "render_pair_page"]

_DETAIL = (1.0, 0.7, 0.5, 0.35)


def make_pair_page(result: PairResult, kept: Sequence[str] = ()) -> str:
    """The page of a finished run; the metrics named were kept from an earlier one."""
    return render_pair_page(collect_pair(result, kept))


def render_pair_page(page: PairPage) -> str:
    """The page as HTML; photos are made smaller, in steps, while it is larger than ``MAX_BYTES``."""
    template = _environment().get_template("edit_page.html.j2")
    html = ""
    for detail in _DETAIL:
        content = template.render(_view(page, detail)).encode("utf-8", "replace")
        html = content.decode("utf-8")
        if len(content) <= MAX_BYTES:
            break
    return html


def _view(page: PairPage, detail: float) -> dict[str, Any]:
    def photo(picture: Picture) -> str:
        return jpeg_uri(picture, max(16, round(320 * detail)), 82)

    def rows(some: Sequence[PictureRow]) -> list[dict[str, Any]]:
        return [{"name": r.name, "note": r.note, "pictures": [(caption, photo(p)) for caption, p in r.pictures]}
                for r in some]

    return {**build_view(page.data, detail), "page": page, "targets": rows(page.targets), "origin": rows(page.origin),
            "junction": rows(page.junction), "connection": rows(page.connection),
            "plan": None if page.plan is None else growth_map(page.plan),
            "plan_legend": [(legend_swatch(k), f"{k} cells") for k in LEGEND]}
