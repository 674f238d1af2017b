"""The suite file: what is read from it, and what is refused before anything is looked for."""

from pathlib import Path

import pytest

from spatialbench.errors import ConfigError, MissingInputError, UsageError
from spatialbench.types.suite import load_suite

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
HEAD = "id: s\nversion: 1\nprotocol: happyworld-spatial-1\n"
SYSTEMS = "systems: {a: {outputs: 'a/{case}.glb'}}\n"


def suite(tmp_path, text):
    path = tmp_path / "suite.yaml"
    path.write_text(text)
    return load_suite(path)


def test_the_example():
    s = load_suite(EXAMPLES / "suite.yaml")
    assert [c.case.id for c in s.cases] == ["kitchen-001", "kitchen-001-kettle", "kitchen-001-hall", "kitchen-002"]
    ours, theirs = s.systems["ours"], s.systems["theirs"]
    assert ours.pattern("kitchen-001-kettle", "edit", "after", "ours") == "ours/edits/kitchen-001-kettle/after.spz"
    assert ours.pattern("kitchen-001", "snapshot", "main", "ours") == "ours/kitchen-001.spz"
    assert theirs.pattern("kitchen-002", "snapshot", "main", "theirs") == "theirs/kitchen-2-second-try.glb"
    assert s.cases[0].image == EXAMPLES / "images" / "kitchen-001.png"


def test_files_globs_folders_and_inline_cases_in_order(tmp_path):
    for name in ("b/2", "b/1", "c/4", "c/3", "one"):
        path = tmp_path / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"id: '{path.stem}'")
    (tmp_path / "c" / "notes.txt").write_text("no case")
    s = suite(tmp_path, HEAD + SYSTEMS + "cases: [one.yaml, {id: inline}, c, 'b/*.yaml']")
    assert [c.case.id for c in s.cases] == ["one", "inline", "3", "4", "1", "2"]
    assert s.cases[2].folder == tmp_path / "c"
    # The suite file itself, which lies among them, is no case.
    assert [c.case.id for c in suite(tmp_path, HEAD + SYSTEMS + "cases: '*.yaml'").cases] == ["one"]
    assert [c.case.id for c in suite(tmp_path, HEAD + SYSTEMS + "cases: .").cases] == ["one"]


def test_images_of_cases_may_lie_anywhere_in_the_suite(tmp_path):
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "a.yaml").write_text("id: a\nimage: ../images/a.png")
    s = suite(tmp_path, HEAD + SYSTEMS + "cases: cases")
    assert s.cases[0].image.resolve() == (tmp_path / "images" / "a.png").resolve()
    (tmp_path / "cases" / "a.yaml").write_text("id: a\nimage: ../../images/a.png")
    with pytest.raises(ConfigError, match="leads out"):
        suite(tmp_path, HEAD + SYSTEMS + "cases: cases")


def test_a_protocol_file_beside_the_suite(tmp_path):
    (tmp_path / "p.yaml").write_text("extends: happyworld-spatial-1\nid: mine\n")
    s = suite(tmp_path, (HEAD + SYSTEMS).replace("happyworld-spatial-1", "p.yaml") + "cases: [{id: a}]")
    assert Path(s.protocol) == tmp_path / "p.yaml"


@pytest.mark.parametrize(("text", "message"), [
    (HEAD + SYSTEMS + "case: [{id: a}]", "unknown key 'case'.*'cases'"),
    (HEAD + "systems: {a: {output: 'x/{case}.glb'}}\ncases: [{id: a}]", "system 'a'.*'output'.*'outputs'"),
    (HEAD + SYSTEMS + "cases: [{idd: a}]", "cases.0.*unknown key 'idd'"),
    (HEAD + SYSTEMS + "cases: []", "cases"),
    (HEAD + SYSTEMS + "cases: [3]", "neither a path nor a case"),
    (HEAD + "systems: {}\ncases: [{id: a}]", "systems"),
    (HEAD + SYSTEMS + "cases: [{id: a}, {id: b}, {id: a}]", "cases.2.*second case has the id 'a'.*cases.0"),
    (HEAD + SYSTEMS + "cases: [{id: a}, {id: A}]", "but for its case"),
    (HEAD + "systems: {a: {outputs: 'a/{case}'}, a: {outputs: 'b/{case}'}}\ncases: [{id: a}]", "'a' is there twice"),
    (HEAD + "systems: {a: {outputs: 'a/{case}'}, A: {outputs: 'b/{case}'}}\ncases: [{id: a}]", "but for its case"),
    (HEAD + "systems: {a/b: {outputs: 'a/{case}'}}\ncases: [{id: a}]", "systems.a/b"),
    (HEAD + SYSTEMS + "cases: 'none/*.yaml'", "no case matches: looked for 'none/.*yaml' in the folder"),
    (HEAD + SYSTEMS + "cases: ../x.yaml", "leads out"),
    (HEAD + SYSTEMS + "cases: /x.yaml", "absolute"),
    (HEAD + "systems: {a: {outputs: 'a/{caze}.glb'}}\ncases: [{id: a}]", "unknown placeholder '{caze}'.*'{case}'"),
    (HEAD + "systems: {a: {outputs: 'a/world.glb'}}\ncases: [{id: a}, {id: b}]", "does not hold {case}"),
    (HEAD + "systems: {a: {outputs: '../{case}.glb'}}\ncases: [{id: a}]", "leads out"),
    (HEAD + "systems: {a: {outputs: 'a/*/../../../{case}.glb'}}\ncases: [{id: a}]", "leads out"),
    (HEAD + "systems: {a: {outputs: '/a/{case}.glb'}}\ncases: [{id: a}]", "absolute"),
    (HEAD + "systems: {a: {outputs: '*{case}*a*a*a*a*a*'}}\ncases: [{id: a}]", "more than 6"),
    (HEAD + "systems: {a: {outputs: 'a/{case}', overrides: {kichen: x.glb}}}\ncases: [{id: kitchen}]",
     "no case 'kichen'.*'kitchen'"),
    (HEAD + "systems: {a: {outputs: 'a/{case}', unsupported: [b]}}\ncases: [{id: a}]", "no case 'b'"),
    (HEAD + "systems: {a: {outputs: 'a/{case}', overrides: {a: {after: x.glb}}}}\ncases: [{id: a}]", "has no 'after'"),
    (HEAD + "systems: {a: {outputs: {snapshots: 'a/{case}'}}}\ncases: [{id: a}]", "no 'snapshots'.*'snapshot'"),
    (HEAD + "systems: {a: {outputs: {edit: 'a/{case}/{role}'}}}\ncases: [{id: a}]", "Add 'outputs.snapshot'"),
    (HEAD + "systems: {a: {outputs: 'a/{case}/{role}'}}\ncases: [{id: a}]", "has no roles"),
    (HEAD + SYSTEMS + "cases: [{kind: expand, id: a}]", "both roles lie at 'a/a.glb'"),
    (HEAD + SYSTEMS + "cases: [{kind: video, id: a, level: W1, view: first}]",
     "'video', and protocol.*'happyworld.spatial'"),
    (HEAD.replace("version: 1", "version: 0") + SYSTEMS + "cases: [{id: a}]", "version"),
])
def test_broken_suites(tmp_path, text, message):
    with pytest.raises(ConfigError, match=f"(?s){message}"):
        suite(tmp_path, text)


def test_a_suite_that_is_not_there_or_names_no_protocol(tmp_path):
    with pytest.raises(MissingInputError, match="no such file"):
        load_suite(tmp_path / "none.yaml")
    with pytest.raises(UsageError, match="no protocol 'x'"):
        suite(tmp_path, (HEAD + SYSTEMS).replace("happyworld-spatial-1", "x") + "cases: [{id: a}]")


def test_a_case_that_is_a_link_out_of_the_folder(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "out.yaml").write_text("id: a")
    (tmp_path / "in" / "a.yaml").symlink_to(tmp_path / "out.yaml")
    with pytest.raises(ConfigError, match="leads out"):
        suite(tmp_path / "in", HEAD + SYSTEMS + "cases: 'a*.yaml'")


def branch(id, which, difference="d", changes="gravity"):
    return (f"{{kind: embodied, id: {id}, level: W4, prompt: p, pair: {{group: g, branch: {which}, "
            f"changes: {changes}, condition: c, outcome: o, difference: {difference}}}}}")


def test_branches_of_a_group_must_agree(tmp_path):
    (tmp_path / "p.yaml").write_text("extends: happyworld-spatial-1\nid: p\ntrack: happyworld.embodied\n")
    head = HEAD.replace("happyworld-spatial-1", "p.yaml") + SYSTEMS
    assert len(suite(tmp_path, f"{head}cases: [{branch('x', 'a')}, {branch('y', 'b')}]").cases) == 2
    for other, word in ((branch("y", "a"), "branch"), (branch("y", "b", "e"), "difference"),
                        (branch("y", "b", "d", "mass"), "changes")):
        with pytest.raises(ConfigError, match=f"'pair.{word}'"):
            suite(tmp_path, f"{head}cases: [{branch('x', 'a')}, {other}]")
