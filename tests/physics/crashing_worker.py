"""A worker whose PyBullet crashes in trial 2, and as it loads when the folder says so."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from spatialbench.physics.placement import Release
from spatialbench.physics.placement.session import Motion, Session
from spatialbench.physics.placement.worker import serve


def drop(session: Session, release: Release, record: int) -> Motion:
    if release.id == 2:
        os.kill(os.getpid(), signal.SIGSEGV)
    return session.drop(release, record)


def main() -> None:
    serve(drop)


def main_loading() -> None:
    assert Path(sys.argv[1]).is_dir()
    os._exit(7)
