"""Warnings at the user's line, below which this package may have any number of frames.

Python 3.12 has ``skip_file_prefixes`` for this. A fixed number of frames would often be wrong,
because decorators, scikit-learn's wrappers and the hooks of threads add frames.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import PurePath

BETWEEN = sys.stdlib_module_names | {"hogshare", "joblib", "numba", "numpy", "scipy", "sklearn"}


def users_line() -> int:
    """Return the ``stacklevel`` with which `warnings.warn` points to the user's line.

    The function that calls this must call `warnings.warn` itself. The user's line is the nearest
    line outside this package and outside the libraries in `BETWEEN`. If there is no such line, as
    for the command, the caller's line is used.
    """
    frame, level = sys._getframe(1), 1
    while frame.f_globals.get("__name__", "").partition(".")[0] in BETWEEN:
        if frame.f_back is None:
            return 2
        frame, level = frame.f_back, level + 1
    return level


def warn(text: str, kind: type[Warning] = UserWarning) -> None:
    """Warn at the user's line.

    Examples
    --------
    >>> import warnings
    >>> from hogshare.system.callers import warn
    >>> with warnings.catch_warnings(record=True) as found:
    ...     warn("The rows are few.")
    >>> str(found[0].message)
    'The rows are few.'
    """
    warnings.warn(text, kind, stacklevel=users_line())


def users_place() -> str:
    """Return file name and number of the user's line, equal in all of a program's processes."""
    frame = sys._getframe(users_line() - 1)
    return f"{PurePath(frame.f_code.co_filename).name}:{frame.f_lineno}"
