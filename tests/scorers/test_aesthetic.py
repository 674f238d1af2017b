"""LAION's heads: against a Sequential of torch with the same weights, and files that are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spatialbench.errors import BackendUnavailableError
from spatialbench.scorers import registry
from tests.scorers.tiny_vision import box, cut, forget_pins, torch_of_tests, use_modules

MLP = ("laion-aes", "sac+logos+ava1-l14-linearMSE.pth")
LINEAR = ("laion-aes-linear", "sa_0_4_vit_l_14_linear.pth")


def sequential() -> Any:
    """The head as its authors wrote it: linear layers and dropouts."""
    torch = torch_of_tests()
    nn = torch.nn
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(768, 1024), nn.Dropout(0.2), nn.Linear(1024, 128), nn.Dropout(0.2),
                           nn.Linear(128, 64), nn.Dropout(0.1), nn.Linear(64, 16), nn.Linear(16, 1))
    return layers.eval()


def save(root: Path, head: tuple[str, str], state: dict[str, Any]) -> Path:
    path = root / head[0] / head[1]
    path.parent.mkdir(parents=True, exist_ok=True)
    torch_of_tests().save(state, path)
    return path


@pytest.fixture(autouse=True)
def _lock(monkeypatch: pytest.MonkeyPatch) -> None:
    use_modules(monkeypatch, "aesthetic")
    forget_pins(monkeypatch, MLP[0], LINEAR[0])


@pytest.fixture
def mlp(tmp_path: Path) -> Path:
    save(tmp_path, MLP, {f"layers.{k}": v for k, v in sequential().state_dict().items()})
    return tmp_path


def vectors(count: int) -> np.ndarray:
    return np.random.default_rng(1).normal(0, 10, (count, 768)).astype(np.float32)


def test_the_mlp_is_the_authors(mlp: Path) -> None:
    torch = torch_of_tests()
    given = vectors(7)
    found = box(mlp).get("laion_aes").rate_embeddings(given)
    assert found.dtype == np.float64
    with torch.no_grad():
        unit = torch.nn.functional.normalize(torch.from_numpy(given).double(), dim=1)
        expected = sequential().double()(unit)[:, 0].numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-11)  # float64 throughout
    # Only directions count, and neither the number of vectors nor their order.
    head = box(mlp).get("laion_aes")
    np.testing.assert_allclose(head.rate_embeddings(given * np.float32(4)), found, rtol=1e-12)
    assert [float(head.rate_embeddings(v[None])[0]) for v in given] == found.tolist()
    assert head.rate_embeddings(given[::-1]).tolist() == found[::-1].tolist()
    assert head.rate_embeddings(vectors(0)).shape == (0,)


def test_the_linear_head_is_a_scalar_product(tmp_path: Path) -> None:
    torch = torch_of_tests()
    weight = torch.linspace(-1, 1, 768)[None]
    save(tmp_path, LINEAR, {"weight": weight, "bias": torch.tensor([5.0])})
    given = vectors(3)
    unit = given.astype(np.float64) / np.sqrt((given.astype(np.float64) ** 2).sum(axis=1, keepdims=True))
    found = box(tmp_path).get("laion_aes_linear").rate_embeddings(given)
    np.testing.assert_allclose(found, (unit * weight.numpy().astype(np.float64)).sum(axis=1) + 5, rtol=1e-12)


def test_vectors_without_a_direction_and_of_other_models(mlp: Path) -> None:
    head = box(mlp).get("laion_aes")
    for bad in (np.zeros((1, 768), np.float32), np.full((1, 768), np.nan, np.float32)):
        with pytest.raises(BackendUnavailableError, match=r"no direction.*weights verify"):
            head.rate_embeddings(bad)
    with pytest.raises(BackendUnavailableError, match=r"of 768 numbers, not \[512\].*clip_l14"):
        head.rate_embeddings(np.ones((2, 512), np.float32))


class _Code:
    ran = False

    def __reduce__(self) -> Any:
        return (setattr, (_Code, "ran", True))


@pytest.mark.parametrize(("change", "says"), [
    (lambda s: s.pop("layers.7.bias"), "'layers.7.bias' is missing, not 1"),
    (lambda s: s.update({"layers.2.weight": s["layers.2.weight"].T}), "'layers.2.weight' is 1024x128, not 128x1024"),
    (lambda s: s.update({"more": s["layers.7.bias"]}), "holds 11 tensors where this head has 10"),
    (lambda s: s["layers.0.weight"].fill_(float("nan")), "not finite"),
    (lambda s: s.update({"a": _Code()}), "no tensors that can be read")])
def test_other_heads_are_refused(tmp_path: Path, change: Callable[[dict[str, Any]], Any], says: str) -> None:
    state = {f"layers.{k}": v.clone() for k, v in sequential().state_dict().items()}
    change(state)
    save(tmp_path, MLP, state)
    with pytest.raises(BackendUnavailableError, match=says) as caught:
        box(tmp_path).get("laion_aes")
    assert "weights fetch" in str(caught.value)
    assert not _Code.ran


def test_truncated_and_missing_files_and_packages(mlp: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut(mlp / MLP[0] / MLP[1])
    with pytest.raises(BackendUnavailableError, match=r"no tensors that can be read.*weights fetch"):
        box(mlp).get("laion_aes")
    assert "weights fetch laion-aes-linear" in box(tmp_path).lacking("laion_aes_linear")
    monkeypatch.setattr(registry, "find_spec", lambda name: None)
    assert box(mlp).lacking("laion_aes") == 'torch is not installed: pip install "spatialbench[vision]"'
