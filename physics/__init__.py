"""Simulators: navigation meshes and placement trials. They know geometry and settings, not worlds or metrics."""
