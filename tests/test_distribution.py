"""What is handed out: wheel and source archive are whole, and run where there is nothing but them.

Both are built of a copy. That they install and fit in an empty environment of every Python here
takes minutes and an index, and runs with --long.
"""

import email
import functools
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from hogshare import __version__

HOME = Path(__file__).parent.parent
PROJECT = tomllib.loads((HOME / "pyproject.toml").read_text("utf-8"))["project"]
BUILDS = all(map(importlib.util.find_spec, ("build", "hatchling")))
PYTHONS = re.findall(r":: (3\.\d+)\b", " ".join(PROJECT["classifiers"]))
NEXT = "3.14"  # is not tried yet, but what is needed has wheels for it
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux2014_x86_64")

FIT = """
from sklearn.datasets import load_breast_cancer
from hogshare import SGDClassifier, __version__
model = SGDClassifier(loss="log_loss", learning_rate="auto", n_jobs=2)
print(__version__, model.fit(*load_breast_cancer(return_X_y=True)).coef_.shape)
"""

needs_build = pytest.mark.skipif(not BUILDS, reason="build is not there: pip install '.[dev]'")


def ran(*command, **settings):
    """What a command has printed; it has to succeed."""
    words = [str(one) for one in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, **settings)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout


def alone():
    """The environment without this checkout, in which Python finds only what is installed."""
    return {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The source archive, and the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("distribution")
    made = ("__pycache__", ".*", "build", "dist", "api", "*.npz")
    copy = shutil.copytree(HOME, folder / "sources", ignore=shutil.ignore_patterns(*made))
    ran(sys.executable, "-m", "build", "-q", "--no-isolation", "-o", folder / "dist", copy)
    return folder / "dist"


def names_in(path):
    if path.suffix == ".whl":
        return set(zipfile.ZipFile(path).namelist())
    with tarfile.open(path) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


def archives(built):
    name = f"hogshare-{__version__}"
    return built / f"{name}-py3-none-any.whl", built / f"{name}.tar.gz"


@needs_build
def test_the_wheel_has_all_of_the_package_and_nothing_else(built):
    wheel, _ = archives(built)
    ours = {
        path.relative_to(HOME).as_posix()
        for path in (HOME / "hogshare").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    about = f"hogshare-{__version__}.dist-info/"
    assert "hogshare/py.typed" in ours
    assert {name for name in names_in(wheel) if not name.startswith(about)} == ours
    assert about + "licenses/LICENSE" in names_in(wheel)


@needs_build
def test_the_archive_has_what_its_tests_and_pages_need(built):
    _, archive = archives(built)
    found = names_in(archive)
    assert found >= {"LICENSE", "CITATION.cff", "pyproject.toml", "hogshare/py.typed"}
    assert found >= {"packaging/recipe.yaml", "packaging/Dockerfile"}
    assert found >= {path.name for path in HOME.glob("*.md")}
    for folder in ("tests", "docs", "examples", "bench"):
        ours = {path.relative_to(HOME).as_posix() for path in (HOME / folder).rglob("*.py")}
        assert ours <= found


@needs_build
def test_what_the_wheel_says_of_itself(built):
    wheel, _ = archives(built)
    with zipfile.ZipFile(wheel) as files:
        about = f"hogshare-{__version__}.dist-info"
        told = email.message_from_bytes(files.read(f"{about}/METADATA"))
        commands = files.read(f"{about}/entry_points.txt").decode()
    assert told["Version"] == __version__
    assert told["License-Expression"] == "BSD-3-Clause" and told["License-File"] == "LICENSE"
    assert set(told.get_all("Provides-Extra")) == set(PROJECT["optional-dependencies"])
    assert "hogshare = hogshare.cli.main:main" in commands


@needs_build
def test_what_is_handed_out_is_shown_as_it_should(built):
    pytest.importorskip("twine")
    ran(sys.executable, "-m", "twine", "check", "--strict", *archives(built))


@needs_build
@pytest.mark.parametrize("kind", [0, 1], ids=["wheel", "archive"])
def test_it_runs_from_where_it_is_installed(kind, built, tmp_path):
    """Beside the libraries of this environment."""
    there = tmp_path / "there"
    without = ("--no-deps", "--no-build-isolation", "--no-index", "--no-compile", "-q")
    ran(sys.executable, "-m", "pip", "install", *without, "-t", there, archives(built)[kind])
    env = {**alone(), "PYTHONPATH": str(there)}
    told = ran(sys.executable, "-c", "import hogshare as h; print(h.__file__)", env=env, cwd=there)
    assert Path(told.strip()) == there / "hogshare" / "__init__.py"
    told = ran(sys.executable, "-m", "hogshare", "--version", env=env, cwd=there)
    assert told.split() == ["hogshare", __version__]


def test_the_version_is_in_one_place_and_the_citation():
    assert "version" not in PROJECT and PROJECT["dynamic"] == ["version"]
    said = re.search(r"^version: (\S+)$", (HOME / "CITATION.cff").read_text("utf-8"), re.MULTILINE)
    assert said.group(1) == __version__


# -- in empty environments


@functools.cache
def python(version):
    """The interpreter of a version on this machine, or None."""
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [shutil.which(f"python{version}"), *kept.glob(f"{version}.*/bin/python")]
    for one in filter(None, found):
        ask = "import sys, venv, ensurepip; print(*sys.version_info[:2], sep='.')"
        told = subprocess.run([one, "-c", ask], capture_output=True, text=True, check=False)
        if told.stdout.strip() == version:
            return str(one)
    return None


@needs_build
@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("version", PYTHONS)
def test_it_fits_where_there_is_nothing_else(version, built, tmp_path):
    if python(version) is None:
        pytest.skip(f"there is no Python {version} with venv here")
    ran(python(version), "-m", "venv", tmp_path / "bare")
    alone_here = tmp_path / "bare" / "bin" / "python"
    # what the wheel has brought serves the archive, too
    for path, more in zip(archives(built), ([], ["--force-reinstall", "--no-deps"]), strict=True):
        ran(alone_here, "-m", "pip", "install", "-q", *more, path, env=alone())
        told = ran(alone_here, "-W", "error", "-c", FIT, env=alone(), cwd=tmp_path)
        assert told.split() == [__version__, "(1,", "30)"]
        ran(alone_here, "-m", "hogshare", "doctor", env=alone(), cwd=tmp_path)


@needs_build
@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", [*PYTHONS, NEXT])
def test_what_it_needs_comes_as_wheels(version, built, tmp_path):
    """Also for a Python that is not here; asks an index."""
    ask = ["install", "--dry-run", "--ignore-installed", "--only-binary=:all:", "-q"]
    ask += [f"--python-version={version}", "-t", tmp_path]
    ask += [f"--platform={one}" for one in PLATFORMS]
    ran(sys.executable, "-m", "pip", *ask, archives(built)[0], env=alone())
