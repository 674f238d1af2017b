"""The Ray executor: on a real cluster of two nodes that the tests start, and its parts without one."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

import spatialbench
from spatialbench.errors import BackendUnavailableError, SpatialbenchError, UsageError
from spatialbench.runs.batch import BatchOptions, Event, Task, open_batch
from spatialbench.runs.batch import ray_executor as module
from spatialbench.runs.batch.ray_actor import UnitRunner, modules_path
from spatialbench.runs.batch.ray_cluster import RayOptions, capacity, connect
from spatialbench.runs.batch.ray_executor import LOSSES, RayExecutor
from tests.runs.batch.batch_worlds import (
    attempts,
    batch,
    batch_process,
    exact_files,
    make_world,
    make_worlds,
    quick_protocol_file,
)
from tests.runs.batch.ray_nodes import TestCluster

ROOT = Path(__file__).parents[3]
GATED, FAULTY = "tests.runs.batch.gated_worker", "tests.runs.batch.faulty_worker"
needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None or not sys.platform.startswith("linux"),
                               reason="needs the extra 'ray', and Linux, where 127.0.0.2 is a second address")
_OTHER_WORKER = """\
import functools, sys
import spatialbench.runs.batch as batch
batch.BatchOptions = functools.partial(batch.BatchOptions, module=sys.argv.pop(1))
from spatialbench.cli.main import main
sys.exit(main())
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[TestCluster]:
    c = TestCluster()
    try:
        c.start(1)
        c.start(2)
        yield c
    finally:
        c.close()


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four worlds, and ``local``: a batch of them on one machine."""
    place = tmp_path_factory.mktemp("alone")
    make_worlds(place / "worlds", 4)
    assert batch(*common(place), "-o", place / "local", "--workers", 1).returncode == 0
    return place


def start(worker: str, *arguments: object) -> subprocess.Popen[str]:
    """``spatialbench batch`` with another worker."""
    return subprocess.Popen([sys.executable, "-c", _OTHER_WORKER, worker, "batch", *map(str, arguments)], cwd=ROOT,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def common(place: Path) -> list[object]:
    return ["--worlds", place / "worlds", "--protocol", quick_protocol_file(place), "--no-pages"]


def on(cluster: TestCluster) -> list[object]:
    return ["--executor", "ray", "--address", cluster.address, "--unit-memory", "1G"]


def until(holds: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "has waited too long"
        time.sleep(0.1)


def begun(place: Path) -> dict[str, list[int]]:
    """Case -> processes that have begun it."""
    out: dict[str, list[int]] = {}
    for p in (place / "gate").iterdir():
        case, _, pid = p.name.rpartition(".")
        out.setdefault(case, []).append(int(pid))
    return out


def on_node(raylet: psutil.Process, pids: list[int]) -> bool:
    return bool({c.pid for c in raylet.children(recursive=True)} & set(pids))


@needs_ray
@pytest.mark.slow
def test_two_nodes_give_the_bytes_of_one_machine(cluster: TestCluster, alone: Path, tmp_path: Path) -> None:
    done = batch_process(*common(alone), "-o", tmp_path / "ray", *on(cluster), "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["done"], said["failed"], said["left"], said["stopped"]) == (4, 0, 0, "")
    assert exact_files(tmp_path / "ray") == exact_files(alone / "local")
    assert not list((tmp_path / "ray").glob(".ray*"))


@needs_ray
@pytest.mark.slow
def test_worlds_at_a_url_give_the_bytes_of_a_folder(cluster: TestCluster, alone: Path, tmp_path: Path) -> None:
    """And what is finished is known without fetching it again, until it changes."""
    pytest.importorskip("fsspec", reason="needs the package 'fsspec'")
    worlds = Path(shutil.copytree(alone / "worlds", tmp_path / "worlds"))
    url = ["--worlds", worlds.as_uri(), "--protocol", quick_protocol_file(tmp_path), "--no-pages", "--json"]
    done = batch_process(*url, "-o", tmp_path / "ray", *on(cluster))
    assert (done.returncode, json.loads(done.stdout)["done"]) == (0, 4), done.stderr
    assert exact_files(tmp_path / "ray") == exact_files(alone / "local")
    make_world(worlds / "room1.glb", 7.0)
    plan = json.loads(batch_process(*url, "-o", tmp_path / "ray", "--executor", "ray", "--dry-run").stdout)
    assert [u["action"] for u in plan] == ["keep", "run", "keep", "keep"]


@needs_ray
@pytest.mark.slow
def test_a_dead_node_costs_time_only_and_a_new_one_is_used(cluster: TestCluster, alone: Path,
                                                             tmp_path: Path) -> None:
    (tmp_path / "gate").mkdir()
    run = start(GATED, *common(alone), "-o", tmp_path / "out", *on(cluster), "--retries", 0, "--json")
    try:
        until(lambda: len(begun(tmp_path)) == 2)
        second = cluster.raylet(2)
        theirs = [case for case, pids in begun(tmp_path).items() if on_node(second, pids)]
        assert len(theirs) == 1, "one unit runs on each node"
        cluster.kill(2)
        cluster.start(3)
        third = cluster.raylet(3)
        until(lambda: on_node(third, begun(tmp_path)[theirs[0]]))
        assert len(begun(tmp_path)[theirs[0]]) == 2
        (tmp_path / "gate" / "go").write_text("")
        out, err = run.communicate(timeout=60)
    finally:
        run.kill()
        run.communicate()
    said = json.loads(out)
    assert (run.returncode, said["done"], said["failed"], said["left"]) == (0, 4, 0, 0), (said["stopped"], err)
    assert sorted(a["attempt"] for a in attempts(tmp_path / "out")) == [1, 1, 1, 1], "a lost node is no attempt"
    assert exact_files(tmp_path / "out") == exact_files(alone / "local")


@needs_ray
@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_batch_leaves_no_worker_and_continues(how: int, cluster: TestCluster, tmp_path: Path) -> None:
    make_world(tmp_path / "worlds" / "room.glb")
    (tmp_path / "gate").mkdir()
    run = start(GATED, *common(tmp_path), "-o", tmp_path / "out", *on(cluster), "--workers", 1)
    try:
        until(lambda: len(begun(tmp_path)) == 1)
        [[pid]] = begun(tmp_path).values()
        run.send_signal(how)
        _, err = run.communicate(timeout=30)
    finally:
        run.kill()
        run.communicate()
    assert run.returncode == 130, err
    assert "the same command continues" in err
    until(lambda: not psutil.pid_exists(pid), 10)
    if how == signal.SIGTERM:
        return
    done = batch_process(*common(tmp_path), "-o", tmp_path / "out", *on(cluster), "--json")
    assert json.loads(done.stdout)["done"] == 1, done.stderr


@needs_ray
@pytest.mark.slow
def test_faults_of_units_are_told_as_on_one_machine(cluster: TestCluster, tmp_path: Path) -> None:
    for name in ("crash", "eat", "hang"):
        make_world(tmp_path / "worlds" / f"{name}.glb")
    for out, more in (("local", ["--workers", 2]), ("ray", on(cluster))):
        run = start(FAULTY, *common(tmp_path), "-o", tmp_path / out, "--time-limit", 4, "--memory-limit", "600M",
                    "--retries", 0, *more)
        try:
            _, err = run.communicate(timeout=90)
        finally:
            run.kill()
            run.communicate()
        assert run.returncode == 1, err
    ends = {a["unit"]: (a["end"], a["reason"]) for a in attempts(tmp_path / "local")}
    assert sorted(e for e, _ in ends.values()) == ["crash", "memory", "time"]
    assert {a["unit"]: (a["end"], a["reason"]) for a in attempts(tmp_path / "ray")} == ends
    assert exact_files(tmp_path / "ray") == exact_files(tmp_path / "local")


@needs_ray
@pytest.mark.slow
def test_what_cannot_be_is_said_before_any_unit(cluster: TestCluster, tmp_path: Path) -> None:
    make_world(tmp_path / "worlds" / "room.glb")
    big = batch_process(*common(tmp_path), "-o", tmp_path / "out", *on(cluster), "--unit-gpus", 1)
    assert (big.returncode, big.stdout) == (1, "")
    assert "no node of the cluster has 1 CPUs, 1.0 GB of memory and 1 GPUs for a unit" in big.stderr
    nobody = batch_process(*common(tmp_path), "-o", tmp_path / "out", "--executor", "ray", "--address", "127.0.0.1:1")
    assert nobody.returncode == 1
    assert len(nobody.stderr.strip().splitlines()) == 1
    assert "--address 127.0.0.1:1: no Ray cluster can be used at this address (Connection refused)" in nobody.stderr


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(BackendUnavailableError, match=r'pip install "spatialbench\[ray\]"'):
        connect("127.0.0.1:6379")


def test_options_of_ray_are_for_ray(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="for --executor ray"):
        open_batch(BatchOptions(out=tmp_path / "out", worlds=tmp_path, ray=RayOptions("h:1")))


@pytest.mark.parametrize("address", ["ray://10.0.0.1:10001", "10.0.0.1", "a b:1", "host:0", "host:99999"])
def test_what_is_no_address(address: str) -> None:
    from spatialbench.runs.batch import ray_cluster

    with pytest.raises(UsageError, match="--address"):
        ray_cluster._probe(address)


@pytest.mark.parametrize(("answer", "why"), [(b"HTTP/1.1 400 Bad Request\r\n\r\n", "something else listens there"),
                                             (b"", "something else listens there"), (None, "timed out")])
def test_what_listens_and_is_no_cluster(answer: bytes | None, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from spatialbench.runs.batch import ray_cluster

    monkeypatch.setattr(ray_cluster, "_ANSWER", 0.5)
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        def serve() -> None:
            with server.accept()[0] as s:
                s.recv(100)
                s.sendall(answer) if answer is not None else done.wait(10)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with pytest.raises(BackendUnavailableError, match=why):
                ray_cluster._probe(f"127.0.0.1:{server.getsockname()[1]}")
        finally:
            done.set()
            thread.join()


def test_room_is_counted_by_whole_units() -> None:
    nodes = [{"Alive": True, "Resources": {"CPU": 8.0, "memory": 10e9}},  # 4 by CPU, 3 by memory
             {"Alive": True, "Resources": {"CPU": 3.0, "memory": 90e9, "GPU": 1.0}},  # 1 by CPU
             {"Alive": False, "Resources": {"CPU": 64.0, "memory": 900e9}},
             {"Alive": True, "Resources": {"memory": 9e9}}]  # a head without CPUs
    assert capacity(nodes, {"CPU": 2, "memory": 3e9, "GPU": 0.0}) == 4
    assert capacity(nodes, {"CPU": 1, "memory": 3e9, "GPU": 0.3}) == 3  # 3.33 by GPU, 3 by CPU
    assert capacity([], {"CPU": 1}) == 0


def test_a_worker_sees_no_module_of_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(__file__="/p/ray/__init__.py"))
    assert modules_path(["/cwd", "/p/ray/thirdparty_files", "/p", "/lib", "/p/raybeam"], "/cwd") == [
        "/p", "/lib", "/p/raybeam"]
    assert modules_path(["", "/lib"], "") == ["", "/lib"]


def settings(out: Path, **changed: Any) -> dict[str, Any]:
    return {"out": str(out), "mark": ".mark", "token": "t", "version": spatialbench.__version__,
            "memory_limit": 2_000_000_000, "limit_is_firm": True, "time_limit": 60.0, "module": FAULTY, "threads": 1,
            "log_suffix": "-ray1", "not_a_path": "", **changed}


def test_a_node_that_does_not_fit_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spatialbench.runs.batch.ray_actor._LATE", 0.0)
    (tmp_path / ".mark").write_text("other")
    wrong = json.loads(UnitRunner(json.dumps(settings(tmp_path))).hello())["error"]
    assert "is not the same folder there" in wrong["what"]
    assert wrong["where"].startswith("node ")
    old = json.loads(UnitRunner(json.dumps(settings(tmp_path, version="0.0.1"))).hello())["error"]
    assert old["what"] == f"spatialbench {spatialbench.__version__} is installed, and the batch is run by 0.0.1"


def test_a_runner_does_a_unit_and_misses_files_aloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPATIALBENCH_THREADS", "1")
    (tmp_path / ".mark").write_text("t")
    runner = UnitRunner(json.dumps(settings(tmp_path)))
    try:
        assert "node" in json.loads(runner.hello())
        message = {"system": "s", "case_id": "crash", "roles": {"main": str(tmp_path / "no.glb")}, "case": None,
                   "root": "", "image": "", "metrics": ["M07"], "keep": [], "protocol": {}, "settings": [],
                   "folder": str(tmp_path / "a" / "b" / "c" / "d"), "page": False}
        task = {"unit": "s/crash", "message": message, "memory_limit": None, "sure": False, "fetch": None}
        assert json.loads(runner.step(json.dumps(task), 1.0))["blind"] == message["roles"]["main"]
        event = json.loads(runner.step(json.dumps({**task, "sure": True}), 30.0))["event"]
        assert (event["kind"], event["reason"]) == ("crash", "the worker was killed by SIGSEGV")
    finally:
        runner.stop()


class _Gone(Exception):
    pass


class _FakeRay:
    """A cluster with room for one unit, whose actor is lost in each step but the ``good``-th."""

    def __init__(self, good: int) -> None:
        self.exceptions = SimpleNamespace(RayTaskError=KeyError, RayError=_Gone)
        self.steps, self.good, self.killed = 0, good, 0

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": {"CPU": 1.0, "memory": 8e9}}]

    def remote(self, cls: type) -> Any:
        def call(reply: Callable[..., object]) -> Any:
            return SimpleNamespace(remote=lambda *a: lambda: reply(*a))
        actor = SimpleNamespace(hello=call(lambda: {"node": "n"}), step=call(self._step), stop=call(dict))
        return SimpleNamespace(options=lambda **o: SimpleNamespace(remote=lambda s: actor))

    def _step(self, task: str, seconds: float) -> object:
        self.steps += 1
        if self.steps != self.good:
            raise _Gone("lost")
        return {"event": {**vars(Event("done", json.loads(task)["unit"])), "measured": []}}

    def wait(self, refs: list[Any], *, num_returns: int, timeout: float) -> tuple[list[Any], list[Any]]:
        return refs[:num_returns], refs[num_returns:]

    def get(self, ref: Any) -> str:
        return json.dumps(ref())

    def kill(self, actor: Any) -> None:
        self.killed += 1


@pytest.mark.parametrize(("good", "kind", "steps"), [(1, "done", 1), (3, "done", 3), (4, "done", 4),
                                                     (9, "crash", LOSSES + 1)])
def test_a_unit_is_begun_again_a_few_times_only(good: int, kind: str, steps: int, tmp_path: Path,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    fake = _FakeRay(good)
    monkeypatch.setattr(module, "connect", lambda address: (fake, False))
    executor = RayExecutor(tmp_path, RayOptions())
    executor.start(1)
    try:
        while not executor.free():
            executor.poll(1.0)
        executor.submit(Task("s/c", {}))
        ends: list[Event] = []
        while not ends:
            ends = [e for e in executor.poll(1.0) if e.kind != "at"]
    finally:
        executor.stop()
    assert [(e.kind, e.unit) for e in ends] == [(kind, "s/c")]
    assert fake.steps == steps
    assert fake.killed == steps, "each actor once: the lost ones, and the last at the end"
    assert ("was begun again" in ends[0].note) == (kind == "done" and steps > 1)
    assert not list(tmp_path.iterdir())


def test_a_fault_on_a_node_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = _FakeRay(0)
    monkeypatch.setattr(module, "connect", lambda address: (fake, False))
    monkeypatch.setattr(fake, "get", lambda ref: (_ for _ in ()).throw(KeyError("No module named 'spatialbench'")))
    executor = RayExecutor(tmp_path, RayOptions())
    executor.start(1)
    try:
        with pytest.raises(SpatialbenchError, match="not installed on a node"):
            executor.poll(1.0)
    finally:
        executor.stop()
    assert os.listdir(tmp_path) == []
