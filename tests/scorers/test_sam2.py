"""SAM2.1 on a tiny checkpoint of the real architecture, through the real loader, against the library itself."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spatialbench.errors import BackendUnavailableError, UsageError
from spatialbench.scorers import registry, sam2
from spatialbench.scorers.registry import ScorerBox, scorer_status
from spatialbench.scorers.settings import ScorerSettings
from tests.scorers.tiny_vision import awkward, forget_pins, out_of_order

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")  # before anything looks for it: see tests/shim
transformers = pytest.importorskip("transformers", minversion="5.0")

ENTRY = "sam2.1-hiera-base-plus"
SIDE = 256
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@pytest.fixture(autouse=True)
def _only_sam2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_MODULES", ("sam2",))
    monkeypatch.setattr(registry, "_SPECS", {})
    forget_pins(monkeypatch, ENTRY)
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A weights folder with a video model of five blocks for 256-pixel images, in the published layout (4 MB)."""
    root = tmp_path_factory.mktemp("weights")
    folder, wide = root / ENTRY, 128
    detail = transformers.Sam2HieraDetConfig(
        hidden_size=8, num_attention_heads=1, image_size=[SIDE, SIDE], window_size_per_stage=[8, 4, 4, 2],
        blocks_per_stage=[1, 1, 2, 1], embed_dim_per_stage=[8, 16, 32, 64], num_attention_heads_per_stage=[1, 2, 4, 8],
        global_attention_blocks=[3], window_positional_embedding_background_size=[4, 4])
    vision = transformers.Sam2VisionConfig(
        backbone_config=detail, backbone_channel_list=[64, 32, 16, 8], fpn_hidden_size=wide,
        backbone_feature_sizes=[[64, 64], [32, 32], [16, 16]])
    config = transformers.Sam2VideoConfig(
        vision_config=vision, prompt_encoder_config={"hidden_size": wide, "image_size": SIDE, "patch_size": 16},
        mask_decoder_config={"hidden_size": wide, "mlp_dim": 64, "num_attention_heads": 2, "iou_head_hidden_dim": 32},
        image_size=SIDE, memory_attention_hidden_size=wide, memory_attention_downsample_rate=1,
        memory_attention_num_attention_heads=1, memory_attention_num_layers=1,
        memory_attention_feed_forward_hidden_size=64, memory_attention_rope_feat_sizes=[16, 16],
        memory_encoder_hidden_size=wide, memory_encoder_output_channels=64, mask_downsampler_embed_dim=wide,
        memory_fuser_embed_dim=wide, memory_fuser_num_layers=1, memory_fuser_intermediate_dim=64,
        multimask_output_in_sam=True, num_maskmem=3, max_object_pointers_in_encoder=5,
        enable_temporal_pos_encoding_for_object_pointers=True)
    torch.manual_seed(1)
    model = transformers.Sam2VideoModel(config)
    with torch.no_grad():  # larger than at birth, so that what is seen makes a difference
        for p in model.parameters():
            if p.ndim > 1:
                p.mul_(2.0)
    model.save_pretrained(folder)
    transformers.Sam2ImageProcessor(size={"height": SIDE, "width": SIDE},
                                    mask_size={"height": 64, "width": 64}).save_pretrained(folder)
    return root


def settings(root: Path) -> ScorerSettings:
    return ScorerSettings(weights=root, device="cpu")


@pytest.fixture(scope="session")
def tracker(weights: Path) -> sam2.Sam2:
    return sam2._open(registry.Opening(settings(weights), {ENTRY: weights / ENTRY}))


def picture(h: int, w: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, h, w]).integers(0, 256, (h, w, 3), dtype=np.uint8)


def moving(n: int, h: int = 60, w: int = 90) -> tuple[list[np.ndarray], np.ndarray]:
    """A bright square that goes right over noise, and where it is at first."""
    frames = []
    for k in range(n):
        frame = picture(h, w, seed=k) // 3
        frame[20:40, 10 + 8 * k:30 + 8 * k] = 230
        frames.append(frame)
    mask = np.zeros((h, w), bool)
    mask[20:40, 10:30] = True
    return frames, mask


def pixels(image: np.ndarray) -> Any:
    from torchvision.transforms.v2.functional import resize

    small = resize(torch.from_numpy(image.copy()).permute(2, 0, 1)[None], [SIDE, SIDE], antialias=True)  # bilinear
    mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in (MEAN, STD))
    return (small / 255 - mean) / std


@pytest.fixture(scope="session")
def library(weights: Path) -> Any:
    return transformers.Sam2Model.from_pretrained(weights / ENTRY).eval()


@pytest.mark.parametrize("image", awkward().values(), ids=awkward())
def test_the_mask_of_the_best_expected_overlap(library: Any, tracker: sam2.Sam2, image: np.ndarray) -> None:
    h, w = image.shape[:2]
    points = np.array([[0.4 * w, 0.6 * h], [0.9 * w, 0.1 * h]])
    got = tracker.segment(image, points, np.array([True, False]))
    with torch.no_grad():
        at = torch.tensor(points * [SIDE / w, SIDE / h], dtype=torch.float32)[None, None]
        out = library(pixel_values=pixels(image), input_points=at, input_labels=torch.tensor([[[1, 0]]]))
    k = int(out.iou_scores[0, 0].argmax())
    assert out.pred_masks.shape[2] == 3
    assert got.score == pytest.approx(float(out.iou_scores[0, 0, k]), abs=1e-6)
    logits = torch.nn.functional.interpolate(out.pred_masks[0, 0, k][None, None], (h, w), mode="bilinear")[0, 0]
    assert got.mask.shape == (h, w) and got.mask.dtype == bool
    assert (got.mask != (logits > 0).numpy()).mean() < 1e-3  # a logit may be on the threshold


def test_another_point_is_another_question(tracker: sam2.Sam2) -> None:
    image = picture(80, 80)
    first = tracker.segment(image, np.array([[10.0, 10.0]]), np.array([True]))
    assert tracker.segment(image, np.array([[10.0, 10.0]]), np.array([True])).score == first.score
    for point, inside in (([70.0, 60.0], True), ([10.0, 10.0], False)):
        assert tracker.segment(image, np.array([point]), np.array([inside])).score != first.score


@pytest.mark.parametrize("n", [3, 8])
def test_following_is_the_librarys_propagation_through_a_whole_video(weights: Path, tracker: sam2.Sam2,
                                                                     n: int) -> None:
    """The library holds all frames and all outputs; here frames are made one by one and outputs are let go of.

    The model looks back 3 and 5 frames; the number of frames bears on it when there are fewer than those.
    """
    frames, mask = moving(n)
    got = tracker.follow(frames, mask)
    model = transformers.Sam2VideoModel.from_pretrained(weights / ENTRY).eval()
    size = {"height": SIDE, "width": SIDE}
    processor = transformers.Sam2VideoProcessor(transformers.Sam2ImageProcessor(size=size),
                                                transformers.Sam2VideoVideoProcessor(size=size))
    session = processor.init_video_session(video=frames)
    processor.add_inputs_to_inference_session(session, 0, 1, input_masks=mask)
    with torch.no_grad():
        model(session, frame_idx=0)
        expected = [(float(o.object_score_logits.sigmoid()), processor.post_process_masks(
            [o.pred_masks], [mask.shape])[0][0, 0].numpy()) for o in model.propagate_in_video_iterator(session)]
    assert len(got) == len(expected) == n
    for g, (score, seen) in zip(got, expected, strict=True):
        assert g.score == pytest.approx(score, abs=1e-5)
        assert g.mask.shape == mask.shape and g.mask.dtype == bool
        assert (g.mask != seen).mean() < 1e-3
    # The first mask is taken as it is, through a grid of 64 x 64: a border of a pixel or two may be lost.
    assert (got[0].mask != mask).sum() <= 2 * 4 * 20
    assert got[0].score > 0.99
    assert len({g.score for g in got}) == n


def test_a_long_video_is_not_kept(tracker: sam2.Sam2, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model looks back 5 frames at most; masks of the full size are as large as the frames."""
    sessions: list[Any] = []
    real = tracker._processor.init_video_session

    def init(**options: Any) -> Any:
        sessions.append(real(**options))
        return sessions[0]

    monkeypatch.setattr(tracker._processor, "init_video_session", init)
    frames, mask = moving(9, 30, 40)
    assert len(tracker.follow(frames, mask)) == 9
    (kept,) = sessions[0].output_dict_per_obj.values()
    assert set(kept["cond_frame_outputs"]) == {0}
    assert set(kept["non_cond_frame_outputs"]) == {4, 5, 6, 7, 8}
    for output in (*kept["cond_frame_outputs"].values(), *kept["non_cond_frame_outputs"].values()):
        assert "high_res_masks" not in output


def test_of_three_masks_the_best_whatever_the_first_is(tracker: sam2.Sam2, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for one mask the model gives the first of four when that is stable enough."""
    image, at, inside = picture(50, 60), np.array([[20.0, 30.0]]), np.array([True])
    found = tracker.segment(image, at, inside)
    monkeypatch.setattr(tracker._image.mask_decoder, "dynamic_multimask_stability_thresh", 0.0)
    again = tracker.segment(image, at, inside)
    assert again.score == found.score and (again.mask == found.mask).all()


def test_following_again_gives_the_same_and_nothing_is_nothing(tracker: sam2.Sam2) -> None:
    frames, mask = moving(3)
    first = tracker.follow(frames, mask)
    for frame in frames:
        frame.setflags(write=False)
    second = tracker.follow(frames, mask)
    assert [d.score for d in first] == [d.score for d in second]
    assert all((a.mask == b.mask).all() for a, b in zip(first, second, strict=True))
    assert tracker.follow([], mask) == []
    nowhere = tracker.follow(frames[:2], np.zeros_like(mask))
    assert not nowhere[0].mask.any()
    assert nowhere[0].score < 0.01
    one = tracker.follow([picture(1, 1)] * 2, np.ones((1, 1), bool))
    assert one[0].mask.all()


def test_a_model_that_is_out_of_order_is_no_empty_mask(tracker: sam2.Sam2) -> None:
    frames, mask = moving(2)
    with out_of_order(tracker._image), pytest.raises(BackendUnavailableError, match="not finite"):
        tracker.segment(frames[0], np.array([[10.0, 10.0]]), np.array([True]))
    for score, logit in ((np.nan, 1.0), (0.5, np.nan), (0.5, np.inf)):
        with pytest.raises(BackendUnavailableError, match="not finite"):
            sam2._detection(score, torch.full((1, 1, 4, 4), logit), (8, 8))
    with out_of_order(tracker._video.vision_encoder), pytest.raises(BackendUnavailableError, match="not finite"):
        tracker.follow(frames, mask)


def test_what_makes_no_sense_is_refused(tracker: sam2.Sam2) -> None:
    image = picture(40, 50)
    for points, inside in ((np.zeros((0, 2)), np.zeros(0, bool)), (np.zeros((2, 2)), np.ones(1, bool)),
                           (np.zeros((1, 3)), np.ones(1, bool))):
        with pytest.raises(UsageError, match="points"):
            tracker.segment(image, points, inside)
    for point in ([51.0, 5.0], [5.0, -1.0], [np.nan, 3.0]):
        with pytest.raises(UsageError, match="50 x 40"):
            tracker.segment(image, np.array([point]), np.ones(1, bool))
    with pytest.raises(UsageError, match="60 x 40"):
        tracker.follow([image, picture(40, 60)], np.ones((40, 50), bool))


def test_it_is_opened_by_its_name_with_what_it_was(weights: Path) -> None:
    box = ScorerBox(settings(weights))
    assert box.lacking("sam2") == ""
    assert isinstance(box.get("sam2"), sam2.Sam2)
    identity = box.identity["sam2"]
    assert identity["transformers"] == transformers.__version__
    assert f"{ENTRY}/model.safetensors" in identity


@pytest.mark.parametrize("fault", ["truncated", "no-file", "other", "part", "no-processor", "mean", "size", "filter"])
def test_folders_that_are_not_sam2_are_refused(weights: Path, tmp_path: Path, fault: str) -> None:
    from safetensors.torch import load_file, save_file

    folder = tmp_path / ENTRY
    shutil.copytree(weights / ENTRY, folder)
    file, why = folder / "model.safetensors", "cannot be loaded"
    if fault == "truncated":
        file.write_bytes(file.read_bytes()[:-1000])
    elif fault == "no-file":
        file.unlink()
        why = f"weights fetch {ENTRY}"
    elif fault == "other":
        (folder / "config.json").write_text('{"model_type": "dinov2"}')
        why = "of a model 'dinov2', not 'sam2_video'"
    elif fault == "part":
        state = {k: v.clone() for k, v in load_file(file).items()}  # not of the file: it is written over
        state.pop(next(k for k in state if k.startswith("memory_attention")))
        save_file(state, file, metadata={"format": "pt"})
        why = "another model than Sam2VideoModel: 1 missing keys"
    elif fault == "no-processor":
        (folder / "preprocessor_config.json").write_text("{")
        why = "Sam2ImageProcessor cannot be loaded"
    else:  # as some whole copies have it beside, and it goes first
        key, value = {"mean": ("image_mean", [0.5] * 3), "size": ("size", {"height": 512, "width": 512}),
                      "filter": ("resample", 3)}[fault]
        pixels = json.loads((folder / "preprocessor_config.json").read_text())
        (folder / "processor_config.json").write_text(json.dumps({"image_processor": pixels | {key: value}}))
        why = f"the image processor's {key} is"
    with pytest.raises(BackendUnavailableError, match=why) as caught:
        ScorerBox(settings(tmp_path)).get("sam2")
    assert "spatialbench weights fetch" in str(caught.value)


def test_an_absent_package_is_named(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "find_spec", lambda name: None if name == "torch" else object())
    assert scorer_status("sam2", settings(weights)) == 'torch is not installed: pip install "spatialbench[vision]"'
