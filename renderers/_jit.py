"""Options of the compiled kernels, and a cache that notices a change in another file.

The compiler keeps what it compiled beside a stamp of the one file that a kernel is in; functions and constants of
other files that went into it may change unseen. ``watch`` widens the stamp.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from types import ModuleType
from typing import Any

__all__ = ["HELPER", "INLINE", "KERNEL", "watch"]

# Division as numpy does it: a branch that could raise would keep reference counting in the inner loops.
KERNEL = {"cache": True, "nogil": True, "error_model": "numpy"}
"""What Python calls. No kernel spawns threads: each call does one piece of an image."""
HELPER = {"nogil": True, "error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""What only kernels call; kept with them, in the kernels' cache."""
INLINE = {**HELPER, "forceinline": True}


def watch(kernels: Iterable[Any], modules: Iterable[ModuleType]) -> None:
    """Have kernels compiled anew when the file of one of ``modules``, of which they use something, has changed.

    numba has no public way to say so. Where its cache looks different, or is switched off, nothing is widened: then
    somebody who changes such a file must empty the cache, while an installed package has files that do not change.
    """
    seen = tuple((status.st_mtime, status.st_size) for status in (os.stat(str(m.__file__)) for m in modules))
    for kernel in kernels:
        file: Any = getattr(getattr(kernel, "_cache", None), "_cache_file", None)
        if hasattr(file, "_source_stamp"):
            file._source_stamp = (file._source_stamp, *seen)
