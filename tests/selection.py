"""What of all tests runs: which of them are the laboratory's, and which combinations stand for all.

Three markers leave the choice to a run of pytest (CONTRIBUTING has the commands):

- ``quick``: one test of each contract, by hand; of its parameters some values.
- ``long``: left out, but with ``--long``. By hand, or by ``sample(n)``: of the combinations of a
  test's parameters so many run that any values of `n` parameters meet in one; others are long.
- ``lab``: a test of the laboratory, which names something of `hogshare.lab`, or calls a command of
  it; itself, or by a function, a class or a fixture of its file. Nobody marks them.

``--change product`` takes the laboratory's tests with one combination for each value of each
parameter; ``--change lab`` takes those of the laboratory, the quick ones, and those of what opens
the laboratory or reads all files: the command's, and those that import no room.
"""

import ast
import functools
import inspect
import itertools
import re
import types

import pytest
from changes import ROOM

LAB = re.compile(r"hogshare\.(lab|theory)\b")
PUBLIC = re.compile(r"^ *from hogshare import ", re.MULTILINE)
COMMANDS = {"bench", "simulate", "reproduce"}
QUICK = 12  # combinations of a quick test, at most


def chosen(items, change, long):
    """The tests that run, of those that were collected, which get their markers."""
    for alike in by_function(items):
        sizes = [one.args[0] for one in alike[0].iter_markers("sample")]
        if is_of_laboratory(alike[0]):
            for item in alike:
                item.add_marker("lab")
            sizes += [1] if change == "product" else []
        stand = covering(alike, min(sizes)) if sizes else alike
        for item in set(alike) - set(stand):
            item.add_marker("long")
        if alike[0].get_closest_marker("quick"):
            for item in set(alike) - set(covering(stand, 1)[:QUICK]):
                item.own_markers = [mark for mark in item.own_markers if mark.name != "quick"]
    return [item for item in items if is_chosen(item, change, long)]


def is_chosen(item, change, long):
    """Whether a test runs, by its markers."""
    if not long and item.get_closest_marker("long"):
        return False
    if change != "lab" or item.get_closest_marker("lab") or item.get_closest_marker("quick"):
        return True
    return is_near_laboratory(item.path)


def long_but(few, values):
    """Values of a parameter, long but for some: the first so many, or those that are not named."""
    values = list(values)
    short = values[:few] if isinstance(few, int) else [one for one in values if one not in few]
    return [one if one in short else pytest.param(one, marks=pytest.mark.long) for one in values]


def by_function(items):
    """Tests, those of one function together."""
    found = {}
    for item in items:
        found.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return found.values()


def covering(items, size):
    """Some of a function's combinations: any values of `size` parameters that meet do so in one.

    The next one is always that which has most new sets of values; the first of those, where several
    have as many. So the choice is the same in every process, and a new value changes little.
    """
    epoch_barriers = [set(itertools.combinations(values_of(item), size)) for item in items]
    wanted, stand = set().union(*epoch_barriers), []
    if not wanted:  # fewer parameters than that
        return items
    while wanted:
        best = max(range(len(items)), key=lambda k: len(epoch_barriers[k] & wanted))
        stand.append(items[best])
        wanted -= epoch_barriers[best]
    return stand


def values_of(item):
    """A combination's values: those of parameters that are given together are one."""
    params, together = getattr(getattr(item, "callspec", None), "params", {}), {}
    for name, value in sorted(params.items()):  # the same objects in all of a test's combinations
        together.setdefault(of_mark(item, name), []).append(id(value))
    return sorted((names, tuple(values)) for names, values in together.items())


def of_mark(item, name):
    """The names that a parameter is given together with."""
    for mark in item.iter_markers("parametrize"):
        names = mark.args[0] if mark.args else mark.kwargs["argnames"]
        names = re.findall(r"\w+", names) if isinstance(names, str) else list(names)
        if name in names:
            return ",".join(names)
    return name


# -- the laboratory


def is_of_laboratory(item):
    """Whether a test is one of the laboratory, see above."""
    module = getattr(item, "module", None)
    if module is None:
        return False
    fixtures = item._fixtureinfo.name2fixturedefs
    functions = [item.function, *(found[-1].func for found in fixtures.values())]
    return any(uses_laboratory(inspect.unwrap(one), module) for one in functions)


def uses_laboratory(function, module, seen=None):
    """Whether a function of a test's file has to do with the laboratory."""
    seen = set() if seen is None else seen
    if getattr(function, "__module__", "") != module.__name__ or function in seen:
        return False
    seen.add(function)
    names, constants = names_in(function.__code__)
    if COMMANDS & constants or names_of_laboratory(module.__file__) & names:
        return True
    used = [vars(module)[name] for name in names if name in vars(module)]
    for one in used:
        if isinstance(one, type) and any(LAB.match(kind.__module__) for kind in one.__mro__):
            return True
        if isinstance(one, types.FunctionType) and uses_laboratory(one, module, seen):
            return True
    return False


@functools.cache
def names_of_laboratory(path):
    """What a file calls things of the laboratory that it imports."""
    found = set()
    for node in ast.walk(ast.parse(source(path))):
        if isinstance(node, ast.ImportFrom):
            whole = {f"{node.module}.{one.name}": one.asname or one.name for one in node.names}
            found |= {name for place, name in whole.items() if LAB.match(place)}
    return found


def names_in(code):
    """Names and strings in a function, those of functions within it too."""
    names, constants = set(code.co_names), set()
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            more = names_in(one)
            names |= more[0]
            constants |= more[1]
        elif isinstance(one, tuple):
            constants |= {each for each in one if isinstance(each, str)}
        elif isinstance(one, str):
            constants.add(one)
    return names, constants


@functools.cache
def is_near_laboratory(path):
    """Whether a file tests the command, or imports no room: then it reads all of the package."""
    text = source(path)
    return "hogshare.cli" in text or not (ROOM.search(text) or PUBLIC.search(text))


@functools.cache
def source(path):
    with open(path, encoding="utf-8") as file:
        return file.read()
