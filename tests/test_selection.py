"""What CI runs: combinations that stand for all, whose tests are the laboratory's, what changed."""

import importlib.util
import itertools
import sys
from types import SimpleNamespace

import changes
import mutations
import pytest
import selection


def combination(marks, **params):
    """A test as pytest collects one, as far as it is asked for here."""
    named = [SimpleNamespace(args=(names,), kwargs={}) for names in marks]
    return SimpleNamespace(
        callspec=SimpleNamespace(params=params),
        iter_markers=lambda name: iter(named if name == "parametrize" else ()),
    )


@pytest.mark.parametrize("size", [1, 2, 3])
def test_any_values_of_so_many_parameters_meet(size):
    sizes = {"a": 5, "b": 4, "c": 3}
    every = [
        dict(zip(sizes, each, strict=True)) for each in itertools.product(*map(range, [5, 4, 3]))
    ]
    items = [combination(sizes, **one) for one in every]
    stand = [one.callspec.params for one in selection.covering(items, size)]
    for names in itertools.combinations(sizes, size):
        for values in itertools.product(*(range(sizes[name]) for name in names)):
            assert any(values == tuple(one[name] for name in names) for one in stand)
    assert len(stand) <= {1: 5, 2: 25, 3: 60}[size]
    assert stand == [one.callspec.params for one in selection.covering(items, size)]


def test_parameters_that_are_given_together_are_one():
    marks = ("plane, rule", ["runtime"])
    items = [combination(marks, plane=k, rule=k, runtime=j) for k in range(4) for j in range(3)]
    assert len(selection.covering(items, 1)) == 4
    assert len(selection.covering(items, 2)) == 12
    alone = [combination(())]
    assert selection.covering(alone, 1) == alone


def test_some_of_a_list_run():
    marked = [getattr(one, "values", None) for one in selection.long_but(2, range(4))]
    assert marked == [None, None, (2,), (3,)]
    assert selection.long_but(("b",), "abc")[::2] == ["a", "c"]


TESTS = """
from hogshare import theory as known
from hogshare.cli.main import main
from hogshare.lab.rivals.contestant import Contestant

class Quick(Contestant):
    pass

def helped():
    return known.Constants

def by_a_helper():
    helped()

def by_a_class():
    return [Quick for _ in range(3)]

def by_a_command():
    main(["bench", "speedup"])

def of_the_product():
    main(["fit", "rows.svm"])
"""


def test_whose_tests_are_the_laboratorys(tmp_path):
    path = tmp_path / "made.py"
    path.write_text(TESTS)
    made = importlib.util.spec_from_file_location("made", path)
    module = importlib.util.module_from_spec(made)
    made.loader.exec_module(module)
    found = {
        name: selection.uses_laboratory(getattr(module, name), module)
        for name in ("by_a_helper", "by_a_class", "by_a_command", "of_the_product")
    }
    assert not found.pop("of_the_product") and all(found.values()), found


FILES = {
    "hogshare/kernels/rules/sgd_steps.py": {"kernels", "product"},
    "hogshare/lab/psp/kernels/clockwork.py": {"kernels", "lab"},
    "hogshare/planes/shared.py": {"product"},
    "hogshare/lab/claims/psp.py": {"lab"},
    "hogshare/theory.py": {"lab"},
    "tests/naive.py": {"kernels", "product"},
    "tests/kernels/test_sums.py": {"kernels", "product"},
    "tests/models/mail.pml": {"models", "product"},
    "tests/test_models.py": {"models", "product"},
    "tests/test_claims.py": {"lab"},
    "tests/test_both.py": {"lab", "product"},
    "tests/test_solve.py": {"product"},
    "pyproject.toml": {"product"},
    ".ci/run": {"product"},
    "docs/psp.md": set(),
}
TEXTS = {
    "tests/test_claims.py": "from hogshare.cli.main import main\nfrom hogshare.lab import claims\n",
    "tests/test_both.py": "from hogshare.lab import claims\nfrom hogshare.planes import Shared\n",
}


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A tree with such files, and nothing that has passed."""
    home = tmp_path / "tree"
    for name in FILES:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(TEXTS.get(name, ""))
    monkeypatch.setattr(changes, "HOME", home)
    monkeypatch.setattr(changes, "STORED", tmp_path / "cache" / "passed.json")
    return home


def said(capsys, monkeypatch, *arguments):
    """What the script says, and its exit status."""
    monkeypatch.setattr(sys, "argv", ["changes.py", *arguments])
    status = changes.main()
    return capsys.readouterr().out.strip(), status


@pytest.mark.parametrize("name", FILES)
def test_a_change_is_one_of_its_parts(tree, name):
    before = changes.digests()
    (tree / name).write_text(TEXTS.get(name, "") + "# changed\n")
    after = changes.digests()
    assert {part for part in before if before[part] != after[part]} == FILES[name]


def test_what_has_passed_is_remembered(tree, capsys, monkeypatch):
    assert said(capsys, monkeypatch) == ("any", 0)
    assert said(capsys, monkeypatch, "kernels") == ("", 1)
    said(capsys, monkeypatch, "passed", "product", "lab", "kernels")
    assert said(capsys, monkeypatch) == ("any", 0), "nothing has changed: all run"
    assert said(capsys, monkeypatch, "kernels") == ("", 0)
    (tree / "hogshare" / "theory.py").write_text("# changed\n")
    assert said(capsys, monkeypatch) == ("lab", 0)
    said(capsys, monkeypatch, "passed", "lab")
    (tree / "hogshare" / "planes" / "shared.py").write_text("# changed\n")
    assert said(capsys, monkeypatch) == ("product", 0)
    assert said(capsys, monkeypatch, "kernels") == ("", 0)
    changes.STORED.write_text("{")
    assert said(capsys, monkeypatch) == ("any", 0), "a file that is not a list says nothing"


def test_models_are_verified_again_where_they_or_what_verifies_them_have_changed(
    tree, capsys, monkeypatch
):
    assert said(capsys, monkeypatch, "models") == ("", 1)
    said(capsys, monkeypatch, "passed", "models")
    assert said(capsys, monkeypatch, "models") == ("", 0)
    (tree / "hogshare" / "theory.py").write_text("# changed\n")
    assert said(capsys, monkeypatch, "models") == ("", 0)
    (tree / "tests" / "models" / "mail.pml").write_text("/* changed */\n")
    assert said(capsys, monkeypatch, "models") == ("", 1)
    said(capsys, monkeypatch, "passed", "models")
    for other in ((sys.executable, "--version"), ("no such program",)):
        monkeypatch.setattr(changes, "VERIFIERS", (other,))
        assert said(capsys, monkeypatch, "models") == ("", 1)


def test_what_an_older_list_lacks_has_not_passed(tree, capsys, monkeypatch):
    said(capsys, monkeypatch, "passed", "kernels")
    changes.STORED.write_text(changes.STORED.read_text().replace('"models"', '"other"'))
    assert said(capsys, monkeypatch, "kernels") == ("", 0)
    assert said(capsys, monkeypatch, "models") == ("", 1)


@pytest.mark.parametrize("fault", mutations.FAULTS, ids=lambda fault: fault.name)
def test_a_fault_that_is_to_be_put_in_has_its_place(fault):
    """Or `mutations.py` misses it, hours later: who moves the text mends its line there."""
    text = (mutations.HOME / "hogshare" / fault.file).read_text("utf-8")
    assert text.count(fault.old) == 1
    assert all((mutations.HOME / name).exists() for name in fault.tests.split())
