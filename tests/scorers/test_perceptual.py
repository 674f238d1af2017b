"""LPIPS-VGG: real linear heads on a random trunk, against the package called directly and against the formula."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from spatialbench.errors import BackendUnavailableError, InputError
from spatialbench.metrics.editing import background_mean
from spatialbench.scorers import perceptual, registry
from tests.scorers.tiny_vision import box, cut, forget_pins, noise, torch_of_tests, use_modules

CLOSE = {"rtol": 2e-4, "atol": 1e-6}
"""Thirteen convolutions of up to 4608 float32 products, in another order."""


@pytest.fixture(scope="session")
def trunk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("lpips")
    write_trunk(root / "lpips-vgg")
    return root


def write_trunk(folder: Path) -> None:
    """VGG16's convolutions at random, in torchvision's names; drawn large enough that all stages answer."""
    torch = torch_of_tests()
    from torchvision.models import vgg

    with torch.device("meta"):
        empty = vgg.make_layers(vgg.cfgs["D"]).state_dict()
    made = torch.Generator().manual_seed(0)
    state = {}
    for name, value in empty.items():
        scale = (2 / value[0].numel()) ** 0.5 if value.ndim == 4 else 0.01
        state[f"features.{name}"] = torch.randn(value.shape, generator=made) * scale
    state["classifier.0.weight"] = torch.zeros(2, 2)  # the real file has a classifier, which is not looked at
    folder.mkdir(parents=True)
    torch.save(state, folder / "vgg16-397923af.pth")


@pytest.fixture(autouse=True)
def _lock(monkeypatch: pytest.MonkeyPatch) -> None:
    use_modules(monkeypatch, "perceptual")
    forget_pins(monkeypatch, "lpips-vgg")


@pytest.fixture(scope="session")
def scorer(trunk: Path) -> Any:
    with pytest.MonkeyPatch.context() as m:
        use_modules(m, "perceptual")
        forget_pins(m, "lpips-vgg")
        opened = box(trunk)
        scorer = opened.get("lpips_vgg")
        # The heads are the package's, which the lock file pins.
        assert opened.identity["lpips_vgg"]["lpips-heads/vgg.pth"].startswith("a78928a0af1e5f0f")
        return scorer


@pytest.fixture(scope="session")
def direct(trunk: Path) -> Any:
    """The package's own class, which reads the heads with its own code."""
    torch = torch_of_tests()
    import lpips
    from torchvision.models import vgg

    with pytest.MonkeyPatch.context() as m:  # its classifier of 500 MB is not used
        m.setattr(lpips.pretrained_networks.tv, "vgg16",
                  lambda **_: SimpleNamespace(features=vgg.make_layers(vgg.cfgs["D"])))
        model = lpips.LPIPS(net="vgg", pnet_rand=True, spatial=True, verbose=False)
    state = torch.load(trunk / "lpips-vgg" / "vgg16-397923af.pth", weights_only=True)
    for number in range(1, 6):
        for name, layer in getattr(model.net, f"slice{number}").named_children():
            if hasattr(layer, "weight"):
                layer.weight.data = state[f"features.{name}.weight"]
                layer.bias.data = state[f"features.{name}.bias"]
    return model


def direct_map(model: Any, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    torch = torch_of_tests()
    import lpips

    with torch.no_grad():
        return model(lpips.im2tensor(a), lpips.im2tensor(b))[0, 0].numpy()


def test_maps_are_those_of_the_package(scorer: Any, direct: Any) -> None:
    sizes = [(40, 56), (40, 56), (33, 70), (16, 16), (40, 56)]
    first = [noise(h, w, k) for k, (h, w) in enumerate(sizes)]
    second = [noise(h, w, 10 + k) for k, (h, w) in enumerate(sizes)]
    first[1][:] = 90  # constant
    second[2] = np.repeat(second[2][..., :1], 3, axis=2)  # without colour
    maps = scorer.difference_maps(first, second)
    assert [m.shape for m in maps] == sizes
    assert all(m.dtype == np.float32 for m in maps)
    for found, a, b in zip(maps, first, second, strict=True):
        np.testing.assert_allclose(found, direct_map(direct, a, b), **CLOSE)


def test_distances_are_the_usual_scalar(scorer: Any, direct: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = [noise(40, 56), noise(37, 41)], [noise(40, 56, 1), noise(37, 41, 2)]
    monkeypatch.setattr(direct, "spatial", False)
    expected = [direct_map(direct, a, b)[0, 0] for a, b in zip(first, second, strict=True)]
    found = scorer.distances(first, second)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, **CLOSE)
    # Where all stages divide the image evenly it is the mean of the map up to the borders of the resize.
    even = scorer.difference_maps([noise(64, 64)], [noise(64, 64, 1)])[0]
    assert float(scorer.distances([noise(64, 64)], [noise(64, 64, 1)])[0]) == pytest.approx(even.mean(), rel=0.05)


def test_the_formula_by_hand(scorer: Any, trunk: Path) -> None:
    """Unit features after each stage, squared differences, learned weights, bilinear to the image, summed."""
    torch = torch_of_tests()
    import lpips

    f = torch.nn.functional
    state = torch.load(trunk / "lpips-vgg" / "vgg16-397923af.pth", weights_only=True)
    heads = torch.load(Path(lpips.__file__).parent / "weights" / "v0.1" / "vgg.pth", map_location="cpu",
                       weights_only=True)
    a, b = noise(32, 48), noise(32, 48, 9)
    shift, scale = torch.tensor([-0.030, -0.088, -0.188]), torch.tensor([0.458, 0.448, 0.450])
    x = torch.stack([(torch.from_numpy(i).float() / 127.5 - 1 - shift) / scale for i in (a, b)]).permute(0, 3, 1, 2)
    total = torch.zeros(32, 48)
    for stage, layers in enumerate(((0, 2), (5, 7), (10, 12, 14), (17, 19, 21), (24, 26, 28))):
        x = x if stage == 0 else f.max_pool2d(x, 2)
        for n in layers:
            x = f.relu(f.conv2d(x, state[f"features.{n}.weight"], state[f"features.{n}.bias"], padding=1))
        unit = x / (x.norm(dim=1, keepdim=True) + 1e-10)
        one = f.conv2d((unit[:1] - unit[1:]) ** 2, heads[f"lin{stage}.model.1.weight"])
        total += f.interpolate(one, size=(32, 48), mode="bilinear", align_corners=False)[0, 0]
    np.testing.assert_allclose(scorer.difference_maps([a], [b])[0], total.numpy(), **CLOSE)


def test_equal_images_symmetry_order_and_batches(scorer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = [noise(32, 32, k) for k in range(5)], [noise(32, 32, 9 - k) for k in range(5)]
    assert scorer.difference_maps(first[:1], first[:1])[0].tolist() == np.zeros((32, 32)).tolist()
    assert scorer.distances(first[:1], first[:1]).tolist() == [0.0]
    found = scorer.difference_maps(first, second)
    assert min(float(m.min()) for m in found) >= 0  # squares with weights that are not negative
    for k, one in enumerate(scorer.difference_maps(second[::-1], first[::-1])[::-1]):
        np.testing.assert_allclose(one, found[k], **CLOSE)
    monkeypatch.setattr(perceptual, "_PAIRS", 1)
    for k, one in enumerate(scorer.difference_maps(first, second)):
        np.testing.assert_allclose(one, found[k], **CLOSE)
    assert scorer.difference_maps([], []) == []
    assert scorer.distances([], []).shape == (0,)


def test_a_change_is_seen_where_it_is(scorer: Any) -> None:
    before = np.full((128, 128, 3), 120, np.uint8)
    after = before.copy()
    after[8:24, 90:106] = noise(16, 16)
    changed = scorer.difference_maps([before], [after])[0]
    row, column = np.unravel_index(int(changed.argmax()), changed.shape)
    assert 4 <= row < 28
    assert 86 <= column < 110
    far = np.ones((128, 128), bool)
    far[:, 50:] = False
    near, rest = background_mean(changed, ~far), background_mean(changed, far)
    assert near is not None
    assert rest is not None
    assert near == pytest.approx(float(changed[:, 50:].mean(dtype=np.float64)))  # M33's mean over the mask
    assert near > 2 * rest  # not none: the last stages see about half of the image from everywhere


def test_what_cannot_be_compared_is_said(scorer: Any) -> None:
    with pytest.raises(InputError, match=r"image 0: 40 x 15 pixels are too few.*16 x 16"):
        scorer.difference_maps([noise(15, 40)], [noise(15, 40)])
    with pytest.raises(InputError, match="1 x 1 pixels"):
        scorer.distances([noise(1, 1)], [noise(1, 1)])
    with pytest.raises(ValueError, match="pair 0: images of"):
        scorer.distances([noise(20, 20)], [noise(20, 21)])
    with pytest.raises(ValueError, match="no pairs"):
        scorer.distances([noise(20, 20)], [])


def test_damaged_weights_are_refused(trunk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = torch_of_tests()
    assert "weights fetch lpips-vgg" in box(tmp_path).lacking("lpips_vgg")
    path = tmp_path / "lpips-vgg" / "vgg16-397923af.pth"
    path.parent.mkdir()
    torch.save({"features.0.weight": torch.zeros(64, 3, 3, 3)}, path)
    with pytest.raises(BackendUnavailableError, match=r"another model: no 'slice1\.0\.bias'.*weights fetch"):
        box(tmp_path).get("lpips_vgg")
    torch.save({"features.0.weight": torch.zeros(64, 3, 5, 5), "features.0.bias": torch.zeros(64)}, path)
    with pytest.raises(BackendUnavailableError, match=r"'slice1\.0\.weight' is 64x3x5x5, not 64x3x3x3"):
        box(tmp_path).get("lpips_vgg")
    cut(path)
    with pytest.raises(BackendUnavailableError, match="no tensors that can be read"):
        box(tmp_path).get("lpips_vgg")
    monkeypatch.setattr(registry, "find_spec", lambda name: None if name == "lpips" else object())
    assert box(trunk).lacking("lpips_vgg") == 'lpips is not installed: pip install "spatialbench[lpips]"'
