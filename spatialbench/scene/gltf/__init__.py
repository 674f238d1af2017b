"""glTF 2.0, text and binary, read here rather than by a library.

The checks that the bytes need (ranges of accessors, the node graph, extensions) are most of a reader, and
samplers, texture coordinates and instances must come through unchanged; the tests compare with trimesh.
"""

from spatialbench.scene.gltf.points import read_gltf_points
from spatialbench.scene.gltf.read import read_gltf

__all__ = ["read_gltf", "read_gltf_points"]
