"""The files of ``spatialbench render``: pictures with the digest of their recipe, camera lists, films."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.renderers import Renderer
from spatialbench.renderers.panorama import PANORAMAS, panorama
from spatialbench.renderers.video import film_backend, write_film
from spatialbench.runs.render_cameras import SET_NAMES, Shots
from spatialbench.runs.render_frame import Frame
from spatialbench.runs.store import canonical_json
from spatialbench.scene.cameras import CameraList, ListedCamera, write_cameras
from spatialbench.types import to_uint8

__all__ = ["LIST_FILES", "Job", "films_before", "sweep", "write_film_of", "write_lists"]

LIST_FILES = {"nerfstudio": "transforms.json", "inria": "cameras-3dgs.json", "colmap": "colmap"}
"""Further camera lists that can be written, and their names; that of COLMAP is a folder."""
_KEY = "spatialbench-recipe"
Progress = Callable[[str, int, int], None]
Picture = NDArray[np.uint8]


class Job:
    """Draws and writes what is not there yet."""

    def __init__(self, folder: Path, renderer: Renderer, recipe: dict[str, Any], want: tuple[str, ...], frame: Frame,
                 tell: Progress) -> None:
        self.folder, self.renderer, self.want, self.frame, self.tell = folder, renderer, want, frame, tell
        self.drawn = self.kept = 0
        self.backends: set[str] = set()
        self.digests: dict[str, str] = {}
        self._recipe = recipe

    def digest(self, what: Any, backend: str) -> str:
        """Of everything that the picture depends on."""
        text = canonical_json({**self._recipe, "want": self.want, "what": what, "backend": backend})
        return hashlib.sha256(text.encode()).hexdigest()

    def there(self, name: str, digest: str) -> bool:
        """Whether the same recipe made the files of that name before."""
        from PIL import Image

        try:
            with Image.open(self.folder / f"{name}.png") as picture:
                same = picture.info.get(_KEY) == digest
            if same and len(self.want) > 1:
                with np.load(self.folder / f"{name}.npz", allow_pickle=False) as data:
                    same = str(data["recipe"]) == digest
        except Exception:  # whatever is wrong with a file, it is drawn again
            return False
        return same

    def draw(self, shots: Shots) -> None:
        """All pictures of a set."""
        total = len(shots.cameras)
        for k, (camera, name) in enumerate(zip(shots.cameras, shots.files, strict=True)):
            self.tell(f"drawing {shots.name}", k, total)
            digest = self.digest(camera.key(), self.renderer.name_version)
            if self.there(name, digest):
                self.keep(name, digest)
                continue
            frames = self.renderer.render([camera], self.want)
            assert frames.rgb is not None
            self.save(name, self.digest(camera.key(), frames.backend), frames.backend, to_uint8(frames.rgb[0]),
                      None if frames.depth is None else frames.depth[0],
                      None if frames.alpha is None else frames.alpha[0])
        self.tell(f"drawing {shots.name}", total, total)

    def panorama(self, place: NDArray[np.float64], size: tuple[int, int], samples: int) -> None:
        """The panorama from a place [3]."""
        what = ["panorama", PANORAMAS, place.tolist(), list(size), samples]
        digest = self.digest(what, self.renderer.name_version)
        if self.there("panorama", digest):
            self.keep("panorama", digest)
            return
        seen = panorama(self.renderer.render, place, *size, self.want, samples,
                        lambda done, total: self.tell("drawing the panorama", done, total))
        assert seen.rgb is not None
        self.save("panorama", self.digest(what, seen.backend), seen.backend, to_uint8(seen.rgb), seen.depth, seen.alpha)

    def keep(self, name: str, digest: str) -> None:
        """The files of that name stay."""
        self.kept += 1
        self.digests[name] = digest
        self.backends.add(self.renderer.name_version)

    def save(self, name: str, digest: str, backend: str, rgb: Picture, depth: NDArray[np.float32] | None,
             alpha: NDArray[np.float32] | None) -> None:
        """Write the NPZ, then the PNG: a picture that is there has all that belongs to it."""
        from PIL import Image
        from PIL.PngImagePlugin import PngInfo

        data: dict[str, Any] = {"recipe": np.array(digest)}
        if depth is not None:
            data["depth"] = (depth / np.float32(self.frame.factor)).astype(np.float32)
        if alpha is not None:
            data["alpha"] = alpha
        beside = self.folder / f"{name}.npz"
        if len(data) == 1:
            beside.unlink(missing_ok=True)
        else:
            with _whole(beside) as part, open(part, "wb") as f:
                np.savez_compressed(f, **data)
        info = PngInfo()
        info.add_text(_KEY, digest)
        with _whole(self.folder / f"{name}.png") as part:
            Image.fromarray(rgb).save(part, format="PNG", pnginfo=info, compress_level=4)
        self.drawn += 1
        self.digests[name] = digest
        self.backends.add(backend)


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """A path to write to, which gets its name when all went well."""
    part = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def write_lists(folder: Path, given: Sequence[ListedCamera], frame: Frame, formats: Sequence[str]) -> list[str]:
    """Write the cameras; the names of the files."""
    cameras = CameraList(tuple(given), "spatialbench", frame.words)
    with _whole(folder / "cameras.json") as part:
        write_cameras(cameras, part)
    files = ["cameras.json"]
    for name in dict.fromkeys(formats):
        target = folder / LIST_FILES[name]
        if name == "colmap":
            target.mkdir(exist_ok=True)
            write_cameras(cameras, target, "colmap")
            with _whole(target / "points3D.txt") as part:  # without it other programs refuse the model
                part.write_text("# no points\n", encoding="utf-8")
            files += ["colmap/cameras.txt", "colmap/images.txt", "colmap/points3D.txt"]
        else:
            with _whole(target) as part:
                write_cameras(cameras, part, name)  # type: ignore[arg-type]
            files.append(target.name)
    return files


def write_film_of(job: Job, shots: Shots, before: dict[str, Any]) -> dict[str, Any]:
    """Make a film of a set's pictures, unless the one that is there is of the same."""
    name = f"{shots.name}.mp4"
    writer = film_backend()[1]
    text = canonical_json([[job.digests[f] for f in shots.files], shots.rate, writer])
    film = {"file": name, "rate": shots.rate, "writer": writer, "frames": len(shots.files),
            "recipe": hashlib.sha256(text.encode()).hexdigest()}
    if before.get(shots.name) != film or not (job.folder / name).is_file():
        write_film(job.folder / name, _pictures(job, shots), shots.rate)
    return film


def _pictures(job: Job, shots: Shots) -> Iterator[Picture]:
    from PIL import Image

    for k, name in enumerate(shots.files):
        job.tell(f"filming {shots.name}", k, len(shots.files))
        with Image.open(job.folder / f"{name}.png") as picture:
            yield np.asarray(picture.convert("RGB"))


def films_before(folder: Path) -> dict[str, Any]:
    """Films that the folder's ``render.json`` tells of, by set."""
    try:
        sets = json.loads((folder / "render.json").read_text(encoding="utf-8"))["sets"]
        return {name: s["film"] for name, s in sets.items() if "film" in s}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def sweep(folder: Path, pictures: set[str], films: set[str], before: dict[str, Any]) -> None:
    """Remove what an earlier command left and this one did not ask for.

    Only our own: pictures by the digest that they carry, with the NPZ beside, films of theirs or that ``render.json``
    told of.
    """
    from PIL import Image

    stale = {name for name in before if name in SET_NAMES}
    for path in folder.glob("*.png"):
        if path.stem in pictures:
            continue
        try:
            with Image.open(path) as picture:
                ours = _KEY in picture.info
        except Exception:
            ours = False
        if ours:
            path.unlink(missing_ok=True)
            path.with_suffix(".npz").unlink(missing_ok=True)
            stale.add(path.stem.partition("-")[0])
    for name in stale & set(SET_NAMES):
        if f"{name}.mp4" not in films:
            (folder / f"{name}.mp4").unlink(missing_ok=True)
