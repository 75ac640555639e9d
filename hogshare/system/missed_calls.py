"""Collective calls that one of several processes has missed, because it raised before the call.

With a runtime on several processes, such as MPI, all processes make the same calls. Each process
makes a call's problem and options before the call. If this raises in one process, and the error is
caught, this process proceeds to its next call while the other processes wait in the present call.
Such an error therefore counts as a failed call of this process. Its next call reports the failure
to the other processes (`hogshare.runtimes.mpi.sequence`), and all processes continue in step.

Only the thread that makes problems, options and calls writes the data of this file. Of several
unreported errors only the last is stored.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

SETTLED = "_hogshare_settled"  # attribute of an error that has been reported

_count = 0
_last: BaseException | None = None


def counted(function: Function) -> Function:
    """Decorate a function: if it raises, this process has missed a call."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            note(error)
            raise

    return call  # type: ignore[return-value]


def note(error: BaseException) -> None:
    """Count an error, unless it has been reported."""
    global _count, _last
    if getattr(error, SETTLED, False):
        return
    _count += 1
    try:
        _last = copy.copy(error)
    except Exception:
        _last = RuntimeError(f"{type(error).__name__}: {error}")
    # without its traceback, whose frames refer to the rows
    _last.__traceback__ = _last.__cause__ = _last.__context__ = None


def taken() -> list[BaseException]:
    """Return and clear this process's errors, one for each call missed since the last `taken`."""
    global _count, _last
    errors = [] if _last is None else [_last] * _count
    _count, _last = 0, None
    return errors
