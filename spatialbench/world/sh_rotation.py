"""Turns spherical-harmonic colours with the world; the readers need it too, so it lives among the types."""

from __future__ import annotations

from spatialbench.types.sh_rotation import checked_rotation, rotate_sh, rotation_matrices, sh_basis

__all__ = ["checked_rotation", "rotate_sh", "rotation_matrices", "sh_basis"]
