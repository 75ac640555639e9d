"""What `docs/architecture.md` draws and names: rooms and arrows as imported, files that exist."""

import itertools
import re

import pytest
from test_imports import FILES, PACKAGE, imports_of, is_door, module_name, room

ROOT = PACKAGE.parent
DOCS = ROOT / "docs"
PAGES = sorted({*DOCS.glob("*.md"), *DOCS.glob("guide/*.md"), ROOT / "CONTRIBUTING.md"})
FOLDERS = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}


def drawn(text):
    """Arrows of the page's drawing: (who needs, what is needed)."""
    lines = text.split("```mermaid\n")[1].split("```")[0].splitlines()[1:]
    chains = [[name.strip() for name in line.split("-->")] for line in lines]
    return [arrow for chain in chains for arrow in itertools.pairwise(chain)]


def imported():
    """Pairs of rooms: who imports, what is imported, but for doors to the laboratory."""
    pairs = set()
    for path in FILES:
        here = room(module_name(path))
        there = {room(module) for module, _ in imports_of(path) if module.startswith("hogshare.")}
        pairs |= {
            (here, one) for one in there if one != here and not (one == "lab" and is_door(path))
        }
    return pairs


def below(start, arrows, without=None):
    """What can be reached along arrows, all but one of them."""
    found, ahead = set(), [start]
    while ahead:
        here = ahead.pop()
        new = {there for one, there in arrows if one == here and (one, there) != without} - found
        found |= new
        ahead += new
    return found


def check(arrows):
    """Say where a drawing is not what the imports are."""
    pairs = imported()
    rooms = {name for arrow in arrows for name in arrow}
    assert not FOLDERS - rooms, "rooms that are not drawn"
    assert not set(arrows) - pairs, "arrows along which nothing is imported"
    for here, there in pairs:
        if here in rooms and there in rooms:
            assert there in below(here, arrows), f"{here} imports {there}"
    for arrow in arrows:
        assert arrow[1] not in below(arrow[0], arrows, without=arrow), f"{arrow} says nothing new"
    assert len(arrows) == len(set(arrows))


def test_the_drawing_is_what_is_imported():
    check(drawn((DOCS / "architecture.md").read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("    engine --> barriers\n", "", "engine imports barriers"),
        ("    engine --> barriers\n", "    engine --> report\n", "nothing is imported"),
        ("    engine --> barriers\n", "    engine --> barriers --> kernels\n", "nothing new"),
        ("    lab --> cli -->", "    cli -->", "not drawn"),
    ],
)
def test_a_drawing_that_is_wrong_is_told(old, new, told):
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    assert text.count(old) == 1
    with pytest.raises(AssertionError, match=told):
        check(drawn(text.replace(old, new)))


def is_there(name):
    return any((base / name).is_file() for base in (ROOT, PACKAGE))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_that_a_page_names_are_there(page):
    named = set(re.findall(r"`([\w.-]+/[\w./-]*\.py)`", page.read_text(encoding="utf-8")))
    missing = [name for name in sorted(named) if not is_there(name)]
    assert not missing, f"{page.name} names {missing}"
    if page.stem == "architecture":
        assert len(named) > 40 and not is_there("hogshare/nobody.py")


def test_the_page_stays_short():
    assert len((DOCS / "architecture.md").read_text(encoding="utf-8").splitlines()) < 260
