"""The one registry of learned scorers: what each is, whether it can be used here, and how it is opened once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from spatialbench.errors import BackendUnavailableError, SpatialbenchError, UsageError
from spatialbench.scorers.contract import Gives
from spatialbench.scorers.settings import ScorerSettings, scorer_settings
from spatialbench.scorers.weights import weights_missing

__all__ = ["Opening", "ScorerBox", "ScorerSpec", "add_scorer", "scorer_specs", "scorer_status"]

_MODULES: tuple[str, ...] = (
    "aesthetic", "brisque", "clip", "cuts", "dino", "flow", "hpsv3", "mobilenet", "niqe", "perceptual",
    "perceptual_dreamsim", "pyiqa_models", "sam2", "sam3", "worker.declared")
"""Modules of this package that declare scorers, each in ``SPECS``; importing one must not load its libraries."""
_SPECS: dict[str, ScorerSpec] = {}
_LOCK = threading.RLock()


@dataclass(frozen=True)
class Opening:
    """What a scorer's ``open`` is given.

    Attributes
    ----------
    settings : the user's.
    folders : entry of the lock file -> its folder, whose files are there and are what the lock says.
    """

    settings: ScorerSettings
    folders: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True)
class ScorerSpec:
    """Declaration of one scorer.

    Attributes
    ----------
    id : what metrics and ``protocol.scorers`` name.
    model : what it is, in words.
    gives : which interface of ``contract`` the opened object has.
    role : what it is used for, a few words.
    open : makes it; raises ``BackendUnavailableError`` with what to do when it cannot.
    packages : names that must be importable.
    distributions : distributions whose versions belong to the result.
    extra : the extra of spatialbench that installs them.
    weights : entries of the lock file.
    ready : further test that is cheap: why it cannot be used, or nothing.
    stands_in_for : official scorer that this one may be used for when asked; empty for an official one.
    version : raised when what it gives can change.
    """

    id: str
    model: str
    gives: Gives
    role: str
    open: Callable[[Opening], Any]
    packages: tuple[str, ...] = ()
    distributions: tuple[str, ...] = ()
    extra: str = ""
    weights: tuple[str, ...] = ()
    ready: Callable[[ScorerSettings], str] | None = None
    stands_in_for: str = ""
    version: int = 1


def add_scorer(spec: ScorerSpec) -> None:
    """Register a scorer; other distributions do so from their plugin.

    Raises
    ------
    ValueError : the id is taken.
    """
    with _LOCK:
        if spec.id in _specs():
            raise ValueError(f"the scorer '{spec.id}' is registered twice")
        _SPECS[spec.id] = spec


def scorer_specs() -> Mapping[str, ScorerSpec]:
    """All declarations by id, sorted."""
    with _LOCK:
        return dict(sorted(_specs().items()))


def _specs() -> dict[str, ScorerSpec]:
    for name in _MODULES:
        for spec in import_module(f"spatialbench.scorers.{name}").SPECS:
            _SPECS.setdefault(spec.id, spec)
    return _SPECS


def scorer_spec(id: str) -> ScorerSpec:
    """One declaration.

    Raises
    ------
    UsageError : unknown.
    """
    with _LOCK:
        found = _specs().get(id)
    if found is None:
        raise UsageError(f"no scorer '{id}'", todo=f"Known: {', '.join(scorer_specs())}")
    return found


def scorer_status(id: str, settings: ScorerSettings | None = None) -> str:
    """Why a scorer cannot be used here, and what to do; empty when it can. Nothing is loaded for it."""
    spec, settings = scorer_spec(id), settings or scorer_settings()
    absent = [p for p in spec.packages if find_spec(p) is None]
    if absent:
        return f'{absent[0]} is not installed: pip install "spatialbench[{spec.extra}]"'
    for entry in spec.weights:
        if why := weights_missing(entry, settings.weights):
            return why
    return spec.ready(settings) if spec.ready is not None else ""


class ScorerBox:
    """Scorers of one process, each opened at most once and kept until ``close``; a failure is remembered too.

    Parameters
    ----------
    settings : the user's; None: what the environment says.
    given : scorers by id that are used as they are (in tests, and by callers that have them already).
    """

    def __init__(self, settings: ScorerSettings | None = None, given: Mapping[str, Any] | None = None) -> None:
        self.settings = settings or scorer_settings()
        self._open: dict[str, Any] = dict(given or {})
        self._failed: dict[str, str] = {}
        self._identity: dict[str, dict[str, str]] = {id: {"given": type(s).__name__} for id, s in self._open.items()}

    def lacking(self, id: str) -> str:
        """Why a scorer cannot be used, or nothing; loads nothing."""
        if id in self._open:
            return ""
        return self._failed.get(id) or scorer_status(id, self.settings)

    def get(self, id: str) -> Any:
        """The scorer, opened now if it has not been.

        Raises
        ------
        BackendUnavailableError : it cannot be used; says why and what to do.
        UsageError : no such scorer.
        """
        if id in self._open:
            return self._open[id]
        spec = scorer_spec(id)
        if why := self.lacking(id):
            raise BackendUnavailableError(f"{spec.model}: {why}")
        from spatialbench.scorers.verify import verified_folder

        try:
            _import_shared(spec)
            folders = {entry: verified_folder(entry, self.settings.weights) for entry in spec.weights}
            scorer = _opened(spec, Opening(self.settings, folders))
        except SpatialbenchError as error:
            self._failed[id] = str(error)
            raise
        self._identity[id] = _identity(spec, folders) | dict(getattr(scorer, "identity", {}))
        self._open[id] = scorer
        return scorer

    @property
    def identity(self) -> dict[str, dict[str, str]]:
        """Of each scorer that was opened: versions of its code and its packages, hashes of its weights."""
        return {id: dict(v) for id, v in sorted(self._identity.items())}

    def close(self) -> None:
        """Let go of all of them, also when one fails to end."""
        with ExitStack() as all_of_them:
            for scorer in self._open.values():
                if (closing := getattr(scorer, "close", None)) is not None:
                    all_of_them.callback(closing)
            self._open.clear()


def _import_shared(spec: ScorerSpec) -> None:
    """Packages that do not fit each other fail when they are imported; later that would look like a fault of weights.

    Raises
    ------
    BackendUnavailableError
    """
    for name in (p for p in ("torch", "torchvision", "transformers") if p in spec.packages):
        try:
            import_module(name)
        except Exception as error:
            raise BackendUnavailableError(
                f"{name} is installed and cannot be imported ({_first_line(error)})",
                todo=f'Install it again, torch and torchvision of one release: pip install "spatialbench[{spec.extra}]"'
            ) from None


def _opened(spec: ScorerSpec, opening: Opening) -> Any:
    """What ``spec.open`` makes.

    Raises
    ------
    BackendUnavailableError : also where a package is broken, or the model does not fit the device's memory.
    """
    try:
        return spec.open(opening)
    except ImportError as error:
        raise BackendUnavailableError(
            f"one of its packages is installed and cannot be imported ({_first_line(error)})",
            todo=f'Install it again: pip install "spatialbench[{spec.extra}]"' if spec.extra else "Install it again"
        ) from None
    except (RuntimeError, MemoryError) as error:
        from spatialbench.scorers.torch_support import lacks_memory

        if not (isinstance(error, MemoryError) or ("torch" in spec.packages and lacks_memory(error))):
            raise
        raise BackendUnavailableError(f"the device has too little memory for {spec.model}",
                                      todo="Use another device (--device), or fewer models at a time") from None


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:200]


def _identity(spec: ScorerSpec, folders: Mapping[str, Path]) -> dict[str, str]:
    from spatialbench.scorers.verify import known_hashes

    out = {"version": str(spec.version), "model": spec.model}
    for name in spec.distributions:
        try:
            out[name] = version(name)
        except PackageNotFoundError:
            out[name] = "unknown"
    for entry, folder in folders.items():
        out |= {f"{entry}/{path}": digest for path, digest in known_hashes(entry, folder).items()}
    return out
