"""The judge against servers that break HTTP, JSON or good manners: each ends in a stated reason, within its bounds."""

from __future__ import annotations

import functools
import gzip
import json
import re
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from spatialbench.errors import BackendUnavailableError
from spatialbench.scorers.judge import (
    Answer,
    JudgeCache,
    JudgeSession,
    JudgeSettings,
    Picture,
    Question,
    answers_text,
    judge_image,
    load_prompt,
)
from spatialbench.scorers.judge.contract import BackendFault, Reply
from spatialbench.scorers.judge.endpoint import OpenAIBackend, _retry_after
from spatialbench.scorers.judge.messages import build_request, read_reply
from spatialbench.scorers.judge.pace import Retry
from spatialbench.types.judge import JudgeRules
from tests.scorers.judge_server import flat
from tests.scorers.rogue_server import LONG, Rogue, completion, honest, response

openai = pytest.importorskip("openai", reason="the extra 'judge' is not installed")

PROMPT = load_prompt("view-quality-1")
KEY = "sk/rogue-0123456789+abcdef"
_make_context = functools.lru_cache(ssl.create_default_context)


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssl, "create_default_context", _make_context)  # nothing here speaks TLS: 0.1 s a client
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("SPATIALBENCH_JUDGE_KEY", KEY)


@pytest.fixture
def ask() -> Iterator[Callable[..., Answer]]:
    """Ask one question, once; ``again``: in the session of the one before."""
    opened: list[JudgeSession] = []

    def go(server: Rogue, value: int = 200, *, cache: JudgeCache | None = None, again: bool = False,
           **settings: Any) -> Answer:
        if not again or not opened:
            made = JudgeSettings(base_url=server.url, **settings)
            backend = OpenAIBackend(made, JudgeRules().model)
            opened.append(JudgeSession(backend, JudgeRules(), retry=Retry(1), cache=cache))
        (answer,) = opened[-1].ask([view(value)])
        return answer

    yield go
    for session in opened:
        session.close()


def view(value: int = 200) -> Question:
    return Question(f"v{value}", PROMPT, (Picture(judge_image(flat(value))),))


Send = Callable[[dict[str, Any]], bytes]


def fixed(data: bytes) -> Send:
    return lambda body: data


def replies(make: Send) -> Callable[[Rogue, Any, dict[str, Any]], None]:
    return lambda server, connection, body: server.send(connection, make(body))


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(("send", "says"), [
    pytest.param(fixed(b""), "broke off", id="closes at once"),
    pytest.param(fixed(b"\x00\xff\x16\x03 what?\r\n\r\n"), "broke off", id="no HTTP"),
    pytest.param(fixed(b"SSH-2.0-OpenSSH_9.9\r\n"), "broke off", id="another protocol"),
    pytest.param(fixed(b"HTTP/1.1 200 OK\r\nContent-Le"), "broke off", id="half a head"),
    pytest.param(fixed(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"), "broke off", id="half a body"),
    pytest.param(fixed(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}"), "broke off", id="negative length"),
    pytest.param(fixed(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}"), "broke off",
                 id="two lengths"),
    pytest.param(fixed(CHUNKED + b"zz\r\n{}\r\n"), "broke off", id="no size of a chunk"),
    pytest.param(fixed(CHUNKED + b"5\r\n{}"), "broke off", id="half a chunk"),
    pytest.param(fixed(b"HTTP/1.1 200 OK\r\n" + b"X-A: " + b"a" * 300_000 + b"\r\n\r\n"), "broke off",
                 id="an endless header"),
    pytest.param(fixed(b"HTTP/1.1 100 Continue\r\n\r\n"), "broke off", id="only continue"),
    pytest.param(fixed(b"HTTP/1.1 200 OK\r\nX A: 1\r\n\r\n{}"), "broke off", id="a broken header"),
    pytest.param(fixed(response(b"", "204 No Content")), "no chat completion|broke off", id="no content"),
    pytest.param(fixed(response(b"<html>", "200 OK", "Content-Type: text/html")), "no chat completion", id="a page"),
    pytest.param(lambda b: response(b"data: " + completion(b) + b"\n\ndata: [DONE]\n\n", "200 OK",
                                    "Content-Type: text/event-stream"), "no chat completion", id="a stream of events"),
    pytest.param(fixed(response(b"\xff\xfe\xff")), "no chat completion", id="no UTF-8"),
    pytest.param(fixed(response(b"[" * 100_000)), "no chat completion", id="deep"),
    pytest.param(fixed(response(b'{"a":' * 50_000)), "no chat completion", id="deep maps"),
    pytest.param(fixed(response(b'{"choices": ' + b"9" * 5000 + b"}")), "no chat completion", id="a huge number"),
    pytest.param(fixed(response(b"null")), "no chat completion", id="null"),
    pytest.param(fixed(response(b"NaN")), "no chat completion", id="NaN"),
    pytest.param(lambda b: response(completion(b, choices=[])), "no chat completion", id="no choice"),
    pytest.param(lambda b: response(completion(b, choices={"0": 1})), "no chat completion", id="choices are a map"),
    pytest.param(lambda b: response(completion(b, choices=[{"message": None}])), "no chat completion",
                 id="no message"),
    pytest.param(lambda b: response(completion(b, 3)), "no chat completion", id="a number for a text"),
    pytest.param(lambda b: response(completion(b, [{"text": 3}])), "no chat completion", id="parts are no texts"),
    pytest.param(lambda b: response(completion(b, usage=[1])), "no chat completion", id="usage is a list"),
    pytest.param(fixed(response(b'{"error": {"message": "upstream\x1b[2J is down", "code": 502}}')),
                 "^the response is no chat completion$", id="control characters in JSON"),
    pytest.param(fixed(response(b'{"error": {"message": "upstream\\u001b[2J is down", "code": 502}}')),
                 "^the response is an error: upstream\ufffd.2J is down$", id="an error with status 200"),
    pytest.param(fixed(response(b"x", "200 OK", "Content-Encoding: br")), "coded as 'br'", id="an unknown coding"),
    pytest.param(fixed(response(b"no gzip at all", "200 OK", "Content-Encoding: gzip")), "broke off", id="no gzip"),
    pytest.param(fixed(response(gzip.compress(gzip.compress(b"0" * 99)), "200 OK", "Content-Encoding: gzip, gzip")),
                 "coded as 'gzip, gzip'", id="gzip in gzip"),
    pytest.param(fixed(response(gzip.compress(bytes(64 << 20), 1), "200 OK", "Content-Encoding: gzip")),
                 "more than 8 MiB", id="a bomb"),
    pytest.param(fixed(response(b"{}", "999 Odd")), "HTTP 999", id="an odd status"),
    pytest.param(fixed(response(b'{"error": "it is \\ud800 full"}', "500 No")), "^HTTP 500: it is . full$",
                 id="an error that is a text"),
    pytest.param(fixed(response(b'{"detail": [{"msg": "x"}], "message": 3}', "422 No")), "^HTTP 422$",
                 id="an error of another form"),
])
def test_no_answer_and_why(ask: Callable[..., Answer], send: Send, says: str) -> None:
    with Rogue(replies(send)) as server:
        answer = ask(server)
        assert answer.status == "judge_error"
        assert re.search(says, answer.reason), answer.reason
        assert answer.values == {}
        assert len(server.requests) == 1
        assert "\x1b" not in answer.reason


@pytest.mark.parametrize(("say", "says"), [
    (lambda b: honest(b)[:-1] + ', "sharp": false}', "not JSON"),
    (lambda b: honest(b).replace("true", "NaN"), "not JSON"),
    (lambda b: honest(b).replace("true", "Infinity", 1), "not JSON"),
    (lambda b: honest(b, sharp=1e999), "not JSON"),
    (lambda b: honest(b)[:-1] + ', "\\ud800": 1}', "unicode"),
    (lambda b: honest(b)[:-1] + ', "a\\u001b[31m": 1}', "key 'a\ufffd.31m'"),
    (lambda b: honest(b, reason="\ud83d"), "half of a surrogate pair"),
    (lambda b: honest(b).replace('"r"', "[" * 5000 + "]" * 5000), "not JSON|key 'reason'"),
    (lambda b: honest(b).replace('"r"', "9" * 5000), "not JSON"),
    (lambda b: "\ufeff" + honest(b), "not JSON"),
    (lambda b: "```json\n" + " " * 200_000 + "x", "not JSON"),
    (lambda b: "```" * 80_000, "not JSON"),
    (lambda b: "<think>" * 30_000, "without an end"),
    (lambda b: "```json\n" + honest(b) + "\n```\n```json\n" + honest(b) + "\n```", "not JSON"),
    (lambda b: "{" + ",".join(f'"k{i}": 0' for i in range(15_000)) + "}", "Field required|k0"),
    (lambda b: honest(b, sharp={"true": True}), "key 'sharp'"),
])
def test_texts_that_are_no_answers(ask: Callable[..., Answer], tmp_path: Path, say: Callable[[Any], str],
                                   says: str) -> None:
    with Rogue(replies(lambda body: response(completion(body, say(body))))) as server:
        answer = ask(server, cache=JudgeCache(tmp_path / "c.sqlite"))
    assert answer.status == "judge_error"
    assert re.search(says, answer.reason), answer.reason
    assert len(server.requests) == 2  # asked again, once
    answers_text([answer]).encode()  # and can be written


@pytest.mark.parametrize("make", [
    lambda b: response(completion(b), "200 OK", "Content-Type: text/html"),
    lambda b: response(completion(b), "201 Fine", "X-Odd: \xe9"),
    lambda b: response(gzip.compress(completion(b)), "200 OK", "Content-Encoding: GZIP"),
    lambda b: response(zlib.compress(completion(b)), "200 OK", "Content-Encoding: deflate"),
    lambda b: response(completion(b).decode().encode("utf-16")),
    lambda b: response(completion(b, [{"type": "text", "text": honest(b)[:9]}, {"text": honest(b)[9:]}])),
    lambda b: response(completion(b, usage=None)), lambda b: response(completion(b, usage={"prompt_tokens": -1})),
    lambda b: response(completion(b, usage={"prompt_tokens": 1e300, "completion_tokens": True})),
    lambda b: response(completion(b)[:-1] + b', "usage": {"prompt_tokens": NaN}}'),
    lambda b: response(completion(b, system_fingerprint=["\ud800"])), lambda b: response(completion(b, model=None)),
    lambda b: b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" * 50 + response(completion(b)),
    lambda b: CHUNKED + b"".join(b"1;x=y\r\n%c\r\n" % c for c in completion(b)) + b"0\r\n\r\n",
    lambda b: b"HTTP/1.0 200 OK\r\n\r\n" + completion(b)])
def test_what_is_odd_but_an_answer(ask: Callable[..., Answer], make: Send) -> None:
    with Rogue(replies(make)) as server:
        answer = ask(server)
    assert answer.status == "answered", answer.reason
    assert answer.record["usage"]["output"] in (0, 2)
    answers_text([answer]).encode()


def _dribble(data: bytes) -> Callable[[Rogue, Any, dict[str, Any]], None]:
    def act(server: Rogue, connection: Any, body: dict[str, Any]) -> None:
        server.send(connection, data)
        while server.pause(0.02):
            server.send(connection, b"a")
    return act


def _hints(server: Rogue, connection: Any, body: dict[str, Any]) -> None:
    while server.pause(0.0):
        server.send(connection, b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" * 100)


def _silent(server: Rogue, connection: Any, body: dict[str, Any]) -> None:
    server.hang()


def _half(server: Rogue, connection: Any, body: dict[str, Any]) -> None:
    server.send(connection, CHUNKED + b"1\r\n{\r\n")
    server.hang()


@pytest.mark.parametrize("act", [
    pytest.param(_silent, id="nothing comes"), pytest.param(_half, id="half a body comes"),
    pytest.param(_dribble(b"HTTP/1.1 200 OK\r\nX-Slow: "), id="a header, byte by byte"),
    pytest.param(_dribble(CHUNKED + b"1;x="), id="the size of a chunk, byte by byte"),
    pytest.param(_dribble(b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n"), id="a body, byte by byte"),
    pytest.param(_dribble(b"HTTP/1.1 500 No\r\nContent-Length: 99999\r\n\r\n"), id="an error, byte by byte"),
    pytest.param(_hints, id="hints without an end")])
def test_a_call_ends_in_time_whatever_comes(ask: Callable[..., Answer], act: Any) -> None:
    """Each server would go on for minutes. How soon a call ends after its time is the machine's business."""
    with Rogue(act) as server:
        answer = ask(server, timeout_s=0.25)
        assert re.fullmatch("no (whole )?answer within 0.25 s", answer.reason)


@pytest.mark.parametrize(("head", "says"), [
    (b"HTTP/1.1 200 OK\r\nContent-Length: 9999999999999\r\n\r\n", "more than 8 MiB"),
    (b"HTTP/1.1 200 OK\r\n\r\n", "more than 8 MiB"), (b"HTTP/1.1 400 No\r\n\r\n", "HTTP 400")])
def test_a_body_without_an_end_is_left(ask: Callable[..., Answer], head: bytes, says: str) -> None:
    left = threading.Event()

    def pour(server: Rogue, connection: Any, body: dict[str, Any]) -> None:
        try:
            server.send(connection, head)
            while server.pause(0.0):
                server.send(connection, bytes(1 << 16))
        finally:
            left.set()

    with Rogue(pour) as server:
        assert says in ask(server).reason
        assert left.wait(LONG)  # the connection was closed
        # What was taken, and what lies in the buffers of both sides of a socket (some MiB each).
        assert server.sent < 64 << 20


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_pictures_go_nowhere_else(status: int, ask: Callable[..., Answer]) -> None:
    with Rogue(replies(lambda b: response(completion(b)))) as other:
        to = f"Location: {other.url}/chat/completions?key={KEY}"
        with Rogue(replies(fixed(response(b"", f"{status} Moved", to)))) as server:
            with pytest.raises(BackendUnavailableError, match=r"sends us elsewhere \(HTTP 30., to 127\.0") as caught:
                ask(server)
            assert KEY not in str(caught.value)
    assert other.requests == []


def test_only_what_is_needed_is_sent(ask: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither another service's headers, nor cookies, nor what machine this is."""
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "Authorization: Bearer other-secret\nX-Api-Key: other-secret")
    monkeypatch.setenv("OPENAI_ORG_ID", "other-secret")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/other-secret")
    with Rogue(replies(lambda b: response(completion(b), "200 OK", "Set-Cookie: track=me"))) as server:
        ask(server, 1)
        ask(server, 2, again=True)
    for head in server.requests:
        names = {line.split(b":")[0].lower() for line in head.split(b"\r\n")[1:]}
        assert names <= {b"host", b"accept", b"accept-encoding", b"connection", b"user-agent", b"content-type",
                         b"content-length", b"authorization", b"x-stainless-raw-response"}
        assert b"other-secret" not in head
        assert f"Bearer {KEY}".encode() in head
    assert len(server.requests) == 2


def test_what_is_left_of_one_answer_is_not_the_next(ask: Callable[..., Answer]) -> None:
    """A server that answers twice: the second answer waits in the connection when the next question comes."""
    def twice(body: dict[str, Any]) -> bytes:
        one = completion(body)
        return (b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(one) + one) * 2

    with Rogue(replies(twice)) as server:
        first, second = ask(server, 1), ask(server, 2, again=True)
    for answer in (first, second):  # of its own question, or none
        assert answer.status == "judge_error" or json.loads(answer.record["raw"])["code"] == view(
            int(answer.id[1:])).code
    assert first.status == "answered"


def test_closing_ends_calls_under_way(ask: Callable[..., Answer]) -> None:
    with Rogue(_silent) as server:
        backend = OpenAIBackend(JudgeSettings(base_url=server.url), JudgeRules().model)
        reasons: list[str] = []

        def call() -> None:
            try:
                backend.complete(build_request(view(), JudgeRules()))
            except BackendFault as fault:
                reasons.append(fault.reason)

        threads = [threading.Thread(target=call, daemon=True) for _ in range(3)]
        for t in threads:
            t.start()
        while len(server.requests) < 3:
            time.sleep(0.005)
        backend.close()
        for t in threads:
            t.join(LONG)
        assert reasons == ["the connection was closed"] * 3
        with pytest.raises(BackendFault, match="closed"):
            backend.complete(build_request(view(), JudgeRules()))
        backend.close()


def test_a_key_is_blotted_out_however_json_spells_it(ask: Callable[..., Answer], tmp_path: Path) -> None:
    """Within the answer's own JSON a key can be written so that only reading it brings it to light."""
    spelled = ["".join(f"\\u{ord(c):04{x}}" for c in KEY) for x in "xX"]
    spelled += [KEY.replace("/", "\\/"), KEY.upper()]
    for k, text in enumerate(spelled):
        say = f'"{text}"'
        with Rogue(replies(lambda b, say=say: response(completion(b, honest(b).replace('"r"', say))))) as server:
            answer = ask(server, cache=JudgeCache(tmp_path / f"{k}.sqlite"))
        assert answer.values["reason"] == "[key]"
        assert answer.record["raw"].count("[key]") == 1


def test_what_retry_after_may_say(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_800_000_000.0
    if hasattr(time, "tzset"):
        monkeypatch.setenv("TZ", "XYZ-5")  # five hours off
        time.tzset()
    monkeypatch.setattr("spatialbench.scorers.judge.endpoint.time.time", lambda: now)
    for said, seconds in {
            "0": 0.0, "7": 7.0, "1.5": 1.5, "-3": 0.0, "1e3": 1000.0, "": None, "soon": None, "nan": None, "inf": None,
            "1e999": None, formatdate(now + 90, usegmt=True): 90.0, formatdate(now - 90, usegmt=True): 0.0,
            formatdate(now + 90): 90.0,  # "-0000": no zone, which is UTC
            formatdate(now + 90, usegmt=True).removesuffix(" GMT"): 90.0, "Fri, 99 Foo 2026 00:00:00 GMT": None,
            "Fri, 31 Dec 99999 23:59:59 GMT": None}.items():
        assert _retry_after({"retry-after": said}) == seconds, said
    assert _retry_after({"retry-after-ms": "250", "retry-after": "9"}) == 0.25
    assert _retry_after({"retry-after-ms": "x", "retry-after": "9"}) == 9.0
    assert _retry_after({}) is None
    monkeypatch.undo()
    if hasattr(time, "tzset"):
        time.tzset()


@pytest.mark.parametrize("text", ["```json\n" + " " * 250_000 + "x", "```" + "\n``" * 80_000,
                                  "<think>" + "</think" * 30_000])
def test_reading_takes_time_in_proportion(text: str) -> None:
    """A quadratic reader would take minutes for these (10^10 steps); a linear one milliseconds."""
    start = time.process_time()
    assert isinstance(read_reply(view(), Reply(text)), str)
    assert time.process_time() - start < 5.0  # of this process, so that other load does not count
