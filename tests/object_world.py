"""A red box in a grey room, and stand-ins for the models that look at it, for tests of the object metrics.

Frame of the builders as in ``analytic``; the world frame is 1.6 m lower. Without supersampling every pixel has the
colour of what its centre ray meets first, so that all masks follow from rays against boxes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from spatialbench.observe import Context, Observations
from spatialbench.observe.evaluate import evaluate
from spatialbench.runs.single import prepare
from spatialbench.scorers.contract import Detection
from spatialbench.scorers.judge.contract import Answer
from spatialbench.scorers.registry import ScorerBox
from spatialbench.tracks.spatial.object_evidence import object_evidence
from spatialbench.types import Camera, Measurement, SnapshotCase, TriangleMesh, World, level_pose
from spatialbench.world import build_world
from tests.analytic import EYE, Soup
from tests.worlds import pose_looking, quick_protocol, y_up, y_up_scene

SIZE = 96
LENS = f"views.lens={{width: {SIZE}, height: {SIZE}, fov_deg: 75.0}}"
PROTOCOL = quick_protocol(LENS, "views.supersample=1", "finding.min_surfels=2000", "finding.max_surfels=2000",
                          "finding.voxel=0.3")
METRICS = tuple(f"M{k}" for k in range(16, 25))
Box = tuple[tuple[float, float, float], tuple[float, float, float]]
BOX: Box = ((-0.3, 2.2, 0.0), (0.3, 2.8, 0.6))
GREY, RED = 0.2, 0.6


def encoded(linear: float) -> int:
    """8-bit sRGB code."""
    return round(255 * (1.055 * linear ** (1 / 2.4) - 0.055))


@lru_cache(maxsize=16)
def room(box: Box | None = BOX, screens: tuple[Box, ...] = (), skip: str = "") -> World:
    """8 x 8 x 2.7 m with a red box and grey ones."""
    prepare()
    s = Soup()
    s.box((-4.0, -4.0, 0.0), (4.0, 4.0, 2.7), inward=True, skip=skip)
    for low, high in screens:
        s.box(low, high)
    base = len(s.f)
    if box is not None:
        s.box(*box)
    eye = pose_looking(y_up(EYE), y_up((0, 1, 0)), y_up((0, 0, 1)))
    return build_world(y_up_scene(coloured(s.mesh(), base), cameras=(eye,), cameras_source="file"), PROTOCOL)


def coloured(mesh: TriangleMesh, base: int) -> TriangleMesh:
    """Grey up to the face ``base``, red from there."""
    c = np.full((len(mesh.faces), 3, 4), GREY, np.float32)
    c[base:] = (RED, 0.0, 0.0, 1.0)
    c[..., 3] = 1.0
    return replace(mesh, colors=c)


# --- what is seen, without the engine ---------------------------------------------------------------------


def hits(camera: Camera, box: Box) -> np.ndarray:
    """[H,W] depth along the camera axis of a box (builder's frame) under each pixel's centre ray; inf: missed."""
    j, i = np.mgrid[:camera.height, :camera.width]
    local = np.stack([(i + 0.5 - camera.cx) / camera.fx, (j + 0.5 - camera.cy) / camera.fy, np.ones(i.shape)], -1)
    d = local @ camera.pose.rotation.T
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.stack([(np.array(edge) - EYE - camera.pose.position) / d for edge in box])
    near, far = np.nanmax(t.min(axis=0), axis=-1), np.nanmin(t.max(axis=0), axis=-1)
    return np.where((near <= far) & (near > 0), near, np.inf)


def seen_pixels(camera: Camera, box: Box = BOX, screens: Sequence[Box] = ()) -> np.ndarray:
    """[H,W] pixels that show the box."""
    depth = hits(camera, box)
    front = np.min([hits(camera, s) for s in screens], axis=0) if screens else np.inf
    return np.isfinite(depth) & (depth < front)


def first_view() -> Camera:
    """Of the origin ring."""
    return Camera.from_fov(level_pose((0, 0, 0)), 75.0, SIZE)


def lifted_box(box: Box = BOX) -> tuple[np.ndarray, float]:
    """Median [3] of the box's points that the first view shows, world frame, and the diagonal of their inner box."""
    camera = first_view()
    depth = hits(camera, box)
    row, column = np.nonzero(np.isfinite(depth))
    d = depth[row, column]
    points = np.stack([(column + 0.5 - camera.cx) / camera.fx * d, d, -(row + 0.5 - camera.cy) / camera.fy * d], 1)
    low, high = np.percentile(points, (2, 98), axis=0)
    return np.median(points, axis=0), float(np.linalg.norm(high - low))


# --- models -----------------------------------------------------------------------------------------------


class RedDetector:
    """SAM3: what is red, with a given score; nothing for a text without the word."""

    def __init__(self, score: float = 0.9) -> None:
        self.score, self.asked = score, 0

    def detect(self, images: Sequence[np.ndarray], text: str) -> list[tuple[Detection, ...]]:
        self.asked += len(images)
        out = []
        for image in images:
            mask = (image[..., 0] > 100) & (image[..., 1] < 50)
            out.append((Detection(self.score, mask),) if "red" in text and mask.any() else ())
        return out


@dataclass
class Rewards:
    """HPSv3: a function of the crop and its number."""

    of: Callable[[np.ndarray, int], float] = lambda crop, k: float(crop.mean())
    crops: list[np.ndarray] = field(default_factory=list)
    text: str = ""

    def rate(self, images: Sequence[np.ndarray], text: str = "") -> np.ndarray:
        self.crops, self.text = list(images), text
        return np.array([self.of(c, k) for k, c in enumerate(images)])


@dataclass
class Tracker:
    """TAPIP3D on a scene that stands still: every point stays, but for ``drift`` [K,3] m from start to end."""

    drift: Callable[[int], np.ndarray] = lambda n: np.zeros((n, 3))
    points: np.ndarray = field(default_factory=lambda: np.zeros((0, 3)))
    cameras: Sequence[Camera] = ()
    frames: Sequence[np.ndarray] = ()

    def track(self, frames: Sequence[np.ndarray], depth: np.ndarray, cameras: Sequence[Camera], points: np.ndarray
              ) -> np.ndarray:
        assert len(frames) == len(depth) == len(cameras)
        self.points, self.cameras, self.frames = points, cameras, frames
        share = np.linspace(0, 1, len(frames))[:, None, None]
        return points[None] + share * self.drift(len(points))[None]


@dataclass
class FakeJudge:
    """Answers by the number of the view; ``None`` is an error."""

    of: Callable[[int], Mapping[str, bool] | None]
    substitute: bool = False
    questions: list[Any] = field(default_factory=list)

    def ask(self, questions: Sequence[Any]) -> list[Answer]:
        self.questions += questions
        out = []
        for q in questions:
            said = self.of(int(q.id.rpartition(".")[2]))
            out.append(Answer(q.id, q.repeat, "judge_error", reason="no answer") if said is None
                       else Answer(q.id, q.repeat, "answered", said))
        return out


def said(inside: bool = True, visible: bool = True, clean: bool = True, whole: bool = True) -> dict[str, bool]:
    return {"inside_scene": inside, "target_visible": visible, "artifact_free": clean, "complete": whole}


# --- a run ------------------------------------------------------------------------------------------------


def case_of(*objects: Mapping[str, Any]) -> SnapshotCase:
    return SnapshotCase(id="c", objects=list(objects) or [{"id": "box", "text": "a red box"}])


def observe(world: World, case: SnapshotCase | None = None, *, judge: Any = "no judge is named",
            files: Mapping[str, Any] | None = None, protocol: Any = PROTOCOL, **scorers: Any) -> Observations:
    """Scorers by id; those that are not given are lacking."""
    case = case or case_of()
    media = {"objects": object_evidence(case, files or {}, protocol)}
    return Observations(Context(protocol, {"main": world}, case, "c", "s", media=media,
                                scorers=ScorerBox(given=scorers), judge=judge))


def measure(obs: Observations, metrics: Sequence[str] = METRICS) -> dict[str, Measurement]:
    """By metric, of the only object; by ``metric/object`` where there are several."""
    rows = evaluate(metrics, obs)
    many = len({m.object for m in rows}) > 1
    return {f"{m.metric}/{m.object}" if many else m.metric: m for m in rows}
