"""The web server: viser's, on one address, quiet, and without its public tunnel."""

from __future__ import annotations

import io
import logging
import math
import socket
from contextlib import redirect_stdout
from typing import Any

from spatialbench.errors import BackendUnavailableError, UsageError

__all__ = ["check_address", "open_server", "page_address", "stop_server"]

DEFAULT_PORT = 8080
_TRIED = 20
_EVERYWHERE = ("0.0.0.0", "::", "")


def check_address(host: str, port: int | None) -> int:
    """The port to listen at: the one asked for, else 8080 or the next that is free.

    Raises
    ------
    UsageError : no such address on this machine, or its port is taken.
    BackendUnavailableError : viser is not installed.
    """
    _viser()
    tried = [port] if port is not None else [*range(DEFAULT_PORT, DEFAULT_PORT + _TRIED), 0]
    reason = ""
    for number in tried:
        try:
            family, kind, _, _, address = socket.getaddrinfo(host or None, number, type=socket.SOCK_STREAM,
                                                             flags=socket.AI_PASSIVE)[0]
            with socket.socket(family, kind) as trial:
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                trial.bind(address)
                return int(trial.getsockname()[1])
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            if isinstance(error, (socket.gaierror, UnicodeError)):
                break
    raise UsageError(f"cannot listen there: {reason}", where=f"--host {host} --port {tried[0]}",
                     todo="Choose another --port (0: any that is free), or an address of this machine as --host")


def open_server(host: str, port: int, title: str) -> Any:
    """A running viser server; call :func:`check_address` before. Stop it with :func:`stop_server`.

    Raises
    ------
    BackendUnavailableError : viser is not installed.
    """
    viser = _viser()

    class Local(viser.ViserServer):  # type: ignore[misc, name-defined]
        """Nothing leaves this machine: the page can ask viser for a public address, and gets none."""

        def request_share_url(self, verbose: bool = True) -> None:
            return None

    logging.getLogger("websockets").setLevel(logging.CRITICAL)  # a page that is closed half way is no error
    with redirect_stdout(io.StringIO()):  # viser prints its own banner
        server = Local(host=host, port=port, verbose=False)
    server.gui.set_panel_label(title)
    server.gui.configure_theme(dark_mode=True, show_logo=False, show_share_button=False, control_width="medium")
    # Irradiance pi gives a surface its own colour: at most that, from above, and three fifths of it from everywhere.
    server.scene.configure_environment_map(None)
    server.scene.configure_default_lights(False)
    server.scene.add_light_ambient("/light/ambient", intensity=0.6 * math.pi)
    server.scene.add_light_directional("/light/above", intensity=0.4 * math.pi, cast_shadow=False)
    return server


def stop_server(server: Any) -> None:
    """Close all connections and the port."""
    with redirect_stdout(io.StringIO()):
        server.stop()


def page_address(server: Any) -> tuple[str, bool]:
    """The page's URL, and whether other machines can reach it."""
    host, port = str(server.get_host()), int(server.get_port())
    shown = "localhost" if host in _EVERYWHERE else f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}", host not in ("127.0.0.1", "::1", "localhost")


def _viser() -> Any:
    try:
        import viser
    except ImportError as error:
        raise BackendUnavailableError(f"the viewer needs viser, which cannot be imported ({error})", where="view",
                                      todo="Run: pip install 'spatialbench[view]'") from None
    return viser
