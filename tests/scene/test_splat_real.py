"""Real splats: against an independent decoder, another library, and each other. (All, against the manifest: see
test_all_scenes.py.)"""

from __future__ import annotations

import csv
import gzip
import json
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from splat_checks import check, counts
from splat_files import webp

from tests.command import spatialbench

SAMPLES = Path(__file__).parents[1] / "data" / "splats"


@pytest.fixture(scope="module")
def kitchen(data_dir):
    path = data_dir / "scenes/splats/marble_kitchen/scene.spz"
    return check(path), gzip.decompress(path.read_bytes())


def test_kitchen_positions_and_opacity(kitchen):
    """Widened to 32 bits with the sign in place, rather than put together from bytes as the reader does."""
    scene, raw = kitchen
    n, bits = struct.unpack_from("<I", raw, 8)[0], raw[13]
    assert (n, bits) == (213_944, 10)
    wide = np.zeros((3 * n, 4), np.uint8)
    wide[:, 1:] = np.frombuffer(raw, np.uint8, 9 * n, 16).reshape(-1, 3)
    expected = (wide.view("<i4")[:, 0] // 256).reshape(n, 3) / 2**bits
    assert np.array_equal(scene.splats.means, expected)  # exact: 24 bits in float32
    # Spec, real-worlds section 1: median 0.44, 5th percentile 0.03
    assert round(scene.report.details["opacity_percentiles"]["p50"], 2) == 0.44
    assert round(scene.report.details["opacity_percentiles"]["p5"], 2) == 0.03
    alpha = np.frombuffer(raw, np.uint8, n, 16 + 9 * n)
    np.testing.assert_allclose(scene.splats.opacities, alpha / 255, rtol=1e-7)
    assert scene.splats.antialiased is bool(raw[14] & 1)
    assert scene.prior_up.tolist() == [0, 1, 0]
    assert scene.report.details["fractional_bits"] == 10
    assert not scene.report.repairs


def test_kitchen_rotations_and_scales(kitchen):
    scene, raw = kitchen
    n = len(scene.splats)
    at = 16 + 13 * n
    for i in range(0, n, 9973):
        scales = [np.exp(b / 16 - 10) for b in raw[at + 3 * i:at + 3 * i + 3]]
        np.testing.assert_allclose(scene.splats.scales[i], scales, rtol=2e-7)
        x, y, z = (b / 127.5 - 1 for b in raw[at + 3 * (n + i):at + 3 * (n + i) + 3])
        q = np.array([max(0, 1 - x * x - y * y - z * z)**0.5, x, y, z])
        np.testing.assert_allclose(scene.splats.quaternions[i], q / np.linalg.norm(q), atol=1e-6)


def test_leica_as_ply_and_as_sog(data_dir):
    """The same 8,192 splats, reordered. The writer cut (it did not round) to 16 and 8 bits: up to a whole step off."""
    from scipy.spatial import cKDTree

    folder = data_dir / "scenes/splats"
    a, b = (check(folder / f"leica-sofort.{s}").splats for s in ("ply", "sog"))
    meta = json.loads(zipfile.ZipFile(folder / "leica-sofort.sog").read("meta.json"))
    step = (np.array(meta["means"]["maxs"]) - meta["means"]["mins"]) / 65535

    def steps(s):
        x = s.means.astype(float)
        return np.sign(x) * np.log1p(np.abs(x)) / step

    _, match = cKDTree(steps(b)).query(steps(a))
    assert len(np.unique(match)) == 8192
    # one step, and the rounding of float32 positions of 24 units: 1e-6 of a position's logarithm, in steps of 6e-5
    assert np.abs(steps(a) - steps(b)[match]).max() < 1.01
    assert np.abs(a.opacities - b.opacities[match]).max() <= 1 / 255 + 1e-6
    # Three components are off by d = sqrt(2)/255 at the most, the fourth by 3d (they are the smaller ones), so the
    # difference has a square of at most 12 d^2, and the product of two units is at least 1 - 6 d^2.
    dot = np.abs(np.einsum("ij,ij->i", a.quaternions, b.quaternions[match]))
    assert dot.min() > 1 - 6 * 2 / 255**2
    # Scales and colours are the entries of a book that lie nearest.
    for name, ours, theirs in (("scales", np.log(a.scales), np.log(b.scales[match])),
                               ("sh0", a.sh[:, 0], b.sh[match, 0])):
        book = np.array(meta[name]["codebook"])
        nearest = np.abs(ours[..., None] - book).min(axis=-1)
        np.testing.assert_allclose(np.abs(ours - theirs), nearest, atol=2e-6)
    # Harmonics too, out of a book with gaps of up to 0.07 and ends that the data exceeds by 0.02.
    book = np.array(meta["shN"]["codebook"])
    assert np.abs(a.sh[:, 1:] - b.sh[match, 1:]).max() <= np.diff(np.sort(book)).max() / 2 + 1e-6


def test_leica_spz_is_another_capture_of_the_same(data_dir):
    """Manifest: cropped to a box of 0.5 m, +Y up; not comparable with the .ply splat by splat."""
    s = check(data_dir / "scenes/splats/leica-sofort.spz")
    assert np.ptp(s.report.bounds, axis=0).max() < 0.5
    assert s.splats.antialiased
    assert s.prior_up.tolist() == [0, 1, 0]


def gsply_agrees(path, read):
    other, ours = read(str(path)), check(path).splats
    np.testing.assert_array_equal(ours.means, other.means)
    np.testing.assert_allclose(ours.scales, np.exp(other.scales), rtol=3e-7)
    # its logits are clamped: at 1e-6 for SPZ, at +-10 (4.6e-5) for compressed PLY
    np.testing.assert_allclose(ours.opacities, 1 / (1 + np.exp(-other.opacities.astype(float))), atol=5e-5)
    unit = other.quats / np.linalg.norm(other.quats, axis=1, keepdims=True)
    # A component that it takes as the root of 1 - (the others' squares), eight roundings of 6e-8 in float32
    loose = 1e-6 + 5e-7 / (2 * np.maximum(np.abs(ours.quaternions), 3.5e-4))
    assert (np.abs(ours.quaternions - unit) <= loose).all()
    np.testing.assert_allclose(ours.sh[:, 0], other.sh0, atol=2e-6)
    if ours.sh_degree:
        np.testing.assert_array_equal(ours.sh[:, 1:], other.shN)


@pytest.mark.parametrize("name", ["leica-sofort.ply", "train-1000.ply", "pc_short.ply", "splatapult_test.ply"])
def test_gsply_reads_the_same_ply(data_dir, name):
    gsply = pytest.importorskip("gsply")
    gsply_agrees(data_dir / "scenes/splats" / name, gsply.plyread)


@pytest.mark.slow  # its kernels are compiled on first use
@pytest.mark.parametrize("name", ["marble_kitchen/scene.spz", "leica-sofort.spz", "minimal-v2.spz",
                                  "../awkward/splat_spz/decode-v3.spz"])
def test_gsply_reads_the_same_spz(data_dir, name):
    gsply = pytest.importorskip("gsply")
    gsply_agrees(data_dir / "scenes/splats" / name, gsply.read_spz)


@pytest.mark.slow
def test_gsply_reads_the_same_compressed_ply(data_dir):
    gsply = pytest.importorskip("gsply")
    path = data_dir / "scenes/splats/guitar.compressed.ply"
    other, ours = gsply.plyread(str(path)), check(path).splats
    np.testing.assert_allclose(ours.means, other.means, atol=1e-6)
    np.testing.assert_allclose(np.log(ours.scales), other.scales, atol=5e-6)
    np.testing.assert_allclose(ours.opacities, 1 / (1 + np.exp(-other.opacities.astype(float))), atol=5e-5)
    np.testing.assert_allclose(ours.quaternions, other.quats, atol=2e-6)
    np.testing.assert_allclose(ours.sh[:, 0], other.sh0, atol=2e-6)


@pytest.mark.parametrize("name", ["guitar.compressed.ply", "angel.sog", "lastchance_plant.splat",
                                  "marble_kitchen/scene.spz", "playbot_2_0/meta.json",
                                  "playcanvas-logo_sog_v1/meta.json"])
def test_splats_lie_flat_on_their_surface(data_dir, name):
    """The shortest axis of trained splats is near the normal of the surface their neighbours make: so it is with the
    right order of rotation components, and far less with any other (0.50 is chance for directions in space)."""
    from scipy.spatial import cKDTree
    from scipy.spatial.transform import Rotation

    s = check(data_dir / "scenes/splats" / name).splats
    ordered = np.sort(s.scales, axis=1)
    s = s.select((s.opacities > 0.5) & (ordered[:, 0] < 0.3 * ordered[:, 1]))
    pick = np.linspace(0, len(s) - 1, min(len(s), 4000)).astype(int)
    points = s.means.astype(float)
    _, near = cKDTree(points).query(points[pick], k=12)
    local = points[near] - points[near].mean(axis=1, keepdims=True)
    width, axes = np.linalg.eigh(np.einsum("nki,nkj->nij", local, local))
    plane = width[:, 0] < 0.05 * width[:, 1]
    shortest = s.scales[pick].argmin(axis=1)

    def agreement(order):
        turn = Rotation.from_quat(s.quaternions[pick][:, order]).as_matrix()  # takes xyzw
        return np.abs(np.einsum("ni,ni->n", turn[np.arange(len(pick)), :, shortest], axes[:, :, 0]))[plane].mean()

    right = agreement([1, 2, 3, 0])
    assert right > 0.65
    assert right > 0.1 + max(agreement([0, 1, 2, 3]), agreement([2, 3, 0, 1]))


def test_pictures_are_decoded_as_opencv_does(data_dir):
    """SOG keeps numbers in the pixels, so one unit of colour management would be seen."""
    import cv2

    folder = data_dir / "scenes/splats/playbot_2_0"
    meta = json.loads((folder / "meta.json").read_text())
    s = check(folder / "meta.json").splats
    n = len(s)

    def pixels(name):
        image = cv2.imread(str(folder / name), cv2.IMREAD_UNCHANGED)
        return np.dstack([image[..., 2::-1], image[..., 3:]]).reshape(-1, image.shape[2])[:n].astype(int)

    low, high = pixels("means_l.webp"), pixels("means_u.webp")
    mins, maxs = (np.array(meta["means"][k]) for k in ("mins", "maxs"))
    v = mins + (low[:, :3] + 256 * high[:, :3]) / 65535 * (maxs - mins)
    np.testing.assert_allclose(s.means, np.sign(v) * (np.exp(np.abs(v)) - 1), atol=2e-7)
    color = pixels("sh0.webp")
    np.testing.assert_allclose(s.sh[:, 0], np.array(meta["sh0"]["codebook"])[color[:, :3]], atol=1e-6)
    np.testing.assert_allclose(s.opacities, color[:, 3] / 255, atol=1e-7)
    assert meta["shN"]["bands"] == s.sh_degree == 2
    label = pixels("shN_labels.webp")
    label = label[:, 0] + 256 * label[:, 1]
    palette = cv2.imread(str(folder / "shN_centroids.webp"), cv2.IMREAD_UNCHANGED)[..., 2::-1]
    for i in range(0, n, 9973):
        y, x = label[i] // 64, label[i] % 64 * 8
        np.testing.assert_allclose(s.sh[i, 1:], np.array(meta["shN"]["codebook"])[palette[y, x:x + 8]], atol=1e-6)


def test_case_b04_crlf_header(data_dir):
    scene = check(data_dir / "reports/import/crlf_header.ply")
    assert (scene.report.n_splats, scene.report.bounds) == (5, [[-1, 0, 2], [1, 2, 3]])
    assert scene.splats.means[0, 0] == np.float32(0.53926146)
    assert scene.splats.means[0, 0].tobytes() == b"\x0a\x0d\x0a\x3f"


def test_case_b05_special_rows(data_dir):
    """By construction: row 3 has an opacity of +inf, 7 of -inf, 11 a log scale of -inf; 19, 23, 31, 43, 57, 61 go."""
    scene = check(data_dir / "reports/import/special_rows.ply")
    assert scene.report.n_splats == 94
    np.testing.assert_allclose(scene.report.bounds, [[-0.45, -0.45, 2], [0.45, 0.45, 2]], atol=1e-7)
    assert counts(scene) == {
        "splats_position_not_finite": 2, "splats_scale_infinite": 1, "splats_rotation_not_finite": 1,
        "splats_rotation_zero": 1, "splats_color_not_finite": 1, "splats_scale_zero": 1,
        "splats_opacity_minus_infinity": 1}
    assert scene.splats.opacities[[3, 7]].tolist() == [1, 0]
    np.testing.assert_allclose(scene.splats.scales[11], [0.05, 0.05, 0], rtol=1e-6)


# --- samples in the repository, so that this runs without the shared data


@pytest.mark.parametrize(("name", "n", "degree", "box"), [
    ("minimal.splat", 4, 0, [[-1, 0, -1], [0, 0, 0]]), ("minimal.ksplat", 4, 0, [[-1, 0, -1], [0, 0, 0]]),
    ("minimal-v4.spz", 4, 0, [[-1, 0, 0], [0, 0, 1]]), ("minimal-v2.spz", 4, 0, [[-1, 0, -1], [0, 0, 0]]),
    ("decode-v3.spz", 1, 0, [[2, -1, 0.5]] * 2), ("three-gaussian-binary-le.ply", 3, 1, [[-4, -8, -6], [7, 5, 9]]),
    ("minimal_ascii_3dgs.ply", 3, 0, [[0, 0, -0.1], [0.1, 0.1, 1.2]]),
    ("splatapult_test.ply", 16, 3, [[0, 0, 0], [1, 1, 1.0001]]),
    ("kit-multi-degree3-deflated.sog", 3, 3, [[0.5, 0.25, -3], [2.5, 2.25, 1]])])
def test_samples(name, n, degree, box):
    report = check(SAMPLES / name).report
    assert (report.n_splats, report.sh_degree) == (n, degree)
    np.testing.assert_allclose(report.bounds, box, atol=2e-4)  # SOG has steps of 5e-5 at 3 units


def test_minimal_dotsplat_by_hand():
    s = check(SAMPLES / "minimal.splat").splats
    assert s.means.tolist() == [[-1, 0, -1], [0, 0, -1], [-1, 0, 0], [0, 0, 0]]
    np.testing.assert_array_equal(s.scales, np.full((4, 3), 0.1, np.float32))
    np.testing.assert_allclose(s.opacities, 230 / 255, rtol=1e-7)
    assert s.quaternions.tolist() == [[0, 0, 0, 1]] * 4  # bytes 128 128 128 255
    color = 0.5 + 0.28209479177387814 * s.sh[:, 0]
    np.testing.assert_allclose(color * 255, [[85, 85, 128], [170, 85, 128], [85, 170, 128], [170, 170, 128]], atol=1e-4)


def test_axis_pattern_is_not_swapped():
    """Sixteen splats at the origin and five along each axis, coloured as the axis (red x, green y, blue z)."""
    s = check(SAMPLES / "splatapult_test.ply").splats
    along = s.means.argmax(axis=1)[s.means.max(axis=1) > 0.01]
    assert sorted(along.tolist()) == [0] * 5 + [1] * 5 + [2] * 5
    assert (s.sh[:, 0].argmax(axis=1)[s.means.max(axis=1) > 0.01] == along).all()


def test_samples_are_those_of_their_manifest():
    import hashlib

    with (SAMPLES / "MANIFEST.csv").open(encoding="utf-8") as f:
        listed = {r["file"]: r for r in csv.DictReader(f)}
    assert {p.name for p in SAMPLES.iterdir()} - {"MANIFEST.csv"} == set(listed)
    for name, r in listed.items():
        assert r["licence"]
        assert hashlib.sha256((SAMPLES / name).read_bytes()).hexdigest() == r["sha256"]


def test_a_handful_of_splats_is_run_and_said_to_be_no_world(tmp_path):
    done = spatialbench("run", SAMPLES / "minimal-v2.spz", "--protocol", "happyworld-spatial-1-fast", "--set",
                        "views.ring_frames=4", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    units = [json.loads(line) for line in (tmp_path / "out" / "units.jsonl").read_text().splitlines()]
    by_id = {u["metric"]: u for u in units}
    assert by_id["M08"]["status"] == by_id["M25"]["status"] == "invalid"
    assert "no_interior" in by_id["M07"]["flags"]


def test_reading_twice_gives_the_same_bytes():
    for path in sorted(SAMPLES.iterdir()):
        if path.suffix == ".csv":
            continue
        a, b = check(path), check(path)
        assert a.report.model_dump_json() == b.report.model_dump_json()
        for name in ("means", "scales", "quaternions", "opacities", "sh"):
            assert getattr(a.splats, name).tobytes() == getattr(b.splats, name).tobytes()


def test_helper_writes_lossless_pictures():
    from io import BytesIO

    from PIL import Image

    pixels = np.random.default_rng(1).integers(0, 256, (5, 7, 4)).astype(np.uint8)
    assert np.array_equal(np.array(Image.open(BytesIO(webp(pixels)))), pixels)
