"""DINOv2 and DINOv3: against transformers called directly, the grid's order, folders that are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from spatialbench.errors import BackendUnavailableError, InputError, UsageError
from spatialbench.metrics.editing import patch_distance
from spatialbench.scorers import dino, registry
from tests.scorers.tiny_vision import (
    awkward,
    box,
    copied,
    forget_pins,
    noise,
    rewritten,
    save_dino,
    torch_of_tests,
    use_modules,
)

ENTRIES = {"dinov2": "dinov2-base", "dinov3": "dinov3-vitb16"}
SIDES = {"dinov2": 518, "dinov3": 592}
BEFORE = {"dinov2": 1, "dinov3": 5}
CLOSE = {"rtol": 1e-4, "atol": 1e-5}
"""Unit-size tokens (they come out of a layer norm), sums of some thousand float32 products in another order."""


@pytest.fixture(scope="session")
def dino_weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("dino")
    save_dino(root / "dinov2-base", 2)
    save_dino(root / "dinov3-vitb16", 3)
    return root


@pytest.fixture(autouse=True)
def _lock(monkeypatch: pytest.MonkeyPatch) -> None:
    use_modules(monkeypatch, "dino")
    forget_pins(monkeypatch, *ENTRIES.values())


def direct(weights: Path, id: str, pixels: Any) -> np.ndarray:
    """All tokens by transformers' model."""
    torch = torch_of_tests()
    import transformers

    model = getattr(transformers, {"dinov2": "Dinov2Model", "dinov3": "DINOv3ViTModel"}[id])
    with torch.no_grad():
        return model.from_pretrained(weights / ENTRIES[id]).eval()(pixel_values=pixels).last_hidden_state.numpy()


def scaled(picture: np.ndarray) -> Any:
    values = (picture / 255 - np.array([0.485, 0.456, 0.406])) / np.array([0.229, 0.224, 0.225])
    return torch_of_tests().from_numpy(np.moveaxis(values, 2, 0)[None].astype(np.float32))


@pytest.mark.parametrize("id", ENTRIES)
def test_tokens_of_a_picture_that_fits(dino_weights: Path, id: str) -> None:
    scorer = box(dino_weights).get(id)
    picture = noise(SIDES[id], SIDES[id])
    tokens = direct(dino_weights, id, scaled(picture))
    found = scorer.patch_tokens([picture])
    assert found.shape == (1, 37, 37, 24)
    assert tokens.shape == (1, BEFORE[id] + 37 * 37, 24)
    np.testing.assert_allclose(found.reshape(1, -1, 24), tokens[:, BEFORE[id]:], **CLOSE)
    small = noise(224, 224)
    np.testing.assert_allclose(scorer.embed_images([small]), direct(dino_weights, id, scaled(small))[:, 0], **CLOSE)
    # Of the same picture with itself nothing differs (M34).
    assert patch_distance(found[0].reshape(-1, 24), found[0].reshape(-1, 24), np.ones(37 * 37)) < 1e-7


@pytest.mark.parametrize("id", ENTRIES)
def test_pictures_of_any_size_are_squeezed_as_transformers_does(dino_weights: Path, id: str) -> None:
    import transformers

    side, small = {"height": SIDES[id], "width": SIDES[id]}, {"height": 224, "width": 224}
    values = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
    if id == "dinov2":
        square = transformers.BitImageProcessor(size=side, do_center_crop=False, resample=3, **values)
        whole = transformers.BitImageProcessor(size={"shortest_edge": 224}, crop_size=small, resample=3, **values)
    else:
        square, whole = (transformers.DINOv3ViTImageProcessor(size=s) for s in (side, small))
    names = ("one pixel", "three rows", "gray", "constant", "read only", "flipped", "large")
    pictures = [awkward()[name] for name in names]
    scorer = box(dino_weights).get(id)
    tokens, classes = scorer.patch_tokens(pictures), scorer.embed_images(pictures)
    for k, picture in enumerate(pictures):
        pixels = square(Image.fromarray(np.ascontiguousarray(picture)), return_tensors="pt")["pixel_values"]
        expected = direct(dino_weights, id, pixels)[0, BEFORE[id]:]
        np.testing.assert_allclose(tokens[k].reshape(-1, 24), expected, err_msg=names[k], **CLOSE)
        pixels = whole(Image.fromarray(np.ascontiguousarray(picture)), return_tensors="pt")["pixel_values"]
        np.testing.assert_allclose(classes[k], direct(dino_weights, id, pixels)[0, 0], err_msg=names[k], **CLOSE)


@pytest.mark.parametrize("id", ENTRIES)
def test_the_grid_starts_at_the_top_left_and_goes_by_rows(dino_weights: Path, id: str) -> None:
    patch = SIDES[id] // 37
    before = np.full((SIDES[id], SIDES[id], 3), 100, np.uint8)
    after = before.copy()
    after[5 * patch:6 * patch, 30 * patch:31 * patch] = noise(patch, patch)
    a, b = box(dino_weights).get(id).patch_tokens([before, after])
    change = np.linalg.norm(a - b, axis=-1)
    assert np.unravel_index(int(change.argmax()), change.shape) == (5, 30)


def test_batches_change_nothing_and_keep_the_order(dino_weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = box(dino_weights).get("dinov2")
    pictures = [noise(20 + k, 30, k) for k in range(3)]
    tokens, classes = scorer.patch_tokens(pictures), scorer.embed_images(pictures)
    monkeypatch.setattr(dino, "_PATCHED", 1)
    monkeypatch.setattr(dino, "_WHOLE", 2)
    np.testing.assert_allclose(scorer.patch_tokens(pictures[::-1])[::-1], tokens, **CLOSE)
    np.testing.assert_allclose(scorer.embed_images(pictures[::-1])[::-1], classes, **CLOSE)
    assert scorer.patch_tokens([]).shape == (0, 37, 37, 24)
    assert scorer.embed_images([]).shape == (0, 24)


def test_what_it_cannot_do_is_said(dino_weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = box(dino_weights).get("dinov2")
    with pytest.raises(UsageError, match="DINOv2 embeds no texts"):
        scorer.embed_texts(["a"])
    with pytest.raises(InputError, match="too elongated"):
        scorer.embed_images([noise(2, 300)])
    assert scorer.patch_tokens([noise(2, 300)]).shape == (1, 37, 37, 24)
    assert "weights fetch dinov3-vitb16" in box(tmp_path).lacking("dinov3")
    monkeypatch.setattr(registry, "find_spec", lambda name: None if name == "torchvision" else object())
    assert box(dino_weights).lacking("dinov2") == 'torchvision is not installed: pip install "spatialbench[vision]"'


def test_other_models_and_damaged_files_are_refused(dino_weights: Path, tmp_path: Path) -> None:
    save_dino(tmp_path / "a" / "dinov2-base", 2, image_size=224)
    copied(dino_weights / "dinov2-base", tmp_path / "b" / "dinov3-vitb16")
    copied(dino_weights / "dinov3-vitb16", tmp_path / "c" / "dinov3-vitb16")
    rewritten(tmp_path / "c" / "dinov3-vitb16" / "model.safetensors", lambda t: t.pop(sorted(t)[0]))
    path = copied(dino_weights / "dinov2-base", tmp_path / "d" / "dinov2-base") / "model.safetensors"
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data[:len(data) // 2])
    for name, id, says in (("a", "dinov2", "image_size is 224, not 518"),
                           ("b", "dinov3", "of a model 'dinov2', not 'dinov3_vit'"), ("c", "dinov3", "1 missing keys"),
                           ("d", "dinov2", "cannot be loaded")):
        with pytest.raises(BackendUnavailableError, match=says) as caught:
            box(tmp_path / name).get(id)
        assert "spatialbench weights fetch" in str(caught.value)
