"""What the panel says of a world: scores, gates and warnings, of a result folder or of a run made here."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from spatialbench.aggregate import summarise
from spatialbench.errors import ResultError
from spatialbench.observe import REGISTRY
from spatialbench.observe.evaluate import evaluate
from spatialbench.report.collect import LEVELS
from spatialbench.report.text import number, value
from spatialbench.runs import RunResult
from spatialbench.runs.run_folder import read_run, run_record
from spatialbench.types import Measurement, Protocol, Status, protocol_hash
from spatialbench.types.scene import ImportReport
from spatialbench.world.anchoring import gates_json

__all__ = ["MetricLine", "SavedResult", "Scores", "differences", "measure", "read_result", "scores_of"]

_MAX_IMPORT = 64 << 20


@dataclass(frozen=True)
class MetricLine:
    """One metric: id, title, raw value with its unit, normalised value, status; reason and flags in ``note``."""

    id: str
    title: str
    raw: str
    normalised: str
    status: Status
    note: str


@dataclass(frozen=True)
class Scores:
    """Everything the panel lists.

    Attributes
    ----------
    origin : in words, where the values come from.
    levels : (level, name, score or a dash, ``3 of 7 metrics``).
    metrics : in the order of the protocol. Empty where nothing was measured yet.
    gates : as ``gates_json`` gives them. warnings, notes : for people; notes are about what is shown.
    """

    origin: str
    levels: tuple[tuple[str, str, str, str], ...]
    metrics: tuple[MetricLine, ...]
    gates: tuple[Mapping[str, Any], ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class SavedResult:
    """A result folder: what was measured, by which protocol, of which files, and where the world then stood.

    Attributes
    ----------
    digests : SHA-256 of the world's files.
    transform : [4,4] source to world; None where the record has none.
    case_given : whether a case was given then.
    """

    folder: Path
    protocol: Protocol
    measurements: tuple[Measurement, ...]
    report: ImportReport
    digests: frozenset[str]
    transform: NDArray[np.float64] | None
    case_given: bool


def read_result(folder: Path) -> SavedResult:
    """What ``spatialbench run`` has written.

    Raises
    ------
    MissingInputError : it is no folder of results. ResultError : it is damaged, or the run did not end.
    """
    record, unit = run_record(folder), read_run(folder)
    if unit.status != "done":
        raise ResultError(f"cannot be shown: {unit.reason}", where=str(folder), todo="Run the world again")
    file = folder / "import.json"
    try:
        if file.stat().st_size > _MAX_IMPORT:
            raise ResultError("is larger than any import report", where=str(file), todo="Run the world again")
        report = ImportReport.model_validate_json(file.read_bytes())
        protocol = Protocol.model_validate_json(json.dumps(record.get("protocol")))
    except OSError as error:
        raise ResultError(f"cannot be read: {error.strerror}", where=str(file), todo="Run the world again") from None
    except ValidationError as error:
        raise ResultError(f"holds no valid protocol or import report: {error.errors()[0]['msg']}", where=str(folder),
                          todo="Run the world again with this version") from None
    return SavedResult(folder, protocol, tuple(unit.measurements), report, frozenset(f.sha256 for f in report.files),
                       _matrix(report.details.get("transform_source_to_world")), bool(record.get("case_given")))


def differences(saved: SavedResult, shown: RunResult) -> tuple[str, ...]:
    """Why the saved scores may not be those of what is shown; in words."""
    out = []
    if saved.digests != frozenset(f.sha256 for f in shown.report.files):
        out.append("the result is of other files than this world's")
    now = np.asarray(shown.world.transform, dtype=np.float64)
    if saved.transform is not None and not np.allclose(saved.transform, now, rtol=1e-6, atol=1e-6):
        out.append("the result's world stood in another frame or had another scale: give the options of that run")
    if saved.case_given and shown.case is None:
        out.append("the result was made with a case: give it with --case")
    if protocol_hash(saved.protocol) != protocol_hash(shown.protocol):
        out.append("the result was made by another protocol than what is computed here")
    return tuple(out)


def scores_of(shown: RunResult, saved: SavedResult | None = None) -> Scores:
    """Scores of a saved result, else of what has been measured of the world that is shown.

    Raises
    ------
    ResultError : the saved measurements do not fit together.
    """
    if saved is None:
        origin = "measured here" if shown.measurements else ""
        return _scores(origin, shown.measurements, shown.protocol, gates_json(shown.world.gates),
                       shown.report.warnings, ())
    gates = saved.report.details.get("gates")
    return _scores(f"of {saved.folder}", saved.measurements, saved.protocol,
                   [g for g in gates if isinstance(g, dict)] if isinstance(gates, list) else [],
                   saved.report.warnings, differences(saved, shown))


def measure(shown: RunResult) -> Scores:
    """All metrics of the protocol, of the world that is shown and with what has been observed of it already."""
    made = evaluate(shown.protocol.metrics, shown.observations)
    words = list(shown.report.warnings)
    if shown.observations.made("spatial.renderer"):
        words += shown.observations.get("spatial.renderer").warnings
    return _scores("measured here", made, shown.protocol, gates_json(shown.world.gates), list(dict.fromkeys(words)), ())


def _scores(origin: str, measurements: Sequence[Measurement], protocol: Protocol, gates: Sequence[Mapping[str, Any]],
            warnings: Sequence[str], notes: tuple[str, ...]) -> Scores:
    specs = REGISTRY.specs(protocol.track)
    known = [m for m in measurements if m.metric in specs]
    if len(known) < len(measurements):
        notes = (*notes, f"{len(measurements) - len(known)} values of metrics that are not known here are left out")
    if not known:
        return Scores(origin, (), (), tuple(gates), tuple(warnings), notes)
    system = summarise(known, specs, protocol.normalization, preview=True).system(known[0].system)
    levels = tuple((g.level, LEVELS.get(g.level, ""), number(g.score), f"{g.n_available} of {g.n_retained} metrics")
                   for g in system.groups)
    lines = []
    for m in known:
        spec, of = specs[m.metric], system.metric(m.metric)
        unit = f" {spec.unit}" if spec.unit and m.value is not None else ""
        lines.append(MetricLine(m.metric, spec.title, f"{value(m.value)}{unit}",
                                number(of.normalised if of is not None else None), m.status,
                                "; ".join([*([m.reason] if m.reason else []), *m.flags])))
    return Scores(origin, levels, tuple(lines), tuple(gates), tuple(warnings), notes)


def _matrix(data: Any) -> NDArray[np.float64] | None:
    try:
        out = np.array(data, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return out if out.shape == (4, 4) and np.isfinite(out).all() else None
