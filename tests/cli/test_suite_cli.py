"""``suite check``, ``case init`` and ``case keys`` as a user calls them."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from spatialbench.cli.case_init import _number, case_text
from spatialbench.cli.case_keys import markdown
from spatialbench.cli.main import main
from spatialbench.runs.single import RunOptions, run_world
from spatialbench.scene import load_scene
from spatialbench.types import Decision, Status, load_case, load_protocol
from spatialbench.types.case import parse_case
from spatialbench.world import FrameOverrides, build_world
from tests.analytic import EYE, box_room, table_room
from tests.splats import splat_mesh
from tests.worlds import moved, quick_protocol, scene_of

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "assets" / "sample_room.glb"
FAST = str(Path(__file__).parents[1] / "data" / "quick.yaml")
OBJ = "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n"


def call(capsys, *arguments):
    with pytest.raises(SystemExit) as e:
        main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return e.value.code, out, err


@pytest.fixture
def suite(tmp_path):
    path = tmp_path / "suite.yaml"
    path.write_text("id: s\nversion: 3\nprotocol: happyworld-spatial-1\ncases: [{id: a}, {id: b}]\n"
                    "systems: {x: {outputs: 'x/{case}.obj'}}\n")
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "a.obj").write_text(OBJ)
    return path


def test_check_ends_with_what_it_found(capsys, suite):
    code, out, err = call(capsys, "suite", "check", suite)
    assert (code, err) == (1, "")
    assert "x/b.obj  [x, case b]" in out
    (suite.parent / "x" / "b.obj").write_text(OBJ)
    (suite.parent / "x" / "more.obj").write_text(OBJ)
    code, out, _ = call(capsys, "suite", "check", suite)
    assert code == 0
    assert "everything is there" in out
    assert "x/more.obj" in out


def test_check_as_json(capsys, suite):
    (suite.parent / "x" / "B.obj").write_text(OBJ)
    code, out, _ = call(capsys, "suite", "check", suite, "--json")
    found = json.loads(out)
    assert code == 1
    assert (found["suite"], found["version"], found["ready"], found["cases"]) == ("s", 3, 1, 2)
    assert found["misnamed"] == [{"system": "x", "case": "b", "role": "main", "expected": "x/b.obj",
                                  "found": ["x/B.obj"], "note": "letter case"}]
    assert found["worlds"][0] == {"case": "a", "system": "x", "kind": "snapshot", "state": "ready",
                                  "paths": {"main": "x/a.obj"}}


def test_check_of_bad_input(capsys, suite, tmp_path):
    code, _, err = call(capsys, "suite", "check", tmp_path / "none.yaml")
    assert (code, "no such file" in err) == (2, True)
    (tmp_path / "empty").mkdir()
    code, _, err = call(capsys, "suite", "check", suite, "--worlds", tmp_path / "empty")
    assert code == 2
    assert "looked for 'x/{case}.obj'" in err
    assert "empty" in err
    suite.write_text(suite.read_text().replace("systems", "sytems"))
    code, _, err = call(capsys, "suite", "check", suite)
    assert (code, "Did you mean 'systems'" in err) == (2, True)


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    path = tmp_path_factory.mktemp("case") / "sample.yaml"
    with pytest.raises(SystemExit) as e:
        main(["case", "init", str(SAMPLE), "-o", str(path), "--protocol", FAST])
    assert e.value.code == 0
    return path


def test_a_begun_case_anchors_the_sample_room_alike(begun):
    """The bound is the task's; 12 digits of a camera within 10 m of the origin move it by 1e-11 m."""
    protocol, scene = load_protocol(FAST), load_scene(SAMPLE)
    case = load_case(begun)
    free, bound = build_world(scene, protocol), build_world(scene, protocol, case)
    assert np.abs(bound.transform - free.transform).max() < 1e-6
    assert {bound.decisions[k].source for k in ("up", "unit", "camera")} == {"case"}
    # The outline runs along cells of 2 cm that are found anew inside it: a cell's width along it, at the most.
    a, b = free.supports[0], bound.supports[0]
    around = np.linalg.norm(a.boundary - np.roll(a.boundary, 1, axis=0), axis=1).sum()
    assert abs(a.area - b.area) < 0.02 * around
    assert abs(a.height - b.height) < 0.01
    assert [s.source for s in bound.supports] == ["case"]


def test_a_begun_case_gives_a_measured_support(begun):
    result = run_world(SAMPLE, RunOptions(protocol=FAST, settings=("metrics=[M25]",), case=begun))
    assert result.case_id == "sample_room"
    m, = result.measurements
    assert (m.metric, m.status) == ("M25", Status.MEASURED)
    assert m.value > 0


def test_a_begun_case_can_be_read_by_people(begun):
    text = begun.read_text()
    assert max(map(len, text.splitlines())) <= 120
    for words in ("# Up: by prior", "# Metres per unit: by prior", "# Initial camera: by file",
                  "# The others, to be chosen instead", "above the ground"):
        assert words in text
    # Every support that is a comment can be chosen by taking the marks away.
    head, _, others = text.partition("# The others, to be chosen instead:\n")
    plain = "\n".join(line.removeprefix("# ") for line in others.splitlines())
    for part in plain.split("support:   #")[1:]:
        chosen = head.partition("# 12 supports")[0] + "support:   #" + part
        parse_case(yaml.safe_load(chosen), "here")


def test_a_begun_case_of_a_tilted_world_without_a_unit():
    """A room turned by 30 and 40 degrees, in centimetres and far from its origin: nothing is at a round number."""
    a, b = np.radians(30), np.radians(40)
    turn = (np.array([[np.cos(a), -np.sin(a), 0], [np.sin(a), np.cos(a), 0], [0, 0, 1]])
            @ np.array([[1, 0, 0], [0, np.cos(b), -np.sin(b)], [0, np.sin(b), np.cos(b)]]))
    mesh = moved(table_room(), 100 * turn, (1234.5, -77.7, 300.25))
    scene = scene_of(mesh, up=turn @ [0, 0, 1], unit_m=None)
    at = 100 * turn @ EYE + [1234.5, -77.7, 300.25]
    protocol = load_protocol(FAST)
    free = build_world(scene, protocol, None, FrameOverrides(camera_position=tuple(at),
                                                             camera_forward=tuple(turn @ [0, 1, 0])))
    text = case_text(free, "tilted", "tilted\nroom.obj")
    case = parse_case(yaml.safe_load(text), "here")
    assert case.unit_m is None
    bound = build_world(scene, protocol, case)
    # 12 digits of 1e3 cm are 1e-9 cm; the offsets in the last column are of order 10 m.
    assert np.abs(bound.transform - free.transform).max() < 1e-8
    # By hand: the table of the room, whose top the case names.
    assert abs(bound.supports[0].height - free.supports[0].height) < 1e-3
    assert abs(bound.supports[0].area / free.supports[0].area - 1) < 0.05


def test_init_replaces_nothing_unasked(capsys, begun, tmp_path):
    code, _, err = call(capsys, "case", "init", SAMPLE, "-o", begun)
    assert code == 2
    assert "is there already" in err
    assert "--force" in err
    code, _, err = call(capsys, "case", "init", SAMPLE, "-o", tmp_path / "no" / "a.yaml")
    assert (code, "no such folder" in err) == (2, True)
    code, _, err = call(capsys, "case", "init", tmp_path / "none.glb", "-o", tmp_path / "a.yaml")
    assert (code, "no such file" in err) == (2, True)


def test_init_to_the_terminal(capsys, tmp_path, begun):
    code, out, _ = call(capsys, "case", "init", SAMPLE, "-o", "-", "--protocol", FAST)
    assert code == 0
    assert out == begun.read_text()


@pytest.mark.parametrize("value", [0.0, -0.0, 1.0, 1e-12, 1e20, -1.5e-7, 123456789.123456])
def test_numbers_are_numbers_in_yaml(value):
    read = yaml.safe_load(_number(value))
    assert isinstance(read, float)
    assert read == pytest.approx(value, rel=1e-11)
    assert not _number(value).startswith("-0.0")


def test_the_documentation_has_the_keys():
    assert markdown() in (ROOT / "docs" / "cases.md").read_text(), "run: spatialbench case keys --markdown"


def test_every_key_is_explained():
    for line in markdown().splitlines():
        if line.startswith("| `"):
            assert line.split(" | ")[-1].strip(" |"), line


def test_keys_of_one_kind(capsys):
    code, out, _ = call(capsys, "case", "keys", "edit")
    assert code == 0
    assert "target_before" in out
    assert "segments" not in out
    code, _, err = call(capsys, "case", "keys", "edt")
    assert (code, "Did you mean 'edit'" in err) == (2, True)


def test_a_begun_case_keeps_what_was_said_of_opacities():
    room = build_world(scene_of(box_room(), up=(0, 0, 1)), quick_protocol(), None,
                       FrameOverrides(camera_position=EYE, camera_forward=(0, 1, 0)))
    splats = splat_mesh(box_room(), 1.0)
    for source, line in (("user", "opacity: activated"), ("profile", "opacity: activated"),
                         ("prior", "# opacity: activated   # where splats store opacities as they are")):
        said = Decision(value="activated", source=source, note="stored as they are")
        world = replace(room, splats=splats, decisions={**room.decisions, "opacity": said})
        text = case_text(world, "c", "c.ply")
        assert line in text.splitlines()
        case = parse_case(yaml.safe_load(text), "c.yaml")
        assert case.opacity == (None if source == "prior" else "activated")
    assert "opacity" not in case_text(room, "c", "c.glb")
