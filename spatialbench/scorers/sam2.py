"""SAM2.1 (Hiera base-plus): the mask of an object that is pointed at, in one image or followed through frames.

Preprocessing, frozen: torchvision's bilinear resize to 1024 x 1024 (antialiased, the aspect is not kept), ImageNet's
mean and deviation. All in float32. In one image the model gives three masks, and the one of which it expects the best
overlap is taken; logits are resized bilinearly to the image and cut at 0. A video is followed forward from the mask of
its first frame, which is taken as it is; what the model does not look back on any more is let go of, so that a long
video needs no more memory than a short one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import UsageError
from spatialbench.scorers.contract import Detection, Image
from spatialbench.scorers.registry import Opening, ScorerSpec
from spatialbench.scorers.sam3 import load_processor
from spatialbench.scorers.torch_support import in_batches, load_pretrained, torch_device
from spatialbench.scorers.vision_support import (
    IMAGENET,
    as_tensors,
    check_finite,
    check_images,
    check_pixels,
    checked_config,
)

__all__ = ["SPECS", "Sam2"]

_ENTRY = "sam2.1-hiera-base-plus"


class Sam2:
    """A ``MaskTracker``.

    Parameters
    ----------
    image_model, video_model : transformers' ``Sam2Model`` and ``Sam2VideoModel`` of one checkpoint.
    processor : ``Sam2VideoProcessor``.
    device : of both models.
    """

    def __init__(self, image_model: Any, video_model: Any, processor: Any, device: Any) -> None:
        self._image, self._video, self._processor, self._device = image_model, video_model, processor, device

    def segment(self, image: Image, points: NDArray[np.float64], inside: NDArray[np.bool_]) -> Detection:
        """From points [K,2] (x, y in pixels of the image [H,W,3]), each inside or outside of the object; the score
        is the overlap (IoU) that the model expects.

        Raises
        ------
        UsageError : no point, or one that is not in the image.
        BackendUnavailableError : too little memory.
        """
        check_images([image])
        h, w = image.shape[:2]
        at = np.asarray(points, np.float64)
        if at.ndim != 2 or at.shape[1] != 2 or len(at) == 0 or len(at) != len(inside):
            raise UsageError(f"SAM2.1 was given points {at.shape} and {len(inside)} marks",
                             todo="Give [K,2] points, K >= 1, and one mark for each")
        if not ((at >= 0) & (at <= (w, h))).all():
            raise UsageError(f"a point is not in the image of {w} x {h}", todo="Give x and y in pixels")

        def work(part: Sequence[Image]) -> list[Detection]:
            inputs = self._processor(images=as_tensors(part)[0], input_points=[[at.tolist()]],
                                     input_labels=[[[int(i) for i in inside]]], return_tensors="pt",
                                     input_data_format="channels_first").to(self._device)
            out = self._image(pixel_values=inputs["pixel_values"], input_points=inputs["input_points"],
                              input_labels=inputs["input_labels"], multimask_output=True)
            overlap = out.iou_scores[0, 0]
            best = int(overlap.argmax())
            return [_detection(float(overlap[best]), out.pred_masks[:, :, best], (h, w))]

        found: Detection = in_batches([image], 1, work)[0]
        return found

    def follow(self, frames: Sequence[Image], mask: NDArray[np.bool_]) -> list[Detection]:
        """One for each frame [H,W,3], from the object's mask [H,W] in the first; the score is the probability that
        the object is in the frame, and the mask is empty where the model sees it nowhere.

        Raises
        ------
        UsageError : frames or mask of different sizes.
        BackendUnavailableError : too little memory.
        """
        check_images(frames)
        wrong = next((f.shape[:2] for f in frames if f.shape[:2] != mask.shape), None)
        if wrong is not None:
            raise UsageError(f"a frame is {wrong[1]} x {wrong[0]} and the mask is {mask.shape[1]} x {mask.shape[0]}",
                             todo="Give frames and mask of one size")
        if not frames:
            return []
        torch: Any = import_module("torch")
        session = self._processor.init_video_session(inference_device=self._device, dtype=torch.float32)
        session.processed_frames = _Frames(frames, self._processor.image_processor)
        self._processor.process_new_mask_for_video_frame(session, 0, [1], np.ascontiguousarray(mask, bool))

        config = self._video.config
        back = max(config.num_maskmem, config.max_object_pointers_in_encoder)

        def work(part: Sequence[int]) -> list[Detection]:
            k = part[0]
            out = self._video(inference_session=session, frame_idx=k)
            kept = session.output_dict_per_obj[0]
            kept["cond_frame_outputs" if k == 0 else "non_cond_frame_outputs"][k].pop("high_res_masks")
            kept["non_cond_frame_outputs"].pop(k - back, None)
            return [_detection(float(out.object_score_logits.sigmoid()), out.pred_masks, mask.shape)]

        return in_batches(range(len(frames)), 1, work)


class _Frames(Mapping[int, Any]):
    """Frames as a session holds them, number -> [3,S,S], but each made only when it is asked for."""

    def __init__(self, frames: Sequence[Image], processor: Any) -> None:
        self._frames, self._processor = frames, processor

    def __len__(self) -> int:
        return len(self._frames)

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self._frames)))

    def __getitem__(self, k: int) -> Any:
        return self._processor(as_tensors([self._frames[k]]), return_tensors="pt", input_data_format="channels_first")[
            "pixel_values"][0]


def _detection(score: float, logits: Any, size: tuple[int, ...]) -> Detection:
    """From mask logits [1,1,h,w]."""
    torch: Any = import_module("torch")
    check_finite(np.array(score))  # the NaN of a model that is out of order would be 0 below, and its mask empty
    check_finite(logits)
    full = torch.nn.functional.interpolate(logits.float(), size, mode="bilinear", align_corners=False)
    return Detection(min(1.0, max(0.0, score)), (full[0, 0] > 0).cpu().numpy())


def _open(opening: Opening) -> Sam2:
    folder, device = opening.folders[_ENTRY], torch_device(opening.settings)
    transformers: Any = import_module("transformers")
    config = checked_config(folder, "sam2_video", {})
    images = load_processor("Sam2ImageProcessor", folder)
    side = config.prompt_encoder_config.image_size
    check_pixels(images, {"do_resize": True, "size": {"height": side, "width": side}, "resample": 2, "do_rescale": True,
                          "rescale_factor": 1 / 255, "do_normalize": True, "image_mean": IMAGENET[0],
                          "image_std": IMAGENET[1]}, folder)
    # Frames go through the image processor too; the library's class wants one for videos all the same.
    processor = transformers.Sam2VideoProcessor(images, transformers.Sam2VideoVideoProcessor(size=dict(images.size)))
    models = [load_pretrained(kind, folder, device, dtype="float32") for kind in ("Sam2Model", "Sam2VideoModel")]
    return Sam2(models[0], models[1], processor, device)


SPECS = (
    ScorerSpec("sam2", "SAM2.1 Hiera base-plus", "masks", "object masks followed through frames", _open,
               packages=("torch", "torchvision", "transformers"),
               distributions=("torch", "torchvision", "transformers"), extra="vision", weights=(_ENTRY,)),
)
