"""``spatialbench inspect``: words, JSON and a sheet of four upright views."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from spatialbench.cli.main import cli
from spatialbench.errors import InputError
from tests.analytic import Soup, textured, write_glb


@pytest.fixture
def tower(tmp_path: Path) -> Path:
    """A wide dark foot with a narrow bright tower on it: upright, the picture's upper half is bright."""
    dark, bright = Soup(), Soup()
    dark.box((-2, -2, 0), (2, 2, 0.5))
    bright.box((-0.5, -0.5, 0.5), (0.5, 0.5, 4))
    a = textured(dark.mesh(), np.full((2, 2, 4), (40, 0, 0, 255), np.uint8))
    b = textured(bright.mesh(), np.full((2, 2, 4), (0, 255, 0, 255), np.uint8))
    from spatialbench.types import TriangleMesh

    assert a.uv is not None
    assert b.uv is not None
    both = TriangleMesh(np.concatenate([a.vertices, b.vertices]),
                        np.concatenate([a.faces, b.faces + len(a.vertices)]),
                        np.repeat(np.int32([0, 1]), [len(a.faces), len(b.faces)]), a.materials + b.materials,
                        np.concatenate([a.uv, b.uv]))
    return write_glb(tmp_path / "tower.glb", both)


def test_json_names_what_was_read_and_decided(tower: Path) -> None:
    done = CliRunner().invoke(cli, ["inspect", str(tower), "--json"])
    assert done.exit_code == 0
    found = json.loads(done.output)
    assert (found["kind"], found["format"], found["n_faces"]) == ("mesh", "glb", 24)
    # The builder's Z up is the file's Y up.
    assert np.allclose(found["bounds"], [[-2, 0, -2], [2, 4, 2]])
    assert found["decisions"]["up"] == {"value": [0, 1, 0], "source": "prior", "confidence": 0.6,
                                        "note": "what glb files are by convention"}
    assert found["repairs"] == []


def test_the_sheet_stands_upright_by_the_decided_up(tower: Path, tmp_path: Path) -> None:
    for up, sign in (("+Y", 1), ("-Y", -1)):
        done = CliRunner().invoke(cli, ["inspect", str(tower), "--up", up, "-o", str(tmp_path / up)])
        assert done.exit_code == 0, done.output
        sheet = np.asarray(Image.open(tmp_path / up / "sheet.png")).astype(int)
        assert sheet.shape == (768, 768, 3)
        for view in (sheet[:384, :384], sheet[:384, 384:], sheet[384:, 384:], sheet[384:, :384]):
            green = np.nonzero((view[..., 1] > 200) & (view[..., 0] < 60))[0]
            red = np.nonzero((view[..., 0] < 60) & (view[..., 1] < 20))[0]
            assert len(green) > 500
            assert len(red) > 500
            assert sign * (red.mean() - green.mean()) > 40, "the tower stands on its foot"
        assert json.loads((tmp_path / up / "inspect.json").read_text())["decisions"]["up"]["value"][1] == sign


def test_a_refusal_is_json_too(tmp_path: Path) -> None:
    (tmp_path / "page.glb").write_text("<!DOCTYPE html><html></html>")
    done = CliRunner().invoke(cli, ["inspect", str(tmp_path / "page.glb"), "--json"])
    assert isinstance(done.exception, InputError)
    error = json.loads(done.stdout)["error"]
    assert error["class"] == "UnsupportedFormatError"
    assert "HTML" in error["message"]
    assert "page.glb" in error["where"]


def test_real_splats_are_inspected_and_drawn(data_dir: Path, tmp_path: Path) -> None:
    kitchen = data_dir / "scenes" / "splats" / "marble_kitchen" / "scene.spz"
    done = CliRunner().invoke(cli, ["inspect", str(kitchen), "--json", "-o", str(tmp_path / "k")])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["kind"], found["n_splats"], found["sh_degree"]) == ("splats", 213_944, 0)
    assert found["decisions"]["up"]["value"] == [0, 1, 0]
    assert found["decisions"]["unit"]["value"] is None
    sheet = np.asarray(Image.open(tmp_path / "k" / "sheet.png")).astype(int)
    ground = np.array([0.93, 0.93, 0.92]) * 255
    covered = (np.abs(sheet - ground).max(axis=2) > 12).mean()
    assert 0.15 < covered < 0.7, "the kitchen fills a good part of the sheet, and floaters do not shrink it"
    teal = (sheet[..., 1] - sheet[..., 0] > 40) & (sheet[..., 2] - sheet[..., 0] > 40)
    assert teal.mean() > 0.01, "its teal cabinets are teal"
