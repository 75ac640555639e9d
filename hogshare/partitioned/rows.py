"""Rows of Dask collections as the master knows them: futures of partitions, and facts of them.

Who writes: the workers make blocks and problems and keep them, spilled to their disks where memory
is short; Dask computes again, from the collections' graphs, what a lost worker had. Who reads: the
tasks that are given a future. What comes to the master are facts and sums. Calls that prefer a
worker which leaves are made again (`hogshare.partitioned.calls`). Who frees: `close` lets go of the
futures; the client stays its owner's.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Sequence
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any

import numpy as np

from hogshare.partitioned.blocks import Facts, Meaning, block_of, facts_of, problem_of
from hogshare.partitioned.calls import Call, Fetched
from hogshare.partitioned.owners import Owners
from hogshare.system.clusters import (
    MEMBERS_SECONDS,
    client_here,
    cut_alike,
    delayed,
    large_graphs,
    row_blocks,
    threads_of,
)

MOST_NAMES = 8  # of columns in a sentence
WITHOUT_WORKERS_SECONDS = 60.0  # until a cluster is given up that has no workers left


class PartitionedRows:
    """Rows, targets and weights in partitions on a cluster's workers.

    X : blocks are dense or CSR
    with_labels : whether targets are labels, which are then looked for
    columns : what data frames call their columns, the same in all partitions
    facts : of the partitions that have rows
    problems : of the partitions' problems, once `state` has been called

    Raises ImportError, ValueError or TypeError if there is no cluster, or the input is not valid;
    before anything is fitted.
    """

    def __init__(self, X: Any, y: Any, sample_weight: Any, *, with_labels: bool) -> None:
        self.client = client_here()
        # before anybody computes: what a collection does not know of itself its workers will tell
        parts = [row_blocks("X", X), row_blocks("y", cut_alike("y", y, X))]
        if sample_weight is not None:
            parts.append(row_blocks("sample_weight", cut_alike("sample_weight", sample_weight, X)))
        if len(set(map(len, parts))) > 1:
            counts = " and ".join(str(len(part)) for part in parts)
            raise ValueError(f"X, y and weights are in {counts} partitions: cut them alike.")
        calls = [delayed(block_of, *pieces) for pieces in zip(*parts, strict=True)]
        names = getattr(X, "columns", None)
        self.columns = None if names is None else tuple(names)
        self._asked = 0.0
        self._there: dict[str, int] = {}
        self._missing_since: float | None = None
        self.problems: list[Call] = []
        self._open: set[Call] = set()  # that somebody waits for
        self.owners = Owners([])
        with large_graphs():
            self._blocks = self.client.compute(calls, sync=False)
        try:
            self._look(with_labels)
        except BaseException:
            self.close()
            raise

    def _look(self, with_labels: bool) -> None:
        ask = functools.partial(facts_of, with_labels=with_labels)
        facts: list[Facts] = self.results([Call(self.client, ask, (b,)) for b in self._blocks])
        full = [p for p, fact in enumerate(facts) if fact.n_rows]
        if not full:
            raise ValueError("Found array with 0 sample(s): no partition of X has rows.")
        self._blocks = [self._blocks[p] for p in full]
        self.facts = [facts[p] for p in full]
        for what in ("n_features", "is_sparse"):
            found = sorted({getattr(fact, what) for fact in self.facts})
            if len(found) > 1:
                kind = "features" if what == "n_features" else "kinds, dense and CSR"
                raise ValueError(f"Partitions of X have unlike {kind}: {found}.")
        self._check_columns(full)
        if not self.n_features:
            raise ValueError("Found array with 0 feature(s): X has no columns.")
        if self.weight_sum == 0.0:
            raise ValueError("The weights of all rows are zero, which leaves nothing to fit.")
        held = self.client.who_has(self._blocks)
        there = self.there()
        first = next(iter(there))
        has = [next(iter(held.get(block.key) or ()), first) for block in self._blocks]
        self.owners = Owners(has)
        self.owners.settle(there)

    def _check_columns(self, numbers: list[int]) -> None:
        """Refuse partitions of columns by other names, or in another order, than the first's.

        Of names scikit-learn asks the same between `fit` and `predict`.
        """
        first = "the collection"
        if self.columns is None:
            first, self.columns = f"partition {numbers[0]}", self.facts[0].columns
        for number, fact in zip(numbers, self.facts, strict=True):
            if fact.columns == self.columns:
                continue
            raise ValueError(
                f"The columns of partition {number} of X are {_listed(fact.columns)}, and those of "
                f"{first} {_listed(self.columns)}: all need the same names in the same order, as "
                "X[names] has them."
            )

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return self.facts[0].n_features

    @property
    def sizes(self) -> np.ndarray:
        """Rows of each partition."""
        return np.array([fact.n_rows for fact in self.facts], np.int64)

    @property
    def n_rows(self) -> int:
        """Rows of all partitions."""
        return int(self.sizes.sum())

    @property
    def weight_sum(self) -> float:
        """The sum of all rows' weights."""
        return float(sum(fact.weight for fact in self.facts))

    @property
    def dtype(self) -> np.dtype:
        """What all rows are taken as: float32 if all are."""
        return np.result_type(*(np.dtype(fact.dtype) for fact in self.facts))

    def labels(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sorted labels of all partitions, how often each occurs, and the sums of their weights."""
        classes = np.unique(np.concatenate([fact.labels for fact in self.facts]))
        counts, weights = np.zeros(len(classes), np.int64), np.zeros(len(classes))
        for fact in self.facts:
            places = np.searchsorted(classes, fact.labels)
            counts[places] += fact.counts
            weights[places] += fact.weights
        return classes, counts, weights

    def unlikeness(self) -> float:
        """The largest share of a partition's labels that would be others if it were like all rows.

        0 of a regression: what is alike in numbers, nobody knows.
        """
        classes, counts, _ = self.labels()
        largest = 0.0
        for fact in self.facts if len(classes) else ():
            here = np.zeros(len(classes))
            here[np.searchsorted(classes, fact.labels)] = fact.counts
            apart = np.abs(here / fact.n_rows - counts / counts.sum()).sum() / 2
            # of a few rows chance alone makes that much
            chance = 2.0 * np.sqrt(len(classes) / fact.n_rows)
            largest = max(largest, float(apart) - chance)
        return largest

    def state(self, meaning: Meaning) -> None:
        """Have every worker make problems of its partitions."""
        self.problems = [
            self.submit(problem_of, self._blocks[p], meaning, partition=p)
            for p in range(len(self._blocks))
        ]

    def submit(self, function: Callable[..., Any], *args: Any, partition: int) -> Call:
        """Have a partition's owner call a function; somebody else, if that one is gone by then."""
        return Call(self.client, function, args, self.owners.of[partition])

    def fetch(self, call: Call, tell: Callable[[Call, Fetched], object]) -> None:
        """As `Call.fetch`; it is made again where its worker leaves, until `taken`."""
        self._open.add(call)
        call.fetch(tell)

    def taken(self, call: Call) -> None:
        """Nobody waits for a call any more, which has been fetched."""
        self._open.discard(call)
        call.release()

    def cancel(self, calls: Iterable[Call]) -> None:
        """Have nobody work on calls any more."""
        self._open.difference_update(calls)
        self.client.cancel([call.future for call in calls])

    def total(self, function: Callable[..., Any], *args: Any) -> Any:
        """The sum over partitions of a tuple of arrays that a function of their problems gives.

        Each owner's are added where they are, in the partitions' order.
        """
        self.there()
        mine: dict[str, list[int]] = {}
        for p, address in enumerate(self.owners.of):
            mine.setdefault(address, []).append(p)
        sums = []
        for parts in mine.values():
            given = [self.submit(function, self.problems[p], *args, partition=p) for p in parts]
            sums.append(self.submit(added, *given, partition=parts[0]))
        return added(*self.results(sums))

    def results(self, calls: Sequence[Call]) -> list[Any]:
        """Results of all calls, for which this waits as long as there are workers.

        Raises ValueError, TypeError or MemoryError if a task is refused, as it was; RuntimeError if
        the cluster has given one up, a loader raised, or there are no workers any more.
        """
        done: SimpleQueue[tuple[Call, Fetched]] = SimpleQueue()
        for call in calls:
            self.fetch(call, lambda *told: done.put(told))
        waiting = set(calls)
        while waiting:
            try:
                call, fetched = done.get(timeout=MEMBERS_SECONDS)
            except Empty:
                self.there()
                continue
            if call.fetched is fetched:
                waiting.discard(call)
                self.taken(call)
        return [result_of(call.fetched) for call in calls if call.fetched is not None]

    def there(self) -> dict[str, int]:
        """Workers that are there and their threads, asked now and then; partitions are settled.

        Raises RuntimeError if all have been gone for long.
        """
        now = time.monotonic()
        if now - self._asked < MEMBERS_SECONDS:
            return self._there
        self._asked = now
        there = threads_of(self.client)
        if not there:
            self._missing_since = self._missing_since or now
            if now - self._missing_since > WITHOUT_WORKERS_SECONDS:
                raise RuntimeError(
                    f"the cluster has had no workers for {WITHOUT_WORKERS_SECONDS:.0f} s: start "
                    "some, and fit again."
                )
            return self._there
        self._missing_since = None
        if there != self._there:
            self.owners.settle(there)
            for call in [*self.problems, *self._open]:
                call.settle(there)
        self._there = there
        return there

    def close(self) -> None:
        """Let go of what the cluster keeps for this."""
        for each in [*self.problems, *self._blocks]:
            each.release()
        self.problems, self._blocks = [], []
        self._open.clear()

    def __enter__(self) -> PartitionedRows:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def added(*parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """The sum of tuples of numbers and arrays, place by place."""
    return tuple(sum(place[1:], start=place[0]) for place in zip(*parts, strict=True))


def result_of(fetched: Fetched) -> Any:
    """What a call has come to.

    Raises ValueError, TypeError or MemoryError as the call has; RuntimeError if the cluster has
    given it up.
    """
    try:
        return fetched.result()
    except (ValueError, TypeError, MemoryError):
        raise
    except Exception as error:
        raise RuntimeError(
            "a partition could not be fitted on the cluster: "
            f"{type(error).__name__}: {error}. Who loads it or works on it has failed, as often as "
            "the cluster tries again; see the workers' logs."
        ) from error


def _listed(columns: tuple[Any, ...] | None) -> str:
    if columns is None:
        return "without names"
    names = [repr(name) for name in columns[:MOST_NAMES]]
    return ", ".join([*names, "..."] if len(columns) > MOST_NAMES else names)
