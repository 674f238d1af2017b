"""A judge whose answers are all cached: 100 cases of 18 views (M06), from pixels to the file of answers."""

from __future__ import annotations

import json
import re
import tempfile
import time
from pathlib import Path

import numpy as np

from spatialbench.scorers.judge import (
    JudgeCache,
    JudgeSession,
    Picture,
    Question,
    answers_text,
    judge_image,
    load_prompt,
)
from spatialbench.scorers.judge.contract import Reply, Request, Usage
from spatialbench.types.judge import JudgeRules

CASES, VIEWS, SIDE = 100, 18, 768
SECONDS = 5.0


class _Instant:
    """A model that answers at once, to fill the cache; counts what it is asked."""

    provider, endpoint, model, options, concurrency = "bench", "here", JudgeRules().model, {}, 1
    calls = 0

    def complete(self, request: Request) -> Reply:
        self.calls += 1
        last = request.messages[1].parts[-1]
        code = re.findall(r"The code is (\w{6})\.", last if isinstance(last, str) else "")[-1]
        return Reply(json.dumps({"code": code, "reason": "nothing stands out", "artifact_free": True, "sharp": True,
                                 "plausible_layout": True}), self.model, "fp", "stop", Usage(900, 40))

    def close(self) -> None:
        """Nothing to close."""


def main() -> None:
    """Print the seconds of a replay, and of asking for the same answers without a model's time."""
    print(f"\n{f'judge, {CASES} cases x {VIEWS} views of {SIDE} x {SIDE}':<62} {'value':>9} {'limit':>7} {'ratio':>6}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "judge.sqlite"
        first, _, calls, text = _run(path)
        again, cpu, no_calls, same = _run(path)
    if (calls, no_calls, text == same) != (CASES * VIEWS, 0, True):
        raise SystemExit(f"{calls} calls, then {no_calls}; answers equal: {text == same}")
    print(f"{'asked and kept (a model that takes no time), seconds':<62} {first:>9.2f}", flush=True)
    print(f"{'all from the cache, seconds':<62} {again:>9.2f} {SECONDS:>7.0f} {again / SECONDS:>6.2f}", flush=True)
    print(f"{'  of which on a processor (the rest was waited for one)':<62} {cpu:>9.2f}", flush=True)


def _run(path: Path) -> tuple[float, float, int, str]:
    """Case by case, as a batch does; the views are drawn outside of the clock."""
    base = np.random.default_rng(0).integers(0, 256, (SIDE, SIDE, 3), np.uint8)
    prompt, backend = load_prompt("view-quality-1"), _Instant()
    session = JudgeSession(backend, JudgeRules(), cache=JudgeCache(path))
    seconds, cpu, texts = 0.0, 0.0, []
    for case in range(CASES):
        views = [_view(base, case, k) for k in range(VIEWS)]
        start, start_cpu = time.perf_counter(), time.process_time()
        answers = session.ask([Question(f"case-{case:03d}/{k:02d}", prompt, (Picture(judge_image(v)),))
                               for k, v in enumerate(views)])
        texts.append(answers_text(answers))
        seconds += time.perf_counter() - start
        cpu += time.process_time() - start_cpu
    session.close()
    return seconds, cpu, backend.calls, "".join(texts)


def _view(base: np.ndarray, case: int, k: int) -> np.ndarray:
    view = base.copy()
    view[0, 0] = case, k, 0
    view.flags.writeable = False
    return view


if __name__ == "__main__":
    main()
