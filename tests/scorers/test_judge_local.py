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
    load_prompt,
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


@pytest.mark.slow
def test_a_tiny_qwen3_vl_through_the_real_loaders(tmp_path: Path) -> None:
    """Random weights: what it says is no answer, but all of the way is taken, and it says the same twice."""
    reason = "torch, torchvision and transformers are not all installed"
    torch = pytest.importorskip("torch", reason=reason)
    pytest.importorskip("torchvision", reason=reason)
    transformers = pytest.importorskip("transformers", minversion="5.0", reason=reason)
    folder = tmp_path / "tiny"
    _make_tiny(folder, torch, transformers)
    session = JudgeSession(TransformersBackend(settings_for(folder), "tiny"), JudgeRules(model="tiny"))
    first, second = (session.ask([question(200)])[0] for _ in range(2))
    assert first.status == "judge_error"
    assert first.record["rejected"] is not None
    assert first.record["raw"] == second.record["raw"]
    # A picture of 64 x 64 is 4 x 4 patches of 16, merged to 4 tokens; the words of the prompt come on top; twice.
    assert first.record["usage"]["input"] > 2 * 4
    assert 0 < first.record["usage"]["output"] <= 2 * PROMPT.max_tokens
    (folder / "model.safetensors").write_bytes(b"broken")
    with pytest.raises(BackendUnavailableError, match="cannot be loaded"):
        TransformersBackend(settings_for(folder), "tiny")


def _make_tiny(folder: Path, torch: Any, transformers: Any) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    marks = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>",
             "<|video_pad|>"]
    words = Tokenizer(models.BPE())
    words.pre_tokenizer, words.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    words.train_from_iterator([PROMPT.text, load_prompt("view-quality-1").text], trainers.BpeTrainer(
        vocab_size=400, special_tokens=marks, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<|im_end|>",
                                                     pad_token="<|endoftext|>")
    tokenizer.image_token, tokenizer.video_token = "<|image_pad|>", "<|video_pad|>"
    part = ("{% if p.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ p.text }}{% endif %}")
    template = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{% for p in m.content %}" + part + "{% endfor %}"
                "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
    id_of = tokenizer.convert_tokens_to_ids
    rope = {"rope_type": "default", "mrope_section": [2, 1, 1], "mrope_interleaved": True, "rope_theta": 10_000.0}
    torch.manual_seed(0)
    transformers.Qwen3VLForConditionalGeneration(transformers.Qwen3VLConfig(
        text_config={"vocab_size": len(tokenizer), "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
                     "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "rope_parameters": rope},
        vision_config={"depth": 2, "hidden_size": 32, "intermediate_size": 64, "num_heads": 4, "out_hidden_size": 32,
                       "deepstack_visual_indexes": [0, 1], "patch_size": 16, "spatial_merge_size": 2,
                       "temporal_patch_size": 2, "num_position_embeddings": 256},
        image_token_id=id_of("<|image_pad|>"), video_token_id=id_of("<|video_pad|>"),
        vision_start_token_id=id_of("<|vision_start|>"), vision_end_token_id=id_of("<|vision_end|>"),
    )).save_pretrained(folder)
    patches = {"patch_size": 16, "merge_size": 2, "temporal_patch_size": 2}
    transformers.Qwen3VLProcessor(
        image_processor=transformers.Qwen2VLImageProcessor(
            **patches, size={"shortest_edge": 64 * 64, "longest_edge": 512 * 512}),
        tokenizer=tokenizer, video_processor=transformers.Qwen3VLVideoProcessor(**patches),
        chat_template=template).save_pretrained(folder)
