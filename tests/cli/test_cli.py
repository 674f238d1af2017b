"""The command line end to end, as a user types it: real files, and a process where it matters."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spatialbench.aggregate import Summary, summarise, summary_json
from spatialbench.observe import REGISTRY
from spatialbench.runs.store import read_units
from spatialbench.tracks import load_tracks
from spatialbench.types import ImportReport, Protocol, Status, level_pose, protocol_hash
from tests.analytic import EYE, table_room, textured, write_glb
from tests.command import spatialbench as here

FILES = {"run.json", "timings.jsonl", "import.json", "units.jsonl", "summary.json", "report.html"}
FAST = ("--protocol", "happyworld-spatial-1-fast", "--set", "finding.min_surfels=40000", "--set",
        "finding.max_surfels=40000", "--set", "views.ring_frames=6", "--set",
        "views.lens={width: 96, height: 96, fov_deg: 75.0}")
"""The fast protocol with fewer surfels and smaller images still."""


def spatialbench(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "spatialbench", *arguments], capture_output=True, text=True, cwd=cwd,
                          timeout=300, check=False)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("world") / "room with a table.glb"
    return write_glb(path, textured(table_room()), level_pose(EYE))


@pytest.fixture(scope="module")
def results(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("results") / "a" / "b"
    done = spatialbench("run", str(world), "-o", str(out), *FAST)
    assert done.returncode == 0, done.stderr
    assert "not a benchmark result" in done.stdout
    assert str(out / "report.html") in done.stdout
    assert done.stderr == ""
    return out


def test_run_writes_its_six_files(results: Path) -> None:
    assert {p.name for p in results.iterdir()} == FILES


def test_all_39_metrics_are_listed_and_only_measured_ones_have_numbers(results: Path) -> None:
    units = read_units(results / "units.jsonl")
    assert [u.metric for u in units] == sorted([*(f"M{i:02d}" for i in range(1, 40)), "M08c"])
    measured = {u.metric for u in units if u.status is Status.MEASURED}
    assert measured == {"M07", "M08", "M08c", "M12", "M13", "M14", "M25"}
    by_id = {u.metric: u for u in units}
    for id in ("M38", "M39"):
        assert by_id[id].status is Status.UNAVAILABLE
        assert by_id[id].value is None
        assert 0.0 <= by_id[id].components["r_usable"] <= 1.0
        assert "HPSv3" in by_id[id].reason
    assert all(u.reason for u in units if u.value is None)
    # Nothing was asked of this world, so what compares it with a request is inapplicable, not unavailable.
    assert {by_id[i].status for i in ("M05", "M09", "M10", "M11", "M16", "M24")} == {Status.INAPPLICABLE}
    assert {by_id[f"M{i}"].status for i in range(26, 38)} == {Status.UNTESTED}


def test_the_summary_is_recomputable_from_the_units_alone(results: Path) -> None:
    load_tracks()
    run = json.loads((results / "run.json").read_text())
    again = summarise(read_units(results / "units.jsonl"), REGISTRY.specs(run["protocol"]["track"]),
                      run["protocol"]["normalization"], preview=run["preview"])
    assert summary_json(again) == (results / "summary.json").read_text()


def test_the_run_record_can_be_cited(results: Path, world: Path) -> None:
    import hashlib

    run = json.loads((results / "run.json").read_text())
    assert run["inputs"][0]["sha256"] == hashlib.sha256(world.read_bytes()).hexdigest()
    assert run["inputs"][0]["name"] == world.name
    assert len(run["protocol_hash"]) == 64
    assert run["protocol_fast"] is True
    assert set(run["backends"]) == {"renderer", "navmesh", "placement"}
    assert "/" not in run["world"]
    text = "".join(p.read_text() for p in results.iterdir() if p.name != "report.html")
    assert str(world.parent) not in text, "no absolute path gets into a result"


def test_a_second_run_gives_the_same_bytes(results: Path, world: Path, tmp_path: Path) -> None:
    done = spatialbench("run", str(world), "-o", str(tmp_path / "again"), *FAST, "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    for name in ("units.jsonl", "summary.json", "import.json"):
        assert (tmp_path / "again" / name).read_bytes() == (results / name).read_bytes(), name


def test_json_is_all_that_json_prints(world: Path, tmp_path: Path) -> None:
    done = here("run", str(world), "-o", str(tmp_path / "j"), *FAST, "--json", "--no-page")
    assert done.returncode == 0
    assert json.loads(done.stdout) == json.loads((tmp_path / "j" / "summary.json").read_text())
    assert not (tmp_path / "j" / "report.html").exists()


BAD = {
    "missing.glb": (None, "no such file"),
    "empty.glb": (b"", "empty"),
    "text.glb": (b"this is not a mesh\n" * 20, "text"),
    "pickle.glb": (b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00}\x94.", "pickle"),
    "page.glb": (b"<!DOCTYPE html><html><body>404</body></html>", "HTML"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_sentence_exit_2_and_nothing_written(name: str, tmp_path: Path) -> None:
    content, word = BAD[name]
    if content is not None:
        (tmp_path / name).write_bytes(content)
    done = here("run", name, "-o", "out", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.strip().splitlines()) == 1
    assert name in done.stderr
    assert word.lower() in done.stderr.lower()
    assert not (tmp_path / "out").exists()


def _bad_meshes(folder: Path) -> dict[str, str]:
    """Files whose container is sound and whose mesh is not; the word that the message must have."""
    vertices, faces = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\n", "f 1 2 3\nf 1 2 4\n"
    (folder / "nan.obj").write_text(vertices.replace("v 0 1 0", "v 0 nan 0") + faces)
    (folder / "range.obj").write_text(vertices + "f 1 2 9\n")
    (folder / "faceless.obj").write_text(vertices)
    glb = write_glb(folder / "needs.glb", table_room()).read_bytes()
    head = b'"asset":{'
    needs = b'"extensionsRequired":["EXT_not_there"],'
    size = int.from_bytes(glb[12:16], "little")
    text = glb[20:20 + size].replace(head, needs + head)
    text += b" " * (-len(text) % 4)
    rest = glb[20 + size:]
    total = (20 + len(text) + len(rest)).to_bytes(4, "little")
    (folder / "needs.glb").write_bytes(glb[:8] + total + len(text).to_bytes(4, "little") + glb[16:20] + text + rest)
    return {"nan.obj": "nan", "range.obj": "9", "faceless.obj": "face", "needs.glb": "EXT_not_there"}


def test_a_broken_mesh_is_refused_by_name_of_what_is_broken(tmp_path: Path) -> None:
    for name, word in _bad_meshes(tmp_path).items():
        done = here("run", name, "-o", "out", cwd=tmp_path)
        assert done.returncode == 2, (name, done.stdout, done.stderr)
        assert done.stderr.startswith("error: ")
        assert len(done.stderr.strip().splitlines()) == 1
        assert name in done.stderr
        assert word.lower() in done.stderr.lower(), done.stderr
        assert not (tmp_path / "out").exists()


def test_result_files_keep_their_schemas(results: Path) -> None:
    report = ImportReport.model_validate_json((results / "import.json").read_text())
    assert report.kind == "mesh"
    assert {"frame", "up", "unit", "camera", "scale"} <= set(report.decisions)
    assert report.decisions["camera"].source == "file"
    Summary.model_validate_json((results / "summary.json").read_text())
    run = json.loads((results / "run.json").read_text())
    assert set(run) == {"schema", "created", "case", "case_given", "system", "world", "inputs", "protocol",
                        "protocol_hash", "protocol_fast", "protocol_overrides", "preview", "seeds", "backends",
                        "versions", "machine"}
    protocol = Protocol.model_validate(run["protocol"])
    assert protocol_hash(protocol) == run["protocol_hash"]
    timings = [json.loads(line) for line in (results / "timings.jsonl").read_text().splitlines()]
    assert all("stage" in t for t in timings)


def test_a_truncated_glb_says_where(world: Path, tmp_path: Path) -> None:
    (tmp_path / "cut.glb").write_bytes(world.read_bytes()[:-1000])
    done = spatialbench("run", "cut.glb", "-o", "out", cwd=tmp_path)
    assert done.returncode == 2
    size = world.stat().st_size
    assert f"{size:,} bytes, the file has {size - 1000:,}" in done.stderr
    assert not (tmp_path / "out").exists()


def test_bad_usage_is_named(world: Path, tmp_path: Path) -> None:
    (tmp_path / "case.yaml").write_text("id: a\ncamra: {position: [0, 0, 0], forward: [0, 0, 1]}\n")
    cases = [
        (("run", str(world), "--protocol", "hapyworld"), "no protocol 'hapyworld'"),
        (("run", str(world), "--set", "views.ring_frame=2"), "Did you mean 'ring_frames'"),
        (("run", str(world), "--case", str(tmp_path / "case.yaml")), "Did you mean 'camera'"),
        (("run", str(world), "--up", "W"), "not an axis"),
        (("run", str(world), "--forward", "0,0,1"), "without a camera position"),
        (("run",), "Missing argument"),
        (("metrics", "M8"), "Did you mean"),
        (("rum",), "No such command"),
    ]
    for arguments, text in cases:
        done = here(*arguments, cwd=tmp_path)
        assert done.returncode == 2, arguments
        assert text in done.stderr, (arguments, done.stderr)
        assert "Traceback" not in done.stderr


def test_metrics_lists_the_registry_and_the_documentation_is_its_output() -> None:
    listed = json.loads(here("metrics", "--json").stdout)
    assert [m["id"] for m in listed] == sorted([*(f"M{i:02d}" for i in range(1, 40)), "M08c"])
    documented = Path(__file__).parents[2] / "docs" / "metrics.md"
    table = here("metrics", "--markdown").stdout
    assert table in documented.read_text(), "run: spatialbench metrics --markdown"


def test_doctor_names_every_part() -> None:
    done = here("doctor", "--json")
    assert done.returncode == 0, done.stderr
    found = {(c["kind"], c["name"]): c for c in json.loads(done.stdout)["checks"]}
    for part in (("renderer", "embree"), ("navmesh", "recast"), ("placement", "pybullet")):
        assert found[part]["usable"], found[part]
    assert not found[("scorer", "hpsv3")]["usable"]
    assert found[("scorer", "hpsv3")]["note"]


def test_help_and_version() -> None:
    assert spatialbench("--version").stdout.startswith("spatialbench, version ")
    assert "spatialbench run WORLD" in here("--help").stdout
    assert "--case" in here("run", "--help").stdout


def test_importing_the_package_or_asking_for_help_loads_nothing_heavy() -> None:
    code = ("import sys, spatialbench, spatialbench.cli.main, spatialbench.types; "
            "print([m for m in ('numba', 'scipy', 'trimesh', 'cv2', 'pybullet', 'wasmtime', 'embreex', 'torch', "
            "'shapely', 'networkx', 'jinja2', 'PIL') if m in sys.modules])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          env={**os.environ})
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_an_interrupted_run_exits_130_and_leaves_no_half_result(world: Path, tmp_path: Path) -> None:
    import pty
    import signal

    ours, theirs = pty.openpty()  # progress is for terminals only, and says when the run has begun
    with os.fdopen(ours, "rb", buffering=0) as screen:
        process = subprocess.Popen([sys.executable, "-m", "spatialbench", "run", str(world), "-o", str(tmp_path / "o")],
                                   stdout=subprocess.DEVNULL, stderr=theirs, env={**os.environ, "TERM": "xterm"})
        os.close(theirs)
        seen = screen.read(1000)
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):  # how the end of a terminal is told
            while more := screen.read(1000):
                seen += more
    assert process.wait(timeout=60) == 130, seen
    assert b"interrupted" in seen
    assert not (tmp_path / "o" / "run.json").exists()
