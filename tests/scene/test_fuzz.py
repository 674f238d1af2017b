"""A short run of the fuzzer; ``python -m tests.scene.fuzz --minutes N`` runs for longer."""

from __future__ import annotations

from importlib.util import find_spec

import fuzz
import fuzz_seeds
import pytest

from spatialbench.scene.sniff import READABLE, sniff


@pytest.mark.parametrize("name", sorted(fuzz_seeds.seeds()))
def test_seeds_are_sound(tmp_path, name):
    files, main = fuzz_seeds.seeds()[name]
    for file, data in files.items():
        (tmp_path / file).write_bytes(data)
    assert fuzz.outcome(tmp_path / main if main else tmp_path) in ("loaded", "repaired")


def test_every_format_has_a_seed(tmp_path):
    kinds = set()
    for files, main in fuzz_seeds.seeds().values():
        for name in [main] if main else files:
            (tmp_path / name).write_bytes(files[name])
            kinds.add(sniff(tmp_path / name).kind)
    assert set(READABLE) - (set() if find_spec("pxr") else {"usd"}) <= kinds


def test_cases_are_made_from_their_number():
    assert fuzz.case_files(7) == fuzz.case_files(7)
    assert len({str(fuzz.case_files(k)) for k in range(50)}) == 50


@pytest.mark.slow
def test_spoiled_worlds():
    """The first 2,500 cases, or as many as fit into twelve seconds."""
    tally = fuzz.run_cases(0, seconds=12, most=2500)
    assert not tally.faults, "\n".join(tally.faults)
    assert sum(tally.outcomes.values()) > 50
    assert tally.outcomes["loaded"] + tally.outcomes["repaired"] > 5


def test_what_once_broke_a_reader(tmp_path):
    """An XML encoding nobody knows, an STL of 34 bytes, an archive member without a name, a layer without faces."""
    model = b'<?xml version="1.0" encoding="UTB-8"?><model/>'
    short = b"solid c\nfacet normal 0 0 0\nendsolid"[:34]
    nameless = fuzz_seeds.archive({"3D/3dmodel.model": b"<model/>", "x": b""}).replace(b"x", b"\0")
    layers = b"ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\nproperty float z\n"
    layers += b"element face 1\nproperty list uchar int vertex_indices\nend_header\n0 0 0\n2 0 0\n"
    for name, data in (("w.3mf", fuzz_seeds.archive({"3D/3dmodel.model": model})), ("w.stl", short),
                       ("n.3mf", nameless)):
        (tmp_path / name).write_bytes(data)
        assert fuzz.outcome(tmp_path / name).startswith("refused")
    (tmp_path / "layers").mkdir()
    for k, data in enumerate((fuzz_seeds.cube_ply(), layers)):
        (tmp_path / "layers" / f"mesh_layer{k}.ply").write_bytes(data)
    assert fuzz.outcome(tmp_path / "layers") == "repaired"
