"""What renderers of other people's libraries have in common: one error when a library fails while it draws."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from spatialbench.errors import BackendUnavailableError, SpatialbenchError

__all__ = ["library_errors", "one_line"]


@contextmanager
def library_errors(name: str) -> Iterator[None]:
    """Turn whatever a library raises - no memory, a lost context - into ``BackendUnavailableError``.

    Raises
    ------
    BackendUnavailableError : names the renderer and the library's own words; the next renderer may then take over.
    """
    try:
        yield
    except SpatialbenchError:
        raise
    except Exception as e:  # libraries raise types of their own
        raise BackendUnavailableError(f"the renderer '{name}' failed ({one_line(e)})",
                                      todo="Choose another renderer, or smaller images") from e


def one_line(error: Exception) -> str:
    """Type and first line of the message, at most 200 characters."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:200]}" if text else type(error).__name__
