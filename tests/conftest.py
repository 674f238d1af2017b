"""Shared fixtures."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

# Here and in the processes that tests start: see the module.
_SHIM = str(Path(__file__).parent / "shim")
sys.path.insert(0, _SHIM)
import torchvision_shim  # noqa: E402, F401

os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [_SHIM, os.environ.get("PYTHONPATH")]))
os.environ["HF_HUB_OFFLINE"] = "1"


def pytest_configure(config):
    """Processes that tests start get what a shell in front gives: SIGINT ends them, and compiled modules are kept."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # of a run in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    config.option.loadscopereorder = False  # of xdist, which would begin with the files of most tests


_FIRST = (
    # What compiles most, two workers at a time: each compiles other loops, and finds those of the other afterwards.
    "renderers/test_render.py", "scene/test_ktx2.py", "renderers/test_splat_cpu.py", "scene/test_scene_meshopt.py",
    # What takes longest.
    "tracks/test_splat_worlds.py", "runs/batch/test_ray.py", "cli/test_batch_cli.py", "tracks/test_known_worlds.py",
    "assets/test_sample_room.py", "assets/test_sample_room_runs.py", "cli/test_view.py", "world/test_splat_world.py",
    "runs/batch/test_batch_faults.py",
    "tracks/test_real_worlds.py", "scene/test_all_scenes.py", "world/test_fusion_splats.py", "scene/test_splat_real.py",
    "scene/test_scene_usd.py", "world/test_sky_world.py", "cli/test_place.py", "cli/test_cli.py",
    "cli/test_convert_cli.py", "scene/test_fuzz.py", "cli/test_render.py", "runs/batch/test_batch_plan.py",
    "attack/test_attack_batch.py", "renderers/test_golden.py", "report/test_real_page.py",
)


def pytest_collection_modifyitems(items):
    """These files first, so that none of them is what one worker does alone at the end."""
    rank = {name: k for k, name in enumerate(_FIRST)}
    tests = Path(__file__).parent
    items.sort(key=lambda item: rank.get(item.path.relative_to(tests).as_posix(), len(rank)))


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
