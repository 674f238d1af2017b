"""Results of many folders, for tables: checked to be of one kind, counted, and nothing dropped in silence.

A folder is that of a batch (``batch.json`` and ``units/``) or of a single run (``run.json`` and ``units.jsonl``).
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spatialbench.errors import ResultError, UsageError
from spatialbench.runs.batch.finished import UnitRecord, read_finished
from spatialbench.runs.batch.job import unit_folder
from spatialbench.runs.batch.planfile import NAME, read_batch
from spatialbench.runs.collector import quiet_collector
from spatialbench.runs.run_folder import differing, listed, read_run, run_record, text_of
from spatialbench.types import Measurement, Status

__all__ = ["Gathered", "Pick", "UnitPlace", "gather", "systems_of"]

_LACKING = {"unfinished": "the unit was not run yet", "damaged": "the files of the unit are damaged"}
_STALE = "made by other settings than the batch has now, and not run again"


@dataclass(frozen=True)
class Pick:
    """A folder, and which of its systems: name there -> name here; all of them as they are when empty."""

    path: Path
    systems: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class UnitPlace:
    """One planned unit and where its files are. ``status`` as in :class:`UnitRecord`."""

    system: str
    case: str
    status: str
    reason: str
    folder: Path


@dataclass(frozen=True, eq=False)
class Gathered:
    """Measurements that may be averaged, and all that must be said beside the means.

    Attributes
    ----------
    measurements : by system and case, without components. Units that were planned and are not there, and what is
        out of date, are in it as ``untested``, for every metric that any unit has a record of.
    units : by system and case.
    protocol, protocol_hash : of all of them.
    settings : overrides of the protocol; empty where a folder's were the protocol as it is.
    stale : (system, case) -> metrics out of date.
    marks : why these are no results to publish: a fast profile, overrides.
    """

    measurements: list[Measurement]
    units: tuple[UnitPlace, ...]
    protocol: Mapping[str, Any]
    protocol_hash: str
    settings: tuple[str, ...]
    stale: Mapping[tuple[str, str], tuple[str, ...]]
    marks: tuple[str, ...]

    @property
    def systems(self) -> tuple[str, ...]:
        """All names, sorted."""
        return tuple(sorted({u.system for u in self.units}))

    @property
    def cases(self) -> tuple[str, ...]:
        """All case ids, sorted: what every system is asked for."""
        return tuple(sorted({u.case for u in self.units}))

    @property
    def metrics(self) -> tuple[str, ...]:
        """Ids of which there is a record, sorted."""
        return tuple(sorted({m.metric for m in self.measurements}))

    @property
    def counts(self) -> dict[str, int]:
        """Units of each status, in the order of the alphabet."""
        return dict(sorted(Counter(u.status for u in self.units).items()))

    @property
    def lacking(self) -> tuple[UnitPlace, ...]:
        """Units that are not finished or are damaged."""
        return tuple(u for u in self.units if u.status in _LACKING)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is not there, counted and named."""
        out = []
        for status, words in (("unfinished", "not run yet"), ("damaged", "damaged, and left out"),
                              ("failed", "failed, and counted without values")):
            some = [u for u in self.units if u.status == status]
            if some:
                out.append(f"{_units(len(some))} of {len(self.units)} {words}: "
                           + listed([f"{u.system}/{u.case}" for u in some]))
        if self.stale:
            out.append(f"{_units(len(self.stale))} with measurements out of date, which are left out: "
                       + listed([f"{s}/{c} ({', '.join(ms[:3])}{'...' if len(ms) > 3 else ''})"
                                  for (s, c), ms in self.stale.items()]) + ". Give the command of the batch again")
        return tuple(out)


def systems_of(path: Path) -> tuple[str, ...]:
    """Systems of a folder, in the order of its plan.

    Raises
    ------
    MissingInputError, ResultError : it is not a folder of results, or its record is damaged.
    """
    if (path / NAME).exists():
        return tuple(dict.fromkeys(s for s, _ in read_batch(path).units))
    return (text_of(run_record(path), "system", path),)


def gather(paths: Sequence[Path | Pick], verify: bool = True) -> Gathered:
    """Everything below the folders, in one list.

    The same unit may be planned in several folders (shards); measured twice it is an error.

    Parameters
    ----------
    verify : hash the files beside each ``unit.json``.

    Raises
    ------
    MissingInputError, UsageError : no folder of results, no such system in it, or none given.
    ResultError : protocols or versions of metrics differ, a measurement is there twice, a record is damaged, or
        nothing is finished.
    """
    picks = [p if isinstance(p, Pick) else Pick(p) for p in paths]
    if not picks:
        raise UsageError("no folder was given", where="gather", todo="Name folders of batches or runs")
    with quiet_collector():
        sources = [_Source.open(p) for p in picks]
        _same_protocol(sources)
        return _merged(sources, verify)


@dataclass(frozen=True, eq=False)
class _Source:
    pick: Pick
    is_batch: bool
    protocol: dict[str, Any]
    hash: str
    settings: tuple[str, ...]

    @staticmethod
    def open(pick: Pick) -> _Source:
        path, is_batch = pick.path, (pick.path / NAME).exists()
        if is_batch:
            plan = read_batch(path)
            protocol: Any = plan.protocol
            named: Any = plan.protocol_hash
            settings = plan.settings
        else:
            record = run_record(path)
            protocol, named = record.get("protocol"), record.get("protocol_hash")
            settings = tuple(map(str, record.get("protocol_overrides") or ()))
        try:
            text = json.dumps(protocol, sort_keys=True, separators=(",", ":"), allow_nan=False)
        except ValueError:  # NaN or infinity, which no protocol holds
            text = ""
        if not isinstance(protocol, dict) or hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() != named:
            raise ResultError("its protocol does not have the hash it names: one of them was changed",
                              where=str(path / (NAME if is_batch else "run.json")), todo="Run it again")
        known = systems_of(path)
        for name in pick.systems:
            if name not in known:
                raise UsageError(f"no system '{name}'", where=str(path), todo=f"It has: {', '.join(known[:20])}")
        return _Source(pick, is_batch, protocol, str(named), settings)

    def units(self, verify: bool) -> Iterator[tuple[UnitRecord, str, Path]]:
        """Records, names of systems here, and folders."""
        path, names = self.pick.path, self.pick.systems
        for unit in read_finished(path, verify) if self.is_batch else [read_run(path)]:
            if not names or unit.system in names:
                folder = unit_folder(path, unit.system, unit.case) if self.is_batch else path
                yield unit, names.get(unit.system, unit.system), folder


def _merged(sources: Sequence[_Source], verify: bool) -> Gathered:
    found: dict[tuple[str, str], list[tuple[UnitRecord, Path]]] = {}
    versions: dict[str, tuple[int, Path]] = {}
    texts: dict[str, str] = {}
    for source in sources:
        for unit, system, folder in source.units(verify):
            keys = _slim(unit.measurements, system, texts)
            if len(keys) < len(unit.measurements):
                raise ResultError("holds a measurement twice", where=str(folder), todo="Run it again")
            for m in unit.measurements:
                version, first = versions.setdefault(m.metric, (m.version, folder))
                if version != m.version:
                    raise ResultError(f"metric {m.metric} is of version {version} in {first} and of version "
                                      f"{m.version} in {folder}, which cannot be averaged", where="summary",
                                      todo="Run the older ones again")
            others = found.setdefault((system, unit.case), [])
            for other, place in others:
                both = keys & {(m.metric, m.object) for m in other.measurements}
                if both:
                    metric = min(both, key=str)[0]
                    raise ResultError(f"system '{system}', case '{unit.case}', metric {metric} is measured in both "
                                      f"{place} and {folder}", where="summary",
                                      todo="Give one of them, or another name to one of the systems")
            others.append((unit, folder))
    if not any(unit.measurements for several in found.values() for unit, _ in several):
        raise ResultError("no unit is finished", where=listed([str(s.pick.path) for s in sources]),
                          todo="Run the batch first")
    measurements: list[Measurement] = []
    places, stale = [], {}
    for (system, case), several in sorted(found.items()):
        here = [m for unit, _ in several for m in unit.measurements]
        has = {m.metric for m in here}
        unit, folder = min(several, key=lambda p: (p[0].status in _LACKING, not p[0].measurements))
        old = tuple(sorted({id for u, _ in several for id in u.stale} - has))
        if old:
            stale[system, case] = old
        # What another folder has of the same unit (another shard, other metrics) is not lacking here.
        why = {**({id: _LACKING[unit.status] for id in versions} if unit.status in _LACKING else {}),
               **dict.fromkeys(old, _STALE)}
        measurements += here
        measurements += [Measurement(metric=id, version=versions[id][0], case=case, system=system,
                                     status=Status.UNTESTED, reason=reason)
                         for id, reason in sorted(why.items()) if id in versions and id not in has]
        places.append(UnitPlace(system, case, unit.status, unit.reason, folder))
    leader = sources[0]
    settings = tuple(sorted({s for source in sources for s in source.settings}))
    marks = [f"The protocol {leader.protocol.get('id')} is a fast profile for a first look, not for publishing."] \
        if leader.protocol.get("fast") else []
    if settings:
        marks.append(f"The protocol was overridden: {', '.join(settings)}.")
    return Gathered(measurements, tuple(places), leader.protocol, leader.hash, settings, stale, tuple(marks))


_EMPTY: dict[str, Any] = {}
_FIELDS = set(Measurement.model_fields)


def _slim(measurements: Sequence[Measurement], system: str, texts: dict[str, str]) -> set[tuple[str, str | None]]:
    """Half the memory: what is the same in many measurements is kept once. They are ours alone, just read.

    Gives the keys (metric, object).
    """
    keys = set()
    put = object.__setattr__
    for m in measurements:
        values = m.__dict__
        values["system"] = system
        values["case"] = texts.setdefault(values["case"], values["case"])
        values["components"] = _EMPTY
        if not values["counts"]:
            values["counts"] = _EMPTY
        if values["reason"]:
            values["reason"] = texts.setdefault(values["reason"], values["reason"])
        put(m, "__pydantic_fields_set__", _FIELDS)
        keys.add((values["metric"], values["object"]))
    return keys


def _same_protocol(sources: Sequence[_Source]) -> None:
    first = sources[0]
    for source in sources:
        if source.hash == first.hash:
            continue
        by_hash: dict[str, list[str]] = {}
        for s in sources:
            by_hash.setdefault(s.hash, []).append(str(s.pick.path))
        said = "; ".join(f"{h[:12]} in {listed(names)}" for h, names in by_hash.items())
        a, b = (s.pick.path / (NAME if s.is_batch else "run.json") for s in (first, source))
        raise ResultError(f"results of different protocols are never averaged: {said}. They differ in "
                          + listed(differing(first.protocol, source.protocol)), where="summary",
                          todo=f"Summarise them apart, or see: spatialbench protocols diff {a} {b}")


def _units(n: int) -> str:
    return f"{n} unit" + "s" * (n != 1)
