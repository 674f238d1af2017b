"""The registry, the cache of observations, and how failures become statuses."""

from __future__ import annotations

from typing import Any

import pytest

from spatialbench.errors import BackendUnavailableError, InputError, UsageError
from spatialbench.observe import (
    REGISTRY,
    Context,
    Observations,
    Outcome,
    Registry,
    measured,
    metric,
    observation,
)
from spatialbench.observe.evaluate import evaluate
from spatialbench.tracks import load_tracks
from spatialbench.types import Status, load_protocol

FIELDS: dict[str, Any] = {
    "name": "n", "title": "t", "track": "test", "level": "L", "group": "G", "retained": True,
    "scored_on": "scene", "range": "[0,1]", "higher_is_better": True}


def context() -> Context:
    return Context(load_protocol("happyworld-spatial-1-fast"), {}, None, "case", "system")


def test_an_observation_is_made_once_and_shared() -> None:
    registry = Registry()
    made: list[str] = []

    @observation("base", label="base", registry=registry)
    def _base(obs: Observations) -> int:
        made.append("base")
        return 2

    @observation("twice", label="twice", registry=registry, needs=("base",))
    def _twice(obs: Observations) -> int:
        return 2 * int(obs.get("base"))

    for name in ("A", "B"):
        @metric(id=name, registry=registry, observations=("twice", "base"), **FIELDS)
        def _value(obs: Observations) -> Outcome:
            return measured(obs.get("twice") + obs.get("base"))

    got = evaluate(["A", "B"], Observations(context(), registry), registry)
    assert [m.value for m in got] == [6.0, 6.0]
    assert made == ["base"]


def test_a_failed_observation_costs_its_metrics_their_value_and_no_other() -> None:
    registry = Registry()
    calls: list[int] = []

    @observation("broken", label="broken", registry=registry)
    def _broken(obs: Observations) -> int:
        calls.append(1)
        raise BackendUnavailableError("no ray caster", todo="Install one")

    @metric(id="A", registry=registry, observations=("broken",), **FIELDS)
    def _a(obs: Observations) -> Outcome:
        return measured(obs.get("broken"))

    @metric(id="B", registry=registry, observations=("broken",), **FIELDS)
    def _b(obs: Observations) -> Outcome:
        return measured(obs.get("broken"))

    @metric(id="C", registry=registry, **FIELDS)
    def _c(obs: Observations) -> Outcome:
        raise InputError("the mesh is bad")

    @metric(id="D", registry=registry, **FIELDS)
    def _d(obs: Observations) -> Outcome:
        return measured(0.0, "a rule gives zero")

    a, b, c, d = evaluate("ABCD", Observations(context(), registry), registry)
    assert (a.status, b.status) == (Status.UNAVAILABLE, Status.UNAVAILABLE)
    assert a.reason == "no ray caster. Install one"
    assert calls == [1], "a failure is remembered, not tried again"
    assert c.status is Status.INVALID
    assert (d.status, d.value) == (Status.MEASURED, 0.0)


def test_an_observation_that_needs_itself_is_a_programming_error() -> None:
    registry = Registry()

    @observation("loop", label="loop", registry=registry)
    def _loop(obs: Observations) -> Any:
        return obs.get("loop")

    with pytest.raises(RuntimeError, match="needs itself"):
        Observations(context(), registry).get("loop")


def test_what_is_asked_for_must_have_been_declared() -> None:
    """Results are kept by what metrics and observations declare: a hidden dependency would keep stale ones."""
    registry = Registry()
    observation("base", label="", registry=registry)(lambda obs: 1)
    observation("sly", label="", registry=registry)(lambda obs: obs.get("base"))
    metric(id="A", registry=registry, **FIELDS)(lambda obs: measured(obs.get("base")))
    with pytest.raises(RuntimeError, match="'sly' asks for 'base'"):
        Observations(context(), registry).get("sly")
    with pytest.raises(RuntimeError, match="metric A asks for 'base'"):
        evaluate(["A"], Observations(context(), registry), registry)


def test_names_are_unique_frozen_and_found_by_their_neighbours() -> None:
    registry = Registry()

    @metric(id="M08", registry=registry, **FIELDS)
    def _a(obs: Observations) -> Outcome:
        return measured(1.0)

    with pytest.raises(ValueError, match="registered twice"):
        metric(id="M08", registry=registry, **FIELDS)(_a)
    registry.freeze()
    with pytest.raises(ValueError, match="frozen"):
        metric(id="M09", registry=registry, **FIELDS)(_a)
    with pytest.raises(UsageError, match="Did you mean M08"):
        registry.metric("M8")


def test_the_spatial_track_registers_the_papers_inventory() -> None:
    """Counts of spec section 1.1: 39 metrics, of which 10, 2, 7, 7, 5 are retained in W1 to W5."""
    load_tracks()
    specs = REGISTRY.specs("happyworld.spatial")
    assert sorted(specs) == sorted([*(f"M{i:02d}" for i in range(1, 40)), "M08c"])
    retained = [s.level for s in specs.values() if s.retained]
    assert [retained.count(f"W{i}") for i in range(1, 6)] == [10, 2, 7, 7, 5]
    lower = {s.id for s in specs.values() if not s.higher_is_better}
    assert lower == {"M03", "M07", "M12", "M15", "M17", "M33", "M34"}
    assert set(load_protocol("happyworld-spatial-1").metrics) == set(specs)


def test_every_named_observation_is_registered() -> None:
    load_tracks()
    for spec in REGISTRY.specs().values():
        for name in spec.observations:
            assert REGISTRY.observation(name).name == name


def test_declared_protocol_keys_exist() -> None:
    load_tracks()
    values = load_protocol("happyworld-spatial-1").model_dump()
    declared = {key for spec in REGISTRY.specs().values() for key in spec.reads}
    declared |= {key for spec in REGISTRY.specs().values() for name in spec.observations
                 for key in REGISTRY.observation(name).reads}
    for key in declared:
        at: Any = values
        for part in key.split("."):
            assert part in at, key
            at = at[part]
