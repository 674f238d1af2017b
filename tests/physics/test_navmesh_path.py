"""Ways over polygons: lengths by hand, on worlds, and against a visibility graph of the polygons' union."""

from __future__ import annotations

import itertools
import math

import networkx as nx
import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st

from spatialbench.errors import UsageError
from spatialbench.physics.navmesh import build_navmesh, find_path
from spatialbench.types import NavMesh
from tests.physics.test_navmesh import OWN, read_obj, slab


def mesh_of(points, *polygons) -> NavMesh:
    return NavMesh(np.array(points, np.float32), tuple(polygons), (), 0.05, "habitat-0.3.4", "by hand")


def cells(marked: set[tuple[int, int]]) -> NavMesh:
    """Unit squares that share corners."""
    index: dict[tuple[int, int], int] = {}
    polygons = []
    for i, j in sorted(marked):
        corners = ((i, j), (i + 1, j), (i + 1, j + 1), (i, j + 1))
        polygons.append(tuple(index.setdefault(c, len(index)) for c in corners))
    return mesh_of([[*c, 0] for c in index], *polygons)


CORNER = cells({(0, 0), (1, 0), (1, 1)})


@pytest.mark.parametrize("turned", [False, True])
def test_around_a_corner(turned):
    """(0.5, 0.5) to (1.5, 1.9): the straight line meets x = 1 at 1.2, so the way bends at (1, 1)."""
    mesh = mesh_of(CORNER.vertices, *(p[::-1] if turned else p for p in CORNER.polygons))
    path = find_path(mesh, (0.5, 0.5), (1.5, 1.9))
    np.testing.assert_allclose(path.points, [[0.5, 0.5, 0], [1, 1, 0], [1.5, 1.9, 0]], atol=1e-12)
    assert path.length == pytest.approx(math.hypot(0.5, 0.5) + math.hypot(0.5, 0.9), abs=1e-12)
    back = find_path(mesh, (1.5, 1.9), (0.5, 0.5))
    np.testing.assert_allclose(back.points, path.points[::-1], atol=1e-12)


def test_straight_where_nothing_is_in_the_way_and_within_one_polygon():
    path = find_path(CORNER, (0.2, 0.5), (1.9, 0.6))
    assert len(path.points) == 2
    assert path.length == pytest.approx(math.hypot(1.7, 0.1), abs=1e-12)
    assert find_path(CORNER, (0.2, 0.5), (0.2, 0.5)).length == 0.0
    assert find_path(CORNER, (0.25, 0.5), (0.5, 0.75)).length == pytest.approx(math.hypot(0.25, 0.25), abs=1e-12)


def test_height_follows_the_polygons():
    """One metre flat, then a ramp of 45 degrees: 0.5 + 0.5 sqrt 2, bent where the slope begins."""
    mesh = mesh_of([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [2, 0, 1], [2, 1, 1]], (0, 1, 2, 3), (1, 4, 5, 2))
    path = find_path(mesh, (0.5, 0.5), (1.5, 0.5))
    np.testing.assert_allclose(path.points, [[0.5, 0.5, 0], [1, 0.5, 0], [1.5, 0.5, 0.5]], atol=1e-12)
    assert path.length == pytest.approx(0.5 + 0.5 * math.sqrt(2), abs=1e-12)
    y_up = mesh_of(mesh.vertices[:, [0, 2, 1]] * [1, 1, -1], *mesh.polygons)
    turned = find_path(y_up, (0.5, -0.5), (1.5, -0.5), up="y")
    np.testing.assert_allclose(turned.points[:, [0, 2, 1]] * [1, -1, 1], path.points, atol=1e-12)


def test_ends_beside_the_polygons_are_moved_or_refused():
    path = find_path(CORNER, (-0.3, 0.5), (1.5, 0.5))
    assert path.moved == pytest.approx((0.3, 0.0))
    assert path.points[0].tolist() == [0.0, 0.5, 0.0]
    assert path.length == pytest.approx(1.5)
    away = find_path(CORNER, (0.5, 0.5), (5, 5))
    assert away.length is None
    assert away.reason == "no polygon is within 0.5 m of the goal 5,5"
    assert len(away.points) == 0


def test_no_way():
    assert find_path(cells({(0, 0), (1, 1)}), (0.5, 0.5), (1.5, 1.5)).reason == "start and goal are not connected"
    assert find_path(cells({(0, 0), (3, 0)}), (0.5, 0.5), (3.5, 0.5)).length is None
    nothing = NavMesh(np.zeros((0, 3), np.float32), (), (), None, "habitat-0.3.4", "by hand")
    assert find_path(nothing, (0, 0), (1, 1)).reason == "there is no NavMesh"
    for bad in ((1.0,), (1.0, float("nan")), (1, 2, 3)):
        with pytest.raises(UsageError, match="start"):
            find_path(CORNER, bad, (1, 1))
    with pytest.raises(UsageError, match="up is"):
        find_path(CORNER, (0, 0), (1, 1), up="x")


def test_of_two_storeys_the_one_with_the_shorter_way():
    """Above the start are two squares; only the lower one is joined to the goal's."""
    mesh = mesh_of([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [2, 0, 0], [2, 1, 0],
                    [0, 0, 3], [1, 0, 3], [1, 1, 3], [0, 1, 3]], (6, 7, 8, 9), (0, 1, 2, 3), (1, 4, 5, 2))
    path = find_path(mesh, (0.5, 0.5), (1.5, 0.5))
    assert path.length == pytest.approx(1.0)
    assert path.points[:, 2].tolist() == [0, 0]


def visible_length(mesh: NavMesh, a, b, axes=(0, 1)) -> float:
    """The shortest way inside of the polygons' union: its corners, and who sees whom (shapely, networkx)."""
    plan = mesh.vertices[:, axes].astype(float)
    union = shapely.union_all([shapely.Polygon(plan[list(p)]) for p in mesh.polygons])
    room = union.buffer(1e-7)
    corners = [tuple(a), tuple(b), *{tuple(c) for c in shapely.get_coordinates(union)}]
    graph = nx.Graph()
    for p, q in itertools.combinations(corners, 2):
        if p != q and room.covers(shapely.LineString([p, q])):
            graph.add_edge(p, q, weight=math.dist(p, q))
    return nx.dijkstra_path_length(graph, tuple(a), tuple(b))


@pytest.mark.parametrize(("name", "a", "b"), [("islands", (-2.5, -1.0), (-1.0, 1.0))])
def test_as_short_as_can_be_on_a_real_mesh(name, a, b):
    mesh = build_navmesh(*read_obj(OWN / f"{name}.obj"), up="y")
    path = find_path(mesh, a, b, up="y")
    assert path.length is not None
    assert path.length == pytest.approx(visible_length(mesh, a, b, [0, 2]), abs=1e-6)


def test_through_a_door_as_short_as_can_be(data_dir):
    mesh = build_navmesh(*read_obj(data_dir / "oracle" / "navmesh" / "door_090.obj"), up="y")
    a, b = (-3.0, -1.5), (3.0, -1.2)
    path = find_path(mesh, a, b, up="y")
    # The union's buffer lets lines cut corners by 1e-7 m each.
    assert path.length == pytest.approx(visible_length(mesh, a, b, [0, 2]), abs=1e-5)
    assert np.ptp(path.points[:, 1]) == 0.0


def test_on_one_open_floor_it_is_the_distance():
    mesh = build_navmesh(*slab(6, 4))
    path = find_path(mesh, (0.5, 0.5), (5.5, 3.5))
    assert path.length == pytest.approx(math.hypot(5, 3), abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(st.sets(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=22), st.data())
def test_ways_stay_on_the_polygons_and_no_way_in_them_is_shorter(marked, data):
    mesh = cells(marked)
    ends = [data.draw(st.sampled_from(sorted(marked))) for _ in range(2)]
    a, b = ((i + data.draw(st.floats(0.05, 0.95)), j + data.draw(st.floats(0.05, 0.95))) for i, j in ends)
    graph = nx.Graph()
    graph.add_nodes_from(marked)
    graph.add_edges_from((p, q) for p, q in itertools.combinations(marked, 2)
                         if abs(p[0] - q[0]) + abs(p[1] - q[1]) == 1)
    path = find_path(mesh, a, b)
    assert (path.length is not None) == nx.has_path(graph, *ends)
    if path.length is None:
        return
    line = path.points[:, :2]
    np.testing.assert_allclose(line[[0, -1]], [a, b], atol=1e-12)
    union = shapely.union_all([shapely.box(i, j, i + 1, j + 1) for i, j in marked]).buffer(1e-9)
    if len(line) > 1 and path.length > 0:
        assert union.covers(shapely.LineString(line))
    assert path.length >= math.dist(a, b) - 1e-9
    # Squares of a tree have one chain each way: there the way is the shortest of all. Where there are loops another
    # chain may be shorter, but each cell takes sqrt 2 m at most.
    # Squares that touch at a corner alone would let the visibility graph through there.
    touching = any(({(i + 1, j), (i, j + 1)} <= marked and not {(i, j), (i + 1, j + 1)} & marked)
                   or ({(i, j), (i + 1, j + 1)} <= marked and not {(i + 1, j), (i, j + 1)} & marked)
                   for i in range(-1, 5) for j in range(-1, 5))
    tree = len(graph) - graph.number_of_edges() == nx.number_connected_components(graph)
    if tree and not touching:
        assert path.length == pytest.approx(visible_length(mesh, a, b), abs=1e-5)
    elif not touching:
        assert path.length >= visible_length(mesh, a, b) - 1e-5
