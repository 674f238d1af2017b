"""What is wrong with the user's side of scoring is said before any work, and with what can be typed as it stands."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from spatialbench.cli.main import cli, main
from spatialbench.errors import BackendUnavailableError, ConfigError, InputError, MissingInputError, UsageError
from spatialbench.runs.batch import BatchOptions, open_batch
from spatialbench.runs.batch.decide import Wanted
from spatialbench.runs.scoring import LentJudge, Scoring, check_scoring
from spatialbench.runs.single import RunOptions, prepare, run_world
from spatialbench.scorers import registry
from spatialbench.scorers.judge import read_picture
from spatialbench.scorers.registry import ScorerBox, ScorerSpec
from spatialbench.scorers.settings import scorer_settings
from spatialbench.scorers.vision_support import check_texts
from spatialbench.scorers.weights import fetch_again, weights_missing
from spatialbench.scorers.worker.protocol import Wanted as WantedArray
from spatialbench.scorers.worker.protocol import read_answer, read_outputs
from spatialbench.types import SnapshotCase, load_protocol
from spatialbench.types.strict import validate_strict
from tests.tracks.test_edit_worlds import QUICK, glb, room


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [n for n in os.environ if n.startswith("SPATIALBENCH_") and n != "SPATIALBENCH_TEST_DATA"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SPATIALBENCH_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def ends_with(code: int, *words: object) -> None:
    with pytest.raises(SystemExit) as end:
        main([str(w) for w in words])
    assert end.value.code == code


@pytest.mark.parametrize("device", ["cpu:3", "auto:1", "cuda:", "cuda:x", "cuda:\u0663", "cuda:99999", "mps:1", "gpu",
                                    "CUDA"])
def test_devices_that_are_none(device: str) -> None:
    """Of a CPU with a number torch gives other roundings."""
    with pytest.raises(UsageError, match="is no device"):
        scorer_settings(device=device)


@pytest.mark.parametrize("device", ["auto", "cpu", "mps", "cuda", "cuda:0", "cuda:15"])
def test_devices(device: str) -> None:
    assert scorer_settings(device=device).device == device


# --- what a metric says is to be typed --------------------------------------------------------------------


@pytest.mark.parametrize("folder", ["", "my weights", "it's"])
def test_what_is_said_of_missing_weights_can_be_typed(
        folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command is understood and means this folder: offline it goes as far as that nothing may be fetched."""
    weights = tmp_path / folder if folder else scorer_settings().weights
    for said in (weights_missing("clip-l14", weights), fetch_again(weights / "clip-l14" / "model.safetensors")):
        command = said[said.index("spatialbench weights"):].partition(", or copy")[0]
        words = shlex.split(command)
        assert words[1:4] == ["weights", "fetch", "clip-l14"]
        assert words[4:] == (["--dir", str(weights)] if folder else [])
        ends_with(2, *words[1:], "--offline")
        assert "nothing is fetched offline" in capsys.readouterr().err


def test_fetching_names_licence_packages_and_judge(capsys: pytest.CaptureFixture[str],
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    from spatialbench.cli import weights

    monkeypatch.setattr(weights, "find_spec", lambda name: None)
    ends_with(2, "weights", "fetch", "--for", "M01", "--offline")
    said = capsys.readouterr().err
    assert "CC-BY-NC-SA-4.0 (non-commercial)" in said and "--accept-licence" in said
    assert 'topiq_nr: needs packages too: pip install "spatialbench[iqa-noncommercial]"' in said
    ends_with(0, "weights", "fetch", "--for", "M06")
    assert "no weights are needed, but a judge (docs/judges.md)" in capsys.readouterr().err


def test_a_folder_that_may_not_be_entered_costs_only_what_lies_in_it(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    real = Path.is_file

    def is_file(path: Path) -> bool:
        if path.parent.name == "clip-l14":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)
    monkeypatch.setattr(Path, "is_file", is_file)
    assert "cannot be read" in weights_missing("clip-l14", tmp_path)
    assert "are not here" in weights_missing("sam3", tmp_path)
    ends_with(0, "weights", "list", "--dir", tmp_path)
    assert "clip-l14: cannot be read" in capsys.readouterr().out


def test_packages_that_do_not_fit_each_other_are_no_fault_of_the_weights(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> Any:
        if name == "torchvision":
            raise RuntimeError("operator torchvision::nms does not exist\nand more")
    monkeypatch.setattr(registry, "scorer_status", lambda id, settings: "")
    monkeypatch.setattr(registry, "import_module", broken)
    spec = ScorerSpec("x", "X", "rating", "tests", lambda opening: None,
                      packages=("torch", "torchvision"), extra="torch")
    monkeypatch.setattr(registry, "scorer_spec", lambda id: spec)
    box = ScorerBox(scorer_settings(tmp_path))
    with pytest.raises(BackendUnavailableError, match=r"^torchvision is installed and cannot be imported \(operator "):
        box.get("x")
    assert 'pip install "spatialbench[torch]"' in box.lacking("x")


# --- before any work --------------------------------------------------------------------------------------


def test_options_that_name_nothing_are_refused_before_the_world_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no yaml: [")
    (tmp_path / "judge.yaml").write_text("base_url: http://127.0.0.1:9/v1\n")
    protocol = load_protocol("happyworld-spatial-1-fast")
    world = tmp_path / "never-read.glb"
    for scoring, error in ((Scoring(weights=tmp_path / "file"), UsageError),
                           (Scoring(weights=tmp_path / "gone"), UsageError),
                           (Scoring(workers=tmp_path / "gone"), MissingInputError),
                           (Scoring(workers=tmp_path / "file"), ConfigError),
                           (Scoring(judge=tmp_path / "gone"), MissingInputError),
                           (Scoring(judge=tmp_path / "judge.yaml", max_cost=1.0), UsageError)):
        with pytest.raises(error) as raised:
            run_world(world, RunOptions(scoring=scoring))
        assert "never-read" not in str(raised.value)
    check_scoring(Scoring(), protocol)  # nothing is named, and nothing is wrong with that
    check_scoring(Scoring(judge=tmp_path / "judge.yaml"), protocol)
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("kind", ["missing", "pipe", "folder"])
def test_an_input_image_that_is_no_file_is_refused_before_the_world_is_read(kind: str, tmp_path: Path) -> None:
    if kind == "pipe":
        os.mkfifo(tmp_path / "i.png")
        with pytest.raises(InputError, match="is no file"):  # nor is it waited for
            read_picture(tmp_path / "i.png")
    elif kind == "folder":
        (tmp_path / "i.png").mkdir()
    (tmp_path / "case.yaml").write_text("id: c\nimage: i.png\n")
    with pytest.raises(MissingInputError, match=r"i\.png: the input image"):
        run_world(tmp_path / "never-read.glb", RunOptions(case=tmp_path / "case.yaml"))


@pytest.mark.parametrize("case", [{"categories": [""]}, {"categories": ["chair", " "]}, {"categories": ["x" * 3000]},
                                  {"objects": [{"id": "", "text": "a"}]},
                                  {"objects": [{"id": "a\x1b[31m", "text": "a"}]},
                                  {"objects": [{"id": "a" * 200, "text": "a"}]}])
def test_names_of_a_case_that_are_none(case: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        validate_strict(SnapshotCase, {"id": "c", **case}, "case")
    validate_strict(SnapshotCase, {"id": "c", "categories": ["chair"], "objects": [{"id": "Stuhl 1", "text": "a"}]}, "")


def test_a_text_with_a_mark_of_the_model_is_refused() -> None:
    """Behind an end token CLIP's text tower does not read on."""
    class Tokenizer:
        all_special_ids = (1, 2)

        def __call__(self, text: str, verbose: bool) -> dict[str, list[int]]:
            return {"input_ids": [1, *({"<end>": 2}.get(w, 7) for w in text.split()), 2]}

        def convert_ids_to_tokens(self, id: int) -> str:
            return "<end>"
    assert check_texts(Tokenizer(), ["a room", ""], "CLIP") == [4, 2]
    with pytest.raises(InputError, match="the text holds '<end>', which is a mark of CLIP's own"):
        check_texts(Tokenizer(), ["a room", "a <end> room"], "CLIP")


# --- the judge --------------------------------------------------------------------------------------------


def test_a_judge_that_cannot_be_used_is_not_tried_again_for_the_same_world() -> None:
    class Broken:
        asked = 0

        def ask(self, questions: Any) -> Any:
            self.asked += 1
            raise BackendUnavailableError("the judge cannot be used: the key is refused")
    session = Broken()
    judge = LentJudge(session)  # type: ignore[arg-type]
    for _ in range(3):
        with pytest.raises(BackendUnavailableError, match="the key is refused"):
            judge.ask([])
    assert session.asked == 1


def test_a_dry_run_asks_and_writes_nothing(tmp_path: Path) -> None:
    """The address answers nobody: asking would be an error. All views are of one colour, and so one picture."""
    (tmp_path / "judge.yaml").write_text("base_url: http://127.0.0.1:9/v1\n")
    words = ["run", glb(tmp_path / "w.glb", room()), "--judge", tmp_path / "judge.yaml", "--judge-dry-run", "-o",
             tmp_path / "out", *(w for s in (*QUICK, "metrics=[M06]") for w in ("--set", s))]
    done = CliRunner().invoke(cli, [str(w) for w in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "would make 1 calls with 1 pictures" in done.output and "nothing was written" in done.output
    assert not (tmp_path / "out").exists()


def test_workers_of_a_batch_are_told_all_of_it_and_a_dry_run_is_refused(tmp_path: Path) -> None:
    told = Scoring(tmp_path / "w", "cpu", tmp_path / "x", True, tmp_path / "j", "refresh", 4.0, True)
    assert Scoring.received(json.loads(json.dumps(told.sent()))) == told
    assert Scoring.received(told.sent(workers=4)).max_cost == 1.0
    with pytest.raises(UsageError, match="--judge-dry-run: a dry run of the judge is of one world"):
        open_batch(BatchOptions(out=tmp_path / "out", worlds=tmp_path, scoring=Scoring(judge_dry_run=True)))


def test_a_judge_or_stand_in_that_came_is_used_for_what_was_unavailable(tmp_path: Path) -> None:
    pytest.importorskip("openai")
    prepare()
    (tmp_path / "judge.yaml").write_text("base_url: http://127.0.0.1:9/v1\n")
    recipes = {"M06": "", "M07": "", "M19": ""}
    settings = scorer_settings(tmp_path)
    assert Wanted(recipes, "", settings=settings).came == set()
    assert Wanted(recipes, "", settings=settings, judge=tmp_path / "judge.yaml").came == {"M06"}
    stands = {"tapip3d": "reference_tracks", "sam3": "niqe"}  # of which both need no weights
    assert Wanted(recipes, "", settings=settings, substitutes=stands).came == {"M19"}


# --- workers ----------------------------------------------------------------------------------------------


def test_reasons_do_not_name_the_folder_of_a_job(tmp_path: Path) -> None:
    """It has another name each time, and reasons are part of results."""
    wanted = {"tracks": WantedArray((1,), ("float32",))}
    for read in (lambda: read_answer(tmp_path, "tapip3d"), lambda: read_outputs(tmp_path, wanted, "tapip3d")):
        with pytest.raises(BackendUnavailableError) as raised:
            read()
        assert "No such file" in str(raised.value) and str(tmp_path) not in str(raised.value)
