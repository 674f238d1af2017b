"""How pyiqa is used: a stand-in package records what is asked of it; the real one where it is installed.

pyiqa is not among the packages of the tests (non-commercial, with many dependencies).
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spatialbench.errors import BackendUnavailableError, InputError
from spatialbench.scorers import pyiqa_models, registry
from spatialbench.scorers import weights as lock
from spatialbench.scorers.registry import ScorerBox
from spatialbench.scorers.settings import ScorerSettings

torch = pytest.importorskip("torch")
FILLED = {"topiq_nr": ("topiq_nr", "topiq-nr", "cfanet_nr_koniq_res50-9a73138b.pth",
                       {"pretrained": False, "backbone_pretrain": False}),
          "musiq": ("musiq", "musiq", "musiq_koniq_ckpt-e95806b9.pth", {"pretrained": False}),
          "musiq_spaq": ("musiq-spaq", "musiq-spaq", "musiq_spaq_ckpt-358bb6af.pth", {"pretrained": False})}

_PACKAGE = '''
import torch
calls = []
scored = []

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.head = torch.nn.Linear(3, 1)

class Metric(torch.nn.Module):
    def __init__(self, name, net):
        super().__init__()
        self.name, self.net = name, net

    def forward(self, x, **options):
        scored.append((self.name, tuple(x.shape), options))
        assert not self.training and x.dtype == torch.float32 and 0 <= x.min() and x.max() <= 1
        if self.name in ("nrqm", "niqe"):
            if x.min() == x.max():
                raise torch.linalg.LinAlgError("singular")
            return x.mean(dim=(1, 2, 3)) * (3 if self.name == "nrqm" else 5)
        if self.name == "qalign":
            return torch.full((len(x),), 2.5)
        return self.net.head(x.mean(dim=(2, 3)))

def create_metric(name, device=None, **options):
    calls.append((name, device, options))
    if name == "qalign":
        from pyiqa.archs.qalign_arch import made
        return Metric(name, made())
    return Metric(name, Net())
'''
_Q_ALIGN = '''
import torch
from pyiqa.archs.q_align.modeling_mplug_owl2 import parts

class CLIPImageProcessor:
    @classmethod
    def from_pretrained(cls, name, **options):
        parts.append(("processor", name, options))

class MPLUGOwl2LlamaForCausalLM(torch.nn.Linear):
    base_model_prefix = "model"
    preferential_ids_ = [5, 6, 7, 8, 9]
    lacks = ()

    @classmethod
    def from_pretrained(cls, name, **options):
        parts.append(("model", name, options))
        return cls(1, 1), {"missing_keys": set(cls.lacks), "mismatched_keys": set()}

def made():
    net = torch.nn.Module()
    net.model = MPLUGOwl2LlamaForCausalLM.from_pretrained("q-future/one-align", trust_remote_code=True)
    net.processor = CLIPImageProcessor.from_pretrained("q-future/one-align", trust_remote_code=True)
    return net
'''
_OWL = '''
parts = []
class LlamaTokenizer: pass
class CLIPImageProcessor: pass
'''


@pytest.fixture
def fake(tmp_path, monkeypatch) -> Any:
    root = tmp_path / "site"
    (root / "pyiqa/archs/q_align").mkdir(parents=True)
    for path, text in (("__init__.py", _PACKAGE), ("archs/__init__.py", ""), ("archs/qalign_arch.py", _Q_ALIGN),
                       ("archs/q_align/__init__.py", ""), ("archs/q_align/modeling_mplug_owl2.py", _OWL)):
        (root / "pyiqa" / path).write_text(text)
    ours = {k: v for k, v in sys.modules.items() if k.partition(".")[0] == "pyiqa"}
    for name in ours:
        del sys.modules[name]
    monkeypatch.syspath_prepend(str(root))
    importlib.invalidate_caches()
    yield importlib.import_module("pyiqa")
    for name in [k for k in sys.modules if k.partition(".")[0] == "pyiqa"]:
        del sys.modules[name]
    sys.modules.update(ours)


@pytest.fixture(autouse=True)
def only_pyiqa(monkeypatch):
    monkeypatch.setattr(registry, "_MODULES", ("pyiqa_models",))


@pytest.fixture
def unpinned(monkeypatch):
    """The lock without hashes and sizes, so that other files pass."""
    real = lock.load_lock()
    entries = tuple(e.model_copy(update={"files": tuple(f.model_copy(update={"sha256": None, "bytes": None})
                                                        for f in e.files)}) for e in real.weights)
    made = real.model_copy(update={"weights": entries})
    monkeypatch.setattr(lock, "load_lock", lambda: made)


@pytest.fixture
def folder(tmp_path) -> Path:
    return tmp_path / "weights"


def box_at(folder: Path) -> ScorerBox:
    return ScorerBox(ScorerSettings(weights=folder, device="cpu"))


def save(folder: Path, entry: str, file: str, data: Any) -> None:
    (folder / entry).mkdir(parents=True, exist_ok=True)
    torch.save(data, folder / entry / file)


HEAD = {"head.weight": torch.tensor([[0.2, 0.3, 0.5]]), "head.bias": torch.tensor([0.25])}


def images() -> list[np.ndarray]:
    rng = np.random.default_rng(4)
    return [rng.integers(0, 256, shape, dtype=np.uint8)
            for shape in ((8, 8, 3), (8, 8, 3), (1, 1, 3), (5, 9, 3), (8, 8, 3))]


@pytest.mark.parametrize("id", FILLED)
@pytest.mark.parametrize("wrapped", [False, True])
def test_networks_are_filled_from_the_folder(fake, unpinned, folder, id, wrapped):
    name, entry, file, options = FILLED[id]
    state = {f"module.{k}": v for k, v in HEAD.items()} if wrapped else HEAD
    save(folder, entry, file, {"params": state} if wrapped else state)
    box = box_at(folder)
    scores = box.get(id).rate(images(), "a text that changes nothing")
    # By hand: the head on the mean colour of each image, in their order.
    expected = [i.reshape(-1, 3).mean(axis=0) @ [0.2, 0.3, 0.5] / 255 + 0.25 for i in images()]
    assert scores.dtype == np.float64
    assert scores == pytest.approx(expected, rel=1e-5)  # Single precision over 64 pixels.
    assert [box.get(id).rate([i])[0] for i in images()] == pytest.approx(scores, rel=1e-6)
    assert fake.calls == [(name, torch.device("cpu"), options)]
    assert [shape for _, shape, _ in fake.scored][:4] == [(2, 3, 8, 8), (1, 3, 1, 1), (1, 3, 5, 9), (1, 3, 8, 8)]
    assert box.get(id).rate([]).shape == (0,)


@pytest.mark.parametrize("wrong", ["other model", "partly", "truncated", "code", "damaged"])
def test_weights_that_do_not_fit(fake, unpinned, folder, wrong):
    _, entry, file, _ = FILLED["topiq_nr"]
    save(folder, entry, file, {"other model": {"params": {"head.weight": torch.zeros(1, 4)}},
                               "partly": {"params": {"head.weight": HEAD["head.weight"]}},
                               "damaged": {"params": {**HEAD, "head.bias": torch.tensor([torch.nan])}},
                               "code": {"params": Path("x")}}.get(wrong, HEAD))
    path = folder / entry / file
    if wrong == "truncated":
        path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(BackendUnavailableError, match=r"(no tensors|another model|damaged).*weights fetch"):
        box_at(folder).get("topiq_nr")


def test_a_file_that_the_lock_does_not_know_is_never_opened(fake, folder):
    _, entry, file, _ = FILLED["topiq_nr"]
    save(folder, entry, file, HEAD)
    with pytest.raises(BackendUnavailableError, match="9a73138beb37"):
        box_at(folder).get("topiq_nr")
    assert fake.calls == []


@pytest.mark.parametrize("id", [*FILLED, "pi", "q_align"])
def test_without_weights(fake, folder, id):
    with pytest.raises(BackendUnavailableError, match="spatialbench weights fetch"):
        box_at(folder).get(id)


def test_without_pyiqa(folder, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(registry, "find_spec", lambda n: None if n == "pyiqa" else find(n))
    for id in (*FILLED, "pi", "q_align"):
        assert "spatialbench[iqa-noncommercial]" in box_at(folder).lacking(id)


def test_a_pyiqa_that_does_not_know_the_metric(fake, unpinned, folder, monkeypatch):
    def none(name: str, **options: Any) -> Any:
        raise KeyError(f"Unknown metric: {name}")

    monkeypatch.setattr(fake, "create_metric", none)
    save(folder, *FILLED["musiq"][1:3], HEAD)
    with pytest.raises(BackendUnavailableError, match=r"cannot make 'musiq'.*iqa-noncommercial"):
        box_at(folder).get("musiq")


@pytest.fixture
def pi(fake, unpinned, folder):
    (folder / "pi").mkdir(parents=True)
    for file in ("NRQM_model.mat", "niqe_modelparameters.mat"):
        (folder / "pi" / file).write_bytes(b"")
    return box_at(folder).get("pi")


def test_pi_is_made_of_its_two_parts(fake, folder, pi):
    """Eq. (33) with Ma = 3 m and NIQE = 5 m for a mean m: 5 + m."""
    big = [np.random.default_rng(k).integers(0, 256, (104, 200, 3), dtype=np.uint8) for k in range(3)]
    assert pi.rate(big) == pytest.approx([5 + i.mean() / 255 for i in big], rel=1e-5)
    parts = {"crop_border": 4, "color_space": "ycbcr"}
    assert fake.calls == [
        ("nrqm", torch.device("cpu"), {**parts, "pretrained_model_path": str(folder / "pi/NRQM_model.mat")}),
        ("niqe", torch.device("cpu"), {**parts, "pretrained_model_path": str(folder / "pi/niqe_modelparameters.mat")})]


@pytest.mark.parametrize(("size", "message"), [((1, 1), "too small"), ((103, 400), "too small"),
                                               ((104, 199), "199 x 104"), ((104, 200), "flat")])
def test_images_without_a_pi(pi, size, message):
    with pytest.raises(InputError, match=message):
        pi.rate([np.full((*size, 3), 70, np.uint8)])


def test_a_score_that_is_not_finite(fake, unpinned, folder):
    save(folder, *FILLED["musiq"][1:3], {**HEAD, "head.weight": torch.tensor([[3.0e38, 0.0, 0.0]])})
    black, red = np.zeros((8, 8, 3), np.uint8), np.full((8, 8, 3), (255, 0, 0), np.uint8)
    scorer = box_at(folder).get("musiq")
    scorer._score.net.head.weight.data *= 2  # infinity, which times 0 is no number
    with pytest.raises(InputError, match="image 0 has no finite score"):
        scorer.rate([black])
    with pytest.raises(InputError, match="image 1 has no finite score"):
        type(scorer)(lambda x: x.mean(dim=(1, 2, 3)) / x.amax(dim=(1, 2, 3)), torch.device("cpu"), 8).rate([red, black])


@pytest.fixture
def q_align_files(folder) -> Path:
    (folder / "q-align").mkdir(parents=True)
    for file in lock.weights_entry("q-align").files:
        (folder / "q-align" / file.path).write_bytes(b"")
    return folder / "q-align"


def test_q_align_is_loaded_from_the_folder(fake, unpinned, folder, q_align_files):
    scorer = box_at(folder).get("q_align")
    assert scorer.rate(images()).tolist() == [2.5] * 5
    assert [c[2] for c in fake.calls] == [{"dtype": "fp16"}]
    assert [(shape[0], options) for _, shape, options in fake.scored] == [(1, {"task_": "quality"})] * 5
    archs, owl = (importlib.import_module(m) for m in ("pyiqa.archs.qalign_arch",
                                                       "pyiqa.archs.q_align.modeling_mplug_owl2"))
    assert owl.parts == [
        ("model", q_align_files, {"local_files_only": True, "output_loading_info": True}),
        ("processor", q_align_files, {"local_files_only": True})]
    # What was lent to pyiqa is taken back.
    assert isinstance(archs.MPLUGOwl2LlamaForCausalLM, type)
    assert isinstance(owl.LlamaTokenizer, type)


@pytest.mark.parametrize(("name", "value", "message"), [
    ("lacks", ("weight",), "another model than Q-Align: 1 missing"),
    ("preferential_ids_", [5, 6, 5, 6, 5], "five words")])
def test_a_q_align_that_does_not_fit(fake, unpinned, folder, q_align_files, monkeypatch, name, value, message):
    archs = importlib.import_module("pyiqa.archs.qalign_arch")
    monkeypatch.setattr(archs.MPLUGOwl2LlamaForCausalLM, name, value)
    with pytest.raises(BackendUnavailableError, match=message):
        box_at(folder).get("q_align")
    assert isinstance(archs.MPLUGOwl2LlamaForCausalLM, type)


def test_a_pyiqa_with_other_parts(fake, unpinned, folder, q_align_files, monkeypatch):
    monkeypatch.delattr(importlib.import_module("pyiqa.archs.q_align.modeling_mplug_owl2"), "LlamaTokenizer")
    with pytest.raises(BackendUnavailableError, match="makes Q-Align in another way"):
        box_at(folder).get("q_align")


def test_the_mask_of_attention():
    mask = torch.tensor([[1, 0, 1]])
    assert pyiqa_models._inverted(mask).tolist() == [[[[0.0, -65504.0, 0.0]]]]  # The smallest of half precision.


@pytest.mark.slow
@pytest.mark.parametrize("id", FILLED)
def test_the_real_pyiqa(unpinned, folder, id):
    """Random weights of the real networks, through us and through pyiqa's own loading of a local file."""
    pyiqa = pytest.importorskip("pyiqa")
    name, entry, file, options = FILLED[id]
    more = {k: v for k, v in options.items() if k != "pretrained"}
    with torch.random.fork_rng():
        torch.manual_seed(1)
        net = pyiqa.create_metric(name, device=torch.device("cpu"), **options).net
    save(folder, entry, file, {"params": net.state_dict()} if id == "topiq_nr" else net.state_dict())
    own = pyiqa.create_metric(name, device=torch.device("cpu"), pretrained_model_path=str(folder / entry / file),
                              **more)
    rng = np.random.default_rng(2)
    some = [rng.integers(0, 256, shape, dtype=np.uint8) for shape in ((64, 64, 3), (64, 64, 3), (40, 90, 3))]
    expected = [float(own(torch.tensor(i / 255.0, dtype=torch.float32).permute(2, 0, 1)[None])) for i in some]
    # Single precision: some 1e-7 of values of the order of 1, and batches in another order of sums.
    assert box_at(folder).get(id).rate(some) == pytest.approx(expected, abs=1e-5)
