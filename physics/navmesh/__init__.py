"""Navigation meshes: habitat-sim's, built by Recast itself, their plan on a grid fixed to the world, and paths."""

from spatialbench.physics.navmesh._voxels import check_settings
from spatialbench.physics.navmesh.backends import BACKEND, navmesh_backend_names, navmesh_backend_status
from spatialbench.physics.navmesh.build import build_navmesh
from spatialbench.physics.navmesh.path import NavPath, find_path
from spatialbench.physics.navmesh.raster import Components, components, planar_area, rasterise

__all__ = ["BACKEND", "Components", "NavPath", "build_navmesh", "check_settings", "components", "find_path",
           "navmesh_backend_names", "navmesh_backend_status", "planar_area", "rasterise"]
