"""Optional parts: who lacks one is told what to type, and it is the extra that has it."""

import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from hogshare import Ridge, figures, problems, solve
from hogshare.cli import doctor
from hogshare.cli.main import main
from hogshare.io import arrow
from hogshare.runtimes.mpi import door
from hogshare.system import extras

HOME = Path(__file__).parent.parent
PROJECT = tomllib.loads((HOME / "pyproject.toml").read_text("utf-8"))["project"]
ASKED = PROJECT["optional-dependencies"]


class Collection:
    """What looks like one of Dask's."""

    __dask_graph__ = to_delayed = None
    shape = (3, 2)


def by_ranks():
    door.library.cache_clear()  # which has it already, where there is MPI
    solve(problems.linear(np.eye(2), np.array([0, 1])), runtime="mpi")


WITHOUT = {
    "matplotlib": figures.pyplot,
    "mpi4py": by_ranks,
    "torch": lambda: problems.torch(None, None, None),
    "pyarrow": arrow.library,
    "distributed": lambda: Ridge().fit(Collection(), np.zeros(3)),
}


@pytest.fixture
def lacking(monkeypatch):
    """``lacking(library)``: as if it were not installed."""
    yield lambda library: monkeypatch.setitem(sys.modules, library, None)
    door.library.cache_clear()


def test_the_table_is_of_the_extras():
    """Each of them brings what the table says, and there are no others for users."""
    for library, extra in extras.EXTRAS.items():
        brought = [re.match(r"[\w-]+", text).group() for text in ASKED[extra]]
        assert brought[0] == library and set(brought[1:]) <= {"dask"}, "which brings data frames"
    for_developers = {"bench", "docs", "test", "dev"}
    assert set(ASKED) == set(extras.EXTRAS.values()) | {"all"} | for_developers


def test_all_is_every_one_of_them():
    (line,) = ASKED["all"]
    assert line == f"hogshare[{','.join(extras.EXTRAS.values())}]"


def test_the_page_of_what_is_supported_says_the_same():
    """Extras, and the lowest of each library and of Python."""
    page = (HOME / "docs" / "support.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `?([\w-]+)`? \| ([^|]+) \|", page, re.MULTILINE))
    named = {"mpi4py": "mpi4py", "torch": "PyTorch"}
    for library, extra in extras.EXTRAS.items():
        assert named.get(library, library) in rows[extra]
    assert "six above" in rows["all"]
    lowest = {"NumPy": "numpy", "SciPy": "scipy", "Numba": "numba", "scikit-learn": "scikit-learn"}
    for name, asked in lowest.items():
        assert f"{asked}>={rows[name].strip()}" in PROJECT["dependencies"]
    assert PROJECT["requires-python"] == f">={rows['Python'].strip()}"


@pytest.mark.parametrize("library", WITHOUT)
@pytest.mark.parametrize("installed", [True, False])
def test_who_lacks_one_is_told_what_to_type(library, installed, lacking, monkeypatch):
    lacking(library)
    monkeypatch.setattr(extras, "_is_installed", lambda: installed)
    wanted = f"'hogshare[{extras.EXTRAS[library]}]'" if installed else library
    with pytest.raises(ImportError, match=re.escape(f": pip install {wanted}")):
        WITHOUT[library]()


def test_every_optional_library_is_asked_for_here_or_by_the_doctor():
    assert set(WITHOUT) | set(doctor.PURPOSES) == set(extras.EXTRAS)


def test_a_plot_that_cannot_be_drawn_is_refused_before_the_work(lacking, monkeypatch, capsys):
    lacking("matplotlib")
    lacking("matplotlib.pyplot")
    monkeypatch.setattr(extras, "_is_installed", lambda: True)
    assert main(["simulate", "psp", "--figure", "4", "--plot", "figure.png"]) == 1
    told = capsys.readouterr()
    assert "pip install 'hogshare[plot]'" in told.err and not told.out


def test_whether_pip_knows_the_package(monkeypatch):
    def unknown(name):
        raise extras.metadata.PackageNotFoundError(name)

    extras._is_installed.cache_clear()
    monkeypatch.setattr(extras.metadata, "distribution", unknown)
    try:
        assert extras.command_for("mpi4py", "mpich") == "pip install mpi4py mpich"
    finally:
        extras._is_installed.cache_clear()
