"""Spoils small worlds of every format and loads them; whatever comes, the outcome must be one of three.

A world is loaded, loaded with its repairs listed, or refused with what is wrong, where and what to do. It never
crashes, hangs (20 s; USD 130 s, whose reader may take 120), takes more than 4 GB, or comes out empty. Each case is made
from its number alone, so a fault can be made again: ``python -m tests.scene.fuzz --case 123``; ``--minutes 60`` runs
for an hour, from case ``--first``.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import random
import re
import selectors
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
import zlib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

import fuzz_seeds  # noqa: E402
import psutil  # noqa: E402

HANG_S = 20.0
USD_HANG_S = 130.0
"""The reader of USD runs in a process of its own, which is stopped after 120 s."""
MAX_RSS = 4 << 30
_USD = "usd "
_NUMBER = re.compile(rb"\d+")
_EDGES = (0, 1, 0x7F, 0x80, 0xFF, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1_000_000, 50_000_001)
_WORDS = (b"nan", b"inf", b"-1", b"1e400", b"4294967295", b"99999999999999999999", b"0", b"", b"null", b"[]", b'"x"',
          b"1000000000", b"-0.0", b"0.1", b"../x", b"\xff")
_FLOATS = tuple(struct.pack("<f", v) for v in (float("nan"), float("inf"), -float("inf"), 3e38, -3e38, 1e-45, 0.0))


# --- one case ---------------------------------------------------------------------------------------


def case_files(case: int) -> tuple[str, dict[str, bytes], str]:
    """The seed's name, its files after spoiling, and the name of the one to load (empty: the folder)."""
    rng = random.Random(case)
    seeds = fuzz_seeds.seeds()
    name = rng.choice(sorted(seeds))
    if name.startswith(_USD) and rng.random() < 0.9:  # each starts a process, which takes a hundred times as long
        name = rng.choice([n for n in sorted(seeds) if not n.startswith(_USD)])
    files, main = dict(seeds[name][0]), seeds[name][1]
    for _ in range(rng.choice((1, 1, 1, 2))):
        victim = rng.choice(sorted(files))
        files[victim] = spoil(rng, files[victim])
    if rng.random() < 0.03:
        del files[rng.choice(sorted(files))]
    return name, files, main


def spoil(rng: random.Random, data: bytes) -> bytes:
    """Spoiled inside its container half of the time, so that what lies behind lengths and checksums is reached."""
    if rng.random() < 0.6:
        inner = _inside(rng, data)
        if inner is not None:
            return inner
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        rng.choice(_ACTS)(rng, out)
    return bytes(out)


def _inside(rng: random.Random, data: bytes) -> bytes | None:
    try:
        if data[:4] == b"glTF":
            size = struct.unpack_from("<I", data, 12)[0]
            text, rest = data[20:20 + size], data[20 + size:]
            if rng.random() < 0.6:
                text = _spoil_json(rng, text)
            elif len(rest) > 8:
                body = spoil(rng, bytes(rest[8:]))
                body += b"\0" * (-len(body) % 4)
                rest = struct.pack("<I", len(body)) + rest[4:8] + body
            text += b" " * (-len(text) % 4)
            chunks = struct.pack("<I", len(text)) + b"JSON" + text + rest
            return struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks
        if data[:2] == b"PK":
            with zipfile.ZipFile(io.BytesIO(data)) as z:
                members = {i.filename: z.read(i) for i in z.infolist()}
            victim = rng.choice(sorted(members))
            members[victim] = spoil(rng, members[victim])
            out = io.BytesIO()
            with zipfile.ZipFile(out, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as z:
                for name, body in members.items():
                    z.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), body)
            return out.getvalue()
        if data[:2] == b"\x1f\x8b":
            return gzip.compress(spoil(rng, gzip.decompress(data)), mtime=0)
        if data[:1] == b"{":
            return _spoil_json(rng, data)
    except (zipfile.BadZipFile, zlib.error, OSError, struct.error, ValueError, EOFError, RuntimeError, IndexError):
        return None
    return None


def _spoil_json(rng: random.Random, text: bytes) -> bytes:
    """One value anywhere in the document replaced, removed or repeated."""
    value = json.loads(text)
    here, at = value, None
    while isinstance(here, (dict, list)) and here and (at is None or rng.random() < 0.8):
        parent, at = here, rng.choice(list(here) if isinstance(here, dict) else range(len(here)))
        here = parent[at]
    if at is None:
        return text
    new = rng.choice((None, True, -1, 0, 1, 7, 2**31, 2**53, 1e300, 0.5, "", "x", "../a", [], {}, [1, 2, 3], 5126, 5121,
                      "VEC2", "VEC3", "SCALAR"))
    act = rng.random()
    if act < 0.7:
        parent[at] = new
    elif act < 0.85:
        del parent[at]
    elif isinstance(parent, list):
        parent.extend([here] * rng.choice((1, 3, 50)))
    else:
        parent[rng.choice(list(parent))] = here
    return json.dumps(value).encode()


def _flip(rng: random.Random, out: bytearray) -> None:
    if out:
        out[rng.randrange(len(out))] = rng.choice((0, 255, 1, 127, 128, rng.randrange(256)))


def _flip_head(rng: random.Random, out: bytearray) -> None:
    if out:
        out[rng.randrange(min(len(out), 160))] ^= 1 << rng.randrange(8)


def _number(rng: random.Random, out: bytearray) -> None:
    """A binary number of four or two bytes, or eight."""
    size = rng.choice((4, 4, 2, 8))
    if len(out) > size:
        at = rng.randrange(0, len(out) - size + 1)
        at -= at % rng.choice((1, 2, 4)) if at else 0
        out[at:at + size] = (rng.choice(_EDGES) + rng.randrange(2)).to_bytes(8, "little")[:size]


def _word(rng: random.Random, out: bytearray) -> None:
    """A decimal number of the text."""
    found = list(_NUMBER.finditer(bytes(out[:1 << 16])))
    if found:
        m = rng.choice(found[:40] if rng.random() < 0.5 else found)
        out[m.start():m.end()] = rng.choice(_WORDS)


def _float(rng: random.Random, out: bytearray) -> None:
    if len(out) >= 4:
        at = rng.randrange(0, len(out) - 3)
        out[at:at + 4] = rng.choice(_FLOATS)


def _cut(rng: random.Random, out: bytearray) -> None:
    del out[rng.randrange(len(out) + 1):]


def _remove(rng: random.Random, out: bytearray) -> None:
    at = rng.randrange(len(out) + 1)
    del out[at:at + rng.choice((1, 2, 4, 12, 100))]


def _repeat(rng: random.Random, out: bytearray) -> None:
    at = rng.randrange(len(out) + 1)
    out[at:at] = out[at:at + rng.choice((1, 4, 30, 1000))] * rng.choice((1, 2, 100))


def _insert(rng: random.Random, out: bytearray) -> None:
    at = rng.randrange(len(out) + 1)
    out[at:at] = bytes(rng.randrange(256) for _ in range(rng.choice((1, 2, 3, 16))))


_ACTS = (_flip, _flip, _flip_head, _number, _number, _word, _float, _cut, _remove, _repeat, _insert)


def outcome(path: Path) -> str:
    """``loaded``, ``repaired`` or ``refused: CLASS``.

    Raises
    ------
    Anything that must not happen.
    """
    import numpy as np

    from spatialbench.errors import InputError
    from spatialbench.scene import load_scene

    try:
        scene = load_scene(path)
    except InputError as error:
        if not (error.what and error.where and error.todo) or "\n" in str(error) or len(str(error)) > 2000:
            raise AssertionError(f"an error that does not say enough: {error!r}") from None
        return f"refused: {type(error).__name__}"
    assert scene.mesh is not None or scene.splats is not None, "an empty world"
    if scene.mesh is not None:
        m = scene.mesh
        assert len(m.faces) > 0, "a mesh without faces"
        assert np.isfinite(m.vertices).all(), "vertices that are not finite"
        assert m.faces.min() >= 0 and m.faces.max() < len(m.vertices), "faces out of range"
        assert m.material_ids.min() >= 0 and m.material_ids.max() < len(m.materials), "materials out of range"
        assert all(a is None or np.isfinite(a).all() for a in (m.uv, m.colors)), "uv or colours that are not finite"
        assert (np.linalg.norm(m.area_vectors(), axis=1) >= 0).all(), "faces without an area"
    if scene.splats is not None:
        s = scene.splats
        assert len(s) > 0, "no splats"
        assert all(np.isfinite(a).all() for a in (s.means, s.scales, s.quaternions, s.opacities, s.sh)), "not finite"
    assert np.isfinite(scene.report.bounds).all(), "bounds that are not finite"
    scene.report.model_dump_json()
    return "repaired" if scene.report.repairs or scene.report.warnings else "loaded"


def run_case(case: int, folder: Path) -> str:
    """Write the files of a case into ``folder``, load, and clear up."""
    _, files, main = case_files(case)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return outcome(folder / main if main else folder)
    finally:
        for name in files:
            (folder / name).unlink()


# --- many cases -------------------------------------------------------------------------------------


@dataclass
class Tally:
    """What came of the cases."""

    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    slowest: float = 0.0
    largest_rss: int = 0


class Worker:
    """A process that loads one case after the other, watched from outside."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="fuzz-")
        self.process = subprocess.Popen([sys.executable, str(HERE / "fuzz.py"), "--worker", self.folder],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.memory = psutil.Process(self.process.pid)
        self.wait = selectors.DefaultSelector()
        self.wait.register(self.process.stdout, selectors.EVENT_READ)

    def run(self, case: int, tally: Tally, limit: float) -> bool:
        """One case; False when the worker is gone and another one is needed."""
        start = time.monotonic()
        try:
            self.process.stdin.write(f"{case}\n")
            self.process.stdin.flush()
        except OSError:
            tally.faults.append(f"case {case}: the process had died before it")
            return False
        while not self.wait.select(0.02):
            try:
                rss = self.memory.memory_info().rss
            except psutil.Error:
                rss = 0
            tally.largest_rss = max(tally.largest_rss, rss)
            why = "takes more than 4 GB" if rss > MAX_RSS else ""
            why = f"takes more than {limit:g} s" if time.monotonic() - start > limit else why
            if why:
                tally.faults.append(f"case {case}: {why}")
                return False
        line = self.process.stdout.readline()
        tally.slowest = max(tally.slowest, time.monotonic() - start)
        if not line:
            tally.faults.append(f"case {case}: crashed (exit status {self.process.wait()})")
            return False
        said = json.loads(line)
        if "fault" in said:
            tally.faults.append(f"case {case}: {said['fault']}")
        else:
            tally.outcomes[said["outcome"]] += 1
        return True

    def close(self) -> None:
        """End the process and remove its folder."""
        self.wait.close()
        self.process.kill()
        self.process.communicate()
        shutil.rmtree(self.folder, ignore_errors=True)


def run_cases(first: int, seconds: float, most: int | None = None, stop_after: int = 20) -> Tally:
    """Cases from ``first`` until the time is over, ``most`` are done, or ``stop_after`` faults were found."""
    tally, worker = Tally(), Worker()
    worker.run(first, tally, 120)  # imports and compiles; not timed
    tally.slowest = 0.0
    end, case = time.monotonic() + seconds, first + 1
    try:
        while time.monotonic() < end and len(tally.faults) < stop_after and (most is None or case - first < most):
            if not worker.run(case, tally, USD_HANG_S if case_files(case)[0].startswith(_USD) else HANG_S):
                worker.close()
                worker = Worker()
                worker.run(first, Tally(), 120)
            case += 1
    finally:
        worker.close()
    return tally


def serve(folder: Path) -> None:
    """The worker's side: a number a line in, a JSON object a line out."""
    for line in sys.stdin:
        case = int(line)
        try:
            said = {"outcome": run_case(case, folder)}
        except MemoryError:
            said = {"fault": "MemoryError"}
        except BaseException:
            said = {"fault": f"{case_files(case)[0]}: {traceback.format_exc()[-1500:]}"}
        print(json.dumps(said), flush=True)


def main() -> int:
    """Command line; the exit status is 1 when there was a fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--case", type=int)
    parser.add_argument("--keep", type=Path, help="folder to write the files of --case into")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.worker:
        serve(a.worker)
        return 0
    if a.case is not None:
        with tempfile.TemporaryDirectory() as t:
            folder = a.keep or Path(t)
            folder.mkdir(exist_ok=True)
            print(case_files(a.case)[0], run_case(a.case, folder))
            if a.keep:
                for name, data in case_files(a.case)[1].items():
                    (folder / name).write_bytes(data)
        return 0
    tally = run_cases(a.first, 60 * a.minutes)
    done = sum(tally.outcomes.values())
    print(f"{done:,} cases, slowest {tally.slowest:.2f} s, largest {tally.largest_rss >> 20} MiB")
    for name, count in tally.outcomes.most_common():
        print(f"  {count:8,} {name}")
    for fault in tally.faults:
        print(fault)
    return 1 if tally.faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
