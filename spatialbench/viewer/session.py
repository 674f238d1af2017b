"""One world on a page: switches, panel and viewpoints. What has to be computed is computed by the thread that serves,
as in a run; the web server's threads only hand it jobs."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from spatialbench.errors import SpatialbenchError
from spatialbench.runs import RunResult
from spatialbench.viewer.layers import Canvas, Layer, Legend, layers_of
from spatialbench.viewer.panel import legend_html, scores_html, status_html, world_html
from spatialbench.viewer.scores import Scores, measure
from spatialbench.viewer.viewpoints import VIEWPOINTS, extent, viewpoint

__all__ = ["View"]

_WAIT, _PAUSE = 0.5, 0.2
_READY = "ready"


class View:
    """A page of one world.

    Parameters
    ----------
    server : a viser server.
    shown : the world, anchored; its observations are made when a layer needs them.
    scores : what the panel lists; without metrics it offers to measure them.
    most_splats : that are sent to the page.
    """

    def __init__(self, server: Any, shown: RunResult, scores: Scores, most_splats: int) -> None:
        self._server, self._shown, self._scores, self._most = server, shown, scores, most_splats
        self._jobs: queue.Queue[Callable[[], None]] = queue.Queue()
        self._layers = layers_of(shown)
        self._roots: dict[str, Any] = {}
        self._legends: dict[str, Legend] = {}
        self._switches: dict[str, Any] = {}
        self._told = 0.0
        self._box = extent(shown.world)
        self._build()
        for layer in self._layers:
            if layer.on:
                self._show(layer)
        self._say(_READY)

    def progress(self, label: str, done: int, total: int) -> None:
        """Say on the page what is being computed."""
        now = time.monotonic()
        if now - self._told >= _PAUSE:
            self._told = now
            self._say(f"{label} {done}/{total}" if total else f"{label}...")

    def serve(self) -> None:
        """Do what the page asks for, until interrupted (Ctrl-C)."""
        with suppress(KeyboardInterrupt):
            while True:
                try:
                    job = self._jobs.get(timeout=_WAIT)
                except queue.Empty:
                    continue
                job()

    def _build(self) -> None:
        gui, start = self._server.gui, viewpoint(VIEWPOINTS[0], self._box, self._shown.protocol)
        first = self._server.initial_camera
        first.position, first.look_at, first.fov = tuple(start.position), tuple(start.target), start.fov
        self._server.scene.world_axes.visible = False
        self._status = gui.add_html(status_html("starting"))
        views = gui.add_button_group("View", VIEWPOINTS)
        views.on_click(lambda event: self._look(event.client, str(event.target.value)))
        tabs = gui.add_tab_group()
        with tabs.add_tab("Layers"):
            for layer in self._layers:
                switch = gui.add_checkbox(layer.title, layer.on,
                                          hint="Computed when it is first shown" if layer.needs else None)
                switch.on_update(lambda _, layer=layer: self._switched(layer))
                self._switches[layer.key] = switch
            self._legend = gui.add_html("")
        with tabs.add_tab("Scores"):
            self._measure = gui.add_button("Measure all metrics", visible=not self._scores.metrics)
            self._measure.on_click(lambda _: self._jobs.put(self._measured))
            self._table = gui.add_html(scores_html(self._scores))
        with tabs.add_tab("World"):
            gui.add_html(world_html(self._shown))
            axes = gui.add_checkbox("Axes at the initial camera", False)
            axes.on_update(lambda _: setattr(self._server.scene.world_axes, "visible", axes.value))

    def _look(self, client: Any, name: str) -> None:
        if client is None:
            return
        view, camera = viewpoint(name, self._box, self._shown.protocol), client.camera
        with client.atomic():
            camera.up_direction = (0.0, 0.0, 1.0)
            camera.position, camera.look_at = view.position, view.target
            camera.fov, camera.near = view.fov, view.near

    def _switched(self, layer: Layer) -> None:
        if layer.key in self._roots:
            self._roots[layer.key].visible = self._switches[layer.key].value
            self._list()
        elif self._switches[layer.key].value:
            self._jobs.put(lambda: self._show(layer))

    def _show(self, layer: Layer) -> None:
        switch = self._switches[layer.key]
        if layer.key in self._roots or not switch.value:
            return
        self._say(f"showing: {layer.title}...")
        root = f"/{layer.key}"
        try:
            if layer.needs:
                self._shown.observations.get(layer.needs)
            node = self._server.scene.add_frame(root, show_axes=False, visible=False)
            self._legends[layer.key] = layer.draw(Canvas(self._server.scene, root, self._shown, self._most))
        except SpatialbenchError as error:
            switch.value = False
            self._say(f"{layer.title}: {error}", error=True)
            return
        self._roots[layer.key] = node
        node.visible = switch.value  # it may have been switched off meanwhile
        self._list()
        self._say(_READY)

    def _measured(self) -> None:
        if self._scores.metrics:
            return
        self._measure.disabled = True
        self._say("measuring all metrics...")
        try:
            self._scores = measure(self._shown)
        except SpatialbenchError as error:
            self._measure.disabled = False
            self._say(str(error), error=True)
            return
        self._measure.visible = False
        self._table.content = scores_html(self._scores)
        self._say(_READY)

    def _list(self) -> None:
        self._legend.content = legend_html((layer.title, self._legends[layer.key]) for layer in self._layers
                                           if layer.key in self._legends and self._switches[layer.key].value)

    def _say(self, text: str, error: bool = False) -> None:
        self._status.content = status_html(text, error)
