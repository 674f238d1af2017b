"""A tiny HPSv3, and what HPSv3's own class says about it: the port must give the same numbers.

The golden numbers were made once, by this file run as a script, with the original code (hpsv3 1.0.0) under the only
transformers it works with, beside the torch of this environment::

    pip install --no-deps --target old transformers==4.45.2 tokenizers==0.20.3 "huggingface_hub<1"
    pip download --no-deps hpsv3==1.0.0 && unzip hpsv3-1.0.0-py3-none-any.whl -d old
    PYTHONPATH=old:tests/shim:. python tests/scorers/test_hpsv3_golden.py

(training-only packages that the original imports are replaced by empty modules). Weights, images, tokenizer and prompt
come from integers alone, so that they are the same everywhere; the prompt is not HPSv3's own.
"""

from __future__ import annotations

import json
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np

INSTRUCTION = "\nRate what is shown, and how well it fits.  \nWords - {text_prompt}\n\n"
QUESTION = "\nThe rating is: <|Reward|>\n\nDone\n"
MARKS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>",
         "<|video_pad|>")
WIDE, DEPTH = 32, 2
TEXTS = ("a red room", "Zwei Stühle {text_prompt} neben\neinem Tisch, {} 100%")
SIZES = ((120, 200), (448, 448), (33, 7), (1, 1), (61, 900))

# Mean reward and log-deviation, [size][text]; float32, then with the backbone in bfloat16.
GOLDEN: dict[str, Any] = {
    "float32": [
        [(-3.138501, 0.6711429), (-3.294125, 0.06932966)],
        [(-3.731412, 0.301825), (-3.469985, -0.4940735)],
        [(-3.654686, 0.005347535), (-3.555816, -0.5913669)],
        [(-1.361576, -0.602482), (-1.470703, -0.500908)],
        [(-3.886041, 0.2727026), (-3.684351, -0.4493537)],
    ],
    "bfloat16": [
        [(-3.199371, 0.6268749), (-3.336826, 0.08632593)],
        [(-3.751865, 0.3027281), (-3.494041, -0.5166453)],
        [(-3.727415, -0.04320486), (-3.591772, -0.5834373)],
        [(-1.402542, -0.589431), (-1.476928, -0.5377656)],
        [(-3.942565, 0.2181526), (-3.704895, -0.4751375)],
    ],
}


def shapes(depth: int = DEPTH, wide: int = WIDE, rows: int = 256 + len(MARKS) + 1) -> dict[str, tuple[int, ...]]:
    """Tensors of HPSv3.safetensors with ``depth`` blocks in both towers, by name."""
    out: dict[str, tuple[int, ...]] = {"visual.patch_embed.proj.weight": (wide, 3, 2, 14, 14)}

    def linear(name: str, o: int, i: int, bias: bool = True) -> None:
        out[name + ".weight"] = (o, i)
        if bias:
            out[name + ".bias"] = (o,)

    for k in range(depth):
        at = f"visual.blocks.{k}."
        for n in ("norm1", "norm2"):
            out |= {f"{at}{n}.weight": (wide,), f"{at}{n}.bias": (wide,)}
        linear(at + "attn.qkv", 3 * wide, wide)
        linear(at + "attn.proj", wide, wide)
        linear(at + "mlp.fc1", 2 * wide, wide)
        linear(at + "mlp.fc2", wide, 2 * wide)
    out |= {"visual.merger.ln_q.weight": (wide,), "visual.merger.ln_q.bias": (wide,)}
    linear("visual.merger.mlp.0", 4 * wide, 4 * wide)
    linear("visual.merger.mlp.2", wide, 4 * wide)
    out["model.embed_tokens.weight"] = (rows, wide)
    for k in range(depth):
        at = f"model.layers.{k}."
        linear(at + "self_attn.q_proj", wide, wide)
        linear(at + "self_attn.k_proj", wide // 2, wide)
        linear(at + "self_attn.v_proj", wide // 2, wide)
        linear(at + "self_attn.o_proj", wide, wide, bias=False)
        for n, (o, i) in {"gate_proj": (64, wide), "up_proj": (64, wide), "down_proj": (wide, 64)}.items():
            linear(f"{at}mlp.{n}", o, i, bias=False)
        out |= {at + "input_layernorm.weight": (wide,), at + "post_attention_layernorm.weight": (wide,)}
    out |= {"model.norm.weight": (wide,), "lm_head.weight": (rows, wide)}
    linear("rm_head.0", 1024, wide)
    linear("rm_head.3", 16, 1024)
    linear("rm_head.5", 2, 16)
    return out


def noise(name: str, n: int) -> np.ndarray:
    """[n] numbers in [-1,1) that look drawn: splitmix64 of the name and the index, in integers."""
    with np.errstate(over="ignore"):
        z = np.arange(n, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(zlib.crc32(name.encode()) << 20)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return (z >> np.uint64(40)).astype(np.float64) / 2.0 ** 23 - 1.0


def tensors() -> dict[str, np.ndarray]:
    """Values by name: matrices that keep the size of what they are applied to, norms about 1, small biases."""
    out = {}
    for name, shape in shapes().items():
        x = noise(name, int(np.prod(shape)))
        if name.endswith("bias"):
            x = 0.2 * x
        elif len(shape) == 1:
            x = 1.0 + 0.3 * x
        elif "embed_tokens" not in name:
            x = x * 2.5 / np.sqrt(np.prod(shape[1:]))
        out[name] = x.reshape(shape).astype(np.float32)
    return out


def image(h: int, w: int) -> np.ndarray:
    """[h,w,3] colour slopes and noise."""
    y, x, c = np.mgrid[:h, :w, :3]
    slope = (x * 160) // w + (y * 60) // h * (c == 1) + 20 * c
    return (slope + 15 * (1 + noise(f"{h}x{w}", h * w * 3).reshape(h, w, 3))).astype(np.uint8)


def write_base(folder: Path) -> None:
    """Configuration and processor in the layout of Qwen2-VL-7B-Instruct, with a byte-level vocabulary."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    folder.mkdir(parents=True, exist_ok=True)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = Tokenizer(models.BPE(vocab={c: k for k, c in enumerate(alphabet)}, merges=[]))
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    words.add_special_tokens([AddedToken(m, special=True) for m in MARKS])
    words.save(str(folder / "tokenizer.json"))
    id_of = {m: 256 + k for k, m in enumerate(MARKS)}
    (folder / "vocab.json").write_text(json.dumps({c: k for k, c in enumerate(alphabet)}), encoding="utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\n")
    chat = ("{% for m in messages %}{% if loop.first and m.role != 'system' %}<|im_start|>system\nYou are a helpful "
            "assistant.<|im_end|>\n{% endif %}<|im_start|>{{ m.role }}\n{% for p in m.content %}{% if p.type == "
            "'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ p.text }}{% endif %}{% endfor %}"
            "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "Qwen2Tokenizer", "pad_token": "<|endoftext|>", "eos_token": "<|im_end|>",
        "errors": "replace", "model_max_length": 32768, "add_prefix_space": False, "chat_template": chat,
        "additional_special_tokens": list(MARKS[1:]), "added_tokens_decoder": {str(i): {
            "content": m, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False,
            "special": True} for m, i in id_of.items()}}))
    (folder / "chat_template.json").write_text(json.dumps({"chat_template": chat}))
    (folder / "preprocessor_config.json").write_text(json.dumps({
        "min_pixels": 3136, "max_pixels": 12845056, "patch_size": 14, "temporal_patch_size": 2, "merge_size": 2,
        "image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711],
        "image_processor_type": "Qwen2VLImageProcessor", "processor_class": "Qwen2VLProcessor"}))
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["Qwen2VLForConditionalGeneration"], "model_type": "qwen2_vl", "attention_dropout": 0.0,
        "bos_token_id": 256, "eos_token_id": 258, "hidden_act": "silu", "hidden_size": WIDE, "intermediate_size": 64,
        "initializer_range": 0.02, "max_position_embeddings": 2048, "max_window_layers": 28, "num_attention_heads": 4,
        "num_hidden_layers": DEPTH, "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
        "sliding_window": 32768, "tie_word_embeddings": False, "use_cache": True, "use_sliding_window": False,
        "vocab_size": 300, "torch_dtype": "bfloat16", "image_token_id": id_of["<|image_pad|>"],
        "video_token_id": id_of["<|video_pad|>"], "vision_start_token_id": id_of["<|vision_start|>"],
        "vision_end_token_id": id_of["<|vision_end|>"], "vision_token_id": 299,
        "rope_scaling": {"type": "mrope", "mrope_section": [2, 1, 1]},
        "vision_config": {"depth": DEPTH, "embed_dim": WIDE, "mlp_ratio": 2, "num_heads": 2, "in_chans": 3,
                          "hidden_size": WIDE, "patch_size": 14, "spatial_merge_size": 2, "spatial_patch_size": 14,
                          "temporal_patch_size": 2}}))


def original(folder: Path) -> dict[str, Any]:
    """What the original says; runs under transformers 4.45.2 only."""
    import types
    from unittest import mock

    import torch
    import torchvision  # noqa: F401, before anything looks for it: see tests/shim
    from PIL import Image
    from safetensors.torch import save_file

    for name in ("trl", "peft", "datasets", "pandas", "matplotlib", "matplotlib.pyplot", "matplotlib.patches", "fire",
                 "omegaconf", "torch.utils.tensorboard", "requests"):
        if name not in sys.modules:
            module: Any = mock.MagicMock(__spec__=None, __path__=[])
            sys.modules[name] = module
    sys.modules["trl"].RewardTrainer = object  # type: ignore[attr-defined]
    sys.modules["trl"].get_quantization_config = lambda c: None  # type: ignore[attr-defined]
    from hpsv3 import inference
    from hpsv3.train import create_model_and_processor
    from hpsv3.utils.parser import ModelConfig, PEFTLoraConfig

    inference.INSTRUCTION, inference.prompt_with_special_token = INSTRUCTION, QUESTION
    write_base(folder)
    state = {k: torch.from_numpy(v) for k, v in tensors().items()}
    start = {k: v for k, v in state.items() if not k.startswith("rm_head.")}
    for k in ("model.embed_tokens.weight", "lm_head.weight"):  # as many rows as Qwen2-VL has
        start[k] = torch.zeros(300, WIDE)
    save_file(start, folder / "model.safetensors", metadata={"format": "pt"})
    out: dict[str, Any] = {}
    for dtype in ("float32", "bfloat16"):
        model, processor, _ = create_model_and_processor(
            ModelConfig(model_name_or_path=str(folder), rm_head_type="ranknet", output_dim=2, use_special_tokens=True,
                        reward_token="special", torch_dtype=dtype),
            PEFTLoraConfig(), types.SimpleNamespace(disable_flash_attn2=True, bf16=dtype == "bfloat16", fp16=False))
        model.load_state_dict(state, strict=True)
        model.eval()
        # The original casts here by CUDA's autocast, which a CPU does not have.
        model.rm_head.register_forward_pre_hook(lambda m, args: (args[0].float(),))
        judge = object.__new__(inference.HPSv3RewardInferencer)
        judge.device, judge.model, judge.processor, judge.use_special_tokens = "cpu", model, processor, True
        with torch.inference_mode():
            out[dtype] = [[judge.reward([Image.fromarray(image(*size))], [text])[0].tolist() for text in TEXTS]
                          for size in SIZES]
            pairs = [(s, t) for s in SIZES[:3] for t in TEXTS]
            together = judge.reward([Image.fromarray(image(*s)) for s, _ in pairs], [t for _, t in pairs])
        print(dtype, "a batch differs by", float(np.abs(together.numpy() - np.array(
            out[dtype][:3]).reshape(6, 2)).max()))
    return out


def test_the_names_are_those_of_the_published_checkpoint() -> None:
    """It has 736 tensors: 32 blocks and 28 layers. A depth more adds 12 in either tower."""
    a, b = len(shapes(1)), len(shapes(2))
    assert b - a == 24
    assert a + 31 * 12 + 27 * 12 == 736


if __name__ == "__main__":
    import tempfile

    import torchvision  # noqa: F401
    import transformers

    assert transformers.__version__ == "4.45.2"
    with tempfile.TemporaryDirectory() as made:
        print(json.dumps(original(Path(made)), indent=1))
