"""The dictionary of the house: one word for one thing, one thing for one name.

`docs/glossary.md` has the words. The retired ones had several meanings each; here they are counted
in code, comments, docstrings and messages alike.
"""

import ast
import re
from collections import Counter

import pytest
from test_imports import FILES, PACKAGE, tree_of

RETIRED = (
    r"looks?|looked|looking|turns?|told|tells?|telling|keeps?|keeping|kept|keepers?|holds?|held|"
    r"holding|holders?|sides?|rooms?|rests?|rested|boards?|meetings?|apart|beside|elsewhere|lent|"
    r"lends?|lending|clerks?|luggage|here|there"
)
# English that means nothing else: that something exists, the sides of an equation, held-out rows
IDIOMS = re.compile(
    r"(?i)\bthere (is|are|was|were|be|will|would|may|might|can|could|cannot|has|have|had|must|"
    r"should|need|isn't|aren't)\b|\b(is|are|was|were|if) there\b(?= (any|no|a|an|enough|some|more|"
    r"one|too)\b)|\b(left|right)(-hand)?[ -]sides?\b|(?<![a-z])(hold|holds|held|holding)[ _-]?outs?"
    r"(?![a-z])"
)
# public names and keys of stored results, in the files that name them
PUBLIC = {
    "hold": (
        "barriers.py",
        "cli/fit.py",
        "lab/experiments/barriers.py",
        "lab/psp/tuner.py",
        "lab/studies/simulate.py",
        "solvers/solver.py",
    ),
    "holds": (
        "engine/home.py",
        "engine/loop.py",
        "lab/experiments/centres.py",
        "planes/mirrors/centre.py",
        "planes/mirrors/exchanges.py",
        "planes/mirrors/plane.py",
        "planes/wait_condition.py",
    ),
    "kept": ("lab/experiments/rivals.py", "lab/rivals/standings.py"),
    "turns": (
        "lab/prediction/costs.py",
        "report.py",
        "runtimes/mpi/site_call.py",
        "solvers/run.py",
    ),
}
MOST_RETIRED = 60
MOST_CLASSES, MOST_FILES = 8, 20
PARTICIPLES = r"told|given|made|again|together|apart|least|plain|clerk|luggage|\w+ed|\w+ing"
# nouns of the field that end like participles
NOUNS = {"ring", "spacing", "network_training", "shared", "sniffing", "encoding"}


def retired(text):
    """The retired words of a text, names taken apart at underscores and capitals."""
    parts = IDIOMS.sub("~", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text))
    return [word.lower() for word in re.findall(rf"(?i)(?<![a-z])({RETIRED})(?![a-z])", parts)]


def repeated(names):
    """What stands twice or more."""
    return sorted(name for name, count in Counter(names).items() if count > 1)


@pytest.mark.quick
def test_retired_words_are_few():
    found = {}
    for path in FILES:
        place = path.relative_to(PACKAGE).as_posix()
        public = [word for word, places in PUBLIC.items() if place in places]
        found[place] = [w for w in retired(path.read_text(encoding="utf-8")) if w not in public]
    total = sum(map(len, found.values()))
    worst = sorted(found.items(), key=lambda item: -len(item[1]))[:10]
    assert total < MOST_RETIRED, f"{total}: {[(place, Counter(w)) for place, w in worst if w]}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def take_turn(kept): return 0", ["turn", "kept"]),
        ("class BoardKeeper: ...  # who rests is told", ["board", "keeper", "rests", "told"]),
        ('"""Holds what the other side lent."""', ["holds", "side", "lent"]),
        ("the rows here and there", ["here", "there"]),
        ("if there is a held_out row, is there any held-out score? the left-hand side", []),
        ("returns inside, outlook, shareholder, where, therefore", []),
    ],
)
def test_a_retired_word_is_found(text, words):
    assert retired(text) == words


@pytest.mark.quick
def test_few_classes_and_files_have_one_name():
    classes = [
        node.name
        for path in FILES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ClassDef)
    ]
    files = [path.name for path in FILES if path.name not in ("__init__.py", "__main__.py")]
    assert len(classes) > 300 and len(files) > 400
    assert len(found := repeated(classes)) <= MOST_CLASSES, found
    assert len(found := repeated(files)) <= MOST_FILES, found


def test_a_name_that_stands_twice_is_found():
    assert repeated(["Plan", "State", "Plan", "Plans"]) == ["Plan"]


@pytest.mark.quick
def test_files_are_nouns():
    stems = {path.stem for path in FILES}
    assert not {stem for stem in stems if re.fullmatch(PARTICIPLES, stem)} - NOUNS
    assert stems >= NOUNS, "a file that has gone needs no exception"


@pytest.mark.parametrize("stem", ["told", "resting", "mixed", "apart", "made"])
def test_a_participle_is_found(stem):
    assert re.fullmatch(PARTICIPLES, stem)


def test_stems_of_kernels_are_unique():
    """They name files in the cache of compiled kernels, across its rooms."""
    stems = [path.stem for path in FILES if "kernels" in path.parent.parts[-2:]]
    assert stems and not [stem for stem in repeated(stems) if stem != "__init__"]
