"""DreamSim: the real code paths of the package on small transformers, against ours on the same weights."""

from __future__ import annotations

import json
import shutil
import warnings
from functools import partial
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest
from PIL import Image

from spatialbench.errors import BackendUnavailableError, UsageError
from spatialbench.scorers import perceptual_dreamsim as module
from tests.scorers.tiny_vision import awkward, box, cut, forget_pins, noise, torch_of_tests, use_modules

CLOSE = {"rtol": 1e-4, "atol": 2e-6}
"""1 - cos of unit vectors in float32: a few roundings of 1, whatever its size."""


def _small(vision: Any) -> Any:
    """``vit_base`` with 24 numbers a token, of which the last block must be number 11."""
    torch = torch_of_tests()

    def make(patch_size: int = 16, **more: Any) -> Any:
        return vision.VisionTransformer(patch_size=patch_size, embed_dim=24, depth=12, num_heads=2, mlp_ratio=2,
                                        qkv_bias=True, norm_layer=partial(torch.nn.LayerNorm, eps=1e-6), **more)
    return make


def _use_small(monkeypatch: pytest.MonkeyPatch) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from dreamsim.feature_extraction import load_clip_as_dino, load_open_clip_as_dino, vision_transformer
    make = _small(vision_transformer)
    for part in (vision_transformer, load_clip_as_dino, load_open_clip_as_dino):
        monkeypatch.setattr(part, "vit_base", make)
    return make


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """Weights folder, and the package's own model and preprocessing on the same files."""
    torch = torch_of_tests()
    root = tmp_path_factory.mktemp("dreamsim")
    cache = root / "unpacked"
    cache.mkdir()
    torch.manual_seed(0)
    with pytest.MonkeyPatch.context() as m, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make = _use_small(m)
        from dreamsim import PerceptualModel, dreamsim
        from dreamsim.config import dreamsim_args
        from peft import LoraConfig, get_peft_model

        def drawn(model: Any) -> Any:
            for value in model.parameters():
                torch.nn.init.normal_(value, std=0.3)
            return model

        dino = drawn(make())
        for name in ("clip_vitb16", "open_clip_vitb16"):
            tower = make()
            tower.pos_drop = torch.nn.LayerNorm(24)
            state = drawn(tower).state_dict() | {"proj": torch.randn(24, 20)}
            for part in ("patch_embed.proj.weight", "patch_embed.proj.bias", "pos_embed", "cls_token"):
                state[part] = state[part] * 0.002  # so small that the first norm's epsilon counts
            torch.save({"state_dict": state}, cache / f"{name}_pretrain.pth.tar")
        head = {f"module.head.mlp.{k}.{n}": torch.zeros(1) for k in (0, 2, 4) for n in ("weight", "bias")}
        torch.save({"student": head | {"module.head.last_layer.weight": torch.zeros(1)}},
                   cache / "dino_vitb16_pretrain.pth")
        m.setattr(torch.hub, "load", lambda *a, **k: dino)
        m.setattr(torch.hub, "set_dir", lambda *a: None)
        plain = PerceptualModel(**dreamsim_args["model_config"]["ensemble"], device="cpu", load_dir=str(cache),
                                normalize_embeds=True)
        tuned = get_peft_model(plain, LoraConfig(r=4, lora_alpha=2, lora_dropout=0.3, bias="none",
                                                 target_modules=["qkv"]))
        for name, value in tuned.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(value, std=0.5)
        tuned.save_pretrained(cache / "ensemble_lora")
        torch.save(make().state_dict() | {k: v for k, v in dino.state_dict().items() if "lora" not in k
                                          and "base_layer" not in k}
                   | {k.replace(".base_layer", ""): v for k, v in dino.state_dict().items() if "base_layer" in k},
                   cache / module.DINO)
        dino_again = make()
        dino_again.load_state_dict(torch.load(cache / module.DINO, weights_only=True))
        m.setattr(torch.hub, "load", lambda *a, **k: dino_again)
        direct = dreamsim(pretrained=True, device="cpu", cache_dir=str(cache))
    folder = root / "dreamsim"
    folder.mkdir()
    shutil.move(cache / module.DINO, folder / module.DINO)
    pack(cache, folder / module.ARCHIVE)
    return root, direct


def pack(cache: Path, archive: Path) -> None:
    with ZipFile(archive, "w") as z:
        for path in sorted(p for p in cache.rglob("*") if p.is_file()):
            z.write(path, path.relative_to(cache).as_posix())


@pytest.fixture(autouse=True)
def _small_towers(monkeypatch: pytest.MonkeyPatch) -> None:
    use_modules(monkeypatch, "perceptual_dreamsim")
    forget_pins(monkeypatch, "dreamsim")
    _use_small(monkeypatch)


def test_distances_are_those_of_the_package(made: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    torch = torch_of_tests()
    root, (model, prepare) = made
    scorer = box(root).get("dreamsim")
    first = [np.ascontiguousarray(p) for p in awkward().values()]
    second = [noise(*p.shape[:2], seed=50 + k) for k, p in enumerate(first)]
    found = scorer.distances(first, second)
    with torch.no_grad():
        expected = [float(model(prepare(Image.fromarray(a)), prepare(Image.fromarray(b)))[0])
                    for a, b in zip(first, second, strict=True)]
    np.testing.assert_allclose(found, expected, **CLOSE)
    assert np.ptp(found) > 0.01  # the pairs are told apart
    # Equal images, both ways round, any batch, in order.
    same = scorer.distances(first, first)
    np.testing.assert_allclose(same, 0, atol=2e-6)
    assert (same >= 0).all()
    monkeypatch.setattr(module, "_PAIRS", 2)
    np.testing.assert_allclose(scorer.distances(second[::-1], first[::-1])[::-1], found, **CLOSE)
    assert scorer.distances([], []).shape == (0,)


def test_the_adapters_count(made: tuple[Path, Any], tmp_path: Path) -> None:
    root, _ = made
    folder = tmp_path / "dreamsim"
    shutil.copytree(root / "dreamsim", folder)
    cache = root / "unpacked"
    changed = tmp_path / "unpacked"
    shutil.copytree(cache, changed)
    settings = changed / "ensemble_lora" / "adapter_config.json"
    config = json.loads(settings.read_text("utf-8"))
    assert (config["lora_alpha"], config["r"]) == (2, 4)
    settings.write_text(json.dumps(config | {"lora_alpha": 0}), encoding="utf-8")
    pack(changed, folder / module.ARCHIVE)
    pair = [noise(60, 60)], [noise(60, 60, 1)]
    with_them, without = box(root).get("dreamsim").distances(*pair), box(tmp_path).get("dreamsim").distances(*pair)
    assert abs(float(with_them[0] - without[0])) > 2e-5  # ten times the rounding


def test_there_is_no_map(made: tuple[Path, Any]) -> None:
    with pytest.raises(UsageError, match=r"no map.*lpips_vgg"):
        box(made[0]).get("dreamsim").difference_maps([noise(9, 9)], [noise(9, 9)])


def _adapter(cache: Path, **values: Any) -> None:
    path = cache / "ensemble_lora" / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | values), encoding="utf-8")


def _drop(cache: Path) -> None:
    from tests.scorers.tiny_vision import rewritten

    rewritten(cache / "ensemble_lora" / "adapter_model.safetensors", lambda t: t.pop(sorted(t)[0]))


@pytest.mark.parametrize(("change", "says"), [
    (lambda c: (c / "clip_vitb16_pretrain.pth.tar").unlink(), "clip_vitb16_pretrain.pth.tar: is not in the archive"),
    (lambda c: cut(c / "open_clip_vitb16_pretrain.pth.tar"), "open_clip_vitb16_pretrain.pth.tar: cannot be read"),
    (lambda c: _adapter(c, use_dora=True), "it sets use_dora"), (lambda c: _adapter(c, r=0), "tells no scale"),
    (_drop, "the adapter is of another model"),
    (lambda c: shutil.copy(c / "clip_vitb16_pretrain.pth.tar", c / "ensemble_lora" / "adapter_model.safetensors"),
     "adapter_model.safetensors: cannot be read")])
def test_damaged_archives_are_refused(made: tuple[Path, Any], tmp_path: Path, change: Any, says: str) -> None:
    shutil.copytree(made[0] / "unpacked", tmp_path / "unpacked")
    change(tmp_path / "unpacked")
    (tmp_path / "dreamsim").mkdir()
    shutil.copy(made[0] / "dreamsim" / module.DINO, tmp_path / "dreamsim" / module.DINO)
    pack(tmp_path / "unpacked", tmp_path / "dreamsim" / module.ARCHIVE)
    with pytest.raises(BackendUnavailableError, match=says) as caught:
        box(tmp_path).get("dreamsim")
    assert "weights fetch" in str(caught.value)


def test_other_kinds_of_adapters_and_large_members_are_refused(tmp_path: Path,
                                                               monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these settings of peft changes what an adapter adds."""
    def archive(**values: Any) -> ZipFile:
        with ZipFile(tmp_path / "a.zip", "w") as z:
            z.writestr("ensemble_lora/adapter_config.json", json.dumps({"r": 16, "lora_alpha": 0.5} | values))
        return ZipFile(tmp_path / "a.zip")

    for name, value in (("use_rslora", True), ("use_dora", True), ("fan_in_fan_out", True),
                        ("rank_pattern", {"0": 2}), ("alpha_pattern", {"0": 2})):
        with archive(**{name: value}) as z, pytest.raises(BackendUnavailableError, match=f"it sets {name}"):
            module._add_adapters([], z, tmp_path / "a.zip")
    monkeypatch.setattr(module, "_MOST_BYTES", 10)
    with archive() as z, pytest.raises(BackendUnavailableError, match="which is too many"):
        module._add_adapters([], z, tmp_path / "a.zip")


def test_another_dino_and_no_archive_are_refused(made: tuple[Path, Any], tmp_path: Path) -> None:
    torch = torch_of_tests()
    assert "weights fetch dreamsim" in box(tmp_path).lacking("dreamsim")
    folder = tmp_path / "dreamsim"
    shutil.copytree(made[0] / "dreamsim", folder)
    cut(folder / module.ARCHIVE)
    with pytest.raises(BackendUnavailableError, match="no archive that can be read"):
        box(tmp_path).get("dreamsim")
    torch.save({"cls_token": torch.zeros(1, 1, 24)}, folder / module.DINO)
    with pytest.raises(BackendUnavailableError, match="another model: no 'pos_embed'"):
        box(tmp_path).get("dreamsim")
