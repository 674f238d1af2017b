"""External workers: the reference one against values by hand, and workers that break the protocol in every way."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import tempfile
import textwrap
import time
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spatialbench
from spatialbench.errors import BackendUnavailableError, ConfigError, UsageError
from spatialbench.scorers import weights
from spatialbench.scorers.registry import ScorerBox, scorer_specs, scorer_status
from spatialbench.scorers.settings import ScorerSettings
from spatialbench.scorers.weights import Lock, WeightsEntry
from spatialbench.scorers.worker import process, protocol, reference, serve
from spatialbench.scorers.worker.adapters import WorkerDepth, WorkerInterpolator, WorkerTracker
from spatialbench.scorers.worker.check import check_worker, main
from spatialbench.scorers.worker.declared import SPECS, WORKER_WEIGHTS
from spatialbench.scorers.worker.files import WorkerCommand, command_of
from spatialbench.scorers.worker.process import Worker
from spatialbench.scorers.worker.protocol import Answer, Wanted, read_answer, read_outputs, write_request
from spatialbench.scorers.worker.scene import DISTANCE, make_clip
from spatialbench.scorers.worker.serve import save_npz
from spatialbench.types import Camera, level_pose

ROOT = str(Path(spatialbench.__file__).resolve().parents[1])
IDS = ("tapip3d", "depth_anything3", "megasam", "amt_s")


@pytest.fixture(scope="module")
def box() -> Iterator[ScorerBox]:
    box = ScorerBox(ScorerSettings())
    yield box
    box.close()


def test_every_official_worker_has_a_stand_in_of_its_kind() -> None:
    specs = scorer_specs()
    assert set(IDS) == set(WORKER_WEIGHTS) == {s.id for s in SPECS if not s.stands_in_for}
    for id in IDS:
        (other,) = [s for s in SPECS if s.stands_in_for == id]
        assert other.gives == specs[id].gives and other.id.startswith("reference_")
    for entries in WORKER_WEIGHTS.values():
        for e in entries:
            weights.weights_entry(e)


def test_points_are_followed_by_reprojection(box: ScorerBox) -> None:
    tracker = box.get("reference_tracks")
    clip = make_clip(3, 64, 48)
    found = tracker.track(clip.frames, clip.depth, clip.cameras, clip.points)
    assert found.shape == (3, 4, 3) and found.dtype == np.float64
    # Depth is exactly the plane's, so the surface is the point, to rounding at coordinates of some metres.
    np.testing.assert_allclose(found, np.broadcast_to(clip.points, found.shape), atol=1e-12)
    # In the second frame the plane is 3 % further away: 12 cm along each point's own ray from the camera at x = 0.1.
    depth = clip.depth.copy()
    depth[1] *= 1.03
    found = tracker.track(clip.frames, depth, clip.cameras, clip.points)
    eye = np.array([0.1, 0.0, 1.5])
    np.testing.assert_allclose(found[1], eye + 1.03 * (clip.points - eye), rtol=1e-6)  # float32 depth
    # 6 % further is another surface, as is nothing at all; the points are lost there and found again afterwards.
    for gone in (1.06 * DISTANCE, np.nan, np.inf, 0.0):
        depth[1] = gone
        found = tracker.track(clip.frames, depth, clip.cameras, clip.points)
        assert np.isnan(found[1]).all() and np.isfinite(found[[0, 2]]).all()
    # Behind the camera and beside the picture there is nothing to be seen.
    away = np.array([[0.0, -1.0, 1.5], [30.0, DISTANCE, 1.5]])
    found = tracker.track(clip.frames, clip.depth, clip.cameras, away)
    assert np.isnan(found[1:]).all() and (found[0] == away).all()
    assert tracker.track(clip.frames, clip.depth, clip.cameras, np.empty((0, 3))).shape == (3, 0, 3)


def test_depth_is_a_plane_and_frames_are_blends(box: ScorerBox) -> None:
    frames = [np.full((6, 8, 3), v, np.uint8) for v in (0, 9)]
    geometry = box.get("reference_depth").estimate(frames)
    assert (geometry.depth == 1).all() and geometry.depth.shape == (2, 6, 8) and not geometry.metric
    assert (geometry.poses == np.eye(4)).all()
    assert geometry.intrinsics[1].tolist() == [[4, 0, 4], [0, 4, 3], [0, 0, 1]]  # 90 degrees across 8 pixels
    blended = box.get("reference_frames").between(*frames, 3)
    assert [int(f[0, 0, 0]) for f in blended] == [2, 5, 7]  # 2.25, 4.5 (half up), 6.75
    assert box.get("reference_frames").between(*frames, 0) == []


@given(st.integers(1, 5), st.lists(st.tuples(st.integers(0, 255), st.integers(0, 255)), min_size=1, max_size=20))
def test_blends_are_the_fractions_rounded_half_up(n: int, pairs: list[tuple[int, int]]) -> None:
    a, b = (np.array(v, np.uint8)[None, :, None] for v in zip(*pairs, strict=True))
    found = reference.between({"parameters": {"count": n}}, {"first": a, "second": b})[0]["frames"]
    for i in range(n):
        s = Fraction(i + 1, n + 1)
        assert found[i, 0, :, 0].tolist() == [int((1 - s) * x + s * y + Fraction(1, 2)) for x, y in pairs]


@given(st.floats(0, 6.28), st.tuples(*[st.floats(-5, 5)] * 3))
def test_tracks_move_with_the_world(angle: float, offset: tuple[float, float, float]) -> None:
    clip = make_clip(3, 16, 12)
    move = np.eye(4)
    move[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    move[:3, 3] = offset
    depth = clip.depth.copy()
    depth[1] *= 1.03
    given_ = {"depth": depth, "points": clip.points, "poses": np.stack([c.pose.matrix for c in clip.cameras]),
              "intrinsics": np.array([[[c.fx, 0, c.cx], [0, c.fy, c.cy], [0, 0, 1]] for c in clip.cameras])}
    rest = reference.tracks({}, given_)[0]["tracks"]
    moved = reference.tracks({}, given_ | {"poses": move @ given_["poses"],
                                           "points": clip.points @ move[:3, :3].T + move[:3, 3]})[0]["tracks"]
    # Coordinates of at most some ten metres, a few roundings of 1e-16 each.
    np.testing.assert_allclose(moved, rest @ move[:3, :3].T + move[:3, 3], atol=1e-12)


def test_what_a_worker_says_of_itself_belongs_to_the_result(box: ScorerBox) -> None:
    box.get("reference_frames")
    found = box.identity["reference_frames"]
    assert found["worker"] == "spatialbench reference worker, version 1"
    assert found["worker/numpy"] == np.__version__


def test_questions_that_make_no_sense(box: ScorerBox) -> None:
    c = make_clip(2, 16, 12)
    tracker, frames = box.get("reference_tracks"), box.get("reference_frames")
    other = [Camera.from_fov(level_pose((0, 0, 0)), 70, 8, 8)] * 2
    for bad in ((c.frames, c.depth[:1], c.cameras, c.points), (c.frames, c.depth, c.cameras[:1], c.points),
                (c.frames, c.depth, other, c.points), (c.frames, c.depth, c.cameras, c.points[:, :2]),
                (c.frames, c.depth, c.cameras, c.points * np.nan), ([], c.depth, c.cameras, c.points)):
        with pytest.raises(ValueError):
            tracker.track(*bad)
    for a, b, n in ((c.frames[0], c.frames[1][:5], 1), (c.frames[0].astype(float), c.frames[1], 1),
                    (c.frames[0], c.frames[1], -1)):
        with pytest.raises(ValueError):
            frames.between(a, b, n)


# --- what a worker may answer -----------------------------------------------------------------------------------


class Stub(Worker):
    """Answers with given arrays, without a process."""

    def __init__(self, arrays: dict[str, Any], values: dict[str, Any] | None = None, capability: str = "") -> None:
        self.arrays, self.values = arrays, values or {}
        self.scorer, self._about = "stub", None
        self.asked: dict[str, Any] = {}

    def ask(self, capability: Any, arrays: Any, parameters: Any, wanted: Any) -> Any:
        self.asked = {"capability": capability, "arrays": arrays, "parameters": parameters}
        return Answer(protocol=1, status="ok", model="stub", values=self.values), self.arrays


def adapter(kind: Any, arrays: dict[str, Any], values: dict[str, Any] | None = None) -> Any:
    made = kind.__new__(kind)
    made.scorer, made._parameters, made.worker = "stub", {}, Stub(arrays, values)
    return made


def track(found: np.ndarray) -> Any:
    c = make_clip(3, 16, 12, 2)
    return adapter(WorkerTracker, {"tracks": found}).track(c.frames, c.depth, c.cameras, c.points)


def test_lost_points_are_nan_in_all_three_and_never_in_the_first_frame() -> None:
    good = np.zeros((3, 2, 3), np.float32)
    good[1, 0] = np.nan
    assert np.isnan(track(good)[1, 0]).all() and track(good).dtype == np.float64
    for at, value, match in (((1, 1, 2), np.nan, "NaN in part"), ((2, 0, 0), np.inf, "infinite"),
                             ((0, 0), np.nan, "first frame")):
        bad = good.copy()
        bad[at] = value
        with pytest.raises(BackendUnavailableError, match=match):
            track(bad)


def test_depth_that_is_none_is_handed_on_as_zero() -> None:
    c = make_clip(3, 16, 12, 2)
    made = adapter(WorkerTracker, {"tracks": np.zeros((3, 2, 3))})
    depth = c.depth.copy()
    depth[1, 2, 3:7] = -1, np.nan, np.inf, -np.inf
    made.track(c.frames, depth, c.cameras, c.points)
    given_ = made.worker.asked["arrays"]["depth"]
    assert (given_[1, 2, 3:7] == 0).all() and (np.delete(given_[1, 2], range(3, 7)) == DISTANCE).all()
    assert np.isnan(depth[1, 2, 4])  # the caller's own is left as it is


def test_geometry_that_cannot_be() -> None:
    frames = make_clip(2, 16, 12).frames
    turn = np.array([[0.6, -0.8, 0, 1], [0.8, 0.6, 0, 2], [0, 0, 1, 3], [0, 0, 0, 1]])
    k = np.array([[5.0, 0, 4], [0, 5, 3], [0, 0, 1]])

    def estimate(values: Any = None, **changes: Any) -> Any:
        arrays = {"depth": np.ones((2, 6, 8), np.float32), "poses": np.stack([np.eye(4), turn]).astype(np.float32),
                  "intrinsics": np.stack([k, k])} | changes
        return adapter(WorkerDepth, arrays, {"metric": True} if values is None else values).estimate(frames)

    found = estimate()
    assert found.metric and found.depth.shape == (2, 6, 8)
    # 0.6 and 0.8 in float32 are off by some 1e-8; the rotation that is given on is one to double precision.
    r = found.poses[1, :3, :3]
    np.testing.assert_allclose(r, turn[:3, :3], atol=1e-7)
    np.testing.assert_allclose(r.T @ r, np.eye(3), rtol=0, atol=1e-15)
    assert found.poses[1, :3, 3].tolist() == [1, 2, 3]
    bad_depth = np.ones((2, 6, 8), np.float32)
    for value in (np.nan, np.inf, -1):
        bad_depth[1, 2, 3] = value
        with pytest.raises(BackendUnavailableError, match="depths must be finite"):
            estimate(depth=bad_depth)
    mirrored = np.stack([np.eye(4), np.diag([1.0, 1, -1, 1])])
    for poses in (mirrored, np.stack([np.eye(4), 2 * turn]), np.full((2, 4, 4), np.nan), np.ones((2, 4, 4))):
        with pytest.raises(BackendUnavailableError, match="camera-to-world"):
            estimate(poses=poses)
    for i, j, value in ((0, 0, 0.0), (1, 1, -5.0), (0, 1, 0.5), (2, 2, 2.0), (0, 2, np.nan)):
        wrong = np.stack([k, k])
        wrong[1, i, j] = value
        with pytest.raises(BackendUnavailableError, match="intrinsics"):
            estimate(intrinsics=wrong)
    for values in ({}, {"metric": 1}, {"metric": "yes"}):
        with pytest.raises(BackendUnavailableError, match="'metric'"):
            estimate(values)


def test_an_interpolator_is_told_how_many() -> None:
    a, b = make_clip(2, 16, 12).frames
    made = adapter(WorkerInterpolator, {"frames": np.zeros((2, 12, 16, 3), np.uint8)})
    assert len(made.between(a, b, 2)) == 2
    assert made.worker.asked["parameters"] == {"count": 2} and set(made.worker.asked["arrays"]) == {"first", "second"}


WANTED = {"x": Wanted((2, None), ("float32", "float64"))}


def npy(array: np.ndarray, version: tuple[int, int] = (1, 0)) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, array, version=version)
    return out.getvalue()


def outputs(folder: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(folder / "outputs.npz", "w", compression) as z:
        for name, data in members.items():
            z.writestr(name, data)
    return folder


def test_good_arrays_are_read_exactly(tmp_path: Path) -> None:
    x = np.arange(6.0).reshape(2, 3)
    for array in (x, np.asfortranarray(x), x.astype(np.float32), x.astype(">f8")):
        found = read_outputs(outputs(tmp_path, {"x.npy": npy(array)}), WANTED, "s")["x"]
        assert (found == x).all() and found.flags.c_contiguous and found.dtype.isnative
    save_npz(str(tmp_path / "outputs.npz"), {"x": x})
    first = (tmp_path / "outputs.npz").read_bytes()
    assert (np.load(tmp_path / "outputs.npz")["x"] == x).all()
    save_npz(str(tmp_path / "outputs.npz"), {"x": x})
    assert (tmp_path / "outputs.npz").read_bytes() == first


def header(shape: str, descr: str = "<f8") -> bytes:
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(("members", "match"), [
    ({}, "wanted are x"), ({"y.npy": npy(np.zeros((2, 1)))}, "wanted are x"),
    ({"x.npy": npy(np.zeros((2, 1))), "../x.npy": b""}, "wanted are x"),
    ({"x.npy": npy(np.zeros((3, 1)))}, "has the shape"), ({"x.npy": npy(np.zeros(2))}, "has the shape"),
    ({"x.npy": npy(np.zeros((2, 1), np.int32))}, "is int32"),
    ({"x.npy": header("(2, 1)", "|O") + b"\x80\x04N."}, "is object"),
    ({"x.npy": header("(2, 10000000000)")}, "160,000,000,000 bytes"), ({"x.npy": header("(2, 5)")}, "80 bytes"),
    ({"x.npy": header("(2, -5)")}, "outputs.npz"), ({"x.npy": b"\x93NUMPY\x02\x00" + b"\xff" * 8}, "version 1.0"),
    ({"x.npy": npy(np.zeros((2, 1)))[:-3]}, "bytes"), ({"x.npy": b""}, "outputs.npz"), ({"x.npy": b"junk"}, "npz")])
def test_arrays_that_are_none(tmp_path: Path, members: dict[str, bytes], match: str) -> None:
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with pytest.raises(BackendUnavailableError, match=match):
            read_outputs(outputs(tmp_path, members, compression), WANTED, "s")


@given(at=st.integers(0, 10 ** 6), value=st.integers(0, 255), cut=st.integers(0, 600), method=st.sampled_from(
    [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]))
@settings(deadline=None)
def test_damaged_arrays_are_answers_that_are_none(at: int, value: int, cut: int, method: int) -> None:
    """A byte changed, or the end missing: the libraries below raise anything from zlib.error to struct.error."""
    with tempfile.TemporaryDirectory() as name:
        path = outputs(Path(name), {"x.npy": npy(np.arange(8.0).reshape(2, 4))}, method) / "outputs.npz"
        data = bytearray(path.read_bytes())
        data[at % len(data)] = value
        path.write_bytes(data[:len(data) - cut] if cut < 300 else data)
        found = None
        with suppress(BackendUnavailableError):
            found = read_outputs(Path(name), WANTED, "s")
        assert found is None or found["x"].shape == (2, 4)  # what has no checksum are times and the like


def test_what_is_too_large_is_refused_from_its_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before memory is taken: of arrays that are there, of arrays that a header claims, and of what is asked."""
    claimed = outputs(tmp_path, {"x.npy": header("(2, 100000000)")})
    with pytest.raises(BackendUnavailableError, match="has 1,600,000,000 bytes, and a job holds 128"):
        read_outputs(claimed, WANTED, "s")
    x = np.arange(6.0).reshape(2, 3)
    good = outputs(tmp_path, {"x.npy": npy(x)})
    assert (read_outputs(good, WANTED, "s")["x"] == x).all()
    monkeypatch.setattr(protocol, "MOST_BYTES", 47)
    with pytest.raises(BackendUnavailableError, match="has 48 bytes, and a job holds 47"):
        read_outputs(good, WANTED, "s")
    with pytest.raises(BackendUnavailableError, match="'x' has 48 bytes, and a job holds 47"):
        write_request(tmp_path, "frames", "s", {"x": x}, {})
    (tmp_path / "answer.json").write_text(json.dumps({"protocol": 1, "status": "ok", "model": "m"}))
    monkeypatch.setattr(protocol, "_MOST_ANSWER", 20)
    with pytest.raises(BackendUnavailableError, match="more than 1 MiB"):
        read_answer(tmp_path, "s")


def test_what_is_packed_wrongly_is_no_answer(tmp_path: Path) -> None:
    """A broken stream under a right directory: zlib.error is no error of zipfile."""
    path = outputs(tmp_path, {"x.npy": npy(np.zeros((2, 9)))}, zipfile.ZIP_DEFLATED) / "outputs.npz"
    data = bytearray(path.read_bytes())
    data[35:60] = b"\xff" * 25
    path.write_bytes(data)
    with pytest.raises(BackendUnavailableError, match=r"outputs\.npz"):
        read_outputs(tmp_path, WANTED, "s")


def test_a_file_that_becomes_a_link_on_the_way_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_text(json.dumps({"protocol": 1, "status": "ok", "model": "m"}))
    (tmp_path / "answer.json").symlink_to("secret")
    monkeypatch.setattr(Path, "lstat", lambda self: os.stat(__file__))  # it was a file when it was looked at
    with pytest.raises(BackendUnavailableError, match=r"answer\.json"):
        read_answer(tmp_path, "s")


def test_what_a_worker_says_goes_nowhere_with_its_control_characters(tmp_path: Path) -> None:
    said = {"protocol": 1, "status": "ok", "model": "a\x1b[31m", "versions": {"x\n\x07": "1\x00"},
            "weights": {"w\x9b": "a"}}
    (tmp_path / "answer.json").write_text(json.dumps(said))
    found = read_answer(tmp_path, "s").identity
    assert found == {"worker": "a?[31m", "worker/x ?": "1?", "worker/weights/w?": "a"}
    for bad, says in (({"\x1b[2J": 1}, r"\?\[2J"), ({"versions": {"a": "x" * 301}}, "versions"),
                      ({"weights": {"x" * 301: "a"}}, "weights"), ({"capabilities": ["a"] * 101}, "capabilities")):
        (tmp_path / "answer.json").write_text(json.dumps(said | bad))
        with pytest.raises(BackendUnavailableError, match=says) as caught:
            read_answer(tmp_path, "s")
        assert str(caught.value).isprintable() and len(str(caught.value)) < 700
    names = {f"{'n' * 300}\x1b.npy": b""}
    with pytest.raises(BackendUnavailableError, match="wanted are x") as caught:
        read_outputs(outputs(tmp_path, names), WANTED, "s")
    assert "\x1b" not in str(caught.value)


def test_files_that_are_none(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(npy(np.zeros((2, 1))))
    job = tmp_path / "job"
    job.mkdir()
    for make in (lambda p: p.symlink_to(secret), lambda p: p.mkdir(), os.mkfifo, lambda p: p.write_bytes(b"PK")):
        for name in ("outputs.npz", "answer.json"):
            if hasattr(os, "mkfifo") or make is not os.mkfifo:
                make(job / name)
        with pytest.raises(BackendUnavailableError, match=r"outputs\.npz"):
            read_outputs(job, WANTED, "s")
        with pytest.raises(BackendUnavailableError, match=r"answer\.json"):
            read_answer(job, "s")
        for name in ("outputs.npz", "answer.json"):
            path = job / name
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    with pytest.raises(BackendUnavailableError, match=r"answer\.json"):
        read_answer(job, "s")


@pytest.mark.parametrize("change", [{"protocol": 2}, {"status": "fine"}, {"model": ""}, {"extra": 1}, {"versions": [1]},
                                    {"weights": {"a": 1}}, {"message": "x" * 5000}, {"values": {"metric": [1]}}])
def test_answers_that_are_none(tmp_path: Path, change: dict[str, Any]) -> None:
    good = {"protocol": 1, "status": "ok", "model": "m"}
    (tmp_path / "answer.json").write_text(json.dumps(good))
    assert read_answer(tmp_path, "s").model == "m"
    (tmp_path / "answer.json").write_text(json.dumps(good | change))
    with pytest.raises(BackendUnavailableError, match=next(iter(change))):
        read_answer(tmp_path, "s")


def test_a_request_is_the_same_bytes_each_time(tmp_path: Path) -> None:
    texts = []
    for name in "ab":
        (tmp_path / name).mkdir()
        write_request(tmp_path / name, "frames", "s", {"x": np.arange(3)}, {"count": 1})
        texts.append([(tmp_path / name / f).read_bytes() for f in ("request.json", "inputs.npz")])
    assert texts[0] == texts[1]
    said = json.loads(texts[0][0])
    assert said["seed"] == 0 and said["protocol"] == 1 and said["inputs"]["arrays"]["x"]["shape"] == [3]


# --- processes --------------------------------------------------------------------------------------------------

HEAD = """
import json, os, subprocess, sys, time
def answer(folder, **more):
    with open(os.path.join(folder, "answer.json"), "w") as f:
        json.dump(dict({"protocol": 1, "status": "ok", "model": "m", "capabilities": ["frames"]}, **more), f)
def done(folder):
    print(json.dumps({"spatialbench_worker": 1, "job": folder, "done": True}), flush=True)
jobs = (json.loads(line)["job"] for line in sys.stdin)
"""


def script(tmp_path: Path, body: str, timeout_s: float = 60, **env: str) -> Worker:
    path = tmp_path / "worker.py"
    path.write_text(HEAD + textwrap.dedent(body))
    return Worker("s", (sys.executable, "-S", "-E", str(path)), timeout_s, env)


def describe(worker: Worker) -> Answer:
    return worker.ask("describe", {}, {}, {})[0]


def test_one_process_for_many_jobs_and_a_clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")
    monkeypatch.setenv("PYTHONPATH", "/ours")
    worker = script(tmp_path, """
        for folder in jobs:
            answer(folder, message=json.dumps([os.getpid(), dict(os.environ), sorted(os.listdir(folder))]))
            done(folder)
        """, MINE="yes", HF_HUB_OFFLINE="0")
    first, second = (json.loads(describe(worker).message) for _ in range(2))
    assert first[0] == second[0] != os.getpid()
    assert first[1]["MINE"] == "yes" and first[1]["HF_HUB_OFFLINE"] == "1" and "PATH" in first[1]
    assert "HF_TOKEN" not in first[1] and "PYTHONPATH" not in first[1]
    assert first[2] == ["inputs.npz", "request.json"]
    assert worker.close() == 0 and worker.close() is None


@pytest.mark.parametrize(("body", "match"), [
    ("sys.stderr.write('CUDA is \\x1b[31mmissing\\n'); sys.exit(3)", r"exit code 3.*CUDA is \?\[31mmissing"),
    ("os.kill(os.getpid(), 9)", "signal 9"),
    ("for f in jobs: print('loading...', flush=True)", r"printed 'loading\.\.\.' instead"),
    ("for f in jobs: done('/another')", "instead of the line"),
    ("for f in jobs: done(f)", "answer.json"),
    ("for f in jobs: sys.stdout.write('x' * 10**6); sys.stdout.flush()", "printed 'xxx"),
    ("for f in jobs: answer(f, status='failed', message='out of memory'); done(f)", "failed: out of memory"),
    ("for f in jobs: answer(f, status='unsupported'); done(f)", "cannot do this: it does not say why"),
])
def test_workers_that_go_wrong(tmp_path: Path, body: str, match: str) -> None:
    worker = script(tmp_path, body)
    with pytest.raises(BackendUnavailableError, match=match):
        describe(worker)
    worker.close()


def gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes as Linux shows them")
def test_a_worker_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    worker = script(tmp_path, """
        child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
        with open(sys.argv[0] + ".pids", "w") as f:
            f.write(f"{os.getpid()} {child.pid}")
        os.rename(sys.argv[0] + ".pids", sys.argv[0] + ".ready")
        time.sleep(600)
        """, timeout_s=2)
    ready = tmp_path / "worker.py.ready"
    start = time.monotonic()
    while not ready.exists():  # on a slow machine it may not even have begun within the time that it has
        worker._failures = 0
        with pytest.raises(BackendUnavailableError, match=r"within 2 s.*timeout_s"):
            describe(worker)
        assert time.monotonic() - start < 120
    pids = [int(p) for p in ready.read_text().split()]
    deadline = time.monotonic() + 60
    while not all(gone(p) for p in pids):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    worker.close()


@pytest.mark.skipif(sys.platform == "win32", reason="a child keeps the pipe")
def test_a_worker_that_ends_is_not_waited_for_while_a_child_keeps_its_output(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_GRACE_S", 0.5)
    worker = script(tmp_path, """
        subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
        os._exit(3)
        """, timeout_s=500)
    start = time.monotonic()
    with pytest.raises(BackendUnavailableError, match="exit code 3"):
        describe(worker)
    assert time.monotonic() - start < 250
    worker.close()


def test_it_is_started_again_and_after_three_failures_no_more(tmp_path: Path) -> None:
    worker = script(tmp_path, """
        counter = sys.argv[0] + ".n"
        n = int(open(counter).read()) if os.path.exists(counter) else 0
        open(counter, "w").write(str(n + 1))
        for folder in jobs:
            if n != 1:
                sys.exit(7)
            answer(folder)
            done(folder)
        """)
    outcomes = []
    for _ in range(6):
        try:
            outcomes.append(describe(worker).status)
        except BackendUnavailableError as error:
            outcomes.append(str(error).partition(":")[2][:30])
        if outcomes[-1] == "ok":
            worker._end()
    assert outcomes[0].startswith(" the worker ended with exit") and outcomes[1] == "ok"
    assert outcomes[5].startswith(" the worker failed 3 times")
    assert (tmp_path / "worker.py.n").read_text() == "5"  # the last was not tried


def test_it_must_not_change_on_the_way(tmp_path: Path) -> None:
    worker = script(tmp_path, """
        for i, folder in enumerate(jobs):
            answer(folder, weights={"w": str(i // 2)})
            done(folder)
        """)
    describe(worker)
    describe(worker)
    with pytest.raises(BackendUnavailableError, match="another model, version or weights"):
        describe(worker)
    worker.close()


def test_a_command_that_is_none_and_a_capability_that_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(BackendUnavailableError, match="cannot be started"):
        describe(Worker("s", (str(tmp_path / "absent"),), 5, {}))
    worker = script(tmp_path, "for f in jobs: answer(f); done(f)")
    plan = WorkerCommand(tuple(worker._command), 60)
    with pytest.raises(BackendUnavailableError, match="does frames, and 'tracks' is needed"):
        WorkerTracker("s", plan)


def describe_and_wait(worker: Worker) -> None:
    describe(worker)
    time.sleep(60)  # the signal may come when the answer has


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_ctrl_c_ends_the_job(tmp_path: Path) -> None:
    worker = script(tmp_path, "for f in jobs: os.kill(os.getppid(), 2); time.sleep(600)")
    old = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            describe_and_wait(worker)
    finally:
        signal.signal(signal.SIGINT, old)
    assert worker._running is None


# --- the workers file -------------------------------------------------------------------------------------------


def named(tmp_path: Path, text: str) -> ScorerSettings:
    (tmp_path / "workers.yaml").write_text(text)
    return ScorerSettings(weights=tmp_path / "w", workers=tmp_path / "workers.yaml")


def test_why_a_worker_cannot_be_used(tmp_path: Path) -> None:
    none = ScorerSettings(weights=tmp_path)
    for id in IDS:
        assert "no workers file is named" in scorer_status(id, none) and "SPATIALBENCH_WORKERS" in scorer_status(
            id, none)
        with pytest.raises(BackendUnavailableError, match=r"docs/workers\.md"):
            ScorerBox(none).get(id)
    for text, match in (("workers: {amt_s: {command: [python]}}", "names no command for 'tapip3d'. It has: amt_s"),
                        ("workers: {tapip3d: {command: [no-such-program]}}", "'no-such-program'"),
                        ("workers: {tapip3d: {command: [./absent]}}", "'./absent'"),
                        ("workers: {tapip3d: {comand: [x]}}", "comand"),
                        ("workers: {tapip3d: {command: []}}", "command"),
                        ("workers: {tapip3d: {command: [x], timeout_s: 0}}", "timeout_s"), ("[]", "keys and values"),
                        (f"workers: {{tapip3d: {{command: [{sys.executable}, '{{weights:tapip3d}}']}}}}",
                         "weights fetch tapip3d"),
                        (f"workers: {{tapip3d: {{command: [{sys.executable}, '{{weights:../x}}']}}}}", "no weights")):
        assert match in scorer_status("tapip3d", named(tmp_path, text)), text
    assert "no such file" in scorer_status("tapip3d", ScorerSettings(workers=tmp_path / "absent"))


def test_a_command_is_filled_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    entry = WeightsEntry(id="tiny", model="T", licence="MIT", repo="a/b", files=({"path": "m", "sha256": "0" * 64},))
    monkeypatch.setattr(weights, "load_lock", lambda: Lock(version=1, weights=(entry,)))
    (tmp_path / "w/tiny").mkdir(parents=True)
    (tmp_path / "w/tiny/m").write_bytes(b"x")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/run").write_text("#!/bin/sh\n")
    (tmp_path / "bin/run").chmod(0o755)
    settings = named(tmp_path, "workers: {tapip3d: {command: [bin/run, 'a={weights:tiny}/m'], env: {A: b}, batch: 2}}")
    found = command_of("tapip3d", settings)
    assert found.command == (str(tmp_path / "bin/run"), f"a={tmp_path}/w/tiny/m")
    assert (found.timeout_s, found.batch, dict(found.env)) == (600, 2, {"A": "b"})
    assert "A" not in repr(found).replace("WorkerCommand", "")
    assert scorer_status("tapip3d", settings) == ""  # by names and sizes
    with pytest.raises(BackendUnavailableError, match="SHA-256"):  # and when it is opened, by hashes
        command_of("tapip3d", settings, verify=True)


def test_a_worker_of_the_file_is_the_scorer(tmp_path: Path) -> None:
    settings = named(tmp_path, json.dumps({"workers": {"amt_s": {
        "command": [sys.executable, "-m", "spatialbench.scorers.worker.reference"], "env": {"PYTHONPATH": ROOT}}}}))
    box = ScorerBox(settings)
    assert box.lacking("amt_s") == ""
    a = np.zeros((4, 4, 3), np.uint8)
    assert (box.get("amt_s").between(a, a + 10, 1)[0] == 5).all()
    assert box.identity["amt_s"]["worker"].startswith("spatialbench reference")
    box.close()


# --- the check that a third party runs ---------------------------------------------------------------------------


def test_the_reference_worker_keeps_the_protocol(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reference_tracks"]) == 0
    text = capsys.readouterr().out
    assert "the worker keeps the protocol" in text and "FAIL" not in text and "lost" in text


@pytest.mark.parametrize("gives", ["depth", "frames"])
def test_so_it_does_with_what_else_it_gives(gives: Any) -> None:
    from spatialbench.scorers.worker.declared import reference_command

    outcomes = list(check_worker("x", reference_command(), gives))
    assert len(outcomes) == 7 and [o.note for o in outcomes if not o.right] == []


def test_a_worker_that_errs_is_found_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = """
        import sys
        sys.path.insert(0, ROOT)
        import numpy as np
        from spatialbench.scorers.worker.serve import serve
        count = [0]
        def frames(request, given):
            count[0] += 1
            n = request["parameters"]["count"]
            return {"frames": np.full((n, *given["first"].shape), count[0] * 20, np.uint8)}, {}
        serve({"frames": frames}, model="m", versions={})
        """
    (tmp_path / "w.py").write_text(textwrap.dedent(body).replace("ROOT", repr(ROOT)))
    named(tmp_path, json.dumps({"workers": {"amt_s": {"command": [sys.executable, str(tmp_path / "w.py")]}}}))
    assert main(["amt_s", "--scorer-workers", str(tmp_path / "workers.yaml")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition("  ")[0] for line in lines[:3]] == ["ok", "FAIL", "FAIL"]
    assert "lies another" in lines[1] and "differs by" in lines[2] and lines[-1] == "2 checks failed"


def test_libraries_that_print_and_inputs_that_were_changed(tmp_path: Path) -> None:
    """What compiled code writes to standard output would be taken for an answer."""
    body = """
        import os, sys
        sys.path.insert(0, ROOT)
        from spatialbench.scorers.worker.serve import serve
        def frames(request, given):
            os.write(1, b"loading 100%\\n")
            print("and Python")
            return {"frames": given["first"][None]}, {}
        serve({"frames": frames}, model="m", versions={})
        """
    (tmp_path / "w.py").write_text(textwrap.dedent(body).replace("ROOT", repr(ROOT)))
    made = WorkerInterpolator("s", WorkerCommand((sys.executable, str(tmp_path / "w.py")), 60))
    a, b = make_clip(2, 8, 6).frames
    assert (made.between(a, b, 1)[0] == a).all()
    made.close()
    write_request(tmp_path, "frames", "s", {"first": a}, {"count": 1})
    with (tmp_path / "inputs.npz").open("ab") as f:
        f.write(b"x")
    assert serve._work({"frames": lambda request, given: ({}, {})}, str(tmp_path)) == {
        "status": "failed", "message": "inputs.npz is not what request.json says"}


def test_a_check_of_nothing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPATIALBENCH_WORKERS", raising=False)
    assert main(["niqe"]) == 2 and "Known: tapip3d" in capsys.readouterr().err
    assert main(["tapip3d"]) == 1 and "no workers file" in capsys.readouterr().err
    assert issubclass(ConfigError, UsageError) and reference.main
