"""Optical flow: DIS on motions that are known, RAFT with random weights against torchvision used directly."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spatialbench.errors import BackendUnavailableError, UsageError
from spatialbench.scorers import registry
from spatialbench.scorers.flow import DisFlow
from spatialbench.scorers.registry import ScorerBox
from spatialbench.scorers.settings import ScorerSettings
from tests.scorers.tiny_vision import out_of_order

FILE = "raft_large_C_T_V1-22a6c225.pth"
WIDTH, HEIGHT = 640, 360


@pytest.fixture(autouse=True)
def only_flow(monkeypatch):
    monkeypatch.setattr(registry, "_MODULES", ("flow",))


def scene(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """A texture without repetition that can be sampled anywhere, so that a moved image needs no interpolation."""
    rng = np.random.default_rng(11)
    out = np.zeros(x.shape)
    for wave in np.geomspace(8, 160, 20):
        angle, phase = rng.uniform(0, 2 * np.pi, 2)
        out += np.sqrt(wave) * np.sin((np.cos(angle) * x + np.sin(angle) * y) * 2 * np.pi / wave + phase)
    gray = np.clip(np.round(128 + 60 * out / 20), 0, 255).astype(np.uint8)
    return np.repeat(gray[:, :, None], 3, axis=2)


def moved(matrix: np.ndarray, shift: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two images and the true flow [H,W,2]: the point p of the first is at matrix (p - centre) + centre + shift."""
    y, x = np.mgrid[:HEIGHT, :WIDTH].astype(float)
    centre = np.array([(WIDTH - 1) / 2, (HEIGHT - 1) / 2])
    p = np.stack([x, y], axis=-1) - centre
    back = (p - shift) @ np.linalg.inv(matrix).T + centre
    truth = p @ (matrix - np.eye(2)).T + shift
    return scene(x, y), scene(back[..., 0], back[..., 1]), truth


def turned(degrees: float) -> np.ndarray:
    a = np.deg2rad(degrees)
    return np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]])


@pytest.mark.parametrize(("matrix", "shift"), [
    (np.eye(2), (0.0, 0.0)), (np.eye(2), (1.0, 0.5)), (np.eye(2), (-4.0, 2.0)), (np.eye(2), (12.0, -6.0)),
    (np.eye(2), (30.0, 15.0)), (1.02 * np.eye(2), (0.0, 0.0)), (turned(2), (0.0, 0.0))],
    ids=["still", "1.1 px", "4.5 px", "13.4 px", "33.5 px", "zoom 2 %", "2 degrees"])
def test_dis_on_known_motions(matrix, shift):
    first, second, truth = moved(matrix, np.array(shift))
    found = DisFlow().flow(first, second)
    assert found.shape == (HEIGHT, WIDTH, 2)
    assert found.dtype == np.float32
    error = np.linalg.norm(found - truth, axis=2)
    # What leaves the second image, and within a patch of its edge, has no counterpart there.
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    to_x, to_y = x + truth[..., 0], y + truth[..., 1]
    seen = (to_x > 8) & (to_x < WIDTH - 9) & (to_y > 8) & (to_y < HEIGHT - 9)
    # Measured elsewhere on a real frame of this size: .10 px mean at most, over these same motions (of which the
    # whole frame counted); 1.5 times that bounds it here, and a still scene has no motion at all.
    assert error[seen].mean() < 0.15
    if not shift[0] and np.array_equal(matrix, np.eye(2)):
        assert not found.any()


def test_dis_weighs_red_more_than_blue():
    """Red (0.299 of gray) goes to the right by 4 pixels, blue (0.114), another texture, to the left."""
    y, x = np.mgrid[:HEIGHT, :WIDTH].astype(float)
    first, second = (np.stack([scene(x - k, y)[..., 0], np.full((HEIGHT, WIDTH), 90, np.uint8),
                               scene(y + 500, x + k)[..., 0]], axis=2) for k in (0, 4))
    found = DisFlow().flow(first, second)[40:-40, 40:-40]
    assert abs(float(np.median(found[..., 0])) - 4) < 1
    assert abs(float(np.median(found[..., 1]))) < 1


def test_dis_is_the_same_for_any_number_of_threads():
    import cv2

    first, second, _ = moved(turned(1), np.array([3.0, -2.0]))
    before = cv2.getNumThreads()
    try:
        found = []
        for threads in (1, 2):
            cv2.setNumThreads(threads)
            found.append(DisFlow().flow(first, second).tobytes())
    finally:
        cv2.setNumThreads(before)
    assert found[0] == found[1]


@settings(max_examples=15, deadline=None)
@given(width=st.integers(1, 40), height=st.integers(1, 40), value=st.integers(0, 255))
def test_dis_takes_any_size_and_sees_no_motion_between_equal_images(width, height, value):
    image = np.random.default_rng(value).integers(0, 256, (height, width, 3), dtype=np.uint8)
    found = DisFlow().flow(image, image)
    assert found.shape == (height, width, 2)
    assert not found.any()


def test_the_stand_in_needs_nothing():
    box = ScorerBox(ScorerSettings(weights=Path("/nowhere")))
    assert box.lacking("flow_dis") == ""
    assert registry.scorer_specs()["flow_dis"].stands_in_for == "raft"
    with pytest.raises(UsageError, match="images of one size, not 20 x 10 and 10 x 20"):
        box.get("flow_dis").flow(np.zeros((10, 20, 3), np.uint8), np.zeros((20, 10, 3), np.uint8))


@pytest.fixture(scope="module")
def weights(tmp_path_factory) -> Path:
    """Random weights of the real architecture (21 MB)."""
    torch = pytest.importorskip("torch")
    models = pytest.importorskip("torchvision.models.optical_flow")
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("weights")
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = models.raft_large(weights=None)
    (folder / "raft").mkdir()
    torch.save(model.state_dict(), folder / "raft" / FILE)
    return folder


@pytest.fixture(scope="module")
def raft(weights):
    before = registry._MODULES
    registry._MODULES = ("flow",)
    try:
        return ScorerBox(ScorerSettings(weights=weights, device="cpu")).get("raft")
    finally:
        registry._MODULES = before


@pytest.fixture(scope="module")
def direct(weights):
    torch = pytest.importorskip("torch")
    models = pytest.importorskip("torchvision.models.optical_flow")
    model = models.raft_large(weights=None).eval()
    model.load_state_dict(torch.load(weights / "raft" / FILE, weights_only=True))

    def flow(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        pair = [torch.tensor(i.transpose(2, 0, 1)[None] / 255.0 * 2 - 1, dtype=torch.float32) for i in (first, second)]
        with torch.no_grad():
            return model(*pair, num_flow_updates=20)[-1][0].numpy().transpose(1, 2, 0)

    return flow


def pair(height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    y, x = np.mgrid[:height, :width].astype(float)
    colour = np.array([1.0, 0.7, 0.4])  # the channels are told apart
    return tuple((colour * scene(*at)).astype(np.uint8) for at in ((x, y), (x - 2, y + 1)))


def close(found: np.ndarray, expected: np.ndarray) -> bool:
    # Twenty updates of single precision: 1e-4 of the largest motion.
    return bool(np.abs(found - expected).max() <= 1e-4 * max(1.0, float(np.abs(expected).max())))


def test_raft_is_torchvisions_on_images_padded_as_its_authors_do(raft, direct):
    first, second = pair(100, 131)
    edges = ((14, 14), (2, 3), (0, 0))  # To 128 and 136: the half on each side, the odd one after.
    padded = [np.pad(i, edges, mode="edge") for i in (first, second)]
    found = raft.flow(first, second)
    assert found.shape == (100, 131, 2)
    assert found.dtype == np.float32
    assert np.abs(found).max() > 0.01
    assert close(found, direct(*padded)[14:-14, 2:-3])


def test_raft_out_of_order(raft):
    with out_of_order(raft._model), pytest.raises(BackendUnavailableError, match="not finite"):
        raft.flow(*pair(16, 16))


def test_raft_on_one_pixel(raft):
    found = raft.flow(np.zeros((1, 1, 3), np.uint8), np.full((1, 1, 3), 255, np.uint8))
    assert found.shape == (1, 1, 2)
    assert np.isfinite(found).all()


def test_raft_between_two_sizes(raft):
    with pytest.raises(UsageError, match="one size"):
        raft.flow(np.zeros((8, 8, 3), np.uint8), np.zeros((8, 9, 3), np.uint8))


def test_images_that_are_none():
    for wrong in (np.zeros((20, 20, 3)), np.zeros((20, 20), np.uint8), np.zeros((20, 20, 4), np.uint8)):
        with pytest.raises(ValueError, match="not uint8"):
            DisFlow().flow(wrong, wrong)


def settings_at(folder: Path) -> ScorerSettings:
    return ScorerSettings(weights=folder, device="cpu")


def test_raft_without_weights(tmp_path):
    box = ScorerBox(settings_at(tmp_path))
    assert "spatialbench weights fetch raft" in box.lacking("raft")
    with pytest.raises(BackendUnavailableError, match="weights fetch raft"):
        box.get("raft")


@pytest.mark.parametrize("wrong", ["truncated", "text", "other model", "partly"])
def test_raft_with_wrong_weights(tmp_path, weights, wrong):
    torch = pytest.importorskip("torch")
    (tmp_path / "raft").mkdir()
    path = tmp_path / "raft" / FILE
    if wrong == "truncated":
        path.write_bytes((weights / "raft" / FILE).read_bytes()[:1_000_000])
    elif wrong == "text":
        path.write_text("<html>404</html>")
    elif wrong == "other model":
        torch.save(torch.nn.Linear(2, 2).state_dict(), path)
    else:
        state = torch.load(weights / "raft" / FILE, weights_only=True)
        torch.save({k: v for k, v in list(state.items())[:-1]}, path)
    with pytest.raises(BackendUnavailableError, match=r"(no tensors|another model).*weights fetch") as raised:
        ScorerBox(settings_at(tmp_path)).get("raft")
    assert str(path) in str(raised.value)


def test_raft_without_torch(weights, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(registry, "find_spec", lambda n: None if n == "torchvision" else find(n))
    assert "spatialbench[torch]" in ScorerBox(settings_at(weights)).lacking("raft")
