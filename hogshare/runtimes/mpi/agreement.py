"""The check that all ranks make the same call: each describes its arguments, and rank 0 compares.

Descriptions are short texts, made by the same rules on every rank. A number or a string is its own
description. An array is described by a hash. Functions and objects are described by their names,
because an object's identity differs between ranks.
"""

from __future__ import annotations

import dataclasses
import hashlib
import platform
from collections.abc import Mapping, Sequence
from typing import Any

import numba
import numpy as np

from hogshare._version import __version__
from hogshare.problems.protocol import Problem

OF_ROWS = ("rows", "nonzeros", "columns")  # facts that differ between shards
MOST = 200  # largest number of characters of a fact in a message
CALL, LINE = "the call", "the line of the call"
ADVICE = (
    " Make the same calls on all ranks, each from one line of the program; a rank that has caught "
    "an error of its own, and skipped a call, is ahead of the others."
)


class RanksDiffer(ValueError):
    """The ranks of a job have been called with different arguments."""


def versions() -> dict[str, str]:
    """Return the package versions, which must be the same on all ranks."""
    return {
        "the version of hogshare": __version__,
        "the version of Python": platform.python_version(),
        "the version of NumPy": np.__version__,
        "the version of Numba": numba.__version__,
    }


def of_problem(problem: Problem, whole: bool) -> dict[str, str]:
    """Describe a problem: with `whole`, with its rows; otherwise by the facts that ranks share."""
    facts = problem.identity() if whole else problem.facts()
    return {
        f"{name} of the problem": described(value)
        for name, value in facts.items()
        if whole or name not in OF_ROWS
    }


def described(value: Any) -> str:
    """Describe a value as text, the same on every rank."""
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            return f"an array of {value.shape} objects"
        content = hashlib.blake2b(np.ascontiguousarray(value).data.cast("B"), digest_size=8)
        return f"an array of {value.shape} {value.dtype}, {content.hexdigest()}"
    if isinstance(value, str | bytes | int | float | complex | np.generic | None):
        return repr(value)
    if isinstance(value, type):
        return value.__qualname__
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{described(k)}: {described(v)}' for k, v in value.items())}}}"
    if isinstance(value, Sequence | set | frozenset):
        return f"[{', '.join(map(described, value))}]"
    if dataclasses.is_dataclass(value):
        fields = dataclasses.fields(value)
        inside = ", ".join(f"{one.name}={described(getattr(value, one.name))}" for one in fields)
        return f"{type(value).__qualname__}({inside})"
    if callable(value) and hasattr(value, "__qualname__"):
        return str(value.__qualname__)
    return type(value).__qualname__


def difference(said: Sequence[Mapping[str, str]]) -> str | None:
    """Return a message on the first difference between ranks, or None if all descriptions agree.

    said : each rank's descriptions by the argument's name, in the order of ranks

    Examples
    --------
    >>> from hogshare.runtimes.mpi.agreement import difference
    >>> difference([{"step": "0.1"}, {"step": "0.1"}, {"step": "0.2"}])
    'the ranks were not called with the same: step is 0.1 on rank 0, and 0.2 on rank 2.'
    """
    first = said[0]
    for rank, other in enumerate(said):
        for name in [*first, *(name for name in other if name not in first)]:
            on_first, on_other = first.get(name, "not given"), other.get(name, "not given")
            if on_first != on_other:
                return (
                    f"the ranks were not called with the same: {name} is {_cut(on_first)} on rank "
                    f"0, and {_cut(on_other)} on rank {rank}."
                    f"{ADVICE if name in (CALL, LINE) else ''}"
                )
    return None


def _cut(text: str) -> str:
    return text if len(text) <= MOST else f"{text[:MOST]}..."
