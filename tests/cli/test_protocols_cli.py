"""``protocols``, ``protocols show`` and ``protocols diff``."""

import json

import pytest
import yaml

from spatialbench.cli.main import main
from spatialbench.cli.protocols import difference
from spatialbench.configs import config_names
from spatialbench.types import load_protocol, protocol_hash

NAME = "happyworld-spatial-1"


def call(capsys, *arguments):
    with pytest.raises(SystemExit) as e:
        main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return e.value.code, out, err


def test_the_list(capsys):
    code, out, _ = call(capsys, "protocols", "--json")
    rows = json.loads(out)
    assert code == 0
    assert [r["id"] for r in rows] == config_names("protocols")
    assert rows[0]["hash"] == protocol_hash(load_protocol(rows[0]["id"]))
    assert NAME in call(capsys, "protocols")[1]


def test_show_gives_a_file_of_the_same_hash(capsys, tmp_path):
    code, out, _ = call(capsys, "protocols", "show", NAME, "--set", "views.ring_frames=18")
    assert code == 0
    path = tmp_path / "p.yaml"
    path.write_text(out)
    wanted = protocol_hash(load_protocol(NAME, ("views.ring_frames=18",)))
    assert protocol_hash(load_protocol(str(path))) == wanted
    assert out.startswith(f"# hash: {wanted}\n")
    data = json.loads(call(capsys, "protocols", "show", str(path), "--json")[1])
    assert data["hash"] == wanted
    assert data["protocol"] == yaml.safe_load(out)


def test_diff_of_names_and_files(capsys, tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text(f"extends: {NAME}\nid: mine\nmetrics: [M07, M08]\nviews: {{lens: {{width: 64, height: 768}}}}\n")
    code, out, _ = call(capsys, "protocols", "diff", NAME, path, "--json")
    found = json.loads(out)
    assert code == 0
    assert [(c["key"], c["old"], c["new"]) for c in found["changes"] if c["key"] != "metrics"] == [
        ("id", NAME, "mine"), ("views.lens.width", 768, 64)]
    assert found["old"]["hash"] == protocol_hash(load_protocol(NAME))
    assert found["new"]["hash"] == protocol_hash(load_protocol(str(path)))
    words = call(capsys, "protocols", "diff", NAME, path)[1]
    assert "views.lens.width: 768 -> 64" in words
    assert "metrics: without M01, M02" in words
    assert found["old"]["hash"] in words
    assert "no key differs" in call(capsys, "protocols", "diff", NAME, NAME)[1]


def record(folder, **changes):
    p = load_protocol(NAME)
    data = p.model_dump(mode="json")
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps({"protocol": data, "protocol_hash": protocol_hash(p), **changes}))
    return folder


def test_diff_with_the_folder_of_a_run(capsys, tmp_path):
    folder = record(tmp_path / "r")
    code, out, _ = call(capsys, "protocols", "diff", folder, NAME)
    assert (code, "no key differs" in out) == (0, True)
    code, out, _ = call(capsys, "protocols", "diff", folder / "run.json", f"{NAME}-fast")
    assert (code, "fast: false -> true" in out) == (0, True)


def test_diff_with_a_run_of_an_older_version(capsys, tmp_path):
    import hashlib

    data = load_protocol(NAME).model_dump(mode="json")
    del data["fusion"]
    data["old_key"] = 1
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    folder = record(tmp_path / "r", protocol=data, protocol_hash=hashlib.sha256(text.encode()).hexdigest())
    out = call(capsys, "protocols", "diff", folder, NAME)[1]
    assert "old_key: 1 -> (not there)" in out
    assert "fusion.voxel: (not there) -> 0.05" in out


def test_bad_input(capsys, tmp_path):
    assert call(capsys, "protocols", "show", "happyworld-9")[0] == 2
    assert call(capsys, "protocols", "show", "x" * 5000)[0] == 2
    code, _, err = call(capsys, "protocols", "show", NAME, "--set", "views.ring_frame=1")
    assert (code, "Did you mean 'ring_frames'" in err) == (2, True)
    (tmp_path / "none").mkdir()
    code, _, err = call(capsys, "protocols", "diff", NAME, tmp_path / "none")
    assert (code, "no such file" in err) == (2, True)
    code, _, err = call(capsys, "protocols", "diff", NAME, record(tmp_path / "a", protocol_hash="0" * 64))
    assert (code, "does not have the hash" in err) == (1, True)
    code, _, err = call(capsys, "protocols", "diff", NAME, record(tmp_path / "b", protocol=[1]))
    assert (code, "holds no protocol" in err) == (1, True)


def test_differences():
    assert difference({"a": {"b": 1, "c": [1]}, "d": {}}, {"a": {"b": 1, "c": [2]}, "e": None}) == [
        {"key": "a.c", "old": [1], "new": [2]}, {"key": "d", "old": {}}, {"key": "e", "new": None}]
    assert difference({"a": True}, {"a": 1}) == [{"key": "a", "old": True, "new": 1}]
    assert difference({"a": 1}, {"a": 1.0}) == []
