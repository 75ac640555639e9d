"""The snippets of the user's pages run: each page's from top to bottom, in a folder of its own.

Blocks of ``python`` share their names. Of blocks of ``sh`` those run whose first command is
hogshare's own, line by line, by the command's `main`. A block after ``<!-- not run: reason -->``
does not, and one after ``<!-- needs library -->`` only where that is installed.
"""

import importlib.util
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from sklearn import datasets
from sklearn.utils import Bunch

from hogshare.cli.main import main

HOME = Path(__file__).parent.parent
PAGES = [
    HOME / "README.md",
    *sorted((HOME / "docs").glob("*.md")),
    *sorted((HOME / "docs" / "guide").glob("*.md")),
]
LEFT_OUT = re.compile(r"<!-- not run: (\S.*) -->")
NEEDS = re.compile(r"<!-- needs (\w+) -->")


@dataclass
class Block:
    """A block of code: its language, its lines, the line where it begins, whether it is to run."""

    language: str
    text: str
    line: int
    runs: bool


def runs_below(line):
    """Whether a block runs that has this line above it."""
    if needed := NEEDS.fullmatch(line):
        return importlib.util.find_spec(needed[1]) is not None
    return LEFT_OUT.fullmatch(line) is None


def blocks(text):
    """All fenced blocks of a page."""
    found, lines, opened, above = [], text.splitlines(), None, ""
    for number, line in enumerate(lines, start=1):
        fence = line.strip()
        if opened is None and fence.startswith("```"):
            opened, indent = number, len(line) - len(line.lstrip())
            language = fence.removeprefix("```").strip()
            runs = runs_below(above)
        elif opened is not None and fence == "```":
            inner = "\n".join(part[indent:] for part in lines[opened : number - 1])
            found.append(Block(language, inner, opened + 1, runs))
            opened = None
        if fence:
            above = fence
    assert opened is None, f"the block that begins in line {opened} does not end"
    return found


def commands(text):
    """The commands of a shell block, each as a list of words."""
    joined = text.replace("\\\n", " ")
    return [words for line in joined.splitlines() if (words := shlex.split(line, comments=True))]


def run(page, text, capsys):
    """Run a page's snippets; an error names the page's line."""
    names = {"__name__": "__main__"}
    for block in blocks(text):
        where = f"{page}, line {block.line}"
        if not block.runs:
            continue
        if block.language == "python":
            assert not block.text.lstrip().startswith(">>>"), f"{where}: write it without prompts"
            # as many lines before it as there are on the page, for what an error says
            code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
            exec(code, names)
        elif block.language == "sh" and block.text.startswith("hogshare "):
            for program, *words in commands(block.text):
                assert program == "hogshare", f"{where}: {program} cannot be run here"
                assert not {"|", "<", ">", "&&"} & set(words), f"{where}: only plain commands run"
                status = main(words)
                told = capsys.readouterr()
                assert status == 0, f"{where}: {shlex.join(words)}: {told.err[-2000:]}"


@pytest.fixture
def newsgroups(monkeypatch):
    """The README's text, which is downloaded, stands for itself with some of our own."""
    words = [f"{word}{k}" for word in ("ball", "disk", "orbit") for k in range(30)]

    def fetch(subset):
        rng = np.random.default_rng(len(subset))
        target = rng.integers(0, 3, 120)
        data = [" ".join(rng.choice(words[30 * k : 30 * k + 40], 20)) for k in target]
        return Bunch(data=data, target=target)

    monkeypatch.setattr(datasets, "fetch_20newsgroups", fetch)


@pytest.mark.usefixtures("newsgroups", "few_rows_are_left")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_snippet_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    run(page, page.read_text(encoding="utf-8"), capsys)


PAGE = """\
Words.

```python
x = 1
```

1. In a list:

   ```python
   x += 1
   print(x)
   ```

<!-- not run: it never ends -->

```python
while True: pass
```

```
x = "no language"
```

```sh
pip install nothing
```

```sh
hogshare info --json  # a comment
hogshare \\
    info
```
"""


def test_the_collector_runs_what_it_should(capsys):
    assert [block.line for block in blocks(PAGE)] == [4, 10, 17, 21, 25, 29]
    run("page", PAGE.replace("info --json", "info"), capsys)
    with pytest.raises(ZeroDivisionError) as caught:
        run("page.md", PAGE.replace("x += 1", "1 / 0"), capsys)
    assert caught.traceback[-1].lineno + 1 == 10 and str(caught.traceback[-1].path) == "page.md"
    for old, new, words in (
        ("hogshare info", "hogshare predict nothing nothing", "page, line 29: predict nothing"),
        ("info --json", "info | head", "only plain commands"),
        ("    info\n", "    info\nls\n", "ls cannot be run here"),
        ("x = 1", ">>> x = 1", "without prompts"),
    ):
        with pytest.raises(AssertionError, match=re.escape(words)):
            run("page", PAGE.replace(old, new, 1), capsys)
    with pytest.raises(AssertionError, match="line 28 does not end"):
        blocks(PAGE.rstrip().removesuffix("```"))
    with pytest.raises(NameError):  # a page has its own names, not the tests'
        run("page", "```python\nPAGES\n```\n", capsys)


def test_what_needs_a_library_runs_where_that_is(capsys):
    page = "<!-- needs {} -->\n```python\n1 / 0\n```\n"
    run("page", page.format("no_such_library"), capsys)
    with pytest.raises(ZeroDivisionError):
        run("page", page.format("numpy"), capsys)


def test_what_is_not_run_has_a_reason():
    for page in PAGES:
        for line in page.read_text(encoding="utf-8").splitlines():
            if "<!--" in line and ("not run" in line or "needs" in line):
                assert LEFT_OUT.fullmatch(line.strip()) or NEEDS.fullmatch(line.strip())
