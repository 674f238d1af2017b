"""The judge that asks a model: cache, budget, pace, one re-ask, and a record of every call."""

from __future__ import annotations

import functools
import queue
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from spatialbench.errors import BackendUnavailableError, ResultError, UsageError
from spatialbench.scorers.judge.cache import JudgeCache
from spatialbench.scorers.judge.calls import Caller, Tally
from spatialbench.scorers.judge.contract import Answer, Backend, BackendFault, Question, Reply, Request, Usage
from spatialbench.scorers.judge.cost import Budget, Prices
from spatialbench.scorers.judge.crew import Run, in_threads, uninterrupted
from spatialbench.scorers.judge.messages import ask_again, build_request, read_reply
from spatialbench.scorers.judge.pace import Retry
from spatialbench.scorers.judge.prompts import sha256_of
from spatialbench.scorers.judge.records import Item, Talk, answer_of, not_asked, record_of, usage_of
from spatialbench.scorers.judge.settings import same_model
from spatialbench.types.judge import JudgeRules

__all__ = ["JudgeSession"]

_GIVE_UP_AFTER = 5
_KEY_VERSION = 1


class JudgeSession:
    """A ``Judge`` over a ``Backend``. May be used for many questions in turn; use it from one thread.

    Parameters
    ----------
    rules : the protocol's part.
    cache : where answers are kept; None: nowhere.
    refresh : ask everything anew, and keep the new answers.
    prices : for estimates and costs.
    max_cost : the session stops before the call that could pass it.
    limit : most questions for which the model is called in this session.
    dry_run : call nothing; ``tally`` then says what a run would do.
    accept_models : names under which the endpoint may answer, beside those that mean the one asked for.
    tell : called with (done, all) as questions end.

    Raises
    ------
    UsageError : ``max_cost`` without a known price, or no amount of money.
    """

    def __init__(self, backend: Backend, rules: JudgeRules, *, cache: JudgeCache | None = None, refresh: bool = False,
                 prices: Prices | None = None, max_cost: float | None = None, limit: int | None = None,
                 dry_run: bool = False, retry: Retry | None = None, accept_models: Sequence[str] = (),
                 tell: Callable[[int, int], None] | None = None) -> None:
        self.backend, self.rules, self.dry_run = backend, rules, dry_run
        self._cache, self._refresh, self._limit, self._tell = cache, refresh, limit, tell
        self._prices, self._accept = prices or Prices(), tuple(accept_models)
        self.price = self._prices.price(backend.model, backend.endpoint)
        if max_cost is not None and not max_cost >= 0:
            raise UsageError(f"is {max_cost}, which is no amount of money", where="--max-cost", todo="Give 0 or more")
        if max_cost is not None and self.price is None:
            raise UsageError(f"the price of '{backend.model}' at {backend.endpoint} is not known: no cap can be kept",
                             where="--max-cost",
                             todo="Write it into a price file (docs/judges.md), or leave the cap off")
        self.tally = Tally(currency=self._prices.currency)
        if self.price is not None:
            self.tally.cost = self.tally.saved = 0.0
        self._caller = Caller(backend, self._prices, Budget(max_cost, self.price), retry or Retry(), self.tally)

    @property
    def substitute(self) -> bool:
        """Whether the model asked is not the protocol's: results of it are marked and enter no official aggregate."""
        return not same_model(self.rules.model, self.backend.model)

    @property
    def budget(self) -> Budget:
        """What bounds and counts the cost; another may take its place between questions."""
        return self._caller.budget

    @budget.setter
    def budget(self, budget: Budget) -> None:
        self._caller.budget = budget

    def key(self, question: Question) -> str:
        """Of the cache: sha256 of all that bears on the answer, and of the number of the repeat."""
        return self._key(question, build_request(question, self.rules))

    def ask(self, questions: Sequence[Question]) -> list[Answer]:
        """As ``Judge.ask``. What was answered before a failure or an interruption is in the cache.

        An interruption waits 2 s for calls under way, and then for answers that have come until they are kept. Once it
        is raised, nothing is kept any more; a second one does not wait.
        """
        names = [(q.id, q.repeat) for q in questions]
        if len(set(names)) < len(names):
            twice = next(n for n in names if names.count(n) > 1)
            raise UsageError(f"two questions have the id '{twice[0][:80]}' and repeat {twice[1]}",
                             todo="Give each its own")
        items = []
        for q in questions:
            request = build_request(q, self.rules)
            items.append(Item(q, request, self._key(q, request)))
        first: dict[str, Item] = {}
        with _cache_needed():
            for item in items:
                if item.key not in first:
                    first[item.key] = item
                    item.answer = self._from_cache(item)
        open_items = [i for i in first.values() if i.answer is None]
        if self.dry_run:
            for item in open_items:
                self._plan(item)
        elif open_items:
            self._run(open_items)
        for item in items:
            if item.answer is None:
                shared = first[item.key].answer
                assert shared is not None
                item.answer = Answer(item.question.id, item.question.repeat, shared.status, shared.values,
                                     dict(zip(item.question.items, shared.items.values(), strict=False)),
                                     shared.reason, shared.record, {**shared.timing, "shared": True})
        return [i.answer for i in items if i.answer is not None]

    def close(self) -> None:
        """Close the backend and the cache."""
        self.backend.close()
        if self._cache is not None:
            self._cache.close()

    # -- before and after calls ----------------------------------------------------------------------------------

    def _key(self, question: Question, request: Request) -> str:
        b = self.backend
        return sha256_of({"version": _KEY_VERSION, "provider": b.provider, "endpoint": b.endpoint, "model": b.model,
                          "options": dict(b.options), "request": request.canonical(), "repeat": question.repeat})

    def _from_cache(self, item: Item) -> Answer | None:
        if self._cache is None or self._refresh:
            return None
        record = self._cache.get(item.key)
        answer = None if record is None else answer_of(item, record, {"cached": True, "attempts": 0, "seconds": 0.0})
        if record is not None and self._refusal(Reply("", str(record.get("returned_model") or "")))[0]:
            return None  # kept when its model was still accepted
        if answer is not None and record is not None:
            used = usage_of(record)
            self.tally.cached += 1
            self.tally.saved_input += used.input
            self.tally.saved_output += used.output
            if self.price is not None:
                self.tally.saved = (self.tally.saved or 0.0) + self.price.of(used)
        return answer

    def _plan(self, item: Item) -> None:
        t, estimate = self.tally, self._prices.estimate(item.request, self.backend.model)
        limited = self._limit is not None and t.calls >= self._limit
        item.answer = not_asked(item, "the limit on calls was reached" if limited else "dry run")
        t.not_asked += 1
        if limited:
            return
        t.calls += 1
        t.images += len(item.request.images())
        t.input += estimate.input
        t.output += estimate.output
        if self.price is not None:
            t.cost = (t.cost or 0.0) + self.price.of(estimate)

    # -- calls ---------------------------------------------------------------------------------------------------

    def _run(self, items: list[Item]) -> None:
        if self._cache is not None:
            with _cache_needed():
                self._cache.ready()
        run, todo = Run(), queue.SimpleQueue[Item]()
        allowed = len(items) if self._limit is None else max(0, self._limit - self.tally.asked)
        for item in items[:allowed]:
            todo.put(item)
        for item in items[allowed:]:
            item.answer = not_asked(item, "the limit on calls was reached")
        progress = [0]

        def work(keep: Callable[[Callable[[], None]], None]) -> None:
            while not run.stop.is_set():
                try:
                    item = todo.get_nowait()
                except queue.Empty:
                    return
                try:
                    talk = self._talk(item, run)
                    if talk is None:
                        return
                    with run.keeping() as may:
                        if may:
                            keep(functools.partial(self._settle, item, talk, run))
                    with run.lock:
                        progress[0] += 1
                        if self._tell is not None:
                            self._tell(progress[0], len(items))
                except BackendFault as fault:
                    run.end(failure=fault.reason)
                except Exception as error:  # of ours or the disk's: told by the caller's thread
                    errors.append(error)
                    run.stop.set()

        errors: list[Exception] = []
        if self.backend.concurrency <= 1:
            work(uninterrupted)
        else:
            in_threads(lambda: work(lambda act: act()), min(self.backend.concurrency, allowed), run)
        for item in items:
            if item.answer is None:
                item.answer = not_asked(item, run.failure or run.reason or "an earlier failure")
            self.tally.not_asked += item.answer.status == "not_asked"
        if errors:
            with _cache_needed():
                raise errors[0]
        if run.failure:
            raise BackendUnavailableError(f"the judge cannot be used: {run.failure}", where=self.backend.endpoint,
                                          todo="Correct the judge's configuration (docs/judges.md) and run the same "
                                               "command again: answers that came are kept")

    def _talk(self, item: Item, run: Run) -> Talk | None:
        """Ask, and once more when the reply is no answer; None: stopped before there was any reply."""
        start = time.perf_counter()
        rejected: dict[str, Any] | None = None
        request, used = item.request, Usage()
        problem, broken, reply = "", False, None
        for again in (False, True):
            outcome, tries = self._caller.call(request, run)
            item.attempts += tries
            if outcome is None:
                if reply is None:
                    return None
                problem = f"{problem}; not asked again: {run.failure or run.reason or 'an earlier failure'}"
                break
            if isinstance(outcome, str):
                problem, broken = outcome, True
                break
            reply = outcome
            used = Usage(used.input + reply.usage.input, used.output + reply.usage.output)
            problem, broken = self._refusal(reply)
            if problem:
                break
            read = read_reply(item.question, reply)
            if not isinstance(read, str):
                problem = ""
                break
            problem = read
            if not again:
                rejected = {"raw": reply.text, "problem": read}
                request = ask_again(request, reply, read)
        item.seconds = time.perf_counter() - start
        return Talk(reply, used, rejected, problem, broken)

    def _settle(self, item: Item, talk: Talk, run: Run) -> None:
        """Record what came of asking, and keep it when it is an answer."""
        record = record_of(self.backend, item, talk)
        timing = {"cached": False, "attempts": item.attempts, "seconds": item.seconds, "ended": time.time()}
        answer = None if talk.problem else answer_of(item, record, timing)
        with self._caller.lock:
            self.tally.asked += 1
            self.tally.errors += answer is None
        item.answer = answer or Answer(item.question.id, item.question.repeat, "judge_error", reason=talk.problem,
                                       record=record, timing=timing)
        # A transport that never works, or another model each time, is no fault of the questions.
        with run.lock:
            run.bad_in_a_row = run.bad_in_a_row + 1 if talk.broken else 0
            hopeless = run.bad_in_a_row >= _GIVE_UP_AFTER
        if hopeless and not run.stop.is_set():
            run.end(failure=f"{_GIVE_UP_AFTER} questions in a row had no answer, the last one: {talk.problem}")
        if answer is not None and self._cache is not None:
            sent = {"provider": self.backend.provider, "options": dict(self.backend.options),
                    **item.request.canonical()}
            self._cache.put(item.key, sent, record, endpoint=self.backend.endpoint, model=self.backend.model,
                            prompt=item.question.prompt.name)

    def _refusal(self, reply: Reply) -> tuple[str, bool]:
        """Why a reply is no answer of this judge, whatever its text says, and whether that is the endpoint's fault."""
        asked = self.backend.model
        if reply.model and reply.model not in self._accept and not same_model(reply.model, asked):
            return (f"another model answered: {reply.model[:80]}, asked was {asked}; if they are the same, name it in "
                    "'accept_models'"), True
        return ("the judge refused to answer" if reply.finish in ("content_filter", "refusal") else ""), False


@contextmanager
def _cache_needed() -> Iterator[None]:
    """A cache that cannot be used says nothing of a world: no judge without it, as answers would be paid for twice."""
    try:
        yield
    except ResultError as error:
        raise BackendUnavailableError(error.what, where=error.where, todo=error.todo) from None
