"""Each splat format, value by value, against files written by hand."""

from __future__ import annotations

import json
import struct
import zlib

import numpy as np
import pytest
from splat_checks import check, counts
from splat_files import (
    compressed_ply,
    dotsplat,
    fixed24,
    ply,
    row,
    sog,
    sog_files,
    spz,
    spz_body,
    webp,
)

from spatialbench.errors import CorruptInputError, EmptyWorldError, MissingInputError, UnsupportedFormatError
from spatialbench.scene import load_scene

C0 = 0.28209479177387814


@pytest.fixture
def load(tmp_path):
    def read(data, name="world.ply"):
        path = tmp_path / name
        path.write_bytes(data)
        return check(path)
    return read


def near(value, expected, tolerance=2e-7):
    """Float32 values after a function that is good to an ulp or two: 2e-7 of the value."""
    np.testing.assert_allclose(value, expected, rtol=tolerance, atol=tolerance)


# --- 3DGS PLY


@pytest.mark.parametrize("how", [{}, {"order": ">"}, {"order": ""}, {"kind": "double"}, {"end": b"\r\n"},
                                 {"kind": "double", "order": ">"}])
def test_ply_values(load, how):
    scene = load(ply([row(), row(x=-1)], **how))
    s = scene.splats
    assert s.means.tolist() == [[1, 2, 3], [-1, 2, 3]]
    near(s.opacities, [0.75, 0.75])
    near(s.scales[0], [1, 2, 0.5])
    near(s.quaternions[0], [0.5**0.5, 0.5**0.5, 0, 0])
    near(s.sh[0], [[0.1, 0.2, 0.3]])
    assert scene.prior_up.tolist() == [0, -1, 0]
    assert scene.report.bounds == [[-1, 2, 3], [1, 2, 3]]
    assert scene.report.files[0].name == "world.ply"
    assert not scene.report.warnings
    assert not scene.report.repairs


@pytest.mark.parametrize(("degree", "n"), [(1, 9), (2, 24), (3, 45), (4, 72)])
@pytest.mark.parametrize("order", ["<", ""])
def test_ply_harmonics_are_stored_by_channel(load, degree, n, order):
    rest = {f"f_rest_{i}": float(i) for i in range(n)}
    scene = load(ply([{**dict(reversed(rest.items())), **row()}], order=order))  # columns go by name
    s = scene.splats
    assert s.sh_degree == degree
    assert any("degree 4 are drawn as degree 3" in w for w in scene.report.warnings) is (degree == 4)
    k = n // 3
    assert s.sh[0, 1:].tolist() == [[i, k + i, 2 * k + i] for i in range(k)]


def test_ply_mixed_types_and_unknown_columns(load):
    head = b"ply\nformat binary_little_endian 1.0\nelement first 2\nproperty short a\nelement vertex 1\n"
    names = list(row())
    kinds = ["double"] * 3 + ["float"] * 11
    head += b"".join(f"property {k} {n}\n".encode() for k, n in zip(kinds, names, strict=True))
    head += b"property float filter_3D\nproperty uchar flag\nend_header\n"
    s = load(head + b"\0" * 4 + struct.pack("<3d11ffB", *row().values(), 0.5, 7) + b"rest")
    assert s.splats.means.tolist() == [[1, 2, 3]]
    near(s.splats.opacities, [0.75])
    assert s.report.details["columns_ignored"] == ["filter_3D", "flag"]
    assert any("filter_3D" in w for w in s.report.warnings)
    assert any("4 bytes after the last row" in w for w in s.report.warnings)


def test_ply_after_an_element_of_lists(load):
    head = b"ply\nformat binary_little_endian 1.0\nelement first 2\nproperty list uchar int a\nelement vertex 1\n"
    head += b"".join(f"property float {n}\n".encode() for n in row()) + b"end_header\n"
    s = load(head + struct.pack("<BiBii", 1, 5, 2, 6, 7) + struct.pack("<14f", *row().values())).splats
    assert s.means.tolist() == [[1, 2, 3]]


def test_ply_infinities(load):
    inf = np.inf
    scene = load(ply([row(), row(opacity=inf), row(opacity=-inf), row(scale_1=-inf), row(scale_1=inf),
                      row(scale_1=100.0), row(scale_1=-200.0), row(opacity=100.0), row(opacity=-30.0)]))
    near(scene.splats.opacities, [0.75, 1, 0, 0.75, 0.75, 1, np.exp(-30)], 1e-6)
    assert scene.splats.scales[3].tolist() == [1, 0, 0.5]
    # exp(100) is 2.7e43, over the largest float32; exp(-200) is under the smallest, so flat
    assert counts(scene) == {"splats_scale_infinite": 2, "splats_scale_zero": 2, "splats_opacity_minus_infinity": 1}


def test_ply_rows_are_dropped_once_each(load):
    nan = np.nan
    bad = [row(x=nan), row(y=np.inf), row(scale_0=nan), row(scale_0=nan, scale_1=np.inf), row(rot_0=nan),
           row(rot_0=0, rot_1=0), row(rot_0=np.inf), row(opacity=nan), row(f_dc_1=nan), row(f_dc_2=-np.inf),
           row(x=nan, opacity=nan, rot_0=nan)]
    scene = load(ply([row(), *bad, row(x=9)]))
    assert scene.splats.means[:, 0].tolist() == [1, 9]
    assert counts(scene) == {"splats_position_not_finite": 3, "splats_scale_nan": 2, "splats_rotation_not_finite": 2,
                             "splats_rotation_zero": 1, "splats_opacity_nan": 1, "splats_color_not_finite": 2}
    error = load(ply(bad))
    assert isinstance(error, EmptyWorldError)
    assert "position_not_finite 3" in str(error)


def test_quaternions_of_any_length_become_units(load):
    s = load(ply([row(rot_0=3e38, rot_1=3e38), row(rot_0=1e-40, rot_1=0), row(rot_0=-2, rot_1=0)])).splats
    near(s.quaternions, [[0.5**0.5, 0.5**0.5, 0, 0], [1, 0, 0, 0], [-1, 0, 0, 0]])


def test_far_from_the_origin(load):
    """Doubles at 5,000 km: float32 has steps of 0.5 there, the splats keep a hundredth of a millimetre."""
    x = [5e6 + i * 0.001 for i in range(101)]
    scene = load(ply([row(x=v) for v in x], kind="double"))
    s = scene.splats
    assert s.offset.tolist() == [5e6 + 0.05, 2, 3]
    near(s.means[:, 0], np.arange(101) * 0.001 - 0.05, 1e-8)  # 1e-9 is the step of a double at 5e6
    np.testing.assert_allclose(scene.report.bounds, [[5e6, 2, 3], [5e6 + 0.1, 2, 3]], rtol=0, atol=1e-8)
    assert scene.report.details["offset"] == s.offset.tolist()


def test_one_stray_splat_moves_nothing(load):
    s = load(ply([row(), row(x=2), row(x=1e6)])).splats
    assert not s.offset.any()
    assert s.means[:, 0].tolist() == [1, 2, 1e6]


def test_flat_splats_without_a_third_scale(load):
    scene = load(ply([row()], drop=("scale_2",)))
    near(scene.splats.scales, [[1, 2, 0]])
    assert any("2DGS" in w for w in scene.report.warnings)


@pytest.mark.parametrize(("comment", "expected"), [
    ("SplatRenderMode: mip", True), ("SplatRenderMode: default", False), ("antialiased 1", True),
    ("antialiased 0", False), ("antialiased: true", True), ("antialiased", True), ("trained by a program", False)])
def test_antialiased_comments(load, comment, expected):
    scene = load(ply([row()], comments=("x", comment)))
    assert scene.splats.antialiased is expected
    assert scene.report.details["antialiased"] is expected
    assert scene.report.details["comments"] == ["x", comment]


@pytest.mark.parametrize(("opacities", "expected"), [((0.1, 0.9), True), ((1.0, 1.0), True), ((0, 0), False),
                                                     ((0.1, 1.2), False), ((-0.1, 0.5), False),
                                                     ((0.5, np.inf), False), ((0.5, np.nan), True)])
def test_opacity_that_looks_activated(load, opacities, expected):
    scene = load(ply([row(opacity=o) for o in opacities]))
    assert ("opacity_looks_activated" in scene.report.details) is expected
    assert any("looks already activated" in w for w in scene.report.warnings) is expected
    near(scene.splats.opacities[0], 1 / (1 + np.exp(-opacities[0])))  # and is not guessed


@pytest.mark.parametrize(("data", "words"), [
    (ply([row()], drop=("opacity",)), "no property opacity"),
    (ply([row()], drop=("rot_3", "f_dc_2")), "rot_3, f_dc_2"),
    (ply([row()], drop=("scale_1", "scale_2")), "no property scale_1"),
    (ply([{**row(), "f_rest_0": 1.0}]), "1 column f_rest"),
    (ply([{**row(), **{f"f_rest_{i}": 0.0 for i in range(1, 10)}}]), "no property f_rest_0"),
    (ply([row()], count=2), "2 rows of 'vertex', which take 112 bytes, the file has 56"),
    (ply([row()], count=10**17), "take 5,600,000,000,000,000,000 bytes"),
    (ply([row()], order="", count=3), "cut off"),
    (ply([row()])[:-1], "cut off"),
    (ply([row()]).replace(b"property float opacity", b"property list uchar float opacity"), "list property 'opacity'"),
])
def test_ply_refusals(load, data, words):
    error = load(data)
    assert isinstance(error, CorruptInputError)
    assert words in str(error)


def test_ply_without_rows(load):
    assert isinstance(load(ply([row()], count=0)), EmptyWorldError)


# --- compressed PLY

LOW = [-1.0, 0, 10, -4, -3, -2, 0, 0.25, 0]
HIGH = [1.0, 2, 20, -2, -1, 0, 1, 0.75, 0.5]


def packed(x=0, y=0, z=0, index=0, a=511, b=511, c=511, sx=0, sy=0, sz=0, rgba=(0, 0, 0, 255)):
    r, g, bl, al = rgba
    return ((x << 21) | (y << 11) | z, (index << 30) | (a << 20) | (b << 10) | c, (sx << 21) | (sy << 11) | sz,
            (r << 24) | (g << 16) | (bl << 8) | al)


def test_compressed_values(load):
    words = [packed(), packed(2047, 1023, 2047, sx=2047, sy=1023, sz=2047, rgba=(255, 255, 255, 0)),
             packed(1024, 341, 89, index=2, a=0, rgba=(51, 102, 153, 204))]
    scene = load(compressed_ply(words, LOW, HIGH))
    s = scene.splats
    near(s.means, [[-1, 0, 10], [1, 2, 20], [-1 + 2 * 1024 / 2047, 2 / 3, 10 + 10 * 89 / 2047]])
    near(s.scales[:2], np.exp([[-4, -3, -2], [-2, -1, 0]]))
    near(s.opacities, [1, 0, 0.8])
    near(C0 * s.sh[:, 0] + 0.5, [[0, 0.25, 0], [1, 0.75, 0.5], [0.2, 0.25 + 0.5 * 0.4, 0.5 * 0.6]])
    # Index 2 leaves out y: w = -1/sqrt 2 (the least of ten bits), x and z are -0.5/1023 of sqrt 2.
    small = (511 / 1023 - 0.5) * 2**0.5
    near(s.quaternions[2], [-(0.5**0.5), small, (0.5 - 2 * small * small)**0.5, small], 1e-6)
    assert scene.report.details["format_version"] == "PlayCanvas compressed PLY"
    assert scene.prior_up.tolist() == [0, -1, 0]


def test_compressed_chunks_of_256(load):
    words = [packed()] * 257
    s = load(compressed_ply(words, LOW, HIGH, chunks=2)).splats
    assert len(s) == 257
    error = load(compressed_ply(words, LOW, HIGH, chunks=1))
    assert "1 chunk for 257 splats, which need 2" in str(error)


def test_compressed_without_bounds_of_colours(load):
    s = load(compressed_ply([packed(rgba=(51, 102, 153, 255))], LOW, HIGH, colors=False)).splats
    near(C0 * s.sh[0, 0] + 0.5, [0.2, 0.4, 0.6])


def test_compressed_harmonics(load):
    s = load(compressed_ply([packed()], LOW, HIGH, sh=[[0, 64, 128, 132, 136, 140, 192, 255, 127]])).splats
    value = lambda v: (v + 0.5) / 32 - 4  # noqa: E731
    near(s.sh[0, 1:], [[value(0), value(132), value(192)], [value(64), value(136), value(255)],
                       [value(128), value(140), value(127)]])


@pytest.mark.parametrize("change", [
    lambda d: d[:-1], lambda d: d.replace(b"uint packed_scale", b"float packed_scale"),
    lambda d: d.replace(b"float min_scale_x", b"float another"),
    lambda d: d.replace(b"element vertex 2", b"element vertex 200"),
    lambda d: d.replace(b"binary_little_endian", b"ascii"),
])
def test_compressed_refusals(load, change):
    assert isinstance(load(change(compressed_ply([packed()] * 2, LOW, HIGH))), CorruptInputError)


# --- SPZ


def test_spz_2_values(load):
    data = spz(fixed24(4096, -2048, 1) + fixed24(-8388608, 8388607, 0), n=2, bits=12, flags=1, alphas=b"\x00\xff",
               colors=b"\x00\x80\xff" * 2, scales=b"\xa0\x00\xff" * 2, rotations=b"\x80\x80\x80" + b"\xff\xff\xff",
               degree=1, sh=bytes(range(100, 118)))
    scene = load(data, "world.spz")
    s = scene.splats
    assert s.means.tolist() == [[1, -0.5, 1 / 4096], [-2048, 8388607 / 4096, 0]]
    assert s.opacities.tolist() == [0, 1]
    near(s.scales[0], np.exp([0, -10, 255 / 16 - 10]))
    near(s.sh[0, 0], (np.array([0, 128 / 255, 1]) - 0.5) / 0.15)
    # harmonics follow each other with the colours side by side
    near(s.sh[1, 1:], (np.arange(109, 118).reshape(3, 3) - 128) / 128)
    small = 128 / 127.5 - 1
    near(s.quaternions[0], [(1 - 3 * small**2)**0.5, small, small, small], 1e-6)
    near(s.quaternions[1], [0, 3**-0.5, 3**-0.5, 3**-0.5])  # longer than 1: no w is left, made a unit
    assert s.antialiased
    assert scene.prior_up.tolist() == [0, 1, 0]
    assert scene.report.details["fractional_bits"] == 12
    assert scene.report.details["format_version"] == "SPZ 2"
    assert not scene.report.repairs  # an alpha byte of 0 is nothing odd


def test_spz_1_has_half_floats(load):
    s = load(spz(np.array([1.5, -2, 1 / 1024], "<f2").tobytes(), version=1), "a.spz").splats
    assert s.means.tolist() == [[1.5, -2, 1 / 1024]]
    error = load(spz(np.array([np.inf, 0, 0], "<f2").tobytes(), version=1), "a.spz")
    assert isinstance(error, EmptyWorldError)


@pytest.mark.parametrize(("largest", "parts", "expected"), [
    (3, (511, 0, 0), (0.5**0.5, 0.5**0.5, 0, 0)), (3, (0, 0x200 | 511, 0), (0.5**0.5, 0, -(0.5**0.5), 0)),
    (0, (511, 0, 0), (0, 0.5**0.5, 0.5**0.5, 0)), (0, (0, 0, 511), (0.5**0.5, 0.5**0.5, 0, 0)),
    (2, (0, 511, 0), (0, 0, 0.5**0.5, 0.5**0.5))])
def test_spz_3_rotations(load, largest, parts, expected):
    """Three of x, y, z, w in that order, each a sign and nine bits of 1/sqrt 2; the first in the highest bits."""
    word = (largest << 30) | (parts[0] << 20) | (parts[1] << 10) | parts[2]
    s = load(spz(fixed24(0, 0, 0), version=3, rotations=word.to_bytes(4, "little")), "a.spz").splats
    near(s.quaternions[0], expected, 1e-6)  # of the square root of a difference


def test_spz_need_not_be_compressed(load):
    scene = load(spz_body(fixed24(4096, 0, 0)), "a.spz")
    assert scene.splats.means.tolist() == [[1, 0, 0]]
    assert scene.report.details["encoding"] == "not compressed"
    assert isinstance(load(spz_body(fixed24(4096, 0, 0))[:-1], "a.spz"), CorruptInputError)


@pytest.mark.parametrize(("value", "name", "up", "mirrored"), [
    (4, "RUB", [0, 1, 0], False), (6, "RDF", [0, -1, 0], False), (8, "RUF", [0, 1, 0], True),
    (12, "RFU", [0, 0, 1], False), (14, "RBD", [0, 0, -1], False), (1, "LDB", [0, -1, 0], False)])
def test_spz_states_its_frame(load, value, name, up, mirrored):
    tail = struct.pack("<III", 0xADBE0002, 4, 7) + struct.pack("<III", 0xADBE0003, 4, value)
    scene = load(spz(fixed24(0, 0, 0), flags=2, tail=tail), "a.spz")
    assert scene.report.details["coordinate_system"] == name
    assert scene.side.up.tolist() == up
    assert scene.side.up_source == "file"
    assert any("left-handed" in w for w in scene.report.warnings) is mirrored
    assert any("extensions" in w for w in scene.report.warnings)


def test_spz_trailers(load):
    scene = load(spz(fixed24(0, 0, 0), flags=2, tail=struct.pack("<III", 0xADBE0003, 4, 0)), "a.spz")
    assert scene.side.up is None
    assert any("says nothing" in w for w in scene.report.warnings)
    for data, words in ((spz(fixed24(0, 0, 0), flags=2, tail=b"12345"), "extensions"),
                        (spz(fixed24(0, 0, 0), tail=b"12345"), "5 bytes after the splats"),
                        (spz(fixed24(0, 0, 0), tail=bytes(1 << 20)), "1,048,576 bytes after the splats"),
                        (spz(fixed24(0, 0, 0)) + b"abc", "3 bytes after the gzip"),
                        (spz(fixed24(0, 0, 0)) + bytes(300_000), "300,000 bytes after the gzip")):
        assert any(words in w for w in load(data, "a.spz").report.warnings)


@pytest.mark.parametrize(("data", "kind", "words"), [
    (spz(fixed24(0, 0, 0), version=0), CorruptInputError, "version 0"),
    (spz(fixed24(0, 0, 0), version=5), UnsupportedFormatError, "SPZ version 5"),
    (b"NGSP\5\0\0\0" + b"\0" * 60, UnsupportedFormatError, "SPZ version 5"),
    (spz(fixed24(0, 0, 0), version=4), UnsupportedFormatError, "SPZ version 4 inside of gzip"),
    (spz(fixed24(0, 0, 0), degree=5), CorruptInputError, "SH degree is 5"),
    (spz(fixed24(0, 0, 0), bits=25), CorruptInputError, "25 fractional bits"),
    (spz(fixed24(0, 0, 0), n=2), CorruptInputError, "2 splats, which take 38 bytes"),
    (spz(fixed24(0, 0, 0), n=2**32 - 1), CorruptInputError, "4,294,967,295 splats"),
    (spz(fixed24(0, 0, 0), n=0), EmptyWorldError, "0 splats"),
    (spz(fixed24(0, 0, 0))[:-9], CorruptInputError, "ends early"),
    (spz(fixed24(0, 0, 0))[:-1], CorruptInputError, "ends early"),
    (spz(fixed24(0, 0, 0), tail=bytes(3 << 20)), CorruptInputError, "more than 1 MiB after"),
    (spz(fixed24(0, 0, 0), tail=bytes((1 << 20) + 1)), CorruptInputError, "more than 1 MiB after"),
    (spz(fixed24(0, 0, 0))[:-8] + b"\0" * 8, CorruptInputError, "incorrect data check"),
])
def test_spz_refusals(load, data, kind, words):
    error = load(data, "a.spz")
    assert isinstance(error, kind)
    assert words in str(error)


# --- .splat


def test_dotsplat_values(load):
    half, one = 0x80 + 64, 0xFF
    scene = load(dotsplat((1, 2, 3, 0.5, 0, 2, 255, 51, 0, 204, one, 0x80, 0x80, 0x80),
                          (-1, 0, 0, 1, 1, 1, 0, 0, 0, 255, half, half, half, half)), "a.splat")
    s = scene.splats
    assert s.means.tolist() == [[1, 2, 3], [-1, 0, 0]]
    assert s.scales[0].tolist() == [0.5, 0, 2]
    near(s.opacities, [0.8, 1])
    near(s.quaternions, [[1, 0, 0, 0], [0.5, 0.5, 0.5, 0.5]])
    near(C0 * s.sh[0] + 0.5, [[1, 0.2, 0]])
    assert scene.prior_up.tolist() == [0, -1, 0]
    assert counts(scene) == {"splats_scale_zero": 1}


GOOD = (1, 2, 3, 0.5, 1, 2, 255, 51, 0, 204, 255, 128, 128, 128)


def test_dotsplat_odd_rows(load):
    turnless = (*GOOD[:10], 128, 128, 128, 128)
    rows = [GOOD] * 40 + [turnless, (np.nan, *GOOD[1:]), (*GOOD[:3], -1.0, *GOOD[4:]), (*GOOD[:4], np.inf, *GOOD[5:])]
    scene = load(dotsplat(*rows), "anything")
    assert counts(scene) == {"splats_rotation_zero": 1, "splats_position_not_finite": 1, "splats_scale_negative": 1,
                             "splats_scale_infinite": 1}
    error = load(dotsplat(*rows)[:-1], "a.splat")
    assert isinstance(error, CorruptInputError)
    assert "leave 31 bytes over" in str(error)


@pytest.mark.parametrize("first", [b"\x80\x04", b"\x1f\x8b", b"\xff\xfe", b"{\x00", b"\x80\x02"])
def test_dotsplat_may_begin_like_anything(load, first):
    data = dotsplat(*[GOOD] * 64)
    assert len(load(first + data[2:], "a.splat").splats) == 64


@pytest.mark.parametrize("data", [bytes(range(256)) * 3, bytes(64), b"v 0.125 -1.5 2\n\0" * 64,
                                  b"0.25 -0.5 7 8 9\n" * 64, np.random.default_rng(0).bytes(32 * 100)])
def test_other_bytes_are_no_dotsplat(load, data):
    assert isinstance(load(data, "world.bin"), (UnsupportedFormatError, CorruptInputError))


# --- SOG


def test_sog_2_values(load):
    scene = load(sog(sog_files()), "a.sog")
    s = scene.splats
    # the ramp runs over ln 3 (so to 2), and from -1 to 1 (so from -(e - 1) to e - 1)
    near(s.means, [[0, 1 - np.e, 0], [2, np.e - 1, 0]])
    near(s.scales, [[0.5, 1.5, 2.5]] * 2)
    near(s.sh, [[[0, 1, -1]]] * 2)
    near(s.opacities, [128 / 255] * 2)
    small = (128 / 255 - 0.5) * 2**0.5
    near(s.quaternions[0], [(1 - 3 * small**2)**0.5, small, small, small], 1e-6)
    assert scene.prior_up.tolist() == [0, -1, 0]
    assert scene.report.details["format_version"] == "SOG 2"
    assert not scene.report.warnings


def test_sog_beside_its_pictures(tmp_path):
    for name, data in sog_files().items():
        (tmp_path / name).write_bytes(data)
    scene = check(tmp_path / "meta.json")
    assert len(scene.splats) == 2
    assert sorted(f.name for f in scene.report.files) == sorted(sog_files())
    assert not scene.report.warnings
    (tmp_path / "quats.webp").unlink()
    with pytest.raises(MissingInputError, match=r"quats\.webp.*needed by meta\.json, quats"):
        load_scene(tmp_path / "meta.json")


def version_1():
    files = sog_files()
    meta = json.loads(files["meta.json"])
    del meta["version"], meta["count"]
    meta["means"]["shape"] = [2, 3]
    meta["scales"] = {"mins": [0, 1, -2.55], "maxs": [2.55, 3.55, 0], "files": ["scales.webp"]}
    meta["sh0"] = {"mins": [-1, -1, -1, -2], "maxs": [1, 1, 1, 2], "files": ["sh0.webp"]}
    return files, meta


def test_sog_1_values(load):
    files, meta = version_1()
    scene = load(sog({**files, "meta.json": json.dumps(meta).encode()}), "a.sog")
    s = scene.splats
    near(s.means, [[0, 1 - np.e, 0], [2, np.e - 1, 0]])
    near(s.scales[0], np.exp([0, 1.01, -2.53]))
    near(s.sh[0], [[2 * 128 / 255 - 1, 2 * 192 / 255 - 1, 2 * 64 / 255 - 1]])
    near(s.opacities, 1 / (1 + np.exp(2 - 4 * 128 / 255)))
    assert scene.report.details["format_version"] == "SOG 1"


@pytest.mark.parametrize("version", [1, 2])
def test_sog_harmonics(load, version):
    """Label 65 is in the second row, second place; coefficient j of it is one pixel to the right each."""
    files, meta = (sog_files(), json.loads(sog_files()["meta.json"])) if version == 2 else version_1()
    palette = np.zeros((2, 64 * 3, 4), np.uint8)
    palette[..., 3] = 255
    for j in range(3):
        palette[1, 3 + j, :3] = [10 * j, 10 * j + 1, 10 * j + 2]
    labels = np.zeros((4, 4, 4), np.uint8)
    labels[0, 0], labels[0, 1] = [65, 0, 0, 255], [0, 1, 0, 255]  # the second is 256: beyond the palette
    files["c.webp"], files["l.webp"] = webp(palette), webp(labels)
    meta["shN"] = {"files": ["c.webp", "l.webp"]}
    meta["shN"] |= {"count": 128, "bands": 1, "codebook": [i / 10 for i in range(256)]} if version == 2 else {
        "mins": 0, "maxs": 25.5}
    scene = load(sog({**files, "meta.json": json.dumps(meta).encode()}), "a.sog")
    near(scene.splats.sh[0, 1:], [[0, 0.1, 0.2], [1, 1.1, 1.2], [2, 2.1, 2.2]])
    assert not scene.splats.sh[1, 1:].any()
    assert counts(scene) == {"sh_labels_out_of_range": 1}


def test_sog_odd_values(load):
    files = sog_files()
    rotation = np.zeros((4, 4, 4), np.uint8)
    rotation[0, 0] = [128, 128, 128, 255]
    rotation[0, 1] = [128, 128, 128, 17]  # no component is left out
    scene = load(sog({**files, "quats.webp": webp(rotation)}), "a.sog")
    assert counts(scene) == {"splats_rotation_zero": 1}
    assert scene.splats.quaternions[0, 3] > 0.99
    book = [None, *[float(i) for i in range(1, 256)]]
    scene = load(sog(sog_files(scales={"codebook": book, "files": ["scales.webp"]})), "a.sog")
    near(scene.splats.scales[0, 0], np.exp(1 - 254 / 255))
    assert any("extrapolated" in w for w in scene.report.warnings)
    scene = load(sog(sog_files(sh0={"codebook": [0.0] * 130, "files": ["sh0.webp"]})), "a.sog")
    assert isinstance(scene, EmptyWorldError)  # every splat has colour 192


@pytest.mark.parametrize(("change", "kind", "words"), [
    ({"version": 3}, UnsupportedFormatError, "SOG version 3"), ({"version": "2"}, CorruptInputError, "version"),
    ({"count": 17}, CorruptInputError, "too few for the count 17"), ({"count": 1e300}, CorruptInputError, "'count' is"),
    ({"count": True}, CorruptInputError, "'count'"), ({"count": -1}, CorruptInputError, "'count'"),
    ({"count": 0}, EmptyWorldError, "0 splats"), ({"count": 10**9}, UnsupportedFormatError, "more than 50,000,000"),
    ({"means": None}, CorruptInputError, "no 'means'"),
    ({"means": {"mins": [0, 0], "maxs": [1, 1, 1], "files": ["means_l.webp", "means_u.webp"]}}, CorruptInputError,
     "'means.mins' is no list of 3 numbers"),
    ({"quats": {"files": []}}, CorruptInputError, "'quats.files'"),
    ({"quats": {"files": [7]}}, CorruptInputError, "'quats.files'"),
    ({"quats": {"files": ["../q.webp"]}}, CorruptInputError, "outside the archive"),
    ({"quats": {"files": ["/etc/passwd"]}}, CorruptInputError, "outside the archive"),
    ({"quats": {"files": ["..\\q.webp"]}}, CorruptInputError, "outside the archive"),
    ({"quats": {"files": ["none.webp"]}}, MissingInputError, "'none.webp' is not in the archive"),
    ({"quats": {"files": ["meta.json"]}}, CorruptInputError, "cannot be decoded"),
    ({"scales": {"codebook": [], "files": ["scales.webp"]}}, CorruptInputError, "scales.codebook"),
    ({"scales": {"codebook": ["a"], "files": ["scales.webp"]}}, CorruptInputError, "scales.codebook"),
    ({"shN": {"files": ["sh0.webp", "sh0.webp"], "bands": 9}}, CorruptInputError, "'shN.bands' is 9"),
    ({"shN": {"files": ["sh0.webp", "sh0.webp"], "bands": 3}}, CorruptInputError, "960 pixels wide, but that has 4"),
])
def test_sog_refusals(load, change, kind, words):
    error = load(sog(sog_files(**change)), "a.sog")
    assert isinstance(error, kind)
    assert words in str(error)


def test_sog_bombs(load):
    files = sog_files()
    big = load(sog({**files, "meta.json": files["meta.json"] + b" " * (9 << 20)}), "a.sog")
    assert "more than 8 MiB" in str(big)
    # 9,000 x 9,000 pixels of one bit in ten kilobytes, which would be 324 MB of RGBA: refused by its header.
    rows = zlib.compress(bytes(9000 * (1 + 9000 // 8)))
    parts = [(b"IHDR", struct.pack(">II5B", 9000, 9000, 1, 0, 0, 0, 0)), (b"IDAT", rows), (b"IEND", b"")]
    bomb = b"".join(struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in parts)
    huge = load(sog({**files, "quats.webp": b"\x89PNG\r\n\x1a\n" + bomb}), "a.sog")
    assert isinstance(huge, CorruptInputError)
    assert "9,000 x 9,000 pixels" in str(huge)
