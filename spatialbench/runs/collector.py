"""Many records of plain values are read without the garbage collector, which would find nothing among them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["quiet_collector"]


@contextmanager
def quiet_collector() -> Iterator[None]:
    """Without the garbage collector, which walks over all measurements again and again and finds nothing."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()
