"""The cache of compiled kernels notices a change in another file that a kernel uses."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from spatialbench.renderers import _jit

HELPER = """
from numba import njit
@njit
def part(x):
    return x + {added}
"""
KERNEL = """
from numba import njit
from spatialbench.renderers import _jit
import {helper} as helper
part = helper.part
@njit(**_jit.KERNEL)
def whole(x):
    return 2 * part(x)
if {watched}:
    _jit.watch((whole,), (helper,))
"""


def imported(folder: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("watched", [True, False])
def test_a_change_in_a_helper_is_seen(tmp_path, monkeypatch, watched):
    """2 (x + added); without ``watch`` numba answers from its cache, by which the test knows that there is one."""
    helper, kernel = f"part_{watched}".lower(), f"whole_{watched}".lower()
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / f"{kernel}.py").write_text(KERNEL.format(helper=helper, watched=watched))
    answers = []
    for added in ("1", "10"):  # files of different sizes: times may be too coarse
        (tmp_path / f"{helper}.py").write_text(HELPER.format(added=added))
        imported(tmp_path, helper)
        answers.append(imported(tmp_path, kernel).whole(3))
    del sys.modules[helper], sys.modules[kernel]
    assert answers == ([8, 26] if watched else [8, 8])


def test_kernels_without_a_cache_are_left_alone():
    _jit.watch((abs,), (_jit,))
