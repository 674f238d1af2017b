"""Compiled loops of the import against plain rules: large buckets, faults of splats, opaque pictures."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spatialbench.errors import EmptyWorldError
from spatialbench.scene import _mesh_kernels
from spatialbench.scene.images import TextureStore
from spatialbench.scene.log import ReadLog
from spatialbench.scene.splats.judge import _FAULTS, judge
from spatialbench.scene.splats.raw import RawSplats
from spatialbench.scene.topology import topology
from spatialbench.types import TriangleMesh


@pytest.mark.parametrize("n", [_mesh_kernels.ALONE - 1, _mesh_kernels.ALONE + 1, 500])
def test_a_fan_around_a_vertex(n):
    """n triangles around vertex 0, closed to a disc: n spokes of two faces, n edges of the rim of one. Its buckets of
    edges (2n) and faces (n) are those of one vertex; one face is there twice, which makes its three edges branch or
    run the same way."""
    ring = np.arange(n)
    rim = np.stack([np.cos(ring * 2 * np.pi / n), np.sin(ring * 2 * np.pi / n), np.zeros(n)], axis=1)
    vertices = np.concatenate([np.zeros((1, 3)), rim])
    faces = np.stack([np.zeros(n, np.int64), 1 + ring, 1 + (ring + 1) % n], axis=1)
    order = np.random.default_rng(0).permutation(n)
    found = topology(TriangleMesh(vertices, faces[order])).as_json()
    assert found == {"edges": 2 * n, "boundary_edges": n, "nonmanifold_edges": 0, "inconsistent_edges": 0,
                     "duplicate_faces": 0, "components": 1, "closed_components": 0, "inward_components": 0}
    twice = topology(TriangleMesh(vertices, np.concatenate([faces[order], faces[:1, [1, 2, 0]]])))
    assert (twice.edges, twice.boundary_edges, twice.nonmanifold_edges) == (2 * n, n - 1, 2)
    assert (twice.inconsistent_edges, twice.duplicate_faces) == (1, 1)


ODD = st.sampled_from([1.0, 0.0, -0.0, -1.0, np.nan, np.inf, -np.inf, 3e38, 1e-45])


def first_fault(mean, scale, turn, opacity, sh) -> str:
    """Of one splat, in the order in which they are counted."""
    length = np.sqrt((turn.astype(np.float64) ** 2).sum())
    rules = (not np.isfinite(mean).all(), np.isnan(scale).any(), np.isinf(scale).any(), (scale < 0).any(),
             not np.isfinite(length), length == 0, np.isnan(opacity), not np.isfinite(sh).all())
    return next((name for name, is_so in zip(_FAULTS[1:], rules, strict=True) if is_so), "")


@settings(max_examples=80, deadline=None)
@given(rows=st.lists(st.lists(ODD, min_size=14, max_size=14), min_size=1, max_size=12))
def test_each_splat_is_counted_under_its_first_fault(rows):
    table = np.array(rows).astype(np.float32)
    means, scales, turns, opacities, sh = (np.ascontiguousarray(table[:, a:b]) for a, b in (
        (0, 3), (3, 6), (6, 10), (10, 11), (11, 14)))
    expected = [first_fault(*row) for row in zip(means, scales, turns, opacities[:, 0], sh, strict=True)]
    log = ReadLog()
    try:
        with np.errstate(all="ignore"):
            left = judge(RawSplats(means, scales, turns, opacities[:, 0], sh[:, None]), log, "w")
    except EmptyWorldError:
        left = None
    found = {k: r.count for k, r in log.repairs.items() if k != "splats_scale_zero"}
    assert found == {f"splats_{name}": expected.count(name) for name in set(expected) - {""}}
    assert (0 if left is None else len(left)) == expected.count("")
    if left is not None:
        length = np.sqrt((left.quaternions.astype(np.float64) ** 2).sum(axis=1))
        np.testing.assert_allclose(length, 1, atol=2e-7)  # four components, each rounded by 2^-24 of at most 1


@pytest.mark.parametrize("named", [False, True])
def test_pixels_of_a_picture_without_alpha(named):
    """A PNG of three channels, over several strips; a colour that it names as transparent has no alpha."""
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 256, (300, 700, 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG", **({"transparency": tuple(pixels[7, 9].tolist())} if named else {}))
    decoded = TextureStore(ReadLog()).decode(out.getvalue(), "t")
    np.testing.assert_array_equal(decoded[..., :3], pixels)
    clear = (pixels == pixels[7, 9]).all(axis=2) & named
    np.testing.assert_array_equal(decoded[..., 3], np.where(clear, 0, 255))
