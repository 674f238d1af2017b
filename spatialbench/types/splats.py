"""A world of 3D Gaussians, with every parameter in its activated (linear) form."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

__all__ = ["MAX_SH_DEGREE", "GaussianSplats"]

MAX_SH_DEGREE = 4


@dataclass(frozen=True, eq=False)
class GaussianSplats:
    """N anisotropic Gaussians.

    Attributes
    ----------
    means : [N,3] float32 centres. Far from the origin, move the splats there in float64 first (``offset``).
    scales : [N,3] float32 standard deviations along the own axes, linear, >= 0 (no logarithm).
    quaternions : [N,4] float32 unit, wxyz: rotation from the own axes to the splats' frame.
    opacities : [N] float32 in [0,1] (no logit).
    sh : [N,K,3] float32 spherical-harmonic coefficients, K = (degree + 1)^2; colour = 0.5 + SH(direction).
    offset : [3] float64 that was taken off the means, in the same unit; zero for most worlds.
    antialiased : the world was trained with opacities compensated for the dilation of small splats.
    sky : [N] bool, those that stand for the sky (OPEN-2): drawn, but no ground, no obstacle, and no measure of depth;
        None when none do.

    Raises
    ------
    ValueError : wrong shapes or types; values are the reader's business.
    """

    means: NDArray[np.float32]
    scales: NDArray[np.float32]
    quaternions: NDArray[np.float32]
    opacities: NDArray[np.float32]
    sh: NDArray[np.float32]
    offset: NDArray[np.float64] | None = None
    antialiased: bool = False
    sky: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        n = len(self.means)
        k = self.sh.shape[1] if self.sh.ndim == 3 else 0
        if k not in {(d + 1) ** 2 for d in range(MAX_SH_DEGREE + 1)}:
            raise ValueError(f"sh must be [N,K,3] with K = (degree + 1)^2, degree 0 to 4, got {self.sh.shape}")
        for name, shape in (("means", (n, 3)), ("scales", (n, 3)), ("quaternions", (n, 4)), ("opacities", (n,)),
                            ("sh", (n, k, 3))):
            array = getattr(self, name)
            if array.shape != shape or array.dtype != np.float32:
                raise ValueError(f"{name} must be float32 {list(shape)}, got {array.dtype} {list(array.shape)}")
            object.__setattr__(self, name, np.ascontiguousarray(array))
        if self.sky is not None and (self.sky.shape != (n,) or self.sky.dtype != np.bool_):
            raise ValueError(f"sky must be bool [{n}], got {self.sky.dtype} {list(self.sky.shape)}")
        if self.offset is None:
            object.__setattr__(self, "offset", np.zeros(3))

    def __len__(self) -> int:
        return len(self.means)

    @property
    def sh_degree(self) -> int:
        """0 to 4."""
        return round(self.sh.shape[1] ** 0.5) - 1

    def select(self, keep: NDArray[np.bool_] | NDArray[np.integer]) -> GaussianSplats:
        """Only some splats (mask or indices)."""
        return replace(self, means=self.means[keep], scales=self.scales[keep], quaternions=self.quaternions[keep],
                       opacities=self.opacities[keep], sh=self.sh[keep],
                       sky=None if self.sky is None else self.sky[keep])
