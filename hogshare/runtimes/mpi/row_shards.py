"""The split of rows that every rank has, or could have, into a part for each rank."""

from __future__ import annotations

from typing import Any

import scipy.sparse as sp

from hogshare.runtimes.mpi.door import library
from hogshare.system import missed_calls, ranges


@missed_calls.counted
def shard(*arrays: Any, place: int | None = None, of: int | None = None) -> Any:
    """Take this rank's part of rows that every rank has.

    The sizes of parts differ by at most one row, and parts follow each other in the order of the
    ranks. Of a memory-mapped array, only this rank's part is read.

    Parameters
    ----------
    *arrays : array-likes with the same number of rows
        ndarray, memory map, list, data frame, or sparse matrix.
    place, of : int, default=None
        The number of this rank's part, from 0, and the number of all parts. If either is None, MPI
        gives both: the number of the calling rank, and the number of ranks.

    Returns
    -------
    array or tuple of arrays
        As many as were given, of the same types. A returned array is a view if slices of the given
        type are views.

    Raises
    ------
    ValueError
        If the arrays have different numbers of rows, or `place` is not below `of`.
    ImportError
        If `place` or `of` is None, and mpi4py is not installed or finds no MPI.

    Examples
    --------
    >>> from hogshare import shard
    >>> shard([1, 2, 3, 4, 5], "abcde", place=1, of=2)
    ([3, 4, 5], 'cde')
    """
    if (place is None) != (of is None):
        raise ValueError(
            f"place and of must be given together, such as place=0, of=4; got place={place!r} and "
            f"of={of!r}."
        )
    if place is None or of is None:
        comm = library().COMM_WORLD
        place, of = comm.Get_rank(), comm.Get_size()
    ranges.whole(place=place, of=of)
    if not 0 <= place < of:
        raise ValueError(f"place must be from 0 to {of - 1}; got {place}.")
    lengths = [_length(one) for one in arrays]
    if len(set(lengths)) > 1:
        listed = ", ".join(map(str, lengths))
        raise ValueError(f"The arrays must have the same number of rows; they have {listed}.")
    parts = tuple(_part(one, place, of, lengths[0]) for one in arrays)
    return parts[0] if len(parts) == 1 else parts


def _length(array: Any) -> int:
    return int(array.shape[0]) if hasattr(array, "shape") else len(array)


def _part(array: Any, place: int, of: int, length: int) -> Any:
    rows = array.tocsr() if sp.issparse(array) else getattr(array, "iloc", array)
    return rows[length * place // of : length * (place + 1) // of]
