"""What keeps the house open: who may ask what something is, and how large its pieces are."""

import ast
from collections import Counter

import pytest
from test_imports import FILES, PACKAGE, imports, module_name, tree_of

# whose members nobody outside asks for: what a choice needs of them, they declare
ROOMS = {
    "rules": {"Rule", "SGD", "SDCA", "SAGA"},
    "planes": {"Plane", "Master", "Shared", "Replicas", "Mirrors"},
    "problems": {
        "LinearProblem",
        "GradientProblem",
        "UserProblem",
        "ModuleProblem",
        "FactorisationProblem",
    },
}
# the table of words tells a thing, or the class of one, from a word
MAY_ASK = {"solvers/choice_names.py": Counter(Rule=2, Plane=2)}

MOST_PARAMETERS = 10
# what follows scikit-learn, or a paper's algorithm, has as many as they have; so has what names
# each of a run's choices
MANY_PARAMETERS = {
    "problems/factorisation.py": {"factorisation"},
    "problems/preferences.py": {"preferences"},
    "problems/linear/problem.py": {"linear", "build"},
    "lab/psp/progress.py": {"progress"},
    "lab/psp/tuner.py": {"tune"},
    "problems/topics.py": {"topics"},
    "solvers/replica_graph.py": {"stochastic_reduce"},
    "solvers/solver.py": {"solve"},
}
# kernels take arrays and numbers one by one: a tuple of them costs a count or a copy at each call,
# and one body, since what is called within a loop is compiled with it
KERNELS = "kernels/"

MOST_LINES = 90

MOST_NAMING = 20


def texts():
    for path in FILES:
        yield path.relative_to(PACKAGE).as_posix(), path.read_text(encoding="utf-8")


def parsed():
    for path in FILES:
        yield path.relative_to(PACKAGE).as_posix(), tree_of(path)


def asked_for(tree):
    """Names of classes that a file's isinstance and issubclass, and its patterns, ask for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in (
            "isinstance",
            "issubclass",
        ):
            kinds = node.args[1]
        elif isinstance(node, ast.MatchClass):
            kinds = node.cls
        elif isinstance(node, ast.Compare) and any(
            isinstance(op, ast.Is | ast.IsNot | ast.Eq | ast.NotEq) for op in node.ops
        ):
            sides = [node.left, *node.comparators]
            if not any(ast.unparse(side).startswith("type(") for side in sides):
                continue
            kinds = ast.Tuple(elts=sides)
        else:
            continue
        for part in ast.walk(kinds):
            if isinstance(part, ast.Name | ast.Attribute):
                yield getattr(part, "id", getattr(part, "attr", ""))


def asked_outside(place, tree):
    """Which members of other rooms a file asks for, and how often."""
    here = place.split("/")[0]
    closed = set().union(*(kinds for room, kinds in ROOMS.items() if room != here))
    return Counter(name for name in asked_for(tree) if name in closed)


@pytest.mark.quick
def test_nobody_asks_which_rule_plane_or_problem_it_is():
    for place, tree in parsed():
        found = asked_outside(place, tree) - MAY_ASK.get(place, Counter())
        assert not found, f"{place}: {dict(found)}; have it declare what is needed of it"


def test_who_asks_is_noticed():
    text = (
        "if isinstance(rule, SAGA | SDCA) or issubclass(a, (rules.Rule, int)): pass\n"
        "if type(plane) is Master or plane is None: pass\n"
        "match problem:\n    case LinearProblem(): pass\n"
    )
    expected = Counter(SAGA=1, SDCA=1, Rule=1, Master=1, LinearProblem=1)
    assert asked_outside("engine/linear_description.py", ast.parse(text)) == expected
    assert asked_outside("rules/pace.py", ast.parse(text)) == Counter(Master=1, LinearProblem=1)


def test_few_files_name_the_linear_problem():
    """Others ask for what they need of a problem (`problems/protocol.py`)."""
    naming = {place for place, text in texts() if "LinearProblem" in text}
    assert len(naming) <= MOST_NAMING, sorted(naming)


def test_estimators_get_at_linear_problems_by_one_door():
    """They have `build` make one, and know it as a problem with rows."""
    found = set()
    for place, tree in parsed():
        for node in ast.walk(tree) if place.startswith("estimators/") else ():
            if isinstance(node, ast.ImportFrom) and node.module == "hogshare.problems.linear":
                found |= {alias.name for alias in node.names}
    assert found == {"build"}


def graph():
    """Who imports whom, for types too and inside of functions."""
    found = {}
    for path in FILES:
        name = module_name(path)
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        tree = tree_of(path)
        found[name] = {module for module, _ in imports(tree, package, types=True)} - {name}
    return {name: there & set(found) for name, there in found.items()}


def circle(edges):
    """A way along edges that comes back to where it began; empty if there is none."""
    done, way = set(), []

    def follow(name):
        if name in way:
            return [*way[way.index(name) :], name]
        if name in done:
            return []
        way.append(name)
        for there in sorted(edges[name]):
            if found := follow(there):
                return found
        way.pop()
        done.add(name)
        return []

    return next((found for name in sorted(edges) if (found := follow(name))), [])


@pytest.mark.quick
def test_imports_make_no_circle():
    """Those for types count: who needs another's type knows the other."""
    assert not (found := circle(graph())), " -> ".join(found)


def test_a_circle_is_found():
    assert circle({"a": {"b"}, "b": {"c", "d"}, "c": set(), "d": {"b"}}) == ["b", "d", "b"]
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def functions():
    """Place, name and node of every function and method."""
    for place, tree in parsed():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield place, node


def n_parameters(node):
    given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return len(given) - (bool(given) and given[0].arg in ("self", "cls"))


def n_lines(node):
    """Lines of a body, its docstring left out."""
    body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


@pytest.mark.quick
def test_functions_take_few_parameters():
    """Constructors of scikit-learn's estimators apart, which have scikit-learn's."""
    many = {}
    for place, node in functions():
        of_sklearn = place.startswith("estimators/") and node.name == "__init__"
        if n_parameters(node) > MOST_PARAMETERS and not (of_sklearn or place.startswith(KERNELS)):
            many.setdefault(place, set()).add(node.name)
    assert many == MANY_PARAMETERS


@pytest.mark.quick
def test_functions_are_short():
    long = {
        f"{place}: {node.name}": n_lines(node)
        for place, node in functions()
        if not place.startswith(KERNELS) and n_lines(node) > MOST_LINES
    }
    assert not long


@pytest.mark.parametrize(
    ("text", "parameters", "lines"),
    [
        ("def f(self, a, /, b, *c, d=1, **e):\n    '''Say.'''\n\n    x = 1\n    return x", 3, 2),
        ("def f():\n    '''Say.'''", 0, 0),
        ("def f(a):\n    return (\n        a\n    )", 1, 3),
    ],
)
def test_how_large_a_function_is(text, parameters, lines):
    (node,) = ast.parse(text).body
    assert (n_parameters(node), n_lines(node)) == (parameters, lines)
