"""Protocols and cases: constants of the spec, overrides, and errors that name the key and its neighbour."""

import math
import re

import pytest
import yaml

from spatialbench.configs import config_names, config_path
from spatialbench.errors import ConfigError, MissingInputError, UsageError
from spatialbench.types import Protocol, load_case, load_protocol, protocol_hash
from spatialbench.types.case import parse_axis

NAME = "happyworld-spatial-1"


def test_all_packaged_protocols_load():
    for name in config_names("protocols"):
        p = load_protocol(name)
        assert p.id == name
        assert p.fast is name.endswith("-fast")


def test_constants_of_the_spec():
    p = load_protocol(NAME)
    assert p.metrics == tuple(sorted([*(f"M{k:02d}" for k in range(1, 40)), "M08c"]))
    assert (p.views.ring_frames, p.views.probe_size) == (36, 256)
    # Path: 16 s at 4 samples a second with t = 0.
    assert sum(s.seconds for s in p.path.segments) * p.path.samples_per_second + 1 == 65
    n = p.navmesh
    assert (n.agent_radius, n.agent_height, n.agent_max_climb, n.agent_max_slope) == (0.1, 1.5, 0.2, 45)
    assert (n.cell_sizes, n.cell_height) == ((0.05, 0.1, 0.2), 0.2)
    assert p.sampler.radius_factors == (1.5, 1.0, 0.6, 0.3)
    assert len(p.sampler.radius_factors) * p.sampler.quota == 8


def test_the_plate_of_the_spec():
    s = load_protocol(NAME).placement
    volume = math.pi * (s.plate_diameter / 2) ** 2 * s.plate_thickness
    assert volume == pytest.approx(7.60265e-4, rel=1e-6)
    assert volume * s.plate_density == pytest.approx(1.36848, rel=1e-5)
    assert s.steps / s.steps_per_second == 5


def test_the_footprint_budget_of_the_spec():
    f = load_protocol(NAME).footprint
    assert f.samples_per_cell * 100 / f.cell**2 == pytest.approx(640_000, rel=1e-12)
    assert f.max_samples * f.cell**2 / f.samples_per_cell == pytest.approx(3125)  # m2 at which the cap is reached


def test_an_override_changes_the_value_and_the_hash():
    base, same = load_protocol(NAME), load_protocol(NAME, ("views.ring_frames=36",))
    other = load_protocol(NAME, ("views.ring_frames=18", "navmesh.cell_sizes=[0.1]"))
    assert (other.views.ring_frames, other.navmesh.cell_sizes) == (18, (0.1,))
    assert protocol_hash(base) == protocol_hash(same) != protocol_hash(other)
    assert re.fullmatch("[0-9a-f]{64}", protocol_hash(base))


@pytest.mark.parametrize(("override", "message"), [
    ("views.ring_frame=18", "unknown key 'views.ring_frame'.*Did you mean 'ring_frames'"),
    ("vews.ring_frames=18", "unknown key 'vews'.*Did you mean 'views'"),
    ("views.lens.fov=75", "unknown key 'views.lens.fov'.*Did you mean 'fov_deg'"),
    ("views.quite_other=1", "unknown key 'views.quite_other'.*Known keys: background, lens"),
    ("views.ring_frames=none", "views.ring_frames"),
    ("views.ring_frames=0", "views.ring_frames"),
    ("views.ring_frames.x=0", "is a value and has no keys below"),
    ("navmesh.profile=habitat-9", "navmesh.profile"),
])
def test_wrong_overrides(override, message):
    with pytest.raises(ConfigError, match=message):
        load_protocol(NAME, (override,))


@pytest.mark.parametrize("override", ["views.ring_frames", "=3", ""])
def test_overrides_without_a_value(override):
    with pytest.raises(UsageError, match=r"path\.to\.key=value"):
        load_protocol(NAME, (override,))


def test_an_unknown_protocol_lists_the_known():
    with pytest.raises(UsageError, match=NAME):
        load_protocol("happyworld-spatial-9")


def test_a_file_that_extends(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(f"extends: {NAME}\nid: mine\nviews:\n  lens: {{width: 64, height: 64}}\n")
    p = load_protocol(str(path))
    assert (p.id, p.views.lens.width, p.views.lens.fov_deg, p.views.ring_frames) == ("mine", 64, 75.0, 36)
    path.write_text(f"extends: {path}\n")
    with pytest.raises(ConfigError, match="extends itself"):
        load_protocol(str(path))


def test_the_protocol_as_yaml_gives_itself_back(tmp_path):
    p = load_protocol(NAME)
    path = tmp_path / "p.yaml"
    path.write_text(yaml.safe_dump(p.model_dump(mode="json")))
    assert protocol_hash(load_protocol(str(path))) == protocol_hash(p)


def test_the_normalisation_a_protocol_names_exists():
    for name in config_names("protocols"):
        assert config_path("normalization", load_protocol(name).normalization).is_file()
    assert Protocol.model_fields["normalization"].default in config_names("normalization")


def write(tmp_path, text):
    path = tmp_path / "case.yaml"
    path.write_text(text)
    return path


def test_a_full_case(tmp_path):
    c = load_case(write(tmp_path, """
kind: snapshot
id: kitchen.01
text: a kitchen
image: input.png
categories: [sink, table]
objects: [{id: o1, text: a red kettle}]
support: {label: counter, polygon: [[0, 0, 1], [1, 0, 1], [1, 1, 1]]}
camera: {position: [0, 0, 0], look_at: [0, 1, 0]}
up: -Y
unit_m: 0.01
"""))
    assert (c.id, c.categories, c.objects[0].text) == ("kitchen.01", ("sink", "table"), "a red kettle")
    assert (c.support.polygon[2], c.camera.look_at, c.up, c.unit_m) == ((1, 1, 1), (0, 1, 0), "-Y", 0.01)


def test_an_id_is_enough(tmp_path):
    c = load_case(write(tmp_path, "id: a"))
    assert (c.kind, c.text, c.support, c.camera, c.objects) == ("snapshot", None, None, None, ())


@pytest.mark.parametrize(("text", "message"), [
    ("id: a\nobject: []", "unknown key 'object'.*Did you mean 'objects'"),
    ("id: a\ncamera: {position: [0, 0, 0], lookat: [0, 1, 0]}", "unknown key 'camera.lookat'.*'look_at'"),
    ("id: a\nsupport: {lable: x, polygon: [[0, 0, 1], [1, 0, 1], [1, 1, 1]]}", "'support.lable'.*'label'"),
    ("id: a\nobjects: [{id: b, txt: c}]", "unknown key 'objects.0.txt'.*'text'"),
    ("id: a\ncamera: {position: [0, 0, 0]}", "camera.*either 'forward' or 'look_at'"),
    ("id: a\ncamera: {position: [0, 0, 0], forward: [0, 1, 0], look_at: [0, 1, 0]}", "either 'forward' or 'look_at'"),
    ("id: a\nsupport: {polygon: [[0, 0, 1], [1, 0, 1]]}", "at least three corners"),
    ("id: a\nsupport: {label: x}", "either 'polygon' or 'image_polygon'"),
    ("id: a\ncamera: {position: [0, 0], forward: [0, 1, 0]}", "camera.position"),
    ("idd: a", "unknown key 'idd'.*Did you mean 'id'"),
    ("id: a/b", "key 'id'"),
    ("id: a\nunit_m: 0", "unit_m.*greater than 0"),
    ("text: no id", "key 'id'"),
    ("id: [a", "line 1"),
    ("- id", "must hold keys and values"),
])
def test_broken_cases(tmp_path, text, message):
    path = write(tmp_path, text)
    with pytest.raises(ConfigError, match=f"(?s){message}") as e:
        load_case(path)
    assert "case.yaml" in e.value.where


def test_cases_that_are_no_text(tmp_path):
    with pytest.raises(MissingInputError, match="no such file"):
        load_case(tmp_path / "none.yaml")
    path = tmp_path / "case.yaml"
    path.write_bytes(b"id: a\xff")
    with pytest.raises(ConfigError, match="UTF-8"):
        load_case(path)
    path.write_bytes(b"#" * ((4 << 20) + 1))
    with pytest.raises(ConfigError, match="4 MiB"):
        load_case(path)


@pytest.mark.parametrize(("text", "axis"), [("x", (1, 0, 0)), ("+Y", (0, 1, 0)), (" -z ", (0, 0, -1))])
def test_axes(text, axis):
    assert parse_axis(text) == axis


@pytest.mark.parametrize("text", ["", "w", "-", "xy", "y-"])
def test_what_is_no_axis(text):
    with pytest.raises(ValueError, match="not an axis"):
        parse_axis(text)
