"""SAM3 on a tiny checkpoint of the real architecture, through the real loader, against the library called directly."""

from __future__ import annotations

import json
import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spatialbench.errors import BackendUnavailableError, InputError, UsageError
from spatialbench.scorers import registry, sam3
from spatialbench.scorers.registry import ScorerBox, scorer_status
from spatialbench.scorers.settings import ScorerSettings
from tests.scorers.tiny_vision import awkward, out_of_order

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")  # before anything looks for it: see tests/shim
transformers = pytest.importorskip("transformers", minversion="5.0")

_WORDS = ("ch", "cha", "chai", "chair</w>", "do", "doo", "door</w>")


@pytest.fixture(autouse=True)
def _only_sam3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_MODULES", ("sam3",))
    monkeypatch.setattr(registry, "_SPECS", {})
    torch.set_num_threads(1)


def _tokenizer(folder: Path) -> Any:
    """CLIP's byte-level pairs, with a handful of merges."""
    letters = list(import_module("transformers.convert_slow_tokenizer").bytes_to_unicode().values())
    vocabulary = [*letters, *(c + "</w>" for c in letters), *_WORDS, "<|startoftext|>", "<|endoftext|>"]
    merges = ["c h", "ch a", "cha i", "chai r</w>", "d o", "do o", "doo r</w>"]
    (folder / "vocab.json").write_text(json.dumps({v: k for k, v in enumerate(vocabulary)}))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
    return transformers.CLIPTokenizer.from_pretrained(folder)


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("weights")
    write_sam3(root / "sam3")
    return root


def write_sam3(folder: Path) -> None:
    """A SAM3 of 2 + 2 layers, 112-pixel images and 10 queries (0.8 MB)."""
    folder.mkdir(parents=True)
    tokenizer = _tokenizer(folder)
    small = {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}
    config = transformers.Sam3Config(
        vision_config={"backbone_config": {
            "model_type": "sam3_vit_model", **small, "num_hidden_layers": 2, "image_size": 112, "patch_size": 14,
            "window_size": 4, "global_attn_indexes": [1], "pretrain_image_size": 56},
            "fpn_hidden_size": 32, "backbone_feature_sizes": [[32, 32], [16, 16], [8, 8]]},
        text_config={"vocab_size": len(tokenizer), "hidden_size": 16, "intermediate_size": 32, "projection_dim": 16,
                     "num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 32,
                     "bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id},
        geometry_encoder_config={**small, "num_layers": 1, "roi_size": 3},
        detr_encoder_config={**small, "num_layers": 1},
        detr_decoder_config={**small, "num_layers": 1, "num_queries": 10},
        mask_decoder_config={"hidden_size": 32, "num_upsampling_stages": 3, "num_attention_heads": 2})
    torch.manual_seed(3)
    model = transformers.Sam3Model(config)
    with torch.no_grad():  # larger than at birth, so that what is seen and read makes a difference
        for p in model.parameters():
            if p.ndim > 1:
                p.mul_(3.0)
    model.save_pretrained(folder)
    transformers.Sam3Processor(transformers.Sam3ImageProcessor(size={"height": 112, "width": 112}),
                               tokenizer).save_pretrained(folder)
    for name in ("vocab.json", "merges.txt"):  # tokenizer.json holds both
        (folder / name).unlink()


def settings(root: Path) -> ScorerSettings:
    return ScorerSettings(weights=root, device="cpu")


@pytest.fixture(scope="session")
def detector(weights: Path) -> sam3.Sam3:
    opened = sam3._open(registry.Opening(settings(weights), {"sam3": weights / "sam3"}))
    assert isinstance(opened, sam3.Sam3)
    return opened


def picture(h: int, w: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, h, w]).integers(0, 256, (h, w, 3), dtype=np.uint8)


def by_hand(model: Any, tokenizer: Any, image: np.ndarray, text: str) -> list[tuple[float, np.ndarray]]:
    """The library's model on pixels and tokens made here; scores and masks by their formulas."""
    from torchvision.transforms.v2.functional import resize

    ids = tokenizer(text)["input_ids"]
    n = len(ids)
    resized = resize(torch.from_numpy(image.copy()).permute(2, 0, 1)[None], [112, 112], antialias=True)  # bilinear
    pixels = (resized / 255 - 0.5) / 0.5
    with torch.no_grad():
        out = model(pixel_values=pixels, input_ids=torch.tensor([ids + [tokenizer.pad_token_id] * (32 - n)]),
                    attention_mask=torch.tensor([[1] * n + [0] * (32 - n)]))
        scores = (out.pred_logits.sigmoid() * out.presence_logits.sigmoid())[0]
        masks = torch.nn.functional.interpolate(out.pred_masks.sigmoid(), image.shape[:2], mode="bilinear")[0] > 0.5
    found = [(float(s), m.numpy()) for s, m in zip(scores, masks, strict=True) if s > 0.05]
    return sorted(found, key=lambda f: -f[0])




def test_scores_and_masks_are_the_models_for_images_of_any_size(weights: Path, detector: sam3.Sam3) -> None:
    images = [*awkward().values(), picture(112, 112), picture(140, 90)]
    model = transformers.Sam3Model.from_pretrained(weights / "sam3").eval()
    tokenizer = transformers.CLIPTokenizer.from_pretrained(weights / "sam3")
    found = detector.detect(images, "a chair")
    assert len(found) == len(images)
    for image, one in zip(images, found, strict=True):
        expected = by_hand(model, tokenizer, image, "a chair")
        assert len(one) == len(expected) > 0
        # Float32 through some ten layers, in batches of another size.
        assert [d.score for d in one] == pytest.approx([s for s, _ in expected], abs=1e-5)
        assert all(0 < d.score <= 1 and d.mask.dtype == bool for d in one)
        for d, (_, mask) in zip(one, expected, strict=True):
            assert d.mask.shape == image.shape[:2]
            assert (d.mask != mask).mean() < 1e-3  # a logit may be on the threshold


def test_other_texts_and_images_give_other_scores(detector: sam3.Sam3) -> None:
    a, b = picture(60, 60), picture(60, 60, seed=1)
    chair, other = detector.detect([a, b], "a chair"), detector.detect([a], "the door")
    assert [d.score for d in chair[0]] != [d.score for d in chair[1]]
    assert [d.score for d in chair[0]] != [d.score for d in other[0]]


def test_a_text_with_an_end_token_is_refused(detector: sam3.Sam3) -> None:
    with pytest.raises(InputError, match="which is a mark of SAM3's own"):
        detector.detect([picture(20, 20)], "chair <|endoftext|> door")


def test_a_model_that_is_out_of_order_is_no_absence(detector: sam3.Sam3) -> None:
    with out_of_order(detector._model), pytest.raises(BackendUnavailableError, match="not finite"):
        detector.detect([picture(20, 20)], "door")


def test_batches_do_not_matter_and_keep_the_order(detector: sam3.Sam3, monkeypatch: pytest.MonkeyPatch) -> None:
    images = [picture(40 + 10 * k, 70, seed=k) for k in range(5)]
    together = detector.detect(images, "door")
    for size in (1, 3):
        monkeypatch.setattr(sam3, "_BATCH", size)
        for one, all_ in zip(detector.detect(images, "door"), together, strict=True):
            assert [d.score for d in one] == pytest.approx([d.score for d in all_], abs=1e-6)
    assert detector.detect([], "door") == []


def test_nothing_above_the_floor_is_an_empty_answer(detector: sam3.Sam3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sam3, "FLOOR", 1.0)
    assert detector.detect([picture(30, 50), picture(20, 20)], "door") == [(), ()]


def test_a_long_text_is_cut_to_32_tokens_as_the_models_tokenizer_does(detector: sam3.Sam3) -> None:
    """30 words fill the 32 tokens with the two marks; what follows cannot be seen."""
    image, full = picture(40, 40), " ".join(["chair"] * 30)
    assert not detector.truncates(full)
    assert detector.truncates(full + " door")
    scores = [[d.score for d in detector.detect([image], text)[0]]
              for text in (full, full + " door", full + " door" * 200, " ".join(["chair"] * 29))]
    assert scores[0] == scores[1] == scores[2] != scores[3]
    with pytest.raises(UsageError, match="no text"):
        detector.detect([image], "  ")


def test_the_layout_of_the_published_checkpoint_loads_too(weights: Path, tmp_path: Path,
                                                          detector: sam3.Sam3) -> None:
    """Published together with a tracker: its configuration wraps the detector's, its names have a prefix."""
    from safetensors.torch import load_file, save_file

    folder = tmp_path / "sam3"
    shutil.copytree(weights / "sam3", folder)
    inner = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({"model_type": "sam3_video", "detector_config": inner}))
    state = {f"detector_model.{k}": v.clone() for k, v in load_file(folder / "model.safetensors").items()}
    state["tracker_model.no_memory"] = torch.zeros(3)
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    box = ScorerBox(settings(tmp_path))
    assert box.lacking("sam3") == ""
    image = picture(30, 30)
    assert ([d.score for d in box.get("sam3").detect([image], "door")[0]]
            == [d.score for d in detector.detect([image], "door")[0]])
    identity = box.identity["sam3"]
    assert identity["torch"] == torch.__version__
    assert identity["transformers"] == transformers.__version__


@pytest.mark.parametrize("fault", ["truncated", "no-file", "other", "part", "no-processor", "mean"])
def test_folders_that_are_not_sam3_are_refused(weights: Path, tmp_path: Path, fault: str) -> None:
    from safetensors.torch import load_file, save_file

    folder = tmp_path / "sam3"
    shutil.copytree(weights / "sam3", folder)
    file = folder / "model.safetensors"
    why = "cannot be loaded"
    if fault == "truncated":
        file.write_bytes(file.read_bytes()[:-1000])
    elif fault == "no-file":
        file.unlink()
        why = "weights fetch sam3"
    elif fault == "other":
        torch.manual_seed(0)
        transformers.Dinov2Model(transformers.Dinov2Config(
            hidden_size=32, num_hidden_layers=1, num_attention_heads=2, image_size=28)).save_pretrained(folder)
        why = "of a model .dinov2., not .sam3."
    elif fault == "part":
        state = {k: v.clone() for k, v in load_file(file).items()}  # not of the file: it is written over
        state.pop(next(k for k in state if k.startswith("detr_decoder")))
        save_file(state, file, metadata={"format": "pt"})
        why = "another model than Sam3Model: 1 missing keys"
    elif fault == "no-processor":
        (folder / "processor_config.json").write_text("{")
        why = "Sam3Processor cannot be loaded"
    else:
        path = folder / "processor_config.json"
        said = json.loads(path.read_text())
        said["image_processor"]["image_mean"] = [0.485, 0.456, 0.406]
        path.write_text(json.dumps(said))
        why = "the image processor's image_mean is"
    box = ScorerBox(settings(tmp_path))
    with pytest.raises(BackendUnavailableError, match=why) as caught:
        box.get("sam3")
    assert "spatialbench weights fetch" in str(caught.value)


def test_an_absent_package_is_named(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "find_spec", lambda name: None if name == "transformers" else object())
    assert scorer_status("sam3", settings(weights)) == (
        'transformers is not installed: pip install "spatialbench[vision]"')
