"""Large worlds: thinning out, threads, mapped files, memory, names of columns and comments of PLY files."""

from __future__ import annotations

import hashlib
import tracemalloc

import numpy as np
import pytest
from splat_checks import check, check_splats, counts
from splat_files import dotsplat, gaussian_glb, ksplat, ply, row, section, spz

from spatialbench.errors import MissingInputError, UsageError
from spatialbench.scene import blocks, load_scene
from spatialbench.scene import folder as folder_module
from spatialbench.scene.log import ReadLog
from spatialbench.scene.splats import blocks as thinning
from spatialbench.scene.splats import thin
from spatialbench.scene.splats.blocks import thinned

ARRAYS = ("means", "scales", "quaternions", "opacities", "sh")


def big_ply(path, n, degree=0, seed=0, bad=()):
    """A binary PLY of n random splats, whole columns at a time; rows in ``bad`` have a NaN position."""
    rest = 3 * ((degree + 1) ** 2 - 1)
    names = [*"xyz", *(f"f_dc_{i}" for i in range(3)), *(f"f_rest_{i}" for i in range(rest)), "opacity",
             *(f"scale_{i}" for i in range(3)), *(f"rot_{i}" for i in range(4))]
    head = ["ply", "format binary_little_endian 1.0", f"element vertex {n}", *(f"property float {a}" for a in names),
            "end_header\n"]
    values = np.random.default_rng(seed).normal(size=(n, len(names))).astype("<f4")
    values[list(bad), 0] = np.nan
    path.write_bytes("\n".join(head).encode() + values.tobytes())
    return values


# --- thinning out


def test_thinned_is_a_fixed_part_that_grows(tmp_path):
    values = big_ply(tmp_path / "a.ply", 5000)
    place = {tuple(v): i for i, v in enumerate(values[:, :3].tolist())}
    kept = []
    for most in (50, 500, 4999):
        scene = load_scene(tmp_path / "a.ply", max_splats=most)
        check_splats(scene)
        rows = [place[tuple(v)] for v in scene.splats.means.tolist()]
        assert len(rows) == most
        assert rows == sorted(rows)  # in the file's order
        assert counts(scene) == {"splats_thinned_out": 5000 - most}
        assert any(f"only {most:,} of 5,000" in w for w in scene.report.warnings)
        assert scene.report.details["splats_in_file"] == 5000
        kept.append(set(rows))
    assert kept[0] < kept[1] < kept[2]
    # 500 of 5,000 chosen evenly: a tenth of each tenth of the file, 50 +- 5 standard deviations of 6.4.
    assert np.abs(np.bincount(np.array(sorted(kept[1])) // 500, minlength=10) - 50).max() < 32
    whole = load_scene(tmp_path / "a.ply", max_splats=5000)
    assert len(whole.splats) == 5000
    assert not whole.report.warnings
    part = whole.splats.select(np.array(sorted(kept[1])))
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(part, name),
                                      getattr(load_scene(tmp_path / "a.ply", max_splats=500).splats, name))


def test_thinned_by_hand():
    """The rule, written out for Python's integers: the finaliser of splitmix64 of i + 1 steps of its constant."""
    def mixed(i):
        z = (i + 1) * 0x9E3779B97F4A7C15 % 2**64
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            z = (z ^ (z >> shift)) * factor % 2**64
        return z ^ (z >> 31)

    assert mixed(0) == 0xE220A8397B1DCDAF  # the published first output of splitmix64 with seed 0
    assert thinned(1000, 10, ReadLog()).tolist() == sorted(sorted(range(1000), key=mixed)[:10])


@pytest.mark.parametrize(("name", "data"), [
    ("a.ply", ply([row(x=i) for i in range(40)], order="")),
    ("a.ply", ply([row(x=i) for i in range(40)], kind="double")),
    ("a.splat", dotsplat(*[(i, 2, 3, 0.5, 1, 2, 255, 51, 0, 204, 255, 128, 128, 128) for i in range(40)])),
    ("a.glb", gaussian_glb(40))])
def test_thinned_in_every_format(tmp_path, name, data):
    """All readers choose the same numbers."""
    path = tmp_path / name
    path.write_bytes(data)
    scene = load_scene(path, max_splats=7)
    check_splats(scene)
    step = 1.5 if name == "a.glb" else 1
    assert (scene.splats.means[:, 0] / step).tolist() == thinned(40, 7, ReadLog()).tolist()


def test_thinned_refuses_nonsense(tmp_path):
    path = tmp_path / "a.ply"
    path.write_bytes(ply([row()]))
    with pytest.raises(UsageError, match="--max-splats"):
        load_scene(path, max_splats=0)
    assert thin is thinning.thin


def test_a_header_that_lies_takes_no_memory_when_thinned(tmp_path):
    path = tmp_path / "a.ply"
    for order in ("<", ""):
        path.write_bytes(ply([row()], order=order, count=10**9))
        tracemalloc.start()
        try:
            with pytest.raises(Exception, match="cut off"):
                load_scene(path, max_splats=100)
            assert tracemalloc.get_traced_memory()[1] < 8 << 20
        finally:
            tracemalloc.stop()


# --- threads and mapped files


@pytest.mark.parametrize("degree", [0, 3])
def test_threads_and_mapping_change_nothing(tmp_path, monkeypatch, degree):
    path = tmp_path / "a.ply"
    n = 3 * blocks._ALONE // 2
    values = big_ply(path, n, degree, bad=(5, n - 1))
    monkeypatch.setattr(blocks, "threads", lambda: 3)
    monkeypatch.setattr(folder_module, "_MAPPED", 1)
    parallel = check(path)
    monkeypatch.setattr(blocks, "threads", lambda: 1)
    monkeypatch.setattr(folder_module, "_MAPPED", 1 << 40)
    alone = check(path)
    assert parallel.report.model_dump_json() == alone.report.model_dump_json()
    for name in ARRAYS:
        assert getattr(parallel.splats, name).tobytes() == getattr(alone.splats, name).tobytes()
    assert parallel.report.files[0].sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert counts(parallel) == {"splats_position_not_finite": 2}
    np.testing.assert_array_equal(parallel.splats.means, np.delete(values[:, :3], (5, n - 1), axis=0))


@pytest.mark.parametrize("kind", ["splat", "ksplat", "spz"])
def test_fixed_records_too(tmp_path, monkeypatch, kind):
    """Random bytes as colours, opacities and rotations, in blocks of several threads out of a mapped file, or alone."""
    rng, n, path = np.random.default_rng(0), blocks._ALONE + 3, tmp_path / f"a.{kind}"
    if kind == "splat":
        rows = np.zeros(n, [("floats", "<f4", 6), ("bytes", "u1", 8)])
        rows["floats"], rows["bytes"] = rng.random((n, 6)), rng.integers(0, 256, (n, 8))
        path.write_bytes(rows.tobytes())
    elif kind == "ksplat":
        body = rng.random((n, 20)).astype("<f4")  # degree 1; the eleventh word is the colour
        head = bytearray(ksplat([section([1.0], degree=1)], splats=n)[:4096 + 1024])
        for at in (4096, 4096 + 4):
            head[at:at + 4] = n.to_bytes(4, "little")
        path.write_bytes(bytes(head) + body.tobytes())
    else:
        planes = {name: rng.integers(1, 256, width * n, np.uint8).tobytes() for name, width in
                  (("positions", 9), ("alphas", 1), ("colors", 3), ("scales", 3), ("rotations", 4), ("sh", 9))}
        path.write_bytes(spz(planes.pop("positions"), version=3, n=n, degree=1, **planes))
    found = []
    for threads, mapped in ((3, 1), (1, 1 << 40)):
        monkeypatch.setattr(blocks, "threads", lambda t=threads: t)
        monkeypatch.setattr(folder_module, "_MAPPED", mapped)
        found.append(check(path))
    assert found[0].report.model_dump_json() == found[1].report.model_dump_json()
    assert found[0].report.details["splats_read"] == n
    for name in ARRAYS:
        assert getattr(found[0].splats, name).tobytes() == getattr(found[1].splats, name).tobytes()


def test_threads_obey_the_environment(monkeypatch):
    monkeypatch.setenv("SPATIALBENCH_THREADS", "1")
    assert blocks.threads() == 1
    monkeypatch.setenv("SPATIALBENCH_THREADS", "many")
    assert 1 <= blocks.threads() <= blocks._MOST_THREADS


def test_an_error_in_a_block_is_not_lost(monkeypatch):
    monkeypatch.setattr(blocks, "threads", lambda: 2)

    def work(part):
        if part.start:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        blocks.in_blocks(2 * blocks._ALONE, work)


def test_a_mapped_file_that_is_not_there(tmp_path):
    folder = folder_module.WorldFolder(tmp_path / "no", ReadLog())
    with pytest.raises(MissingInputError), folder.mapped_main() as give:
        give()


def test_a_mapped_file_that_cannot_be_hashed(tmp_path, monkeypatch):
    """A disk that fails later than the world was read: its hash would be one of a part."""
    monkeypatch.setattr(folder_module, "_MAPPED", 1)
    (tmp_path / "a.splat").write_bytes(bytes(64))
    log = ReadLog()
    failing = type("Failing", (folder_module._Hashing,), {"run": lambda self: setattr(self, "failure", OSError("no"))})
    monkeypatch.setattr(folder_module, "_Hashing", failing)
    with (pytest.raises(MissingInputError, match=r"'a\.splat' cannot be read"),
          folder_module.WorldFolder(tmp_path / "a.splat", log).mapped_main() as give):
        assert len(give()) == 64
    assert not log.files


def test_memory_of_a_million_floats_of_harmonics(tmp_path):
    """Beyond the decoded arrays: a mask and a code for each splat, and blocks. The file itself is mapped."""
    path = tmp_path / "a.ply"
    n = 100_000
    big_ply(path, n, degree=3)
    check(path)
    tracemalloc.start()
    try:
        scene = load_scene(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    decoded = sum(getattr(scene.splats, a).nbytes for a in ARRAYS)
    assert decoded == n * 59 * 4
    assert peak < 1.5 * decoded + (16 << 20)


# --- names and comments


def test_columns_of_other_names(tmp_path):
    new = {"rot_": "rotation_", "scale_": "scaling_", "f_dc_": "features_dc_", "f_rest_": "features_rest_"}
    usual = {**row(), **{f"f_rest_{i}": float(i) for i in range(9)}}
    other = {next((n + k.removeprefix(o) for o, n in new.items() if k.startswith(o)), k): v for k, v in usual.items()}
    got = []
    for name, values in (("a.ply", usual), ("b.ply", other)):
        (tmp_path / name).write_bytes(ply([values] * 2))
        got.append(check(tmp_path / name))
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(got[0].splats, name), getattr(got[1].splats, name))
    assert got[1].report.details["columns_renamed"] == [f"{v}*" for v in new.values()]


def test_plain_colours(tmp_path):
    names = [n for n in row() if not n.startswith("f_dc")]
    head = ["ply", "format ascii 1.0", "element vertex 1", *(f"property float {n}" for n in names),
            *(f"property uchar {c}" for c in ("red", "green", "blue")), "end_header"]
    line = " ".join(repr(float(row()[n])) for n in names) + " 0 51 255"
    (tmp_path / "a.ply").write_text("\n".join([*head, line]) + "\n")
    scene = check(tmp_path / "a.ply")
    np.testing.assert_allclose(0.28209479177387814 * scene.splats.sh[0, 0] + 0.5, [0, 0.2, 1], atol=1e-6)
    assert scene.splats.sh_degree == 0
    assert any("plain colours" in w for w in scene.report.warnings)


CAMERA = "spatialbench camera 1 0 0 5 0 1 0 6 0 0 1 7 0 0 0 1"


def test_comments_that_state_the_frame(tmp_path):
    path = tmp_path / "a.ply"
    path.write_bytes(ply([row()], comments=("spatialbench up 0 0 2", "spatialbench metres_per_unit 0.5", CAMERA)))
    side = check(path).side
    assert (side.up.tolist(), side.up_source) == ([0, 0, 1], "file")
    assert (side.unit_m, side.unit_source) == (0.5, "file")
    assert (side.cameras[0].position.tolist(), side.cameras_source) == ([5, 6, 7], "file")


@pytest.mark.parametrize("comment", ["spatialbench up 0 0 0", "spatialbench up 1 2", "spatialbench metres_per_unit -1",
                                     "spatialbench metres_per_unit 1e999", "spatialbench camera 1 2 3",
                                     "spatialbench up e", "spatialbench camera 2" + CAMERA[21:]])
def test_comments_that_cannot_be_read(tmp_path, comment):
    path = tmp_path / "a.ply"
    path.write_bytes(ply([row()], comments=(comment,)))
    scene = check(path)
    assert scene.side.up is None
    assert scene.side.unit_m is None
    assert not scene.side.cameras
    assert any("cannot be read" in w for w in scene.report.warnings)
