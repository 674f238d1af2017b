"""Shared fixtures."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The shared reference data; tests that need it are skipped when it is not named."""
    root = os.environ.get("SPATIALBENCH_TEST_DATA")
    if not root:
        pytest.skip("SPATIALBENCH_TEST_DATA is not set")
    path = Path(root)
    missing = [d for d in ("oracle", "published", "scenes") if not (path / d).is_dir()]
    if missing:
        pytest.fail(f"SPATIALBENCH_TEST_DATA={root} lacks {', '.join(missing)}")
    return path
