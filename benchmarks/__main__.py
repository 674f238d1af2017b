"""``python -m benchmarks [NAME...]``: run all benchmarks, or those named."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import benchmarks


def main() -> None:
    """Run every ``bench_*`` module's ``main``."""
    wanted = sys.argv[1:]
    for info in sorted(pkgutil.iter_modules(benchmarks.__path__), key=lambda m: m.name):
        name = info.name.removeprefix("bench_")
        if info.name.startswith("bench_") and (not wanted or name in wanted):
            importlib.import_module(f"benchmarks.{info.name}").main()


if __name__ == "__main__":
    main()
