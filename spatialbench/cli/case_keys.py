"""The keys of cases and suites as tables, taken from their schemas."""

from __future__ import annotations

import ast
import difflib
import inspect
import textwrap
import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import click
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from spatialbench.cli.say import wide_console
from spatialbench.errors import UsageError

__all__ = ["key_rows", "markdown", "print_keys"]

Row = tuple[str, str, str, str]
_HEADS = ("key", "what", "default", "meaning")
_WORDS = {str: "text", float: "number", int: "whole number", bool: "true or false"}


def _models() -> dict[str, type[BaseModel]]:
    from spatialbench.types.case import CASE_KINDS
    from spatialbench.types.suite_file import SuiteFile

    return {**CASE_KINDS, "suite": SuiteFile}


def _chosen(kind: str | None) -> dict[str, type[BaseModel]]:
    models = _models()
    if kind is None:
        return models
    if kind not in models:
        near = difflib.get_close_matches(kind, models, n=1)
        raise UsageError(f"there are no '{kind:.80}' keys", where="KIND",
                         todo=f"Did you mean '{near[0]}'?" if near else f"Known: {', '.join(models)}")
    return {kind: models[kind]}


def markdown(kind: str | None = None) -> str:
    """The tables of the documentation, of one kind or of all."""
    parts = []
    for name, model in _chosen(kind).items():
        lines = [f"### {name}", "", _first_sentence(model), "", "| " + " | ".join(_HEADS) + " |",
                 "|" + "---|" * len(_HEADS)]
        lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in (f"`{key}`", *rest)) + " |"
                  for key, *rest in key_rows(model)]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def print_keys(kind: str | None) -> None:
    """The same for the terminal."""
    from rich.table import Table

    for name, model in _chosen(kind).items():
        click.echo(f"{name}: {_first_sentence(model)}")
        table = Table(box=None, pad_edge=False)
        for head in _HEADS:
            table.add_column(head, no_wrap=head == "key", overflow="fold")
        for row in key_rows(model):
            table.add_row(*(cell.replace("`", "") for cell in row))
        wide_console().print(table)
        click.echo("")


def key_rows(model: type[BaseModel], prefix: str = "") -> Iterator[Row]:
    """(key, what, default, meaning) of each key; those of lists of mappings as ``key[].name``."""
    docs = _docstrings(model)
    fields = sorted(model.model_fields.items(), key=lambda f: f[0] != "kind" if not prefix else 0)
    for name, field in fields:
        inner, many = _inner(field.annotation)
        words = field.description or _described(field.metadata) or _type(field.annotation)
        if name == "systems":  # validated one by one, so that the message names the system
            from spatialbench.types.suite_file import SystemOutputs

            inner, many = SystemOutputs, ".NAME"
        default = "needed" if name == "kind" and field.default != "snapshot" else _default(field)
        yield prefix + name, words, default, docs.get(name, "")
        if inner is not None and name != "profile":  # which is written by name
            yield from key_rows(inner, f"{prefix}{name}{many}.")


def _docstrings(model: type[BaseModel]) -> dict[str, str]:
    """The string below each field, in one line, of the model and what it inherits."""
    out: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if base is BaseModel or not issubclass(base, BaseModel):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        assert isinstance(body, ast.ClassDef)
        for here, below in zip(body.body, body.body[1:], strict=False):
            if (isinstance(here, ast.AnnAssign) and isinstance(here.target, ast.Name) and isinstance(below, ast.Expr)
                    and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str)):
                out[here.target.id] = " ".join(below.value.value.split()).replace("``", "`")
    return out


def _first_sentence(model: type[BaseModel]) -> str:
    return (inspect.getdoc(model) or "").split("\n\n")[0].replace("\n", " ").replace("``", "`")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "needed"
    value = field.default
    return "" if value is None or value == () or field.default_factory or isinstance(value, BaseModel) else f"`{value}`"


def _inner(annotation: Any) -> tuple[type[BaseModel] | None, str]:
    """The model within an annotation, and ``[]`` when there is a list of it."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, ""
    for a in get_args(annotation) if get_origin(annotation) in (tuple, Union, types.UnionType, Annotated) else ():
        found, many = _inner(a)
        if found is not None:
            return found, "[]" if get_origin(annotation) is tuple else many
    return None, ""


def _described(metadata: Any) -> str:
    return next((m.description for m in metadata if isinstance(m, FieldInfo) and m.description), "")


def _type(annotation: Any) -> str:
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _described(args[1:]) or _type(args[0])
    if origin is Literal:
        return ", ".join(f"`{a}`" for a in args)
    if origin in (Union, types.UnionType):
        return " or ".join(_type(a) for a in args if a is not type(None))
    if origin is tuple and args[1:] == (...,):
        return f"list of {_type(args[0])}"
    if origin is dict:
        return f"mapping of {_type(args[1])}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "mapping"
    return _WORDS.get(annotation, str(annotation))
