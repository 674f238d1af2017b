"""Geometry as the file poses it: default weights of morph targets, skins at rest, and instances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import CorruptInputError, UnsupportedFormatError
from spatialbench.scene.gltf.accessors import Accessors
from spatialbench.scene.gltf.nodes import Placed, rotation_matrix
from spatialbench.scene.gltf.schema import Gltf, Instancing, Primitive

__all__ = ["MAX_PLACED", "Skinning", "expand_instances", "joint_matrices", "morph", "skinning_of"]

MAX_PLACED = 250_000
"""Copies of meshes that one world may place."""
_INSTANCING = "EXT_mesh_gpu_instancing"
_TODO = "Export it again"


def expand_instances(doc: Gltf, placed: Placed, accessors: Accessors, where: str) -> int:
    """Replace each node of ``EXT_mesh_gpu_instancing`` by its copies; how many there are.

    A copy stands at node matrix times translation, rotation and scale of the instance.

    Raises
    ------
    CorruptInputError : attributes that cannot be read, of different lengths, or that are not finite.
    UnsupportedFormatError : more than ``MAX_PLACED`` copies.
    """
    if not any(_INSTANCING in doc.nodes[node].extensions for node, _, _ in placed.meshes):
        return 0
    out: list[tuple[int, int, NDArray[np.float64]]] = []
    n = 0
    for node, mesh, matrix in placed.meshes:
        block = doc.nodes[node].extensions.get(_INSTANCING)
        if block is None:
            out.append((node, mesh, matrix))
            continue
        local = _instances(block, accessors, len(out), f"{where}, node {node}")
        n += len(local)
        out.extend((node, mesh, m) for m in matrix @ local)
    placed.meshes = out
    return n


def _instances(block: object, accessors: Accessors, before: int, where: str) -> NDArray[np.float64]:
    """[N,4,4] matrices of the instances of one node."""
    try:
        attributes = Instancing.model_validate(block).attributes
    except ValueError:
        raise CorruptInputError(f"its {_INSTANCING} cannot be read", where=where, todo=_TODO) from None
    by = where.rpartition(", ")[2]
    widths = {"TRANSLATION": 3, "ROTATION": 4, "SCALE": 3}
    known = {name: index for name, index in attributes.items() if name in widths}
    counts = {accessors.definition(index, by).count for index in known.values()}
    if len(counts) != 1:
        raise CorruptInputError(f"its {_INSTANCING} has {sorted(counts) or 'no'} translations, rotations and scales",
                                where=where, todo=_TODO)
    count = counts.pop()
    if before + count > MAX_PLACED:
        raise UnsupportedFormatError(f"places more than {MAX_PLACED:,} copies of meshes", where=where,
                                     todo="Simplify the world")
    values = {name: accessors.floats(index, f"{by} {name}", (widths[name],)) for name, index in known.items()}
    out = np.tile(np.eye(4), (count, 1, 1))
    if "ROTATION" in values:
        length = np.linalg.norm(values["ROTATION"], axis=1)
        if not ((length > 1e-6) & (length < 1e6)).all():
            raise CorruptInputError(f"a rotation of its {_INSTANCING} is no quaternion of length 1", where=where,
                                    todo=_TODO)
        out[:, :3, :3] = rotation_matrix(values["ROTATION"] / length[:, None])
    if "SCALE" in values:
        out[:, :3, :3] *= values["SCALE"][:, None, :]
    if "TRANSLATION" in values:
        out[:, :3, 3] = values["TRANSLATION"]
    if not np.isfinite(out).all():
        raise CorruptInputError(f"its {_INSTANCING} is not finite", where=where, todo=_TODO)
    return out


def morph(positions: NDArray[np.float64], p: Primitive, weights: tuple[float, ...], accessors: Accessors, by: str,
          where: str) -> NDArray[np.float64]:
    """Positions [V,3] with the targets of the primitive added by their default weights."""
    for k, (target, weight) in enumerate(zip(p.targets or [], weights, strict=False)):
        if weight == 0 or "POSITION" not in target:
            continue
        shift = accessors.floats(target["POSITION"], f"{by} target {k}", (3,))
        if len(shift) != len(positions):
            raise CorruptInputError(f"target {k} has {len(shift):,} elements, POSITION has {len(positions):,}",
                                    where=where, todo=_TODO)
        positions = positions + weight * shift
    return positions


@dataclass(frozen=True)
class Skinning:
    """Which joints move each vertex: ``joints`` [V,4k] into the skin's list, ``weights`` [V,4k] with sums of 1."""

    joints: NDArray[np.int64]
    weights: NDArray[np.float64]

    def apply(self, positions: NDArray[np.float64], matrices: NDArray[np.float64], where: str
              ) -> tuple[NDArray[np.float64], bool]:
        """Positions [V,3] in the world, and whether the skin mirrors them, from joint matrices [J,4,4]."""
        if self.joints.size and int(self.joints.max()) >= len(matrices):
            raise CorruptInputError(f"a vertex belongs to joint {int(self.joints.max())}, the skin has {len(matrices)}",
                                    where=where, todo=_TODO)
        out = np.zeros_like(positions)
        mean = np.zeros((3, 3))
        for k in range(self.joints.shape[1]):
            m, w = matrices[self.joints[:, k]], self.weights[:, k]
            out += w[:, None] * (np.einsum("vij,vj->vi", m[:, :3, :3], positions) + m[:, :3, 3])
            mean += np.einsum("v,vij->ij", w, m[:, :3, :3])
        return out, bool(np.linalg.det(mean / max(len(positions), 1)) < 0)


def skinning_of(p: Primitive, n_vertices: int, accessors: Accessors, by: str, where: str) -> Skinning | None:
    """Joints and weights of a primitive, all sets of four; None where it has none.

    Raises
    ------
    CorruptInputError : sets of different lengths, or weights that are negative or not finite.
    """
    joints, weights = [], []
    k = 0
    while f"JOINTS_{k}" in p.attributes and f"WEIGHTS_{k}" in p.attributes:
        joints.append(accessors.floats(p.attributes[f"JOINTS_{k}"], f"{by} JOINTS_{k}", (4,)))
        weights.append(accessors.floats(p.attributes[f"WEIGHTS_{k}"], f"{by} WEIGHTS_{k}", (4,)))
        k += 1
    if not joints:
        return None
    if any(len(a) != n_vertices for a in joints + weights):
        raise CorruptInputError("its joints or weights are not as many as its positions", where=where, todo=_TODO)
    joint, weight = np.concatenate(joints, axis=1), np.concatenate(weights, axis=1)
    if not (np.isfinite(weight).all() and (weight >= 0).all() and (joint >= 0).all()):
        raise CorruptInputError("a weight of its skin is negative or not finite", where=where, todo=_TODO)
    total = weight.sum(axis=1, keepdims=True)
    weight = np.where(total > 0, weight / np.where(total > 0, total, 1), [1.0] + [0.0] * (weight.shape[1] - 1))
    return Skinning(np.where(weight > 0, joint, 0).astype(np.int64), weight)


def joint_matrices(doc: Gltf, skin: int, placed: Placed, accessors: Accessors, where: str) -> NDArray[np.float64]:
    """[J,4,4] from the vertices of a skinned mesh to the world, with every node at rest.

    The node that places the mesh has no part in it (glTF 2.0, section 3.7.3.3).

    Raises
    ------
    CorruptInputError : a skin or a joint that does not exist, or matrices that are not finite.
    """
    if skin >= len(doc.skins):
        raise CorruptInputError(f"skin {skin} does not exist, there are {len(doc.skins)}", where=where, todo=_TODO)
    definition = doc.skins[skin]
    missing = [j for j in definition.joints if j not in placed.worlds]
    if missing or not definition.joints:
        raise CorruptInputError(f"skin {skin} has {'the joint ' + str(missing[0]) if missing else 'no joints'}, which "
                                "the scene does not place", where=where, todo=_TODO)
    out = np.array([placed.worlds[j] for j in definition.joints])
    if definition.inverseBindMatrices is not None:
        bind = accessors.floats(definition.inverseBindMatrices, f"skin {skin}", (16,))
        if len(bind) < len(out):
            raise CorruptInputError(f"skin {skin} has {len(out)} joints and {len(bind)} matrices", where=where,
                                    todo=_TODO)
        out = out @ bind[:len(out)].reshape(-1, 4, 4).transpose(0, 2, 1)
    if not np.isfinite(out).all():
        raise CorruptInputError(f"the matrices of skin {skin} are not finite", where=where, todo=_TODO)
    return out
