"""Shared fixtures."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

# Here and in the processes that tests start: see the module.
_SHIM = str(Path(__file__).parent / "shim")
sys.path.insert(0, _SHIM)
import torchvision_shim  # noqa: E402, F401

os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [_SHIM, os.environ.get("PYTHONPATH")]))
os.environ["HF_HUB_OFFLINE"] = "1"


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


def pytest_terminal_summary(terminalreporter):
    """The table of all real files (test_all_scenes.py), also without ``-s`` and from the workers of xdist."""
    rows = sorted({tuple(value) for reports in terminalreporter.stats.values() for report in reports
                  for name, value in getattr(report, "user_properties", ()) if name == "scene"})
    if not rows:
        return
    terminalreporter.section(f"{len(rows)} real files")
    terminalreporter.write_line(f"{'file':<62} {'format':<9} {'outcome':<22} {'s':>6} {'MB':>6}  manifest")
    for file, kind, outcome, seconds, size, result in rows:
        terminalreporter.write_line(f"{file:<62} {kind:<9} {outcome:<22} {seconds:>6.2f} {size:>6.2f}  {result}")
