"""Reading the results of a batch: fast, and nothing that is not as it was written."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from spatialbench.errors import ResultError
from spatialbench.runs.batch.job import unit_folder
from spatialbench.runs.batch.planfile import read_batch
from spatialbench.runs.batch.unitfile import check_owner, read_unit, verify_files
from spatialbench.types import Measurement

__all__ = ["UnitRecord", "read_finished"]

_FREEZE = 256


@dataclass(frozen=True, eq=False)
class UnitRecord:
    """What is known of one planned unit.

    Attributes
    ----------
    status : ``done``, ``failed`` or ``skipped`` as in ``UnitFile``; ``unfinished``: it was not run yet;
        ``damaged``: its files are not as they were written.
    reason : why it is not ``done``.
    measurements : without components, and without those out of date; of failed and skipped units too.
    stale : metrics whose measurement was made by another recipe than the batch has now (it was not continued).
    """

    system: str
    case: str
    status: str
    reason: str = ""
    measurements: tuple[Measurement, ...] = ()
    stale: tuple[str, ...] = ()


def read_finished(out: Path, verify: bool = True) -> Iterator[UnitRecord]:
    """One record for each unit of the plan, in its order.

    Parameters
    ----------
    verify : also hash the files beside each ``unit.json``.

    Raises
    ------
    MissingInputError, ResultError : no batch was started in the folder, or its plan is damaged.
    """
    batch = read_batch(out)
    try:
        for number, (system, case) in enumerate(batch.units, start=1):
            yield _record(unit_folder(out, system, case), system, case, batch.recipes, verify)
            if number % _FREEZE == 0:
                gc.freeze()  # or the collector walks over all that was read, again and again
    finally:
        gc.unfreeze()


def _record(folder: Path, system: str, case: str, recipes: dict[str, str], verify: bool) -> UnitRecord:
    try:
        unit = read_unit(folder)
        if unit is None:
            return UnitRecord(system, case, "unfinished", "it was not run yet")
        if verify:
            verify_files(folder, unit)
        check_owner(folder, unit, system, case)
    except ResultError as error:
        return UnitRecord(system, case, "damaged", str(error))
    if unit.recipes == recipes:
        return UnitRecord(system, case, unit.status, unit.reason, unit.measurements)
    good = tuple(m for m in unit.measurements
                 if m.metric in recipes and unit.recipes.get(m.metric) == recipes[m.metric])
    stale = tuple(id for id in recipes if unit.recipes.get(id, recipes[id]) != recipes[id])
    return UnitRecord(system, case, unit.status, unit.reason, good, stale)
