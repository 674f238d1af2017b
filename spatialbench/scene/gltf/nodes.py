"""The scene graph: which nodes the default scene places, where, and the cameras among them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import CorruptInputError
from spatialbench.scene.blocks import in_blocks
from spatialbench.scene.gltf.schema import Gltf, Node
from spatialbench.scene.log import ReadLog
from spatialbench.types import Pose

__all__ = ["Placed", "place_nodes", "rotation_matrix", "transform"]

_TODO = "Export it again"
_FROM_OPENGL = np.diag([1.0, -1.0, -1.0])


@dataclass
class Placed:
    """Meshes with their node and node-to-world matrix, in depth-first order; cameras as OpenCV poses; all matrices."""

    meshes: list[tuple[int, int, NDArray[np.float64]]] = field(default_factory=list)
    cameras: list[Pose] = field(default_factory=list)
    n_nodes: int = 0
    worlds: dict[int, NDArray[np.float64]] = field(default_factory=dict)


def place_nodes(doc: Gltf, log: ReadLog, where: str) -> Placed:
    """Walk the default scene.

    Raises
    ------
    CorruptInputError : a node that does not exist, has two parents, is its own ancestor, or a transform
        that is not finite.
    """
    parents = _parents(doc, where)
    placed = Placed()
    stack = [(root, np.eye(4)) for root in reversed(_roots(doc, parents, log, where))]
    while stack:
        index, above = stack.pop()
        node = doc.nodes[index]
        matrix = above @ _local(node, index, where)
        if not np.isfinite(matrix).all():
            raise CorruptInputError(f"the transform of node {index} is not finite", where=where, todo=_TODO)
        placed.n_nodes += 1
        placed.worlds[index] = matrix
        if node.mesh is not None:
            if node.mesh >= len(doc.meshes):
                raise CorruptInputError(f"node {index} places mesh {node.mesh}, there are {len(doc.meshes)}",
                                        where=where, todo=_TODO)
            placed.meshes.append((index, node.mesh, matrix))
        if node.camera is not None:
            pose = _camera(matrix)
            if pose is None:
                log.warn(f"the camera of node {index} has a mirrored or sheared transform and is left out")
            else:
                placed.cameras.append(pose)
        stack.extend((child, matrix) for child in reversed(node.children))
    return placed


def transform(points: NDArray[np.float64], matrix: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """Points [N,3] placed by a matrix [4,4]. In blocks: of many rows BLAS makes threads, which a busy machine keeps
    waiting for one another, and whose number decides on the last bits."""
    def block(part: slice) -> None:
        np.matmul(points[part], matrix[:3, :3].T, out=out[part])
        out[part] += matrix[:3, 3]

    in_blocks(len(points), block)


def _parents(doc: Gltf, where: str) -> list[int]:
    """Parent of each node or -1, after a check that the graph is a forest."""
    parent = [-1] * len(doc.nodes)
    for i, node in enumerate(doc.nodes):
        for child in node.children:
            if child >= len(doc.nodes):
                raise CorruptInputError(f"node {i} has the child {child}, there are {len(doc.nodes)} nodes",
                                        where=where, todo=_TODO)
            if parent[child] >= 0:
                raise CorruptInputError(f"node {child} has two parents, {parent[child]} and {i}", where=where,
                                        todo=_TODO)
            parent[child] = i
    seen = [False] * len(doc.nodes)
    stack = [i for i, p in enumerate(parent) if p < 0]
    while stack:
        i = stack.pop()
        seen[i] = True
        stack.extend(doc.nodes[i].children)
    if not all(seen):
        raise CorruptInputError(f"node {seen.index(False)} is part of a cycle: it is its own ancestor", where=where,
                                todo=_TODO)
    return parent


def _roots(doc: Gltf, parents: list[int], log: ReadLog, where: str) -> list[int]:
    if not doc.scenes:
        if doc.scene is not None:
            raise CorruptInputError(f"the default scene {doc.scene} does not exist, there are none", where=where,
                                    todo=_TODO)
        if doc.nodes:
            log.warn("the file defines no scene; all its nodes are read")
        return [i for i, p in enumerate(parents) if p < 0]
    chosen = doc.scene if doc.scene is not None else 0
    if chosen >= len(doc.scenes):
        raise CorruptInputError(f"the default scene {chosen} does not exist, there are {len(doc.scenes)}", where=where,
                                todo=_TODO)
    if len(doc.scenes) > 1:
        others = [f"{i} ('{s.name}')" if s.name else str(i) for i, s in enumerate(doc.scenes) if i != chosen]
        rule = "the default scene" if doc.scene is not None else "no scene is the default, so the first,"
        log.warn(f"only {rule} {chosen} is read; left out: scene {', '.join(others[:8])}"
                 + (", ..." if len(others) > 8 else ""))
        log.details["scenes_left_out"] = [i for i in range(len(doc.scenes)) if i != chosen]
    roots = doc.scenes[chosen].nodes
    for i in roots:
        if i >= len(doc.nodes):
            raise CorruptInputError(f"scene {chosen} has the node {i}, there are {len(doc.nodes)}", where=where,
                                    todo=_TODO)
        if parents[i] >= 0 or roots.count(i) > 1:
            raise CorruptInputError(f"scene {chosen} places node {i} twice", where=where, todo=_TODO)
    return roots


def _local(node: Node, index: int, where: str) -> NDArray[np.float64]:
    """Node-to-parent matrix: as given, or translation, rotation (unit quaternion x y z w) and scale."""
    if node.matrix is not None:
        m = np.array(node.matrix).reshape(4, 4).T
        if np.abs(m[3] - [0, 0, 0, 1]).max() > 1e-6:
            raise CorruptInputError(f"the matrix of node {index} is not affine", where=where, todo=_TODO)
        m[3] = [0, 0, 0, 1]
        return m
    m = np.eye(4)
    if node.rotation is not None:
        q = np.array(node.rotation)
        norm = float(np.linalg.norm(q))
        if not 1e-6 < norm < 1e6:
            raise CorruptInputError(f"the rotation of node {index} is no quaternion of length 1", where=where,
                                    todo=_TODO)
        m[:3, :3] = rotation_matrix(q / norm)
    if node.scale is not None:
        m[:3, :3] *= np.array(node.scale)
    if node.translation is not None:
        m[:3, 3] = node.translation
    return m


def rotation_matrix(q: NDArray[np.float64]) -> NDArray[np.float64]:
    """[...,3,3] of unit quaternions x y z w [...,4]."""
    x, y, z, w = np.moveaxis(q, -1, 0)
    rows = [[1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)]]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def _camera(matrix: NDArray[np.float64]) -> Pose | None:
    """Pose of a glTF camera (it looks along -Z with +Y up), scale taken out; None if that is impossible."""
    r = matrix[:3, :3]
    lengths = np.linalg.norm(r, axis=0)
    if not (lengths > 1e-12).all():
        return None
    u, s, vt = np.linalg.svd(r / lengths)
    rigid = u @ vt
    if np.abs(s - 1).max() > 1e-3 or np.linalg.det(rigid) < 0:
        return None
    pose = np.eye(4)
    pose[:3, :3] = rigid @ _FROM_OPENGL
    pose[:3, 3] = matrix[:3, 3]
    return Pose(pose)
