"""An edit end to end: known worlds, evidence from files, values derived by hand.

The room is 6 x 5 x 2.7 m with a free-standing shelf on each side. Its faces have vertex colours, which are shown unlit:
linear c becomes the sRGB code e(c) = 1.055 c^(1/2.4) - 0.055.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from spatialbench.errors import ConfigError, CorruptInputError, MissingInputError
from spatialbench.renderers.trajectories import orbit
from spatialbench.runs.pair import PairResult, run_pair, write_pair
from spatialbench.runs.pair_frames import write_frames
from spatialbench.runs.single import RunOptions
from spatialbench.runs.store import read_units
from spatialbench.types import Camera, Status, TriangleMesh, level_pose
from tests.analytic import EYE, Soup, write_glb
from tests.tracks.test_objects import Halves

BOX_LOW, BOX_HIGH = np.array([-0.3, 0.4, 0.0]), np.array([0.3, 1.0, 0.6])
SHELVES = (((-2.5, -1.5, 0.0), (-2.2, 1.5, 1.0)), ((2.2, -1.5, 0.0), (2.5, 1.5, 1.0)))
SIZE = 64
LENS = f"views.lens={{width: {SIZE}, height: {SIZE}, fov_deg: 75.0}}"
QUICK = ("finding.min_surfels=2000", "finding.max_surfels=2000", "finding.voxel=0.3", "views.ring_frames=4",
         "views.probe_size=32", LENS)
FILE_BOX = "{low: [-0.3, 0, -1.0], high: [0.3, 0.6, -0.4]}"  # x, z, -y of the box
ROOM, TARGET = 0.2, 0.6


def encoded(linear: float) -> float:
    return 1.055 * linear ** (1 / 2.4) - 0.055


def room(box: bool = True, colour: float = ROOM, box_colour: float = TARGET) -> TriangleMesh:
    s = Soup()
    s.box((-3.0, -2.5, 0.0), (3.0, 2.5, 2.7), inward=True)
    for low, high in SHELVES:
        s.box(low, high, skip="b")
    base = len(s.f)
    if box:
        s.box(tuple(BOX_LOW), tuple(BOX_HIGH))
    mesh = s.mesh()
    c = np.full((len(mesh.faces), 3, 4), colour, np.float32)
    c[base:] = box_colour
    c[..., 3] = 1.0
    return replace(mesh, colors=c)


def glb(path: Path, mesh: TriangleMesh) -> Path:
    return write_glb(path, mesh, level_pose(EYE))


def orbit_cameras() -> list[Camera]:
    """The 24 views by OPEN-17, world frame: origin at the eye, radius 1.5 diagonals of the box."""
    centre = (BOX_LOW + BOX_HIGH) / 2 - EYE
    radius = 1.5 * np.linalg.norm(BOX_HIGH - BOX_LOW)
    return orbit(centre, radius, 24, SIZE, SIZE, 60.0, start=(0, 0, 0))


def box_mask(camera: Camera, low: np.ndarray = BOX_LOW, high: np.ndarray = BOX_HIGH, grow: float = 0.0) -> np.ndarray:
    """[H,W] pixels whose centre ray meets the box, by the slab test; ``grow`` widens the box, m."""
    j, i = np.mgrid[:camera.height, :camera.width]
    local = np.stack([(i + 0.5 - camera.cx) / camera.fx, (j + 0.5 - camera.cy) / camera.fy, np.ones(i.shape)], -1)
    d = local @ camera.pose.rotation.T
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.stack([(edge - EYE - camera.pose.position) / d for edge in (low - grow, high + grow)])
    near, far = np.nanmax(t.min(axis=0), axis=-1), np.nanmin(t.max(axis=0), axis=-1)
    return (near <= far) & (far > 0)


def masks(grow: float = 0.0) -> np.ndarray:
    return np.stack([box_mask(c, grow=grow) for c in orbit_cameras()])


def case(folder: Path, category: str = "deletion", evidence: str = "", more: str = "") -> Path:
    target = {"deletion": "target_before: a box", "addition": "target_after: a box",
              "replacement": "target_before: a box\ntarget_after: a ball", "colour": "target_before: a box"}
    path = folder / "case.yaml"
    path.write_text(f"kind: edit\nid: the-edit\ninstruction: do it\ncategory: {category}\n"
                    f"{target.get(category, '')}\n{more}\n" + (f"evidence:\n{evidence}" if evidence else ""))
    return path


def run(folder: Path, before: TriangleMesh, after: TriangleMesh, case_file: Path | None, **options) -> PairResult:
    return run_pair("edit", glb(folder / "before.glb", before), glb(folder / "after.glb", after), RunOptions(
        settings=QUICK, case=case_file, **options))


def rows(result: PairResult) -> dict:
    return {m.metric: m for m in result.measurements}


def judge(folder: Path, views, after, before=None) -> str:
    answers = {"views": list(views), "after": list(after), **({} if before is None else {"before": list(before)})}
    (folder / "judge.json").write_text(json.dumps(answers))
    return "  judge: judge.json\n"


def give_masks(folder: Path, **arrays: np.ndarray) -> str:
    text = f"  target_box: {FILE_BOX}\n"
    for name, array in arrays.items():
        np.savez_compressed(folder / f"{name}.npz", masks=array)
        text += f"  masks_{name}: {name}.npz\n"
    return text


# --- a box is deleted -------------------------------------------------------------------------------------


def test_deleting_a_box_leaves_the_background_as_it_was(tmp_path):
    """With a mask that holds every touched pixel (grown by more than a pixel's width at 3 m) nothing else differs."""
    views = (0, 4, 8, 12, 16, 20)  # seen in all 24
    lpips = np.full((6, SIZE, SIZE), 0.2, np.float32)
    np.savez_compressed(tmp_path / "lpips.npz", views=views, maps=lpips)
    tokens = np.zeros((2, 6, 37, 37, 2), np.float32)
    tokens[0, ..., 0] = 1.0
    tokens[1] = (0.85, np.sqrt(1 - 0.85**2))  # 1 - cos = 0.15
    np.savez_compressed(tmp_path / "dino.npz", views=views, before=tokens[0], after=tokens[1])
    evidence = give_masks(tmp_path, before=masks(grow=0.12)) + judge(tmp_path, views, [False] * 5 + [True], [False] * 6)
    m = rows(run(tmp_path, room(), room(box=False),
                 case(tmp_path, evidence=evidence + "  lpips: lpips.npz\n  dino: dino.npz\n")))
    assert m["M31"].value == 1.0
    assert m["M32"].value == 99.0
    assert m["M32"].components["frame_psnr"] == [99.0] * 6
    assert m["M32"].components["views"] == list(views)
    assert m["M33"].value == pytest.approx(0.2, abs=1e-6)  # float32
    assert m["M34"].value == pytest.approx(0.15, abs=1e-6)
    assert m["M36"].value == pytest.approx(1 - (10 ** (-99 / 20) + 0.2 + 0.15) / 3, abs=1e-6)
    assert m["M35"].status is m["M37"].status is Status.INAPPLICABLE
    for id in ("M31", "M32", "M33", "M34", "M36"):
        assert m[id].flags == ("evidence_given",)


def test_what_changes_outside_the_mask_is_counted(tmp_path):
    """Noise of a known size on the walls: e(0.3) - e(0.2) in every channel and pixel that the mask leaves."""
    result = run(tmp_path, room(), room(box=False, colour=0.3),
                 case(tmp_path, evidence=give_masks(tmp_path, before=masks(grow=0.12))))
    difference = encoded(0.3) - encoded(0.2)
    m = rows(result)["M32"]
    # float32 pixels of 0.5 are exact to 6e-8, of a difference of 0.1: 1e-5 dB
    assert m.value == pytest.approx(-20 * np.log10(difference), abs=1e-3)
    assert m.components["rmse"] == pytest.approx(difference, rel=1e-4)
    assert rows(result)["M33"].status is Status.UNAVAILABLE
    assert "evidence ('lpips')" in rows(result)["M33"].reason


def test_too_small_a_mask_lets_the_deleted_box_count_against_the_background(tmp_path):
    """Half of the box's pixels left unmasked: MSE = d^2 n / N by counting pixels with the slab test."""
    full = masks()
    half = full.copy()
    half[:, :, ::2] = False  # even columns are not masked
    m = rows(run(tmp_path, room(), room(box=False), case(tmp_path, evidence=give_masks(tmp_path, before=half))))
    difference = encoded(TARGET) - encoded(ROOM)
    for k, value in zip(m["M32"].components["views"], m["M32"].components["frame_psnr"], strict=True):
        changed = (full[k] & ~half[k]).sum() / (~half[k]).sum()
        # the outline is blended by 2 x 2 samples: of some 1,000 changed pixels under 100 lie on it, by up to a half
        assert value == pytest.approx(-10 * np.log10(difference**2 * changed), abs=0.5)


# --- operations and where their object is sought ----------------------------------------------------------


def test_an_addition_is_sought_in_the_world_after(tmp_path):
    seen = masks(grow=0.12)
    seen[[0, 1, 2]] = False
    m = rows(run(tmp_path, room(box=False), room(), case(tmp_path, "addition", give_masks(tmp_path, after=seen))))
    assert m["M32"].value == 99.0
    assert m["M32"].counts == {"detectable": 21, "frames": 6, "valid": 6}
    assert m["M32"].components["views"] == [3, 6, 10, 13, 17, 20]  # floor(21 k / 6) of 3..23


@pytest.mark.parametrize("category", ["replacement", "colour"])
def test_replacements_and_recolourings_need_both_masks(tmp_path, category):
    half = masks(grow=0.12)
    left, right = half.copy(), half.copy()
    left[:, :, SIZE // 2:] = False
    right[:, :, :SIZE // 2] = False
    after = room(box_colour=0.1)
    both = rows(run(tmp_path, room(), after, case(tmp_path, category, give_masks(tmp_path, before=left, after=right))))
    assert both["M32"].value == 99.0  # only their union holds the box
    name = "before" if category == "colour" else "after"
    other = "after" if category == "colour" else "before"
    one = rows(run(tmp_path, room(), after, case(tmp_path, category, give_masks(tmp_path, **{name: half}))))
    assert one["M32"].status is Status.UNAVAILABLE
    assert f"'masks_{other}'" in one["M32"].reason


def test_png_masks_one_file_for_each_view_that_shows_the_object(tmp_path):
    (tmp_path / "masks").mkdir()
    for k, mask in enumerate(masks(grow=0.12)):
        if k % 2:
            Image.fromarray(mask.astype(np.uint8) * 255).save(tmp_path / "masks" / f"before-{k:02d}.png")
    m = rows(run(tmp_path, room(), room(box=False), case(
        tmp_path, evidence=f"  target_box: {FILE_BOX}\n  masks_before: 'masks/before-{{view}}.png'\n")))
    assert m["M32"].value == 99.0
    assert m["M32"].components["views"] == [1, 5, 9, 13, 17, 21]


def test_the_object_is_located_by_its_masks_in_the_origin_probes(tmp_path):
    """Median and 2nd to 98th percentiles of what the probes see of the box: its front and its top."""
    camera = Camera.from_fov(level_pose((0, 0, 0)), 90.0, 32)
    mask = box_mask(camera)
    down = Camera.from_fov(level_pose((0, 0, 0), 0, -90), 90.0, 32)
    (tmp_path / "p").mkdir()
    for k, seen in ((0, mask), (5, box_mask(down))):
        Image.fromarray(seen.astype(np.uint8) * 255).save(tmp_path / "p" / f"{k:02d}.png")
    result = run(tmp_path, room(), room(box=False), case(tmp_path, evidence="  probe_masks: 'p/{view}.png'\n"))
    target = result.observations.get("spatial.edit_target")
    assert target.points == int(mask.sum() + box_mask(down).sum())
    low, high = BOX_LOW - EYE, BOX_HIGH - EYE
    # points lie on the box: a pixel's centre ray hits its surface; float32 depth of 2 m
    assert (target.centre >= low - 1e-4).all() and (target.centre <= high + 1e-4).all()
    assert target.centre[1] < 1.5  # no farther than it
    # the box of points is within the box and all but as wide as it (a pixel at 1.4 m is 0.09 m)
    assert 1.5 * (np.linalg.norm(high - low) - 0.55) < target.radius <= 1.5 * np.linalg.norm(high - low)
    assert rows(result)["M32"].status is Status.UNAVAILABLE


@pytest.mark.parametrize(("category", "role"), [("deletion", "before"), ("colour", "before"), ("addition", "after"),
                                                ("replacement", "after")])
def test_the_object_is_lifted_in_its_world_from_pixels_with_opacity(tmp_path, category, role):
    """Of probes whose left half has an opacity under 0.5 the right half counts, at 2 m in its world.

    Column k of 16 to 31 is (k - 15.5) / 8 m to the right. Ahead that is x from 0.0625 to 1.9375, at y = 2; to the right
    it is y from -0.0625 to -1.9375, at x = 2. Medians of both together lie halfway between the halves.
    """
    from spatialbench.observe import Observations

    seen = np.zeros((6, 32, 32), bool)
    seen[:2] = True
    np.savez_compressed(tmp_path / "p.npz", masks=seen)
    result = run(tmp_path, room(), room(box=False), case(tmp_path, category, "  probe_masks: p.npz\n"))
    obs = Observations(result.observations.context)
    other = {"before": "after", "after": "before"}[role]
    obs._values |= {f"spatial.{role}_renderer": Halves(), f"spatial.{other}_renderer": None}
    target = obs.get("spatial.edit_target")
    assert target.points == 2 * 32 * 16
    assert target.centre == pytest.approx(((1.9375 + 2) / 2, (2 - 0.0625) / 2, 0.0), abs=1e-6)


# --- zeros, missing and undefined -------------------------------------------------------------------------


def test_an_object_that_no_view_shows_is_a_failed_edit(tmp_path):
    m = rows(run(tmp_path, room(), room(box=False), case(
        tmp_path, evidence=give_masks(tmp_path, before=np.zeros((24, SIZE, SIZE), bool)))))
    assert (m["M31"].value, m["M31"].reason) == (0.0, "no_object_view")
    assert (m["M32"].status, m["M32"].reason) == (Status.INVALID, "no_object_view")
    assert m["M33"].status is m["M34"].status is Status.INVALID
    assert (m["M36"].value, m["M36"].reason) == (0.0, "not_executed")


def test_probes_that_see_no_object_are_a_failed_edit_too(tmp_path):
    np.savez_compressed(tmp_path / "probes.npz", masks=np.zeros((6, 32, 32), bool))
    m = rows(run(tmp_path, room(), room(box=False), case(tmp_path, evidence="  probe_masks: probes.npz\n")))
    assert (m["M31"].value, m["M36"].value) == (0.0, 0.0)
    assert m["M32"].status is Status.INVALID


def test_full_masks_leave_no_background(tmp_path):
    evidence = give_masks(tmp_path, before=np.ones((24, SIZE, SIZE), bool)) + judge(
        tmp_path, (0, 4, 8, 12, 16, 20), [True] * 6)
    m = rows(run(tmp_path, room(), room(box=False), case(tmp_path, evidence=evidence)))
    assert (m["M32"].status, m["M32"].reason) == (Status.INVALID, "empty_background")
    assert m["M31"].value == 1.0
    assert m["M36"].status is Status.UNAVAILABLE  # LPIPS and DINO are lacking, and that is said first
    few = np.ones((24, SIZE, SIZE), bool)
    few[:, 0, :63] = False
    m = rows(run(tmp_path, room(), room(box=False), case(tmp_path, evidence=give_masks(tmp_path, before=few))))
    assert (m["M32"].status, m["M32"].reason) == (Status.INVALID, "no_valid_frame")


def test_a_judge_that_always_says_no_makes_the_score_zero_without_other_evidence(tmp_path):
    m = rows(run(tmp_path, room(), room(), case(tmp_path, evidence=judge(tmp_path, (0, 8), [False, False]))))
    assert (m["M31"].value, m["M31"].reason) == (0.0, "no_view_satisfies")
    assert m["M36"].value == 0.0
    assert m["M32"].status is Status.UNAVAILABLE


def test_without_evidence_models_are_named(tmp_path):
    m = rows(run(tmp_path, room(), room(box=False), case(tmp_path)))
    for id, model in (("M31", "Qwen3-VL"), ("M32", "SAM3"), ("M33", "LPIPS"), ("M34", "DINOv2"), ("M36", "Qwen3-VL")):
        assert m[id].status is Status.UNAVAILABLE
        assert model in m[id].reason


# --- global edits -----------------------------------------------------------------------------------------


def test_a_moved_light_changes_no_geometry(tmp_path):
    evidence = judge(tmp_path, range(6), [True] + [False] * 5)
    m = rows(run(tmp_path, room(), room(colour=0.5, box_colour=0.9), case(tmp_path, "lighting", evidence)))
    assert (m["M35"].value, m["M35"].flags) == (1.0, ())
    assert (m["M31"].value, m["M37"].value) == (1.0, 1.0)
    assert all(m[id].status is Status.INAPPLICABLE for id in ("M32", "M33", "M34", "M36"))


def test_a_box_that_a_lighting_edit_has_deleted_is_seen_in_the_depths(tmp_path):
    """Of the 32 x 32 pixels of each probe those that the box takes disagree, if what is behind is 5 % farther."""
    evidence = judge(tmp_path, range(6), [True] * 6)
    m = rows(run(tmp_path, room(), room(box=False), case(tmp_path, "lighting", evidence)))
    cameras = [Camera.from_fov(level_pose((0, 0, 0), yaw, pitch), 90.0, 32)
               for yaw, pitch in ((0, 0), (90, 0), (180, 0), (270, 0), (0, 90), (0, -90))]
    expected = []
    for camera in cameras:
        mask = box_mask(camera)
        near = _depth(camera, mask)
        behind = _room_depth(camera)
        agree = ~mask | (np.abs(behind - near) <= 0.05 * np.minimum(behind, near))
        expected.append(agree.mean())
    assert m["M35"].components["frame_agreement"] == pytest.approx(expected, abs=2 / 1024)  # rays along an edge
    assert m["M35"].value < 0.99
    assert m["M37"].value == m["M35"].value


def _depth(camera: Camera, mask: np.ndarray) -> np.ndarray:
    j, i = np.mgrid[:camera.height, :camera.width]
    local = np.stack([(i + 0.5 - camera.cx) / camera.fx, (j + 0.5 - camera.cy) / camera.fy, np.ones(i.shape)], -1)
    d = local @ camera.pose.rotation.T
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.stack([(edge - EYE) / d for edge in (BOX_LOW, BOX_HIGH)])
    return np.where(mask, np.nanmax(t.min(axis=0), axis=-1), np.inf)


def _room_depth(camera: Camera) -> np.ndarray:
    """To the shell and the shelves, from inside: first exit of the shell, or entry into a shelf before it."""
    j, i = np.mgrid[:camera.height, :camera.width]
    local = np.stack([(i + 0.5 - camera.cx) / camera.fx, (j + 0.5 - camera.cy) / camera.fy, np.ones(i.shape)], -1)
    d = local @ camera.pose.rotation.T
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.stack([(np.array(e) - EYE) / d for e in ((-3, -2.5, 0), (3, 2.5, 2.7))])
        out = np.nanmin(t.max(axis=0), axis=-1)
        for low, high in SHELVES:
            t = np.stack([(np.array(e) - EYE) / d for e in (low, high)])
            near, far = np.nanmax(t.min(axis=0), axis=-1), np.nanmin(t.max(axis=0), axis=-1)
            out = np.where((near <= far) & (near > 0) & (near < out), near, out)
    return out


def test_nothing_in_common_is_no_depth_agreement(tmp_path):
    """The world after is a plate far to the side: no probe pixel has depth in both worlds."""
    s = Soup()
    s.quad((-1.0, 0.6, 0.0), (1.0, 0.6, 0.0), (1.0, 0.6, 0.01), (-1.0, 0.6, 0.01))
    m = rows(run(tmp_path, room(), s.mesh(), case(tmp_path, "weather", judge(tmp_path, range(6), [True] * 6))))
    assert (m["M35"].status, m["M35"].reason) == (Status.INVALID, "no_common_depth")
    assert m["M37"].status is Status.INVALID
    assert "frames_disagree" in m["M35"].flags


# --- frames, scales, sameness -----------------------------------------------------------------------------


@pytest.mark.parametrize(("linear", "offset", "word"), [
    (np.eye(3), (0, 0, 0), ""),
    (2 * np.eye(3), (0, 0, 0), "2.00 times as large"),
    (np.eye(3), (0, 0, 0.5), "1.60 m down before and 1.10 m after"),
    (np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]]), (0, 0, 0), "in one frame and scale")])
def test_other_frames_and_scales_are_detected_and_said(tmp_path, linear, offset, word):
    m = np.eye(4)
    m[:3, :3], m[:3, 3] = linear, offset
    moved = room(box=False).transformed(m)
    result = run(tmp_path, room(), moved, None)
    flags = rows(result)["M35"].flags
    if not word:
        assert (result.warnings, flags) == ((), ())
        return
    assert "frames_disagree" in flags
    assert len(result.warnings) == 1 and word in result.warnings[0]


def test_the_world_after_is_not_anchored_anew(tmp_path):
    """Its own floor lies elsewhere; its transform is that of the world before."""
    raised = room(box=False).transformed(np.array([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0.05], [0, 0, 0, 1]]))
    result = run(tmp_path, room(), raised, None)
    before, after = result.worlds["before"], result.worlds["after"]
    assert np.array_equal(before.transform, after.transform)
    assert after.scale.factor == before.scale.factor == pytest.approx(1.0, abs=1e-6)
    assert after.ground_z == before.ground_z
    assert result.reports["after"].decisions["frame"].value == "that of the world before"


def test_files_of_other_conventions_are_brought_into_one(tmp_path):
    """The world after as STL: Z up, no unit; glTF is Y up. It is turned, and fits to the last rounding of float32."""
    before = glb(tmp_path / "before.glb", room())
    after = tmp_path / "after.stl"
    write_stl(after, room())
    result = run_pair("edit", before, after, RunOptions(settings=QUICK))
    assert rows(result)["M35"].value == 1.0
    assert "frames_disagree" not in rows(result)["M35"].flags
    assert "turned from up +Z to up +Y" in " ".join(result.reports["after"].warnings)


def write_stl(path: Path, mesh: TriangleMesh) -> None:
    data = np.zeros(len(mesh.faces), np.dtype([("n", "<3f4"), ("v", "<9f4"), ("a", "<u2")]))
    data["v"] = mesh.triangles.reshape(-1, 9)
    path.write_bytes(bytes(80) + np.uint32(len(data)).tobytes() + data.tobytes())


def test_the_same_file_twice_is_said(tmp_path):
    result = run(tmp_path, room(), room(), case(tmp_path, evidence=give_masks(tmp_path, before=masks())))
    assert result.warnings == ("both worlds are the same files: nothing was changed",)
    m = rows(result)["M32"]
    assert (m.value, m.flags) == (99.0, ("identical_worlds", "evidence_given"))


def test_worlds_that_look_the_same_are_said(tmp_path):
    """Other bytes, the same pixels: faces in another order."""
    mesh = room()
    order = np.arange(len(mesh.faces))[::-1]
    result = run(tmp_path, mesh, replace(mesh, faces=mesh.faces[order], colors=mesh.colors[order]), None)
    assert rows(result)["M35"].flags == ("identical_worlds",)
    assert "no pixel of the six origin probes differs" in result.warnings[0]


# --- bad evidence and bad cases ---------------------------------------------------------------------------

BAD = {
    "size": ("masks_before: m.npz", lambda p: np.savez(p / "m.npz", masks=np.zeros((24, 8, 8), bool)), "must be 24x64"),
    "views": ("masks_before: m.npz", lambda p: np.savez(p / "m.npz", masks=np.zeros((6, 64, 64), bool)), "6x64x64"),
    "object": ("masks_before: m.npz", lambda p: np.savez(p / "m.npz", masks=np.array([{}], object)), "object"),
    "name": ("masks_before: m.npz", lambda p: np.savez(p / "m.npz", mask=np.zeros(3)), "no array 'masks'.*has: mask"),
    "no zip": ("masks_before: m.npz", lambda p: (p / "m.npz").write_text("hello"), "is no npz"),
    "cut": ("masks_before: m.npz", lambda p: _cut(p / "m.npz"), "cannot be read|is no npz"),
    "text": ("judge: j.json", lambda p: (p / "j.json").write_text("yes"), "is no JSON"),
    "keys": ("judge: j.json", lambda p: (p / "j.json").write_text('{"views": [0]}'), "must hold views, before, after"),
    "numbers": ("judge: j.json", lambda p: (p / "j.json").write_text('{"views": [0], "after": [1]}'), "true and false"),
    "count": ("judge: j.json", lambda p: (p / "j.json").write_text('{"views": [0, 1], "after": [true]}'),
              "1 answers for 2 views"),
    "order": ("judge: j.json", lambda p: (p / "j.json").write_text('{"views": [1, 0], "after": [true, true]}'),
              "at most 6 of 0 to 23, ascending"),
    "png size": ("masks_before: 'm-{view}.png'",
                 lambda p: Image.new("L", (32, 64)).save(p / "m-00.png"), "is 32x64, and the view 64x64"),
    "png mode": ("masks_before: 'm-{view}.png'",
                 lambda p: Image.new("I;16", (64, 64)).save(p / "m-00.png"), "mode"),
    "png text": ("masks_before: 'm-{view}.png'", lambda p: (p / "m-00.png").write_text("x"), "is no PNG"),
    "png view": ("masks_before: 'm-{view}.png'", lambda p: Image.new("L", (64, 64)).save(p / "m-24.png"),
                 "is of view 24, and there are 24"),
    "tokens": ("dino: d.npz", lambda p: np.savez(p / "d.npz", views=np.zeros(0, int), before=np.zeros((0, 3, 3, 2)),
                                                after=np.zeros((0, 3, 3, 2))), "37x37"),
}


def _cut(path: Path) -> None:
    np.savez(path, masks=np.random.default_rng(0).random((24, 64, 64)) < 0.5)
    data = path.read_bytes()
    path.write_bytes(data[:len(data) // 2] + data[-400:])


@pytest.mark.parametrize("name", BAD)
def test_bad_evidence_is_refused_before_anything_is_measured(tmp_path, name):
    key, write, words = BAD[name]
    write(tmp_path)
    with pytest.raises(CorruptInputError, match=words) if name != "png mode" else pytest.raises(Exception, match=words):
        run(tmp_path, room(), room(box=False), case(tmp_path, evidence=f"  target_box: {FILE_BOX}\n  {key}\n"))


def test_a_judge_of_other_images_is_refused(tmp_path):
    evidence = give_masks(tmp_path, before=masks()) + judge(tmp_path, (0, 1, 2), [True] * 3)
    with pytest.raises(CorruptInputError, match=r"of the views \[0, 1, 2\], and \[0, 4, 8, 12, 16, 20\]"):
        run(tmp_path, room(), room(box=False), case(tmp_path, evidence=evidence))


def test_evidence_that_is_not_there(tmp_path):
    for evidence in ("  judge: nowhere.json\n", "  masks_before: 'm/{view}.png'\n"):
        with pytest.raises(MissingInputError, match="names it as evidence"):
            run(tmp_path, room(), room(box=False), case(tmp_path, evidence=evidence))


@pytest.mark.parametrize(("text", "words"), [
    ("evidence: {masks_before: m.png}", "neither one .npz file nor PNG"),
    ("evidence: {masks_before: 'm-{frame}.png'}", "another placeholder"),
    ("evidence: {masks_before: /m.npz}", "absolute"),
    ("evidence: {judge: ../../j.json}", "leads out of the folder"),
    ("evidence: {target_box: {low: [0, 0, 0], high: [0, 0, 0]}}", "not be a point"),
    ("evidence: {target_box: {low: [1, 0, 0], high: [0, 1, 1]}}", "must not be above"),
    ("evidence: {juge: j.json}", "Did you mean 'judge'")])
def test_bad_keys(tmp_path, text, words):
    with pytest.raises(ConfigError, match=words):
        run(tmp_path, room(), room(), case(tmp_path, more=text))


def test_a_global_edit_has_no_target_evidence(tmp_path):
    with pytest.raises(ConfigError, match="no evidence but 'judge'"):
        run(tmp_path, room(), room(), case(tmp_path, "weather", "  masks_before: m.npz\n"))


def test_a_case_of_another_kind(tmp_path):
    (tmp_path / "case.yaml").write_text("id: a\n")
    with pytest.raises(ConfigError, match="kind 'snapshot', and this needs 'edit'"):
        run(tmp_path, room(), room(), tmp_path / "case.yaml")


# --- files ------------------------------------------------------------------------------------------------


def test_the_folder_the_page_and_the_frames(tmp_path):
    from spatialbench.report.edit_page import make_pair_page

    evidence = give_masks(tmp_path, before=masks(grow=0.12))
    result = run(tmp_path, room(), room(box=False), case(tmp_path, evidence=evidence))
    page = make_pair_page(result)
    write_pair(result, tmp_path / "out", page)
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        "run.json", "timings.jsonl", "import.json", "units.jsonl", "summary.json", "report.html"}
    assert [m.metric for m in read_units(tmp_path / "out" / "units.jsonl")] == [f"M{k}" for k in range(31, 38)]
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert record["worlds"] == {"before": "before.glb", "after": "after.glb"}
    assert record["evidence"] == {"masks_before": "before.npz"}
    assert {f["role"] for f in record["inputs"]} == {"before", "after"}
    for word in ("orbit view 00", "background PSNR 99.0 dB", "do it", "Origin probe, front"):
        assert word in page
    assert str(tmp_path) not in page
    assert make_pair_page(result) == page
    n = write_frames(result, tmp_path / "frames")
    assert n == 2 * (6 + 24) == len(list((tmp_path / "frames").glob("*.png")))
    cameras = json.loads((tmp_path / "frames" / "cameras.json").read_text())
    # the transform of the run keeps float32 vertices: 1e-6 m
    assert np.array(cameras["orbit"][5]["camera_to_world"]) == pytest.approx(orbit_cameras()[5].pose.matrix, abs=1e-5)
    seen = np.asarray(Image.open(tmp_path / "frames" / "orbit-before-00.png"))
    assert seen[SIZE // 2, SIZE // 2].tolist() == [round(255 * encoded(TARGET))] * 3


def test_the_same_run_gives_the_same_bytes(tmp_path):
    evidence = case(tmp_path, evidence=give_masks(tmp_path, before=masks(grow=0.12)))
    for name in ("one", "two"):
        write_pair(run(tmp_path, room(), room(box=False), evidence), tmp_path / name)
    for file in ("units.jsonl", "summary.json", "import.json"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_the_command(tmp_path):
    from click.testing import CliRunner

    from spatialbench.cli.edit import edit

    before, after = glb(tmp_path / "before.glb", room()), glb(tmp_path / "after.glb", room(box=False))
    given = [x for s in QUICK for x in ("--set", s)]
    done = CliRunner().invoke(edit, [str(before), str(after), "-o", str(tmp_path / "out"), *given])
    assert done.exit_code == 0, done.output
    assert "M35  Depth agreement" in done.output and "not a benchmark result" in done.output
    done = CliRunner().invoke(edit, [str(before), str(after), "-o", str(tmp_path / "o2"), *given, "--json",
                                     "--no-page"])
    assert json.loads(done.output) == json.loads((tmp_path / "o2" / "summary.json").read_text())
    assert not (tmp_path / "o2" / "report.html").exists()
