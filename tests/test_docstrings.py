"""The examples in the docstrings of public names run, each by itself, and give what they say."""

import doctest
import inspect
import re
import subprocess
import sys

import pytest

import hogshare
from hogshare import datasets, links, metrics, problems, simulation, theory, topology

NO_EXAMPLE = {"__version__", "problems"}


def public():
    """Yield the dotted name of every public thing, and the thing."""
    for name in hogshare.__all__:
        yield f"hogshare.{name}", getattr(hogshare, name)
    for module in (datasets, links, metrics, problems, simulation, theory, topology):
        yield module.__name__, module
        for name in module.__all__:
            yield f"{module.__name__}.{name}", getattr(module, name)


def documented(thing):
    """Yield the thing itself or, for a class, all classes of ours that it takes methods from."""
    if inspect.isclass(thing):
        yield from (base for base in thing.__mro__ if base.__module__.startswith("hogshare"))
    elif inspect.isfunction(thing):
        yield thing


def doctests():
    """Every docstring that has an example, once, under its public name."""
    finder = doctest.DocTestFinder()
    found = {}
    for name, thing in public():
        if inspect.ismodule(thing):
            test = doctest.DocTestParser().get_doctest(thing.__doc__, {}, name, thing.__file__, 0)
            found[thing.__doc__] = test
    # a class's own before what another has taken from it, under whose name it would go
    parts = [(name, part) for name, thing in public() for part in documented(thing)]
    for name, part in sorted(parts, key=lambda one: one[0].split(".")[-1] != one[1].__name__):
        # no names of the module: an example imports what it uses
        for test in finder.find(part, name, module=sys.modules[part.__module__], globs={}):
            found.setdefault(test.docstring, test)
    return [test for test in found.values() if test.examples]


TESTS = doctests()


@pytest.mark.usefixtures("few_rows_are_left")
@pytest.mark.timeout(300)  # kernels may have to be compiled
@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.name)
def test_example_runs(test):
    if "import torch" in test.docstring:
        pytest.importorskip("torch")
    printed = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    result = runner.run(test, out=printed.append)
    assert not result.failed, "".join(printed)
    assert result.attempted > getattr(result, "skipped", 0)


@pytest.mark.parametrize("name", sorted(set(hogshare.__all__) - NO_EXAMPLE))
def test_public_name_has_an_example(name):
    assert f"hogshare.{name}" in {test.name for test in TESTS}


def described(thing):
    """Parameters, in the order of its docstring, that a thing's docstring has an entry of."""
    text = inspect.getdoc(thing).partition("\nParameters\n---")[2]
    text = re.split(r"\n\w[\w ]*\n-+\n", text)[0]
    entries = re.findall(r"^([\w*][\w*, ]*)(?: : |$)", text, re.MULTILINE)
    return [name.strip("*") for names in entries for name in names.split(", ")]


def is_estimator_or_function(name):
    thing = getattr(hogshare, name)
    return hasattr(thing, "get_params") or inspect.isfunction(thing)


@pytest.mark.parametrize("name", sorted(filter(is_estimator_or_function, hogshare.__all__)))
def test_every_parameter_is_described_where_its_signature_has_it(name):
    """Also those whose text is that of what a class or an algorithm is made of."""
    thing = getattr(hogshare, name)
    found = described(thing)
    assert sorted(found) == sorted(inspect.signature(thing).parameters)
    if hasattr(thing, "get_params") and name != "TableEncoder":  # which is no run
        documented = inspect.getdoc(thing)
        assert re.search(r"^report_ : ", documented, re.MULTILINE)
        assert re.search(r"^n_iter_ : |^n_batch_iter_ : ", documented, re.MULTILINE)


def test_docstrings_may_be_left_out():
    code = "from hogshare import Lasso; assert Lasso.__doc__ is None; Lasso(2.0)"
    subprocess.run([sys.executable, "-OO", "-W", "ignore", "-c", code], check=True)


def test_what_a_user_derives_has_a_docstring_of_its_own():
    class Mine(hogshare.Lasso):
        """Mine."""

        def __init__(self, alpha=1.0):
            super().__init__(alpha)

    assert Mine.__doc__ == "Mine."
    assert Mine(3.0).get_params() == {"alpha": 3.0}
