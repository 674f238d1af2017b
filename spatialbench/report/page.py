"""One self-contained HTML page: no request leaves it, and the same data gives the same bytes."""

from __future__ import annotations

import os
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from spatialbench.report import text
from spatialbench.report.data import ReportData

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["MAX_BYTES", "render_page", "write_page"]

MAX_BYTES = 4_000_000
_DETAIL = (1.0, 0.7, 0.5, 0.35)


def render_page(data: ReportData) -> str:
    """The page as HTML; styles, pictures and charts are inside it, scripts are not needed.

    Photos are made smaller, in steps, while the page is larger than ``MAX_BYTES``.

    Raises
    ------
    ValueError : a picture is not uint8 [H,W,3], or arrays that belong together differ in length.
    """
    from spatialbench.report.view import build_view

    template = _environment().get_template("page.html.j2")
    html = ""
    for detail in _DETAIL:
        content = template.render(build_view(data, detail)).encode("utf-8", "replace")
        html = content.decode("utf-8")  # file names may hold what UTF-8 cannot
        if len(content) <= MAX_BYTES:
            break
    return html


def write_page(data: ReportData, path: Path) -> None:
    """Render to ``path``; the file appears complete or not at all.

    Raises
    ------
    OSError : the folder cannot be written to.
    """
    path = Path(path)
    content = render_page(data).encode("utf-8")
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as f:
            f.write(content)
            f.flush()
            os.fsync(f.fileno())
        # mkstemp makes private files; a page is for everyone whom the folder lets in.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    env = Environment(loader=FileSystemLoader(Path(__file__).parent / "templates"), autoescape=True,
                      undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    for name in ("cause_words", "component_text", "file_size", "flag_words", "number", "percent", "plain_words",
                 "reason_words", "value"):
        env.filters[name] = getattr(text, name)
    return env
