"""Calls by several processes that one of them has missed, because it raised before they began.

All processes of a joint runtime make the same calls. What a call needs is stated before it: where
that raises in one process and is caught, this process goes on to its next call, while the others
wait in this one. So a statement that raises counts as a call that has failed in this process; its
next call reports that to the others (`hogshare.runtimes.mpi.sequence`), and both go on in step.

Who writes: the thread that states or calls. An error is stored without its traceback, which would
keep the rows alive, and of many that nobody reports only the last.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

SETTLED = "_hogshare_settled"  # of an error that is reported already

_count = 0
_last: BaseException | None = None


def counted(function: Function) -> Function:
    """Have a function that raises count as a call that this process has missed."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            note(error)
            raise

    return call  # type: ignore[return-value]


def note(error: BaseException) -> None:
    """Count an error, unless it is reported already."""
    global _count, _last
    if getattr(error, SETTLED, False):
        return
    _count += 1
    try:
        _last = copy.copy(error)
    except Exception:
        _last = RuntimeError(f"{type(error).__name__}: {error}")
    _last.__traceback__ = _last.__cause__ = _last.__context__ = None


def taken() -> list[BaseException]:
    """The errors of this process since the last time, one for each call that was missed."""
    global _count, _last
    errors = [] if _last is None else [_last] * _count
    _count, _last = 0, None
    return errors
