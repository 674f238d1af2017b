"""Kinds of faults that people reported about readers: headers, special numbers, several scenes, decimal commas, STL."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scene_files import CUBE, CUBE_FACES, GltfBuilder, cube_obj, cube_ply, cube_stl
from splat_files import dotsplat, gaussian_glb, ply, row

from spatialbench.errors import CorruptInputError, SpatialbenchError
from spatialbench.scene import load_scene
from spatialbench.scene.decimal_comma import with_comma
from spatialbench.scene.ply_header import parse_ply_header
from spatialbench.types import Scene

BODY = struct.pack("<3f", 0.5, 1.5, 2.5)
PLAIN = ("ply", "format binary_little_endian 1.0", "element vertex 1", "property float x", "property float y",
         "property float z", "end_header")


def load(folder: Path, name: str, data: bytes) -> Scene:
    path = folder / name
    path.write_bytes(data)
    return load_scene(path)


@given(st.lists(st.tuples(st.integers(1, 5), st.sampled_from([
    "comment", "comment element vertex 99", "comment end_header", "obj_info property float w", "comment \t x  ",
    "comment " + "y" * 70_000])), max_size=4), st.sampled_from(["\n", "\r\n", "\r"]), st.booleans(),
    st.sampled_from(["", " ", "\t  "]), st.integers(0, 9), st.binary(min_size=1, max_size=4))
def test_no_header_moves_the_body(notes: list[tuple[int, str]], end: str, mixed: bool, gap: str, zeros: int,
                                  first: bytes) -> None:
    """Comments, padded counts, spare blanks and any line ends: the body begins right after the last one."""
    lines = [line.replace(" ", " " + gap) for line in PLAIN]
    lines[2] = lines[2].replace(" 1", " " + "0" * zeros + "1" + gap)
    for at, text in notes:
        lines.insert(at, text)
    ends = [end if not mixed or end == "\r" or k % 2 else "\n" for k in range(len(lines))]
    head = "".join(line + e for line, e in zip(lines, ends, strict=True)).encode()
    if end != "\n" and mixed and end != "\r":
        head = b"ply" + end.encode() + head.split(b"\n", 1)[1]  # the first line is the odd one
    header = parse_ply_header(head + first + BODY, "w.ply")
    assert header.body == len(head)
    assert header.lines == len(lines)
    assert [(e.name, e.count, e.names) for e in header.elements] == [("vertex", 1, ["x", "y", "z"])]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_a_text_row_is_named_by_its_line_whatever_ends_lines(end: bytes, tmp_path: Path) -> None:
    text = cube_ply(text=True).replace(b"0 1 1\n", b"0 1,5 1\n").replace(b"\n", end)
    with pytest.raises(CorruptInputError, match="'1,5' of 'vertex' has a decimal comma") as caught:
        load(tmp_path, "c.ply", text)
    # Nine lines of header, of which end_header is the last; (0, 1, 1) is the fourth vertex.
    assert caught.value.where.endswith("line 13")


def test_a_header_line_in_two_is_refused_by_its_number(tmp_path: Path) -> None:
    with pytest.raises(CorruptInputError) as caught:
        load(tmp_path, "s.ply", cube_ply().replace(b"vertex 8", b"vertex\n8"))
    assert caught.value.where.endswith("line 3")


SPECIAL = {"x": "nan", "f_dc_1": "nan", "rot_2": "nan", "scale_0": "inf"}


@pytest.mark.parametrize("order", ["", "<", ">"])
def test_special_rows_in_any_encoding_of_ply(order: str, tmp_path: Path) -> None:
    rows = [row(), *(row(**{k: float(v)}) for k, v in SPECIAL.items()), row(rot_0=0, rot_1=0),
            row(opacity=float("inf")), row(opacity=float("-inf")), row(scale_1=float("-inf")), row(x=float("-inf"))]
    scene = load(tmp_path, "w.ply", ply(rows, order=order))
    counts = {r.name: r.count for r in scene.report.repairs}
    assert counts == {"splats_position_not_finite": 2, "splats_color_not_finite": 1, "splats_rotation_not_finite": 1,
                      "splats_rotation_zero": 1, "splats_scale_infinite": 1, "splats_scale_zero": 1,
                      "splats_opacity_minus_infinity": 1}
    assert scene.report.n_splats == len(rows) - 6
    assert scene.splats is not None
    assert sorted(scene.splats.opacities.tolist())[-1] == 1.0


def test_special_rows_in_dotsplat_and_gltf(tmp_path: Path) -> None:
    good = (0.0, 0.0, 1.0, 0.1, 0.1, 0.1, 200, 100, 50, 255, 255, 128, 128, 128)
    still = (*good[:10], 128, 128, 128, 128)  # all four parts of its rotation are zero
    odd = [(float("nan"), *good[1:]), (*good[:3], float("inf"), *good[4:]), still]
    scene = load(tmp_path, "w.splat", dotsplat(*[good] * 40, *odd))
    counts = {r.name: r.count for r in scene.report.repairs}
    assert counts == {"splats_position_not_finite": 1, "splats_scale_infinite": 1, "splats_rotation_zero": 1}
    assert scene.report.n_splats == 40
    opacity = np.array([0.75, np.nan, 0.75])
    turned = np.array([[0, 0, 0, 1], [0, 0, 0, 1], [np.nan, 0, 0, 1]])
    scene = load(tmp_path, "w.glb", gaussian_glb(3, opacity=opacity, rotation=turned))
    counts = {r.name: r.count for r in scene.report.repairs}
    assert counts == {"splats_opacity_nan": 1, "splats_rotation_not_finite": 1}
    assert scene.report.n_splats == 1


@pytest.mark.parametrize("name", ["w.obj", "w.ply", "w.stl"])
def test_special_numbers_of_a_mesh_are_refused(name: str, tmp_path: Path) -> None:
    data = {"w.obj": cube_obj().replace(b"v 0 0 0\n", b"v nan 0 0\n"),
            "w.ply": cube_ply(text=True).replace(b"\n0 0 0\n", b"\nnan 0 0\n", 1),
            "w.stl": cube_stl(text=True).replace(b"vertex 0 0 0\n", b"vertex nan 0 0\n")}[name]
    with pytest.raises(CorruptInputError, match="finite"):
        load(tmp_path, name, data)


def _two_scenes(**default: int) -> bytes:
    b = GltfBuilder()
    b.mesh()
    b.mesh(CUBE * 3)
    b.doc["nodes"] = [{"mesh": 0}, {"mesh": 1, "translation": [10, 0, 0]}, {"mesh": 0, "translation": [0, 5, 0]}]
    b.doc["scenes"] = [{"nodes": [0], "name": "draft"}, {"nodes": [1, 2]}]
    del b.doc["scene"]
    b.doc.update(default)
    return b.glb()


@pytest.mark.parametrize(("default", "low", "high", "left_out"), [
    ({"scene": 0}, [0, 0, 0], [1, 1, 1], "scene 1"), ({"scene": 1}, [0, 0, 0], [13, 6, 3], "scene 0"),
    ({}, [0, 0, 0], [1, 1, 1], "scene 1")])
def test_scenes_of_a_gltf_are_never_put_together(default: dict[str, int], low: list[float], high: list[float],
                                                 left_out: str, tmp_path: Path) -> None:
    report = load(tmp_path, "w.glb", _two_scenes(**default)).report
    assert report.bounds == [low, high]
    assert report.n_faces == 12 * (2 if default.get("scene") else 1)
    assert any(left_out in w for w in report.warnings)


def test_a_default_scene_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorruptInputError, match="scene"):
        load(tmp_path, "w.glb", _two_scenes(scene=2))


COMMAS = {
    "w.obj": (cube_obj().replace(b"v 0 1 0\n", b"v 0 -1,25 0\n"), 3),
    "e.obj": (cube_obj().replace(b"v 0 1 0\n", b"v 0 1,5e-3 0\n"), 3),
    "w.ply": (cube_ply(text=True).replace(b"\n0 1 0\n", b"\n0 ,5 0\n", 1), 12),
    "w.stl": (cube_stl(text=True).replace(b"vertex 0 1 1\n", b"vertex 0 1.234,5 1\n", 1), 6),
}


@pytest.mark.parametrize("name", COMMAS)
def test_decimal_commas_are_named_in_every_text_format(name: str, tmp_path: Path) -> None:
    data, line = COMMAS[name]
    with pytest.raises(CorruptInputError, match="decimal comma") as caught:
        load(tmp_path, name, data)
    assert caught.value.where.endswith(f"line {line}")
    assert "decimal points" in caught.value.todo


def test_an_off_with_decimal_commas_is_refused_by_line_and_text(tmp_path: Path) -> None:
    rows = [" ".join(f"{c:g}" for c in v) for v in CUBE.tolist()]
    rows[2] = "1,5"
    text = "\n".join(["OFF", "8 12 0", *rows, *("3 " + " ".join(map(str, f)) for f in CUBE_FACES.tolist())])
    with pytest.raises(CorruptInputError, match="1,5") as caught:
        load(tmp_path, "w.off", text.encode())
    assert caught.value.where.endswith("line 5")


@pytest.mark.parametrize(("word", "comma"), [
    (b"-0,750", True), (b",5", True), (b"1.234,5", True), (b"1,5E+3", True), (b"1,234.5", False), (b"1,2,3", False),
    (b"abc", False), (b"1.5", False), (b"12.34,5", False)])
def test_what_is_a_decimal_comma(word: bytes, comma: bool) -> None:
    assert (with_comma([b"1.0", word]) == word.decode()) is comma


TEXT = cube_stl(text=True)
DECOY = b"solid x\nfacet normal 0 0 1\nouter loop\nvertex 7 7 7\n"


@pytest.mark.parametrize(("data", "encoding"), [
    (cube_stl(header=b"solid cube"), "binary"), (cube_stl(header=b"SOLID cube"), "binary"),
    (cube_stl(header=DECOY.ljust(80, b"\n")), "binary"), (cube_stl(header=b"made by hand"), "binary"), (TEXT, "text"),
    (TEXT.upper(), "text"), (TEXT.replace(b"solid cube", "solid Würfel".encode("latin-1")), "text"),
    (TEXT.replace(b"\n", b"\r\n"), "text"), (b"\n  " + TEXT, "text"), (TEXT.replace(b"solid cube", b"solid"), "text")])
def test_size_and_not_the_word_solid_tells_binary_stl(data: bytes, encoding: str, tmp_path: Path) -> None:
    report = load(tmp_path, "w.stl", data).report
    assert (report.n_faces, report.bounds) == (12, [[0, 0, 0], [1, 1, 1]])
    assert report.details["encoding"] == encoding


@pytest.mark.parametrize("cut", [1, 49, 300])
def test_a_binary_stl_that_says_solid_and_is_cut_off_is_no_text(cut: int, tmp_path: Path) -> None:
    with pytest.raises(SpatialbenchError, match="announces 12 triangles"):
        load(tmp_path, "w.stl", cube_stl(header=b"solid cube")[:-cut])
