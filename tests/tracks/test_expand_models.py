"""Expansions rated by a model that gives an image's mean brightness, so that every reward is a share of holes.

The rooms are those of ``test_expand_worlds``, of one colour, unlit; holes are black. With e the colour's code / 255, a
view without holes has the reward e, and one with a share h of them e (1 - h).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spatialbench.runs.batch.keys import recipes
from spatialbench.runs.single import prepare
from spatialbench.scorers import registry
from spatialbench.types import Status, TriangleMesh, load_protocol
from tests.fake_scorers import Brightness, lend
from tests.tracks.test_edit_worlds import ROOM, encoded
from tests.tracks.test_expand_worlds import both_rooms, first_room, pair, rows

E = round(255 * encoded(ROOM)) / 255
SIDE = 48


def painted(mesh: TriangleMesh) -> TriangleMesh:
    colours = np.full((len(mesh.faces), 3, 4), ROOM, np.float32)
    colours[..., 3] = 1.0
    return replace(mesh, colors=colours)


FIRST, BOTH = painted(first_room().mesh()), painted(both_rooms().mesh())


def open_share(x: float, yaw: float) -> float:
    """Share of a view of 90 degrees at (x, 0, 0) in the first room that leaves it through its open side at x = 2."""
    if x >= 2:
        return 1.0 if yaw == 90 else np.nan
    j, i = np.mgrid[:SIDE, :SIDE]
    right, down = (i + 0.5 - SIDE / 2) / (SIDE / 2), (j + 0.5 - SIDE / 2) / (SIDE / 2)
    east = {0: right, 90: np.ones(i.shape), 180: -right, 270: -np.ones(i.shape)}[yaw]
    north = {0: np.ones(i.shape), 90: -right, 180: -np.ones(i.shape), 270: right}[yaw]
    with np.errstate(divide="ignore", invalid="ignore"):
        t = (2.0 - x) / east
        out = (t > 0) & (np.abs(t * north) < 2) & (-t * down > -1.6) & (-t * down < 1.1)
    return float(out.mean())


@pytest.fixture
def reward(monkeypatch: pytest.MonkeyPatch) -> Brightness:
    rater = Brightness()
    lend(monkeypatch, hpsv3=rater)
    return rater


def test_a_second_room_is_rated(tmp_path: Path, reward: Brightness) -> None:
    m = rows(pair(tmp_path, FIRST, BOTH, "text: two rooms"))
    assert m["M28"].value == pytest.approx(E, abs=1e-9)  # closed all around
    # Outlines are blended by 2 x 2 samples: under 48 pixels a side of the opening, half of each: 2 % of a view
    gains = [E * open_share(0.0, yaw) for yaw in (0, 90, 180, 270)]
    assert m["M29"].value == pytest.approx(sum(gains) / 4, abs=0.02 * E)
    assert m["M29"].components["mean_after"] == pytest.approx(E, abs=1e-9)
    end = m["M28"].components["location"][0]
    way = [E * open_share(x, 90) for x in np.linspace(0.0, end, 16)]
    assert m["M30"].value == pytest.approx(sum(way) / 16, abs=0.02 * E)
    assert all(m[id].flags == () for id in ("M28", "M29", "M30"))
    assert (m["M28"].counts, m["M30"].counts) == ({"frames": 4}, {"frames": 16})
    assert reward.seen == 4 + 2 * 4 + 2 * 16 and set(reward.texts) == {"two rooms"}


def test_nothing_grew(tmp_path: Path, reward: Brightness) -> None:
    m = rows(pair(tmp_path, FIRST, FIRST, "text: a room"))
    assert m["M29"].value == 0.0  # shown as 50
    assert [(m[id].status, m[id].reason) for id in ("M28", "M30")] == [(Status.INVALID, "no_new_cells")] * 2
    assert reward.seen == 8


@pytest.mark.parametrize("case", ["tags: {a: b}", "text: ' '"])
def test_without_a_text_there_is_nothing_to_rate_against(tmp_path: Path, reward: Brightness, case: str) -> None:
    m = rows(pair(tmp_path, FIRST, BOTH, case))
    assert all(m[id].status is Status.INAPPLICABLE for id in ("M28", "M29", "M30"))
    assert reward.seen == 0


def test_rewards_of_the_case_come_first_each_by_itself(tmp_path: Path, reward: Brightness) -> None:
    np.savez(tmp_path / "r.npz", origin_before=np.zeros(4), origin_after=np.full(4, 2.5))
    m = rows(pair(tmp_path, FIRST, BOTH, "text: two rooms\nevidence: {rewards: r.npz}"))
    assert (m["M29"].value, m["M29"].flags) == (2.5, ("evidence_given",))
    assert m["M28"].value == pytest.approx(E, abs=1e-9) and m["M28"].flags == ()
    assert reward.seen == 4 + 32


class Broken:
    def rate(self, images: Any, text: str = "") -> np.ndarray:
        return np.full(len(images), np.nan)


def test_a_model_that_fails_and_one_that_stands_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lend(monkeypatch, hpsv3=Broken())
    m = rows(pair(tmp_path, FIRST, BOTH, "text: x"))
    for id in ("M28", "M29", "M30"):
        assert m[id].status is Status.UNAVAILABLE and "not finite" in m[id].reason
    monkeypatch.setitem(registry._SPECS, "other", registry.ScorerSpec(
        "other", "Other", "rating", "a test", lambda opening: None, stands_in_for="hpsv3"))
    lend(monkeypatch, other=Brightness())
    m = rows(pair(tmp_path, FIRST, BOTH, "text: x", settings=("scorers.substitutes={hpsv3: other}",)))
    assert all(m[id].flags == ("substitute:other",) for id in ("M28", "M29", "M30"))


def test_recipes_name_the_rater() -> None:
    prepare()
    ids = [f"M{k}" for k in range(26, 31)]
    base = recipes(load_protocol("happyworld-spatial-1"), ids)
    other = recipes(load_protocol("happyworld-spatial-1", ("scorers.detection_score=0.6",)), ids)
    assert {id for id in ids if other[id] != base[id]} == {"M28", "M29", "M30"}
