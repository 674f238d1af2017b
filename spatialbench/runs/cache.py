"""A place for compiled loops where numba finds none of its own."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

__all__ = ["ensure_kernel_cache", "kernels_compiled"]

_VARIABLE = "NUMBA_CACHE_DIR"


def ensure_kernel_cache() -> None:
    """Let numba keep compiled loops in a private temporary folder where it would refuse to run at all.

    It does so when neither the package nor the user's cache folder can be written to, as in a container with a
    read-only image. The folder goes when the process ends: what is in it is pickled, and must not be shared. Nothing
    happens when numba has a place, has been told one, or is loaded already.
    """
    if os.environ.get(_VARIABLE) or "numba" in sys.modules:
        return
    import spatialbench

    package = Path(spatialbench.__file__).resolve().parent
    parts = [(package / part).resolve() for part in ("world", "renderers")]
    if all(_writable(part / "__pycache__") for part in parts) or _writable(_user_cache()):
        return
    folder = tempfile.mkdtemp(prefix="spatialbench-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ[_VARIABLE] = folder


def kernels_compiled() -> bool:
    """Whether an earlier process left compiled loops where numba would look for them.

    A guess for people, to say why the first run takes longer: loops that have changed since are compiled again.
    """
    import spatialbench

    package = Path(spatialbench.__file__).resolve().parent
    own = [(package / part).resolve() / "__pycache__" for part in ("world", "renderers")]
    told = os.environ.get(_VARIABLE)
    places = [Path(told)] if told else [*own, _user_cache()]
    try:
        return any(next(p.rglob("_*kernel*.nbi"), None) is not None for p in places if p.is_dir())
    except OSError:
        return False


def _user_cache() -> Path:
    """Where numba keeps what does not fit beside the code."""
    home = os.path.expanduser("~")
    if sys.platform == "darwin":
        return Path(home, "Library", "Caches", "numba")
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home, "numba")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path(home, ".cache"), "numba")


def _writable(folder: Path) -> bool:
    """Whether the folder is there and can be written to, or could be made."""
    at = folder.absolute()
    try:
        while not os.path.lexists(at):
            at = at.parent
        with tempfile.TemporaryFile(dir=at):  # asked rather than tried, a folder of /proc would say yes
            return True
    except (OSError, ValueError):
        return False
