"""Which optional renderers can be used here, as parameters of tests that are skipped with the reason elsewhere."""

from __future__ import annotations

import pytest

from spatialbench.renderers import backends

REASONS = {b.name: b.reason for b in backends()}


def needs(name):
    return pytest.mark.skipif(bool(REASONS[name]), reason=f"{name}: {REASONS[name]}")


def param(name):
    return pytest.param(name, marks=needs(name))
