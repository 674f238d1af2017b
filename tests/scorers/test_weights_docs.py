"""docs/scorers.md and docs/workers.md say what the registry and the code do.

Run as a program, this file writes the tables of docs/scorers.md anew.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from spatialbench.cli.weights import markdown
from spatialbench.scorers import registry
from spatialbench.scorers.registry import scorer_specs
from spatialbench.scorers.worker import serve
from spatialbench.scorers.worker.check import main
from spatialbench.scorers.worker.declared import SPECS

DOCS = Path(__file__).resolve().parents[2] / "docs"
TABLES = re.compile(r"(?<=<!-- tables: python tests/scorers/test_weights_docs\.py -->\n).*?(?=<!-- /tables -->)", re.S)


def test_the_tables_are_the_registrys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_SPECS", {})  # without what other tests have added
    (found,) = TABLES.findall((DOCS / "scorers.md").read_text(encoding="utf-8"))
    assert found == markdown(), "write them anew: python tests/scorers/test_weights_docs.py"
    for id in scorer_specs():
        assert f"| {id} |" in found


def test_all_workers_are_in_the_table() -> None:
    text = (DOCS / "workers.md").read_text(encoding="utf-8")
    for spec in SPECS:
        if not spec.stands_in_for:
            (other,) = [s.id for s in SPECS if s.stands_in_for == spec.id]
            assert f"| `{spec.id}` | {spec.model} | `{spec.gives}` | `{other}` |" in text


def test_what_is_written_of_the_models_is_python() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "workers.md").read_text(encoding="utf-8"), re.S)
    assert len(blocks) == 5
    for block in blocks:
        compile(block, "docs/workers.md", "exec")


def test_the_skeleton_keeps_the_protocol(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (DOCS / "workers.md").read_text(encoding="utf-8")
    (skeleton,) = re.findall(r"<!-- skeleton -->\n```python\n(.*?)```", text, re.S)
    (tmp_path / "worker.py").write_text(skeleton)
    (tmp_path / "w.pth").write_bytes(b"abc")
    shutil.copy(serve.__file__, tmp_path / "serve.py")
    (tmp_path / "workers.yaml").write_text(json.dumps({"workers": {"amt_s": {
        "command": [sys.executable, str(tmp_path / "worker.py"), str(tmp_path / "w.pth")]}}}))
    assert main(["amt_s", "--scorer-workers", str(tmp_path / "workers.yaml")]) == 0
    out = capsys.readouterr().out
    assert "the worker cannot do this: this model makes the middle image alone" in out
    # SHA-256 of "abc", FIPS 180-2 B.1.
    assert "w.pth ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" in out


if __name__ == "__main__":
    page = DOCS / "scorers.md"
    page.write_text(TABLES.sub(lambda _: markdown(), page.read_text(encoding="utf-8")), encoding="utf-8")
