"""``python -m tests.renderers.golden``: compare the golden images with what is drawn now; ``--write``: draw anew."""

from __future__ import annotations

import argparse
import hashlib
import sys

import numpy as np
from PIL import Image

from .golden_cases import CASES, FOLDER, GoldenCase, draw, paths

MOST_OFF = 0.01
"""Share of the pixels that may be off by more than a step: outlines, where drivers and float32 differ."""


def off(case: GoldenCase, renderer: str) -> tuple[float, float]:
    """Share of the pixels whose colours differ by more than 1 of 255, and whose depth by more than 1 mm."""
    colours, depth = draw(case, renderer)
    golden = [np.asarray(Image.open(p)).astype(np.int64) for p in paths(case)]
    return (float((np.abs(golden[0] - colours) > 1).any(axis=-1).mean()),
            float((np.abs(golden[1] - depth) > 1).mean()))


def write(case: GoldenCase) -> None:
    """Draw a case by its first renderer."""
    for array, path in zip(draw(case, case.renderers[0]), paths(case), strict=True):
        Image.fromarray(array).save(path, optimize=True)


def digests() -> dict[str, str]:
    """Of the pixels of all images of each geometry."""
    out = {}
    for geometry, splats in (("mesh", False), ("splats", True)):
        total = hashlib.sha256()
        for case in CASES:
            if ("splat-cpu" in case.renderers) == splats:
                for path in paths(case):
                    total.update(np.asarray(Image.open(path)).astype("<u2").tobytes())
        out[geometry] = total.hexdigest()[:16]
    return out


def main() -> int:
    """Print one line a case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="replace the images; look at what changed before commit")
    if parser.parse_args().write:
        FOLDER.mkdir(exist_ok=True)
        for case in CASES:
            write(case)
            print("wrote", case.name)
        print("Raise the version in renderers/_version.py and record in golden_cases.RECORDED:", digests())
        return 0
    worst = 0.0
    for case in CASES:
        colours, depth = off(case, case.renderers[0])
        worst = max(worst, colours, depth)
        print(f"{case.name}: {colours:.2%} of the colours, {depth:.2%} of the depths are off")
    return int(worst > MOST_OFF)


if __name__ == "__main__":
    sys.exit(main())
