"""Calling a model: in its pace, within the budget, again after failures that pass; and what all of it came to."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from spatialbench.scorers.judge.contract import Backend, BackendFault, Reply, Request
from spatialbench.scorers.judge.cost import Budget, Prices
from spatialbench.scorers.judge.crew import Run
from spatialbench.scorers.judge.pace import Limiter, Retry

__all__ = ["Caller", "Tally"]

_LOOK_AGAIN = 0.02


@dataclass
class Tally:
    """What a session has done, or in a dry run would do.

    Attributes
    ----------
    asked : questions for which the model was called.
    cached : answered from the cache.
    errors : asked, and no usable answer.
    not_asked : left out: a limit, the cap, a dry run, an earlier failure.
    calls, images : sent, with re-asks and repeated tries.
    input, output : tokens the endpoint counted; in a dry run the estimate, of output the most there can be.
    saved_input, saved_output : tokens of the answers that came from the cache.
    cost : of those tokens, of estimates where the endpoint does not count, and of lost calls that may be billed; None:
        the price is not known.
    saved : of the tokens that came from the cache.
    """

    asked: int = 0
    cached: int = 0
    errors: int = 0
    not_asked: int = 0
    calls: int = 0
    images: int = 0
    input: int = 0
    output: int = 0
    saved_input: int = 0
    saved_output: int = 0
    cost: float | None = None
    saved: float | None = None
    currency: str = "USD"


class Caller:
    """Calls a backend for several threads.

    Attributes
    ----------
    limiter : of the calls at a time.
    tally : what was called is added to it, under ``lock``.
    """

    def __init__(self, backend: Backend, prices: Prices, budget: Budget, retry: Retry, tally: Tally) -> None:
        self._backend, self._prices, self.budget, self._retry, self.tally = backend, prices, budget, retry, tally
        self.limiter = Limiter(max(1, backend.concurrency))
        self.lock = threading.Lock()

    def call(self, request: Request, run: Run) -> tuple[Reply | str | None, int]:
        """A reply, or in words why there is none, or None when the run was stopped; and how many calls it took.

        Raises
        ------
        BackendFault : what would stop every question.
        """
        estimate = self._prices.estimate(request, self._backend.model)
        tries = 0
        while True:
            place = self.limiter.enter(run.stop)
            if place is None:
                return None, tries
            try:
                reserved = self.budget.reserve(estimate)
            except BaseException:
                self.limiter.leave(place, "stopped")
                raise
            if reserved is None:
                self.limiter.leave(place, "stopped")
                if not self.budget.idle:  # calls under way may turn out cheaper than what is set aside for them
                    run.stop.wait(_LOOK_AGAIN)
                    continue
                run.end(reason="the next call could pass the cap on cost")
                return None, tries
            tries += 1
            outcome, reply, billed, hold = "failed", None, False, None
            try:
                reply = self._backend.complete(request)
                outcome = "good"
                return reply, tries
            except BackendFault as fault:
                billed = fault.billed
                if fault.kind == "fatal":
                    raise
                if fault.kind == "question":
                    return fault.reason, tries
                wait = self._retry.wait(tries, fault.retry_after)
                if fault.kind == "rate":
                    outcome, hold = "rate", fault.retry_after if wait is not None else None
                if wait is None:
                    asked = f", asks to wait {fault.retry_after:g} s" if fault.retry_after else ""
                    return fault.reason + asked + (f", after {tries} tries" if tries > 1 else ""), tries
            finally:
                self.limiter.leave(place, outcome, hold)
                used = None if reply is None else reply.usage
                self.budget.settle(reserved, estimate, used, billed)
                with self.lock:
                    t = self.tally
                    t.calls += 1
                    t.images += len(request.images())
                    if used is not None:
                        t.input += used.input
                        t.output += used.output
                    if self.budget.price is not None:
                        t.cost = self.budget.spent
            if run.stop.wait(wait):
                return None, tries
