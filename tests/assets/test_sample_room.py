"""The sample room: a valid file, regenerated alike (and so its splats), with the flaws that its README promises."""

from __future__ import annotations

import io
import json
import math
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from spatialbench.assets import sample_room, sample_room_splats
from spatialbench.assets.room import atlas, layout
from spatialbench.assets.room.patches import Patch
from spatialbench.renderers.raycast import MeshRayCaster

ASSETS = Path(str(resources.files("spatialbench.assets")))
README = (ASSETS / "README.md").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Glb:
    """The file, taken apart without the engine's reader."""

    size: int
    tree: dict[str, Any]
    blob: bytes

    def array(self, accessor: int) -> NDArray[Any]:
        a = self.tree["accessors"][accessor]
        view = self.tree["bufferViews"][a["bufferView"]]
        kind = {5123: "<u2", 5125: "<u4", 5126: "<f4"}[a["componentType"]]
        width = {"SCALAR": 1, "VEC2": 2, "VEC3": 3}[a["type"]]
        flat = np.frombuffer(self.blob, kind, a["count"] * width, view["byteOffset"])
        return flat.reshape(a["count"], width)

    def primitive(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Positions, faces, uv."""
        (p,) = self.tree["meshes"][0]["primitives"]
        return (self.array(p["attributes"]["POSITION"]), self.array(p["indices"]).reshape(-1, 3),
                self.array(p["attributes"]["TEXCOORD_0"]))

    def image(self) -> bytes:
        view = self.tree["bufferViews"][self.tree["images"][0]["bufferView"]]
        return self.blob[view["byteOffset"]:view["byteOffset"] + view["byteLength"]]


def _read(path: Path) -> Glb:
    data = path.read_bytes()
    magic, version, length, json_length, json_kind = struct.unpack_from("<4sIII4s", data)
    assert (magic, version, length, json_kind) == (b"glTF", 2, len(data), b"JSON")
    at = 20 + json_length
    blob_length, blob_kind = struct.unpack_from("<I4s", data, at)
    assert blob_kind == b"BIN\0"
    assert at % 4 == 0
    assert at + 8 + blob_length == len(data)
    return Glb(len(data), json.loads(data[20:at]), data[at + 8:])


@pytest.fixture(scope="module")
def glb() -> Glb:
    return _read(ASSETS / "sample_room.glb")


@pytest.fixture(scope="module")
def caster(glb: Glb) -> MeshRayCaster:
    """Rays in the room frame (Z up)."""
    p, f, _ = glb.primitive()
    p = p.astype(np.float64)
    return MeshRayCaster(np.stack([p[:, 0], -p[:, 2], p[:, 1]], axis=1), f.astype(np.int32))


def test_file_is_small_and_its_structure_valid(glb: Glb) -> None:
    assert glb.size < 3 << 20
    assert len(glb.image()) <= 1 << 20
    with Image.open(io.BytesIO(glb.image())) as image:
        assert image.size == (2048, 2048)
        assert f"image/{str(image.format).lower()}" == glb.tree["images"][0]["mimeType"]
    assert glb.tree["buffers"] == [{"byteLength": len(glb.blob)}]
    end = 0
    for view in glb.tree["bufferViews"]:
        assert view["byteOffset"] % 4 == 0
        assert view["byteOffset"] >= end
        end = view["byteOffset"] + view["byteLength"]
    assert end <= len(glb.blob)
    p, f, uv = glb.primitive()
    first = glb.tree["accessors"][0]
    assert p.min(axis=0).tolist() == first["min"]
    assert p.max(axis=0).tolist() == first["max"]
    assert np.isfinite(p).all()
    assert uv.min() >= 0
    assert uv.max() <= 1
    assert set(np.unique(f)) == set(range(len(p)))  # in range, and none unused
    assert set(glb.tree["extensionsUsed"]) == set(glb.tree["materials"][0]["extensions"])


def test_readme_counts_are_true(glb: Glb) -> None:
    p, f, _ = glb.primitive()
    assert f"{len(f):,} faces" in README
    assert re.search(rf"{len(p):,}\s+vertices", README)
    assert 3_000 <= len(f) <= 20_000
    t = p[f].astype(np.float64)
    area = np.cross(t[:, 1] - t[:, 0], t[:, 2] - t[:, 0])
    size = np.linalg.norm(area, axis=1)
    assert (size > 0).all()
    camera = np.array(glb.tree["nodes"][1]["translation"])
    facing = np.einsum("ij,ij->i", camera - t.mean(axis=1), area) > 0
    assert size[facing].sum() / size.sum() == pytest.approx(0.80, abs=0.01)


def test_camera_stands_where_it_should(glb: Glb, caster: MeshRayCaster) -> None:
    node = glb.tree["nodes"][1]
    assert node["translation"] == [-0.94, 1.6, 1.05]
    assert "(-0.94, 1.60, 1.05)" in README
    assert set(node) == {"name", "camera", "translation"}  # not turned: a glTF camera looks along -Z
    assert glb.tree["cameras"][0]["type"] == "perspective"
    down = np.array([[0.1 * i, 0.1 * j, -1.0] for i in (-1, 0, 1) for j in (-1, 0, 1)])
    hits = caster.first_hits(np.array(layout.CAMERA), down)
    # The floor's points are exact in float32.
    np.testing.assert_allclose(hits.distance / np.linalg.norm(down, axis=1), 1.6, atol=1e-7)
    # Free space all around at eye height.
    a = np.arange(0, 2 * math.pi, 0.1)
    around = caster.first_hits(np.array(layout.CAMERA), np.stack([np.cos(a), np.sin(a), 0 * a], axis=1))
    assert around.distance.min() > 1.0


@pytest.fixture(scope="module")
def made_once() -> Iterator[None]:
    """Both scripts pack the same atlas and bake the same light into it, which takes most of their time."""
    packed: list[tuple[Any, list[Any]]] = []
    painted: list[tuple[Any, NDArray[np.uint8]]] = []

    def pack_(patches: list[Patch], size: int) -> list[Any]:
        asked = ([(p.tag, p.size, p.density) for p in patches], size)
        if not any(a == asked for a, _ in packed):
            packed.append((asked, atlas.pack(patches, size)))
        return list(next(r for a, r in packed if a == asked))

    def paint(patches: list[Patch], rectangles: list[Any], lights: Any, size: int) -> NDArray[np.uint8]:
        if lights is None:
            return atlas.paint(patches, rectangles, lights, size)
        asked = ([p.tag for p in patches], rectangles, size)
        if not painted:
            painted.append((asked, atlas.paint(patches, rectangles, lights, size)))
        assert painted[0][0] == asked
        return painted[0][1].copy()

    with pytest.MonkeyPatch.context() as patch:
        for script in (sample_room, sample_room_splats):
            patch.setattr(script, "pack", pack_)
            patch.setattr(script, "paint", paint)
        yield


@pytest.mark.usefixtures("made_once")
def test_geometry_is_regenerated_exactly(glb: Glb) -> None:
    room = sample_room.build_room(baked=False)
    p, f, uv = glb.primitive()
    # Sines and cosines may differ in the last bit of float64 between libraries; float32 rarely shows it.
    np.testing.assert_allclose(room.positions, p, rtol=0, atol=3e-7)
    np.testing.assert_array_equal(room.faces, f)
    np.testing.assert_allclose(room.uv, uv, rtol=0, atol=1e-7)
    assert list(room.camera) == glb.tree["nodes"][1]["translation"]
    assert len(room.tags) == len(f)
    assert {"floor", "sofa", "dining table", "bookshelf"} <= set(room.names)


@pytest.mark.slow
@pytest.mark.usefixtures("made_once")
def test_script_writes_the_same_room_again(glb: Glb, tmp_path: Path) -> None:
    out = tmp_path / "again.glb"
    assert sample_room.main([str(out)]) == 0
    if out.read_bytes() == (ASSETS / "sample_room.glb").read_bytes():
        return
    # Another version of a library or type of CPU: same geometry, and texels that differ by rounding, by what
    # another JPEG encoder makes of them, and at a few edges of the sun's patch.
    again = _read(out)
    for a, b in zip(again.primitive(), glb.primitive(), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=3e-7)
    old, new = (np.asarray(Image.open(io.BytesIO(g.image())).convert("RGB")).astype(int) for g in (glb, again))
    difference = np.abs(old - new)
    assert difference.mean() < 1.0
    assert (difference > 24).mean() < 1e-3


@pytest.mark.slow
@pytest.mark.usefixtures("made_once")
def test_script_writes_the_same_splats_again(tmp_path: Path) -> None:
    out, there = tmp_path / "again.ply", ASSETS / "sample_room_splats.ply"
    assert sample_room_splats.main([str(out)]) == 0
    if out.read_bytes() == there.read_bytes():
        return
    # Another version of a library or type of CPU: a few rays and thresholds may fall otherwise.
    from scipy.spatial import cKDTree

    from spatialbench.scene.load import load_scene

    again, splats = load_scene(out).splats, load_scene(there).splats
    assert again is not None
    assert splats is not None
    assert len(again) == pytest.approx(len(splats), rel=0.002)
    distance, at = cKDTree(again.means).query(splats.means)
    assert np.mean(distance < 1e-5) > 0.99
    same = distance < 1e-5
    assert np.abs(again.sh[at][same] - splats.sh[same]).mean() < 0.01


@pytest.mark.usefixtures("made_once")
def test_rectangles_of_the_atlas_do_not_overlap() -> None:
    taken = np.zeros((2048, 2048), np.uint8)
    for x, y, w, h in sample_room.pack(layout.all_patches(), 2048):
        assert min(x, y) >= 2
        taken[y - 2:y + h + 2, x - 2:x + w + 2] += 1
        assert x + w + 2 <= 2048
        assert y + h + 2 <= 2048
    assert taken.max() == 1
    assert (taken == 1).mean() > 0.85  # not much of the picture is wasted


def test_nothing_is_behind_the_doorway_and_beside_it_is_wall(caster: MeshRayCaster) -> None:
    eye, left = np.array(layout.CAMERA), np.array([-1.0, 0.0, 0.0])
    y0, y1, top = layout.DOOR

    def distance(y: float, z: float) -> float:
        return float(caster.first_hits(np.array([eye[0], y, z]), left).distance[0])

    assert distance(eye[1], eye[2]) == math.inf
    assert distance(y0 + 0.02, top - 0.02) == math.inf
    assert distance(y1 - 0.02, 0.02) == math.inf
    for y, z in ((y0 - 0.02, 1.0), (y1 + 0.02, 1.0), (eye[1], top + 0.02)):
        assert distance(y, z) == pytest.approx(1.36, abs=0.021)  # wall or casing, 2 cm thick


def test_hole_rate_is_the_documented_one(caster: MeshRayCaster) -> None:
    """The ring of the protocol (36 views, 75 degrees) at a quarter of its resolution."""
    n, f = 192, 96 / math.tan(math.radians(37.5))
    i, j = (a.ravel() for a in np.meshgrid(np.arange(n) + 0.5, np.arange(n) + 0.5))
    right, up = (i - n / 2) / f, (n / 2 - j) / f
    west = ceiling = south = 0
    for k in range(36):
        b = math.radians(10 * k)
        d = np.stack([math.sin(b) + right * math.cos(b), math.cos(b) - right * math.sin(b), up], axis=1)
        d = d[~caster.first_hits(np.array(layout.CAMERA), d).hit]
        door = (d[:, 0] < 0) & (np.abs(d[:, 1]) < 0.5 * np.abs(d[:, 0]))
        west, ceiling = west + int(door.sum()), ceiling + int((~door & (d[:, 1] > 0)).sum())
        south += int((~door & (d[:, 1] < 0)).sum())
    total = 36 * n * n
    # A border of about 8 n pixels in three of the views, half a pixel wide: 0.0003 of all.
    assert west / total == pytest.approx(0.062, abs=0.001)
    assert south / total == pytest.approx(0.008, abs=0.001)
    assert ceiling / total == pytest.approx(0.002, abs=0.001)
    assert (west + south + ceiling) / total == pytest.approx(0.072, abs=0.001)


def test_the_only_way_into_the_nook_is_narrow(caster: MeshRayCaster) -> None:
    x0, x1, y0, y1 = layout.PASSAGE
    middle = np.array([(x0 + x1) / 2, (y0 + y1) / 2, 0.5])
    both = caster.first_hits(middle, np.array([[1.0, 0, 0], [-1.0, 0, 0]])).distance
    assert both.sum() == pytest.approx(0.15, abs=1e-6)
    # Along the passage nothing is in the way, and the nook is closed towards the room.
    assert caster.first_hits(middle, np.array([0, -1.0, 0])).distance[0] > 1.2
    nook = np.array([1.5, -2.5, 0.5])
    wall = caster.first_hits(nook, np.array([[0, 1.0, 0], [-1.0, 0, 0]])).distance
    np.testing.assert_allclose(wall, [2.5 + layout.NOOK[3], 1.5 - layout.NOOK[0]], atol=1e-6)


def test_dining_table_is_level_but_for_its_bent_corner(caster: MeshRayCaster) -> None:
    x, y, length, width, height = layout.TABLE

    def top(px: float, py: float) -> float:
        return 2.0 - float(caster.first_hits(np.array([px, py, 1.7]), np.array([0, 0, -1.0])).distance[0]) - 0.3

    assert top(x + 0.3, y - 0.6) == pytest.approx(height, abs=1e-6)
    assert top(x - 0.35, y + 0.1) == pytest.approx(height, abs=1e-6)
    corner = top(x - width / 2 + 0.005, y - length / 2 + 0.005)
    assert corner == pytest.approx(height + 0.042, abs=1e-4)
    assert top(1.41, 0.06) == pytest.approx(height + 0.024, abs=1e-6)
