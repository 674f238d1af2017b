"""The judge against a server that misbehaves: what is repeated, what is not, what is an answer and what is none."""

from __future__ import annotations

import functools
import json
import re
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spatialbench.errors import BackendUnavailableError, ConfigError, UsageError
from spatialbench.scorers.judge import (
    Answer,
    JudgeCache,
    JudgeSession,
    JudgeSettings,
    Picture,
    Question,
    answers_text,
    clip_pictures,
    coverage,
    doubts,
    judge_image,
    load_prompt,
    repeated,
)
from spatialbench.scorers.judge.cost import Price, Prices
from spatialbench.scorers.judge.endpoint import OpenAIBackend
from spatialbench.scorers.judge.pace import Retry
from spatialbench.scorers.judge.prompts import Prompt
from spatialbench.types.judge import JudgeRules
from tests.scorers.judge_server import MODEL, Act, Call, JudgeServer, flat

openai = pytest.importorskip("openai", reason="the extra 'judge' is not installed")

KEY = "sk-test-0123456789abcdef"
QUICK = Retry(attempts=4, first_wait=0.01, longest_wait=0.05, longest_asked=2.0)
PROMPT = load_prompt("view-quality-1")
LONG = 300.0
"""Seconds after which a test that hangs gives up; nothing that works ever waits for it."""


_make_context = functools.lru_cache(ssl.create_default_context)


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    # Nothing here speaks TLS, and each client would read all certificates again, 0.1 s.
    monkeypatch.setattr(ssl, "create_default_context", _make_context)
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("SPATIALBENCH_JUDGE_KEY", KEY)


@pytest.fixture
def session_of() -> Iterator[Callable[..., JudgeSession]]:
    opened: list[JudgeSession] = []

    def make(server: JudgeServer, *, settings: dict[str, Any] | None = None, rules: JudgeRules | None = None,
             **options: Any) -> JudgeSession:
        s = JudgeSettings(base_url=server.url, **(settings or {}))
        rules = rules or JudgeRules()
        out = JudgeSession(OpenAIBackend(s, s.model or rules.model), rules, **{"retry": QUICK, **options})
        opened.append(out)
        return out

    yield make
    for s in opened:
        s.close()


def view(value: int, id: str | None = None, **more: Any) -> Question:
    return Question(id or f"v{value:03d}", PROMPT, (Picture(judge_image(flat(value))),), **more)


def one(session: JudgeSession, value: int = 200) -> Answer:
    (answer,) = session.ask([view(value)])
    return answer


def script(*acts: Act | None) -> Callable[[Call], Act | None]:
    """The first calls in turn; honest afterwards."""
    return lambda call: acts[call.number - 1] if call.number <= len(acts) else None


def test_what_is_sent_and_recorded(session_of: Callable[..., JudgeSession]) -> None:
    with JudgeServer() as server:
        answer = one(session_of(server))
    (call,) = server.calls
    assert call.path == "/v1/chat/completions"
    assert call.headers["authorization"] == f"Bearer {KEY}"
    assert call.headers["accept-encoding"] == "identity"
    assert (call.body["model"], call.body["temperature"], call.body["seed"], call.body["max_tokens"]) == (
        MODEL, 0.0, 0, 300)
    form = call.body["response_format"]
    assert form["type"] == "json_schema"
    assert form["json_schema"]["strict"] is True
    schema = form["json_schema"]["schema"]
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["code", "reason", "artifact_free", "sharp", "plausible_layout"]
    assert [m["role"] for m in call.body["messages"]] == ["system", "user"]
    assert (call.images[0] == flat(200)).all()
    assert "v200" not in json.dumps(call.body)  # the item's id is no business of the judge
    assert answer.values == {"reason": "seen", "artifact_free": True, "sharp": True, "plausible_layout": True}
    r = answer.record
    assert (r["model"], r["returned_model"], r["fingerprint"], r["prompt"]) == (MODEL, MODEL, "fp_1", "view-quality-1")
    assert r["usage"] == {"input": 700, "output": 20}
    assert json.loads(r["raw"])["sharp"] is True
    for name in ("key", "prompt_sha256", "schema_sha256"):
        assert re.fullmatch("[0-9a-f]{64}", r[name])
    assert r["images"] == [judge_image(flat(200)).sha256]
    assert answer.timing["attempts"] == 1
    assert not answer.timing["cached"]


def test_each_answer_belongs_to_its_picture_under_concurrency(session_of: Callable[..., JudgeSession]) -> None:
    values = [(k * 37) % 256 for k in range(60)]
    together = threading.Event()

    def hold(call: Call) -> None:  # the first until there is a second
        if call.number > 1:
            together.set()
        assert together.wait(LONG)

    with JudgeServer(hold) as server:
        answers = session_of(server, settings={"max_connections": 5}).ask(
            [view(v, f"q{k:02d}") for k, v in enumerate(values)])
    assert [a.id for a in answers] == [f"q{k:02d}" for k in range(60)]
    assert [a.values["sharp"] for a in answers] == [v >= 128 for v in values]
    assert 2 <= server.peak <= 5


def test_429_is_repeated_after_the_time_it_asks_for_and_shrinks_the_connections(
        session_of: Callable[..., JudgeSession]) -> None:
    with JudgeServer(script(Act(status=429, headers={"Retry-After": "0.3"}))) as server:
        session = session_of(server, settings={"max_connections": 8})
        answer = one(session)
    assert answer.status == "answered"
    assert answer.timing["attempts"] == 2
    assert server.calls[1].start - server.calls[0].start >= 0.3
    assert session._caller.limiter.limit == 4
    assert session.tally.calls == 2


def test_too_long_a_wait_is_not_waited_for(session_of: Callable[..., JudgeSession]) -> None:
    with JudgeServer(lambda c: Act(status=429, headers={"Retry-After": "3600"})) as server:
        answer = one(session_of(server))
    assert answer.status == "judge_error"
    assert "asks to wait 3600 s" in answer.reason
    assert len(server.calls) == 1


@pytest.mark.parametrize("bad", [
    Act(status=500), Act(status=503), Act(status=502), Act(status=408), Act(truncate=True), Act(drop=True),
    Act(body=b"<html>gateway</html>"), Act(body={"choices": []}), Act(body=b"[" * 3000)])
def test_passing_failures_are_repeated_by_one_layer_only(session_of: Callable[..., JudgeSession], bad: Act) -> None:
    with JudgeServer(script(bad, bad)) as server:
        session = session_of(server)
        answer = one(session)
    assert answer.status == "answered"
    assert len(server.calls) == answer.timing["attempts"] == 3
    assert session._caller.limiter.limit == 8  # only a 429 shrinks it


def test_retries_are_bounded_and_the_error_is_no_answer(session_of: Callable[..., JudgeSession]) -> None:
    with JudgeServer(lambda c: Act(status=503)) as server:
        answer = one(session_of(server))
    assert len(server.calls) == QUICK.attempts
    assert answer.status == "judge_error"
    assert answer.values == {}
    assert answer.reason == "HTTP 503: told to say 503, after 4 tries"


def test_a_hanging_server_is_given_up(session_of: Callable[..., JudgeSession]) -> None:
    over = threading.Event()

    def hang(call: Call) -> None:
        over.wait(LONG)

    with JudgeServer(hang) as server:
        answer = one(session_of(server, settings={"timeout_s": 0.2}, retry=Retry(2, 0.01, 0.01)))
        over.set()
    assert answer.status == "judge_error"
    assert "no answer within 0.2 s" in answer.reason
    assert answer.timing["attempts"] == 2


def test_an_endless_answer_is_cut_off(session_of: Callable[..., JudgeSession]) -> None:
    with JudgeServer(lambda c: Act(body=b"x" * (9 << 20))) as server:
        answer = one(session_of(server))
    assert answer.reason == "the answer has more than 8 MiB"


@pytest.mark.parametrize(("status", "says"), [(401, "the key is refused"), (402, "no credit"), (403, "may not use"),
                                              (404, "no such address or model")])
def test_what_would_fail_every_question_stops_at_once(
        session_of: Callable[..., JudgeSession], status: int, says: str) -> None:
    with JudgeServer(lambda c: Act(status=status)) as server:
        session = session_of(server, settings={"max_connections": 1})
        with pytest.raises(BackendUnavailableError, match=says):
            session.ask([view(v) for v in range(20)])
    assert len(server.calls) == 1


def test_an_empty_account_is_no_rate_limit(session_of: Callable[..., JudgeSession]) -> None:
    body = {"error": {"message": "quota", "code": "insufficient_quota"}}
    with (JudgeServer(lambda c: Act(status=429, body=body)) as server,
          pytest.raises(BackendUnavailableError, match="no credit")):
        one(session_of(server))
    assert len(server.calls) == 1


def test_a_refused_question_is_not_repeated_and_others_go_on(session_of: Callable[..., JudgeSession]) -> None:
    with JudgeServer(lambda c: Act(status=400) if c.images[0].mean() == 7 else None) as server:
        answers = session_of(server).ask([view(7), view(8)])
    assert [a.status for a in answers] == ["judge_error", "answered"]
    assert len(server.calls) == 2


def test_a_dead_endpoint_is_given_up_after_five_questions(session_of: Callable[..., JudgeSession]) -> None:
    with JudgeServer() as server:
        pass
    session = session_of(server, settings={"max_connections": 1}, retry=Retry(2, 0.001, 0.001))
    with pytest.raises(BackendUnavailableError, match=r"5 questions in a row had no answer.*no connection"):
        session.ask([view(v) for v in range(200)])
    assert session.tally.asked == 5


def wrap(make: Callable[[str], str]) -> Callable[[Call], Act]:
    return lambda call: Act(text=make(json.dumps(call.honest())))


@pytest.mark.parametrize("make", [
    lambda t: t, lambda t: f"\n {t}\n", lambda t: f"```json\n{t}\n```", lambda t: f"```\n{t}```",
    lambda t: f"<think>Is it {{sharp}}?</think>\n{t}", lambda t: f"<think>\n\n</think>\n\n```json\n{t}\n```"])
def test_fences_and_thoughts_are_taken_off(
        session_of: Callable[..., JudgeSession], make: Callable[[str], str]) -> None:
    with JudgeServer(wrap(make)) as server:
        assert one(session_of(server)).values["sharp"] is True
    assert len(server.calls) == 1


def changed(**values: Any) -> Callable[[Call], str]:
    return lambda call: json.dumps({**call.honest(), **values})


@pytest.mark.parametrize(("say", "problem"), [
    (lambda c: "Yes, it is sharp: " + json.dumps(c.honest()), "not JSON"),
    (lambda c: "yes", "not JSON"), (lambda c: "", "empty"), (lambda c: "  \n", "empty"),
    (lambda c: "true", "a JSON bool"), (lambda c: "[]", "a JSON list"), (lambda c: "[" * 100_000, "not JSON"),
    (lambda c: "<think>so", "without an end"), (lambda c: "x" * 300_000, "300,000 characters"),
    (lambda c: json.dumps(c.honest())[:-9], "not JSON"),
    (lambda c: json.dumps(c.honest())[:-1] + ', "sharp": false}', "not JSON"),
    (changed(sharp="true"), "'sharp'"), (changed(sharp=1), "'sharp'"), (changed(sharp=None), "'sharp'"),
    (changed(more=True), "'more'"), (lambda c: json.dumps({"code": c.code, "sharp": True}), "Field required"),
    (changed(code="abcdef"), "the code of another question"), (changed(code="ABCDEF"), "of another question")])
def test_anything_else_is_asked_again_once_and_then_no_answer(
        session_of: Callable[..., JudgeSession], tmp_path: Path, say: Callable[[Call], str], problem: str) -> None:
    cache = JudgeCache(tmp_path / "c.sqlite")
    with JudgeServer(lambda c: Act(text=say(c))) as server:
        answer = one(session_of(server, cache=cache))
        assert len(server.calls) == 2
        assert answer.status == "judge_error"
        assert problem in answer.reason
        assert answer.record["rejected"]["raw"] == say(server.calls[0])  # raw answers are kept
        assert cache.groups() == []  # and not as answers
    roles = [m["role"] for m in server.calls[1].body["messages"]]
    assert roles == ["system", "user", "assistant", "user"]


def test_the_second_answer_counts_and_the_first_is_recorded(
        session_of: Callable[..., JudgeSession], tmp_path: Path) -> None:
    with JudgeServer(script(Act(text="It is sharp."))) as server:
        session = session_of(server, cache=JudgeCache(tmp_path / "c.sqlite"))
        first = one(session)
        assert first.status == "answered"
        assert first.record["rejected"] == {"raw": "It is sharp.", "problem": "the answer is not JSON"}
        assert first.record["usage"] == {"input": 1400, "output": 40}
        assert one(session) == first
    assert len(server.calls) == 2


def test_an_answer_cut_off_says_so(session_of: Callable[..., JudgeSession]) -> None:
    with JudgeServer(lambda c: Act(text=json.dumps(c.honest())[:-5], finish="length")) as server:
        assert one(session_of(server)).reason == "the answer is not JSON (cut off at max_tokens)"


def test_a_refusal_is_not_asked_again(session_of: Callable[..., JudgeSession]) -> None:
    with JudgeServer(lambda c: Act(finish="content_filter")) as server:
        assert one(session_of(server)).reason == "the judge refused to answer"
    assert len(server.calls) == 1


def test_another_models_answer_is_none(session_of: Callable[..., JudgeSession]) -> None:
    with JudgeServer(script(Act(model="gpt-oss-120b"))) as server:
        first, second = session_of(server, settings={"max_connections": 1}).ask([view(1), view(2)])
    assert first.status == "judge_error"
    assert "another model answered: gpt-oss-120b" in first.reason
    assert second.status == "answered"
    with JudgeServer(lambda c: Act(model="gpt-oss-120b")) as server:
        with pytest.raises(BackendUnavailableError, match="another model answered"):
            session_of(server, settings={"max_connections": 1}).ask([view(v) for v in range(50)])
        assert len(server.calls) == 5
        allowed = session_of(server, settings={"accept_models": ("gpt-oss-120b",)})
        assert one(allowed).record["returned_model"] == "gpt-oss-120b"


@pytest.mark.parametrize("name", ["qwen3-vl-8b-instruct", "Qwen3-VL-8B-Instruct-20251015", ""])
def test_other_spellings_of_the_model_are_accepted_and_recorded(
        session_of: Callable[..., JudgeSession], name: str) -> None:
    with JudgeServer(lambda c: Act(model=name)) as server:
        assert one(session_of(server)).record["returned_model"] == name


def test_an_answer_for_another_picture_is_told_by_its_code(session_of: Callable[..., JudgeSession]) -> None:
    """A server that mixes up two conversations gives each the other's whole answer."""
    kept: dict[int, dict[str, Any]] = {}
    gate = threading.Barrier(2)

    def swap(call: Call) -> Act | None:
        if call.number > 2:
            return None
        kept[call.number] = call.honest()
        gate.wait(LONG)
        return Act(text=json.dumps(kept[3 - call.number]))

    with JudgeServer(swap) as server:
        dark, bright = session_of(server).ask([view(10), view(240)])
    assert (dark.values["sharp"], bright.values["sharp"]) == (False, True)
    assert all("another question" in a.record["rejected"]["problem"] for a in (dark, bright))


def test_a_judge_that_always_says_yes_is_doubted(session_of: Callable[..., JudgeSession]) -> None:
    with JudgeServer(lambda c: Act(text=json.dumps(c.honest(True)))) as server:
        answers = session_of(server).ask([view(v) for v in range(25)])
    assert doubts(answers) == ["all 25 answers to view-quality-1 are true throughout: the judge may not look at the "
                               "pictures"]
    assert doubts(answers[:19]) == []
    with JudgeServer() as server:
        assert doubts(session_of(server).ask([view(v) for v in range(100, 150)])) == []


def test_changing_servers_and_floating_names_are_doubted(session_of: Callable[..., JudgeSession]) -> None:
    with JudgeServer(lambda c: Act(model=f"gemini-latest-00{c.number}")) as server:
        answers = session_of(server, settings={"model": "gemini-latest", "max_connections": 1}).ask([view(1), view(2)])
    assert doubts(answers) == [
        "answers come from 2 values of returned_model: gemini-latest-001, gemini-latest-002",
        "'gemini-latest' is a name that may mean another model tomorrow: ask for a dated one"]


def test_text_pictures_and_frames_go_in_order(session_of: Callable[..., JudgeSession]) -> None:
    prompt = Prompt.model_validate({
        "id": "clip", "version": 1, "source": "test", "system": "s", "text": "About $scene:$items",
        "pictures": {"least": 0, "most": 16}, "fields": {"scene": 100},
        "schema": {"rating": {"type": "integer", "minimum": 1, "maximum": 5, "description": "how well"}},
        "items": {"type": "string", "enum": ["yes", "no", "na"], "description": "holds"}})
    items = {"door.opens": "The door opens", "lamp": 'The "lamp" stays'}
    frames = clip_pictures([flat(v) for v in (200, 100, 50)], [0.0, 0.125, 0.25])
    with JudgeServer() as server:
        text_only, clip = session_of(server).ask([
            Question("a", prompt, (), {"scene": "a hall"}, items),
            Question("b", prompt, frames, {"scene": "a hall"}, items)])
    assert text_only.values == {"rating": 1}
    assert text_only.items == {"door.opens": "na", "lamp": "na"}
    assert clip.values == {"rating": 2}
    assert clip.items == {"door.opens": "yes", "lamp": "yes"}
    call = next(c for c in server.calls if c.images)
    content = call.body["messages"][1]["content"]
    assert [p["type"] for p in content] == ["text", "image_url"] * 3 + ["text"]
    assert [p["text"] for p in content if p["type"] == "text"][:3] == [
        "Picture 1: frame 1 of 3, 0.000 s", "Picture 2: frame 2 of 3, 0.125 s", "Picture 3: frame 3 of 3, 0.250 s"]
    assert 'About "a hall":\ni1: "The door opens"\ni2: "The \\"lamp\\" stays"' in content[-1]["text"]
    assert "door.opens" not in json.dumps(call.body)


def test_parameters_that_an_endpoint_lacks_can_be_left_out(session_of: Callable[..., JudgeSession]) -> None:
    say = {"reason": "r", "artifact_free": True, "sharp": True, "plausible_layout": False}
    with JudgeServer(lambda c: Act(text=json.dumps({"code": c.code, **say}))) as server:
        answer = one(session_of(server, settings={
            "structured": "none", "send_seed": False, "send_temperature": False, "token_limit": "max_completion_tokens",
            "extra_body": {"chat_template_kwargs": {"enable_thinking": False}}}))
    body = server.calls[0].body
    assert {"seed", "temperature", "response_format", "max_tokens"}.isdisjoint(body)
    assert body["max_completion_tokens"] == 300
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert "plausible_layout (boolean:" in server.calls[0].texts[-1]  # the form is in words, too
    assert answer.values == say


def test_repeats_are_asked_apart_and_with_their_own_seed(
        session_of: Callable[..., JudgeSession], tmp_path: Path) -> None:
    with JudgeServer() as server:
        session = session_of(server, cache=JudgeCache(tmp_path / "c.sqlite"), settings={"max_connections": 1})
        answers = session.ask(repeated([view(9), view(8)], 3))
        assert len(server.calls) == 6
        assert [c.body["seed"] for c in server.calls] == [0, 1, 2, 0, 1, 2]
        assert len({a.record["key"] for a in answers}) == 6
        session.ask(repeated([view(9)], 3))
        assert len(server.calls) == 6


def test_equal_questions_are_asked_once(session_of: Callable[..., JudgeSession]) -> None:
    with JudgeServer() as server:
        a, b = session_of(server).ask([view(200, "a"), view(200, "b")])
    assert len(server.calls) == 1
    assert (a.id, b.id) == ("a", "b")
    assert a.values == b.values


@pytest.mark.parametrize("change", [
    {"rules": JudgeRules(seed=1)}, {"rules": JudgeRules(temperature=0.5)}, {"settings": {"model": "qwen3-vl-32b"}},
    {"settings": {"cache_as": "elsewhere"}}, {"settings": {"extra_body": {"top_k": 1}}},
    {"settings": {"structured": "json_object"}}])
def test_whatever_bears_on_an_answer_is_in_the_key(
        session_of: Callable[..., JudgeSession], change: dict[str, Any]) -> None:
    with JudgeServer() as server:
        base, same, other = session_of(server), session_of(server), session_of(server, **change)
        q = view(5)
        assert base.key(q) == same.key(view(5, "another id"))
        assert base.key(q) != other.key(q)
        assert base.key(q) != base.key(view(6))
        assert base.key(q) != base.key(view(5, repeat=1))


def test_replay_from_the_cache_is_byte_equal_and_asks_nobody(
        session_of: Callable[..., JudgeSession], tmp_path: Path) -> None:
    questions = [view(v) for v in range(100, 160)]
    noisy = {103: Act(status=503), 107: Act(text="hm"), 120: Act(text="```json\n{}\n```")}
    with JudgeServer(lambda c: noisy.pop(int(c.images[0].mean()), None)) as server:
        first = session_of(server, cache=JudgeCache(tmp_path / "c.sqlite"))
        asked = first.ask(questions)
        n = len(server.calls)
        again = session_of(server, cache=JudgeCache(tmp_path / "c.sqlite"))
        replayed = again.ask(list(reversed(questions)))
        assert len(server.calls) == n
    assert coverage(asked).answered == 60
    assert answers_text(asked) == answers_text(replayed)
    assert [json.loads(line)["id"] for line in answers_text(replayed).splitlines()] == sorted(q.id for q in questions)
    assert (again.tally.cached, again.tally.calls, again.tally.saved_input) == (60, 0, first.tally.input)
    assert all(a.timing["cached"] for a in replayed)


def test_a_failed_run_continues_where_it_stopped(session_of: Callable[..., JudgeSession], tmp_path: Path) -> None:
    questions = [view(v) for v in range(30)]
    with JudgeServer(lambda c: Act(status=401) if c.number == 11 else None) as server:
        cache = JudgeCache(tmp_path / "c.sqlite")
        with pytest.raises(BackendUnavailableError, match="answers that came are kept"):
            session_of(server, cache=cache, settings={"max_connections": 1}).ask(questions)
        assert sum(g.answers for g in cache.groups()) == 10
        answers = session_of(server, cache=cache).ask(questions)
    assert len(server.calls) == 11 + 20
    assert coverage(answers).answered == 30


def test_refresh_asks_anew_and_keeps(session_of: Callable[..., JudgeSession], tmp_path: Path) -> None:
    with JudgeServer(script(None, Act(text="{}"), Act(text="{}"))) as server:
        one(session_of(server, cache=JudgeCache(tmp_path / "c.sqlite")))
        refreshed = one(session_of(server, cache=JudgeCache(tmp_path / "c.sqlite"), refresh=True))
        assert refreshed.status == "judge_error"
        # A failure does not push out the answer that was there.
        assert one(session_of(server, cache=JudgeCache(tmp_path / "c.sqlite"))).timing["cached"]
    assert len(server.calls) == 3


def test_limit_and_dry_run(session_of: Callable[..., JudgeSession], tmp_path: Path) -> None:
    prices = Prices(prices=(Price(model="*", input_per_million=1.0, output_per_million=10.0),))
    with JudgeServer() as server:
        session = session_of(server, limit=3, cache=JudgeCache(tmp_path / "c.sqlite"))
        answers = session.ask([view(v) for v in range(10)])
        assert len(server.calls) == 3
        assert [a.status for a in answers] == ["answered"] * 3 + ["not_asked"] * 7
        assert session.ask([view(99)])[0].reason == "the limit on calls was reached"
        assert coverage(answers).lacking(0.9) == ("the judge answered 3 of 10 questions, at least 90% are needed: the "
                                                  "limit on calls was reached")
        dry = session_of(server, dry_run=True, prices=prices, cache=JudgeCache(tmp_path / "c.sqlite"))
        planned = dry.ask([view(v) for v in range(10)])
        assert len(server.calls) == 3
    assert [a.status for a in planned] == ["answered"] * 3 + ["not_asked"] * 7
    t = dry.tally
    assert (t.cached, t.calls, t.images, t.output) == (3, 7, 7, 7 * 300)
    assert t.cost == pytest.approx((t.input + 10 * t.output) / 1e6)
    assert t.saved == pytest.approx(3 * (700 + 10 * 20) / 1e6)


@pytest.mark.parametrize("connections", [1, 6])
def test_the_cap_on_cost_is_never_passed(session_of: Callable[..., JudgeSession], connections: int) -> None:
    """Tokens of input cost 1 each and of output 0; each call counts 5000, far above what was estimated."""
    prices = Prices(prices=(Price(model="*", input_per_million=1e6, output_per_million=0.0),))
    usage = {"prompt_tokens": 5000, "completion_tokens": 20}
    with JudgeServer(lambda c: Act(usage=usage), seconds=0.02) as server:
        session = session_of(server, prices=prices, max_cost=42_000.0, settings={"max_connections": connections})
        session.ask([view(200)])
        answers = session.ask([view(v) for v in range(40)])
    # Once the first count is known, the eighth call is the last that surely fits: 8 x 5000 <= 42000 < 9 x 5000.
    assert len(server.calls) == 8
    assert session.tally.cost == pytest.approx(40_000.0)
    assert coverage(answers).not_asked == 33
    assert "cap on cost" in coverage(answers).reasons[0]


def test_a_cap_needs_a_price(session_of: Callable[..., JudgeSession]) -> None:
    with JudgeServer() as server, pytest.raises(UsageError, match="is not known: no cap can be kept"):
        session_of(server, max_cost=1.0)


def test_questions_with_one_name_are_refused(session_of: Callable[..., JudgeSession]) -> None:
    with JudgeServer() as server, pytest.raises(UsageError, match="two questions have the id 'x'"):
        session_of(server).ask([view(1, "x"), view(2, "x")])


def test_the_key_is_never_written(session_of: Callable[..., JudgeSession], tmp_path: Path,
                                  caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    """The server sends the key back in whatever it can: an answer, a model's name, errors."""
    caplog.set_level("DEBUG")

    def echo(call: Call) -> Act:
        key = call.headers["authorization"].removeprefix("Bearer ")
        if call.images[0].mean() == 1:
            return Act(text=json.dumps({**call.honest(), "reason": f"your key is {key}"}))
        if call.images[0].mean() == 2:
            return Act(text=f"prose with {key}")
        if call.images[0].mean() == 3:
            escaped = "".join(f"\\u{ord(c):04x}" for c in key)
            return Act(body=b'{"model": "%s", "choices": [{"message": {"content": "%s"}}]}' % (
                escaped.encode(), escaped.encode()))
        return Act(status=400, body={"error": {"message": f"bad key {key}"}})

    with JudgeServer(echo) as server:
        session = session_of(server, cache=JudgeCache(tmp_path / "c.sqlite"), settings={"max_connections": 1})
        answers = session.ask([view(v) for v in (1, 2, 3, 4)])
        (tmp_path / "answers.jsonl").write_text(answers_text(answers))
        session.close()
    assert len(server.calls) >= 4
    assert answers[0].values["reason"] == "your key is [key]"
    assert "[key]" in answers[3].reason
    for path in tmp_path.iterdir():
        assert KEY.encode() not in path.read_bytes(), path
    captured = capfd.readouterr()
    assert KEY not in caplog.text + captured.out + captured.err + repr(session.backend.options) + repr(answers)


def test_a_key_in_the_configuration_is_refused() -> None:
    with pytest.raises(ConfigError, match="also written in the judge's configuration"):
        OpenAIBackend(JudgeSettings(base_url="http://h/v1", extra_body={"api_key": KEY}), MODEL)


def test_keys_of_other_services_stay_home(session_of: Callable[..., JudgeSession], monkeypatch: pytest.MonkeyPatch,
                                          ) -> None:
    monkeypatch.delenv("SPATIALBENCH_JUDGE_KEY")
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(name, "someone-elses-secret")
    with JudgeServer() as server:
        assert one(session_of(server)).status == "answered"
    assert "someone-elses-secret" not in json.dumps(server.calls[0].headers)
