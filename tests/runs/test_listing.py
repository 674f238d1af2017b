"""Files that are read with another world count with it: colliders and layers, by the rule of ``world_files``."""

import json
import struct

from spatialbench.runs.folder_plan import plan_folder
from spatialbench.runs.listing import Contents, list_files
from spatialbench.runs.suite import plan_suite
from spatialbench.scene.world_files import WorldFiles, world_files
from spatialbench.types.suite import load_suite

SPZ = b"NGSP" + struct.pack("<I", 3) + b"\x00" * 8
OBJ = b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n"
LAYER = (b"ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty float z\n"
         b"element face 1\nproperty list uchar int vertex_indices\nend_header\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n")


def put(root, **files):
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def worlds(root, **options):
    return {w.paths["main"].relative_to(root).as_posix() for w in plan_folder(root, **options).worlds}


def test_pairs_in_one_folder(tmp_path):
    """Each pair is one world; a collider that belongs to nobody, or to a mesh, is one of its own."""
    put(tmp_path, **{"a.spz": SPZ, "a_collider.obj": OBJ, "B.spz": SPZ, "b-Collider.obj": OBJ, "c.obj": OBJ,
                     "c_collider.obj": OBJ, "d_collider.obj": OBJ, "e.spz": SPZ})
    assert worlds(tmp_path) == {"a.spz", "B.spz", "c.obj", "c_collider.obj", "d_collider.obj", "e.spz"}


def test_pairs_in_their_own_folders(tmp_path):
    put(tmp_path, **{"x/scene.spz": SPZ, "x/collider.obj": OBJ, "y/scene.spz": SPZ, "y/scene_collider.obj": OBJ,
                     "z/one.spz": SPZ, "z/two.spz": SPZ, "z/collider.obj": OBJ})
    assert worlds(tmp_path) == {"x/scene.spz", "y/scene.spz", "z/one.spz", "z/two.spz", "z/collider.obj"}
    assert worlds(tmp_path, by_folder=True) == worlds(tmp_path)


def test_the_listing_agrees_with_the_reader(tmp_path):
    """A file counts with another exactly where loading the other reads it too."""
    put(tmp_path, **{"a.spz": SPZ, "a_collider.obj": OBJ, "ab.spz": SPZ, "ab_collider.obj": SPZ, "x/q.spz": SPZ,
                     "x/collider.obj": OBJ, "collider.spz": SPZ, "x/.hidden_collider.obj": OBJ})
    listing = list_files(tmp_path)
    contents = Contents(listing)
    for name in listing.files:
        found = world_files(tmp_path / name).collider
        assert set(contents.parts_of(name)) == (set() if found is None else {found.relative_to(tmp_path).as_posix()})


def test_a_suite_whose_pattern_matches_both(tmp_path):
    put(tmp_path, **{"s/r/scene.spz": SPZ, "s/r/scene_collider.obj": OBJ})
    (tmp_path / "suite.yaml").write_text(json.dumps({
        "id": "s", "version": 1, "protocol": "happyworld-spatial-1", "cases": [{"id": "r"}],
        "systems": {"s": {"outputs": "{system}/{case}/*"}}}))
    plan = plan_suite(load_suite(tmp_path / "suite.yaml"))
    assert not plan.problems
    assert [w.paths["main"].name for w in plan.ready] == ["scene.spz"]


def test_layers_are_one_world(tmp_path):
    put(tmp_path, **{f"hy/mesh_layer{i}.ply": LAYER for i in range(3)}, **{"other.obj": OBJ})
    assert worlds(tmp_path) == {"hy/mesh_layer0.ply", "other.obj"}
    assert worlds(tmp_path / "hy") == {"mesh_layer0.ply"}


def test_layers_agree_with_the_reader(tmp_path):
    """The first layer brings the others, and only it; of two that are one, the plain one."""
    put(tmp_path, **{"mesh_layer0.ply": LAYER, "mesh_layer1.ply": LAYER, "mesh_layer1.drc": b"DRACO\2\2",
                     "mesh_layer10.ply": LAYER, "other.obj": OBJ})
    contents = Contents(list_files(tmp_path))
    assert list(contents.parts_of("mesh_layer0.ply")) == ["mesh_layer1.ply", "mesh_layer10.ply"]
    assert not list(contents.parts_of("mesh_layer1.ply"))
    files = world_files(tmp_path / "mesh_layer0.ply")
    assert [p.name for p in files.layers] == ["mesh_layer0.ply", "mesh_layer1.ply", "mesh_layer10.ply"]
    assert files.left_out == ("mesh_layer1.drc", "other.obj")
    assert world_files(tmp_path / "mesh_layer1.ply") == WorldFiles(tmp_path / "mesh_layer1.ply")


def test_a_folder_is_listed_once(tmp_path, monkeypatch):
    """However many pairs lie in it: the work is in proportion to the number of files."""
    pairs = 40
    for i in range(pairs):
        put(tmp_path, **{f"{i}.spz": SPZ, f"{i}_collider.obj": OBJ})
    contents, listed = Contents(list_files(tmp_path)), []
    own = type(tmp_path).iterdir
    monkeypatch.setattr(type(tmp_path), "iterdir", lambda p: listed.append(p) or own(p))
    assert [list(contents.parts_of(f"{i}.spz")) for i in range(pairs)] == [[f"{i}_collider.obj"] for i in range(pairs)]
    assert listed == [tmp_path]
