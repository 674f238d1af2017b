"""M12's truth table by hand, at and beside its thresholds."""

import itertools

import numpy as np
import pytest

from spatialbench.metrics.bounds import SampleObservation, close_share, hole_limit, observe_sample, oob_ratio, usable
from spatialbench.types.protocol_rules import Usability

S = Usability()


def sample(h, close=0.0, inside=False):
    return SampleObservation(h, close, inside)


def test_the_limit_is_the_reference_plus_a_tenth_but_at_most_a_half():
    assert hole_limit(0.0, S) == 0.10
    assert hole_limit(0.25, S) == 0.35
    assert hole_limit(0.4, S) == 0.5
    assert hole_limit(0.9, S) == 0.5


@pytest.mark.parametrize(("h", "close", "inside", "scale", "want"), [
    # Hole test: strictly above the limit (reference 0.25, so 0.35).
    (0.35, 0.0, False, True, (True, "")),
    (0.36, 0.0, False, True, (False, "outside_footprint")),
    (0.36, 0.0, True, True, (True, "")),        # both tests must fail
    (0.00, 0.0, False, True, (True, "")),
    (0.36, 0.0, None, True, (False, "hole")),   # no footprint: the hole test alone
    # Clearance: strictly more than half of the valid pixels closer than 0.10 m.
    (0.0, 0.5, True, True, (True, "")),
    (0.0, 0.51, True, True, (False, "not_free")),
    (0.0, 0.51, True, False, (True, "")),       # without a scale metres mean nothing
    (0.0, None, True, True, (True, "")),        # no valid pixel: free (OPEN-13a)
    # Inside the footprint does not excuse a blocked camera; outside is named first.
    (0.36, 0.51, True, True, (False, "not_free")),
    (0.36, 0.51, False, True, (False, "outside_footprint")),
    (0.36, 0.51, None, False, (False, "hole")),
])
def test_truth_table(h, close, inside, scale, want):
    assert usable(sample(h, close, inside), 0.25, S, scale) == want


def test_close_share_at_the_thresholds():
    depth = np.zeros((6, 1, 2), dtype=np.float32)
    assert close_share(depth, S) is None
    depth[0, 0] = [1e-7, 0.05]     # the first is no depth
    assert close_share(depth, S) == 1.0
    depth[1, 0] = [0.1, 3.0]       # exactly the clearance is not closer than it
    assert close_share(depth, S) == pytest.approx(1 / 3)
    depth[2, 0] = [0.09, np.inf]
    assert close_share(depth, S) == pytest.approx(2 / 5)


def test_pooled_over_faces_not_averaged_by_face():
    # Front face: 4 close pixels; back face: 1 far pixel; by face the mean is 1/2, pooled 4/5.
    depth = np.zeros((6, 2, 2))
    depth[0] = 0.05
    depth[1, 0, 0] = 2.0
    assert close_share(depth, S) == 0.8


def test_observation_from_six_faces():
    alpha = np.ones((6, 4, 4), dtype=np.float32)
    alpha[0] = 0.0            # one of six faces is open
    seen = observe_sample(alpha, np.full((6, 4, 4), 2.0, dtype=np.float32), True, S)
    assert seen == SampleObservation(pytest.approx(1 / 6), 0.0, True)
    assert observe_sample(alpha, None, None, S).close_share is None


def test_ratio_over_a_path():
    path = [sample(0.0), sample(0.36), sample(0.36, inside=True), sample(0.0, close=0.9), sample(0.5, inside=None)]
    r = oob_ratio(path, 0.25, S, has_scale=True)
    assert r.out == (False, True, False, True, True)
    assert r.outside == (False, True, False, False, True)
    assert r.not_free == (False, False, False, True, False)
    assert r.causes == ("", "outside_footprint", "", "not_free", "hole")
    assert r.value == 3 / 5
    assert r.limit == 0.35


def test_agrees_with_the_formula_for_every_combination():
    for h, close, inside, scale in itertools.product((0.2, 0.6), (None, 0.1, 0.9), (None, False, True), (False, True)):
        outside = (h > min(0.2 + 0.10, 0.5)) * (1 if inside is None else (not inside))
        free = True if not scale or close is None else close <= 0.5
        want = bool(outside or not free)
        got = oob_ratio([sample(h, close, inside)], 0.2, S, scale)
        assert got.out == (want,)
        assert usable(sample(h, close, inside), 0.2, S, scale)[0] is (not want)


def test_settings_come_from_the_protocol():
    strict = Usability(hole_margin=0.0, hole_cap=0.1, max_close_share=0.0)
    assert usable(sample(0.11), 0.0, S, True)[0] is False
    assert usable(sample(0.05), 0.0, S, True)[0] is True
    assert usable(sample(0.05), 0.0, strict, True)[0] is False
    assert usable(sample(0.0, close=0.01), 0.0, strict, True)[1] == "not_free"


def test_no_samples():
    with pytest.raises(ValueError, match="no samples"):
        oob_ratio([], 0.0, S, True)
