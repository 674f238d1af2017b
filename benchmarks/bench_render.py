"""Times the images of the default protocol on one mesh: ``python benchmarks/bench_render.py MESH [BACKEND]``.

36 ring views (768 x 768, 2 x 2 samples, colour, depth, alpha), 33 path views (colour) and 65 probes of six
256 x 256 faces (depth and alpha), from the middle of the mesh, which is taken to be Y-up.
Only the geometry is read, so that nearly all of the time goes to finding what is seen.
"""

from __future__ import annotations

import resource
import sys
import time

import numpy as np

from spatialbench.renderers import open_renderer
from spatialbench.renderers.trajectories import action_path, cube_faces, ring
from spatialbench.types import RenderSettings, TriangleMesh

CROSS = [("W", 2.0), ("S", 4.0), ("W", 2.0), ("A", 2.0), ("D", 4.0), ("A", 2.0)]


def main() -> None:
    """Open, draw, print."""
    import trimesh

    loaded = trimesh.load(sys.argv[1], force="scene").to_geometry()
    mesh = TriangleMesh(np.c_[loaded.vertices[:, 0], -loaded.vertices[:, 2], loaded.vertices[:, 1]], loaded.faces)
    start = time.perf_counter()
    renderer = open_renderer(mesh, RenderSettings(), sys.argv[2] if len(sys.argv) > 2 else None)
    center = mesh.bounds().mean(axis=0)
    renderer.render(cube_faces(center, 8))
    print(f"{renderer.name_version}: {len(mesh.faces)} faces; open and first image "
          f"{time.perf_counter() - start:.2f} s")
    places = np.unique(action_path(CROSS, 1.0, 4.0).positions, axis=0) + center
    probes = [c for p in np.repeat(places, 2, axis=0)[:65] for c in cube_faces(p, 256)]
    total = np.zeros(2)
    for what, cameras, want, batch in (
            ("ring", ring(center, 36, 768), ("rgb", "depth", "alpha"), 4),
            ("path", [ring(p, 1, 768)[0] for p in places], ("rgb",), 4),
            ("probes", probes, ("depth", "alpha"), 6)):
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in renderer.stream(cameras, want, batch):
            pass
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        total += wall, cpu
        print(f"{what:7} {len(cameras):4} images {wall:7.2f} s ({cpu:.2f} s of CPU)")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    print(f"total {total[0]:.2f} s ({total[1]:.2f} s of CPU), peak {peak:.0f} MiB")


if __name__ == "__main__":
    main()
