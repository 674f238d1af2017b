"""Measures one unit and writes its folder; runs in a worker."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from spatialbench.errors import BackendUnavailableError, MissingInputError, SpatialbenchError
from spatialbench.observe import REGISTRY
from spatialbench.runs.batch.job import UnitJob, Work
from spatialbench.runs.batch.keys import hash_file, hash_inputs, recipes
from spatialbench.runs.batch.spending import asked_json
from spatialbench.runs.batch.unitfile import UnitFile, clear_unit, inputs_digest, read_unit, unit_content, write_unit
from spatialbench.runs.kept_scoring import read_kept, scorers_of
from spatialbench.runs.pair import PairResult, measure_pair, write_pair
from spatialbench.runs.run_files import write_results
from spatialbench.runs.scoring import Scoring
from spatialbench.runs.single import RunOptions, RunResult, by_metric, check_protocol, measure_world
from spatialbench.runs.store import canonical_json, prepare_folder, read_units, units_text, write_text
from spatialbench.scene.reading import ReadOptions
from spatialbench.scorers.catalogue import JUDGE
from spatialbench.types import EditCase, ExpandCase, Measurement, Protocol, SnapshotCase, Status
from spatialbench.types.case import parse_case
from spatialbench.types.profile import ExporterProfile
from spatialbench.types.scene import ImportReport
from spatialbench.world import FrameOverrides

__all__ = ["MakePage", "Measured", "kept_rows", "measure_unit", "without_folder", "write_without_values"]

MakePage = Callable[["RunResult | PairResult", Sequence[str]], str]
"""The page (HTML) of a run; the metrics named were kept from an earlier one, and left no pictures."""
Tell = Callable[[str, int, int], None]
_EVIDENCE, _SIDE_CAR = "evidence.", "sidecar."


@dataclass(frozen=True)
class Measured:
    """How a unit ended: ``status`` and ``reason`` as in ``UnitFile``, ``measured`` the metrics that were run, a
    ``note`` for the person who waits, and what was asked of the judge (``spending.Asked``, as JSON types)."""

    status: str
    reason: str
    measured: tuple[str, ...]
    note: str = ""
    judge: Mapping[str, Any] | None = None


def measure_unit(work: Work, page: MakePage | None = None, tell: Tell | None = None) -> Measured:
    """Measure, or find unreadable, the one world of a unit, or both, and write all files of its folder.

    Metrics in ``work.keep`` are taken from the folder as it is, if the input is still what they were made from.

    Raises
    ------
    ResultError : the folder cannot be written.
    """
    tell = tell or (lambda label, done, total: None)
    protocol = _protocol(canonical_json(work.protocol))
    case = None if work.case is None else parse_case(work.case, f"case '{work.case_id}'")
    earlier = _earlier(work.folder, work.keep)
    kept: dict[str, list[Measurement]] = {}

    inputs: list[dict[str, Any]] = []

    def known(reports: Mapping[str, ImportReport]) -> Mapping[str, Sequence[Measurement]]:
        inputs.extend(_inputs(reports, work))
        if earlier is not None and inputs_digest(inputs, work.case, work.told) == earlier[0].inputs_sha256:
            kept.update(earlier[1])
        return kept

    profile = work.told.get("profile")
    frame = FrameOverrides(profile=None if profile is None else ExporterProfile.model_validate(profile),
                           opacity=work.told.get("opacity"))
    reading = ReadOptions(work.told.get("max_splats"), tuple(map(Path, _side_cars(work))),
                          bool(work.told.get("drop_outliers"))).with_case(case)
    options = RunOptions(protocol=protocol.id, settings=work.settings, system=work.system, frame=frame, reading=reading,
                         scoring=Scoring.received(work.scoring))
    result: RunResult | PairResult
    evidence = {role.removeprefix(_EVIDENCE): Path(p) for role, p in work.roles.items() if role.startswith(_EVIDENCE)}
    try:
        if isinstance(case, EditCase | ExpandCase):
            paths = {role: Path(work.roles[role]) for role in ("before", "after")}
            result = measure_pair(case.kind, paths, protocol, case, options, evidence=evidence,
                                  metrics=(*work.metrics, *work.keep), kept=known, progress=tell)
        else:
            assert case is None or isinstance(case, SnapshotCase)
            result = measure_world(Path(work.roles["main"]), protocol, case, options, case_id=work.case_id,
                                   image=Path(work.image) if work.image else None, evidence=evidence,
                                   metrics=(*work.metrics, *work.keep), kept=lambda report: known({"main": report}),
                                   progress=tell)
    except SpatialbenchError as error:
        return _unreadable(work, protocol, error)
    tell("writing the results", 0, 0)
    html, note = _page(result, tuple(kept), page if work.page else None)
    asked = list(by_metric(result.measurements))
    scoring = read_kept(work.folder, kept, protocol) if kept else None
    unit = unit_content(
        system=work.system, case=work.case_id, status="done", outcome="done", inputs=inputs,
        inputs_sha256=inputs_digest(inputs, work.case, work.told), recipes=recipes(protocol, asked),
        normalization=protocol.normalization, files={}, measurements=result.measurements,
        lacking=_lacking(result, kept, None if earlier is None else earlier[0].lacking))
    prepare_folder(work.folder)
    clear_unit(work.folder)
    if isinstance(result, PairResult):
        write_pair(result, work.folder, html, scoring)
    else:
        write_results(result, work.folder, html, scoring)
    unit["files"] = hash_files(work.folder, ("import.json", "summary.json", "units.jsonl"))
    write_unit(work.folder, unit)
    judge = None if result.judge is None else asked_json(result.judge)
    return Measured("done", "", tuple(id for id in asked if id not in kept), note, judge)


def write_without_values(job: UnitJob | Work, folder: Path, protocol: Protocol, metrics: Iterable[str], *,
                         status: str, outcome: str, reason: str, of_metrics: Status,
                         inputs: list[dict[str, Any]], inputs_sha256: str, attempts: Iterable[str] = (),
                         again: bool = False, kept: Mapping[str, Sequence[Measurement]] | None = None) -> None:
    """Write the folder of a unit that failed: ``metrics`` with one status and the same reason, others as ``kept``.

    Raises
    ------
    ResultError : the folder cannot be written.
    """
    known, asked = dict(kept or {}), set(metrics)
    ids = [id for id in protocol.metrics if id in asked or id in known]
    rows = [m for id in ids for m in (
        known[id] if id not in asked else
        [Measurement(metric=id, version=REGISTRY.metric(id).spec.version, case=job.case_id, system=job.system,
                     status=of_metrics, reason=reason)])]
    prepare_folder(folder)
    clear_unit(folder)
    write_text(folder / "units.jsonl", units_text(rows))
    write_unit(folder, unit_content(
        system=job.system, case=job.case_id, status=status, outcome=outcome, inputs=inputs,
        inputs_sha256=inputs_sha256, recipes=recipes(protocol, ids), normalization=protocol.normalization,
        files=hash_files(folder, ("units.jsonl",)), measurements=rows, reason=reason, attempts=attempts, again=again))


def hash_files(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Name -> SHA-256."""
    return {name: hash_file(folder / name)[1] for name in names}


def without_folder(text: str, *folders: str) -> str:
    """A message without the folder that its paths lie in, so that results do not depend on where the worlds are."""
    for folder in sorted(filter(None, folders), key=len, reverse=True):
        text = text.replace(folder.rstrip(os.sep) + os.sep, "")
    return text


def _lacking(result: RunResult | PairResult, kept: Container[str], before: Iterable[str] | None) -> list[str] | None:
    """``UnitFile.lacking``: of metrics measured now by what can be used now, of kept ones what an earlier run said
    (``before``; None: it did not say, and any may have been lacking)."""
    unavailable = {m.metric for m in result.measurements if m.status is Status.UNAVAILABLE}
    named = {id: scorers_of(id, result.protocol) for id in unavailable}
    if not any(named.values()):
        return None
    access, judge = result.observations.context.scorers, result.judge
    fresh = {s for id in unavailable if id not in kept for s in named[id]}
    out = {s for s in fresh if ((judge is None or judge.lacked) if s == JUDGE else access is None or access.lacking(s))}
    old = {s for id in unavailable if id in kept for s in named[id]}
    return sorted(out | (old if before is None else old & set(before)))


def _page(result: RunResult | PairResult, kept: tuple[str, ...], page: MakePage | None) -> tuple[str | None, str]:
    """The page, if one is wanted; a fault in it costs the page and not the numbers."""
    if page is None:
        return None, ""
    try:
        return page(result, kept), ""
    except Exception as error:
        traceback.print_exc()
        return None, f"no page: {type(error).__name__}: {error}"


def _unreadable(work: Work, protocol: Protocol, error: SpatialbenchError) -> Measured:
    backend = isinstance(error, BackendUnavailableError)
    worlds = [p for role, p in work.roles.items() if not role.startswith((_EVIDENCE, _SIDE_CAR))]
    absent = backend or not all(map(os.path.isfile, worlds))  # they were there when the batch began
    reason = without_folder(str(error), work.root, *(str(Path(p).parent) for p in work.roles.values()))
    inputs = hash_inputs(work.roles, work.image, {})
    asked = [id for id in protocol.metrics if id in {*work.metrics, *work.keep}]
    write_without_values(work, work.folder, protocol, asked, status="failed", outcome="unreadable", reason=reason,
                         of_metrics=Status.UNAVAILABLE if absent else Status.INVALID, inputs=inputs,
                         inputs_sha256=inputs_digest(inputs, work.case, work.told),
                         again=backend or isinstance(error, MissingInputError))
    return Measured("failed", reason, tuple(asked))


def kept_rows(folder: Path, keep: Iterable[str]) -> dict[str, list[Measurement]]:
    """Measurements of a complete unit by metric; none when any file is not what it should be."""
    found = _earlier(folder, keep)
    return {} if found is None else found[1]


def _earlier(folder: Path, keep: Iterable[str]) -> tuple[UnitFile, dict[str, list[Measurement]]] | None:
    wanted = set(keep)
    if not wanted:
        return None
    try:
        unit = read_unit(folder)
        text = folder / "units.jsonl"
        if unit is None or hash_file(text)[1] != unit.files.get("units.jsonl"):
            return None
        return unit, by_metric(m for m in read_units(text) if m.metric in wanted)
    except (SpatialbenchError, OSError):
        return None


def _inputs(reports: Mapping[str, ImportReport], work: Work) -> list[dict[str, Any]]:
    """What was read, by the reader's own account, with what ``hash_inputs`` looks at beside it.

    Side-cars of the case are inputs of their own, whatever folder they lie in.
    """
    others = {role: path for role, path in work.roles.items() if role not in reports}
    out = hash_inputs(others, work.image, {})
    given = {f["sha256"] for f in out if f["role"].startswith(_SIDE_CAR)}
    for role, report in reports.items():
        own = {f.name: {"role": role, **f.model_dump(mode="json")} for f in report.files if f.sha256 not in given}
        out += [*own.values(), *hash_inputs({role: work.roles[role]}, "", {}, skip=own)]
    return sorted(out, key=lambda f: (f["role"], f["name"]))


def _side_cars(work: Work) -> list[str]:
    """Paths of the case's side-cars, in order, without what lies beside them."""
    roles = [role for role in work.roles if role.startswith(_SIDE_CAR) and role[len(_SIDE_CAR):].isdigit()]
    return [work.roles[role] for role in sorted(roles, key=lambda r: int(r[len(_SIDE_CAR):]))]


@lru_cache(maxsize=4)
def _protocol(text: str) -> Protocol:
    protocol = Protocol.model_validate_json(text)
    check_protocol(protocol)
    return protocol
