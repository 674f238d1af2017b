"""Getting at PyBullet: import, clients, and keeping what its C code prints off standard output."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from spatialbench.errors import BackendUnavailableError, SimulationError

__all__ = ["bullet_client", "load_pybullet", "placement_backend_status", "quiet"]

_lock = threading.RLock()
_module: Any = None


def placement_backend_status() -> tuple[bool, str]:
    """Whether plates can be placed here, and the version found or what to do to get it."""
    import importlib.metadata  # slow, and workers do without

    try:
        load_pybullet()
    except BackendUnavailableError as error:
        return False, str(error)
    for name in ("pybullet", "pybullet-arm64"):
        with suppress(importlib.metadata.PackageNotFoundError):
            return True, f"{name} {importlib.metadata.version(name)}"
    return True, "pybullet, version unknown"


def load_pybullet() -> Any:
    """The ``pybullet`` module.

    Raises
    ------
    BackendUnavailableError : it cannot be imported; the message says which package to install here.
    """
    global _module
    if _module is None:
        with quiet(1, 2), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its module types predate what newer Pythons ask of them
            try:
                import pybullet
            except ImportError as error:
                raise BackendUnavailableError(f"PyBullet cannot be imported ({error})", where="placement",
                                              todo=_remedy()) from error
        _module = pybullet
    return _module


def _remedy() -> str:
    machine, python = platform.machine().lower(), sys.version_info[:2]
    x86 = machine in ("x86_64", "amd64")
    if sys.platform == "linux" and not x86:
        return ("PyBullet has no wheel for Linux on this processor: build it with 'pip install pybullet' and "
                "a C++ compiler, or place plates on an x86-64 machine; until then M25 is unavailable")
    if sys.platform == "linux" and python < (3, 12):
        return "Install it with: pip install 'pybullet>=3.2.7'"
    return "Install it with: pip install 'pybullet-arm64>=3.2.8' (it is imported as pybullet)"


@contextmanager
def bullet_client(window: str = "") -> Iterator[tuple[Any, int]]:
    """(pybullet, client id) of a new simulation, closed afterwards.

    With a ``window`` (its options, as ``--width=800``) PyBullet opens one; without a display that ends the process,
    and a process has only one (placement.md trap 6).

    Raises
    ------
    BackendUnavailableError, SimulationError : PyBullet is missing, or gives no more clients.
    """
    p = load_pybullet()
    with quiet():
        client = p.connect(p.GUI, options=window) if window else p.connect(p.DIRECT)
    if client < 0:
        raise SimulationError("PyBullet gave no simulation", where="placement",
                              todo="Close other simulations of this process")
    try:
        yield p, client
    finally:
        with quiet():
            p.disconnect(physicsClientId=client)


@contextmanager
def quiet(*descriptors: int) -> Iterator[None]:
    """Discard what C code prints meanwhile on standard output (1), or on the descriptors given.

    Commands promise pure JSON on standard output. The descriptor itself is redirected, since C does not
    go through ``sys.stdout``. Keep it short: other threads' output is lost too.
    """
    with _lock, ExitStack() as undo:
        _flush()
        for fd in descriptors or (1,):
            try:
                saved = os.dup(fd)
            except OSError:  # closed: nothing can be printed there
                continue
            undo.callback(_restore, saved, fd)
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, fd)
            os.close(nowhere)
        try:
            yield
        finally:
            _flush()  # or the text, still in C's buffer, comes out after all


def _restore(saved: int, fd: int) -> None:
    os.dup2(saved, fd)
    os.close(saved)


def _flush() -> None:
    with suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    with suppress(Exception):
        library = ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None)
        library.fflush(None)
