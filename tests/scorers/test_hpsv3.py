"""The port of HPSv3: against the numbers of the original class, its loading, its limits."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spatialbench.errors import BackendUnavailableError, InputError, UsageError
from spatialbench.scorers import hpsv3, hpsv3_prompt, registry
from spatialbench.scorers.hpsv3_prompt import FILE, Template, read_template
from spatialbench.scorers.registry import ScorerBox, scorer_status
from spatialbench.scorers.settings import ScorerSettings
from tests.scorers import test_hpsv3_golden as golden
from tests.scorers.tiny_vision import forget_pins, out_of_order

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")  # before anything looks for it: see tests/shim
transformers = pytest.importorskip("transformers", minversion="5.0")

TEMPLATE = Template(golden.INSTRUCTION, golden.QUESTION)
ENTRIES = ("hpsv3", "hpsv3-prompt", "qwen2-vl-7b-instruct")


@pytest.fixture(autouse=True)
def _only_hpsv3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_MODULES", ("hpsv3",))
    monkeypatch.setattr(registry, "_SPECS", {})
    forget_pins(monkeypatch, *ENTRIES)
    digest = hashlib.sha256((golden.INSTRUCTION + golden.QUESTION).encode()).hexdigest()
    monkeypatch.setattr(hpsv3_prompt, "TEMPLATE_SHA256", digest)
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("weights")
    write_hpsv3(root)
    return root


def write_hpsv3(root: Path) -> None:
    """The entries of a tiny HPSv3 below a weights folder."""
    from safetensors.torch import save_file

    for entry in ENTRIES:
        (root / entry).mkdir()
    golden.write_base(root / ENTRIES[2])
    (root / "hpsv3-prompt" / FILE).write_text(
        f"import nothing_that_is_there\nINSTRUCTION = {golden.INSTRUCTION!r}\n"
        f"prompt_with_special_token = {golden.QUESTION!r}\nraise SystemExit\n")
    save_file({k: torch.from_numpy(v) for k, v in golden.tensors().items()}, root / "hpsv3" / "HPSv3.safetensors")


def opened(root: Path, dtype: str) -> hpsv3.HPSv3:
    return hpsv3.load_hpsv3(root / "hpsv3" / "HPSv3.safetensors", root / ENTRIES[2], TEMPLATE, torch.device("cpu"),
                            dtype)


@pytest.fixture(scope="session")
def exact(weights: Path) -> hpsv3.HPSv3:
    return opened(weights, "float32")


def settings(root: Path) -> ScorerSettings:
    return ScorerSettings(weights=root, device="cpu")


IMAGES = [golden.image(*size) for size in golden.SIZES]


def test_the_numbers_of_the_original(exact: hpsv3.HPSv3) -> None:
    """In float32: 1e-5 is some hundred roundings of the numbers on the way, which are about 1."""
    for k, text in enumerate(golden.TEXTS):
        expected = [row[k][0] for row in golden.GOLDEN["float32"]]
        got = exact.rate(IMAGES, text)
        assert got.dtype == np.float64 and got.shape == (len(IMAGES),)
        assert got == pytest.approx(expected, abs=1e-5)


def test_as_it_is_opened_it_computes_in_bfloat16_as_published(weights: Path) -> None:
    """bfloat16 has 8 bits, and its kernels add up in their own order: the original's batches differ by .018 from its
    own single images. Twice that is allowed to another version of the library."""
    box = ScorerBox(settings(weights))
    assert box.lacking("hpsv3") == ""
    scorer = box.get("hpsv3")
    for k, text in enumerate(golden.TEXTS):
        half, single = ([row[k][0] for row in golden.GOLDEN[d]] for d in ("bfloat16", "float32"))
        got = scorer.rate(IMAGES, text)
        assert got == pytest.approx(half, abs=0.036)
        assert np.abs(got - single).max() > 1e-3
    assert "hpsv3-prompt/data_collator_qwen.py" in box.identity["hpsv3"]
    assert scorer.rate(IMAGES[:1], "a")[0] == scorer.rate([*IMAGES[3:], IMAGES[0]], "a")[-1]


def test_rotary_frequencies_are_rounded_as_published(weights: Path, exact: hpsv3.HPSv3) -> None:
    """The formulas of both towers by hand, with what a cast of the whole model makes of them."""
    half = torch.bfloat16
    backbone, single = opened(weights, "bfloat16")._backbone, exact._backbone
    words = 1e6 ** -(torch.arange(0, 8, 2, dtype=torch.float32) / 8)
    assert (backbone.language_model.rotary_emb.inv_freq == words.to(half)).all()
    assert (single.language_model.rotary_emb.inv_freq - words).abs().max() < 1e-7
    sight = 1e4 ** -(torch.arange(0, 8, 2, dtype=torch.float32) / 8)
    places = torch.tensor([[0, 0], [3, 40], [31, 301]])
    angles = torch.cat([(places[:, [k]].to(half) * sight.to(half)) for k in (0, 1)], dim=1)
    cos, sin = backbone.visual.rotary_pos_emb(torch.zeros(1, dtype=half), places)
    assert cos.dtype == half
    assert (cos == torch.cat([angles.cos()] * 2, dim=1)).all() and (sin == torch.cat([angles.sin()] * 2, dim=1)).all()
    exactly = torch.cat([(places[:, [k]] * sight) for k in (0, 1)], dim=1)
    cos, _ = single.visual.rotary_pos_emb(torch.zeros(1), places)
    assert (cos - torch.cat([exactly.cos()] * 2, dim=1)).abs().max() < 1e-4  # a last bit of 301


def test_qwen2_vls_own_positions_would_give_other_numbers(exact: hpsv3.HPSv3,
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the image's tokens have places in two dimensions, computed here by hand for one image of 13 x 21 tokens."""
    image, text = golden.image(280, 480), golden.TEXTS[0]
    rows, columns = (n // 28 for n in hpsv3.target_size(280, 480))
    assert (rows, columns) == (13, 21)
    flat = exact.rate([image], text)[0]

    def natural(ids: Any) -> Any:
        first = int((ids[0] == 256 + golden.MARKS.index("<|image_pad|>")).nonzero()[0])
        y, x = np.mgrid[:rows, :columns].reshape(2, -1) + first
        before = np.tile(np.arange(first), (3, 1))
        after = np.tile(np.arange(ids.shape[1] - first - rows * columns), (3, 1)) + first + max(rows, columns)
        return torch.from_numpy(np.concatenate([before, np.stack([np.full_like(x, first), y, x]), after], 1))[:, None]

    monkeypatch.setattr(hpsv3, "flat_positions", natural)
    assert abs(exact.rate([image], text)[0] - flat) > 1e-2


@pytest.mark.parametrize(("size", "tokens"), [
    ((448, 448), (16, 16)),    # exactly 256 tokens
    ((768, 768), (15, 15)),    # 448 / 28 = 16 but for the last bit of the root, as in the original
    ((700, 700), (16, 16)),
    ((1, 1), (16, 16)),
    ((1080, 1920), (12, 21)),  # 448 * sqrt(9/16) = 336 = 12 * 28; 597.3 = 21.3 * 28
    ((100, 100), (16, 16)),
    ((90, 160), (12, 22)),     # enlarged, so rounded up: 336 and 597.3
    ((10, 2000), (2, 227)),    # 448 / sqrt(200) = 31.7, 448 * sqrt(200) = 6335.7
])
def test_sizes_by_hand(size: tuple[int, int], tokens: tuple[int, int]) -> None:
    assert hpsv3.target_size(*size) == (28 * tokens[0], 28 * tokens[1])
    assert hpsv3.target_size(*size[::-1]) == (28 * tokens[1], 28 * tokens[0])


def test_no_picture_is_resized_twice(exact: hpsv3.HPSv3, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever limits the folder's settings have, which are Qwen2-VL's."""
    before = exact.rate(IMAGES[:1], "x")
    pixels = exact._processor.image_processor
    monkeypatch.setattr(pixels, "size", type(pixels.size)(shortest_edge=56 * 56, longest_edge=112 * 112))
    assert (exact.rate(IMAGES[:1], "x") == before).all()


def test_pictures_that_are_awkward(exact: hpsv3.HPSv3) -> None:
    frozen = golden.image(30, 40)
    frozen.setflags(write=False)
    same = [np.full((64, 48, 3), 127, np.uint8), np.full((64, 48, 3), 127, np.uint8), frozen, frozen[::-1, ::-1]]
    got = exact.rate(same, "x")
    assert np.isfinite(got).all()
    assert got[0] == got[1] != got[2] != got[3]
    assert exact.rate([], "x").shape == (0,)
    with pytest.raises(InputError, match="3 x 601 pixels are too elongated"):
        exact.rate([golden.image(601, 3)], "x")


def test_texts_that_are_refused(exact: hpsv3.HPSv3) -> None:
    for mark in ("<|Reward|>", "<|image_pad|>", "<|im_end|>"):
        with pytest.raises(UsageError, match="a mark of HPSv3's own"):
            exact.rate(IMAGES[:1], f"a room {mark} good")
    # A letter is a token here; the tiny model takes 2,048, of which image and frame take some 450.
    with pytest.raises(UsageError, match=r"too long.* of 2,048"):
        exact.rate(IMAGES[:1], "a" * 1900)
    assert np.isfinite(exact.rate(IMAGES[:1], "a" * 1000)).all()


def test_a_reward_that_is_no_number_and_a_text_that_is_no_unicode(exact: hpsv3.HPSv3) -> None:
    with out_of_order(exact._backbone), pytest.raises(BackendUnavailableError, match="not finite"):
        exact.rate(IMAGES[3:4], "x")
    with pytest.raises(InputError, match="character 2 of the text"):
        exact.rate(IMAGES[3:4], "a \ud800 b")


def test_the_prompt_is_read_and_never_run(tmp_path: Path) -> None:
    good = f"INSTRUCTION = {golden.INSTRUCTION!r}\nprompt_with_special_token = {golden.QUESTION!r}\n"
    path = tmp_path / FILE
    path.write_text(good + "open('/nonexistent/x', 'w')\n")
    template = read_template(path)
    assert template == TEMPLATE
    assert template.fill("{a} {text_prompt}") == (golden.INSTRUCTION.format(text_prompt="{a} {text_prompt}")
                                                  + golden.QUESTION)
    for text, why in ((good.replace("shown", "seen"), "another prompt"), ("INSTRUCTION = 3\n", "no prompt"),
                      ("def (:", "no prompt"), ("x = '" + "a" * (1 << 20) + "'", "more than"),
                      ("(" * 3000, "no prompt")):
        path.write_text(text)
        with pytest.raises(BackendUnavailableError, match=why) as caught:
            read_template(path)
        assert "hpsv3 1.0.0" in str(caught.value)
    with pytest.raises(BackendUnavailableError, match="no prompt"):
        read_template(tmp_path / "nothing")


@pytest.mark.parametrize("fault", ["truncated", "no-file", "pickle", "base", "words", "pixels", "missing", "more",
                                   "head", "rows"])
def test_files_that_are_not_hpsv3_are_refused(weights: Path, tmp_path: Path, fault: str) -> None:
    from safetensors.torch import load_file, save_file

    root = tmp_path / "w"
    shutil.copytree(weights, root)
    file, base = root / "hpsv3" / "HPSv3.safetensors", root / ENTRIES[2]
    state: dict[str, Any] = {k: v.clone() for k, v in load_file(file).items()}  # not of the file: it is written over
    why = "of another model than HPSv3: 1 names do not fit"
    if fault == "truncated":
        file.write_bytes(file.read_bytes()[:-50])
        why = "no tensors that can be read"
    elif fault == "no-file":
        file.unlink()
        why = "weights fetch hpsv3"
    elif fault == "pickle":
        torch.save(state, file)
        why = "no tensors that can be read"
    elif fault == "base":
        (base / "config.json").write_text('{"model_type": "qwen3_vl"}')
        why = "'qwen3_vl', not 'qwen2_vl'"
    elif fault == "words":
        (base / "tokenizer.json").write_text("{")
        why = "Qwen2VLProcessor cannot be loaded"
    elif fault == "pixels":
        path = base / "preprocessor_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"image_mean": [0.5, 0.5, 0.5]}))
        why = "the image processor's image_mean is"
    else:
        if fault == "missing":
            del state["visual.blocks.1.attn.qkv.bias"]
        elif fault == "more":
            state["visual.blocks.2.norm1.bias"] = torch.zeros(32)
        elif fault == "head":
            del state["rm_head.3.weight"]
            why = "cannot be loaded as HPSv3"
        else:
            state["model.embed_tokens.weight"] = torch.zeros(300, 32)
            why = "300 embeddings, 264 tokens"
        save_file(state, file)
    with pytest.raises(BackendUnavailableError, match=why) as caught:
        ScorerBox(settings(root)).get("hpsv3")
    assert "spatialbench weights fetch" in str(caught.value)


def test_an_absent_package_is_named(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "find_spec", lambda name: None if name == "transformers" else object())
    assert scorer_status("hpsv3", settings(weights)) == 'transformers is not installed: pip install "spatialbench[vlm]"'
