"""Batches with a judge: what it was asked is said and kept, a cap holds whatever dies, and one that comes is used."""

from __future__ import annotations

import json
import math
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from spatialbench.errors import BackendUnavailableError, ResultError
from spatialbench.runs import scoring as scoring_module
from spatialbench.runs.batch import EXECUTORS, Event, Task
from spatialbench.runs.batch.decide import Decision, Wanted, decide
from spatialbench.runs.batch.job import UnitJob, Work
from spatialbench.runs.batch.keys import hash_inputs
from spatialbench.runs.batch.measure import measure_unit
from spatialbench.runs.batch.spending import Spending
from spatialbench.runs.batch.unitfile import inputs_digest, unit_content, write_unit
from spatialbench.runs.judge_calls import JournalBudget, read_calls
from spatialbench.runs.single import prepare
from spatialbench.runs.store import read_units
from spatialbench.scorers.judge.contract import Usage
from spatialbench.scorers.judge.cost import Budget, Price
from spatialbench.types import Measurement, Status
from tests.runs.batch.batch_worlds import batch, exact_files, make_worlds, quick_protocol_file
from tests.scorers.judge_server import MODEL, Act, Call, JudgeServer

pytest.importorskip("openai")

VIEWS = 4
"""Questions about a world in the quick protocol; one of the pictures is the same in all worlds."""
TOKENS = 400
"""That the server counts for a question: at 1000 a million a call costs 0.4."""


class Here:
    """An executor that measures in this process, of which no start is waited for; tasks are what workers get."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def start(self, units: int) -> None: ...

    def stop(self) -> None: ...

    def free(self) -> int:
        return 1 - len(self.events)

    def places(self) -> int:
        return 1

    def submit(self, task: Task) -> None:
        scoring_module._JUDGES.clear()  # as of a new process
        m = measure_unit(Work.read(json.loads(json.dumps(task.message))))
        self.events.append(Event(m.status, task.unit, reason=m.reason, measured=m.measured, judge=m.judge))

    def poll(self, timeout: float) -> list[Event]:
        events, self.events = self.events, []
        return events


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("SPATIALBENCH_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setitem(EXECUTORS, "here", lambda options: Here())
    quick_protocol_file(tmp_path)
    yield tmp_path
    scoring_module._JUDGES.clear()


def judge_file(place: Path, server: JudgeServer, **more: Any) -> Path:
    (place / "prices.yaml").write_text(json.dumps({"prices": [
        {"model": "*", "input_per_million": 1000.0, "output_per_million": 0.0}]}))
    path = place / "judge.yaml"
    path.write_text(json.dumps({"base_url": server.url, "model": MODEL, "prices": "prices.yaml",
                                "cache_as": "here", **more}))
    return path


def counted(call: Call) -> Act:
    return Act(usage={"prompt_tokens": TOKENS, "completion_tokens": 20, "total_tokens": TOKENS + 20})


def common(place: Path, out: str, *more: object, metrics: str = "M06") -> list[object]:
    return ["--worlds", place / "worlds", "--protocol", place / "quick.yaml", "--set", f"metrics=[{metrics}]", "-o",
            place / out, "--no-pages", *more]


def answers(out: Path) -> dict[str, bytes]:
    return {**exact_files(out), **{p.relative_to(out).as_posix(): p.read_bytes() for p in out.rglob("judge.jsonl")}}


def ledger(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "judge_usage.jsonl").read_text().splitlines()]


def statuses(out: Path, metric: str = "M06") -> list[Status]:
    return [m.status for p in sorted(out.rglob("units.jsonl")) for m in read_units(p) if m.metric == metric]


@pytest.mark.slow
def test_what_all_workers_have_asked_is_said_and_kept_apart(place: Path) -> None:
    make_worlds(place / "worlds", 3)
    with JudgeServer(counted) as server:
        file = judge_file(place, server)
        done = batch(*common(place, "two", "--judge", file, "--workers", 2))
        calls = len(server.calls)
        assert calls + sum(line["cached"] for line in ledger(place / "two")) == 3 * VIEWS
        assert (f"{MODEL} at here: {calls} calls with {calls} pictures, {calls * TOKENS:,} tokens in, {calls * 20:,} "
                f"out, {calls * 0.4:.4f} USD; {3 * VIEWS - calls} answered from the cache") in done.stdout
        assert {line["unit"] for line in ledger(place / "two")} == {f"local/room{i}" for i in range(3)}
        assert math.fsum(line["spent"] for line in ledger(place / "two")) == pytest.approx(0.4 * calls)
        assert not (place / "two" / ".judge-calls").exists()

        # One after the other, all from the cache: the same bytes, and nothing is spent.
        one = batch(*common(place, "one", "--judge", file, "--executor", "here", "--json"))
        assert len(server.calls) == calls
    (said,) = json.loads(one.stdout)["judge"]
    assert (said["calls"], said["cached"], said["cost"], said["model"]) == (0, 3 * VIEWS, 0.0, MODEL)
    assert said["saved"] == pytest.approx(0.4 * 3 * VIEWS) and json.loads(one.stdout)["judge_spent"] == 0.0
    assert answers(place / "one") == answers(place / "two")


@pytest.mark.slow
def test_a_cap_holds_over_killed_workers_and_further_calls_of_the_batch(place: Path) -> None:
    """Three worlds of four questions at 0.4 each would be 4.8; every start of a worker may not spend 3 anew."""
    make_worlds(place / "worlds", 3)

    def behave(call: Call) -> Act:
        if call.number == 2:
            for child in psutil.Process().children():
                if "batch_worker" in " ".join(child.cmdline()):
                    os.kill(child.pid, signal.SIGKILL)
        return counted(call)

    with JudgeServer(behave) as server:
        told = ("--judge", judge_file(place, server, max_connections=1), "--no-judge-cache")
        first = batch(*common(place, "out", *told, "--max-cost", 3, "--workers", 1))
        # The call that the worker died in was made and is paid for, though nothing of it came back.
        paid = 0.4 * len(server.calls)
        assert "killed by SIGKILL; it is tried again" in first.stderr and "3 done" in first.stdout
        assert len(server.calls) > 4 and paid <= 3
        assert paid <= math.fsum(line["spent"] for line in ledger(place / "out")) <= 3
        assert next(line["end"] for line in ledger(place / "out")) == "crash"
        assert "not asked" in first.stdout and "of 3" in first.stdout
        assert Status.UNAVAILABLE in statuses(place / "out")

        told = (*told, "--executor", "here")
        batch(*common(place, "out", *told, "--max-cost", 3))
        assert 0.4 * len(server.calls) <= 3, "what was spent counts the next time"
        more = batch(*common(place, "out", *told, "--max-cost", 9))
        assert more.returncode == 0 and set(statuses(place / "out")) == {Status.MEASURED}
        assert 0.4 * len(server.calls) <= 9


@pytest.mark.slow
def test_a_judge_that_comes_is_asked_for_what_lacked_it_and_one_that_goes_takes_nothing(place: Path) -> None:
    make_worlds(place / "worlds", 1)
    words = common(place, "out", "--executor", "here", metrics="M06, M07")
    batch(*words)
    assert statuses(place / "out") == [Status.UNAVAILABLE]
    assert "1 units: 0 to run, 0 without anything to run, 1 finished" in batch(*words, "--dry-run").stdout
    with JudgeServer(counted) as server:
        other = judge_file(place, server, model="another-judge")
        assert "local/room0: run in part: was unavailable: M06\n" in batch(*words, "--judge", other, "--dry-run").stdout
        batch(*words, "--judge", other)
        (m,) = [m for m in read_units(next((place / "out").rglob("units.jsonl"))) if m.metric == "M06"]
        assert m.value is not None and m.flags == ("substitute:vlm_judge",)
        assert "1 finished" in batch(*words, "--judge", other, "--dry-run").stdout

        judge = judge_file(place, server)
        assert "was judged by another model: M06\n" in batch(*words, "--judge", judge, "--dry-run").stdout
        batch(*words, "--judge", judge)
        before = answers(place / "out")
        calls = len(server.calls)
        batch(*common(place, "fresh", "--executor", "here", "--judge", judge, metrics="M06, M07"))
        assert len(server.calls) == calls, "all from the cache"
    assert answers(place / "fresh") == before
    assert "0 done, 0 failed, 1 kept" in batch(*words).stdout
    # A metric that is asked for later leaves the judge's words where they are.
    batch(*common(place, "out", "--executor", "here", metrics="M06, M07, M12"))
    assert answers(place / "out")["units/local/room0/judge.jsonl"] == before["units/local/room0/judge.jsonl"]
    runs = [json.loads((place / out / "units/local/room0/run.json").read_text()) for out in ("fresh", "out")]
    assert runs[0]["judge"] == runs[1]["judge"] and runs[0]["judge"]["model"] == MODEL


# --- what could change a metric ---------------------------------------------------------------------------


@pytest.mark.parametrize(("lacking", "here", "again"), [
    (("sam3", "vlm_judge"), {"vlm_judge"}, True), (("vlm_judge",), {"vlm_judge"}, True),
    (("sam3",), {"vlm_judge"}, False), (("sam3",), {"sam3"}, True), (("sam3", "vlm_judge"), {"clip_l14"}, False),
    ((), {"sam3", "vlm_judge"}, False), (None, {"vlm_judge"}, False), (None, {"sam3", "vlm_judge"}, True)])
def test_an_edits_judgment_is_run_again_when_what_it_lacked_has_come(
        tmp_path: Path, lacking: tuple[str, ...] | None, here: set[str], again: bool) -> None:
    """M31 names the judge and SAM3, of which many edits need the first alone. None: an earlier version's record."""
    got = decided(tmp_path, Status.UNAVAILABLE, (), lacking, here)
    assert got.metrics == (("M31",) if again else ())


@pytest.mark.parametrize(("flags", "here", "again"), [
    (("substitute:vlm_judge",), {"vlm_judge"}, True), (("substitute:vlm_judge",), set(), False),
    (("substitute:sam3",), {"vlm_judge", "sam3"}, False), ((), {"vlm_judge"}, False)])
def test_what_is_measured_is_run_again_for_the_protocols_own_judge_alone(
        tmp_path: Path, flags: tuple[str, ...], here: set[str], again: bool) -> None:
    assert decided(tmp_path, Status.MEASURED, flags, None, here).metrics == (("M31",) if again else ())


def decided(folder: Path, status: Status, flags: tuple[str, ...], lacking: tuple[str, ...] | None,
            here: set[str]) -> Decision:
    prepare()
    (folder / "w.glb").write_bytes(b"a world")
    job = UnitJob("x", "a", {"main": str(folder / "w.glb")}, ("M31",))
    inputs = hash_inputs(job.roles, "", {})
    measured = status is Status.MEASURED
    m = Measurement(metric="M31", version=1, case="a", system="x", status=status, flags=flags,
                    value=1.0 if measured else None, reason="" if measured else "needs a judge")
    (folder / "unit").mkdir()
    write_unit(folder / "unit", unit_content(
        system="x", case="a", status="done", outcome="done", inputs=inputs, inputs_sha256=inputs_digest(inputs, None),
        recipes={"M31": "r"}, normalization="n", files={}, measurements=[m], lacking=lacking))
    wanted = Wanted({"M31": "r"}, "n")
    for name, value in (("here", frozenset(here)), ("came", frozenset({"M31"} if here >= wanted.needed("M31") else ())),
                        ("official", "vlm_judge" in here)):
        object.__setattr__(wanted, name, value)
    return decide(folder / "unit", job, wanted)


# --- the ledger -------------------------------------------------------------------------------------------


def noted(path: Path, *calls: tuple[int, int | None]) -> None:
    """Calls of (tokens estimated, tokens counted) at 0.001 a token; None: the worker dies in it."""
    budget = JournalBudget(Price(model="*", input_per_million=1000.0, output_per_million=0.0), "m", "e", "EUR")
    budget.begin(path, None)
    for estimate, used in calls:
        reserved = budget.reserve(Usage(estimate, 0))
        assert reserved is not None
        if used is not None:
            budget.settle(reserved, Usage(estimate, 0), Usage(used, 5))


def test_a_budget_that_is_noted_is_a_budget(tmp_path: Path) -> None:
    price = Price(model="*", input_per_million=1000.0, output_per_million=100.0)
    plain, own = Budget(2.0, price), JournalBudget(price, "m", "e", "USD")
    own.begin(tmp_path / "deep" / "c.jsonl", 2.0)
    for tokens, used, billed in ((300, Usage(450, 10), False), (300, None, True), (300, None, False),
                                 (300, Usage(), False), (400, Usage(500, 1), False), (400, None, False)):
        got = [b.reserve(Usage(tokens, 20)) for b in (plain, own)]
        assert got[0] == got[1]
        if got[0] is not None:
            for b in (plain, own):
                b.settle(got[0], Usage(tokens, 20), used, billed)
    assert plain.spent == own.spent
    assert read_calls(tmp_path / "deep" / "c.jsonl").spent == pytest.approx(plain.spent, abs=1e-12)  # of six additions


def test_a_call_that_cannot_be_written_down_is_not_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    budget = JournalBudget(None, "m", "e", "EUR")
    budget.begin(tmp_path / "file" / "c.jsonl", None)
    with pytest.raises(BackendUnavailableError, match="cannot be written down"):
        budget.reserve(Usage(1, 1))


def test_a_unit_begun_again_elsewhere_has_what_is_left_of_its_part(tmp_path: Path) -> None:
    noted(tmp_path / "c.jsonl", (300, 200), (300, None))
    said = read_calls(tmp_path / "c.jsonl")
    assert (said.calls, said.input, said.model, said.currency) == (2, 200, "m", "EUR")
    assert said.spent == pytest.approx(0.5)  # 200 tokens that were counted, 300 that were set aside
    budget = JournalBudget(Price(model="*", input_per_million=1000.0, output_per_million=0.0), "m", "e", "EUR")
    budget.begin(tmp_path / "c.jsonl", 0.9)
    assert budget.reserve(Usage(300, 0)) is not None and budget.reserve(Usage(200, 0)) is None


def test_the_cap_is_given_out_once_and_what_is_not_spent_comes_back(tmp_path: Path) -> None:
    spending = Spending(tmp_path, 8.0)
    spending.start()
    lent = [spending.lend(f"x/{k}", 2) for k in range(2)]
    assert [g["max_cost"] for g in lent] == [4.0, 4.0] and spending.lend("x/2", 2)["max_cost"] == 0.0
    noted(Path(lent[0]["calls"]), (1000, 1000))
    spending.settle("x/0", "crash", None)
    spending.settle("x/2", "done", None)
    assert spending.spent == pytest.approx(1.0)
    assert spending.lend("x/0", 2)["max_cost"] == pytest.approx(3.0)  # 8, less 1 spent and 4 still lent
    noted(Path(lent[1]["calls"]), (1000, 500), (1000, None))
    # The coordinator is killed here; the next one counts what was begun, and that once.
    other = Spending(tmp_path, 8.0)
    other.start()
    assert other.spent == pytest.approx(2.5) and other.uses == []
    assert other.lend("x/1", 1)["max_cost"] == pytest.approx(5.5)
    other.close()
    assert not (tmp_path / ".judge-calls").exists()
    third = Spending(tmp_path)
    third.start()
    assert third.spent == pytest.approx(2.5) and "max_cost" not in third.lend("x/1", 1)


def test_a_ledger_that_was_cut_off_is_mended_and_one_that_was_edited_refused(tmp_path: Path) -> None:
    noted(tmp_path / ".judge-calls" / "a.jsonl", (1000, 1000))
    kept = (tmp_path / ".judge-calls" / "a.jsonl").read_bytes()
    Spending(tmp_path).start()
    whole = (tmp_path / "judge_usage.jsonl").read_text()
    for cut in range(1, len(whole), 7):
        (tmp_path / "judge_usage.jsonl").write_text(whole[:-cut])
        (tmp_path / ".judge-calls" / "a.jsonl").write_bytes(kept)  # which goes after the line is written
        spending = Spending(tmp_path)
        spending.start()
        assert spending.spent == pytest.approx(1.0)
    (tmp_path / ".judge-calls" / "a.jsonl").write_bytes(kept)
    spending.start()
    assert spending.spent == pytest.approx(1.0), "a file that is in the ledger is not counted twice"
    for text in ("[]", "{}", '{"spent": -1, "file": "a"}', '{"spent": NaN, "file": "a"}', "[" * 100_000):
        (tmp_path / "judge_usage.jsonl").write_text(text + "\n")
        with pytest.raises(ResultError, match="line 1"):
            Spending(tmp_path).start()


def test_shards_count_for_themselves_and_the_whole_counts_all(tmp_path: Path) -> None:
    for k in (0, 1):
        noted(tmp_path / f".judge-calls-{k}of2" / "c.jsonl", (1000, 1000 + k))
        shard = Spending(tmp_path, 5.0, f"-{k}of2")
        shard.start()
        assert shard.spent == pytest.approx(1.0 + k / 1000)
    whole = Spending(tmp_path, 5.0)
    whole.start()
    assert whole.spent == pytest.approx(2.001)


@pytest.mark.parametrize("said", [{}, {"tally": 3}, {"tally": {"calls": "9", "cost": float("inf"), "asked": -1}},
                                  {"doubts": "no list", "model": 7}])
def test_what_a_worker_says_is_numbers_and_texts_or_nothing(tmp_path: Path, said: dict[str, Any]) -> None:
    spending = Spending(tmp_path)
    spending.start()
    noted(Path(spending.lend("x/a", 1)["calls"]), (10, 10))
    spending.settle("x/a", "done", said)
    (use,) = spending.uses
    assert (use.tally.calls, use.tally.asked, use.tally.cost) == (0, 0, None)
    assert spending.spent == pytest.approx(0.01)
