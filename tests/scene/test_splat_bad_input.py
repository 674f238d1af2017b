"""Whatever the bytes: valid splats or an error of ours that says what, where and what to do."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import tracemalloc
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from splat_checks import check
from splat_files import (
    compressed_ply,
    dotsplat,
    fixed24,
    gaussian_glb,
    ksplat,
    ply,
    row,
    section,
    sog,
    sog_files,
    spz,
    spz4,
    spz_body,
    spz_glb,
)

from spatialbench.errors import CorruptInputError, InputError, UnsupportedFormatError
from spatialbench.scene import sniff

HARMONIC = {**row(), **{f"f_rest_{i}": float(i) for i in range(9)}}
BODY = spz_body(fixed24(*range(9)), n=3, alphas=b"abc", colors=b"abcdefghi", scales=b"\xa0" * 9,
                rotations=b"\x85" * 9, degree=1, sh=bytes(range(27)), flags=2, tail=b"\3\0\xbe\xad\4\0\0\0\6\0\0\0")
FILES = sog_files()
LOW, HIGH = [-1.0, 0, 10, -4, -3, -2, 0, 0.25, 0], [1.0, 2, 20, -2, -1, 0, 1, 0.75, 0.5]
SEEDS = {
    "ply": ply([HARMONIC] * 3), "text": ply([row(), row(x=7)], order=""), "big": ply([row()] * 2, order=">"),
    "compressed": compressed_ply([(2**31, 123456789, 3, 4)] * 2, LOW, HIGH, sh=[[1] * 9] * 2),
    "spz": gzip.compress(BODY, mtime=0), "unpacked": BODY, "sog": sog(FILES),
    "ksplat 0": ksplat([section(range(3), degree=1)]), "ksplat 2": ksplat([section(range(5), degree=2)], level=2),
    "spz 4": spz4(fixed24(*range(9)), n=3, alphas=b"abc", colors=b"abcdefghi", scales=b"\xa0" * 9,
                  rotations=b"\x85" * 12, degree=1, sh=bytes(range(27)), flags=2, tail=b"\3\0\xbe\xad\4\0\0\0\6\0\0\0"),
    "gltf": gaussian_glb(3, degree=1), "spz in gltf": spz_glb(gzip.compress(BODY, mtime=0), 3),
    "dotsplat": dotsplat(*[(1, 2, 3, 0.5, 1, 2, 255, 51, 0, 204, 255, 128, 128, 128)] * 3),
}


@pytest.mark.parametrize("seed", list(SEEDS))
def test_seeds_are_sound(tmp_path, seed):
    (tmp_path / "world").write_bytes(SEEDS[seed])
    assert not isinstance(check(tmp_path / "world"), InputError)


@pytest.mark.parametrize("seed", list(SEEDS))
def test_cut_anywhere(tmp_path, seed):
    data, path = SEEDS[seed], tmp_path / "world.splat"
    for cut in range(1, len(data), 1 + len(data) // 150):
        path.write_bytes(data[:cut])
        got = check(path)
        if seed not in ("dotsplat", "text", "unpacked"):  # which may be whole again, or lack an extension only
            assert isinstance(got, InputError), cut


@pytest.mark.parametrize("seed", list(SEEDS))
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_spoiled_bytes(tmp_path_factory, seed, data):
    raw = bytearray(SEEDS[seed])
    edits = data.draw(st.lists(st.tuples(st.integers(0, len(raw) - 1), st.integers(0, 255)), min_size=1, max_size=6))
    for at, value in edits:
        raw[at] = value
    if data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(raw)))
        raw[at:at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
    path = tmp_path_factory.mktemp("spoiled") / ("world.splat" if seed == "dotsplat" else "world.bin")
    path.write_bytes(bytes(raw))
    check(path)


@settings(max_examples=100, deadline=None)
@given(edits=st.lists(st.tuples(st.integers(0, len(BODY) - 1), st.integers(0, 255)), min_size=1, max_size=4))
def test_spoiled_inside_gzip(tmp_path_factory, edits):
    raw = bytearray(BODY)
    for at, value in edits:
        raw[at] = value
    path = tmp_path_factory.mktemp("spoiled") / "world.spz"
    path.write_bytes(gzip.compress(bytes(raw), mtime=0))
    check(path)


VALUES = st.recursive(st.none() | st.booleans() | st.integers(-2, 2**70) | st.floats() | st.text(max_size=4),
                      lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=3), v, max_size=2),
                      max_leaves=4)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_spoiled_meta(tmp_path_factory, data):
    """Any field of meta.json replaced by any JSON value, with harmonics and without, in both versions."""
    meta = json.loads(FILES["meta.json"])
    meta["shN"] = {"count": 1, "bands": 1, "codebook": [0.0] * 256, "mins": 0, "maxs": 1,
                   "files": ["sh0.webp", "sh0.webp"]}
    for name, width in (("scales", 3), ("sh0", 4)):
        meta[name] |= {"mins": [0] * width, "maxs": [1] * width}
    meta["means"]["shape"] = [2, 3]
    if data.draw(st.booleans()):
        del meta["shN"]
    if data.draw(st.booleans()):
        del meta["version"]
    here = meta
    while True:
        key = data.draw(st.sampled_from(list(here) if isinstance(here, dict) else list(range(len(here)))))
        if isinstance(here[key], (dict, list)) and here[key] and data.draw(st.booleans()):
            here = here[key]
            continue
        here[key] = data.draw(VALUES)
        break
    path = tmp_path_factory.mktemp("fields") / "world.sog"
    path.write_bytes(sog({**FILES, "meta.json": json.dumps(meta).encode()}))
    check(path)


FLOATS = st.floats(width=32) | st.sampled_from([0.0, -0.0, 1e-45, 3e38, -3e38])


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.lists(FLOATS, min_size=14, max_size=14), min_size=1, max_size=5))
def test_any_numbers_in_a_ply(tmp_path_factory, rows):
    """Every row is kept or counted under one fault, and the three encodings agree to the bit."""
    folder, names, got = tmp_path_factory.mktemp("numbers"), list(row()), []
    for i, order in enumerate(("<", ">", "")):
        path = folder / f"{i}.ply"
        path.write_bytes(ply([dict(zip(names, r, strict=True)) for r in rows], order=order))
        got.append(check(path))
    if isinstance(got[0], InputError):
        assert len({type(g) for g in got}) == 1
        return
    for other in got[1:]:
        assert other.report.repairs == got[0].report.repairs
        for name in ("means", "scales", "quaternions", "opacities", "sh"):
            assert getattr(other.splats, name).tobytes() == getattr(got[0].splats, name).tobytes()


@pytest.mark.parametrize("head", [
    ply([row()], count=10**9), ply([row()], count=10**18 - 1), spz(fixed24(0, 0, 0), n=2**31),
    spz4(fixed24(0, 0, 0), count=40_000_000), ksplat([section(range(3), room=40_000_000)]),
    compressed_ply([(0, 0, 0, 0)], LOW, HIGH).replace(b"element vertex 1\n", b"element vertex 999999999\n"),
    compressed_ply([(0, 0, 0, 0)], LOW, HIGH).replace(b"element chunk 1\n", b"element chunk 999999999\n"),
    sog(sog_files(count=49_000_000))])
def test_a_header_that_promises_more_takes_no_memory(tmp_path, head):
    path = tmp_path / "world"
    path.write_bytes(head)
    check(path)  # imports what is needed
    tracemalloc.start()
    try:
        got = check(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert isinstance(got, CorruptInputError)
    assert peak < 8 << 20


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was opened",))


def test_pickles_named_ply_are_never_opened(tmp_path):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr("archive/data.pkl", pickle.dumps(Bomb()))
        z.writestr("archive/meta.json", b"{}")
        z.writestr("meta.json", b"{}")
        z.writestr("a.webp", b"")
    for data in (out.getvalue(), pickle.dumps(Bomb(), 2), pickle.dumps(Bomb(), 5)):
        for name in ("gaussians_0.ply", "a.splat", "a.sog"):
            path = tmp_path / name
            path.write_bytes(data)
            assert sniff(path).kind == "pickle"
            assert isinstance(check(path), UnsupportedFormatError)


def test_nothing_outside_the_archive_is_read(tmp_path):
    """A picture beside the archive, or above it, is not a part of it."""
    files = sog_files()
    inside = tmp_path / "world"
    inside.mkdir()
    for place in (tmp_path, inside):
        (place / "quats.webp").write_bytes(files["quats.webp"])
    for name in ("../quats.webp", "quats.webp", str(tmp_path / "quats.webp")):
        meta = json.loads(files["meta.json"]) | {"quats": {"files": [name]}}
        data = {k: v for k, v in files.items() if k != "quats.webp"} | {"meta.json": json.dumps(meta).encode()}
        (inside / "a.sog").write_bytes(sog(data))
        assert isinstance(check(inside / "a.sog"), InputError)
    meta = json.loads(files["meta.json"]) | {"quats": {"files": ["../quats.webp"]}}
    for name, data in files.items():
        (inside / name).write_bytes(data)
    (inside / "meta.json").write_text(json.dumps(meta))
    assert "outside its folder" in str(check(inside / "meta.json"))


def test_encrypted_and_odd_archives(tmp_path):
    data = bytearray(sog(FILES))
    at = data.index(b"PK\x01\x02")
    data[at + 8] |= 1  # the first member (meta.json) claims to be encrypted
    (tmp_path / "a.sog").write_bytes(bytes(data))
    assert isinstance(check(tmp_path / "a.sog"), CorruptInputError)
    odd = bytearray(sog(FILES))
    odd[odd.index(b"PK\x01\x02") + 10] = 99  # a compression that does not exist
    (tmp_path / "a.sog").write_bytes(bytes(odd))
    assert isinstance(check(tmp_path / "a.sog"), CorruptInputError)


def test_point_clouds_stay_refused(tmp_path):
    path = tmp_path / "world.ply"
    path.write_bytes(b"ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\nproperty float z\n"
                     b"end_header\n0 0 0\n")
    assert "point cloud" in str(check(path))
