"""Scorers whose answers can be worked out by hand, for metrics that need learned ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from spatialbench.runs import scoring, single
from spatialbench.scorers.contract import Detection, TextVectors
from spatialbench.scorers.judge import Answer, Question
from spatialbench.scorers.registry import ScorerBox


class Brightness:
    """Rates an image by its mean level, 0 to 1; ``seen`` counts the images."""

    def __init__(self) -> None:
        self.seen = 0
        self.texts: list[str] = []

    def rate(self, images: Sequence[np.ndarray], text: str = "") -> np.ndarray:
        self.seen += len(images)
        self.texts.append(text)
        return np.array([image.mean() / 255 for image in images])

    def rate_embeddings(self, vectors: np.ndarray) -> np.ndarray:
        return np.asarray(vectors[:, 0] / np.linalg.norm(vectors, axis=1), dtype=np.float64)


class Colours:
    """Embeds an image as its mean colour, and a text as what ``words`` says."""

    def __init__(self, **words: tuple[float, float, float]) -> None:
        self.seen = 0
        self.words = words

    def embed_images(self, images: Sequence[np.ndarray]) -> np.ndarray:
        self.seen += len(images)
        return np.array([image.reshape(-1, 3).mean(axis=0) for image in images], dtype=np.float32) + 1e-3

    def embed_texts(self, texts: Sequence[str]) -> TextVectors:
        vectors = np.array([self.words[text.split()[0]] for text in texts], dtype=np.float32)
        return TextVectors(vectors, tuple(len(text) > 77 for text in texts))


class Thresholds:
    """Detects what a text names by a test of each pixel's colour."""

    def __init__(self, score: float = 0.9, **tests: Callable[[np.ndarray], np.ndarray]) -> None:
        self.score, self.tests = score, tests

    def detect(self, images: Sequence[np.ndarray], text: str) -> list[tuple[Detection, ...]]:
        out: list[tuple[Detection, ...]] = []
        for image in images:
            mask = self.tests[text](image.astype(int)) if text in self.tests else np.zeros(image.shape[:2], bool)
            out.append((Detection(self.score, mask),) if mask.any() else ())
        return out


class Says:
    """A judge that answers by a function of the picture; None is a judge's error."""

    substitute = False

    def __init__(self, answer: Callable[[Question, np.ndarray], dict[str, bool] | None]) -> None:
        self.answer = answer
        self.answers: list[Answer] = []

    def ask(self, questions: Sequence[Question]) -> list[Answer]:
        out = []
        for q in questions:
            said = self.answer(q, q.pictures[0].image.pixels)
            out.append(Answer(q.id, q.repeat, "judge_error", reason="no JSON") if said is None
                       else Answer(q.id, q.repeat, "answered", said))
        self.answers += out
        return out


def lend(monkeypatch: Any, judge: Says | None = None, **scorers: Any) -> ScorerBox:
    """Let runs of this test use these scorers, and this judge."""
    from spatialbench.report import collect
    from spatialbench.runs import pair, run_files

    box = ScorerBox(given=scorers)
    for module in (single, pair, scoring):
        monkeypatch.setattr(module, "open_scorers", lambda options: box)
    if judge is not None:
        for module in (single, pair):
            monkeypatch.setattr(module, "open_judge_of", lambda options, protocol: judge)
        for module in (run_files, pair):
            monkeypatch.setattr(module, "judge_texts", lambda judge: {})
        for module in (run_files, pair, collect):
            monkeypatch.setattr(module, "scorers_used", lambda options, judge: {})
    return box
