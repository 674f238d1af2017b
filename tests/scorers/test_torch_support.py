"""Batches that do not fit, devices that are not there, and models that cannot be opened."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from spatialbench.errors import BackendUnavailableError
from spatialbench.scorers import registry
from spatialbench.scorers.registry import ScorerBox, ScorerSpec, add_scorer
from spatialbench.scorers.settings import ScorerSettings
from spatialbench.scorers.torch_support import in_batches, load_state, torch_device

torch = pytest.importorskip("torch")

SHORT = [torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
         RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: you tried"),
         RuntimeError("MPS backend out of memory (MPS allocated: 17 GB)"), MemoryError()]
"""As torch says it of a GPU, a CPU and Apple's, and numpy."""


@pytest.mark.parametrize("error", SHORT, ids=lambda e: type(e).__name__ + str(e)[:8])
def test_batches_are_halved_until_they_fit_and_stay_so(error: Exception) -> None:
    sizes: list[int] = []

    def work(part: Sequence[int]) -> list[int]:
        sizes.append(len(part))
        assert torch.is_inference_mode_enabled()
        if len(part) > 3:
            raise error
        return [10 * k for k in part]

    assert in_batches(range(10), 8, work) == [10 * k for k in range(10)]
    assert sizes == [8, 4, 2, 2, 2, 2, 2]


def test_not_even_one_fits_and_other_errors_are_not_hidden() -> None:
    def fail(error: Exception) -> Any:
        def work(part: Sequence[int]) -> list[int]:
            raise error
        return work

    with pytest.raises(BackendUnavailableError, match=r"too little memory for one image.*--device"):
        in_batches([1, 2], 2, fail(SHORT[0]))
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        in_batches([1, 2], 2, fail(RuntimeError("mat1 and mat2 shapes cannot be multiplied")))
    assert in_batches([], 4, fail(SHORT[0])) == []


def test_what_did_not_fit_is_let_go_of_before_memory_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the error is handled its traceback holds the tensors, and emptying the cache would free nothing."""
    held: list[Any] = []
    there: list[bool] = []

    def work(part: Sequence[int]) -> list[int]:
        if len(part) > 1:
            large = torch.zeros(4)
            held.append(weakref.ref(large))
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return list(part)

    def empty() -> None:
        gc.collect()
        there.append(held[-1]() is not None)

    monkeypatch.setattr(torch.cuda, "empty_cache", empty)
    assert in_batches([1, 2], 2, work) == [1, 2]
    assert there == [False]


def test_a_gpu_computes_in_full_single_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    """cuDNN's convolutions are rounded to 10 bits otherwise (TF32)."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    try:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        assert torch_device(ScorerSettings(device="cpu")) == torch.device("cpu")
        assert torch.backends.cudnn.allow_tf32
        assert torch_device(ScorerSettings(device="auto")) == torch.device("cuda")
        assert not torch.backends.cuda.matmul.allow_tf32 and not torch.backends.cudnn.allow_tf32
        assert torch_device(ScorerSettings(device="cuda:1")) == torch.device("cuda:1")
        with pytest.raises(BackendUnavailableError, match=r"no device 'cuda:2'.*--device cpu"):
            torch_device(ScorerSettings(device="cuda:2"))
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


def test_devices_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert torch_device(ScorerSettings(device="auto")) == torch.device("cpu")
    for device in ("cuda", "cuda:0", "mps"):
        with pytest.raises(BackendUnavailableError, match=f"no device '{device}'"):
            torch_device(ScorerSettings(device=device))


# --- opening ----------------------------------------------------------------------------------------------


@pytest.fixture
def opening(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A box, and a scorer ``x`` of it that is opened by a function."""
    monkeypatch.setattr(registry, "_SPECS", {})
    monkeypatch.setattr(registry, "_MODULES", ())

    def made(open: Any, **more: Any) -> ScorerBox:
        add_scorer(ScorerSpec("x", "Model X", "rating", "tests", open, **more))
        return ScorerBox(ScorerSettings(weights=tmp_path, device="cpu"))
    return made


@pytest.mark.parametrize(("error", "says"), [
    (ImportError("cannot import name 'Old' from 'library'\nand more"),
     r"cannot be imported \(cannot import name 'Old' from 'library'\)\. .*pip install .spatialbench\[extra\]"),
    (SHORT[0], r"too little memory for Model X.*--device"), (SHORT[1], "too little memory for Model X"),
    (SHORT[3], "too little memory for Model X")], ids=["import", "gpu", "cpu", "numpy"])
def test_what_fails_when_it_is_opened_is_said_and_remembered(opening: Any, error: Exception, says: str) -> None:
    tried: list[int] = []

    def open(_: Any) -> Any:
        tried.append(1)
        raise error

    box = opening(open, packages=("torch",), extra="extra")
    for _ in range(2):
        with pytest.raises(BackendUnavailableError, match=says):
            box.get("x")
    assert len(tried) == 1 and "x" not in box.identity


def test_too_little_memory_is_no_fault_of_the_weights(
        opening: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*args: Any, **rest: Any) -> Any:
        raise SHORT[1]

    monkeypatch.setattr(torch, "load", fails)
    with pytest.raises(BackendUnavailableError, match="too little memory for Model X"):
        opening(lambda _: load_state(tmp_path / "w.pth"), packages=("torch",)).get("x")


def test_faults_of_the_code_are_not_hidden(opening: Any) -> None:
    def open(_: Any) -> Any:
        raise RuntimeError("Expected all tensors to be on the same device")

    with pytest.raises(RuntimeError, match="same device"):
        opening(open, packages=("torch",)).get("x")


def test_all_are_closed_also_when_one_fails_to_end() -> None:
    ended: list[str] = []

    class Ends:
        def __init__(self, name: str) -> None:
            self.name = name

        def close(self) -> None:
            ended.append(self.name)
            if self.name == "b":
                raise OSError("is gone")

    box = ScorerBox(ScorerSettings(), {n: Ends(n) for n in "abc"} | {"d": object()})
    with pytest.raises(OSError, match="is gone"):
        box.close()
    assert sorted(ended) == ["a", "b", "c"]
    box.close()
    assert len(ended) == 3
