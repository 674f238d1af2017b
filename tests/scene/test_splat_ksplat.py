"""KSPLAT, all levels: against files written by hand, a real sample, and another library."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from splat_checks import check
from splat_files import ksplat, section

from spatialbench.errors import CorruptInputError, EmptyWorldError, UnsupportedFormatError

SAMPLES = Path(__file__).parents[1] / "data" / "splats"
C0 = 0.28209479177387814


@pytest.fixture
def load(tmp_path):
    def read(data, name="world.ksplat"):
        path = tmp_path / name
        path.write_bytes(data)
        return check(path)
    return read


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("degree", [0, 1, 2])
def test_values(load, level, degree):
    scene = load(ksplat([section([0.5, -1, 2], degree=degree)], level=level, low=-1, high=9))
    s = scene.splats
    v = np.array([0.5, -1, 2])
    step = 8 / 32767 / 2 if level else 0  # half a step of the 16-bit offset, over half a block of 8
    np.testing.assert_allclose(s.means, np.stack([v, -v, 2 * v], axis=1), atol=step + 1e-7)
    assert s.scales.tolist() == [[1, 0.5, 0.25]] * 3  # exact as half floats too
    np.testing.assert_allclose(s.quaternions, [[0.5**0.5, 0.5**0.5, 0, 0]] * 3, atol=1e-7)  # made unit again
    np.testing.assert_allclose(s.opacities, 1)
    np.testing.assert_allclose(C0 * s.sh[:, 0] + 0.5, 128 / 255, atol=1e-6)
    assert s.sh_degree == degree
    if degree:
        k = (degree + 1) ** 2
        expected = np.arange(1, k)[:, None] + np.arange(3) / 4
        # exact at levels 0 and 1 (quarters below 2048), half a step of 10/255 at level 2
        np.testing.assert_allclose(s.sh[:, 1:], np.broadcast_to(expected, (3, k - 1, 3)),
                                   atol=5 / 255 + 1e-6 if level == 2 else 0)
    assert scene.prior_up.tolist() == [0, -1, 0]
    assert scene.report.details["compression_level"] == level
    assert not scene.report.warnings


def test_buckets_full_ones_first(load):
    """Two full buckets of 2, then one of 1 and one of 3: each offset counts from its own bucket's centre."""
    values = [10, 11, -20, -21, 30, 0.5, 1, 1.5]
    buckets = [(2, (10, -10, 21)), (2, (-20, 20, -41)), (1, (30, -30, 60)), (3, (1, -1, 2))]
    s = load(ksplat([section(values, buckets=buckets)], level=1)).splats
    np.testing.assert_allclose(s.means[:, 0], values, atol=8 / 32767 / 2 + 2e-6)
    np.testing.assert_allclose(s.means[:, 2], 2 * np.array(values), atol=8 / 32767 / 2 + 4e-6)


def test_another_span_and_block(load):
    s = load(ksplat([section([0.5, 1])], level=1, block=4, span=1000)).splats
    np.testing.assert_allclose(s.means[:, 0], [0.5, 1], atol=2 / 1000 / 2 + 1e-7)


def test_sections_of_unequal_degree(load):
    scene = load(ksplat([section([1], degree=0), section([]), section([2, 3], degree=2)]))
    assert scene.splats.sh_degree == 2
    assert scene.splats.means[:, 0].tolist() == [1, 2, 3]
    assert not scene.splats.sh[0, 1:].any()
    assert scene.splats.sh[1:, 8].tolist() == [[8, 8.25, 8.5]] * 2
    assert scene.report.details["sections"] == 3


def test_a_section_that_is_not_full(load):
    """Room for three splats, two in use: the next section begins after the room."""
    first = ksplat([section([1, 2, 99], room=3, splats=2), section([4])], splats=3)
    scene = load(first)
    assert scene.splats.means[:, 0].tolist() == [1, 2, 4]
    assert not scene.report.warnings


def test_the_range_of_bytes_when_the_header_gives_none(load):
    data = bytearray(ksplat([section([1], degree=1)], level=2))
    data[-9:] = bytes([0, 255, 51, 0, 255, 51, 0, 255, 51])
    s = load(bytes(data)).splats
    np.testing.assert_allclose(s.sh[0, 1:], np.repeat([[-1.5], [1.5], [-0.9]], 3, axis=1), atol=1e-6)


def test_the_header_may_miscount(load):
    assert any("7 splats" in w for w in load(ksplat([section([1, 2])], splats=7)).report.warnings)
    assert any("3 bytes after" in w for w in load(ksplat([section([1, 2])]) + b"abc").report.warnings)


@pytest.mark.parametrize(("data", "kind", "words"), [
    (ksplat([section([1])], version=b"\1\0"), UnsupportedFormatError, "unknown kind"),
    (ksplat([section([1])], version=b"\0\1")[:3000], CorruptInputError, "has 3,000"),
    (ksplat([section([1, 2])])[:-1], CorruptInputError, "section 0 ends at byte"),
    (ksplat([section([1], room=10**9)]), CorruptInputError, "section 0 ends at byte"),
    (ksplat([section([1, 2], room=1)]), CorruptInputError, "2 splats and room for 1"),
    (ksplat([section([])], splats=1), EmptyWorldError, "0 splats"),
])
def test_refusals(load, data, kind, words):
    error = load(data)
    assert isinstance(error, kind)
    assert words in str(error)


def edited(at, code, value, **more):
    data = bytearray(ksplat([section([1, 2])], **more))
    struct.pack_into(code, data, at, value)
    return bytes(data)


@pytest.mark.parametrize(("data", "kind", "words"), [
    (edited(20, "<H", 3), UnsupportedFormatError, "compression level 3"),
    (edited(4096 + 40, "<H", 3), UnsupportedFormatError, "degree 3"),
    (edited(4, "<I", 2**31), CorruptInputError, "2,147,483,648 sections"),
    (edited(4096 + 12, "<I", 2**32 - 1, level=1), CorruptInputError, "section 0 ends at byte"),
    (edited(4096 + 32, "<I", 2**32 - 1, level=1), CorruptInputError, "do not add up"),
    (edited(4096 + 8, "<I", 1, level=1), CorruptInputError, "hold 1 of 2 splats"),
    (edited(4096 + 20, "<H", 4, level=1), CorruptInputError, "do not add up"),
    (edited(4096 + 16, "<f", float("nan"), level=1), CorruptInputError, "do not add up"),
])
def test_refusals_of_fields(load, data, kind, words):
    error = load(data)
    assert isinstance(error, kind)
    assert words in str(error)


def test_the_same_grid_as_dotsplat():
    """The sample and minimal.splat were made of the same four splats."""
    a, b = (check(SAMPLES / f"minimal.{x}").splats for x in ("ksplat", "splat"))
    for name in ("means", "scales", "quaternions", "opacities", "sh"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


def test_as_another_library_writes_it(load, data_dir):
    """gaussforge's level 0. Its order of harmonics is that of the format only up to degree 1."""
    gaussforge = pytest.importorskip("gaussforge")
    path = data_dir / "scenes/splats/leica-sofort.ply"
    forge = gaussforge.GaussForge()
    ir = forge.read(path.read_bytes(), "ply")["data"]
    ir["sh"] = np.frombuffer(ir["sh"], "<f4").reshape(-1, 15, 3)[:, :3].tobytes()
    ir["meta"]["shDegree"] = 1
    ours, original = load(forge.write(ir, "ksplat")["data"]).splats, check(path).splats
    np.testing.assert_array_equal(ours.means, original.means)
    np.testing.assert_allclose(ours.scales, original.scales, rtol=3e-7)
    np.testing.assert_allclose(ours.quaternions, original.quaternions, atol=3e-7)
    np.testing.assert_array_equal(ours.sh[:, 1:], original.sh[:, 1:4])
    np.testing.assert_allclose(ours.opacities, original.opacities, atol=1 / 255)
    color = np.clip(0.5 + C0 * original.sh[:, 0], 0, 1)
    np.testing.assert_allclose(0.5 + C0 * ours.sh[:, 0], color, atol=1 / 255)
