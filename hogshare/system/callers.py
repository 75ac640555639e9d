"""Warnings at the user's line, whatever the number of our frames below it.

Python 3.12 has ``skip_file_prefixes`` for this. A fixed number of frames would be wrong again and
again, because of decorators, scikit-learn's wrappers and the hooks of threads.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import PurePath

BETWEEN = sys.stdlib_module_names | {"hogshare", "joblib", "numba", "numpy", "scipy", "sklearn"}


def users_line() -> int:
    """Return the ``stacklevel`` with which `warnings.warn` points to the user's line.

    The function that calls this must call `warnings.warn` itself. The user's line is the nearest
    one outside this package and the libraries that call it, or that it calls; if there is none, as
    for the command, it is the caller's line.
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
    """Return file name and number of the user's line: the same in all processes of a program."""
    frame = sys._getframe(users_line() - 1)
    return f"{PurePath(frame.f_code.co_filename).name}:{frame.f_lineno}"
