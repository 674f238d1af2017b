"""Small scenes and recorded cases for the tests of placement."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from spatialbench.physics.placement import Release

DATA = Path(__file__).parents[1] / "data" / "placement"
FLAT = (0.0, 0.0, 0.0, 1.0)


def read_obj(path: Path) -> tuple[np.ndarray, np.ndarray]:
    v, f = [], []
    for line in path.read_text().splitlines():
        word = line.split()
        if word[:1] == ["v"]:
            v.append([float(x) for x in word[1:4]])
        elif word[:1] == ["f"]:
            i = [int(w.split("/")[0]) - 1 for w in word[1:]]
            f += [[i[0], i[k], i[k + 1]] for k in range(1, len(i) - 1)]
    return np.array(v), np.array(f)


def read_case(path: Path) -> tuple[dict[str, Any], np.ndarray, np.ndarray, list[Release]]:
    case = json.loads(path.read_text())
    v, f = read_obj(path.with_suffix(".obj"))
    releases = [Release(t["id"], tuple(t["release_centre"]), tuple(t["quaternion_xyzw"]), t["surface_z"])
                for t in case["trials"]]
    return case, v, f, releases


def join(*meshes: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    v, f, n = [], [], 0
    for mv, mf in meshes:
        v.append(np.asarray(mv, float))
        f.append(np.asarray(mf) + n)
        n += len(mv)
    return np.concatenate(v), np.concatenate(f)


def sheet(x0: float, y0: float, x1: float, y1: float, z: float) -> tuple[np.ndarray, np.ndarray]:
    """Two triangles that look up."""
    return (np.array([[x0, y0, z], [x1, y0, z], [x1, y1, z], [x0, y1, z]], float),
            np.array([[0, 1, 2], [0, 2, 3]]))


def box(x0: float, y0: float, z0: float, x1: float, y1: float, z1: float) -> tuple[np.ndarray, np.ndarray]:
    """Closed solid, wound outwards."""
    v = np.array([[x, y, z] for z in (z0, z1) for x, y in ((x0, y0), (x1, y0), (x1, y1), (x0, y1))], float)
    quads = [(3, 2, 1, 0), (4, 5, 6, 7), (0, 1, 5, 4), (1, 2, 6, 5), (2, 3, 7, 6), (3, 0, 4, 7)]
    return v, np.array([t for a, b, c, d in quads for t in ((a, b, c), (a, c, d))])


def grid(x0: float, y0: float, x1: float, y1: float, z: float, n: int) -> tuple[np.ndarray, np.ndarray]:
    """n by n squares of two triangles that look up."""
    x, y = np.meshgrid(np.linspace(x0, x1, n + 1), np.linspace(y0, y1, n + 1), indexing="ij")
    i, j = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
    a = (i * (n + 1) + j).ravel()
    return (np.column_stack([x.ravel(), y.ravel(), np.full(x.size, z)]),
            np.concatenate([np.column_stack([a, a + n + 1, a + n + 2]), np.column_stack([a, a + n + 2, a + 1])]))


def rectangle(x0: float, y0: float, x1: float, y1: float) -> np.ndarray:
    return np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]], float)
