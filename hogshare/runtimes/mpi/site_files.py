"""Checkpoints of machines without shared memory: each writes its part, and the first the manifest.

    all: write parts -> all have done so -> first: replace the manifest -> all: remove old parts

Each step begins when all machines have completed the previous step. So if machines are killed at
any moment, the previous or the new checkpoint is complete. If one machine cannot write, all
machines raise an error.

A machine reads its own part from its own disk, so machines need not share the folder. If any
machine has other rows now than when the checkpoint was written, the first machine reads all parts.

Caller: each rank's thread that communicates with other ranks. All ranks must call these methods,
while all workers pause or have ended.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import functools
import os
import pickle
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from hogshare.engine.checkpoints import (
    NUMBERS,
    OneFile,
    Saved,
    divided,
    load,
    part_path,
    read_part,
    remove_others,
    with_rows,
    write_part,
)
from hogshare.problems.fingerprints import DIGITS, digits_of, sum_of
from hogshare.problems.linear.problem import LinearProblem
from hogshare.runtimes.mpi.rank_pool import RankPool

Gathered = Callable[[np.ndarray], np.ndarray]
TOKEN_BITS = 48  # bits of a token; a float represents it exactly


class SiteFiles(OneFile):
    """The reader and writer of checkpoints on one machine.

    pool : the exchange before and after a run
    gathered : function that returns all machines' arrays on each machine; it also works during a
        run
    rows : the indices of this machine's rows among all rows, and the number of all rows
    workers : the numbers of this machine's workers among all workers
    """

    def __init__(
        self, pool: RankPool, gathered: Gathered, rows: tuple[np.ndarray, int], workers: range
    ) -> None:
        self.pool, self.gathered = pool, gathered
        self.numbers, self.n_rows = rows
        self.me, self.workers = pool.me, workers

    def agreed(self, number: float) -> float:
        """Return the first machine's number."""
        return float(self.gathered(np.array([number]))[0, 0])

    def save(self, saved: Saved, path: str | Path) -> None:
        """Write a checkpoint together with all machines; all machines must call this.

        If a machine cannot write its part, the previous checkpoint stays unchanged.

        Raises
        ------
        OSError
            On all machines, if one machine could not write.
        """
        self._require_all(path)
        token = int(self.agreed(float(secrets.randbits(TOKEN_BITS))))
        parts = {"token": f"{token:012x}", "sites": self.pool.size}
        common, own = divided(saved.arrays)
        are_written = False
        try:
            part = path, parts, self.me, own, self.numbers
            self._all(functools.partial(write_part, *part), path)
            are_written = True
            manifest = dataclasses.replace(saved, arrays=common, parts=parts)
            self._all(functools.partial(manifest.save, path) if self.me == 0 else nothing, path)
        except OSError:
            # the first machine may have died after it replaced the manifest, which needs the parts
            if not (are_written and self.pool.lost):
                with contextlib.suppress(OSError):
                    os.unlink(part_path(path, parts, self.me))
            raise
        remove_others(path, parts)

    def load(self, path: str | Path) -> Saved:
        """Read the checkpoint that the first machine finds, and this machine's part of it.

        All machines must call this.

        Raises
        ------
        ValueError
            If the file is not a checkpoint, or is a checkpoint of other rows.
        OSError
            If the checkpoint, or a part of it, cannot be read.
        """
        saved: Saved = self._spread(lambda: load(path))
        own = self._own(saved, path)
        if own is not None:
            return dataclasses.replace(saved, arrays=saved.arrays | own, parts={})
        saved = self._spread(saved.whole)
        arrays = with_rows(saved.arrays, self.numbers, self.n_rows, self.workers)
        return dataclasses.replace(saved, arrays=arrays)

    def _own(self, saved: Saved, path: str | Path) -> dict[str, np.ndarray] | None:
        """Return this machine's part if all machines have the same rows as when it was written."""
        if saved.parts.get("sites") != self.pool.size:
            return None
        found = None
        with contextlib.suppress(OSError, ValueError):
            found = read_part(path, saved.parts, self.me)
        fits = found is not None and np.array_equal(found.pop(NUMBERS), self.numbers)
        return found if self.pool.gathered(np.array([fits])).all() else None

    def _spread(self, make: Callable[[], Any]) -> Any:
        return pickle.loads(self.pool.spread(pickle.dumps(make()) if self.me == 0 else b""))

    def _all(self, write: Callable[[], Any], path: str | Path) -> None:
        """Call `write` on each machine; raise OSError on all machines if one could not write."""
        failed = 0
        try:
            write()
        except OSError as error:
            failed = error.errno or errno.EIO
        found = self.gathered(np.array([failed]))[:, 0].astype(int)
        self._require_all(path)
        if found.any():
            rank = int(np.flatnonzero(found)[0])
            sentence = f"{os.strerror(int(found[rank]))} on rank {rank}"
            raise OSError(int(found[rank]), sentence, os.fspath(path))

    def _require_all(self, path: str | Path) -> None:
        """Raise OSError on all machines if a machine has died."""
        if self.pool.lost:
            sentence = f"rank {self.pool.lost[0]} has died, and with it its part"
            raise OSError(errno.ECONNRESET, sentence, os.fspath(path))


def nothing() -> None:
    """Write nothing: another machine writes."""


def identity_of_all(own: LinearProblem, pool: RankPool) -> dict[str, Any]:
    """Return the identity of the problem with the concatenated rows of all ranks."""
    rows = own.rows
    n, nonzeros, weighed = len(rows.y), len(rows.data), rows.weight.size > 0
    counts = pool.gathered(np.array([n, nonzeros, weighed, len(rows.indices)])).astype(int)
    before, total = counts[: pool.me].sum(axis=0), counts.sum(axis=0)
    weight = rows.weight
    if total[2] and not weighed:
        weight = np.ones(n, own.dtype)
    n_weights = int(total[0]) if total[2] else 0
    indptr, n_ends, first_end = rows.indptr[:0], 0, 0  # for dense rows
    if own.is_sparse:
        first_end = 0 if pool.me == 0 else int(before[0]) + 1
        indptr = rows.indptr[min(pool.me, 1) :] + before[1]
        n_ends = int(total[0]) + 1
    parts = (
        (rows.data, int(total[1]), int(before[1])),
        (rows.indices, int(total[3]), int(before[3])),
        (indptr.astype(rows.indptr.dtype), n_ends, first_end),
        (rows.y, int(total[0]), int(before[0])),
        (weight, n_weights, int(before[0])),
    )
    sums = np.array([sum_of(array, first) for array, _, first in parts], np.uint64)
    found = pool.gathered(sums.view(np.float64)).view(np.uint64)
    shapes = [(length,) for _, length, _ in parts]
    totals = [sum(map(int, column)) % 2**64 for column in found.T]
    known = [(array.shape, sum_of(array)) for array in (own.positive, own.negative)]
    digits = digits_of([*zip(shapes, totals, strict=True), *known])
    return own.identity() | {"rows": int(total[0]), "data": f"{DIGITS}:{digits}"}
