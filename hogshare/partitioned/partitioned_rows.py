"""Rows of Dask collections in the client: futures of partitions, and descriptions of them.

Writers: the workers make blocks and problems and store them, on disk when memory is short. Dask
recomputes the data of a lost worker from the collections' graphs. Readers: the tasks that receive a
future. The client receives only facts (descriptions of blocks) and sums. A call that prefers a
worker is made again when that worker leaves (`hogshare.partitioned.cluster_calls`). Freeing:
`close` releases the futures; it does not close the client, which belongs to the caller.
"""

from __future__ import annotations

import functools
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from queue import Empty, Queue
from types import TracebackType
from typing import Any

import numpy as np

from hogshare.optimum.compression import (
    CompressedRows,
    WeightedMeans,
    condensed_from,
    moments_of,
    united,
)
from hogshare.optimum.held_out_scores import Scores
from hogshare.partitioned.cluster_calls import ClusterCall, Fetched
from hogshare.partitioned.owners import Owners
from hogshare.partitioned.partition_blocks import (
    Facts,
    Meaning,
    Split,
    block_of,
    facts_of,
    held_out_moments,
    held_out_spread,
    in_order,
    problem_of,
    sums_of_block,
    triangle_of_block,
)
from hogshare.problems.kernel_arrays import require_unmasked
from hogshare.system.clusters import (
    MEMBERS_SECONDS,
    delayed,
    large_graphs,
    local_client,
    memory_of,
    pieces,
    settle_releases,
    threads_of,
)

LONG_VALUES = 4_000_000  # stored values of a thread's rows, over which a pass takes about 10 ms
MOST_NAMES = 8  # most names of columns in a message
UNLIKE = {
    "n_features": "features",
    "is_sparse": "kinds, dense and CSR",
    "n_targets": "numbers of targets",
}
WITHOUT_WORKERS_SECONDS = 60.0  # time without workers after which a cluster is given up


Step = tuple[Callable[..., Any], tuple[Any, ...]]  # function(part, *arguments)


class Cached:
    """A handle of a function's results for every partition, which stay on the workers.

    The function is applied to each partition's problem, or to each result of another handle. If
    passes over the rows are long, the workers cache the results at the first request. Otherwise
    they cache the results at the second request, because a second pass may cost less than an extra
    task before every sum.

    function, args : ``function(part, *args)`` returns the result for a part
    of : the handle whose results are the parts; None for the partitions' problems
    calls : calls whose results are lists of results; None if the results are not cached
    """

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], of: Cached | None):
        self.steps: list[Step] = [(function, args)]
        self.of: Cached | None = of
        if of is not None and of.calls is None:
            self.steps, self.of = [*of.steps, *self.steps], of.of
        self.calls: list[ClusterCall] | None = None
        self.used = False


class PartitionedRows:
    """Rows, targets and weights in partitions on a cluster's workers.

    X : rows, whose blocks are dense or CSR
    with_targets : whether y is needed
    with_labels : whether targets are labels, whose distinct values are then found
    columns : names of the data frames' columns, the same in all partitions
    facts : descriptions of the partitions that have rows
    problems : calls that make the partitions' problems; empty before `state` has been called
    owners : owner of each partition that has rows

    Must be closed by `close`, or used in a ``with`` statement.

    Raises ImportError, ValueError or TypeError if there is no cluster or the input is not valid,
    before anything is fitted.
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        *,
        with_labels: bool = False,
        with_targets: bool = True,
    ) -> None:
        self.client = local_client()
        # pieces are cut before anything is computed; the workers later report unknown lengths
        others = {"y": y} if with_targets else {}
        if sample_weight is not None:
            others["sample_weight"] = sample_weight
        for name, one in others.items():
            require_unmasked(name, one)
        parts = pieces(X, **others)
        absent = [None] * len(parts["X"])
        all_three = (parts.get(name, absent) for name in ("X", "y", "sample_weight"))
        calls = [delayed(block_of, *pieces) for pieces in zip(*all_three, strict=True)]
        names = getattr(X, "columns", None)
        self.columns = None if names is None else tuple(names)
        self._asked = 0.0
        self._present: dict[str, int] = {}
        self._missing_since: float | None = None
        self.problems: list[ClusterCall] = []
        self._open: set[ClusterCall] = set()  # calls whose results are being fetched
        self.owners = Owners([])
        settle_releases()
        with large_graphs():
            self._blocks = self.client.compute(calls, sync=False)
        try:
            self._read_facts(with_labels)
        except BaseException:
            self.close()
            raise

    def _read_facts(self, with_labels: bool) -> None:
        ask = partial(facts_of, with_labels=with_labels)
        facts: list[Facts] = self.results(
            [ClusterCall(self.client, ask, (b,)) for b in self._blocks]
        )
        full = [p for p, fact in enumerate(facts) if fact.n_rows]
        if not full:
            raise ValueError("Found array with 0 sample(s): no partition of X has rows.")
        self._blocks = [self._blocks[p] for p in full]
        self.facts = [facts[p] for p in full]
        for what in ("n_features", "is_sparse", "n_targets"):
            found = sorted({getattr(fact, what) for fact in self.facts})
            if len(found) > 1:
                kind = UNLIKE[what]
                raise ValueError(f"Partitions have unlike {kind}: {found}.")
        if with_labels:
            self.require_one_target()
        self._order_columns(full)
        if not self.n_features:
            raise ValueError("Found array with 0 feature(s): X has no columns.")
        if self.weight_sum == 0.0:
            raise ValueError("The weights of all rows are zero, which leaves nothing to fit.")
        copies = self.client.who_has(self._blocks)
        present = self.workers_present()
        first = next(iter(present))
        has = [next(iter(copies.get(block.key) or ()), first) for block in self._blocks]
        self.owners = Owners(has)
        self.owners.settle(present)

    def _order_columns(self, numbers: list[int]) -> None:
        """Reorder the columns of all partitions by name, in the order of `columns`.

        If the collection has no names, sets `columns` to the first partition's names.

        numbers : number in the collection of each partition that has rows
        """
        first = "the collection"
        if self.columns is None:
            first, self.columns = f"partition {numbers[0]}", self.facts[0].columns
        for k, (number, fact) in enumerate(zip(numbers, self.facts, strict=True)):
            names = fact.columns
            if names == self.columns:
                continue
            if not (names and self.columns) or Counter(names) != Counter(self.columns):
                raise ValueError(
                    f"The columns of partition {number} of X are {_listed(names)}, and those of "
                    f"{first} {_listed(self.columns)}: all need the same names."
                )
            places = [names.index(name) for name in self.columns]
            self._blocks[k] = self.client.submit(in_order, self._blocks[k], places, pure=False)

    def require_one_target(self) -> None:
        """Refuse targets with several columns."""
        if count := self.facts[0].n_targets:
            raise ValueError(
                f"y should be a 1d array, got an array of shape {(self.n_rows, count)} instead."
            )

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return self.facts[0].n_features

    @property
    def sizes(self) -> np.ndarray:
        """Number of rows of each partition."""
        return np.array([fact.n_rows for fact in self.facts], np.int64)

    @property
    def n_rows(self) -> int:
        """Number of rows of all partitions."""
        return int(self.sizes.sum())

    @property
    def weight_sum(self) -> float:
        """The sum of all rows' weights."""
        return float(sum(fact.weight for fact in self.facts))

    @property
    def dtype(self) -> np.dtype:
        """Type of all rows in the fit: float32 if all partitions have float32, else float64."""
        return np.result_type(*(np.dtype(fact.dtype) for fact in self.facts))

    @property
    def is_sparse(self) -> bool:
        """Whether the blocks are CSR."""
        return self.facts[0].is_sparse

    def labels(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the distinct labels of all partitions, sorted, with counts and sums of weights.

        The counts and sums are those of each label's rows.
        """
        classes = np.unique(np.concatenate([fact.labels for fact in self.facts]))
        counts, weights = np.zeros(len(classes), np.int64), np.zeros(len(classes))
        for fact in self.facts:
            places = np.searchsorted(classes, fact.labels)
            counts[places] += fact.counts
            weights[places] += fact.weights
        return classes, counts, weights

    def unlikeness(self) -> float:
        """Return how much the labels of a partition differ from the labels of all rows, at most.

        For a partition, the measure is the share of rows whose labels would have to change to give
        the labels the same frequencies as in all rows, minus the share that chance explains. It is
        0 for a regression.
        """
        classes, counts, _ = self.labels()
        largest = 0.0
        for fact in self.facts if len(classes) else ():
            own = np.zeros(len(classes))
            own[np.searchsorted(classes, fact.labels)] = fact.counts
            distance = np.abs(own / fact.n_rows - counts / counts.sum()).sum() / 2
            # with few rows, chance alone makes this difference
            chance = 2.0 * np.sqrt(len(classes) / fact.n_rows)
            largest = max(largest, float(distance) - chance)
        return largest

    def state(self, meaning: Meaning) -> None:
        """Submit calls that make each partition's problem on its owner; set `problems`."""
        self.problems = [
            self.submit(problem_of, self._blocks[p], meaning, partition=p)
            for p in range(len(self._blocks))
        ]

    def submit(self, function: Callable[..., Any], *args: Any, partition: int) -> ClusterCall:
        """Submit a call of a function to a partition's owner, and return the call.

        If the owner has left, another worker makes the call.

        partition : number of the partition
        """
        return ClusterCall(self.client, function, args, self.owners.of[partition])

    def fetch(self, call: ClusterCall, notify: Callable[[ClusterCall, Fetched], object]) -> None:
        """Fetch a result as `ClusterCall.fetch` does; repeat the call if its worker leaves.

        Calls are no longer repeated after `taken`.
        """
        self._open.add(call)
        call.fetch(notify)

    def taken(self, call: ClusterCall) -> None:
        """Release a call whose result has been received."""
        self._open.discard(call)
        call.release()

    def scores(self, split: Split) -> Scores:
        """Return the constants that convert sums over held-out rows into scores.

        Raises ValueError if no row is held out, or no row is left to train on.
        """
        (moments,) = self.reduced(added, held_out_moments, split, numbered=True)
        n_rows, weight, total = moments
        if not 0 < n_rows < self.n_rows or weight <= 0.0:
            raise ValueError(
                f"Splitting {self.n_rows} samples into a train set and a validation set with "
                f"validation_fraction={split.fraction!r} led to an empty set ("
                f"{self.n_rows - n_rows:g} and {n_rows:g} samples). Please either change "
                "validation_fraction, increase number of samples, or disable early_stopping."
            )
        (spread,) = self.reduced(added, held_out_spread, split, total / weight, numbered=True)
        return Scores(n_rows, weight, spread, not self.facts[0].labels.size)

    def moments(self, fit_intercept: bool) -> WeightedMeans:
        """Return the total weight of all rows, and the means of X and y.

        The means are zeros without an intercept.
        """
        (sums,) = self.reduced(added, sums_of_block, blocks=True)
        return moments_of(sums, self.n_features, fit_intercept)

    def condensed(self, fit_intercept: bool) -> CompressedRows:
        """Return few rows that are equivalent to the rows of all partitions in least squares."""
        moments = self.moments(fit_intercept)
        triangle = self.reduced(united, triangle_of_block, moments, blocks=True)
        return condensed_from(united(triangle), moments)

    def reduced(
        self,
        combine: Callable[..., Any],
        function: Callable[..., Any],
        *args: Any,
        of: Cached | None = None,
        blocks: bool = False,
        numbered: bool = False,
    ) -> Any:
        """Apply a function to every partition's problem, and return the combined results.

        Each thread combines the results of its partitions; then the client combines the results of
        all threads.

        combine : ``combine(*results)`` makes one result from any number of results
        function, args : ``function(part, *args)`` returns the result for a part
        of : cached results, which are the parts in place of the problems
        blocks : whether the partitions' blocks are the parts in place of the problems
        numbered : whether the function receives the partition's number after the part
        """
        step = function, args
        if of is None:
            parts = self._blocks if blocks else self.problems
            calls = self._applied(combine, [step], parts, numbered)
        elif not (of.used or self._passes_are_long):
            of.used = True
            calls = self._on_cached(combine, [*of.steps, step], of.of)
        else:
            calls = self._on_cached(combine, [step], of)
        return combine(*self.results(calls))

    @property
    def _passes_are_long(self) -> bool:
        """Whether a pass takes longer than a task."""
        values = sum(fact.nnz for fact in self.facts)
        return values > LONG_VALUES * sum(self.workers_present().values())

    def _on_cached(
        self, combine: Callable[..., Any] | None, steps: list[Step], of: Cached | None
    ) -> list[ClusterCall]:
        """Return calls that apply steps to cached results, which are computed first if necessary.

        combine, steps : as in `applied`
        of : the cached results; None for the partitions' problems
        """
        if of is None:
            return self._applied(combine, steps, self.problems)
        if of.calls is None:
            of.calls = self._on_cached(None, of.steps, of.of)
        present = self.workers_present()
        for call in of.calls:
            call.settle(present)
        return [
            ClusterCall(self.client, applied, (combine, steps, None, call), call.address)
            for call in of.calls
        ]

    def _applied(
        self,
        combine: Callable[..., Any] | None,
        steps: list[Step],
        parts: Sequence[Any],
        numbered: bool = False,
    ) -> list[ClusterCall]:
        """Return calls of `applied`, one for each thread that has partitions.

        parts : the parts of all partitions
        numbered : whether functions receive the partition's number
        """
        present, calls = self.workers_present(), []
        for address, own in self.owners.partitions().items():
            for few in np.array_split(own, min(len(own), present.get(address, 1))):
                numbers = few.tolist() if numbered else None
                given = combine, steps, numbers, *(parts[p] for p in few)
                calls.append(ClusterCall(self.client, applied, given, address))
        return calls

    def whole(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return ``function(*args, *blocks)``, called on the worker that has the most rows.

        Raises ValueError if the rows need more than half of that worker's memory.
        """
        present, memory = self.workers_present(), memory_of(self.client)
        rows = dict.fromkeys(present, 0)
        for address, size in zip(self.owners.of, self.sizes, strict=True):
            rows[address] += int(size)
        most = max(rows, key=lambda address: (rows[address], memory.get(address, 0)))
        capacity, needed = memory.get(most, 0), sum(fact.n_bytes for fact in self.facts)
        if len(self._blocks) > 1 and capacity and needed > capacity // 2:
            raise ValueError(
                f"The rows of X take {needed / 1e9:.3g} GB. This solver needs them all on one "
                f"worker, which has {capacity / 1e9:.3g} GB of memory, and may use half of it: "
                "give the worker more memory, or pass fewer rows."
            )
        (found,) = self.results([ClusterCall(self.client, function, (*args, *self._blocks), most)])
        return found

    def results(self, calls: Sequence[ClusterCall]) -> list[Any]:
        """Wait for the results of all calls as long as the cluster has workers; return the results.

        Raises the ValueError, TypeError or MemoryError of a task that refused its input;
        RuntimeError if the cluster has given up a task, a loader raised, or no workers are left.
        """
        done: Queue[tuple[ClusterCall, Fetched]] = Queue()
        for call in calls:
            self.fetch(call, lambda *fetched: done.put(fetched))
        waiting = set(calls)
        while waiting:
            try:
                call, fetched = done.get(timeout=MEMBERS_SECONDS)
            except Empty:
                self.workers_present()
                continue
            # another result is from an earlier attempt, after which the call was made again
            if call.fetched is fetched:
                waiting.discard(call)
                self.taken(call)
        return [result_of(call.fetched) for call in calls if call.fetched is not None]

    def workers_present(self, *, anew: bool = False) -> dict[str, int]:
        """Return each present worker's number of threads, and reassign partitions of lost workers.

        anew : whether to query the cluster now; if False, it is queried at most every
            `MEMBERS_SECONDS`

        Raises RuntimeError if no worker has been present for `WITHOUT_WORKERS_SECONDS`.
        """
        now = time.monotonic()
        if not anew and now - self._asked < MEMBERS_SECONDS:
            return self._present
        self._asked = now
        present = threads_of(self.client)
        if not present:
            # workers may be restarting: use the last known workers until the limit
            self._missing_since = self._missing_since or now
            if now - self._missing_since > WITHOUT_WORKERS_SECONDS:
                raise RuntimeError(
                    f"the cluster has had no workers for {WITHOUT_WORKERS_SECONDS:.0f} s: start "
                    "workers, and fit again."
                )
            return self._present
        self._missing_since = None
        if present != self._present:
            self.owners.settle(present)
            for call in [*self.problems, *self._open]:
                call.settle(present)
        self._present = present
        return present

    def close(self) -> None:
        """Release everything that the cluster stores for these rows."""
        for each in [*self.problems, *self._blocks]:
            each.release()
        self.problems, self._blocks = [], []
        self._open.clear()
        settle_releases()

    def __enter__(self) -> PartitionedRows:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def applied(
    combine: Callable[..., Any] | None,
    steps: list[Step],
    numbers: Sequence[int] | None,
    *parts: Any,
) -> Any:
    """On a worker, apply `steps` in order to several parts, and return the results.

    combine : function that combines two results; if None, return the list of all results
    steps : functions and their arguments after the part
    numbers : numbers of the parts, which functions receive after the part; None for no numbers
    parts : the parts, or one list of parts, which is the result of an earlier call
    """
    if len(parts) == 1 and isinstance(parts[0], list):
        (parts,) = parts
    labels = [()] * len(parts) if numbers is None else [(number,) for number in numbers]

    def made(part: Any, which: tuple[int, ...]) -> Any:
        for function, args in steps:
            part = function(part, *which, *args)
        return part

    each = (made(part, which) for part, which in zip(parts, labels, strict=True))
    # a generator, so that at any time only one result exists besides the combined result
    return list(each) if combine is None else functools.reduce(combine, each)


def added(*parts: Sequence[Any]) -> list[Any]:
    """Add sequences of numbers and arrays, element by element."""
    return [sum(place[1:], start=place[0]) for place in zip(*parts, strict=True)]


def result_of(fetched: Fetched) -> Any:
    """Return the result of a call, which must have arrived.

    Raises the ValueError, TypeError or MemoryError of the call; RuntimeError if the cluster has
    given up the call.
    """
    try:
        return fetched.result()
    except (ValueError, TypeError, MemoryError):
        raise
    except Exception as error:
        raise RuntimeError(
            "a partition could not be fitted on the cluster: "
            f"{type(error).__name__}: {str(error).rstrip('.')}. Loading or fitting it has "
            "failed as often as the cluster tries again ('distributed.scheduler.allowed-failures' "
            "in Dask's settings, if workers have died); see the workers' logs."
        ) from error


def _listed(columns: tuple[Any, ...] | None) -> str:
    if columns is None:
        return "without names"
    names = [repr(name) for name in columns[:MOST_NAMES]]
    return ", ".join([*names, "..."] if len(columns) > MOST_NAMES else names)
