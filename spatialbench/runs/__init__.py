"""Running units of work and keeping their results."""

from spatialbench.runs.single import RunOptions, RunResult, run_world

__all__ = ["RunOptions", "RunResult", "run_world"]
