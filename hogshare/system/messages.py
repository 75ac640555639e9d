"""Words of messages: what there is beside what was written, and what a caller calls things.

An error speaks of the arguments of `hogshare.solve`. Who calls it for somebody else, as estimators
do, says what those are called there, and the sentence then names what its reader has written::

    with speaking({"n_workers": "n_jobs"}):
        solve(problem, n_workers=estimator.n_jobs, ...)

That holds for the thread, and not for threads that it starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

_NOBODY: Mapping[str, str] = {}
_said: ContextVar[Mapping[str, str]] = ContextVar("hogshare_words", default=_NOBODY)


def own(word: str, phrase: str | None = None) -> str:
    """What the caller calls a thing; the word itself, or a phrase for it, if nothing else."""
    return _said.get().get(word, word if phrase is None else phrase)


@contextmanager
def speaking(words: Mapping[str, str]) -> Iterator[None]:
    """Have messages call things as somebody else does."""
    before = _said.set(words)
    try:
        yield
    finally:
        _said.reset(before)


def listed(names: Iterable[str]) -> str:
    """Names as a sentence has them: 'sgd', 'sdca' or 'saga'."""
    *most, last = map(repr, names)
    return f"{', '.join(most)} or {last}" if most else last


def counted(number: int, thing: str) -> str:
    """So many of a thing: 1 row, 2,000 rows."""
    return f"{number:,} {thing}{'s' * (number != 1)}"


def escaped(text: str) -> str:
    """A name on one line: what would break it, or move a terminal's cursor, as Python writes it."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def nearest(text: object, names: Iterable[object]) -> str:
    """A question that names what was probably meant; nothing where no name is near.

    Of anything but words, given or known, nothing is near. Of saag, `` Did you mean 'saga'?``
    """
    from difflib import get_close_matches  # for errors only

    if not isinstance(text, str):
        return ""
    known = [name for name in names if isinstance(name, str)]
    word = text.strip().lower()
    small = {name.lower(): name for name in known}
    begun = [name for name in small if word and name.startswith(word)]
    found = begun if len(begun) == 1 else get_close_matches(word, small, 1)
    return f" Did you mean {small[found[0]]!r}?" if found else ""


def sentence(error: Exception) -> str:
    """What an error says, with a full stop."""
    text = str(error)
    return text if text.endswith((".", "?")) else f"{text}."
