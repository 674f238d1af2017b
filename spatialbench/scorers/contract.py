"""What a learned scorer can do: one small interface for each kind, whatever model is behind it.

Images are [H,W,3] uint8 sRGB, of any size; each model does its own, frozen preprocessing. Sequences may be long: a
scorer batches them itself and keeps their order. What it cannot do raises ``BackendUnavailableError``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from spatialbench.types import Camera

__all__ = ["CutDetector", "DepthAndPoses", "DepthEstimator", "Detection", "Detector", "Difference", "Embedder",
           "FlowEstimator", "Gives", "HeadRater", "Image", "Interpolator", "MaskTracker", "PatchEmbedder",
           "PointTracker", "Rater", "TextVectors"]

Image = NDArray[np.uint8]
Gives = Literal["rating", "rating_of_embeddings", "embedding", "patches", "detection", "masks", "difference", "flow",
                "cuts", "tracks", "depth", "frames", "judgment"]
"""Kind of a scorer, which says which of the interfaces below it has."""


class Rater(Protocol):
    """``rating``: one number an image, such as TOPIQ, Q-Align, NIQE; HPSv3 with a text."""

    def rate(self, images: Sequence[Image], text: str = "") -> NDArray[np.float64]:
        """[N] raw scores in the model's own unit; ``text`` is what HPSv3 is conditioned on, others ignore it."""


class HeadRater(Protocol):
    """``rating_of_embeddings``: a head on another scorer's embeddings (LAION's on CLIP ViT-L/14)."""

    def rate_embeddings(self, vectors: NDArray[np.float32]) -> NDArray[np.float64]:
        """[N] from [N,D], which are made unit first."""


@dataclass(frozen=True, eq=False)
class TextVectors:
    """Embeddings [N,D] of texts, and which of them were cut to the model's limit (OPEN-6g)."""

    vectors: NDArray[np.float32]
    truncated: tuple[bool, ...]


class Embedder(Protocol):
    """``embedding``: one vector an image (and a text, where the model has a text tower). Not normalised."""

    def embed_images(self, images: Sequence[Image]) -> NDArray[np.float32]:
        """[N,D]."""

    def embed_texts(self, texts: Sequence[str]) -> TextVectors:
        """[N,D]; raises ``UsageError`` for a model without a text tower."""


class PatchEmbedder(Protocol):
    """``patches``: a grid of tokens an image (DINOv2, DINOv3)."""

    def patch_tokens(self, images: Sequence[Image]) -> NDArray[np.float32]:
        """[N,P,P,D] last-layer tokens, row by row from the top left, not normalised."""


@dataclass(frozen=True, eq=False)
class Detection:
    """One instance: score in [0,1] and mask [H,W] bool in the image's own pixels."""

    score: float
    mask: NDArray[np.bool_]


class Detector(Protocol):
    """``detection``: instances of what a text names (SAM3)."""

    def detect(self, images: Sequence[Image], text: str) -> list[tuple[Detection, ...]]:
        """For each image its instances, best first, also weak ones: thresholds are the caller's."""


class MaskTracker(Protocol):
    """``masks``: an object that is pointed at, in one image or followed through frames (SAM2.1)."""

    def segment(self, image: Image, points: NDArray[np.float64], inside: NDArray[np.bool_]) -> Detection:
        """From points [K,2] (x, y in pixels), each inside or outside of the object."""

    def follow(self, frames: Sequence[Image], mask: NDArray[np.bool_]) -> list[Detection]:
        """One for each frame, from the object's mask in the first."""


class Difference(Protocol):
    """``difference``: how much two images differ (LPIPS, DreamSim)."""

    def distances(self, first: Sequence[Image], second: Sequence[Image]) -> NDArray[np.float64]:
        """[N], one for each pair; both images of a pair have one size."""

    def difference_maps(self, first: Sequence[Image], second: Sequence[Image]) -> list[NDArray[np.float32]]:
        """A map [H,W] for each pair; raises ``UsageError`` for a model without one."""


class FlowEstimator(Protocol):
    """``flow``: apparent motion (RAFT; DIS as a stand-in)."""

    def flow(self, first: Image, second: Image) -> NDArray[np.float32]:
        """[H,W,2] pixels in x and y from the first to the second image."""


class CutDetector(Protocol):
    """``cuts``: shot transitions of a clip (TransNetV2)."""

    def transitions(self, frames: Sequence[Image]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """[T] probability of a cut after each frame, and [T] of belonging to a gradual transition."""


class PointTracker(Protocol):
    """``tracks``: points followed in space (TAPIP3D)."""

    def track(self, frames: Sequence[Image], depth: NDArray[np.float32], cameras: Sequence[Camera],
              points: NDArray[np.float64]) -> NDArray[np.float64]:
        """[T,K,3] world positions of K points that are at [K,3] in the first frame; NaN where one was lost."""


@dataclass(frozen=True, eq=False)
class DepthAndPoses:
    """Depth [T,H,W] along the camera axis, camera-to-world poses [T,4,4] (OpenCV axes), intrinsics [T,3,3] for the
    depth's pixels; ``metric`` says whether lengths are metres."""

    depth: NDArray[np.float32]
    poses: NDArray[np.float64]
    intrinsics: NDArray[np.float64]
    metric: bool


class DepthEstimator(Protocol):
    """``depth``: geometry of a clip (Depth Anything 3, MegaSaM)."""

    def estimate(self, frames: Sequence[Image]) -> DepthAndPoses:
        """For all frames together."""


class Interpolator(Protocol):
    """``frames``: images between two others (AMT-S)."""

    def between(self, first: Image, second: Image, count: int) -> list[Image]:
        """``count`` images, evenly spaced in time."""
