"""``profile`` and ``opacity`` as keys of cases and systems: names, files, and where a path may lead."""

from __future__ import annotations

from pathlib import Path

import pytest

from spatialbench.cli.case_keys import key_rows
from spatialbench.errors import ConfigError, MissingInputError
from spatialbench.runs.batch.plan import jobs_of
from spatialbench.runs.batch.unitfile import inputs_digest
from spatialbench.runs.suite import plan_suite
from spatialbench.types.case import WORLD_CASES, EditCase, ExpandCase, SnapshotCase, load_any_case, parse_case
from spatialbench.types.profile import load_profile
from spatialbench.types.suite import load_suite
from spatialbench.types.suite_file import SystemOutputs
from tests.analytic import box_room, write_glb

MINE = "id: mine\nmaker: Me\nfiles: f\nevidence: e\nup: +Z\nopacity: activated\n"


def test_a_name_becomes_what_the_profile_holds_and_travels_as_json() -> None:
    case = parse_case({"id": "a", "profile": "hyworld2", "opacity": "logit"}, "a.yaml")
    assert isinstance(case, SnapshotCase)
    assert case.profile == load_profile("hyworld2")
    data = case.model_dump(mode="json", exclude_defaults=True)
    assert data["profile"]["opacity"] == "activated"
    assert SnapshotCase.model_validate(data) == case
    plain = parse_case({"id": "a"}, "a.yaml").model_dump(mode="json", exclude_defaults=True)
    assert plain == {"id": "a"}, "cases that say nothing of it are hashed as ever"


def test_both_reach_the_frame_of_edits_and_expansions() -> None:
    for model, more in ((EditCase, {"kind": "edit", "instruction": "x", "category": "weather"}),
                        (ExpandCase, {"kind": "expand"})):
        case = parse_case({"id": "a", "profile": "marble", "opacity": "activated", **more}, "a.yaml")
        assert isinstance(case, model)
        assert (case.snapshot().profile, case.snapshot().opacity) == (load_profile("marble"), "activated")


@pytest.mark.parametrize(("data", "words"), [
    ({"profile": "marbel"}, "did you mean 'marble'"), ({"profile": "x"}, "known: hunyuanworld1"),
    ({"profile": 3}, "profile"), ({"opacity": "sigmoid"}, "opacity"), ({"profile": {"id": "x"}}, "profile"),
    ({"kind": "video", "profile": "marble"}, "unknown key 'profile'")])
def test_what_is_none_is_refused(data: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_case({"id": "a", **data}, "a.yaml")


def test_a_file_is_relative_to_the_case_and_never_leads_out(tmp_path: Path) -> None:
    inner = tmp_path / "cases"
    inner.mkdir()
    (tmp_path / "mine.yaml").write_text(MINE)
    (inner / "mine.yaml").write_text(MINE)
    case = inner / "case.yaml"
    case.write_text("id: a\nprofile: mine.yaml\n")
    found = load_any_case(case)
    assert isinstance(found, SnapshotCase)
    assert found.profile is not None
    assert (found.profile.id, found.profile.up) == ("mine", (0, 0, 1))
    for path, error, words in (("../mine.yaml", ConfigError, "leads out"), ("/etc/x.yaml", ConfigError, "absolute"),
                               ("none.yaml", MissingInputError, "no such file"),
                               ("case.yaml", ConfigError, "profile")):
        case.write_text(f"id: a\nprofile: {path}\n")
        with pytest.raises(error, match=words):
            load_any_case(case)
    (inner / "link.yaml").symlink_to(tmp_path / "mine.yaml")
    case.write_text("id: a\nprofile: link.yaml\n")
    with pytest.raises(ConfigError, match="leads out"):
        load_any_case(case)
    case.write_text("id: a\nprofile: ../mine.yaml\n")
    assert load_any_case(case, tmp_path).profile is not None, "a suite's folder may hold it"  # type: ignore[union-attr]


def _suite(folder: Path, system: str = "", case: str = "") -> Path:
    write_glb(folder / "room.glb", box_room())
    path = folder / "suite.yaml"
    path.write_text(f"id: s\nversion: 1\nprotocol: happyworld-spatial-1\ncases:\n  - {{id: room{case}}}\n"
                    f"systems:\n  ours: {{outputs: '{{case}}.glb'{system}}}\n")
    return path


def _digest(suite: Path) -> str:
    job, = jobs_of(plan_suite(load_suite(suite)), ("M07",))
    return inputs_digest([], job.case, job.told)


def test_the_case_stands_above_its_system_and_both_are_in_the_hash(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(MINE)
    plain = _digest(_suite(tmp_path))
    marble = _digest(_suite(tmp_path, ", profile: marble"))
    mine = _digest(_suite(tmp_path, ", profile: mine.yaml"))
    both = _digest(_suite(tmp_path, ", profile: marble", ", profile: hyworld2"))
    case = _digest(_suite(tmp_path, "", ", profile: hyworld2"))
    opacity = _digest(_suite(tmp_path, "", ", opacity: logit"))
    assert both == case, "the system's serves cases that name none"
    assert len({plain, marble, mine, case, opacity}) == 5
    assert _digest(_suite(tmp_path, "", ", profile: marble")) == marble
    (tmp_path / "mine.yaml").write_text(MINE.replace("activated", "logit"))
    assert _digest(_suite(tmp_path, ", profile: mine.yaml")) != mine, "the content counts, not the name"
    with pytest.raises(ConfigError, match="system 'ours'"):
        load_suite(_suite(tmp_path, ", profile: marbel"))
    with pytest.raises(ConfigError, match="leads out"):
        load_suite(_suite(tmp_path, ", profile: ../mine.yaml"))


def test_what_the_user_says_is_in_the_hash_only_when_something_is_said() -> None:
    base = inputs_digest([], None)
    assert inputs_digest([], None, {}) == base
    told = [{"opacity": "logit"}, {"opacity": "activated"}, {"profile": {"id": "marble"}}]
    assert len({base, *(inputs_digest([], None, t) for t in told)}) == 4


def test_the_keys_are_listed_without_those_of_profiles() -> None:
    for model in (*WORLD_CASES, SystemOutputs):
        rows = {key: (what, meaning) for key, what, _, meaning in key_rows(model)}
        assert rows["profile"][0] == "name or path"
        assert not any(key.startswith("profile.") for key in rows)
        assert model is SystemOutputs or rows["opacity"][0] == "`logit`, `activated`"
