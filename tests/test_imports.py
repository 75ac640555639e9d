"""Imports flow one way, and what is optional is imported in one place."""

import ast
import functools
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "hogshare"

ROOT = PACKAGE.parent

# rooms within a room that stand higher than it
INNER = {"io.models"}
# who may open the laboratory, and only when it is used
DOORS = {
    "cli.main": "commands",
    "report": "Report.predict",
    "simulation": "public names",
    "solvers.asysg": "Report.theory",
    "theory": "public names",
}


def table_of_rooms():
    """Rows of CONTRIBUTING's table, from the ground up; rooms of a row import none of it."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    lines = text.split("| packages |")[1].split("\n\n")[0].splitlines()[2:]
    return [re.findall(r"`([\w./]+)`", line.split("|")[1]) for line in lines]


# what a room may import: rooms of a lower number, and of its own only itself
LEVELS = {
    name.replace("/", "."): level for level, row in enumerate(table_of_rooms()) for name in row
}

KERNELS_MAY = {"numpy", "numba", "llvmlite"} | set(sys.stdlib_module_names)

FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def room(module):
    """The room of hogshare.<room>..., or None for the package itself."""
    parts = module.split(".")[1:]
    inner = ".".join(parts[:2])
    return inner if inner in INNER else next(iter(parts), None)


def module_name(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_module(name):
    base = PACKAGE.parent.joinpath(*name.split("."))
    return base.is_dir() or base.with_suffix(".py").is_file()


def for_types_only(node):
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def imports(tree, package, types=False):
    """Yield (module, is it inside a function) for everything that runs when it is reached.

    types : whether with what only types need
    """

    def walk(node, inside):
        if for_types_only(node) and not types:
            return
        if isinstance(node, ast.Import):
            yield from ((alias.name, inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                stem = package.split(".")
                base = ".".join([*stem[: len(stem) - node.level + 1], *base.split(".")]).rstrip(".")
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield (full if base.startswith("hogshare") and is_module(full) else base), inside
        inside = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            yield from walk(child, inside)

    yield from walk(tree, False)


@functools.cache  # dozens of tests ask of every file
def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def imports_of(path):
    name = module_name(path)
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    return tuple(imports(tree_of(path), package))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_flow_one_way(path):
    here = room(module_name(path))
    assert here in LEVELS, f"{here} is a new room: give it a level here"
    for module, _ in imports_of(path):
        if module.split(".")[0] != "hogshare":
            continue
        there = room(module)
        if there is None:
            assert LEVELS[here] >= LEVELS["cli"], f"{path}: public names are for cli and users"
        elif there == "lab" and is_door(path):
            continue
        elif there != here:
            assert LEVELS[there] < LEVELS[here], f"{path}: {here} imports {there} ({module})"


def is_door(path):
    """Whether a file may open the laboratory."""
    return module_name(path).removeprefix("hogshare.") in DOORS


@pytest.mark.quick
def test_the_laboratory_is_opened_by_its_doors_when_they_are_used():
    opened = {}
    for path in FILES:
        for module, inside in imports_of(path):
            if room(module) == "lab" and room(module_name(path)) != "lab":
                opened.setdefault(module_name(path).removeprefix("hogshare."), set()).add(inside)
    # the names of `simulation` are loaded by their places
    assert opened == {name: {name != "theory"} for name in DOORS if name != "simulation"}


def test_estimators_and_solve_need_no_file_of_the_laboratory():
    code = (
        "import sys, numpy as np; from hogshare import SGDClassifier, Ridge, problems, solve;"
        "X = np.eye(4); y = np.arange(4) % 2;"
        "SGDClassifier(max_iter=1, tol=None).fit(X, y); Ridge().fit(X, y);"
        "solve(problems.linear(X, y), stop=1);"
        "print(*[m for m in sys.modules if m.startswith('hogshare')])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert "hogshare.solvers.solver" in loaded
    assert not [name for name in loaded if room(name) in ("lab", "theory", "cli")]


def test_numpys_warnings_are_changed_in_one_way():
    """In one that an interrupt cannot leave half done; the rivals' races end with the process."""
    may = {f"lab/rivals/{name}.py" for name in ("race", "lanes", "linear/optimum")}
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in FILES
        if "np.errstate(" in path.read_text(encoding="utf-8")
    }
    assert found - may == {"system/interrupts.py", "kernels/rows/survey.py"}


def nodes_within(node, held=False):
    """What is under a node of a syntax tree, and whether signals are held there."""
    if isinstance(node, ast.With):
        names = {getattr(getattr(one.context_expr, "func", None), "id", "") for one in node.items}
        held = held or bool(names & {"DeferredSignals", "errstate"})
    for child in ast.iter_child_nodes(node):
        yield child, held
        yield from nodes_within(child, held)


def test_numpys_linear_algebra_which_changes_its_warnings_is_called_where_signals_are_held():
    """All of it but the norms, which are sums and change none."""
    found, held = [], 0
    for path in FILES:
        for node, is_at_barrier in nodes_within(tree_of(path)):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if called.startswith("np.linalg.") and called != "np.linalg.norm":
                held += is_at_barrier
                if not is_at_barrier:
                    found.append(f"{path.relative_to(PACKAGE)}:{node.lineno} {called}")
    assert not found and held >= 3


def test_every_room_is_there():
    assert set(LEVELS) == {room(module_name(path)) for path in FILES}


@pytest.mark.parametrize("path", sorted((PACKAGE / "kernels").rglob("*.py")), ids=lambda p: p.name)
def test_kernels_know_numpy_and_numba_only(path):
    """And that signals wait, where machine code is loaded and kept."""
    ours = ("hogshare.kernels", *["hogshare.system"] * (path.stem in ("decorators", "cache")))
    for module, _ in imports_of(path):
        top = module.split(".")[0]
        assert top in KERNELS_MAY or module.startswith(ours), f"{path}: {module}"


@pytest.mark.parametrize(
    "path", sorted((PACKAGE / "planes").glob("[!_]*.py")), ids=lambda p: p.name
)
def test_planes_do_not_import_each_other(path):
    """But what every plane is."""
    for module, _ in imports_of(path):
        others = module.startswith("hogshare.planes.") and module != "hogshare.planes.protocol"
        assert not others, f"{path}: {module}"


@pytest.mark.parametrize(
    "library",
    [
        *("matplotlib", "rich", "mpi4py", "torch", "snapml", "liblinear", "tick", "vowpalwabbit"),
        *("dask", "distributed"),
        *("cornac", "gensim", "libmf", "surprise"),
    ],
)
def test_optional_libraries_have_one_door(library):
    doors = set()
    for path in FILES:
        for module, inside in imports_of(path):
            if module.split(".")[0] == library:
                doors.add(path.name)
                assert inside, f"{path} imports {library} before it is needed"
    assert len(doors) <= 1, f"{library} is imported in {sorted(doors)}"


def declared(requirements):
    """Names of modules that requirements bring."""
    names = {re.match(r"[\w.-]+", text).group() for text in requirements}
    return {"sklearn" if name == "scikit-learn" else name for name in names}


def test_what_is_imported_is_declared():
    """Not left to what happens to come with something else."""
    pyproject = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))
    needed = declared(pyproject["project"]["dependencies"])
    extras = pyproject["project"]["optional-dependencies"].values()
    # these are compiled where they are installed, so no extra asks for them
    optional = declared(text for extra in extras for text in extra)
    optional |= {"liblinear", "libmf", "surprise"}
    for path in FILES:
        for module, inside in imports_of(path):
            top = module.split(".")[0]
            if top == "hogshare" or top in sys.stdlib_module_names:
                continue
            assert top in (needed | optional if inside else needed), f"{path} imports {top}"


def test_what_to_install_is_said_in_one_place():
    said = [path.name for path in FILES if "pip install" in path.read_text("utf-8")]
    assert said == ["extras.py"]


def test_a_relative_import_is_understood():
    tree = ast.parse("from ..kernels.rules import losses\nfrom . import loop\n")
    assert [module for module, _ in imports(tree, "hogshare.engine")] == [
        "hogshare.kernels.rules.losses",
        "hogshare.engine.loop" if is_module("hogshare.engine.loop") else "hogshare.engine",
    ]


def test_what_only_types_need_is_left_out():
    tree = ast.parse("if TYPE_CHECKING:\n    import torch\ndef f():\n    import rich\n")
    assert list(imports(tree, "hogshare.cli")) == [("rich", True)]
    assert list(imports(tree, "hogshare.cli", types=True)) == [("torch", False), ("rich", True)]


def test_a_fit_imports_nothing_that_it_does_not_use():
    """A first result waits for its imports."""
    code = (
        "import sys; from hogshare import SGDClassifier, solve;"
        "print(*[m for m in sys.modules if m.startswith('hogshare')])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert "hogshare.solvers.solver" in loaded
    for name in ("solvers.asysg", "engine.event_log", "kernels.schedule.replay"):
        assert f"hogshare.{name}" not in loaded


def test_every_public_name_is_an_attribute():
    code = "import hogshare as h; print(h.datasets); print(*[getattr(h, n) for n in h.__all__])"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
