"""Answers kept by the content of their question: SQLite in WAL mode, one file that several processes may use.

Only usable answers are in it. Pictures are not: a question names them by their identity.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spatialbench.errors import ResultError, UsageError
from spatialbench.scorers.judge.prompts import canonical

__all__ = ["CACHE_VARIABLE", "CacheGroup", "JudgeCache", "default_cache"]

CACHE_VARIABLE = "SPATIALBENCH_CACHE_DIR"
_VERSION = 1
_TABLE = """CREATE TABLE answers (key TEXT PRIMARY KEY, created REAL NOT NULL, endpoint TEXT NOT NULL,
    model TEXT NOT NULL, prompt TEXT NOT NULL, request TEXT NOT NULL, reply TEXT NOT NULL)"""
_COLUMNS = ["key", "created", "endpoint", "model", "prompt", "request", "reply"]
_WAIT = 60.0
"""Seconds for another process to be done with the file."""


def default_cache() -> Path:
    """``judge.sqlite`` in ``SPATIALBENCH_CACHE_DIR``, else in the user's cache folder.

    Raises
    ------
    UsageError : there is neither.
    """
    told = os.environ.get(CACHE_VARIABLE)
    if told:
        return Path(told) / "judge.sqlite"
    try:
        if sys.platform == "win32":
            return Path(os.environ.get("LOCALAPPDATA") or Path.home(), "spatialbench", "judge.sqlite")
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Caches" / "spatialbench" / "judge.sqlite"
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "spatialbench", "judge.sqlite")
    except RuntimeError:
        raise UsageError("this user has no home folder for the cache of judges' answers", where=CACHE_VARIABLE,
                         todo="Set it to a folder, or go without the cache with --no-cache") from None


@dataclass(frozen=True)
class CacheGroup:
    """Answers of one model at one endpoint to one prompt: how many, bytes, and when the first and last came (POSIX)."""

    endpoint: str
    model: str
    prompt: str
    answers: int
    bytes: int
    first: float
    last: float


class JudgeCache:
    """Look up and keep answers. Opened at the first use; may be shared by threads.

    Raises
    ------
    ResultError : from every method: the file cannot be opened, is no cache, or is of a later version.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = default_cache() if path is None else path
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None

    def ready(self) -> None:
        """Whether answers can be kept, before any is paid for; makes the file."""
        with self._change():
            pass

    def get(self, key: str) -> dict[str, Any] | None:
        """What was kept under the key; None for nothing, or something that cannot be read."""
        if self._absent():
            return None
        with self._use() as db:
            row = db.execute("SELECT reply FROM answers WHERE key = ?", (key,)).fetchone()
        with suppress(ValueError, RecursionError, TypeError):
            data = json.loads(row[0])
            return data if isinstance(data, dict) else None
        return None

    def put(self, key: str, request: dict[str, Any], reply: dict[str, Any], *, endpoint: str, model: str,
            prompt: str) -> None:
        """Keep an answer at once, in place of an older one under the key."""
        row = (key, time.time(), endpoint, model, prompt, canonical(request), canonical(reply))
        with self._use() as db:
            db.execute("INSERT OR REPLACE INTO answers VALUES (?,?,?,?,?,?,?)", row)

    def groups(self) -> list[CacheGroup]:
        """What is in it, by endpoint, model and prompt."""
        if self._absent():
            return []
        with self._use() as db:
            return [CacheGroup(*row) for row in db.execute(
                "SELECT endpoint, model, prompt, COUNT(*), SUM(LENGTH(request) + LENGTH(reply)), MIN(created), "
                "MAX(created) FROM answers GROUP BY endpoint, model, prompt ORDER BY endpoint, model, prompt")]

    def prune(self, *, older_than: float | None = None, model: str | None = None, prompt: str | None = None,
              most_bytes: int | None = None) -> int:
        """Drop answers; those for which all that is given holds. All of them or, when that fails, none.

        Parameters
        ----------
        older_than : POSIX time before which they came.
        model, prompt : as ``groups`` names them.
        most_bytes : afterwards the oldest, until what is left (of all) is no larger.

        Returns
        -------
        How many are gone.
        """
        if self._absent():
            return 0
        tests = [(c, v) for c, v in (("created < ?", older_than), ("model = ?", model), ("prompt = ?", prompt))
                 if v is not None]
        gone = 0
        with self._change() as db:
            if tests:
                gone += db.execute(f"DELETE FROM answers WHERE {' AND '.join(c for c, _ in tests)}",
                                   [v for _, v in tests]).rowcount
            if most_bytes is not None:
                left, last = 0, []
                for key, size in db.execute("SELECT key, LENGTH(request) + LENGTH(reply) FROM answers "
                                            "ORDER BY created DESC, key"):
                    left += size
                    if left > most_bytes:
                        last.append((key,))
                gone += len(last)
                db.executemany("DELETE FROM answers WHERE key = ?", last)
        if gone:
            self._shrink()
        return gone

    def clear(self) -> int:
        """Drop everything, and say how many answers there were.

        The emptied file stays: others may have it open, and SQLite does not bear a file that is taken from under it.
        """
        if self._absent():
            return 0
        with self._change() as db:
            (count,) = db.execute("SELECT COUNT(*) FROM answers").fetchone()
            db.execute("DELETE FROM answers")
        self._shrink()
        return int(count)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None

    def _absent(self) -> bool:
        return self._db is None and not os.path.lexists(self.path)

    def _shrink(self) -> None:
        with self._use() as db, suppress(sqlite3.OperationalError):  # another process is reading: next time
            db.execute("VACUUM")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        """All or nothing."""
        with self._use() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    db.execute("ROLLBACK")
                raise

    @contextmanager
    def _use(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                if self._db is None:
                    self._db = self._open()
                yield self._db
            except (sqlite3.Error, OSError) as error:
                raise ResultError(f"the cache of judges' answers cannot be used ({error})", where=str(self.path),
                                  todo=f"Free some space, move the file away, name a folder on a local disk in "
                                       f"{CACHE_VARIABLE}, or go without it with --no-cache") from None

    def _open(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.exists() and not self.path.is_file():  # a pipe would be waited for
            raise OSError("it is no file")
        db = sqlite3.connect(self.path, timeout=_WAIT, isolation_level=None, check_same_thread=False)
        try:
            db.text_factory = lambda b: b.decode("utf-8", "replace")  # a damaged text is no answer, and no failure
            _prepare(db)
        except BaseException:
            db.close()
            raise
        return db


def _prepare(db: sqlite3.Connection) -> None:
    """Make the table in an empty file; refuse what is not ours, before anything in it is touched."""
    if not _is_ours(db):
        db.execute("BEGIN IMMEDIATE")  # another process may be about to do the same
        try:
            if not _is_ours(db):
                db.execute(_TABLE)
                db.execute(f"PRAGMA user_version = {_VERSION}")
        finally:
            db.execute("COMMIT")
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")


def _is_ours(db: sqlite3.Connection) -> bool:
    """False for an empty file.

    Raises
    ------
    sqlite3.DatabaseError : another program's file, or a later version of this one.
    """
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version > _VERSION:
        raise sqlite3.DatabaseError(f"it is of version {version}, this one knows {_VERSION}, or another program's")
    tables = [t for (t,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
              if not t.startswith("sqlite_")]
    if version == 0 and not tables:
        return False
    if tables != ["answers"] or [row[1] for row in db.execute("PRAGMA table_info(answers)")] != _COLUMNS:
        raise sqlite3.DatabaseError("it is another program's database")
    return True
