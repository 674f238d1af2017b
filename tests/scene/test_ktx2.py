"""KTX2 textures: the reference transcoder's pixels bit for bit, plain formats by hand, spoiled files of every kind."""

from __future__ import annotations

import contextlib
import os
import struct
import subprocess
import sys
import threading
import zlib
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scene_files import CUBE, CUBE_FACES, GltfBuilder, png

from spatialbench.errors import CorruptInputError, InputError, UnsupportedFormatError
from spatialbench.scene import load_scene
from spatialbench.scene.images import MAX_TEXTURE_PIXELS, TextureStore
from spatialbench.scene.ktx2 import MAGIC, decode_ktx2, image_size
from spatialbench.scene.ktx2.uastc import MODES
from spatialbench.scene.log import ReadLog

DATA = Path(__file__).parents[1] / "data" / "ktx2"
CASES = sorted(p.stem for p in DATA.glob("*.ktx2"))
SRGB, LINEAR = 2, 1
RGBSDA, UASTC = 1, 166


def case(name):
    return (DATA / f"{name}.ktx2").read_bytes()


def ktx2(level, width, height, vk_format=43, *, model=RGBSDA, transfer=SRGB, flags=0, channels=(0, 1, 2, 15), scheme=0,
         size=None, layers=0, faces=1, depth=0, levels=1, dfd=None, **metadata):
    """A file as the KTX2 specification lays it out (sections 3 and 4), with one level."""
    samples = b"".join(struct.pack("<H2B4s2I", 8 * k, 7, c, bytes(4), 0, 255) for k, c in enumerate(channels))
    block = struct.pack("<I2H4B4s8s", 0, 2, 24 + len(samples), model, 1, transfer, flags, bytes(4), bytes(8)) + samples
    dfd = struct.pack("<I", 4 + len(block)) + block if dfd is None else dfd
    kvd = b""
    for key, value in metadata.items():
        entry = key.encode() + b"\0" + value.encode() + b"\0"
        kvd += struct.pack("<I", len(entry)) + entry + bytes(-len(entry) % 4)
    at = 80 + 24 * max(levels, 1)
    end = at + len(dfd) + len(kvd)
    head = MAGIC + struct.pack("<9I4I2Q", vk_format, 1, width, height, depth, layers, faces, levels, scheme,
                               at, len(dfd), at + len(dfd) if kvd else 0, len(kvd), 0, 0)
    index = struct.pack("<3Q", end, len(level), len(level) if size is None else size)
    return head + index * max(levels, 1) + dfd + kvd + level


def pixels(data):
    return decode_ktx2(data, "t").pixels


# --- against the reference transcoder ---------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_pixels_of_the_reference_transcoder(name):
    """Bit for bit: both formats are integer arithmetic, so that there is nothing to allow for."""
    with Image.open(DATA / f"{name}.png") as image:
        expected = np.array(image)
    got = decode_ktx2(case(name), name)
    assert got.notes == ()
    np.testing.assert_array_equal(got.pixels, expected)
    assert image_size(case(name), name) == expected.shape[1::-1]


def test_the_cases_have_every_mode_and_pattern():
    """By the mode codes in the lowest bits, and the first bit and number of the patterns in the specification."""
    blocks = case("uastc_modes")[-16 * 30 * len(MODES):]
    seen: dict[int, set[int]] = {}
    for k in range(30 * len(MODES)):
        value = int.from_bytes(blocks[16 * k:16 * k + 16], "little")
        mode = next(m for m, (code, bits, *_) in enumerate(MODES) if value & ((1 << bits) - 1) == code)
        first, width = {2: (20, 5), 3: (20, 4), 4: (20, 5), 7: (20, 5), 9: (28, 5), 16: (29, 5)}.get(mode, (0, 0))
        seen.setdefault(mode, set()).add(value >> first & ((1 << width) - 1))
    assert sorted(seen) == list(range(19))
    assert {m: len(p) for m, p in seen.items() if len(p) > 1} == {2: 30, 3: 11, 4: 30, 7: 19, 9: 30, 16: 30}


def test_mode_codes_are_a_complete_prefix_code():
    """Kraft: with the one code that is kept back (seven bits), the shares of the codes come to one."""
    assert sum(2.0 ** -bits for _, bits, *_ in MODES) + 2.0 ** -7 == 1.0


def test_the_balloon(data_dir):
    """A real file; checksums of its images are those of the reference transcoder's RGBA32."""
    scene = load_scene(data_dir / "scenes/awkward/glb/CesiumBalloonKTX2.glb")
    assert scene.report.n_faces == 13224
    assert not [w for w in scene.report.warnings if "texture" in w]
    textures = {id(m.texture): m.texture for m in scene.mesh.materials if m.texture is not None}
    crc = {zlib.crc32(np.ascontiguousarray(t).tobytes()): t.shape for t in textures.values()}
    assert crc
    assert crc.items() <= {562648629: (1024, 1024, 4), 4263961546: (1024, 1024, 4), 2491975816: (64, 64, 4)}.items()


def test_any_number_of_threads_gives_the_same():
    names = ["etc1s_patches", "uastc_modes"] * 4
    out: list[bytes] = [b""] * len(names)

    def work(k):
        out[k] = pixels(case(names[k])).tobytes()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(len(names))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(set(out)) == 2


# --- plain bytes, and what the file says of them ----------------------------------------------------

TEXELS = np.arange(1, 25, dtype=np.uint8).reshape(2, 3, 4)  # 2 rows of 3 texels
ORDERS = {43: [0, 1, 2, 3], 50: [2, 1, 0, 3], 29: [0, 1, 2], 36: [2, 1, 0], 22: [0, 1], 15: [0]}


@pytest.mark.parametrize("vk_format", ORDERS)
def test_plain_formats(vk_format):
    """Channels that are not stored are 0, and alpha is 255 (Vulkan 1.3, conversion to RGBA)."""
    order = ORDERS[vk_format]
    expected = np.zeros((2, 3, 4), np.uint8)
    expected[..., 3] = 255
    expected[..., order] = TEXELS[..., :len(order)]
    np.testing.assert_array_equal(pixels(ktx2(TEXELS[..., :len(order)].tobytes(), 3, 2, vk_format)), expected)


@pytest.mark.parametrize("scheme", [2, 3])
def test_supercompressed_bytes(scheme):
    plain = np.tile(TEXELS, (40, 40, 1))
    pack = zstandard.ZstdCompressor().compress if scheme == 2 else zlib.compress
    data = ktx2(pack(plain.tobytes()), 120, 80, scheme=scheme, size=plain.nbytes)
    np.testing.assert_array_equal(pixels(data), plain)
    blocks = case("uastc_modes")[-16 * 570:]
    data = ktx2(pack(blocks), 120, 76, 0, model=UASTC, channels=(3,), scheme=scheme, size=len(blocks))
    np.testing.assert_array_equal(pixels(data), pixels(case("uastc_modes")))


@pytest.mark.parametrize(("orientation", "expected"), [
    ("rd", TEXELS), ("ru", TEXELS[::-1]), ("ld", TEXELS[:, ::-1]), ("lu", TEXELS[::-1, ::-1])])
def test_orientation(orientation, expected):
    np.testing.assert_array_equal(pixels(ktx2(TEXELS.tobytes(), 3, 2, KTXorientation=orientation)), expected)


def test_swizzle():
    got = decode_ktx2(ktx2(TEXELS.tobytes(), 3, 2, KTXswizzle="bg1r"), "t")
    np.testing.assert_array_equal(got.pixels[0, 0], [3, 2, 255, 1])
    assert "bg1r" in got.notes[0]
    np.testing.assert_array_equal(pixels(ktx2(b"\x07\x09", 1, 1, 22, KTXswizzle="rrrg"))[0, 0], [7, 7, 7, 9])
    np.testing.assert_array_equal(pixels(ktx2(b"\x07", 1, 1, 15, KTXswizzle="rrr1"))[0, 0], [7, 7, 7, 255])


def solid(r, g, b, a):
    """A UASTC block of one colour: mode 8, code 10111b, then four bytes."""
    return (0x17 | r << 5 | g << 13 | b << 21 | a << 29).to_bytes(16, "little")


def test_two_channels_of_uastc():
    """Red lies in all colours and green in alpha; as the transcoder has it without a swizzle, as named with one."""
    data = {"model": UASTC, "channels": (5,)}
    assert pixels(ktx2(solid(7, 7, 7, 9), 1, 1, 0, **data))[0, 0].tolist() == [7, 7, 7, 9]
    assert pixels(ktx2(solid(7, 7, 7, 9), 1, 1, 0, **data, KTXswizzle="rrrg"))[0, 0].tolist() == [7, 7, 7, 9]
    assert pixels(ktx2(solid(7, 7, 7, 9), 1, 1, 0, **data, KTXswizzle="rgba"))[0, 0].tolist() == [7, 7, 7, 9]
    assert pixels(ktx2(solid(7, 7, 7, 9), 1, 1, 0, **data, KTXswizzle="rgb1"))[0, 0].tolist() == [7, 9, 0, 255]


def test_linear_colours():
    """IEC 61966-2-1 by hand: 1 -> 12.92; 55/255 = 0.2157 -> 1.055 * 0.2157^(1/2.4) - 0.055 = 0.5019 -> 128.0."""
    got = decode_ktx2(ktx2(bytes([0, 1, 55, 55]), 1, 1, 37, transfer=LINEAR), "t")
    assert got.pixels[0, 0].tolist() == [0, 13, 128, 55]
    assert "linear" in got.notes[0]
    got = decode_ktx2(ktx2(solid(0, 1, 55, 55), 1, 1, 0, model=UASTC, transfer=LINEAR, channels=(3,)), "t")
    assert got.pixels[0, 0].tolist() == [0, 13, 128, 55]


def test_premultiplied_colours():
    """White at 128/255 has 0.50196 of the light, which is 188 in sRGB: 1.055 * 0.50196^(1/2.4) - 0.055 = 0.7366."""
    got = decode_ktx2(ktx2(bytes([188, 0, 188, 128, 90, 90, 90, 0, 9, 8, 7, 255]), 3, 1, flags=1), "t")
    assert got.pixels[0].tolist() == [[255, 0, 255, 128], [0, 0, 0, 0], [9, 8, 7, 255]]
    assert "premultiplied" in got.notes[0]
    linear = ktx2(bytes([128, 64, 0, 128]), 1, 1, 37, transfer=LINEAR, flags=1)
    assert pixels(linear)[0, 0].tolist() == [255, 188, 0, 128]


# --- in a world -------------------------------------------------------------------------------------


def textured(*images, fallback=None):
    """A cube whose base colour is a KTX2 image, and beside it another when ``fallback`` is given."""
    b = GltfBuilder()
    b.doc["images"] = [{"bufferView": b.view(i), "mimeType": "image/ktx2" if i[:4] == MAGIC[:4] else "image/png"}
                       for i in (*images, *([fallback] if fallback else []))]
    b.doc["textures"] = [{"extensions": {"KHR_texture_basisu": {"source": 0}}, **({"source": 1} if fallback else {})}]
    b.doc["materials"] = [{"name": "wall", "pbrMetallicRoughness": {"baseColorTexture": {"index": 0}}}]
    b.doc["extensionsUsed"] = ["KHR_texture_basisu"]
    b.mesh(CUBE, CUBE_FACES, TEXCOORD_0=np.zeros((8, 2), "<f4"), material=0)
    return b


NINE = png(np.full((2, 2, 3), 9, np.uint8))


def test_the_image_of_the_extension_is_used(tmp_path):
    scene = load_scene(textured(case("etc1s_ramps"), fallback=NINE).save(tmp_path / "w.glb"))
    np.testing.assert_array_equal(scene.mesh.materials[0].texture, pixels(case("etc1s_ramps")))
    assert not scene.report.warnings


@pytest.mark.parametrize("data", [ktx2(bytes(16), 4, 4, 145), case("etc1s_ramps")[:300]])
def test_a_plain_image_stands_in(tmp_path, data):
    scene = load_scene(textured(data, fallback=NINE).save(tmp_path / "w.glb"))
    assert scene.mesh.materials[0].texture[0, 0].tolist() == [9, 9, 9, 255]


UNKNOWN = [(ktx2(bytes(16), 4, 4, 145), "BC7"), (ktx2(bytes(8), 4, 4, 131), "BC1"), (ktx2(bytes(16), 4, 4, 137), "BC3"),
           (ktx2(bytes(16), 4, 4, 158), "ASTC"), (ktx2(bytes(16), 4, 4, 151), "ETC2"),
           (ktx2(bytes(8), 1, 1, 97), "VkFormat 97"), (ktx2(bytes(16), 4, 4, 0, model=167), "UASTC HDR"),
           (ktx2(bytes(16), 4, 4, 0, model=UASTC, scheme=9), "UASTC and supercompression 9"),
           (ktx2(bytes(16), 4, 4, 0, model=163, scheme=2), "ETC1S and Zstandard"),
           (ktx2(bytes(24), 1, 1, faces=6), "a cube map"), (ktx2(bytes(8), 1, 1, layers=2), "an array of images"),
           (ktx2(bytes(8), 1, 1, depth=2), "a volume"), (ktx2(bytes(8), 2, 0), "a line of pixels")]


@pytest.mark.parametrize(("data", "name"), UNKNOWN, ids=[n for _, n in UNKNOWN])
def test_other_formats_are_refused_by_name(tmp_path, data, name):
    with pytest.raises(UnsupportedFormatError, match=f"is KTX2 with {name}"):
        decode_ktx2(data, "t")
    with pytest.raises(UnsupportedFormatError, match="which is not decoded") as e:
        load_scene(textured(data).save(tmp_path / "w.glb"))
    assert "w.glb" in e.value.where
    assert "material 'wall'" in e.value.where


def test_what_is_broken_or_too_large_is_left_out_with_a_warning(tmp_path):
    scene = load_scene(textured(case("uastc_ramps")[:-1]).save(tmp_path / "w.glb"))
    assert scene.mesh.materials[0].texture is None
    assert any("cannot be decoded: its level 0 lies at bytes" in w for w in scene.report.warnings)
    large = ktx2(b"", 8193, 8192, size=4 * 8193 * 8192)
    assert MAX_TEXTURE_PIXELS < 8193 * 8192
    log = ReadLog()
    assert TextureStore(log).decode(large, "big") is None
    assert "8193 x 8192 pixels" in log.warnings[0]


def test_what_was_done_to_a_texture_is_said(tmp_path):
    scene = load_scene(textured(ktx2(TEXELS.tobytes(), 3, 2, 37, transfer=LINEAR)).save(tmp_path / "w.glb"))
    assert any("its colours are linear: they were brought to sRGB" in w for w in scene.report.warnings)


# --- spoiled files ----------------------------------------------------------------------------------


def at(name, offset, value, size=4):
    data = bytearray(case(name))
    data[offset:offset + size] = value.to_bytes(size, "little")
    return bytes(data)


def shared(offset, value, size):
    """A field of the global data of an ETC1S file with alpha."""
    return at("etc1s_alpha", struct.unpack_from("<Q", case("etc1s_alpha"), 64)[0] + offset, value, size)


def shared_part(k):
    """Where the k-th part (endpoints, selectors, tables) begins in it: 20 bytes, and 20 an image."""
    data = case("etc1s_alpha")
    start = struct.unpack_from("<Q", data, 64)[0]
    return 40 + sum(struct.unpack_from("<3I", data, start + 4)[:k])


BROKEN = {
    "its header breaks off": case("etc1s_ramps")[:100],
    "announces a width of 0": at("etc1s_ramps", 20, 0),
    "and 7 faces": at("etc1s_ramps", 36, 7),
    "announces 7 levels for 37 x 22": at("etc1s_ramps", 40, 7),
    "level index breaks off": ktx2(b"", 4096, 1, levels=13)[:300],
    "its level 0 lies at": at("etc1s_ramps", 80, 1 << 60, 8),
    "its global data lies at": at("etc1s_ramps", 72, 1 << 60, 8),
    "does not begin with a basic block": ktx2(bytes(4), 1, 1, dfd=struct.pack("<2I", 28, 7) + bytes(20)),
    "basic block of 25 bytes": ktx2(bytes(4), 1, 1, dfd=struct.pack("<IIHH", 28, 0, 2, 25) + bytes(16)),
    "its metadata breaks off": ktx2(bytes(4), 1, 1, KTXorientation="rd").replace(b"\x12\0\0\0KTX", b"\xff\0\0\0KTX"),
    "its orientation is": ktx2(bytes(4), 1, 1, KTXorientation="xy"),
    "its swizzle is": ktx2(bytes(4), 1, 1, KTXswizzle="rgbx"),
    "its level 0 holds 5 bytes, its pixels take 4": ktx2(bytes(4), 1, 1, size=5),
    "its level 0 has 3 bytes, which cannot be the 4": ktx2(bytes(3), 1, 1, size=0),
    "its Zstandard frame holds 8 bytes": ktx2(zstandard.compress(bytes(8)), 1, 1, scheme=2, size=4),
    "its Zstandard data is damaged": ktx2(zstandard.compress(bytes(4))[:-2], 1, 1, scheme=2, size=4),
    "its ZLIB data is damaged": ktx2(b"no zlib", 1, 1, scheme=3, size=4),
    "its ZLIB data breaks off": ktx2(zlib.compress(bytes(4))[:-1], 1, 1, scheme=3, size=4),
    "unpacks to more than 4 bytes": ktx2(zlib.compress(bytes(8)), 1, 1, scheme=3, size=4),
    "unpacks to 2 of 4 bytes": ktx2(zlib.compress(bytes(2)), 1, 1, scheme=3, size=4),
    "20 bytes, which cannot be the 67,108,864": ktx2(bytes(20), 4096, 4096, scheme=3, size=1 << 26),
    "its block 0 is none": ktx2(b"\x45" + bytes(15), 4, 4, 0, model=UASTC, channels=(0,)),
    "its block 1 is none": ktx2(solid(1, 2, 3, 4) + (0x1D | 31 << 20).to_bytes(16, "little"), 8, 4, 0, model=UASTC,
                                channels=(0,)),
    "cannot hold 0 endpoints": shared(0, 0, 2),
    "in 4,294,": shared(4, 0xFFFFFFFF, 4),
    "builds on one before it": shared(20, 2, 4),
    "its colour slice lies at": shared(24, 1 << 20, 4),
    "its alpha slice lies at": shared(36, 1 << 20, 4),
    "its endpoint codebook has a Huffman table, number 0": shared(shared_part(0) + 1, 0xFFFF, 2),
    "its endpoint codebook breaks off": shared(0, 60000, 2),
    "its selector codebook breaks off": shared(2, 60000, 2),
    "its selector codebook is of the kind 3": shared(shared_part(1), 3, 1),
    "its Huffman part has a Huffman table, number 0": shared(shared_part(2) + 1, 0xFFFF, 2),
}


@pytest.mark.parametrize(("words", "data"), BROKEN.items(), ids=BROKEN)
def test_broken_files(words, data):
    with pytest.raises(CorruptInputError, match=words) as e:
        decode_ktx2(data, "brick.ktx2")
    assert e.value.where == "brick.ktx2"
    assert e.value.todo


def test_small_files_cannot_take_much_memory():
    """A frame of zeros that promises 256 MiB in 25 bytes: more than 32,768 bytes from one is no Zstandard."""
    frame = zstandard.ZstdCompressor().compress(bytes(1 << 20))[:25]
    with pytest.raises(CorruptInputError, match="cannot be the"):
        decode_ktx2(ktx2(frame, 8192, 8192, scheme=2, size=1 << 28), "t")


@pytest.mark.parametrize("name", ["etc1s_dot", "uastc_narrow"])
def test_files_that_are_cut_off(name):
    data = case(name)
    for end in range(len(data)):
        with pytest.raises(CorruptInputError):
            decode_ktx2(data[:end], "t")


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_spoiled_files_end_with_pixels_or_an_error(data):
    name = data.draw(st.sampled_from(["etc1s_alpha", "etc1s_flat_mips", "uastc_ramps", "uastc_alpha_zstd"]))
    stream = bytearray(case(name))
    change = st.tuples(st.integers(12, len(stream) - 1), st.integers(0, 255))
    for place, value in data.draw(st.lists(change, max_size=4)):
        stream[place] = value
    stream = bytes(stream[:data.draw(st.one_of(st.just(len(stream)), st.integers(0, len(stream))))])
    with contextlib.suppress(InputError):
        width, height = image_size(stream, "t")
        if width * height <= 1 << 20:
            assert pixels(stream).shape == (height, width, 4)


CHECKED = """
import random, sys
from spatialbench.errors import InputError
from spatialbench.scene.ktx2 import decode_ktx2, image_size
done = 0
for path in sys.argv[1:]:
    good = open(path, "rb").read()
    decode_ktx2(good, "t")
    for k in range(60):
        rng, data = random.Random(k), bytearray(good)
        for _ in range(rng.choice((1, 1, 3))):
            data[rng.randrange(80, len(data))] = rng.randrange(256)
        try:
            decode_ktx2(bytes(data), "t")
            done += 1
        except InputError:
            pass
print(done)
"""


def test_no_index_leaves_its_array():
    """The kernels as plain Python, where numpy checks each index: spoiled streams end with pixels or an InputError."""
    files = [str(DATA / f"{name}.ktx2") for name in ("etc1s_dot", "etc1s_ramps", "uastc_narrow", "uastc_ramps")]
    run = subprocess.run([sys.executable, "-W", "error", "-c", CHECKED, *files], capture_output=True, text=True,
                         env={**os.environ, "NUMBA_DISABLE_JIT": "1"}, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    assert int(run.stdout) > 20
