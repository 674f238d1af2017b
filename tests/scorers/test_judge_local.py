"""The judge in this process: what it hands to transformers, and a tiny Qwen3-VL where transformers is there."""

from __future__ import annotations

import contextlib
import json
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spatialbench.errors import BackendUnavailableError, MissingInputError
from spatialbench.scorers.judge import (
    JudgeCache,
    JudgeSession,
    JudgeSettings,
    Picture,
    Question,
    judge_image,
    open_judge,
)
from spatialbench.scorers.judge.local import TransformersBackend, weights_identity
from spatialbench.scorers.judge.prompts import Prompt
from spatialbench.types.judge import JudgeRules
from tests.scorers.judge_server import flat

PROMPT = Prompt.model_validate({
    "id": "tiny", "version": 1, "source": "test", "system": "Judge.", "text": "Is it sharp?", "echo": False,
    "schema": {"sharp": {"type": "boolean", "description": "d"}}, "max_tokens": 8})


def settings_for(folder: Path, **more: Any) -> JudgeSettings:
    return JudgeSettings(provider="transformers", weights=folder, device="cpu", dtype="float32", **more)


def question(value: int, prompt: Prompt = PROMPT) -> Question:
    return Question(f"{value}", prompt, (Picture(judge_image(flat(value, 64))),))


class _Fake:
    """As much of torch and transformers as the adapter touches; answers by the picture's brightness."""

    def __init__(self) -> None:
        self.loaded: list[tuple[str, dict[str, Any]]] = []
        self.asked: list[list[dict[str, Any]]] = []
        self.generated: list[dict[str, Any]] = []
        self.seeds: list[int] = []
        outer = self

        class Batch(dict):
            def to(self, device: str) -> Batch:
                return self

        class Loader:
            @classmethod
            def from_pretrained(cls, folder: str, **options: Any) -> Loader:
                outer.loaded.append((folder, options))
                return cls()

            def to(self, device: str) -> Loader:
                return self

            def eval(self) -> Loader:
                return self

            def apply_chat_template(self, messages: list[dict[str, Any]], **options: Any) -> Batch:
                outer.asked.append(messages)
                assert options == {"add_generation_prompt": True, "tokenize": True, "return_dict": True,
                                   "return_tensors": "pt"}
                return Batch(input_ids=np.zeros((1, 30), int))

            def generate(self, input_ids: Any, **options: Any) -> Any:
                outer.generated.append(options)
                picture = next(p["image"] for m in outer.asked[-1] for p in m["content"] if p["type"] == "image")
                bright = np.asarray(picture).mean() >= 128
                return np.concatenate([input_ids, np.full((1, 5), int(bright))], axis=1)

            def decode(self, ids: Any, skip_special_tokens: bool) -> str:
                return json.dumps({"sharp": bool(ids[0])})

        cuda = types.SimpleNamespace(is_available=lambda: False, OutOfMemoryError=MemoryError)
        random = types.SimpleNamespace(fork_rng=contextlib.nullcontext)
        self.torch = types.ModuleType("torch")
        vars(self.torch).update(cuda=cuda, random=random, float32="f32", inference_mode=contextlib.nullcontext,
                                manual_seed=self.seeds.append)
        self.transformers = types.ModuleType("transformers")
        vars(self.transformers).update(AutoProcessor=Loader, AutoModelForImageTextToText=Loader)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "config.json").write_text('{"model_type": "qwen3_vl"}')
    (tmp_path / "w" / "model.safetensors").write_bytes(b"0" * 100)
    return tmp_path / "w"


def test_what_the_adapter_asks_of_transformers(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = _Fake()
    monkeypatch.setitem(sys.modules, "torch", fake.torch)
    monkeypatch.setitem(sys.modules, "transformers", fake.transformers)
    monkeypatch.setattr("spatialbench.scorers.judge.local.find_spec", lambda name: None)
    backend = TransformersBackend(settings_for(folder), "Qwen/Qwen3-VL-8B-Instruct")
    assert [(f, o["local_files_only"]) for f, o in fake.loaded] == [(str(folder), True)] * 2
    cache = JudgeCache(tmp_path / "c.sqlite")
    session = JudgeSession(backend, JudgeRules(), cache=cache)
    answers = session.ask([question(200), question(20)])
    assert [a.values for a in answers] == [{"sharp": True}, {"sharp": False}]
    assert [m["role"] for m in fake.asked[0]] == ["system", "user"]
    assert [p["type"] for p in fake.asked[0][1]["content"]] == ["image", "text"]
    assert (np.asarray(fake.asked[0][1]["content"][0]["image"]) == 200).all()
    assert fake.generated[0] == {"max_new_tokens": 8, "do_sample": False, "temperature": None, "top_p": None,
                                 "top_k": None}
    assert answers[0].record["usage"] == {"input": 30, "output": 5}
    assert answers[0].record["provider"] == "transformers"
    warm = JudgeSession(backend, JudgeRules(temperature=0.7, seed=5))
    warm.ask([question(200)])
    assert fake.generated[-1] == {"max_new_tokens": 8, "do_sample": True, "temperature": 0.7}
    assert fake.seeds == [0, 0, 5]
    assert session.ask([question(200)])[0].timing["cached"]
    session.close()


def test_a_model_that_fails_on_a_question_is_asked_the_others(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = _Fake()
    monkeypatch.setitem(sys.modules, "torch", fake.torch)
    monkeypatch.setitem(sys.modules, "transformers", fake.transformers)
    monkeypatch.setattr("spatialbench.scorers.judge.local.find_spec", lambda name: None)
    backend = TransformersBackend(settings_for(folder), "Qwen/Qwen3-VL-8B-Instruct")
    generate = backend._model.generate

    def fails(**inputs: Any) -> Any:
        if len(fake.asked) == 1:
            raise RuntimeError("shape '[1, 2]' is invalid\nand more")
        return generate(**inputs)

    monkeypatch.setattr(backend._model, "generate", fails)
    first, second = JudgeSession(backend, JudgeRules()).ask([question(200), question(20)])
    assert first.status == "judge_error"
    assert first.reason == "the model takes no such question (shape '[1, 2]' is invalid)"
    assert second.status == "answered"


def test_what_is_missing_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("spatialbench.scorers.judge.local.find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(BackendUnavailableError, match=r"spatialbench\[vlm\]"):
        open_judge(JudgeRules(), settings_for(folder))
    with pytest.raises(MissingInputError, match=r"no config\.json"):
        open_judge(JudgeRules(), settings_for(tmp_path))
    dry = open_judge(JudgeRules(), settings_for(folder), dry_run=True, cache="off")
    dry.ask([question(1)])
    assert dry.tally.calls == 1
    fake = _Fake()
    monkeypatch.setitem(sys.modules, "torch", fake.torch)
    monkeypatch.setitem(sys.modules, "transformers", fake.transformers)
    with pytest.raises(BackendUnavailableError, match="no CUDA device"):
        open_judge(JudgeRules(), settings_for(folder).model_copy(update={"device": "cuda"}))


def test_other_weights_are_another_judge(folder: Path) -> None:
    first = weights_identity(folder)
    assert weights_identity(folder) == first
    (folder / "README.md").write_text("hello")
    assert weights_identity(folder) == first
    (folder / "model.safetensors").write_bytes(b"0" * 101)
    second = weights_identity(folder)
    (folder / "tokenizer.json").write_text("{}")
    assert len({first, second, weights_identity(folder)}) == 3
