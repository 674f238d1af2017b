"""Whether weights are what the lock file says: their hashes, computed once for a file as it is."""

from __future__ import annotations

from pathlib import Path

from spatialbench.errors import BackendUnavailableError
from spatialbench.scorers.weights import weights_entry, weights_missing

__all__ = ["known_hashes", "verified_folder"]


def verified_folder(id: str, weights: Path) -> Path:
    """Folder of an entry of the lock file whose files are there and are what it says.

    Raises
    ------
    BackendUnavailableError : a file is missing, or is another than the lock file names.
    """
    if why := weights_missing(id, weights):
        raise BackendUnavailableError(why)
    return weights / id


def known_hashes(id: str, folder: Path) -> dict[str, str]:
    """Path -> SHA-256 of each file of an entry, as it was verified."""
    return {f.path: f.sha256 or "" for f in weights_entry(id).files}
