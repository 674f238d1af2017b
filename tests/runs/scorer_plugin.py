"""A plugin with a scorer that is declared to be on torch; a copy is installed by tests. Files in its folder steer it.

It notes every process that opens it. ``crash`` ends the process at the next rating, once; ``wait`` makes it sleep.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from spatialbench.scorers.registry import Opening, ScorerSpec, add_scorer

FOLDER = Path(__file__).parent


class Rater:
    def __init__(self) -> None:
        self.identity = {"threads": os.environ["OMP_NUM_THREADS"]}
        with open(FOLDER / "opened", "a", encoding="ascii") as f:
            f.write(f"{os.getpid()}\n")

    def rate(self, images: Any, text: str = "") -> np.ndarray:
        if (FOLDER / "crash").exists():
            (FOLDER / "crash").unlink()
            os._exit(9)
        if (FOLDER / "wait").exists():
            (FOLDER / "waiting").write_text(str(os.getpid()))
            time.sleep(600)
        weights = np.random.default_rng(0).random((images[0].size, 8), dtype=np.float32)
        return np.array([float((image.reshape(1, -1).astype(np.float32) @ weights).mean()) for image in images])


def _open(opening: Opening) -> Rater:
    return Rater()


add_scorer(ScorerSpec("plug", "a plugin's rater", "rating", "tests", _open, packages=("torch",),
                      stands_in_for="topiq_nr"))
