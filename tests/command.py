"""The command line in the process of the tests: what another process would print and return, without its start."""

from __future__ import annotations

import io
import os
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from spatialbench.cli.main import main


def spatialbench(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """``spatialbench ARGUMENTS``, in a folder; for what does not depend on being a process of its own."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    words, before, code = [str(a) for a in arguments], os.getcwd(), 0
    try:
        if cwd is not None:
            os.chdir(cwd)
        with redirect_stdout(out), redirect_stderr(err):
            main(list(words))
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        os.chdir(before)
    said, complained = (s.buffer.getvalue().decode() for s in (out, err))  # type: ignore[attr-defined]
    return subprocess.CompletedProcess(words, code, said, complained)
