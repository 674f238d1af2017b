"""Every awkward file of the shared data does what its manifest asks for (``tests/data/awkward.csv``).

``loads``: a world; ``repaired``: a world, with a repair or a warning that says what is not as it was;
``refused``: an error; ``either``: an error, or a world with a repair or a warning, or nothing to mend.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from splat_checks import check_splats
from test_scene_bad_input import check_scene

from spatialbench.errors import InputError
from spatialbench.scene import load_scene

TABLE = Path(__file__).parents[1] / "data" / "awkward.csv"


def rows():
    with TABLE.open(encoding="utf-8") as f:
        return [pytest.param(r, id=r["file"]) for r in csv.DictReader(f)]


@pytest.mark.parametrize("row", rows())
def test_outcome(data_dir, row):
    path = data_dir / "scenes" / row["file"]
    got = check(path)
    if isinstance(got, InputError):
        assert row["outcome"] in ("refused", "either"), f"{row['why']}: {got}"
        assert path.name in got.where
        return
    scene = got
    assert row["outcome"] != "refused", row["why"]
    if row["outcome"] == "repaired":
        assert scene.report.repairs or scene.report.warnings


def check(path):
    """Load or refuse; returns the scene or the error, after a look at what it promises."""
    try:
        scene = load_scene(path)
    except InputError as e:
        error = e
    else:
        if scene.mesh is not None:
            check_scene(scene)
        if scene.splats is not None:
            check_splats(scene)
        return scene
    assert error.what
    assert error.where
    assert error.todo
    return error


def test_the_table_is_the_manifest(data_dir):
    """Every awkward file but companions is in the table, with the manifest's own words, and no other."""
    with (data_dir / "scenes" / "MANIFEST.csv").open(encoding="utf-8") as f:
        manifest = {r["file"]: r["what_should_happen"] for r in csv.DictReader(f)
                    if r["file"].startswith("awkward/") and "companion file" not in r["what_it_is"]}
    assert {p.values[0]["file"]: p.values[0]["why"] for p in rows()} == manifest
    assert {p.values[0]["outcome"] for p in rows()} == {"loads", "repaired", "refused", "either"}
