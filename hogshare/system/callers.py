"""Whose line a warning belongs to: the user's, however many of ours lie between.

Python 3.12 has ``skip_file_prefixes`` for that; decorators, scikit-learn's wrappers and threads'
hooks would make a number of frames that is written down wrong again and again.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import PurePath

BETWEEN = sys.stdlib_module_names | {"hogshare", "joblib", "numba", "numpy", "scipy", "sklearn"}


def users_line() -> int:
    """What `warnings.warn` takes as ``stacklevel`` to point to the user's line.

    For the function that calls both. That is the nearest one outside of this package and of the
    libraries that call it, or that it calls; where there is none, as for the command, the caller's.
    """
    frame, level = sys._getframe(1), 1
    while frame.f_globals.get("__name__", "").partition(".")[0] in BETWEEN:
        if frame.f_back is None:
            return 2
        frame, level = frame.f_back, level + 1
    return level


def warn(text: str, kind: type[Warning] = UserWarning) -> None:
    """Warn of something at the user's line.

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
    """The file's name and the number of the user's line: the same in all processes of a program."""
    frame = sys._getframe(users_line() - 1)
    return f"{PurePath(frame.f_code.co_filename).name}:{frame.f_lineno}"
