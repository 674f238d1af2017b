"""Evidence of objects: files in place of models, from the case file to the result; and files that are refused."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from spatialbench.errors import ConfigError, CorruptInputError, InputError, MissingInputError
from spatialbench.runs.run_files import write_results
from spatialbench.runs.single import RunOptions, run_world
from spatialbench.runs.store import read_units
from spatialbench.tracks.spatial.evidence_files import read_mask
from spatialbench.tracks.spatial.object_evidence import object_evidence, object_files
from spatialbench.types import Status, level_pose, load_case
from tests.analytic import EYE, Soup, write_glb
from tests.object_world import (
    BOX,
    LENS,
    METRICS,
    PROTOCOL,
    SIZE,
    RedDetector,
    case_of,
    coloured,
    first_view,
    measure,
    observe,
    room,
    seen_pixels,
)

ANSWERS = ("inside_scene", "target_visible", "artifact_free", "complete")
SETTINGS = ("finding.min_surfels=2000", "finding.max_surfels=2000", "finding.voxel=0.3", "views.ring_frames=4", LENS,
            "views.supersample=1", f"metrics=[{', '.join(METRICS)}]")


def png(path: Path, mask: np.ndarray) -> None:
    Image.fromarray(mask.astype(np.uint8) * 255).save(path)


def judge(path: Path, views=range(24), **answers) -> None:
    n = len(list(views))
    path.write_text(json.dumps({"views": list(views), **{k: answers.get(k, [True] * n) for k in ANSWERS}}))


@pytest.fixture(scope="module")
def orbit():
    """The masks that rays against the box give in each orbit view."""
    obs = observe(room(), sam3=RedDetector())
    return [seen_pixels(c) for c in obs.get("spatial.object_orbits").cameras["box"]]


@pytest.fixture
def folder(tmp_path, orbit) -> Path:
    """A case with a file for each model, of which every second view shows the object."""
    (tmp_path / "masks").mkdir()
    png(tmp_path / "probe.png", seen_pixels(first_view()))
    for k in range(1, 24, 2):
        png(tmp_path / "masks" / f"{k:02d}.png", orbit[k])
    views = list(range(1, 24, 2))
    judge(tmp_path / "judge.json", artifact_free=[k < 12 for k in range(24)])
    np.savez(tmp_path / "rewards.npz", views=views, rewards=np.arange(12) % 2 * 2.0)  # s = 1
    tracks = np.zeros((25, 64, 3))
    tracks[24, :16] = 0.1
    np.savez(tmp_path / "tracks.npz", views=[(1 + k) % 24 for k in range(25)], tracks=tracks)
    (tmp_path / "case.yaml").write_text("""id: c
objects:
- id: box
  text: a red box
  evidence:
    {probe_mask: probe.png, masks: 'masks/{view}.png', judge: judge.json, rewards: rewards.npz, tracks: tracks.npz}
""")
    return tmp_path


def files_of(folder: Path):
    case = load_case(folder / "case.yaml")
    return case, {k: folder / p for k, p in object_files(case, lambda p: (folder / p).is_file()).items()}


EXPECTED = {"M16": 0.5, "M17": 1.0, "M18": 0.5, "M19": 0.75, "M20": 0.6, "M21": 1.0, "M22": 0.5, "M23": 1.0,
            "M24": 2 * 0.75 / 1.75}
"""By hand: r_s = 12/24; s = 1, p = 1/2; A = 48/64, H(3/4, 1/2) = 0.75 / 1.25; p_v = (1/2 + 1) / 2."""


def test_a_run_with_evidence_needs_no_model(folder):
    s = Soup()
    s.box((-4.0, -4.0, 0.0), (4.0, 4.0, 2.7), inward=True)
    base = len(s.f)
    s.box(*BOX)
    world = write_glb(folder / "w.glb", coloured(s.mesh(), base), level_pose(EYE))
    result = run_world(world, RunOptions(settings=SETTINGS, case=folder / "case.yaml"))
    m = {x.metric: x for x in result.measurements}
    assert {id: m[id].value for id in METRICS} == pytest.approx(EXPECTED)
    for id in METRICS:
        assert "evidence_given" in m[id].flags
        assert m[id].object == "box"
    write_results(result, folder / "out")
    assert read_units(folder / "out" / "units.jsonl") == result.measurements
    record = json.loads((folder / "out" / "run.json").read_text())
    assert record["evidence"]["00.judge"] == "judge.json"
    assert record["evidence"]["00.masks.01"] == "01.png"


def test_evidence_goes_before_models_and_may_be_given_in_part(folder, orbit):
    case, files = files_of(folder)
    detector = RedDetector()
    m = measure(observe(room(), case, files={k: p for k, p in files.items() if "masks" not in k}, sam3=detector),
                ("M16", "M21"))
    assert m["M16"].value == 1.0
    assert m["M16"].flags == ("evidence_given",)  # of the place
    assert detector.asked == 24
    case = case_of({"id": "box", "text": "a red box", "evidence": {"judge": "judge.json"}})
    m = measure(observe(room(), case, files={"00.judge": files["00.judge"]}, sam3=detector))
    assert m["M16"].flags == ()
    assert m["M21"].flags == ("evidence_given",)
    assert m["M18"].status is Status.UNAVAILABLE


def test_masks_as_one_array_of_which_empty_ones_show_nothing(folder, orbit):
    stack = np.stack(orbit)
    stack[[0, 5]] = False
    np.savez_compressed(folder / "m.npz", masks=stack)
    case = case_of({"id": "box", "text": "a red box", "evidence": {"masks": "m.npz", "probe_mask": "probe.png"}})
    m = measure(observe(room(), case, files={"00.masks": folder / "m.npz", "00.probe_mask": folder / "probe.png"}),
                ("M16",))
    assert m["M16"].value == 22 / 24


def test_a_probe_mask_that_shows_nothing_is_an_object_that_was_not_found(folder):
    png(folder / "probe.png", np.zeros((SIZE, SIZE), bool))
    case, files = files_of(folder)
    m = measure(observe(room(), case, files=files))
    assert m["M16"].value == m["M24"].value == 0.0
    assert m["M16"].reason == "target_not_lifted"
    assert m["M16"].flags == ("evidence_given",)


@pytest.mark.parametrize(("views", "value"), [(22, 1.0), (21, None)])
def test_answers_about_too_few_views_are_none(folder, views, value):
    judge(folder / "judge.json", range(views))
    case, files = files_of(folder)
    m = measure(observe(room(), case, files=files), ("M21",))["M21"]
    assert m.value == value
    assert value is not None or "21 of 24" in m.reason


def test_rewards_and_tracks_of_other_views_are_no_values(folder):
    np.savez(folder / "rewards.npz", views=[1, 3], rewards=[1.0, 2.0])
    np.savez(folder / "tracks.npz", views=list(range(24)) + [0], tracks=np.zeros((25, 64, 3)))
    case, files = files_of(folder)
    m = measure(observe(room(), case, files=files), ("M16", "M17", "M18", "M19", "M20"))
    assert m["M16"].value == 0.5
    for id in ("M17", "M18", "M19", "M20"):
        assert m[id].status is Status.INVALID
    assert "[1, 3]" in m["M17"].reason
    assert "first view that shows the object" in m["M19"].reason


@pytest.mark.parametrize(("name", "content"), [
    ("judge.json", b"{"), ("judge.json", b'{"views": [0]}'), ("judge.json", b" " * (1 << 20) + b" {}"),
    ("judge.json", json.dumps({"views": [0], **{k: [1] for k in ANSWERS}}).encode()),
    ("judge.json", json.dumps({"views": [24], **{k: [True] for k in ANSWERS}}).encode()),
    ("judge.json", json.dumps({"views": [1, 0], **{k: [True, True] for k in ANSWERS}}).encode()),
    ("rewards.npz", b"PK"), ("tracks.npz", b""), ("probe.png", b"\x89PNG\r\n\x1a\n"), ("masks/03.png", b"no")])
def test_files_that_are_not_what_they_should_be_are_refused(folder, name, content):
    (folder / name).write_bytes(content)
    case, files = files_of(folder)
    with pytest.raises(InputError, match=name.replace(".", r"\.")):
        object_evidence(case, files, PROTOCOL)


@pytest.mark.parametrize("arrays", [
    {"views": [1], "rewards": [np.nan]}, {"views": [1], "rewards": [1.0, 2.0]},
    {"views": [3, 1], "rewards": [1.0, 2.0]}, {"views": [1.0], "rewards": [1.0]}, {"rewards": [1.0]},
    {"views": [1], "rewards": np.array([{}], object)}])
def test_arrays_of_rewards_that_are_none(folder, arrays):
    np.savez(folder / "rewards.npz", **arrays)
    case, files = files_of(folder)
    with pytest.raises(CorruptInputError, match=r"rewards\.npz"):
        object_evidence(case, files, PROTOCOL)


def test_an_array_of_negative_length_takes_no_memory(folder):
    """Its header says [-1]; what follows would be read to its end, however much that is."""
    with zipfile.ZipFile(folder / "rewards.npz", "w") as archive:
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(header, {"descr": "<i8", "fortran_order": False, "shape": (-1,)})
        archive.writestr("views.npy", header.getvalue() + bytes(1 << 16))
    case, files = files_of(folder)
    with pytest.raises(CorruptInputError, match=r"rewards\.npz, views: is int64 -1, and must be any"):
        object_evidence(case, files, PROTOCOL)


@pytest.mark.parametrize(("shape", "words"), [((1 << 40,), "holds 1,099,511,627,776 values, more than 512 MiB"),
                                              ((9,), "is cut off")])
def test_an_array_that_claims_more_than_there_is(folder, shape, words):
    with zipfile.ZipFile(folder / "rewards.npz", "w") as archive:
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(header, {"descr": "<i8", "fortran_order": False, "shape": shape})
        archive.writestr("views.npy", header.getvalue() + bytes(64))
    case, files = files_of(folder)
    with pytest.raises(CorruptInputError, match=words):
        object_evidence(case, files, PROTOCOL)


def test_a_file_of_answers_larger_than_answers_can_be_is_not_read(folder):
    with (folder / "judge.json").open("a") as file:
        file.write(" " * (1 << 20))
    case, files = files_of(folder)
    with pytest.raises(CorruptInputError, match="is larger than 1 MiB"):
        object_evidence(case, files, PROTOCOL)


def test_at_least_half_of_white_is_the_object_and_clear_pixels_are_not(tmp_path):
    gray = Image.fromarray(np.array([[127, 128, 255]], np.uint8))
    gray.save(tmp_path / "gray.png")
    assert read_mask(tmp_path / "gray.png", (1, 3)).tolist() == [[False, True, True]]
    Image.fromarray(np.array([[[255, 255, 255, a] for a in (127, 128, 255)]], np.uint8)).save(tmp_path / "clear.png")
    assert read_mask(tmp_path / "clear.png", (1, 3)).tolist() == [[False, True, True]]


def test_a_mask_of_zeros_and_ones_is_not_taken_for_one_that_shows_nothing(folder):
    Image.fromarray(seen_pixels(first_view()).astype(np.uint8)).save(folder / "probe.png")
    case, files = files_of(folder)
    with pytest.raises(CorruptInputError, match=r"probe\.png: is 0 and 1 of 255.*255 on the target"):
        object_evidence(case, files, PROTOCOL)


def test_files_that_are_not_there_are_named(folder):
    for name in ("probe.png", "judge.json", "tracks.npz"):
        case, files = files_of(folder)
        (folder / name).rename(folder / "away")
        with pytest.raises(MissingInputError, match=name.replace(".", r"\.")):
            object_evidence(case, files, PROTOCOL)
        (folder / "away").rename(folder / name)


@pytest.mark.parametrize(("size", "ok"), [((96, 96), True), ((200, 200), True), ((96, 48), False)])
def test_an_annotated_mask_has_the_shape_of_the_view(folder, size, ok):
    mask = np.zeros(size[::-1], bool)
    mask[size[1] // 2:, :size[0] // 2] = True
    png(folder / "a.png", mask)
    case = case_of({"id": "box", "text": "t", "mask": "a.png"})
    if ok:
        place = object_evidence(case, {"00.mask": folder / "a.png"}, PROTOCOL)["box"].place
        assert place.shape == (SIZE, SIZE)
        assert place.sum() == SIZE * SIZE // 4
    else:
        with pytest.raises(CorruptInputError, match="96x48"):
            object_evidence(case, {"00.mask": folder / "a.png"}, PROTOCOL)


def test_an_annotation_without_a_pixel_is_refused(folder):
    png(folder / "a.png", np.zeros((SIZE, SIZE), bool))
    with pytest.raises(CorruptInputError, match="no pixel on the object"):
        object_evidence(case_of({"id": "b", "text": "t", "mask": "a.png"}), {"00.mask": folder / "a.png"}, PROTOCOL)
    with pytest.raises(ConfigError, match="'b', image_polygon"):
        object_evidence(case_of({"id": "b", "text": "t", "image_polygon": [(0, 0), (1, 1), (0.5, 0.5)]}), {}, PROTOCOL)


def test_files_are_named_by_the_number_of_the_object(folder):
    case = case_of({"id": "a.judge", "text": "t"}, {"id": "a", "text": "t", "mask": "m.png", "evidence": {
        "judge": "j.json", "masks": "m/{view}.png"}})
    there = {"m/02.png", "m/11.png"}
    assert object_files(case, there.__contains__) == {
        "01.mask": "m.png", "01.judge": "j.json", "01.masks.02": "m/02.png", "01.masks.11": "m/11.png"}
    assert object_files(case, lambda p: False)["01.masks.00"] == "m/00.png"  # so that one is missed
    assert object_files(None, lambda p: True) == {}


@pytest.mark.parametrize(("text", "message"), [
    ("mask: a.png, image_polygon: [[0, 0], [1, 0], [1, 1]]", "give one of"),
    ("mask: a.png, evidence: {probe_mask: b.png}", "give one of"),
    ("image_polygon: [[0, 0], [1, 0]]", "three corners"),
    ("image_polygon: [[0, 0], [1, 0], [2, 1]]", "less than or equal to 1|at most 1"),
    ("mask: /a.png", "absolute"), ("evidence: {masks: a.png}", "neither one .npz"), ("evidence: {judges: a}", "judge")])
def test_places_and_paths_that_make_no_sense(tmp_path, text, message):
    (tmp_path / "case.yaml").write_text(f"id: c\nobjects: [{{id: b, text: t, {text}}}]\n")
    with pytest.raises(ConfigError, match=message):
        load_case(tmp_path / "case.yaml")


def test_a_path_out_of_the_cases_folder_is_refused(tmp_path):
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "case.yaml").write_text("id: c\nobjects: [{id: b, text: t, mask: ../secret.png}]\n")
    with pytest.raises(ConfigError, match="leads out of the folder"):
        run_world(tmp_path / "w.glb", RunOptions(case=tmp_path / "c" / "case.yaml"))


@pytest.mark.parametrize("text", ["''", "' '", "'" + "x" * 2001 + "'"])
def test_a_text_that_nobody_could_be_asked_is_refused(tmp_path, text):
    (tmp_path / "case.yaml").write_text(f"id: c\nobjects: [{{id: b, text: {text}}}]\n")
    with pytest.raises(ConfigError, match="text"):
        load_case(tmp_path / "case.yaml")
