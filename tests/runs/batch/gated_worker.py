"""A worker whose units wait at a gate: each says where it is, and goes on when ``GATE/go`` is there.

The gate is the folder beside the result folder, so that it can be opened while a batch runs on other nodes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from spatialbench.runs.batch.job import Work
from spatialbench.runs.batch.measure import MakePage, Measured, measure_unit
from spatialbench.runs.batch.worker import serve


def measure(work: Work, page: MakePage | None, tell: Callable[[str, int, int], None]) -> Measured:
    gate = work.folder.parents[3] / "gate"
    (gate / f"{work.case_id}.{os.getpid()}").write_text("")
    while not (gate / "go").exists():
        time.sleep(0.05)
    return measure_unit(work, page, tell)


def main() -> None:
    serve(None, measure)
