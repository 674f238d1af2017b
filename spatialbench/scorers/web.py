"""How spatialbench asks the web when it fetches weights; nothing else does, and scoring never.

Redirects are followed to https alone; plain http is for this machine (loopback) and for the endpoint that the user
named. A token goes to the endpoint's own origin and nowhere else, and is never shown.
"""

from __future__ import annotations

import http.client
import ipaddress
import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit

from spatialbench import __version__
from spatialbench.errors import BackendUnavailableError

__all__ = ["Web", "retried", "shown"]

T = TypeVar("T")

_TIMEOUT_S = 30.0
_ATTEMPTS = 5
_PAUSE_S = 1.0
_REDIRECTS = 10
_BUSY = (408, 425, 429, 500, 502, 503, 504)


@dataclass(frozen=True)
class Web:
    """How requests are made.

    Attributes
    ----------
    endpoint : address of the hub, which may be http where the user said so.
    token : sent to the endpoint's origin only; never shown.
    """

    endpoint: str
    token: str = field(default="", repr=False)

    def check(self, url: str, before: str = "") -> None:
        """Whether an address may be asked, after one that redirected to it.

        Raises
        ------
        BackendUnavailableError
        """
        try:
            scheme = urlsplit(url).scheme if re.fullmatch(r"[\x21-\x7e]+", url) else ""
        except ValueError:
            scheme = ""
        if not scheme:
            raise BackendUnavailableError("leads to something that is no address", where=shown(before),
                                          todo="Check the address, or HF_ENDPOINT")
        plain = scheme == "http" and (_loopback(url) or _origin(url) == _origin(self.endpoint))
        if scheme == "https" or (plain and urlsplit(before).scheme != "https"):
            return
        raise BackendUnavailableError(f"leads to '{shown(url)}', which is not https", where=shown(before or url),
                                      todo="Check the address, or HF_ENDPOINT")

    def open(self, url: str, headers: Mapping[str, str] = MappingProxyType({})) -> Any:
        """The response (status 200 or 206), after redirects.

        Raises
        ------
        urllib.error.HTTPError, OSError, http.client.HTTPException : as urllib does.
        BackendUnavailableError : it leads to an address that may not be asked.
        """
        opener = urllib.request.build_opener(_NoRedirect)
        self.check(url)
        for _ in range(_REDIRECTS):
            sent = {"User-Agent": f"spatialbench/{__version__}", "Accept-Encoding": "identity", **headers}
            safe = urlsplit(url).scheme == "https" or _loopback(url)
            if self.token and safe and _origin(url) == _origin(self.endpoint):
                sent["Authorization"] = f"Bearer {self.token}"
            try:
                return opener.open(urllib.request.Request(url, headers=sent), timeout=_TIMEOUT_S)
            except urllib.error.HTTPError as error:
                target = error.headers.get("Location")
                if error.code not in (301, 302, 303, 307, 308) or not target:
                    raise
                error.close()
                try:
                    onward = urljoin(url, target)
                except ValueError:
                    onward = ""
                self.check(onward, url)
                url = onward
        raise BackendUnavailableError(f"redirects more than {_REDIRECTS} times", where=shown(url),
                                      todo="Try again later")


def retried(url: str, once: Callable[[], T], position: Callable[[], int] = lambda: 0) -> T:
    """What ``once`` gives; after failures of the network and of a busy server tried again, with pauses, until there
    have been five in a row that brought ``position`` no further.

    Raises
    ------
    BackendUnavailableError
    """
    failures, best = 0, position()
    while True:
        try:
            return once()
        except urllib.error.HTTPError as error:
            error.close()
            if error.code not in _BUSY:
                raise _refusal(url, error.code) from None
            why = f"HTTP {error.code}"
        except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError) as error:
            why = str(getattr(error, "reason", "") or error or type(error).__name__)[:200]
        if position() > best:
            failures, best = 0, position()
        failures += 1
        if failures >= _ATTEMPTS:
            raise BackendUnavailableError(f"cannot be fetched ({why})", where=shown(url),
                                          todo="Check the network; the same command continues where it stopped")
        time.sleep(_PAUSE_S * 2 ** (failures - 1))


def _refusal(url: str, code: int) -> BackendUnavailableError:
    if code in (401, 403):
        page = shown(url).partition("/resolve/")[0].partition("/revision/")[0].replace("/api/models/", "/")
        return BackendUnavailableError(f"may not be fetched (HTTP {code})", where=shown(url),
                                       todo=f"Accept its conditions at {page} with an account of the hub, and put a "
                                            "token of that account in HF_TOKEN; or copy the files there by hand")
    if code in (404, 410):
        return BackendUnavailableError(f"is not there (HTTP {code})", where=shown(url),
                                       todo="Check the address, or HF_ENDPOINT; or copy the file there by hand")
    return BackendUnavailableError(f"cannot be fetched (HTTP {code})", where=shown(url), todo="Try again later")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Redirects are followed by ``Web.open``: urllib would send the token along."""

    def http_error_302(self, *args: Any) -> None:
        return None

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302  # type: ignore[assignment]


def _origin(url: str) -> tuple[str, str, int]:
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = -1
    return parts.scheme, (parts.hostname or "").lower(), port or {"https": 443, "http": 80}.get(parts.scheme, 0)


def _loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def shown(url: str) -> str:
    """An address for messages: without a query, which may hold a signature, and without a user."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"[:300]
