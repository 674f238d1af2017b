"""Navigation meshes: habitat-sim's, built by Recast itself, and their plan on a grid fixed to the world."""

from spatialbench.physics.navmesh._voxels import check_settings
from spatialbench.physics.navmesh.build import BACKEND, build_navmesh, navmesh_backend_status
from spatialbench.physics.navmesh.raster import Components, components, rasterise

__all__ = ["BACKEND", "Components", "build_navmesh", "check_settings", "components", "navmesh_backend_status",
           "rasterise"]
