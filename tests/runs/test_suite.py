"""Plans: which output belongs to which case, and what is missing, misnamed, ambiguous, refused or extra."""

import fnmatch
import json
import pickle
import shutil
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spatialbench.errors import MissingInputError, UsageError
from spatialbench.runs.folder_plan import _ids, plan_folder
from spatialbench.runs.listing import list_files, matcher, nearest
from spatialbench.runs.suite import plan_suite
from spatialbench.types.suite import load_suite

OBJ = b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n"
MP4 = b"\x00\x00\x00\x18ftypmp42"
SPZ = b"NGSP" + struct.pack("<I", 3) + b"\x00" * 8
GLTF = json.dumps({"asset": {"version": "2.0"}, "buffers": [{"uri": "data.splat"}]}).encode()
SPLAT = struct.pack("<6f", 0, 0, 0, 0.1, 0.1, 0.1) + bytes([9, 9, 9, 255, 255, 128, 128, 128])
POINTS = (b"ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\nproperty float z\n"
          b"end_header\n0 0 0\n")


def write(root, **files):
    for name, data in files.items():
        put(root, name, data)


def put(root, name, data=OBJ):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def plan(root, cases, systems, worlds=None, protocol="happyworld-spatial-1"):
    path = root / "suite.yaml"
    path.write_text(json.dumps({"id": "s", "version": 1, "protocol": protocol, "cases": cases, "systems": systems}))
    return plan_suite(load_suite(path), worlds)


def expected(problems):
    return [(p.system, p.case_id, p.role, p.expected, p.found) for p in problems]


def test_everything_is_there(tmp_path):
    for system in ("b", "a"):
        for case in ("2", "1"):
            put(tmp_path, f"{system}/{case}.obj")
    p = plan(tmp_path, [{"id": "2"}, {"id": "1"}], {s: {"outputs": "{system}/{case}.obj"} for s in ("b", "a")})
    assert (p.problems, p.extra, p.notes) == ((), (), ())
    assert [(w.system, w.case_id, w.state) for w in p.ready] == [
        ("b", "2", "ready"), ("b", "1", "ready"), ("a", "2", "ready"), ("a", "1", "ready")]
    assert p.worlds[0].paths == {"main": tmp_path / "b" / "2.obj"}
    assert p.worlds[0].case.id == "2"
    assert p.worlds[0].case_folder == tmp_path


def test_both_worlds_of_an_edit(tmp_path):
    put(tmp_path, "x/e/before.obj")
    put(tmp_path, "x/e/after.obj")
    put(tmp_path, "x/f/before.obj")
    cases = [{"kind": "expand", "id": i} for i in ("e", "f")]
    p = plan(tmp_path, cases, {"x": {"outputs": "x/{case}/{role}.obj"}})
    assert [w.state for w in p.worlds] == ["ready", "missing"]
    assert p.worlds[0].paths == {"before": tmp_path / "x/e/before.obj", "after": tmp_path / "x/e/after.obj"}
    assert expected(p.problems) == [("x", "f", "after", "x/f/after.obj", ())]
    assert p.having("missing") == p.problems


def test_overrides_and_unsupported(tmp_path):
    put(tmp_path, "x/other.obj")
    put(tmp_path, "x/before.obj")
    put(tmp_path, "x/c.obj")
    p = plan(tmp_path, [{"id": "a"}, {"kind": "expand", "id": "b"}, {"id": "d"}],
             {"x": {"outputs": "x/{case}/{role}.obj",
                    "overrides": {"a": "x/other.obj", "b": {"before": "x/before.obj", "after": "x/c.obj"}},
                    "unsupported": ["d"]}})
    assert [w.state for w in p.worlds] == ["ready", "ready", "unsupported"]
    assert (p.problems, p.extra) == ((), ())
    assert p.worlds[1].paths["after"] == tmp_path / "x/c.obj"
    assert p.worlds[2].paths == {}


@pytest.mark.parametrize(("there", "how"), [
    ("x/Kitchen-001.obj", "letter case"), ("x/kitchen-001.ply", "suffix"),
    ("x/KITCHEN-001.PLY", "letter case and suffix"),
    ("x/deep/kitchen-001.obj", "folder"), ("x/kitchen_001.obj", "name"), ("x/kitchen-1.obj", "name"),
    ("x/kitchne-001.obj", "name"), ("y/kitchen-001.obj", "folder"), ("x/kitchen-001 (1).obj", "name")])
def test_misnamed(tmp_path, there, how):
    put(tmp_path, "x/hall.obj")
    put(tmp_path, there)
    p = plan(tmp_path, [{"id": "kitchen-001"}, {"id": "hall"}], {"x": {"outputs": "x/{case}.obj"}})
    assert expected(p.problems) == [("x", "kitchen-001", "main", "x/kitchen-001.obj", (there,))]
    assert (p.problems[0].kind, p.problems[0].note, p.extra) == ("misnamed", how, ())


@pytest.mark.parametrize("there", ["x/kitchen-002.obj", "x/bath.obj", "x/kitchen-01001.obj",
                                   "x/deep/er/kitchen-009.obj"])
def test_another_name_is_extra_and_not_misnamed(tmp_path, there):
    put(tmp_path, "x/hall.obj")
    put(tmp_path, there)
    p = plan(tmp_path, [{"id": "kitchen-001"}, {"id": "hall"}], {"x": {"outputs": "x/{case}.obj"}})
    assert [q.kind for q in p.problems] == ["missing"]
    assert p.extra == (there,)


def test_a_name_that_all_cases_share_tells_nothing(tmp_path):
    for folder in ("a", "b", "zzz"):
        put(tmp_path, f"{folder}/world.obj")
    p = plan(tmp_path, [{"id": i} for i in ("a", "b", "kitchen")], {"x": {"outputs": "{case}/world.obj"}})
    assert [q.kind for q in p.problems] == ["missing"]
    assert p.extra == ("zzz/world.obj",)


def test_a_file_that_another_case_claims_is_not_offered(tmp_path):
    put(tmp_path, "x/room-a.obj")
    p = plan(tmp_path, [{"id": "room-a"}, {"id": "room-b"}], {"x": {"outputs": "x/{case}.obj"}})
    assert [(q.kind, q.found) for q in p.problems] == [("missing", ())]


def test_globs(tmp_path):
    put(tmp_path, "x/a/world.gltf", GLTF)
    put(tmp_path, "x/a/data.splat", SPLAT)  # by content a world, but the glTF's buffer
    put(tmp_path, "x/a/wood.png", b"\x89PNG")
    put(tmp_path, "x/b/one.obj")
    put(tmp_path, "x/b/two.obj")
    put(tmp_path, "x/c/notes.txt", b"later")
    p = plan(tmp_path, [{"id": i} for i in "abcd"], {"x": {"outputs": "x/{case}/*"}})
    assert [w.state for w in p.worlds] == ["ready", "missing", "refused", "missing"]
    assert p.worlds[0].paths == {"main": tmp_path / "x/a/world.gltf"}
    assert p.worlds[1].paths == {}
    assert expected(p.having("ambiguous")) == [("x", "b", "main", "x/b/*", ("x/b/one.obj", "x/b/two.obj"))]
    assert expected(p.having("refused")) == [("x", "c", "main", "x/c/*", ("x/c/notes.txt",))]
    assert expected(p.having("missing")) == [("x", "d", "main", "x/d/*", ())]
    assert p.extra == ()


class Bomb:
    def __reduce__(self):
        return (Path.touch, (Path("exploded"),))


def test_pickles_and_other_files_are_refused_and_never_opened(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    put(tmp_path, "x/a.obj", pickle.dumps(Bomb()))
    put(tmp_path, "x/b.obj", b"<!doctype html>")
    put(tmp_path, "x/c.obj", b"")
    put(tmp_path, "x/d.obj", MP4)
    put(tmp_path, "x/e.obj")
    p = plan(tmp_path, [{"id": i} for i in "abcde"], {"x": {"outputs": "x/{case}.obj"}})
    assert [q.kind for q in p.problems] == ["refused"] * 4
    for q, words in zip(p.problems, ("pickle", "HTML", "empty", "video"), strict=True):
        assert words in q.note
    assert [w.state for w in p.worlds] == ["refused"] * 4 + ["ready"]
    assert not (tmp_path / "exploded").exists()


def test_clips_are_told_from_worlds(tmp_path):
    (tmp_path / "p.yaml").write_text("extends: happyworld-spatial-1\nid: p\ntrack: happyworld.video\n")
    put(tmp_path, "x/a.mp4", MP4)
    put(tmp_path, "x/b.mp4")
    put(tmp_path, "x/rest.mp4", MP4)
    cases = [{"kind": "video", "id": i, "level": "W1", "view": "first"} for i in "ab"]
    p = plan(tmp_path, cases, {"x": {"outputs": "x/{case}.mp4"}}, protocol="p.yaml")
    assert [w.state for w in p.worlds] == ["ready", "refused"]
    assert p.extra == ("x/rest.mp4",)


def test_the_input_image_of_a_case(tmp_path):
    put(tmp_path, "x/a.obj")
    put(tmp_path, "x/b.obj")
    put(tmp_path, "in/b.png", b"\x89PNG")
    p = plan(tmp_path, [{"id": "a", "image": "in/a.png"}, {"id": "b", "image": "in/b.png"}],
             {"x": {"outputs": "x/{case}.obj"}})
    assert [(q.kind, *e) for q, e in zip(p.problems, expected(p.problems), strict=True)] == [
        ("missing", "", "a", "image", "in/a.png", ())]
    assert len(p.ready) == 2


def test_nothing_at_all_says_what_was_looked_for(tmp_path):
    worlds = tmp_path / "worlds"
    worlds.mkdir()
    with pytest.raises(UsageError, match=r"'x/\{case\}\.obj'.*'x/a\.obj'.*worlds.*No world and no clip"):
        plan(tmp_path, [{"id": "a"}], {"x": {"outputs": "x/{case}.obj"}}, worlds)
    put(worlds, "other.obj")
    with pytest.raises(UsageError, match=r"such as 'other\.obj'"):
        plan(tmp_path, [{"id": "kitchen"}], {"x": {"outputs": "x/{case}.obj"}}, worlds)
    put(worlds, "x/kitchen.ply", SPZ)
    with pytest.raises(UsageError, match=r"Nearest to 'x/kitchen\.obj' is 'x/kitchen\.ply'"):
        plan(tmp_path, [{"id": "kitchen"}], {"x": {"outputs": "x/{case}.obj"}}, worlds)
    with pytest.raises(MissingInputError, match="no such folder"):
        plan(tmp_path, [{"id": "a"}], {"x": {"outputs": "x/{case}.obj"}}, tmp_path / "none")


def test_links_out_of_the_root_are_not_followed(tmp_path):
    root, out = tmp_path / "root", tmp_path / "out"
    root.mkdir()
    put(out, "a.obj")
    put(root, "real/b.obj")
    put(root, "x/c.obj")
    (root / "x" / "a.obj").symlink_to(out / "a.obj")
    (root / "x" / "b.obj").symlink_to(root / "real" / "b.obj")
    (root / "linked").symlink_to(out)
    (root / "x" / "loop").symlink_to(root)
    p = plan(root, [{"id": i} for i in "abc"], {"x": {"outputs": "x/{case}.obj"}})
    assert [w.state for w in p.worlds] == ["missing", "ready", "ready"]
    assert p.notes == tuple(f"'{n}' is a link that leads out of the folder, and was not followed"
                            for n in ("linked", "x/a.obj"))


def test_a_lone_branch_is_said(tmp_path):
    (tmp_path / "p.yaml").write_text("extends: happyworld-spatial-1\nid: p\ntrack: happyworld.embodied\n")
    put(tmp_path, "a.mp4", MP4)
    pair = {"group": "g", "branch": "a", "changes": "mass", "condition": "c", "outcome": "o", "difference": "d"}
    p = plan(tmp_path, [{"kind": "embodied", "id": "a", "level": "W4", "prompt": "p", "pair": pair}],
             {"x": {"outputs": "{case}.mp4"}}, protocol="p.yaml")
    assert p.notes == ("the group 'g' has one branch only, and is left out of CBF",)


def test_the_plan_does_not_depend_on_the_order_of_the_disk(tmp_path):
    names = [f"x/{k}.obj" for k in range(20)]
    seen = []
    for n, order in enumerate((names, names[::-1])):
        root = tmp_path / str(n)
        for name in order:
            put(root, name)
        seen.append(list_files(root).files)
    assert seen[0] == seen[1] == tuple(sorted(names))


def test_worlds_of_a_folder(tmp_path):
    write(tmp_path, **{"a.obj": OBJ, "a.mtl": b"newmtl x\n", "deep/b c.spz": SPZ, "g/scene.gltf": GLTF,
                       "g/data.splat": SPLAT, "g/buffer.bin": SPLAT, "tex.png": b"\x89PNG", "case.yaml": b"id: a",
                       "info.json": b"{}", "s/room.splat": SPLAT, "cloud.ply": POINTS, "torn.glb": b"<html>",
                       "clip.mp4": MP4, ".hidden/x.obj": OBJ, "read.txt": b"v 0 0 0\n",
                       "sog/meta.json": b'{"means": {}, "scales": {}}'})
    p = plan_folder(tmp_path)
    assert {w.case_id: w.paths["main"].relative_to(tmp_path).as_posix() for w in p.worlds} == {
        "a": "a.obj", "deep-b-c": "deep/b c.spz", "g-scene": "g/scene.gltf", "s-room": "s/room.splat",
        "sog": "sog/meta.json"}
    assert {(w.system, w.kind, w.state, w.case) for w in p.worlds} == {("local", "snapshot", "ready", None)}
    assert [(q.kind, q.found[0]) for q in p.problems] == [("refused", "cloud.ply"), ("refused", "torn.glb")]


def test_the_first_folder_as_system(tmp_path):
    for name in ("one/a.obj", "one/b/c.obj", "two/a.obj", "top.obj"):
        put(tmp_path, name)
    p = plan_folder(tmp_path, by_folder=True)
    assert [(w.system, w.case_id) for w in p.worlds] == [("local", "top"), ("one", "a"), ("one", "b-c"), ("two", "a")]


def test_ids_that_collide(tmp_path):
    for name in ("room.obj", "Room.ply", "a/b.obj", "a-b.obj", "a b.obj", "c.obj"):
        put(tmp_path, name)
    p = plan_folder(tmp_path)
    assert {w.paths["main"].relative_to(tmp_path).as_posix(): w.case_id for w in p.worlds} == {
        "Room.ply": "Room.ply", "room.obj": "room.obj", "a b.obj": "a-b.obj", "a-b.obj": "a-b.obj-2",
        "a/b.obj": "a-b.obj-3", "c.obj": "c"}


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(alphabet="aA-b.2/ ", min_size=1, max_size=8), unique=True, max_size=8))
def test_ids_are_unique_whatever_the_names(names):
    ids = _ids([(n, n) for n in sorted(names)])
    assert set(ids) == set(names)
    assert len({i.lower() for i in ids.values()}) == len(names)


def test_a_folder_without_worlds(tmp_path):
    put(tmp_path, "cloud.ply", POINTS)
    with pytest.raises(UsageError, match=r"no world among the 1 files.*glb.*'cloud\.ply' is a point cloud"):
        plan_folder(tmp_path)
    shutil.rmtree(tmp_path)
    with pytest.raises(MissingInputError):
        plan_folder(tmp_path)


@pytest.mark.parametrize(("pattern", "path", "fits"), [
    ("a/*.obj", "a/b.obj", True), ("a/*.obj", "a/b/c.obj", False), ("a/**/c.obj", "a/c.obj", True),
    ("a/**/c.obj", "a/b/d/c.obj", True), ("a/?.obj", "a/bb.obj", False), ("a/b.obj", "a/bxobj", False),
    ("**/*.obj", "x.obj", True), ("a/(b).obj", "a/(b).obj", True), ("a*", "a\nb", True),
    ("**", "a", True), ("a/**", "a", True), ("*b", "abab", True), ("*a*b", "bbaab", True), ("*a*b", "bbba", False)])
def test_patterns(pattern, path, fits):
    assert matcher(pattern)(path) is fits


@settings(max_examples=300, deadline=None)
@given(st.text("ab*?", max_size=7), st.text("ab", min_size=1, max_size=7))
def test_patterns_of_one_name_as_the_standard_library_has_them(pattern, name):
    assert matcher(pattern)(name) is (fnmatch.fnmatchcase(name, pattern) if pattern != "**" else True)


def test_no_pattern_takes_long():
    # A backtracking matcher would try some 10^11 ways here.
    assert not matcher("*a*a*a*a*a*b")("a" * 250)
    assert not matcher("**/**/**/**/x")("a/" * 120 + "y")


def test_many_names_are_compared_in_little_time():
    # 300 cases of 8 systems, all in the wrong suffix: 2,400 against 2,400 must not take the square of it.
    want = [f"s{s}/case-{k:03d}.glb" for s in range(8) for k in range(300)]
    have = [w.replace(".glb", ".ply") for w in want]
    assert nearest(want, have) == {w: (h, "suffix") for w, h in zip(want, have, strict=True)}
