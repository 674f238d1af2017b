"""The splat PLY writer: what stands in the file, and that the engine's reader and gsply read the same splats."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spatialbench.scene.load import load_scene
from spatialbench.scene.splats.write_ply import write_splat_ply
from spatialbench.types import GaussianSplats

EPS = 2.0**-23


def splats(n: int = 50, degree: int = 0, seed: int = 3, **changed: object) -> GaussianSplats:
    r = np.random.default_rng(seed)
    q = r.normal(size=(n, 4))
    q /= np.linalg.norm(q, axis=1, keepdims=True)
    made = GaussianSplats(
        means=r.normal(size=(n, 3)).astype(np.float32), scales=np.exp(r.uniform(-9, 1, (n, 3))).astype(np.float32),
        quaternions=q.astype(np.float32), opacities=r.uniform(0, 1, n).astype(np.float32),
        sh=r.normal(size=(n, (degree + 1) ** 2, 3)).astype(np.float32))
    return replace(made, **changed)


def assert_same(got: GaussianSplats, want: GaussianSplats) -> None:
    np.testing.assert_array_equal(got.means, want.means)
    np.testing.assert_array_equal(got.sh, want.sh)
    # The reader makes quaternions unit again: two roundings.
    np.testing.assert_allclose(got.quaternions, want.quaternions, rtol=0, atol=2 * EPS)
    # A logarithm l is rounded to |l| EPS / 2, and so is the exponential relatively; |l| < 10 here.
    np.testing.assert_allclose(got.scales, want.scales, rtol=7 * EPS, atol=0)
    # d sigmoid = p (1 - p) d l <= EPS / 2 |l| p (1 - p) < EPS / 4, and the arithmetic of the sigmoid.
    np.testing.assert_allclose(got.opacities, want.opacities, rtol=0, atol=2 * EPS)
    assert got.antialiased == want.antialiased


@pytest.mark.parametrize("degree", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("antialiased", [False, True])
def test_comes_back_through_the_reader(tmp_path: Path, degree: int, antialiased: bool) -> None:
    want = splats(degree=degree, antialiased=antialiased)
    path = tmp_path / "world.ply"
    write_splat_ply(want, path, ["made by hand"])
    scene = load_scene(path)
    assert scene.splats is not None
    assert_same(scene.splats, want)
    assert "made by hand" in scene.report.details["comments"]
    assert all("degree 4" in w for w in scene.report.warnings)  # which is told at degree 4 alone
    assert len(scene.report.warnings) == (degree == 4)
    assert scene.report.repairs == []
    assert [p.name for p in tmp_path.iterdir()] == ["world.ply"]


def test_more_rows_than_a_block(tmp_path: Path) -> None:
    want = splats(n=20_000)
    write_splat_ply(want, tmp_path / "w.ply")
    got = load_scene(tmp_path / "w.ply").splats
    assert got is not None
    assert_same(got, want)


def test_bytes_of_one_splat(tmp_path: Path) -> None:
    """By hand: opacity 3/4 is logit ln 3; coefficients of red before those of green and blue."""
    sh = np.arange(12, dtype=np.float32).reshape(1, 4, 3)
    one = GaussianSplats(np.array([[1, 2, 3]], np.float32), np.array([[1, 2, 0.5]], np.float32),
                         np.array([[0.5, -0.5, 0.5, 0.5]], np.float32), np.array([0.75], np.float32), sh)
    path = tmp_path / "one.ply"
    write_splat_ply(one, path, ["a", "b"])
    head, body = path.read_bytes().split(b"end_header\n")
    names = [f"property float {n}" for n in (
        *"xyz", "f_dc_0", "f_dc_1", "f_dc_2", *(f"f_rest_{i}" for i in range(9)), "opacity", "scale_0", "scale_1",
        "scale_2", "rot_0", "rot_1", "rot_2", "rot_3")]
    assert head.decode().splitlines() == ["ply", "format binary_little_endian 1.0", "comment a", "comment b",
                                          "element vertex 1", *names]
    rest = [3, 6, 9, 4, 7, 10, 5, 8, 11]
    np.testing.assert_allclose(struct.unpack("<23f", body),
                               [1, 2, 3, 0, 1, 2, *rest, np.log(3), 0, np.log(2), -np.log(2), 0.5, -0.5, 0.5, 0.5],
                               rtol=1e-7)


def test_ends_of_the_range_are_finite_and_come_back_exactly(tmp_path: Path) -> None:
    want = splats(n=4, opacities=np.array([0, 1, np.nextafter(np.float32(1), np.float32(0)), 1e-7], np.float32),
                  scales=np.array([[0, 1, 1], [0, 0, 0], [1e-30, 1, 1], [1e30, 1, 1]], np.float32))
    path = tmp_path / "w.ply"
    write_splat_ply(want, path)
    raw = np.frombuffer(path.read_bytes().split(b"end_header\n")[1], "<f4")
    assert np.isfinite(raw).all()
    got = load_scene(path).splats
    assert got is not None
    np.testing.assert_array_equal(got.opacities[:2], [0, 1])
    np.testing.assert_allclose(got.opacities[2:], want.opacities[2:], rtol=20 * EPS)  # |logit| 16.6, 16.1
    np.testing.assert_array_equal(got.scales == 0, want.scales == 0)
    np.testing.assert_allclose(got.scales, want.scales, rtol=40 * EPS)  # |log| 69
    # A reader that computes in float64 and rounds gets the same.
    logit = raw.reshape(4, -1)[:2, 6].astype(np.float64)
    np.testing.assert_array_equal((1 / (1 + np.exp(-logit))).astype(np.float32), [0, 1])


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=20))
def test_any_opacity_comes_back(tmp_path_factory: pytest.TempPathFactory, values: list[float]) -> None:
    path = tmp_path_factory.mktemp("o") / "w.ply"
    write_splat_ply(splats(n=len(values), opacities=np.array(values, np.float32)), path)
    got = load_scene(path).splats
    assert got is not None
    np.testing.assert_allclose(got.opacities, np.array(values, np.float32), rtol=0, atol=2 * EPS)


def test_an_offset_keeps_its_digits(tmp_path: Path) -> None:
    want = splats(offset=np.array([3.0e6, -1.0e5, 0.123456789]))
    write_splat_ply(want, tmp_path / "far.ply")
    got = load_scene(tmp_path / "far.ply").splats
    assert got is not None
    assert got.offset is not None
    assert want.offset is not None
    # float64 at 3e6 has steps of 5e-10; each side's means are float32 of up to 8 m.
    np.testing.assert_allclose(got.means + got.offset, want.means + want.offset, rtol=0, atol=1e-6)


@pytest.mark.parametrize("degree", [0, 1, 3])
def test_gsply_reads_the_same(tmp_path: Path, degree: int) -> None:
    gsply = pytest.importorskip("gsply")
    want = splats(degree=degree)
    write_splat_ply(want, tmp_path / "w.ply", ["for another reader"])
    other = gsply.plyread(str(tmp_path / "w.ply"))
    np.testing.assert_array_equal(other.means, want.means)
    np.testing.assert_array_equal(other.quats, want.quaternions)
    np.testing.assert_array_equal(other.sh0, want.sh[:, 0])
    np.testing.assert_array_equal(np.asarray(other.shN).reshape(len(want), -1, 3), want.sh[:, 1:])
    np.testing.assert_allclose(np.exp(other.scales), want.scales, rtol=7 * EPS)
    np.testing.assert_allclose(1 / (1 + np.exp(-other.opacities)), want.opacities, rtol=0, atol=2 * EPS)


def test_same_splats_give_the_same_bytes(tmp_path: Path) -> None:
    for name in "ab":
        write_splat_ply(splats(degree=2), tmp_path / name, ["c"])
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


BAD = {
    "finite": {"means": np.full((2, 3), np.nan, np.float32)},
    "negative": {"scales": np.full((2, 3), -1, np.float32)},
    "opacities": {"opacities": np.array([0.5, 1.5], np.float32)},
    "zero": {"quaternions": np.zeros((2, 4), np.float32)},
}


@pytest.mark.parametrize("word", BAD)
def test_refuses_what_no_reader_keeps(tmp_path: Path, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        write_splat_ply(splats(n=2, **BAD[word]), tmp_path / "w.ply")
    assert not list(tmp_path.iterdir())


def test_refuses_no_splats(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one"):
        write_splat_ply(splats(n=1).select(np.zeros(1, bool)), tmp_path / "w.ply")


@pytest.mark.parametrize("comment", ["two\nlines", "caf\u00e9", "end_header\nxyz", "tab\t"])
def test_refuses_comments_that_break_the_header(tmp_path: Path, comment: str) -> None:
    with pytest.raises(ValueError, match="one line"):
        write_splat_ply(splats(), tmp_path / "w.ply", [comment])


def test_refuses_a_comment_that_states_another_mode(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="render mode"):
        write_splat_ply(splats(), tmp_path / "w.ply", ["antialiased"])


def test_nothing_is_left_behind_when_the_disk_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "w.ply").write_bytes(b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_splat_ply(splats(), tmp_path / "w.ply")
    assert [p.name for p in tmp_path.iterdir()] == ["w.ply"]
    assert (tmp_path / "w.ply").read_bytes() == b"old"
