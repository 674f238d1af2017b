"""The files of one run: what it measured, and how that can be made again."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from spatialbench.aggregate import summary_json
from spatialbench.runs.kept_scoring import KeptScoring
from spatialbench.runs.machine import machine_info, peak_memory_mb, versions
from spatialbench.runs.scoring import judge_texts, scorers_used
from spatialbench.runs.single import RunResult
from spatialbench.runs.store import canonical_json, units_text, write_result
from spatialbench.types import protocol_hash

__all__ = ["backends_used", "run_record", "write_results"]


def write_results(result: RunResult, folder: Path, page: str | None = None, kept: KeptScoring | None = None) -> None:
    """Write ``run.json``, ``import.json``, ``units.jsonl``, ``summary.json``, ``timings.jsonl``, ``report.html``.

    ``run.json`` is written last and an earlier run's is removed first: its presence says that the folder is
    complete and all of it from one run. Without a ``page`` (HTML) an earlier run's is removed too.

    Parameters
    ----------
    kept : of metrics that an earlier run has measured.

    Raises
    ------
    UsageError : the folder cannot be made.
    ResultError : the disk refuses.
    """
    timings = [*result.timings, {"stage": "peak_memory_mb", "value": peak_memory_mb()}]
    # All texts before the first file, so that a fault in one of them leaves nothing.
    texts = {
        "timings.jsonl": "".join(canonical_json(t) + "\n" for t in timings),
        "import.json": canonical_json(result.report.model_dump(mode="json"), indent=1) + "\n",
        "units.jsonl": units_text(result.measurements),
        "summary.json": summary_json(result.summary),
        **judge_texts(result.judge),
        **({} if kept is None else kept.texts(result.judge)),
        **({} if page is None else {"report.html": page}),
        "run.json": canonical_json(run_record(result, kept), indent=1) + "\n",
    }
    write_result(folder, texts)


def run_record(result: RunResult, kept: KeptScoring | None = None) -> dict[str, Any]:
    """What ``run.json`` holds: inputs with hashes, the resolved protocol and its hash, versions, seeds."""
    p = result.protocol
    used = scorers_used(result.observations.context.scorers, result.judge)
    return {
        "schema": 1,
        "created": result.created,
        "case": result.case_id,
        "case_given": result.case is not None,
        "system": result.options.system,
        "world": result.path.name,
        "inputs": [f.model_dump(mode="json") for f in result.report.files],
        **({"evidence": {key: path.name for key, path in sorted(result.evidence.items())}} if result.evidence else {}),
        "protocol": p.model_dump(mode="json"),
        "protocol_hash": protocol_hash(p),
        "protocol_fast": p.fast,
        "protocol_overrides": list(result.options.settings),
        "preview": True,
        "seeds": {"footprint": p.footprint.seed, "finding": p.finding.seed, "planner": 0},
        "backends": {**({} if kept is None else kept.backends), **backends_used(result)},
        **(used if kept is None else kept.record(used, result.judge)),
        "versions": dict(_versions()),
        "machine": machine_info(),
    }


def backends_used(result: RunResult) -> dict[str, str]:
    """Name and version of each renderer and simulator that ran."""
    obs, out = result.observations, {}
    if obs.made("spatial.renderer"):
        out["renderer"] = obs.get("spatial.renderer").name_version
    if obs.made("spatial.walkable") and obs.get("spatial.walkable").navmesh is not None:
        out["navmesh"] = obs.get("spatial.walkable").navmesh.backend
    if obs.made("spatial.placement") and obs.get("spatial.placement").results:
        from spatialbench.physics.placement import placement_backend_status

        out["placement"] = placement_backend_status()[1]
    return out


_versions = lru_cache(maxsize=1)(versions)  # of packages, which do not change
