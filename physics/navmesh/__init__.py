"""physics/navmesh."""
