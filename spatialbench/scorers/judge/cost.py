"""What calls cost: estimates before, the endpoint's own counts after, and a cap that no call may pass."""

from __future__ import annotations

import math
import threading
from fnmatch import fnmatchcase
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from spatialbench.configs import config_path
from spatialbench.scorers.judge.contract import Request, Usage
from spatialbench.scorers.judge.prompts import canonical
from spatialbench.types.strict import load_strict

__all__ = ["Budget", "Price", "Prices", "load_prices"]

_BYTES_PER_TOKEN = 3.0
_PER_MESSAGE = 8


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Price(_Strict):
    """Of a million tokens, at endpoints and of models that fit (``*`` for anything)."""

    model: str
    endpoint: str = "*"
    input_per_million: float = Field(ge=0)
    output_per_million: float = Field(ge=0)
    as_of: str = ""

    def of(self, usage: Usage) -> float:
        """Price of some tokens."""
        return (usage.input * self.input_per_million + usage.output * self.output_per_million) / 1e6


class PictureTokens(_Strict):
    """How many tokens a picture is."""

    model: str
    pixels_per_token: float = Field(gt=0)
    tokens_per_picture: float = Field(0, ge=0)


class Prices(_Strict):
    """``configs/prices/judge.yaml`` or a user's own."""

    currency: str = Field("USD", min_length=1, max_length=10)
    prices: tuple[Price, ...] = ()
    picture_tokens: tuple[PictureTokens, ...] = (PictureTokens(model="*", pixels_per_token=512,
                                                               tokens_per_picture=100),)

    def price(self, model: str, endpoint: str) -> Price | None:
        """The first that fits, whatever the case of the letters; None: unknown."""
        return next((p for p in self.prices if fnmatchcase(model.lower(), p.model.lower())
                     and fnmatchcase(endpoint.lower(), p.endpoint.lower())), None)

    def estimate(self, request: Request, model: str) -> Usage:
        """Tokens of a call before it is made: of the input about, of the output the most there can be.

        Text counts a token for three bytes (of JSON), which is more than tokenisers need for English.
        """
        rule = next((r for r in self.picture_tokens if fnmatchcase(model.lower(), r.model.lower())),
                    PictureTokens(model="*", pixels_per_token=512, tokens_per_picture=100))
        text = sum(len(p.encode("utf-8", "replace")) for m in request.messages for p in m.parts if isinstance(p, str))
        text += len(canonical(dict(request.schema)))
        tokens = math.ceil(text / _BYTES_PER_TOKEN) + _PER_MESSAGE * len(request.messages)
        for image in request.images():
            w, h = image.size
            tokens += math.ceil(rule.tokens_per_picture + w * h / rule.pixels_per_token)
        return Usage(tokens, request.max_tokens)


def load_prices(path: Path | None = None) -> Prices:
    """The user's file, or the packaged one, which knows no price.

    Raises
    ------
    MissingInputError, ConfigError
    """
    return load_strict(Prices, config_path("prices", "judge") if path is None else path)


class Budget:
    """Money that calls may cost, reserved before each.

    What is reserved is the estimate, raised by the largest factor by which an estimate of input has been too low so
    far. A call of which nothing came back stays reserved when the provider may have done the work.
    """

    def __init__(self, most: float | None, price: Price | None) -> None:
        self.most, self.price = most, price
        self._spent, self._factor = 0.0, 1.0
        self._open: list[float] = []
        self._lock = threading.Lock()

    @property
    def spent(self) -> float:
        """So far, with what may have been billed."""
        return self._spent

    @property
    def idle(self) -> bool:
        """Whether nothing is set aside."""
        return not self._open

    def reserve(self, estimate: Usage) -> float | None:
        """What is set aside for a call, or None: it could pass the cap."""
        if self.price is None:
            return 0.0
        with self._lock:
            amount = self.price.of(Usage(math.ceil(estimate.input * self._factor), estimate.output))
            if self.most is not None and self._spent + sum(self._open) + amount > self.most:
                return None
            self._open.append(amount)
            return amount

    def settle(self, reserved: float, estimate: Usage, used: Usage | None, billed: bool = False) -> None:
        """A call has ended.

        Parameters
        ----------
        used : what the endpoint counted; None: no reply.
        billed : whether it may have to be paid for without a reply.
        """
        if self.price is None:
            return
        with self._lock:
            self._open.remove(reserved)
            if used is None:
                self._spent += reserved if billed else 0.0
            elif used == Usage():  # the server does not count: the estimate is all there is
                self._spent += reserved
            else:  # of what it does not count, too
                self._spent += self.price.of(Usage(used.input or math.ceil(estimate.input * self._factor),
                                                   used.output or estimate.output))
                self._factor = max(self._factor, used.input / max(1, estimate.input))
