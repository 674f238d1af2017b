"""The one way to get a judge: the protocol's rules and the user's settings make a session."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from spatialbench.errors import BackendUnavailableError, SpatialbenchError
from spatialbench.scorers.judge.cache import JudgeCache
from spatialbench.scorers.judge.contract import Backend
from spatialbench.scorers.judge.cost import load_prices
from spatialbench.scorers.judge.pace import Retry
from spatialbench.scorers.judge.session import JudgeSession
from spatialbench.scorers.judge.settings import FILE_VARIABLE, URL_VARIABLE, JudgeSettings, judge_key, judge_settings
from spatialbench.types.judge import JudgeRules

__all__ = ["judge_status", "open_judge"]

_TODO = (f"Name an endpoint with --judge FILE.yaml, {FILE_VARIABLE} (such a file) or {URL_VARIABLE} "
         "(docs/judges.md)")


def open_judge(rules: JudgeRules, settings: JudgeSettings | None = None, *,
               cache: Literal["use", "refresh", "off"] = "use", cache_file: Path | None = None,
               max_cost: float | None = None, limit: int | None = None, dry_run: bool = False,
               tell: Callable[[int, int], None] | None = None) -> JudgeSession:
    """A session with the judge that the user has named.

    Parameters
    ----------
    settings : of the user; None: what the environment says.
    cache : ``refresh`` asks everything anew and keeps the new answers, ``off`` neither looks up nor keeps.
    cache_file : another than ``default_cache()``.
    max_cost, limit, dry_run, tell : as for ``JudgeSession``.

    Raises
    ------
    BackendUnavailableError : no judge is named, a package, a key or a device is missing.
    MissingInputError, ConfigError, UsageError : something in the configuration is wrong.
    """
    settings = settings or judge_settings()
    if settings is None:
        raise BackendUnavailableError("no judge is named", todo=_TODO)
    prices = load_prices(settings.prices)
    model = settings.model or rules.model
    backend = _backend(settings, model, dry_run)
    store = None if cache == "off" else JudgeCache(cache_file)
    return JudgeSession(backend, rules, cache=store, refresh=cache == "refresh", prices=prices, max_cost=max_cost,
                        limit=limit, dry_run=dry_run, retry=Retry(attempts=settings.attempts),
                        accept_models=settings.accept_models, tell=tell)


def _backend(settings: JudgeSettings, model: str, dry_run: bool) -> Backend:
    if settings.provider == "openai":
        from spatialbench.scorers.judge.endpoint import OpenAIBackend

        return OpenAIBackend(settings, model, connect=not dry_run)
    from spatialbench.scorers.judge.local import TransformersBackend

    return TransformersBackend(settings, model, load=not dry_run)


def judge_status(file: Path | None = None) -> tuple[bool, str]:
    """Whether a judge could be asked here, without asking it; and which, or what to do.

    Parameters
    ----------
    file : judge file; None: what the environment says.
    """
    try:
        settings = judge_settings(file)
        if settings is None:
            return False, f"no judge is named. {_TODO}"
        needed, extra = (("openai",), "judge") if settings.provider == "openai" else (("torch", "transformers"), "vlm")
        missing = [p for p in needed if find_spec(p) is None]
        if missing:
            return False, f'{missing[0]} is not installed: pip install "spatialbench[{extra}]"'
        if settings.provider == "openai":
            judge_key(settings)
    except SpatialbenchError as error:
        return False, str(error)
    return True, f"{settings.model or 'the model of the protocol'} at {settings.base_url or settings.weights}"
