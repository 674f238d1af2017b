"""What a file is called when it is no world: pickles of all protocols, and the formats that a refusal offers."""

from __future__ import annotations

import collections
import pickle

import numpy as np
import pytest

from spatialbench.errors import UnsupportedFormatError
from spatialbench.scene import load_scene
from spatialbench.scene.sniff import READABLE, refuse, sniff


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was opened",))


VALUES = ({"means": [1.0, 2.0], "name": "x"}, [1, 2, 3], {}, [], ("a", "b"), Bomb(), np.zeros(3),
          np.arange(30_000), {"text": "y" * 200_000}, collections.OrderedDict(a=1), "text")


@pytest.mark.parametrize("protocol", [0, 1])
@pytest.mark.parametrize("value", VALUES, ids=lambda v: type(v).__name__)
def test_pickles_without_a_magic(tmp_path, value, protocol):
    """Protocol 0 is text; neither has a magic. A bare string of protocol 1 is a byte X and what looks like anything."""
    (tmp_path / "w.ply").write_bytes(pickle.dumps(value, protocol))
    if protocol == 1 and isinstance(value, str):
        assert sniff(tmp_path / "w.ply").kind == "binary"
        return
    assert sniff(tmp_path / "w.ply").kind == "pickle"
    with pytest.raises(UnsupportedFormatError, match=r"a Python pickle.*could run code and is never opened"):
        load_scene(tmp_path / "w.ply")


@pytest.mark.parametrize("data", [b"cposix\nsystem\n(S'true'\ntR.", b"c__builtin__\neval\n(S'1'\ntR.\n",
                                  b"(dp0\n.", b"(lp0\n."])
def test_pickles_by_hand(tmp_path, data):
    (tmp_path / "w.ply").write_bytes(data)
    assert sniff(tmp_path / "w.ply").kind == "pickle"


@pytest.mark.parametrize("data", [
    b"chair\ntable\nlamp\n", b"could not open\nthe file.\n", b"(see here)\n", b"I am.\n", b"(((((((((((", b"L", b"N.",
    b"File not found.\n", b"Some text\n", b"(dp0\nhello\n", b"cposix\n", b"copyright 2020\nby someone\n(all.)\n",
    b"I" + b"1" * 65_000 + b"\n."])
def test_text_that_begins_like_one(tmp_path, data):
    (tmp_path / "w.ply").write_bytes(data)
    assert sniff(tmp_path / "w.ply").kind == "text"


def test_worlds_that_begin_like_one(tmp_path):
    (tmp_path / "w.obj").write_text("cstype bezier\nv 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
    assert sniff(tmp_path / "w.obj").kind == "obj"


def test_a_refusal_offers_every_format_that_is_read(tmp_path):
    (tmp_path / "w.ply").write_text("nothing")
    todo = refuse(sniff(tmp_path / "w.ply"), tmp_path / "w.ply").todo
    for kind in READABLE:
        assert f".{kind.removeprefix('splat-')}" in todo
    assert "in a .glb or .gltf" in todo
