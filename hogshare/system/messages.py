"""Names in messages: suggestions for a misspelt name, and the caller's names of arguments.

Errors name the arguments of `hogshare.solve`. A caller that has other names for them, such as an
estimator, declares its names. A message then has the names that its reader has written::

    with speaking({"n_workers": "n_jobs"}):
        solve(problem, n_workers=estimator.n_jobs, ...)

This applies to the calling thread, not to threads that it starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

_NOBODY: Mapping[str, str] = {}
_said: ContextVar[Mapping[str, str]] = ContextVar("hogshare_words", default=_NOBODY)


def own(word: str, phrase: str | None = None) -> str:
    """Return the caller's name for the argument `word`; without one, `phrase` or `word` itself."""
    return _said.get().get(word, word if phrase is None else phrase)


@contextmanager
def speaking(words: Mapping[str, str]) -> Iterator[None]:
    """Make messages use the caller's names within a with block."""
    before = _said.set(words)
    try:
        yield
    finally:
        _said.reset(before)


def listed(names: Iterable[str]) -> str:
    """Join names for a sentence: 'sgd', 'sdca' or 'saga'."""
    *most, last = map(repr, names)
    return f"{', '.join(most)} or {last}" if most else last


def counted(number: int, thing: str) -> str:
    """Format a number of things: 1 row, 2,000 rows."""
    return f"{number:,} {thing}{'s' * (number != 1)}"


def escaped(text: str) -> str:
    """Write a name on one line: line breaks and control characters as Python escapes them."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def nearest(text: object, names: Iterable[object]) -> str:
    """Return a question that suggests a similar name; "" if no name is similar.

    Only strings are compared. For "saag" the result is `` Did you mean 'saga'?``
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
    """Return an error's text with a full stop."""
    text = str(error)
    return text if text.endswith((".", "?")) else f"{text}."
