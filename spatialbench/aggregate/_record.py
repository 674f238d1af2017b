"""The base of the records that summaries are made of."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer

__all__ = ["Record"]


class Record(BaseModel):
    """Frozen, without unknown fields; fields named in ``_only_if_given`` are not written while they are None."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    _only_if_given: ClassVar[frozenset[str]] = frozenset()

    @model_serializer(mode="wrap")
    def _without_what_was_not_asked_for(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = handler(self)
        for name in self._only_if_given:
            if data.get(name) is None:
                data.pop(name, None)
        return data
