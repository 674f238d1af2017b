"""The scorer service: messages, order, errors, crashes, and a batch that gives the same bytes with and without it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Client, Listener
from pathlib import Path
from queue import Queue
from typing import Any

import numpy as np
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from spatialbench.errors import BackendUnavailableError, UsageError
from spatialbench.runs.batch import BatchOptions, Board, open_batch
from spatialbench.runs.batch.local import ONE_THREAD
from spatialbench.runs.scorer_service import server as server_module
from spatialbench.runs.scorer_service import service as service_module
from spatialbench.runs.scorer_service.client import ServedScorers, ServiceTicket, is_served
from spatialbench.runs.scorer_service.server import METHODS, serve
from spatialbench.runs.scorer_service.service import ScorerService, wants_service
from spatialbench.runs.scorer_service.wire import WireError, pack, unpack
from spatialbench.runs.scoring import Scoring
from spatialbench.runs.store import read_units
from spatialbench.scorers import contract, registry
from spatialbench.scorers.contract import DepthAndPoses, Detection, TextVectors
from spatialbench.scorers.registry import ScorerBox, ScorerSpec
from spatialbench.scorers.settings import scorer_settings
from spatialbench.types import Camera, Status, level_pose, load_protocol
from tests.runs.batch.batch_worlds import exact_files, make_worlds, quick_protocol_file

PLUGIN = Path(__file__).with_name("scorer_plugin.py")


def eventually(test: Callable[[], bool], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not test():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.02)


# --- messages ---------------------------------------------------------------------------------------------

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
ARRAYS = hnp.arrays(st.sampled_from(["?", "u1", "i8", "<f4", "<f8"]),
                    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0))


def same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(v, b[k]) for k, v in a.items())
    return type(a) is type(b) and a == b


@given(st.recursive(SCALARS | ARRAYS, lambda inner: st.lists(inner, max_size=4) | st.lists(inner, max_size=4).map(tuple)
                    | st.dictionaries(st.text(max_size=4), inner, max_size=3), max_leaves=8))
def test_what_is_sent_arrives(value: Any) -> None:
    assert same(value, unpack(pack(value)))


def test_records_and_awkward_arrays_arrive() -> None:
    mask = np.arange(35).reshape(5, 7) % 3 == 0
    camera = Camera.from_fov(level_pose((0.1, 2, 3), 33.3, -12.5), 75.0, 64, 48)
    depth = DepthAndPoses(np.ones((2, 3, 4), np.float32), np.stack([np.eye(4)] * 2), np.stack([np.eye(3)] * 2), True)
    got = unpack(pack([(Detection(0.5, mask),), camera, depth, TextVectors(np.ones((1, 2), np.float32), (True,)),
                       np.float64(0.1), np.arange(6.0).reshape(2, 3).T, np.array([np.nan, np.inf])]))
    assert isinstance(got[0][0], Detection) and same(got[0][0].mask, mask) and got[0][0].score == 0.5
    assert got[1].key() == camera.key()
    assert same(got[2].depth, depth.depth) and got[2].metric is True
    assert got[3].truncated == (True,) and got[4] == 0.1
    assert same(np.ascontiguousarray(got[5]), np.ascontiguousarray(np.arange(6.0).reshape(2, 3).T))
    assert np.isnan(got[6][0]) and got[6][1] == np.inf
    got[6][0] = 1.0  # can be written to


@pytest.mark.parametrize("blob", [
    b"", b"\0\0", b"\xff\xff\xff\xff", b"\0\0\0\x02{}", b"\0\0\0\x04null", pack([1])[:-1], pack(np.ones(3)) + b"x",
    pack(np.ones(3))[:-1], b"\0\0\0\x05[[[[[", *(
        len(h).to_bytes(4, "big") + h for h in (json.dumps(d).encode() for d in (
            {"value": {"a": 0}, "arrays": [["<f8", [1 << 40]]]}, {"value": {"a": 0}, "arrays": [["|O", [1]]]},
            {"value": {"a": 1}, "arrays": []}, {"value": {"r": ["Popen", {}]}, "arrays": []},
            {"value": {"a": 0}, "arrays": [["<f8", [-1]]]}, {"value": {"x": 0}, "arrays": []},
            {"value": {"a": 0, "l": []}, "arrays": []}, {"value": None, "arrays": [["<f8", 3]]})))])
def test_what_is_no_message_is_refused(blob: bytes) -> None:
    with pytest.raises(WireError):
        unpack(blob)


@pytest.mark.parametrize("value", [object(), {1: 2}, np.array([object()]), np.array(["a"]), {"a": {3}}])
def test_what_cannot_be_sent_is_refused(value: Any) -> None:
    with pytest.raises(WireError):
        pack(value)


def test_every_method_of_the_contract_is_forwarded() -> None:
    kinds = [c for c in vars(contract).values() if isinstance(c, type) and getattr(c, "_is_protocol", False)]
    declared = {name for c in kinds for name, f in vars(c).items() if callable(f) and not name.startswith("_")}
    assert declared | {"truncates"} == METHODS | (declared - METHODS) and not declared - METHODS


# --- one service in this process --------------------------------------------------------------------------


class Rater:
    """A rating is the mean; counts who asks at once."""

    def __init__(self) -> None:
        self.inside = self.most = 0
        self.texts: list[str] = []
        self.go = threading.Event()
        self.go.set()

    def rate(self, images: Any, text: str = "") -> np.ndarray:
        self.inside += 1
        self.most = max(self.most, self.inside)
        self.go.wait(60)
        self.texts.append(text)
        time.sleep(0.002)
        self.inside -= 1
        if text == "bad":
            raise UsageError("no such text", where="text", todo="Give another")
        if text == "bug":
            raise KeyError("nothing")
        if text == "full":
            raise MemoryError
        return np.array([i.mean() for i in images])


@pytest.fixture
def lent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for id, packages in (("far", ("torch",)), ("near", ()), ("absent", ("torch", "no_such_package"))):
        monkeypatch.setitem(registry._SPECS, id, ScorerSpec(id, f"the {id} one", "rating", "tests",
                                                            lambda opening: Rater(), packages=packages, extra="x"))
    rater, near = Rater(), Rater()
    box = ScorerBox(given={"far": rater})
    listener = Listener(str(tmp_path / "s"), backlog=16)
    requests: Queue[Any] = Queue()
    thread = threading.Thread(target=serve, args=(box, listener, "word", requests), daemon=True)
    thread.start()
    made: list[ServedScorers] = []

    def client(token: str = "word") -> ServedScorers:
        made.append(ServedScorers(ServiceTicket(str(tmp_path / "s"), token), ScorerBox(given={"near": near})))
        return made[-1]
    yield client, rater, near, requests
    requests.put(None)
    thread.join(60)
    for c in made:
        c.close()
    listener.close()


def test_a_served_scorer_is_like_one_of_its_own(lent: Any) -> None:
    client, _, near, _ = lent
    box = client()
    images = [np.full((4, 5, 3), k, np.uint8) for k in range(3)]
    assert box.lacking("far") == box.lacking("near") == ""
    assert box.get("far").rate(images, text="a").tolist() == [0.0, 1.0, 2.0]
    assert box.get("far").rate(np.stack(images)).tolist() == box.get("far").rate(tuple(images)).tolist() == [0, 1, 2]
    assert box.get("near") is near  # not on torch: it stays here
    assert "no_such_package is not installed" in box.lacking("absent")
    with pytest.raises(BackendUnavailableError, match="the absent one: no_such_package is not installed"):
        box.get("absent")
    with pytest.raises(UsageError, match="no scorer 'nothing'"):
        box.get("nothing")
    with pytest.raises(UsageError) as error:
        box.get("far").rate(images, "bad")
    assert (error.value.what, error.value.where, error.value.todo) == ("no such text", "text", "Give another")
    with pytest.raises(RuntimeError, match="KeyError"):
        box.get("far").rate(images, "bug")
    with pytest.raises(BackendUnavailableError, match="too little memory"):
        box.get("far").rate(images, "full")
    assert not hasattr(box.get("far"), "detect")
    assert box.identity == {"far": {"given": "Rater"}, "near": {"given": "Rater"}}


def test_requests_are_done_one_at_a_time_and_each_workers_in_order(lent: Any) -> None:
    client, rater, _, requests = lent
    rater.go.clear()
    boxes = [client() for _ in range(4)]

    def ask(k: int) -> None:
        for n in range(5):
            boxes[k].get("far").rate([np.zeros((2, 2, 3), np.uint8)], f"{k}{n}")
    threads = [threading.Thread(target=ask, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    eventually(lambda: rater.inside == 1 and requests.qsize() == 3)
    assert client().lacking("far") == ""  # computes nothing, and so waits for nothing
    rater.go.set()
    for thread in threads:
        thread.join(60)
    assert rater.most == 1
    assert [[t for t in rater.texts if t[0] == str(k)] for k in range(4)] == [
        [f"{k}{n}" for n in range(5)] for k in range(4)]


def test_a_worker_that_is_killed_while_it_waits_costs_nothing(lent: Any, tmp_path: Path) -> None:
    client, rater, _, requests = lent
    rater.go.clear()
    killed = [asking(tmp_path, "a"), asking(tmp_path, "b")]
    eventually(lambda: rater.inside == 1 and requests.qsize() == 1)
    for connection in killed:
        connection.close()
    rater.go.set()
    assert client().get("far").rate([np.ones((2, 2, 3), np.uint8)], "c").tolist() == [1.0]
    assert len(rater.texts) == 2 and rater.texts[1] == "c"  # one was being done


def asking(folder: Path, text: str) -> Any:
    """A worker that has asked and waits."""
    connection = Client(str(folder / "s"))
    connection.send_bytes(pack({"token": "word"}))
    assert unpack(connection.recv_bytes()) == {"value": True}
    connection.send_bytes(pack({"op": "call", "id": "far", "method": "rate", "named": {},
                                "args": ([np.zeros((2, 2, 3), np.uint8)], text)}))
    return connection


def test_what_computes_on_for_a_worker_that_is_gone_ends_the_service(lent: Any, tmp_path: Path,
                                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    _, rater, _, _ = lent
    codes: list[int] = []

    def end(code: int) -> None:
        codes.append(code)
        rater.go.set()
    monkeypatch.setattr(server_module, "_LOOK", 0.02)
    monkeypatch.setattr(server_module, "_STUCK", 0.04)
    monkeypatch.setattr(server_module.os, "_exit", end)
    rater.go.clear()
    connection = asking(tmp_path, "a")
    eventually(lambda: rater.inside == 1)
    assert codes == []
    connection.close()
    eventually(lambda: codes[:1] == [4])


def test_strangers_are_refused(lent: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client, *_ = lent
    monkeypatch.setattr("spatialbench.runs.scorer_service.client._START_LIMIT", 0.2)
    stranger = client("guess")
    assert stranger.lacking("far").startswith("the scorer service refuses this worker")
    for hello in (b"hello", b"\0" * 5000, pack([]), pack({"token": 3})):
        with Client(str(tmp_path / "s")) as connection:
            connection.send_bytes(hello)
            with pytest.raises((EOFError, OSError)):
                connection.recv_bytes()
    assert client().lacking("far") == ""


def test_a_service_that_is_not_started_any_more_says_why(tmp_path: Path) -> None:
    box = ServedScorers(ServiceTicket(str(tmp_path / "s"), "", 6, "it has ended 6 times"), ScorerBox())
    assert box.lacking("clip_l14").startswith("it has ended 6 times")
    with pytest.raises(BackendUnavailableError, match="it has ended 6 times"):
        box.get("clip_l14")


# --- when there is one ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("usable", "device", "workers", "asked", "wanted"), [
    (True, "cuda", 4, False, True), (True, "cuda:1", 1, False, True), (False, "cuda", 4, False, False),
    (True, "cpu", 4, False, False), (True, "cpu", 4, True, True), (True, "cpu", 1, True, False),
    (False, "cpu", 2, True, True)])
def test_when_a_batch_has_one(monkeypatch: pytest.MonkeyPatch, usable: bool, device: str, workers: int, asked: bool,
                              wanted: bool) -> None:
    monkeypatch.setattr(service_module, "scorer_status", lambda id, settings: "" if usable else "is not here")
    assert wants_service(load_protocol("happyworld-spatial-1"), Scoring(device=device), workers, asked) is wanted


def test_what_is_served() -> None:
    specs = registry.scorer_specs()
    assert is_served(specs["clip_l14"]) and is_served(specs["tapip3d"])


# --- processes --------------------------------------------------------------------------------------------


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The plugin as an installed distribution, for this process and those it starts."""
    folder = tmp_path / "site"
    info = folder / "scorer_plug-1.dist-info"
    info.mkdir(parents=True)
    shutil.copy(PLUGIN, folder / "scorer_plug.py")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: scorer-plug\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[spatialbench.plugins]\nscorer_plug = scorer_plug\n")
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    registry._SPECS.pop("plug", None)
    sys.modules.pop("scorer_plug", None)


class Listens:
    def __init__(self, interrupt: Path | None = None) -> None:
        self.interrupt = interrupt

    def update(self, board: Board) -> None:
        if self.interrupt is not None and self.interrupt.exists():
            raise KeyboardInterrupt

    def say(self, text: str) -> None:
        pass


def batch(tmp_path: Path, out: str, listener: Listens | None = None, **options: Any) -> Board:
    protocol = quick_protocol_file(tmp_path)
    return open_batch(BatchOptions(
        out=tmp_path / out, worlds=tmp_path / "worlds", protocol=str(protocol), pages=False,
        settings=("metrics=[M01]", "scorers.substitutes={topiq_nr: plug}"), scoring=Scoring(device="cpu"),
        **{"workers": 2, "retries": 0, **options})).run(listener or Listens())


def statuses(tmp_path: Path, out: str) -> list[Any]:
    return [m for p in sorted((tmp_path / out).rglob("units.jsonl")) for m in read_units(p)]


@pytest.mark.slow
def test_a_batch_gives_the_same_bytes_with_and_without_it_also_after_a_crash(tmp_path: Path, plugin: Path) -> None:
    make_worlds(tmp_path / "worlds", 4)
    batch(tmp_path, "own", workers=1)
    opened = (plugin / "opened").read_text().split()
    assert len(set(opened)) == 1 and all(m.status is Status.MEASURED for m in statuses(tmp_path, "own"))

    (plugin / "opened").unlink()
    (plugin / "crash").touch()
    board = batch(tmp_path, "served", scorer_service=True)
    assert (board.done, board.failed) == (4, 0)
    rows = statuses(tmp_path, "served")
    lost = [m for m in rows if m.status is Status.UNAVAILABLE]
    assert 1 <= len(lost) <= 2 and len(rows) - len(lost) == sum(m.status is Status.MEASURED for m in rows)
    assert all("the scorer service ended while it was asked for plug" in m.reason for m in lost)
    assert len((plugin / "opened").read_text().split()) == 2  # by the first service and by the second, by no worker

    batch(tmp_path, "served", scorer_service=True, retry_failed=True)
    assert exact_files(tmp_path / "served") == exact_files(tmp_path / "own")
    pids = set(map(int, (plugin / "opened").read_text().split()))
    assert len(pids) == 3 and not any(map(psutil.pid_exists, pids))
    run = json.loads(next((tmp_path / "served").rglob("run.json")).read_text())
    own = json.loads(next((tmp_path / "own").rglob("run.json")).read_text())
    assert run["scorers"] == own["scorers"] and run["scorers"]["plug"]["threads"] == "1"


def test_ctrl_c_ends_the_service(tmp_path: Path, plugin: Path) -> None:
    make_worlds(tmp_path / "worlds", 2)
    (plugin / "wait").touch()
    with pytest.raises(KeyboardInterrupt):
        batch(tmp_path, "out", Listens(plugin / "waiting"), scorer_service=True)
    assert not psutil.pid_exists(int((plugin / "waiting").read_text()))


def test_it_ends_with_a_coordinator_that_is_killed_and_is_started_again_after_a_crash(
        tmp_path: Path, request: pytest.FixtureRequest) -> None:
    code = ("import sys, time; from pathlib import Path; "
            "from spatialbench.runs.scorer_service.service import ScorerService as S; "
            "from spatialbench.runs.scoring import Scoring; "
            "s = S(Path(sys.argv[1]), Scoring(device='cpu'), {}); t = s.ticket(); "
            "print(s.pid, flush=True)\nwhile True: time.sleep(0.02); s.look(); print(s.pid, flush=True)")
    short = tempfile.mkdtemp(prefix="s-")  # what a killed coordinator leaves is in it
    request.addfinalizer(lambda: shutil.rmtree(short))
    coordinator = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "log")], stdout=subprocess.PIPE,
                                   text=True, env={**os.environ, "TMPDIR": short})
    assert coordinator.stdout is not None
    first = int(coordinator.stdout.readline())
    psutil.Process(first).send_signal(signal.SIGKILL)
    second = first
    while second == first:
        second = int(coordinator.stdout.readline())
    assert psutil.pid_exists(second)
    coordinator.kill()
    coordinator.wait()
    coordinator.stdout.close()
    eventually(lambda: not psutil.pid_exists(second))


def test_it_is_not_started_for_ever(tmp_path: Path) -> None:
    service = ScorerService(tmp_path / "log", Scoring(), dict(ONE_THREAD), module="no.such.module")
    for _ in range(service_module._MOST_STARTS):
        assert service.ticket().ended == ""
        eventually(lambda: service.pid is None)
    ticket = service.ticket()
    assert ticket.ended == "the scorer service has ended 6 times, and log may say why"
    assert "no.such" in (tmp_path / "log").read_text() or "No module" in (tmp_path / "log").read_text()
    service.stop()
    assert not Path(ticket.address).parent.exists()


def test_a_long_temporary_folder_is_no_place_for_a_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / ("x" * 90)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    service = ScorerService(tmp_path / "log", Scoring(), {}, module="no.such.module")
    assert len(service.ticket().address) < 100
    service.stop()


def test_another_executor_has_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="scorer service is for the workers of one machine"):
        open_batch(BatchOptions(out=tmp_path / "o", worlds=tmp_path, executor="ray", scorer_service=True))


def test_settings_reach_the_service() -> None:
    scoring = Scoring(device="cpu", weights=Path("/w"), service=ServiceTicket("a", "b", 3))
    sent = json.loads(json.dumps({**scoring.sent(), "service": scoring.service.sent()}))
    assert Scoring.received(sent) == scoring
    assert scorer_settings(device="cpu").device == Scoring.received(sent).settings.device
