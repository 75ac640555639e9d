"""Where tests reach inside: every seam has its place, and nobody goes around it."""

import ast
from pathlib import Path

import pytest
from seams import PLACES, Seams

HERE = Path(__file__).parent
NAMED = [(kind, name) for kind, names in PLACES.items() for name in names]
FILES = sorted(path for path in HERE.rglob("*.py") if path.name != "seams.py")


def places_of(kind, name):
    places = PLACES[kind][name]
    return [places] if isinstance(places, str) else list(places)


@pytest.mark.parametrize(("kind", "name"), NAMED)
def test_what_is_set_is_read_and_comes_back(kind, name, seams):
    before, other = getattr(getattr(seams, kind), name), object()
    with seams.for_now() as now:
        setattr(getattr(now, kind), name, other)
        assert getattr(getattr(seams, kind), name) is other
    assert getattr(getattr(seams, kind), name) is before


def test_each_place_has_one_name():
    every = [place for kind, name in NAMED for place in places_of(kind, name)]
    assert len(every) == len(set(every))


def test_what_has_no_name_is_refused(seams):
    with pytest.raises(AttributeError, match="there is no seam 'freee'"):
        seams.memory.freee = 1
    with pytest.raises(AttributeError, match="there is no seam 'freee'"):
        assert seams.memory.freee


def patched(tree):
    """Yield the line and the full name of what a file's patches change."""
    known = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            known |= {one.asname: one.name for one in node.names if one.asname}
        elif isinstance(node, ast.ImportFrom):
            known |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
    for node in ast.walk(tree):
        called = isinstance(node, ast.Call) and getattr(node.func, "attr", "")
        if called not in ("setattr", "object") or not node.args:
            continue
        thing, *more = node.args
        if isinstance(thing, ast.Constant):
            yield node.lineno, thing.value
        elif more and isinstance(more[0], ast.Constant):
            first, *parts = ast.unparse(thing).split(".")
            yield node.lineno, ".".join([known.get(first, first), *parts, str(more[0].value)])


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(HERE)))
def test_what_has_a_seam_is_set_by_it(path):
    owned = {place: (kind, name) for kind, name in NAMED for place in places_of(kind, name)}
    for line, place in patched(ast.parse(path.read_text(encoding="utf-8"))):
        if place in owned:
            kind, name = owned[place]
            pytest.fail(f"{path.name}:{line}: set {place} by seams.{kind}.{name}")


def test_patches_are_found():
    text = (
        "from hogshare.system import memory\n"
        "from hogshare.problems.linear import row_arrays as views\n"
        "monkeypatch.setattr(memory, 'free', None)\n"
        "mock.patch.object(views, 'MANY', 1)\n"
        "patch.setattr('hogshare.system.machine.key', None)\n"
        "patch.setattr(views.memory, name, None)\n"
    )
    assert list(patched(ast.parse(text))) == [
        (3, "hogshare.system.memory.free"),
        (4, "hogshare.problems.linear.row_arrays.MANY"),
        (5, "hogshare.system.machine.key"),
    ]


def test_seams_are_those_of_a_patch():
    with pytest.MonkeyPatch.context() as patch:
        before = Seams(patch).memory.free
        Seams(patch).memory.free = len
        assert Seams(patch).memory.free is len
    assert Seams(patch).memory.free is before
