"""Cases of all kinds: what each needs, what is refused, and with which words."""

from pathlib import Path

import pytest
import yaml

from spatialbench.configs import config_names
from spatialbench.errors import ConfigError
from spatialbench.types.case import CASE_KINDS, EditCase, SnapshotCase, load_any_case, load_case, parse_case
from spatialbench.types.strict import read_yaml

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def case(text):
    return parse_case(yaml.safe_load(text), "here")


def test_the_examples_are_valid_and_show_every_kind():
    found = [load_any_case(p) for p in EXAMPLES.glob("*.yaml") if p.name != "suite.yaml"]
    assert {c.kind for c in found} == set(CASE_KINDS)
    assert len({c.id for c in found}) == len(found)


def test_without_a_kind_it_is_a_snapshot():
    assert case("id: a") == SnapshotCase(id="a")


# Spec section 10: the mask is made of the target after (addition), before (deletion), or both; W4 has 6 + 4 categories.
@pytest.mark.parametrize(("category", "scope", "operation", "before", "after"), [
    ("addition", "object", "addition", False, True), ("deletion", "object", "deletion", True, False),
    ("replacement", "object", "replacement", True, True), ("colour", "object", "modification", True, None),
    ("state", "object", "modification", True, None), ("material", "object", "modification", True, None),
    ("weather", "global", "global", False, False), ("lighting", "global", "global", False, False),
    ("atmosphere", "global", "global", False, False), ("terrain", "global", "global", False, False)])
def test_what_targets_an_edit_needs(category, scope, operation, before, after):
    for has_before in (False, True):
        for has_after in (False, True):
            data = {"kind": "edit", "id": "a", "instruction": "do it", "category": category,
                    **({"target_before": "x"} if has_before else {}), **({"target_after": "y"} if has_after else {})}
            if has_before == before and after in (has_after, None):
                c = parse_case(data, "here")
                assert isinstance(c, EditCase)
                assert (c.scope, c.operation) == (scope, operation)
            else:
                with pytest.raises(ConfigError, match=f"category '{category}' (needs|has no) 'target_"):
                    parse_case(data, "here")


def test_the_world_before_is_a_snapshot_with_the_same_frame():
    c = case("{kind: expand, id: a, text: b, up: -Y, unit_m: 0.1, camera: {position: [1, 2, 3], forward: [1, 0, 0]}}")
    s = c.snapshot()
    assert (s.kind, s.id, s.text, s.up, s.unit_m, s.camera) == ("snapshot", "a", "b", "-Y", 0.1, c.camera)


VIDEO = "kind: video\nid: a\nview: first\n"
SEGMENTS = "segments: [{t: 1, dt: 2, move: W}, {t: 2, dt: 4, rotate: Mouse_Up}]\n"
EVENTS = "events: [{t: 3, dt: 7, text: it rains}]\n"


# happyworld-video section 1: W1 none, W2 and W3 direction and time, W4 instructions too, W5 addressed controls.
@pytest.mark.parametrize(("level", "segments", "events", "good"), [
    ("W1", "", "", True), ("W1", SEGMENTS, "", False), ("W1", "", EVENTS, False), ("W2", SEGMENTS, "", True),
    ("W2", "", "", False), ("W3", SEGMENTS, EVENTS, False), ("W4", "", EVENTS, True), ("W4", SEGMENTS, EVENTS, True),
    ("W4", SEGMENTS, "", False), ("W5", SEGMENTS, "", True), ("W5", "", "", False)])
def test_controls_by_level(level, segments, events, good):
    text = f"{VIDEO}level: {level}\n{segments}{events}"
    if good:
        case(text)
    else:
        with pytest.raises(ConfigError, match=f"{level}.*'(segments|events)'"):
            case(text)


def test_the_horizon_is_the_latest_end():
    assert case(f"{VIDEO}level: W2\n{SEGMENTS}").horizon == 6  # max(1 + 2, 2 + 4)
    assert case(f"{VIDEO}level: W4\n{SEGMENTS}{EVENTS}").horizon == 10
    assert case(f"{VIDEO}level: W1\nseconds: 15").horizon == 15
    assert case(f"{VIDEO}level: W1").horizon is None
    with pytest.raises(ConfigError, match="'seconds' ends before"):
        case(f"{VIDEO}level: W2\nseconds: 5\n{SEGMENTS}")


# happyworld-video section 2: which checklist is judged at which level.
@pytest.mark.parametrize(("name", "item", "levels"), [
    ("IF", "", "W1 W2 W3 W4"), ("PC", "", "W2 W3 W4"), ("CC", "", "W2 W3 W4"), ("IP", "", "W2 W3 W4"),
    ("AE", "", "W2 W3"), ("IV", "", "W4"), ("SF", ", part: achievement", "W4")])
def test_checklists_by_level(name, item, levels):
    for level in ("W1", "W2", "W3", "W4"):
        controls = {"W1": "", "W4": EVENTS}.get(level, SEGMENTS)
        text = f"{VIDEO}level: {level}\n{controls}checklists: {{{name}: [{{id: x, text: y{item}}}]}}"
        if level in levels:
            case(text)
        else:
            with pytest.raises(ConfigError, match=f"the checklist {name} is asked at"):
                case(text)


def test_diagonals_in_either_order():
    c = case(f"{VIDEO}level: W2\nsegments: [{{t: 0, dt: 1, move: DW}}, {{t: 1, dt: 1, move: AS}}]")
    assert [s.move for s in c.segments] == ["WD", "SA"]


ROBOT = "kind: embodied\nid: a\nprompt: lift it\n"
PAIR = "pair: {group: g, branch: a, changes: gravity, condition: c, outcome: o, difference: d}\n"


def test_pairs_of_embodied_cases():
    c = case(f"{ROBOT}level: W4\n{PAIR}")
    assert c.pair.condition_type == "physical_rule"
    assert case(f"{ROBOT}level: W4\n{PAIR.replace('gravity', 'target')}").pair.condition_type == "action"
    for text in (f"{ROBOT}level: W4\n", f"{ROBOT}level: W2\n{PAIR}"):
        with pytest.raises(ConfigError, match="'pair'"):
            case(text)


@pytest.mark.parametrize(("text", "message"), [
    ("kind: edt\nid: a", "no 'edt' cases.*Did you mean 'edit'"),
    ("kind: 7\nid: a", "no '7' cases.*Known: snapshot"),
    ("kind: edit\nid: a\ninstruction: x\ncategory: weather\nobjects: []", "unknown key 'objects'"),
    ("kind: edit\nid: a\ninstruction: x\ncategory: wether", "category.*'weather'"),
    ("kind: edit\nid: a\ncategory: weather\ninstrction: x", "unknown key 'instrction'.*'instruction'"),
    ("id: a\nobjects: [{id: x, text: y}, {id: x, text: z}]", "'objects' has the id 'x' twice"),
    (f"{VIDEO}level: W2\nsegments: [{{t: 0, dt: 1, mov: W}}]", "'segments.0.mov'.*'move'"),
    (f"{VIDEO}level: W2\nsegments: [{{t: 0, dt: 1}}]", "needs 'move' or 'rotate'"),
    (f"{VIDEO}level: W2\nsegments: [{{t: 0, dt: 1, move: WS}}]", "segments.0.move"),
    (f"{VIDEO}level: W2\nsegments: [{{t: 0, dt: 0, move: W}}]", "segments.0.dt"),
    (f"{VIDEO}level: W2\n{SEGMENTS}checklists: {{AE: [{{id: x, text: y, segment: 2}}]}}", "names segment 2 of 2"),
    (f"{VIDEO}level: W2\n{SEGMENTS}checklists: {{PC: [{{id: x, text: y}}, {{id: x, text: z}}]}}", "'PC' has the id"),
    (f"{VIDEO}level: W4\n{EVENTS}checklists: {{IF: [{{id: x, text: y, rating: five}}]}}", "leave out 'rating'"),
    (f"{ROBOT}level: W3\nassertions: [{{id: x, metric: SSC, text: y}}]", "SSC needs 'part'"),
    (f"{ROBOT}level: W3\nassertions: [{{id: x, metric: PP, text: y, weight: 4}}]", "weight"),
    (f"{ROBOT}level: W2\nassertions: [{{id: x, metric: MAO, text: y}}]", "MAO is not asked at W2"),
    (f"{ROBOT}level: W4\n{PAIR}assertions: [{{id: x, metric: AAC, text: y}}]", "AAC is not asked at W4"),
    ("id: a\nimage: /etc/passwd", "image.*absolute or network"),
    ("id: a\nimage: 'C:/x.png'", "image.*absolute or network"),
    ("id: a\nimage: https://example.org/x.png", "image.*absolute or network"),
    ("id: a\nimage: ~/x.png", "image.*absolute or network"),
    ("id: a\nimage: 'a\\b.png'", "image.*backslash"),
    ("id: a\nimage: ' '", "image.*no file name"),
    (f"id: {'a' * 129}", "id.*128"),
])
def test_broken_cases_of_other_kinds(text, message):
    with pytest.raises(ConfigError, match=f"(?s){message}"):
        case(text)


def test_images_stay_in_the_folder(tmp_path):
    (tmp_path / "cases").mkdir()
    path = tmp_path / "cases" / "a.yaml"
    path.write_text("id: a\nimage: sub/../in.png")
    load_case(path)
    path.write_text("id: a\nimage: ../in.png")
    with pytest.raises(ConfigError, match=r"'\.\./in\.png' leads out of the folder"):
        load_case(path)
    assert load_any_case(path, root=tmp_path).image == "../in.png"
    path.write_text("id: a\nimage: ../../in.png")
    with pytest.raises(ConfigError, match="leads out"):
        load_any_case(path, root=tmp_path)


def test_an_image_that_is_a_link_out_of_the_folder(tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "secret").write_text("x")
    (inner / "in.png").symlink_to(tmp_path / "secret")
    (inner / "a.yaml").write_text("id: a\nimage: in.png")
    with pytest.raises(ConfigError, match="leads out"):
        load_case(inner / "a.yaml")


def test_run_takes_snapshots_only(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("kind: expand\nid: a")
    with pytest.raises(ConfigError, match="of the kind 'expand'"):
        load_case(path)


def test_a_pickle_in_yaml_is_refused(tmp_path):
    path = tmp_path / "a.yaml"
    marker = tmp_path / "ran"
    path.write_text(f"id: !!python/object/apply:pathlib.Path.touch [{marker}]")
    with pytest.raises(ConfigError, match="not valid YAML"):
        load_any_case(path)
    path.write_bytes(b"\x80\x04\x95pickle")
    with pytest.raises(ConfigError, match="UTF-8"):
        load_any_case(path)
    assert not marker.exists()


def test_a_key_that_is_there_twice(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("id: a\ntext: one\nid: b\n")
    with pytest.raises(ConfigError, match="'id' is there twice") as e:
        load_any_case(path)
    assert e.value.where.endswith("line 3")
    path.write_text("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: {<<: *a, y: 4}\n")  # merging is no repetition
    assert read_yaml(path)["c"] == {"x": 1, "y": 4}


def test_a_value_that_unfolds_without_end_is_not_printed():
    value = ["x", "x"]
    for _ in range(29):
        value = [value] * 10
    with pytest.raises(ConfigError, match="key 'id'"):
        parse_case({"id": value}, "here")


def test_configs_are_not_affected_by_unique_keys():
    assert config_names("protocols")
