"""Result folders that no run has made: batches and single runs with made-up values, written in the real formats."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from spatialbench.runs.batch.job import unit_folder
from spatialbench.types import load_protocol, protocol_hash

PROTOCOL = "happyworld-spatial-1"
MEASURED = ("M07", "M08", "M12", "M13", "M14", "M25")
Value = float | None | tuple[str, str]
"""A measured value, nothing at all, or a status with its reason."""


def canonical(data: Any) -> str:
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def record(metric: str, system: str, case: str, value: Value, **more: Any) -> dict[str, Any]:
    """A measurement as JSON, fields at their defaults left out."""
    out = {"metric": metric, "version": 1, "case": case, "system": system, **more}
    if isinstance(value, tuple):
        return {**out, "status": value[0], "reason": value[1]}
    return {**out, "status": "measured", "value": value}


def write_unit(out: Path, system: str, case: str, measurements: Iterable[dict[str, Any]], *, status: str = "done",
               outcome: str = "", reason: str = "", recipes: dict[str, str] | None = None, page: bool = False,
               extra_bytes: int = 0) -> Path:
    """One finished unit; ``extra_bytes`` makes its side files as large as real ones."""
    folder = unit_folder(out, system, case)
    folder.mkdir(parents=True)
    rows = list(measurements)
    texts = {"units.jsonl": "".join(canonical(r) + "\n" for r in rows) + " " * extra_bytes, "import.json": "{}\n",
             "summary.json": "{}\n"}
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    if page:
        (folder / "report.html").write_text(f"<!doctype html><title>{len(rows)}</title>")
    content = {"schema": 1, "unit": f"{system}/{case}", "system": system, "case": case, "status": status,
               "outcome": outcome or ("done" if status == "done" else "crash"), "inputs": [], "inputs_sha256": "0" * 64,
               "recipes": recipes if recipes is not None else {r["metric"]: "r" for r in rows},
               "normalization": "wmbench-normalization-v1",
               "files": {n: hashlib.sha256(t.encode()).hexdigest() for n, t in texts.items()}, "measurements": rows,
               **({"reason": reason} if reason else {})}
    body = canonical(content)[:-1]
    (folder / "unit.json").write_text(f'{body},"sha256":"{hashlib.sha256(body.encode()).hexdigest()}"}}\n',
                                      encoding="utf-8")
    return folder


def write_batch(out: Path, units: Sequence[tuple[str, str]], *, protocol: str = PROTOCOL,
                settings: tuple[str, ...] = (), recipes: dict[str, str] | None = None) -> Path:
    """The plan of a batch; its units are written with ``write_unit``."""
    out.mkdir(parents=True, exist_ok=True)
    p = load_protocol(protocol, settings)
    (out / "batch.json").write_text(canonical({
        "schema": 1, "suite": "", "suite_version": 0, "protocol": p.model_dump(mode="json"),
        "protocol_hash": protocol_hash(p), "settings": list(settings),
        "recipes": recipes if recipes is not None else dict.fromkeys(p.metrics, "r"),
        "units": [list(u) for u in units], "version": "0"}) + "\n", encoding="utf-8")
    return out


def write_run(out: Path, system: str, case: str, measurements: Iterable[dict[str, Any]], *, protocol: str = PROTOCOL,
              settings: tuple[str, ...] = (), page: bool = False) -> Path:
    """The folder of a single run."""
    out.mkdir(parents=True, exist_ok=True)
    p = load_protocol(protocol, settings)
    (out / "units.jsonl").write_text("".join(canonical(r) + "\n" for r in measurements), encoding="utf-8")
    if page:
        (out / "report.html").write_text("<!doctype html><title>run</title>")
    (out / "run.json").write_text(json.dumps({
        "schema": 1, "case": case, "system": system, "protocol": p.model_dump(mode="json"),
        "protocol_hash": protocol_hash(p), "protocol_fast": p.fast, "protocol_overrides": list(settings),
        "preview": True}), encoding="utf-8")
    return out


def field(out: Path, systems: Sequence[str], cases: Sequence[str], *, measured: Sequence[str] = MEASURED, seed: int = 0,
          value: Callable[[str, str, str], Value] | None = None, page: bool = False, extra_bytes: int = 0,
          **plan: Any) -> Path:
    """A batch of all systems on all cases with all metrics of the protocol: ``measured`` ones have values in [0,1]
    that differ by system, a few are invalid; the others are unavailable."""
    random_ = random.Random(seed)
    metrics = load_protocol(plan.get("protocol", PROTOCOL), plan.get("settings", ())).metrics
    write_batch(out, [(s, c) for s in systems for c in cases], **plan)

    def made(metric: str, k: int) -> Value:
        if metric not in measured:
            return ("unavailable", "needs the scorer 'hpsv3', which is not installed")
        x = random_.random()
        if x < 0.04:
            return ("invalid", "the camera stands inside a surface")
        return round(min(1.0, max(0.0, random_.gauss(0.45 + 0.1 * k, 0.18))), 6)

    for k, s in enumerate(systems):
        for c in cases:
            rows = [record(m, s, c, made(m, k) if value is None else value(m, s, c)) for m in metrics]
            write_unit(out, s, c, rows, page=page, extra_bytes=extra_bytes)
    return out
