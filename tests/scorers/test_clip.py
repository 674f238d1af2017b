"""CLIP: against transformers called directly, awkward pictures and texts, folders that are refused."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from PIL import Image

from spatialbench.configs import config_path
from spatialbench.errors import BackendUnavailableError, InputError
from spatialbench.scorers import clip, registry
from tests.scorers.tiny_vision import (
    ALL_MERGES,
    awkward,
    box,
    copied,
    cut,
    forget_pins,
    noise,
    rewritten,
    save_clip,
    save_dino,
    torch_of_tests,
    use_modules,
)

ENTRIES = {"clip_b32": ("clip-b32", 32), "clip_b16": ("clip-b16", 16), "clip_l14": ("clip-l14", 14)}
CLOSE = {"rtol": 1e-4, "atol": 1e-6}
"""Sums of at most 24 x 257 products in float32 (relative 6e-8 each), in another order."""


@pytest.fixture(scope="session")
def clip_weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("clip")
    for entry, patch in ENTRIES.values():
        save_clip(root / entry, patch, torch_file=patch != 14, merged=ALL_MERGES if patch == 14 else 500)
    save_clip(root / "small" / "clip-l14", 14)
    return root


@pytest.fixture(autouse=True)
def _lock(monkeypatch: pytest.MonkeyPatch) -> None:
    use_modules(monkeypatch, "clip")
    forget_pins(monkeypatch, *(entry for entry, _ in ENTRIES.values()))


@pytest.fixture(scope="session")
def l14(clip_weights: Path) -> Any:
    """The adapter's scorer, opened by the box once."""
    with pytest.MonkeyPatch.context() as m:
        use_modules(m, "clip")
        forget_pins(m, "clip-l14")
        return box(clip_weights).get("clip_l14")


@pytest.fixture(scope="session")
def reference(clip_weights: Path) -> Any:
    """Projected, not normalised vectors by transformers' own model and processor, one picture at a time."""
    torch = torch_of_tests()
    import transformers

    folder = clip_weights / "clip-l14"
    model = transformers.CLIPModel.from_pretrained(folder, local_files_only=True).eval()
    processor = transformers.CLIPImageProcessor()
    tokenizer = transformers.CLIPTokenizer.from_pretrained(folder, local_files_only=True)

    def images(pictures: list[np.ndarray]) -> np.ndarray:
        with torch.no_grad():
            return np.stack([model.get_image_features(**processor(Image.fromarray(p), return_tensors="pt"))
                             .pooler_output[0].numpy() for p in pictures])

    def texts(words: list[str]) -> np.ndarray:
        with torch.no_grad():
            return np.stack([model.get_text_features(**tokenizer(w, truncation=True, max_length=77,
                                                                 return_tensors="pt")).pooler_output[0].numpy()
                             for w in words])

    return type("Reference", (), {"images": staticmethod(images), "texts": staticmethod(texts), "model": model,
                                  "tokenizer": tokenizer})


def test_image_vectors_are_those_of_transformers(l14: Any, reference: Any) -> None:
    pictures = [np.ascontiguousarray(p) for p in awkward().values()]
    with pytest.MonkeyPatch.context() as m:
        m.setattr(clip, "_IMAGES", 4)
        found = l14.embed_images(list(awkward().values()))
    assert found.shape == (len(pictures), 12)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, reference.images(pictures), **CLOSE)
    assert not np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-3)  # not normalised


def test_pixels_of_an_image_that_fits_are_only_scaled(l14: Any, reference: Any) -> None:
    torch = torch_of_tests()
    picture = noise(224, 224)
    mean = np.array([0.48145466, 0.4578275, 0.40821073])
    deviation = np.array([0.26862954, 0.26130258, 0.27577711])
    pixels = torch.from_numpy(np.moveaxis((picture / 255 - mean) / deviation, 2, 0)[None].astype(np.float32))
    with torch.no_grad():
        expected = reference.model.visual_projection(reference.model.vision_model(pixels).pooler_output).numpy()
    np.testing.assert_allclose(l14.embed_images([picture]), expected, **CLOSE)


def test_text_vectors_are_those_of_transformers_and_long_ones_are_said(l14: Any, reference: Any) -> None:
    # 75 words of one token each fill the 77 places with begin and end; one more does not fit.
    texts = ["a photo of a cat", "", "cat " * 75, "cat " * 76, "cat " * 400, "A  Photo\nof a CAT"]
    found = l14.embed_texts(texts)
    assert found.truncated == (False, False, False, True, True, False)
    np.testing.assert_allclose(found.vectors, reference.texts(texts), **CLOSE)
    np.testing.assert_allclose(found.vectors[3], found.vectors[2], **CLOSE)  # cut to the same 75 words
    np.testing.assert_allclose(found.vectors[5], found.vectors[0], **CLOSE)  # case and spaces do not count
    # The token ids of OpenAI's own tokenizer for this text.
    assert reference.tokenizer("a photo of a cat")["input_ids"] == [49406, 320, 1125, 539, 320, 2368, 49407]


def test_a_text_with_an_end_token_is_refused(l14: Any) -> None:
    """Pooled is the first end token: "a red" would be scored, and nobody told."""
    with pytest.raises(InputError, match=r"the text holds '<\|endoftext\|>'"):
        l14.embed_texts(["a room", "a red <|endoftext|> room"])


def test_a_text_that_is_no_unicode_is_refused(l14: Any) -> None:
    with pytest.raises(InputError, match="character 7 of the text is half of a pair"):
        l14.embed_texts([json.loads('"a room \\ud83d"')])


def test_batches_change_nothing_and_keep_the_order(clip_weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = box(clip_weights).get("clip_b32")
    pictures = [noise(30 + k, 40, k) for k in range(5)]
    texts = [f"a room with {k} chairs" for k in range(5)]
    images, words = scorer.embed_images(pictures), scorer.embed_texts(texts).vectors
    np.testing.assert_allclose(scorer.embed_images(pictures[::-1])[::-1], images, **CLOSE)
    monkeypatch.setattr(clip, "_IMAGES", 1)
    monkeypatch.setattr(clip, "_TEXTS", 1)
    np.testing.assert_allclose(scorer.embed_images(pictures), images, **CLOSE)
    np.testing.assert_allclose(scorer.embed_texts(texts).vectors, words, **CLOSE)
    assert len({tuple(v) for v in np.round(images, 3)}) == 5
    assert scorer.embed_images([]).shape == (0, 12)
    assert scorer.embed_texts([]).vectors.shape == (0, 12)


def test_the_three_models_are_read_and_told_apart(clip_weights: Path, tmp_path: Path) -> None:
    opened = box(clip_weights)
    b32, b16 = (opened.get(id).embed_images([noise(50, 50)])[0] for id in ("clip_b32", "clip_b16"))
    assert not np.allclose(b32, b16)
    identity = opened.identity["clip_b16"]
    assert len(identity["clip-b16/pytorch_model.bin"]) == 64
    assert "transformers" in identity
    copied(clip_weights / "clip-b16", tmp_path / "clip-b32")
    with pytest.raises(BackendUnavailableError, match=r"patch_size is 16, not 32.*weights fetch"):
        box(tmp_path).get("clip_b32")


def test_pictures_that_are_none_or_too_long_are_refused(l14: Any) -> None:
    with pytest.raises(InputError, match="image 1: 2020 x 20 pixels are too elongated"):
        l14.embed_images([noise(20, 2000), noise(20, 2020)])
    for wrong in (np.zeros((4, 4), np.uint8), np.zeros((4, 4, 3)), np.zeros((0, 4, 3), np.uint8)):
        with pytest.raises(ValueError, match="not uint8"):
            l14.embed_images([wrong])


class _Code:
    ran = False

    def __reduce__(self) -> Any:
        return (setattr, (_Code, "ran", True))


def _spoil(what: str, folder: Path) -> None:
    weights = folder / "model.safetensors"
    if what == "partly missing":
        rewritten(weights, lambda t: t.pop("visual_projection.weight"))
    elif what == "other shape":
        rewritten(weights, lambda t: t.update({"text_projection.weight": t["text_projection.weight"][:, :8].clone()}))
    else:
        name = {"truncated": "model.safetensors", "no tokenizer": "tokenizer.json",
                "pixels": "preprocessor_config.json", "no configuration": "config.json"}[what]
        data = (folder / name).read_bytes()
        (folder / name).unlink()
        (folder / name).write_bytes(data)
        if what == "pixels":
            settings = json.loads(data) | {"resample": 2}
            (folder / name).write_text(json.dumps(settings), encoding="utf-8")
        else:
            cut(folder / name)


@pytest.mark.parametrize(("what", "says"), [
    ("partly missing", "1 missing keys, such as visual_projection"), ("other shape", "cannot be loaded|mismatched"),
    ("truncated", "cannot be loaded"), ("no tokenizer", "no tokenizer"),
    ("pixels", "resample is 2, not 3"), ("no configuration", "no configuration")])
def test_damaged_folders_are_refused_with_what_to_do(clip_weights: Path, tmp_path: Path, what: str, says: str) -> None:
    _spoil(what, copied(clip_weights / "small" / "clip-l14", tmp_path / "clip-l14"))
    opened = box(tmp_path)
    with pytest.raises(BackendUnavailableError, match=says) as caught:
        opened.get("clip_l14")
    assert "spatialbench weights fetch" in str(caught.value)
    assert opened.lacking("clip_l14")  # remembered


def test_the_real_image_settings_are_accepted(clip_weights: Path, tmp_path: Path) -> None:
    """The file of OpenAI's three repositories, byte by byte: its hash is the one that the lock file pins."""
    settings = {"crop_size": 224, "do_center_crop": True, "do_normalize": True, "do_resize": True,
                "feature_extractor_type": "CLIPFeatureExtractor", "image_mean": [0.48145466, 0.4578275, 0.40821073],
                "image_std": [0.26862954, 0.26130258, 0.27577711], "resample": 3, "size": 224}
    text = json.dumps(settings, indent=2) + "\n"
    packaged = yaml.safe_load(config_path("weights", "scorers").read_text("utf-8"))["weights"]
    pins = {f["sha256"] for e in packaged if e["id"].startswith("clip-") for f in e["files"]
            if f["path"] == "preprocessor_config.json"}
    assert pins == {hashlib.sha256(text.encode()).hexdigest()}
    folder = copied(clip_weights / "small" / "clip-l14", tmp_path / "clip-l14", "preprocessor_config.json")
    (folder / "preprocessor_config.json").write_bytes(text.encode())
    picture = [noise(40, 70)]
    np.testing.assert_allclose(box(tmp_path).get("clip_l14").embed_images(picture),
                               box(clip_weights / "small").get("clip_l14").embed_images(picture), **CLOSE)


def test_torch_files_are_read_without_running_code(clip_weights: Path, tmp_path: Path) -> None:
    folder = copied(clip_weights / "clip-b32", tmp_path / "clip-b32", "pytorch_model.bin")
    torch_of_tests().save({"a": _Code()}, folder / "pytorch_model.bin")
    with pytest.raises(BackendUnavailableError, match="cannot be loaded"):
        box(tmp_path).get("clip_b32")
    assert not _Code.ran


def test_another_architecture_missing_files_and_packages_are_said(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_dino(tmp_path / "clip-l14", 2)
    opened = box(tmp_path)
    assert "tokenizer.json" in opened.lacking("clip_l14") or "preprocessor_config.json" in opened.lacking("clip_l14")
    assert "weights fetch clip-l14" in opened.lacking("clip_l14")
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt", "special_tokens_map.json",
                 "preprocessor_config.json"):
        (tmp_path / "clip-l14" / name).write_text("{}", encoding="utf-8")
    with pytest.raises(BackendUnavailableError, match="of a model 'dinov2', not 'clip'"):
        opened.get("clip_l14")
    monkeypatch.setattr(registry, "find_spec", lambda name: None if name == "transformers" else object())
    assert box(tmp_path).lacking("clip_l14") == 'transformers is not installed: pip install "spatialbench[vision]"'
