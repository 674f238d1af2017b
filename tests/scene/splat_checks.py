"""What every splat world promises, whatever the bytes it came from."""

from __future__ import annotations

import numpy as np

from spatialbench.errors import InputError
from spatialbench.scene import load_scene


def check(path):
    """Load or refuse; returns the scene or the error, after a look at what it promises."""
    try:
        scene = load_scene(path)
    except InputError as e:
        error = e
    else:
        check_splats(scene)
        return scene
    assert error.what
    assert error.where
    assert error.todo
    assert "\n" not in str(error)
    return error


def check_splats(scene):
    s, report = scene.splats, scene.report
    assert scene.prior_unit_m == (1.0 if report.format in ("glb", "gltf") else None)
    assert len(s) == report.n_splats > 0
    assert report.kind == ("splats" if scene.mesh is None else "both")
    for a in (s.means, s.scales, s.quaternions, s.opacities, s.sh):
        assert a.dtype == np.float32
        assert a.flags.c_contiguous
        assert np.isfinite(a).all()
    assert s.scales.min() >= 0
    assert s.opacities.min() >= 0
    assert s.opacities.max() <= 1
    # Four float32 components, each rounded by half an ulp of at most 1.
    assert np.abs(np.linalg.norm(s.quaternions.astype(float), axis=1) - 1).max() < 2e-7
    assert np.isfinite(report.bounds).all()
    dropped = sum(r.count for r in report.repairs if r.note == "dropped")
    assert report.n_splats + dropped == report.details["splats_read"]
    report.model_dump_json()


def counts(scene):
    return {r.name: r.count for r in scene.report.repairs}
