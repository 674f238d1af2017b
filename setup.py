"""What pyproject.toml cannot say: the Recast module is fetched when the package is built."""

from __future__ import annotations

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "_build"))  # Isolated builds do not put the project on the path.

import recast_module  # noqa: E402


class BuildPy(build_py):
    """``build_py`` with the Recast module as package data, in every kind of install."""

    def run(self) -> None:
        """Fetch, then copy."""
        try:
            recast_module.ensure(ROOT / recast_module.TARGET)
        except recast_module.ModuleError as e:
            # Not an ordinary exception: setuptools turns those into a warning in editable installs.
            raise SystemExit(f"error: {e}") from None
        if not self.editable_mode:
            recast_module.clear_library(Path(self.build_lib), "spatialbench")
        # The list of data files may have been made before the module was there.
        self.__dict__.pop("data_files", None)
        super().run()


setup(cmdclass={"build_py": BuildPy})
