"""Every renderer gives the golden images; ``golden`` says how they are made."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from spatialbench.renderers._version import MESH_IMAGES, SPLAT_IMAGES

from .golden import MOST_OFF, digests, off
from .golden_cases import CASES, FOLDER, RECORDED, H, W, paths
from .usable import needs


@pytest.mark.parametrize(("case", "renderer"), [
    pytest.param(c, r, id=f"{c.name}-{r}", marks=needs(r)) for c in CASES for r in c.renderers])
def test_golden_image(case, renderer):
    assert max(off(case, renderer)) <= MOST_OFF


def test_the_folder_holds_the_list_and_nothing_else():
    listed = [p for c in CASES for p in paths(c)]
    assert sorted(FOLDER.iterdir()) == sorted(listed)
    assert sum(p.stat().st_size for p in listed) < 120_000
    for p in listed:
        image = np.asarray(Image.open(p))
        assert image.shape[:2] == (H, W) and np.ptp(image) > 0


def test_new_images_have_a_new_version():
    """Else ``render`` would keep pictures that would be drawn otherwise now."""
    now = digests()
    assert {"mesh": (MESH_IMAGES, now["mesh"]), "splats": (SPLAT_IMAGES, now["splats"])} == RECORDED
