"""Draws meshes and splats and casts rays: geometry, cameras and settings in, arrays out; knows nothing of worlds."""

from spatialbench.renderers.backends import BackendInfo, Renderer, backends, open_renderer, render

__all__ = ["BackendInfo", "Renderer", "backends", "open_renderer", "render"]
