"""Lets torchvision be imported beside a build of torch without CUDA, for tests only.

torchvision's own binary asks for CUDA's runtime, and without it two operators have no schema, on which its import
fails. They are declared here just before that import; none of the models under test calls them, but for ``nms``, which
gets a plain implementation. Beside a torch with CUDA nothing is done.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from typing import Any

_KEEP: list[Any] = []


def _declare() -> None:
    import torch

    if torch.version.cuda is not None or _KEEP:
        return
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    library.impl("nms", _nms, "CPU")
    _KEEP.append(library)


def _nms(boxes: Any, scores: Any, threshold: float) -> Any:
    import torch

    order = scores.argsort(descending=True).tolist()
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    kept: list[int] = []
    while order:
        best = order.pop(0)
        kept.append(best)
        low = torch.maximum(boxes[order, :2], boxes[best, :2])
        high = torch.minimum(boxes[order, 2:], boxes[best, 2:])
        inner = (high - low).clamp(min=0).prod(dim=1)
        share = inner / (area[order] + area[best] - inner)
        order = [k for k, s in zip(order, share.tolist(), strict=True) if s <= threshold]
    return torch.tensor(kept, dtype=torch.int64)


def _before(name: str, path: Any, target: Any, work: Any) -> importlib.machinery.ModuleSpec | None:
    """The module's spec, which does ``work`` when the module is really imported, and not when it is only looked for."""
    spec = importlib.machinery.PathFinder.find_spec(name, path, target)
    if spec is not None and spec.loader is not None:
        run = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            work()
            run(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
    return spec


class _Finder(importlib.abc.MetaPathFinder):
    """Declares the operators before torchvision is imported, and lets its checks for its own binary pass."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name == "torchvision":
            return _before(name, path, target, _declare)
        if name != "torchvision.ops.boxes" or not _KEEP:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                run(module)
                module._assert_has_ops = lambda: None

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


if not any(type(f).__name__ == "_Finder" and type(f).__module__ == __name__ for f in sys.meta_path):
    sys.meta_path.insert(0, _Finder())
