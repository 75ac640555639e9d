"""What packages of others are made by says the same as `pyproject.toml`: conda, a container."""

import re
import tomllib
from pathlib import Path

import pytest

from hogshare import __version__
from hogshare.cli import warm

HOME = Path(__file__).parent.parent
FOLDER = HOME / "packaging"
BUILD = tomllib.loads((HOME / "pyproject.toml").read_text("utf-8"))
PROJECT = BUILD["project"]


@pytest.fixture(scope="module")
def recipe():
    """The recipe with its variables in their places."""
    yaml = pytest.importorskip("yaml")
    text = (FOLDER / "recipe.yaml").read_text("utf-8")
    context = {**yaml.safe_load(text)["context"], "PYTHON": "python"}
    return yaml.safe_load(re.sub(r"\$\{\{ (\w+) \}\}", lambda found: context[found[1]], text))


def requirements(names):
    """Each name and its bounds, whatever blanks are between."""
    return {re.sub(r"\s", "", name) for name in names}


def test_the_recipe_makes_this_package(recipe):
    assert recipe["package"] == {"name": PROJECT["name"], "version": __version__}
    assert recipe["about"]["license"] == PROJECT["license"]
    assert [recipe["about"]["license_file"]] == PROJECT["license-files"]
    assert (FOLDER / recipe["source"]["path"]).resolve() == HOME.resolve()
    assert set(recipe) <= {
        *("schema_version", "context", "package", "source", "build", "requirements", "tests"),
        "about",
    }


def test_the_recipe_has_the_requirements_and_the_commands(recipe):
    python = f"python{PROJECT['requires-python']}"
    wanted = requirements([python, *PROJECT["dependencies"]])
    assert requirements(recipe["requirements"]["run"]) == wanted
    lowest = PROJECT["requires-python"].removeprefix(">=")
    host = requirements(recipe["requirements"]["host"])
    assert host == {f"python{lowest}.*", "pip", *requirements(BUILD["build-system"]["requires"])}
    commands = {f"{name} = {where}" for name, where in PROJECT["scripts"].items()}
    assert set(recipe["build"]["python"]["entry_points"]) == commands
    assert recipe["build"]["noarch"] == "python"


def test_the_recipe_tries_what_it_has_made(recipe):
    of_python, of_shell = recipe["tests"]
    lowest = PROJECT["requires-python"].removeprefix(">=")
    assert of_python["python"]["imports"] == [PROJECT["name"]]
    assert of_python["python"]["python_version"] == f"{lowest}.*"
    assert {line.split()[0] for line in of_shell["script"]} == set(PROJECT["scripts"])


@pytest.fixture(scope="module")
def steps():
    """The image's instructions and what each is given."""
    lines = (FOLDER / "Dockerfile").read_text("utf-8").splitlines()
    return [tuple(line.split(" ", 1)) for line in lines if not line.startswith("#")]


def given(steps, name):
    return [rest for word, rest in steps if word == name]


def test_the_image_has_what_a_build_needs(steps):
    assert len(steps) <= 10
    copied = {name for rest in given(steps, "COPY") for name in rest.split()[:-1]}
    needed = {"pyproject.toml", PROJECT["readme"], *PROJECT["license-files"]}
    assert copied == {*needed, *BUILD["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]}
    assert all((HOME / name).exists() for name in copied)
    version = re.fullmatch(r"python:(3\.\d+)-slim", given(steps, "FROM")[0])[1]
    assert f"Programming Language :: Python :: {version}" in PROJECT["classifiers"]


def test_the_image_has_its_kernels_for_any_user(steps):
    """Compiled where the user can read and not write, before root is no longer the user."""
    names = [word for word, _ in steps]
    (warmed,) = (k for k, (_, rest) in enumerate(steps) if rest.startswith("hogshare warm"))
    folder = dict(pair.split("=") for pair in given(steps, "ENV")[0].split())["HOGSHARE_CACHE_DIR"]
    assert f"chmod -R a+rX,go-w {folder}" in steps[warmed][1]
    assert names.index("ENV") < warmed < names.index("USER") < names.index("CMD")
    assert given(steps, "USER")[0].isdigit() and given(steps, "USER")[0] != "0"
    default = re.search(r'WARM="([^"]*)"', given(steps, "ARG")[0])[1]
    estimators, _, flags = default.partition(" --dtype ")
    assert set(estimators.split()) <= set(warm.ESTIMATORS) and flags in warm.DTYPES
