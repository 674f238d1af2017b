"""SPZ 4 (a Zstandard stream for every property) and the frames that SPZ files state."""

from __future__ import annotations

import struct

import numpy as np
import pytest
import zstandard
from splat_checks import check
from splat_files import fixed24, spz, spz4

from spatialbench.errors import CorruptInputError, EmptyWorldError
from spatialbench.types.sh_rotation import sh_basis

MORE = {"n": 2, "degree": 1, "flags": 1, "alphas": b"\x00\xff", "colors": b"\x00\x80\xff" * 2,
        "scales": b"\xa0\x00\xff" * 2, "rotations": b"\x12\x34\x56\x78\x9a\xbc\xde\xf0", "sh": bytes(range(100, 118))}
POSITIONS = fixed24(4096, -2048, 1) + fixed24(-8388608, 8388607, 0)


def same(a, b):
    for name in ("means", "scales", "quaternions", "opacities", "sh"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


@pytest.fixture
def load(tmp_path):
    def read(data, name="world.spz"):
        path = tmp_path / name
        path.write_bytes(data)
        return check(path)
    return read


def test_as_version_3(load):
    """The planes are those of version 3, whose values are tested on their own."""
    new, old = load(spz4(POSITIONS, **MORE)), load(spz(POSITIONS, version=3, **MORE))
    same(new.splats, old.splats)
    assert new.splats.antialiased
    assert new.report.details["format_version"] == "SPZ 4"
    assert new.report.details["encoding"] == "Zstandard"
    assert new.prior_up.tolist() == [0, 1, 0]
    assert not new.report.warnings


@pytest.mark.parametrize("degree", [0, 1, 3, 4])
def test_degrees(load, degree):
    n = 3 * ((degree + 1) ** 2 - 1)
    s = load(spz4(fixed24(0, 0, 0), degree=degree, sh=bytes(range(n)))).splats
    assert s.sh_degree == degree
    np.testing.assert_allclose(s.sh[0, 1:].ravel(), (np.arange(n) - 128) / 128)


def test_extensions_stand_before_the_table(load):
    tail = struct.pack("<III", 0xADBE0002, 4, 7) + struct.pack("<III", 0xADBE0003, 4, 6)
    scene = load(spz4(POSITIONS, tail=tail, **{**MORE, "flags": 2}))
    assert scene.side.up.tolist() == [0, -1, 0]
    assert scene.side.up_source == "file"
    decision = scene.report.decisions["file_frame"]
    assert (decision.value, decision.source) == ("RDF", "file")
    assert any("extensions" in w for w in scene.report.warnings)
    same(scene.splats, load(spz4(POSITIONS, **MORE)).splats)


GOOD = spz4(POSITIONS, **MORE)


@pytest.mark.parametrize(("data", "kind", "words"), [
    (GOOD[:20], CorruptInputError, "20 bytes of the 32"),
    (GOOD[:-1], CorruptInputError, "stream 5"),
    (spz4(POSITIONS, streams=5, **MORE), CorruptInputError, "5 streams"),
    (spz4(POSITIONS, table=31, **MORE), CorruptInputError, "table of streams at byte 31"),
    (spz4(POSITIONS, table=10**9, **MORE), CorruptInputError, "table of streams"),
    (spz4(POSITIONS, **{**MORE, "n": 3}), CorruptInputError, "3 splats"),
    (spz4(POSITIONS, **{**MORE, "n": 0}), EmptyWorldError, "0 splats"),
    (spz4(fixed24(0, 0, 0), count=1000), CorruptInputError, "its frame holds 9 bytes, 9,000 are needed"),
    (GOOD.replace(b"\x28\xb5\x2f\xfd", b"\x28\xb5\x2f\xfe", 1), CorruptInputError, "Zstandard data is damaged"),
])
def test_refusals(load, data, kind, words):
    error = load(data)
    assert isinstance(error, kind)
    assert words in str(error)


def test_a_frame_that_does_not_state_its_size(load):
    """Streaming writers leave it out; then the bound is what is needed."""
    packed = zstandard.ZstdCompressor(write_content_size=False).compress(fixed24(4096, 0, 0))
    whole = spz4(fixed24(4096, 0, 0))
    at = 32 + 5 * 16
    (size,) = struct.unpack_from("<Q", whole, 32)
    data = whole[:32] + struct.pack("<Q", len(packed)) + whole[40:at] + packed + whole[at + size:]
    assert load(data).splats.means.tolist() == [[1, 0, 0]]
    long = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(1 << 20))
    data = whole[:32] + struct.pack("<Q", len(long)) + whole[40:at] + long + whole[at + size:]
    assert isinstance(load(data), CorruptInputError)


def test_bytes_after_the_streams(load):
    assert any("3 bytes after" in w for w in load(GOOD + b"abc").report.warnings)


def test_as_another_library_writes_it(load, data_dir):
    """gaussforge's version 4 against its version 3 of the same splats."""
    gaussforge = pytest.importorskip("gaussforge")
    forge = gaussforge.GaussForge()
    ir = forge.read((data_dir / "scenes/splats/leica-sofort.ply").read_bytes(), "ply")["data"]
    old, new = (load(forge.write(ir, "spz", spz_version=v)["data"]) for v in (3, 4))
    assert new.report.details["format_version"] == "SPZ 4"
    same(new.splats, old.splats)


def test_leica_as_ply_and_as_spz_of_another_library(load, data_dir):
    """Within the format's own steps. That library writes the numbers of the .ply as they stand (as many do), although
    the frame of SPZ is another."""
    gaussforge = pytest.importorskip("gaussforge")
    path = data_dir / "scenes/splats/leica-sofort.ply"
    forge = gaussforge.GaussForge()
    written = load(forge.write(forge.read(path.read_bytes(), "ply")["data"], "spz", spz_version=4)["data"])
    s, original = written.splats, check(path).splats
    bits = written.report.details["fractional_bits"]
    # A position is rounded to its step; a centre of up to 24 units has float32 steps of 2e-6.
    np.testing.assert_allclose(s.means, original.means, atol=0.5 / 2**bits + 4e-6)
    # Logarithms of scales in steps of 1/16, from -10 on.
    np.testing.assert_allclose(np.log(s.scales), np.maximum(np.log(original.scales), -10), atol=1 / 32 + 1e-5)
    np.testing.assert_allclose(s.opacities, original.opacities, atol=0.5 / 255 + 1e-6)
    # Bytes of 0.5 + 0.15 dc, within [0, 1].
    np.testing.assert_allclose(s.sh[:, 0], np.clip(original.sh[:, 0], -0.5 / 0.15, 0.5 / 0.15),
                               atol=0.5 / 255 / 0.15 + 1e-5)
    # Three components within a step d of sqrt(1/2)/511, the fourth then within 3 d: 12 d^2 together at the most.
    dot = np.abs(np.einsum("ij,ij->i", s.quaternions, original.quaternions))
    assert dot.min() > 1 - 6 * (0.5**0.5 / 511) ** 2 - 1e-6
    # Rounded to 128ths, and these to 5 bits at degree 1 and 4 bits above it: half of each step.
    for part, step in ((slice(1, 4), 8), (slice(4, 16), 16)):
        np.testing.assert_allclose(s.sh[:, part], np.clip(original.sh[:, part], -1, 127 / 128),
                                   atol=(step + 1) / 2 / 128 + 1e-6)


@pytest.mark.parametrize(("value", "frame", "up"), [(8, "RUF", [0, 1, 0]), (5, "LDF", [0, -1, 0]),
                                                    (16, "RBU", [0, 0, -1]), (10, "RFD", [0, 0, 1])])
def test_left_handed_frames_are_turned_over(load, value, frame, up):
    """The picture from a mirrored place is the mirrored picture: centres, axes and colours by direction."""
    tail = struct.pack("<III", 0xADBE0003, 4, value)
    scene = load(spz4(POSITIONS, tail=tail, **{**MORE, "flags": 2}))
    plain = load(spz4(POSITIONS, **{**MORE, "flags": 0})).splats
    s, mirror = scene.splats, np.diag([1.0, 1.0, -1.0])
    assert scene.report.details["coordinate_system"] == frame
    assert scene.side.up.tolist() == up
    np.testing.assert_array_equal(s.means, plain.means @ mirror)
    d = np.random.default_rng(1).normal(size=(20, 3))
    d /= np.linalg.norm(d, axis=1, keepdims=True)
    for i in range(2):
        np.testing.assert_allclose(covariance(s, i), mirror @ covariance(plain, i) @ mirror, rtol=1e-5)
        np.testing.assert_allclose(sh_basis(d @ mirror, 1) @ s.sh[i], sh_basis(d, 1) @ plain.sh[i], atol=1e-6)


def covariance(s, i):
    from scipy.spatial.transform import Rotation

    r = Rotation.from_quat(s.quaternions[i][[1, 2, 3, 0]].astype(float)).as_matrix()
    return r @ np.diag(s.scales[i].astype(float) ** 2) @ r.T
