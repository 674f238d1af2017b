"""Result files: canonical, whole or absent, and read back with places in the errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from spatialbench.errors import MissingInputError, ResultError, UsageError
from spatialbench.runs.store import canonical_json, prepare_folder, read_units, write_text, write_units
from spatialbench.types import Measurement, Status


def test_units_come_back_as_they_went(tmp_path: Path) -> None:
    units = [Measurement(metric="M08", version=1, case="c", system="s", value=1 / 3, status=Status.MEASURED,
                         components={"b": 2, "a": [1.5, None]}, counts={"n": 3}, flags=("x",), geometry="mesh"),
             Measurement(metric="M01", version=1, case="c", system="s", status=Status.UNAVAILABLE, reason="no model")]
    write_units(tmp_path / "units.jsonl", units)
    assert read_units(tmp_path / "units.jsonl") == units
    first = (tmp_path / "units.jsonl").read_bytes()
    write_units(tmp_path / "units.jsonl", read_units(tmp_path / "units.jsonl"))
    assert (tmp_path / "units.jsonl").read_bytes() == first


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "units.jsonl"
    write_text(path, '{"metric":"M08","version":1,"case":"c","system":"s","value":0.0,"status":"unavailable",'
                     '"reason":"x"}\n')
    with pytest.raises(ResultError, match=r"units.jsonl, line 1: .*go together"):
        read_units(path)
    with pytest.raises(MissingInputError):
        read_units(tmp_path / "none.jsonl")


def test_json_has_no_nan_and_sorted_keys() -> None:
    assert canonical_json({"b": 1, "a": [0.1]}) == '{"a":[0.1],"b":1}'
    with pytest.raises(ValueError, match="Out of range"):
        canonical_json({"a": float("nan")})


def test_no_temporary_file_stays_and_a_file_is_no_folder(tmp_path: Path) -> None:
    write_text(tmp_path / "a.json", "{}")
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]
    with pytest.raises(UsageError, match="cannot be made"):
        prepare_folder(tmp_path / "a.json" / "x")
