"""Reading YAML into strict models, with errors that name the key and its nearest known neighbour."""

from __future__ import annotations

import difflib
import reprlib
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from spatialbench.errors import ConfigError, MissingInputError

__all__ = ["load_strict", "read_yaml", "validate_strict"]

M = TypeVar("M", bound=BaseModel)
_MAX_BYTES = 4 << 20
_MAX_VALUES = 1_000_000
"""Values that a file may hold once its aliases are written out: few bytes can name very many."""


class _UniqueKeys(yaml.SafeLoader):
    """YAML's safe loader, which would silently keep the last of two equal keys."""

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)  # type: ignore[no-untyped-call]
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen:
                    raise yaml.composer.ComposerError(None, None, f"the key '{key.value}' is there twice",
                                                      key.start_mark)
                seen.add((key.tag, key.value))
        return node


def read_yaml(path: Path) -> dict[str, Any]:
    """A mapping from a YAML file of at most 4 MiB (safe loader only).

    Raises
    ------
    MissingInputError, ConfigError
    """
    try:
        if not path.is_file():
            raise MissingInputError("no such file", where=str(path), todo="Check the path")
        if path.stat().st_size > _MAX_BYTES:
            raise ConfigError("is larger than 4 MiB, which no case or protocol is", where=str(path),
                              todo="Give the YAML file, not the world")
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as e:
        raise ConfigError("is not text in UTF-8", where=f"{path}, byte {e.start}",
                          todo="Give a YAML file") from None
    except OSError as e:
        raise MissingInputError(f"cannot be read ({e.strerror})", where=str(path),
                                todo="Check the path and its permissions") from None
    try:
        data = yaml.load(text, _UniqueKeys)  # a safe loader
    except (ValueError, RecursionError) as e:
        raise ConfigError(f"is not valid YAML: {e}", where=str(path), todo="Correct it") from None
    except yaml.YAMLError as e:
        mark = getattr(e, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise ConfigError(f"is not valid YAML: {getattr(e, 'problem', e)}", where=f"{path}{line}",
                          todo="Correct that line") from None
    if _written_out(data, {}) > _MAX_VALUES:
        raise ConfigError(f"names more than {_MAX_VALUES:,} values by aliases (&, *)", where=str(path),
                          todo="Write out what is meant")
    if not isinstance(data, dict):
        raise ConfigError(f"must hold keys and values, holds {type(data).__name__}", where=str(path),
                          todo="Write 'key: value' lines")
    return data


def _written_out(value: Any, known: dict[int, int]) -> int:
    """How many values there are when each alias counts as what it stands for. The loader's depth is bounded."""
    if not isinstance(value, (dict, list)):
        return 1
    if id(value) not in known:
        known[id(value)] = 1  # for a loop, which the models then refuse
        parts = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_written_out(v, known) for v in parts)
    return known[id(value)]


def load_strict(model: type[M], path: Path) -> M:
    """Read and validate a YAML file."""
    return validate_strict(model, read_yaml(path), str(path))


def validate_strict(model: type[M], data: dict[str, Any], where: str) -> M:
    """Validate, turning the first problem into a ConfigError with the key's full path."""
    try:
        return model.model_validate(data)
    except ValidationError as e:
        # A misspelt required key is also a missing one: the unknown key says more.
        errors = e.errors()
        first = next((x for x in errors if x["type"] == "extra_forbidden"), errors[0])
        key = ".".join(str(p) for p in first["loc"])
        if first["type"] == "extra_forbidden":
            known = sorted(_fields_at(model, tuple(first["loc"][:-1])))
            near = difflib.get_close_matches(str(first["loc"][-1]), known, n=1)
            todo = f"Did you mean '{near[0]}'?" if near else f"Known keys: {', '.join(known)}"
            raise ConfigError(f"unknown key '{key}'", where=where, todo=todo) from None
        message = first["msg"].removeprefix("Value error, ")
        # What is given in place of a missing key is all that is around it.
        got = "" if first["type"] == "missing" else f" (got {reprlib.repr(first.get('input')):.60})"
        raise ConfigError(f"key '{key}': {message}{got}" if key else message, where=where,
                          todo="Correct the value" if got else "Add the key") from None


def _fields_at(model: type[BaseModel], loc: tuple[Any, ...]) -> set[str]:
    here: Any = model
    for step in loc:
        if isinstance(step, int):
            continue
        field = here.model_fields.get(step) if _is_model(here) else None
        if field is None:
            return set()
        here = _first_model(field.annotation)
        if here is None:
            return set()
    return set(here.model_fields) if _is_model(here) else set()


def _is_model(x: Any) -> bool:
    return isinstance(x, type) and issubclass(x, BaseModel)


def _first_model(annotation: Any) -> Any:
    if _is_model(annotation):
        return annotation
    for a in get_args(annotation):
        found = _first_model(a)
        if found is not None:
            return found
    return None
