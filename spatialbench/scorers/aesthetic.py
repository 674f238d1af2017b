"""LAION's aesthetic heads on embeddings of CLIP ViT-L/14 (M02, eq. 32): the MLP, and the older linear one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import BackendUnavailableError
from spatialbench.scorers.registry import Opening, ScorerSpec
from spatialbench.scorers.torch_support import load_state
from spatialbench.scorers.vision_support import refuse

__all__ = ["SPECS", "AestheticHead"]

_MLP = {"layers.0": (1024, 768), "layers.2": (128, 1024), "layers.4": (64, 128), "layers.6": (16, 64),
        "layers.7": (1, 16)}
"""Name -> outputs, inputs. In between lie dropouts only: there is no activation."""
_LINEAR = {"": (1, 768)}


class AestheticHead:
    """Affine layers one after the other, in float64 on the CPU; nominal 1 to 10, not clipped.

    Parameters
    ----------
    path : the file of weights; read without running code of it.
    layers : name -> outputs and inputs, first to last.

    Raises
    ------
    BackendUnavailableError : other weights, or damaged ones.
    """

    def __init__(self, path: Path, layers: dict[str, tuple[int, int]]) -> None:
        state = load_state(path)
        self._layers = [(_tensor(state, f"{name}.weight".lstrip("."), shape, path),
                         _tensor(state, f"{name}.bias".lstrip("."), shape[:1], path))
                        for name, shape in layers.items()]
        if len(state) != 2 * len(layers):
            raise refuse(f"holds {len(state)} tensors where this head has {2 * len(layers)}", path)

    def rate_embeddings(self, vectors: NDArray[np.float32]) -> NDArray[np.float64]:
        """[N] from [N,768], which are made unit first.

        Raises
        ------
        BackendUnavailableError : embeddings of another model, told by their length, or one without a direction.
        """
        x = np.asarray(vectors, np.float64)
        inputs = self._layers[0][0].shape[1]
        if x.ndim != 2 or x.shape[1] != inputs:
            raise BackendUnavailableError(f"the head rates embeddings of {inputs} numbers, not {list(x.shape[1:])}",
                                          todo="Use the embeddings of CLIP ViT-L/14 (clip_l14), not of a stand-in")
        lengths = np.linalg.norm(x, axis=1, keepdims=True)
        if not (np.isfinite(lengths).all() and (lengths > 0).all()):
            raise BackendUnavailableError("an embedding has no direction",
                                          todo="Verify the weights of the model that it is from: spatialbench weights "
                                               "verify")
        x = x / lengths
        for weight, bias in self._layers:
            # Not BLAS: the same bits for any number of threads and of vectors.
            x = np.einsum("ni,oi->no", x, weight) + bias
        return np.asarray(x[:, 0])


def _tensor(state: dict[str, Any], name: str, shape: tuple[int, ...], path: Path) -> NDArray[np.float64]:
    found = state.get(name)
    if found is None or tuple(getattr(found, "shape", ())) != shape:
        got = "missing" if found is None else "x".join(str(n) for n in getattr(found, "shape", ()))
        raise refuse(f"the weights are of another head: '{name}' is {got}, not {'x'.join(map(str, shape))}", path)
    out = np.asarray(found.detach().cpu().double().numpy())
    if not np.isfinite(out).all():
        raise refuse(f"the weights are damaged: '{name}' holds values that are not finite", path)
    return out


def _mlp(opening: Opening) -> AestheticHead:
    return AestheticHead(opening.folders["laion-aes"] / "sac+logos+ava1-l14-linearMSE.pth", _MLP)


def _linear(opening: Opening) -> AestheticHead:
    return AestheticHead(opening.folders["laion-aes-linear"] / "sa_0_4_vit_l_14_linear.pth", _LINEAR)


SPECS = (
    ScorerSpec("laion_aes", "LAION aesthetic head (MLP) on CLIP ViT-L/14", "rating_of_embeddings", "aesthetics", _mlp,
               packages=("torch",), distributions=("torch",), extra="vision", weights=("laion-aes",)),
    ScorerSpec("laion_aes_linear", "LAION aesthetic head (linear) on CLIP ViT-L/14", "rating_of_embeddings",
               "aesthetics of videos", _linear, packages=("torch",), distributions=("torch",), extra="vision",
               weights=("laion-aes-linear",)),
)
