"""Compute the costs of rows, exchanges and messages in a real run, from its report.

A quantum (the blocks of one compiled call) has one measured time for its rows and its exchanges.
The numbers of rows and of exchanges are nearly proportional, since an exchange follows a fixed
number of rows. Least squares can separate the two costs if the proportion varies and nothing
disturbs the run; its standard error shows whether it can. If it cannot, the machine's constants
give the cost of an exchange, and the remaining time is the cost of rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from hogshare.barriers import BuiltIn, is_bsp, named, numbers_of
from hogshare.kernels.schedule import barrier_codes as codes
from hogshare.kernels.schedule.shared_quanta import (
    DESCENT_FIRST,
    DESCENT_GROWTH,
    FIRST_INTERVAL,
    GROWTH,
)
from hogshare.planes.shared import (
    LINE_BYTES,
    LINE_TRANSFERS,
    descent_interval,
    exchange_interval,
)
from hogshare.problems.linear import effective_l1_ratio
from hogshare.problems.linear.row_arrays import block_rows
from hogshare.shm.speeds import BLOCKS, NANOSECONDS, PUSHES, ROWS
from hogshare.system import machine
from hogshare.system.interrupts import DeferredSignals

LEAST_QUANTA = 4  # fewer quanta are not a measurement
LEAST_SECONDS = 0.005  # of computing: more than a full quantum of each of up to seven workers
SEPARABLE = 0.2  # largest relative standard error at which a fitted exchange cost is used
OUTLIER = 1.5  # times the median row time: slower quanta were interrupted
LARGEST_SHARE = 0.7  # largest share of a run's computing attributed to exchanges and orders
EXCHANGE_NS = 350.0  # fixed part of an exchange; measured with 123 coordinates
PASSES = 6  # reads and writes of a coordinate in an exchange: copy, base and shared vector
CACHED = 3.0  # speed over the stream from memory, measured for vectors of 0.2 to 0.4 MB
ORDER_NS = 4.0  # shuffling, per row
ALL_ALIKE = 1 << 60, 0.0  # first exchange and growth for intervals that do not grow
MOST_FACTORS = 512  # block time factors to draw from
NS = 1e-9


@dataclass(frozen=True)
class RunCosts:
    """The measured costs of a run, in seconds.

    Attributes
    ----------
    row : float
        Seconds to visit a row, without shuffling.
    exchange : float
        Seconds of an exchange of a private copy with the shared vector; 0 without exchanges.
    order : float
        Seconds to shuffle the row order of an epoch.
    message : float
        Seconds of a master for one message; 0 without a master, or if it was not measured.
    outside : float
        Seconds of the run before the first worker started and after the last worker ended.
    factors : float64 array
        Times of blocks, divided by their mean.
    source : str
        The source of `exchange`, as a phrase.
    notes : tuple of str
        Reasons to doubt these costs.
    """

    row: float
    exchange: float
    order: float
    message: float
    outside: float
    factors: np.ndarray
    source: str
    notes: tuple[str, ...] = ()


class Finished(Protocol):
    """The attributes of `Report` that this file reads; it must not import `hogshare.report`."""

    settings: dict[str, Any]
    machine: dict[str, Any]
    n_epochs: int
    checks: list[dict[str, Any]]
    trace: Any
    workers: list[dict[str, Any]]
    turns: np.ndarray
    mail: dict[str, Any] | None
    seconds: dict[str, float]
    again: Any


class ReportFacts:
    """The facts of a report that a prediction needs; ValueError if they allow no prediction.

    paces : known paces by number of workers; a pace is the rows of a block, and the rows between
        two exchanges
    """

    def __init__(
        self, report: Finished, paces: Mapping[int, tuple[int, int]] = MappingProxyType({})
    ) -> None:
        if "virtual" in report.seconds:
            raise ValueError(
                "this report is of a simulated run, whose block times are a Simulator's: predict "
                "from a run in threads or processes, or simulate with more workers."
            )
        settings, workers = report.settings, report.workers
        self.quanta = report.turns[report.turns[:, :, ROWS] > 0].astype(np.float64)
        self.rows = float(sum(worker["rows"] for worker in workers))
        self.blocks = float(sum(worker["blocks"] for worker in workers))
        self.pushes = float(sum(worker["pushes"] for worker in workers))
        busy = [worker["mean_block_seconds"] * worker["blocks"] for worker in workers]
        self.busy = float(sum(busy))
        if len(self.quanta) < LEAST_QUANTA or self.busy < LEAST_SECONDS:
            raise ValueError(
                f"this run was too short for a measurement: {self.busy * 1e3:.3g} ms of computing "
                f"in {len(self.quanta)} quanta; at least {LEAST_SECONDS * 1e3:g} ms in "
                f"{LEAST_QUANTA} quanta are needed. Run more epochs."
            )
        waited = [worker["waiting_seconds"] for worker in workers]
        inside = max(spent + wait for spent, wait in zip(busy, waited, strict=True))
        self.seconds = float(report.seconds["run"])
        self.outside = max(0.0, self.seconds - inside)
        self.n_workers = int(settings["n_workers"])
        size = settings["problem"]
        by_gradient = "params" in size
        self.n_rows, self.n_columns = int(size["rows"]), int(size.get("columns", 1))
        self.n_features = int(size["params"] if by_gradient else size["features"])
        self.nnz = int(size.get("nonzeros", self.n_rows * self.n_features))
        self.is_sparse, self.dtype = size.get("format") == "csr", np.dtype(size["dtype"])
        self.epochs = self.rows / self.n_rows
        self.block_rows = int(settings["block_rows"])
        barrier = named(settings["barrier"])
        if barrier is None:
            raise ValueError(
                f"the barrier {settings['barrier']} is a function, and a prediction simulates "
                "built-in barriers: predict from a run behind one of those."
            )
        self.barrier: BuiltIn = barrier
        plane = settings["plane"]
        self.has_master = plane["name"] == "Master"
        self.exchanges = not self.has_master and plane.get("exchange") is not None
        self._l1 = 0.0 if by_gradient else effective_l1_ratio(size["penalty"], size["l1_ratio"])
        self.paces = paces
        descends = by_gradient or settings["rule"]["name"] == "SGD"
        self.remembers = not descends
        self._follows = plane.get("exchange") == "auto" and descends and not by_gradient
        self._pace = (DESCENT_FIRST, DESCENT_GROWTH) if descends else (FIRST_INTERVAL, GROWTH)
        self._measured = int(settings["exchange_rows"])
        if by_gradient:  # exchanges have a fixed interval; one worker has none
            self._pace = ALL_ALIKE
            self._measured = self._measured or self.block_rows
        if not self._measured and self.exchanges and plane["exchange"] != "auto":
            # one worker has no other to exchange with
            self._measured = int(plane["exchange"])
        # SAGA's average of its table is exchanged as well
        self.vectors = 2 if settings["rule"]["name"] == "SAGA" else 1
        self.mail = report.mail
        self.sleeps = settings["stragglers"] is not None
        self.evaluates = len(report.checks) > 0
        self.cores = report.machine.get("usable_cores")
        snapshots = 0 if report.trace is None else len(report.trace.epochs) - 1
        per_epoch = round(snapshots / max(1, report.n_epochs))
        automatic = block_rows(self.n_rows, self.n_workers, per_epoch)
        # a block size that does not depend on the number of workers stays the same
        self.adapts = self.block_rows == automatic and not (self.has_master or by_gradient)
        self.per_epoch = per_epoch

    def is_free(self, n_workers: int) -> bool:
        """Whether the barrier lets every worker pass."""
        return n_workers == 1 or numbers_of(self.barrier, n_workers)["barrier"] == codes.FREE

    def is_ordered(self, n_workers: int) -> bool:
        """Whether workers fold their changes in order: BSP on a plane that has an order."""
        ordered = self.exchanges or self.has_master
        return n_workers > 1 and ordered and is_bsp(self.barrier, n_workers)

    def rows_of_block(self, n_workers: int) -> int:
        """Return the rows of a block in a run with `n_workers` workers."""
        if n_workers in self.paces:
            return self.paces[n_workers][0]
        automatic = block_rows(self.n_rows, n_workers, self.per_epoch)
        if self.is_ordered(n_workers) and self.n_workers > 1:
            return min(self.block_rows, automatic)
        return automatic if self.adapts else self.block_rows

    def interval(self, n_workers: int) -> int:
        """Return the rows between two exchanges with `n_workers` workers; 0 without exchanges."""
        if n_workers in self.paces:
            return self.paces[n_workers][1]
        if self._measured and not (self._follows and n_workers != self.n_workers):
            return self._measured
        if not self.exchanges:
            return 0
        if self._follows:
            return descent_interval(self, self._l1, self.n_rows, n_workers)
        return exchange_interval(self)

    def exchanges_of_block(self, n_workers: int, n_rows: float) -> float:
        """Return the mean number of exchanges in a block of `n_rows` rows, over the run."""
        if not self.exchanges or n_workers == 1:
            return 0.0
        if self.is_ordered(n_workers):
            return 2.0  # a push and a pull
        if not self.is_free(n_workers):
            return math.ceil(n_rows / self.interval(n_workers)) + 1.0
        own = self.rows / n_workers
        return pushes_of(own, self.interval(n_workers), *self._pace) / own * n_rows


def pushes_of(n_rows: float, interval: int, first: int, growth: float) -> float:
    """Return the exchanges of a worker in the first `n_rows` rows of a new model.

    The first intervals have `first` rows; they grow with the rows visited, up to `interval`.
    """
    done, pushes = 0.0, 0.0
    while interval > first and done < min(interval / growth, n_rows):
        done += max(first, growth * done)
        pushes += 1.0
    return pushes + max(0.0, n_rows - done) / interval


def exchange_seconds(n_coordinates: int, itemsize: int) -> float:
    """Estimate the seconds of an exchange from the machine's constants.

    With 45,000 coordinates, in float32 and float64, the estimate was within 10 % of the measured
    seconds; with 123 coordinates it was within 40 %. Since cache lines are prefetched, 45,000
    coordinates in float32 take three quarters of it. The estimate in `hogshare.planes.shared` is
    deliberately cautious: it is twice this estimate.
    """
    known = machine.load()
    streamed = PASSES * itemsize / (CACHED * known.stream_gb_per_second)
    fetched = LINE_TRANSFERS * known.line_transfer_ns * itemsize / LINE_BYTES
    return (EXCHANGE_NS + n_coordinates * (streamed + fetched)) * NS


def separate_costs(quanta: np.ndarray, exchanges: np.ndarray) -> tuple[float, float, float]:
    """Fit the seconds of a row and of an exchange by least squares.

    Return the seconds of a row, the seconds of an exchange, and the relative standard error of an
    exchange. The error is infinite if the two costs cannot be separated. Residuals are relative to
    the time of the quantum; interrupted quanta are left out.

    quanta : float64 (n_quanta, 4); columns: blocks, rows, pushes and nanoseconds of each quantum
    exchanges : float64 (n_quanta,), number of exchanges in each quantum
    """
    per_row = quanta[:, NANOSECONDS] / quanta[:, ROWS]
    is_used = per_row <= OUTLIER * np.median(per_row)
    seconds = quanta[is_used, NANOSECONDS] * NS
    design = np.column_stack([quanta[is_used, ROWS], exchanges[is_used]]) / seconds[:, None]
    with DeferredSignals():  # NumPy's error state is changed meanwhile
        if len(design) < LEAST_QUANTA or np.linalg.matrix_rank(design) < 2:
            return 0.0, 0.0, math.inf
        solution = np.linalg.lstsq(design, np.ones(len(design)), rcond=None)[0]
        # scale the columns first: the inverse of the unscaled product would lose all digits
        scale = np.linalg.norm(design, axis=0)
        inverse = np.linalg.inv((design / scale).T @ (design / scale))
    residual = np.square(design @ solution - 1.0).sum() / (len(design) - 2)
    error = math.sqrt(residual * inverse[1, 1]) / scale[1]
    row, exchange = (float(value) for value in solution)
    return row, exchange, error / exchange if exchange > 0.0 else math.inf


def costs_of(run: ReportFacts) -> RunCosts:
    """Compute the costs of a run; see `RunCosts`."""
    notes = []
    exchange, source, done = 0.0, "there are none", 0.0
    order = ORDER_NS * NS * run.n_rows
    if run.exchanges:
        n_coordinates = run.n_features * run.n_columns * run.vectors
        exchange = exchange_seconds(n_coordinates, run.dtype.itemsize)
        source = "the machine's constants (hogshare info --probe)"
        if run.n_workers > 1:
            # under a barrier a worker also pulls the others' changes, once per block
            pulls = 0.0 if run.is_free(run.n_workers) else 1.0
            done = run.pushes + pulls * run.blocks
            counted = run.quanta[:, PUSHES] + pulls * run.quanta[:, BLOCKS]
            _, fitted, error = separate_costs(run.quanta, counted)
            if error < SEPARABLE:
                exchange, source = fitted, f"least squares over {len(run.quanta)} quanta"
    extra = exchange * done + order * run.epochs
    if extra > LARGEST_SHARE * run.busy:
        shrink = LARGEST_SHARE * run.busy / extra
        exchange, order, extra = exchange * shrink, order * shrink, extra * shrink
        notes.append(
            "the estimated costs of exchanges and orders are reduced to at most "
            f"{LARGEST_SHARE:.0%} of the run"
        )
    row = (run.busy - extra) / run.rows
    message = 0.0
    if run.mail is not None and run.mail["messages"]:
        message = run.mail["seconds"] / run.mail["messages"]
    modelled = row * run.quanta[:, ROWS]
    if done:
        modelled = modelled + exchange * counted
    factors = _evened(run.quanta[:, NANOSECONDS] * NS / modelled, run.quanta[:, BLOCKS])
    return RunCosts(row, exchange, order, message, run.outside, factors, source, tuple(notes))


def _evened(factors: np.ndarray, blocks: np.ndarray) -> np.ndarray:
    """Summarise the factors of all quanta, weighted by blocks, as a few factors of mean 1."""
    along = np.argsort(factors, kind="stable")
    ends = np.cumsum(blocks[along])
    n = int(min(ends[-1], MOST_FACTORS))
    places = np.searchsorted(ends, (np.arange(n) + 0.5) * ends[-1] / n)
    chosen = factors[along][places]
    return np.asarray(chosen / chosen.mean())
