"""HPSv3's own words around the text, read from HPSv3's own source file and known by their hash.

The reward model was trained with one instruction, whose every space counts, so it belongs to the weights; it is read
from the file of the ``hpsv3`` distribution that holds it (``hpsv3/dataset/data_collator_qwen.py``, MIT), of which
nothing is run.
"""

from __future__ import annotations

import ast
import hashlib
from dataclasses import dataclass
from pathlib import Path

from spatialbench.errors import BackendUnavailableError
from spatialbench.scorers.weights import fetch_again

__all__ = ["FILE", "REWARD", "TEMPLATE_SHA256", "Template", "read_template"]

FILE = "data_collator_qwen.py"
REWARD = "<|Reward|>"
"""The token at which the reward is read; HPSv3 adds it to Qwen2-VL's."""
TEMPLATE_SHA256 = "f6ee57479d4e9eee76b49c00dc962e1e696a5a2b3cc32cebd9b1fa76fe27502c"
"""Of the instruction and the question together, UTF-8, as in hpsv3 1.0.0."""
_FIELD = "{text_prompt}"
_NAMES = ("INSTRUCTION", "prompt_with_special_token")
_MOST_BYTES = 1 << 20
_COPY = f", or copy {FILE} from the package hpsv3 1.0.0"


@dataclass(frozen=True)
class Template:
    """The instruction, which has one ``{text_prompt}``, and the question, which has one ``<|Reward|>``."""

    instruction: str
    question: str

    def fill(self, text: str) -> str:
        """What the model is told about an image beside the image itself."""
        return self.instruction.replace(_FIELD, text) + self.question


def read_template(path: Path) -> Template:
    """The two string constants of HPSv3's module.

    Raises
    ------
    BackendUnavailableError : the file is not Python, lacks them, or they are not the ones of hpsv3 1.0.0.
    """
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ValueError(f"more than {_MOST_BYTES:,} bytes")
        body = ast.parse(path.read_bytes()).body
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError) as error:
        raise BackendUnavailableError(f"holds no prompt of HPSv3 ({error})", where=str(path),
                                      todo=fetch_again(path) + _COPY) from None
    found = {target.id: node.value.value for node in body if isinstance(node, ast.Assign)
             for target in node.targets if isinstance(target, ast.Name) and isinstance(node.value, ast.Constant)}
    parts = [found.get(name) for name in _NAMES]
    if not all(isinstance(p, str) for p in parts):
        raise BackendUnavailableError(f"holds no prompt of HPSv3 ({' and '.join(_NAMES)} are its names)",
                                      where=str(path), todo=fetch_again(path) + _COPY)
    template = Template(str(parts[0]), str(parts[1]))
    digest = hashlib.sha256((template.instruction + template.question).encode("utf-8", "surrogatepass")).hexdigest()
    if digest != TEMPLATE_SHA256 or template.instruction.count(_FIELD) != 1 or template.question.count(REWARD) != 1:
        raise BackendUnavailableError("holds another prompt than the one HPSv3 was trained with",
                                      where=str(path), todo=fetch_again(path) + _COPY)
    return template
