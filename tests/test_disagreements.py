"""The page of what papers, code and algebra say apart: whole, and true of what there is here."""

import ast
import functools
import re
from pathlib import Path

import pytest

import hogshare
from hogshare.cli.main import main

HOME = Path(__file__).parent.parent
TEXT = (HOME / "docs" / "disagreements.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^## (\d+)\. .*\n\n((?:.+\n)+)", TEXT, re.MULTILINE))


@functools.cache
def names_in(path):
    tree = ast.parse((HOME / path).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def here_of(row):
    """What a row says of this package."""
    return row.split("- **In hogshare**:")[1].split("- **Checked by**:")[0]


def test_there_are_sixteen():
    assert list(ROWS) == [str(k) for k in range(1, 17)]


@pytest.mark.parametrize("number", ROWS)
def test_a_row_says_what_is_printed_what_is_so_and_what_is_done(number):
    said = re.findall(r"^- \*\*(\w+(?: \w+)?)", ROWS[number], re.MULTILINE)
    assert [said[0], *said[2:]] == ["Printed", "In hogshare", "Checked by"]
    assert said[1] in ("By algebra", "By experiment", "In the")


@pytest.mark.parametrize("number", ROWS)
def test_the_tests_that_hold_it_are_there(number):
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", ROWS[number].split("**Checked by**")[1])
    assert named
    for path, name in named:
        assert name in names_in(path), f"{path} has no {name}"
    assert names_in("tests/rank_checks.py") >= set(re.findall(r"`(check_\w+)`", ROWS[number]))


@pytest.mark.parametrize("number", ROWS)
def test_what_it_names_is_there(number):
    """A public name or a command, in each row."""
    here = here_of(ROWS[number])
    commands = re.findall(r"`hogshare ([a-z ]+)`", here)
    for command in commands:
        assert main([*command.split(), "--help"]) == 0
    names = [name for name in re.findall(r"`([\w.]+)`", here) if not name.startswith((".", "ac."))]
    for name in names:
        functools.reduce(getattr, name.split("."), hogshare)
    assert names or commands
