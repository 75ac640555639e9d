"""What rows, exchanges and messages of a real run cost, from its report.

A worker's quanta have one time each for rows and exchanges together, and both grow alike: an
exchange comes every so many rows. Least squares tells them apart where the proportion varies and
nobody disturbs the run; its standard error says whether it has. Otherwise an exchange costs what
the machine's constants say, and rows the rest.
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
from hogshare.kernels.schedule.quanta import DESCENT_FIRST, DESCENT_GROWTH, FIRST_INTERVAL, GROWTH
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

LEAST_QUANTA = 4  # of a run that has measured something
LEAST_SECONDS = 0.005  # of computing: more than a quantum of full length of up to seven workers
SEPARABLE = 0.2  # standard error of an exchange's cost, over the cost, up to which it is believed
OUTLIER = 1.5  # times the median row time, beyond which a quantum was interrupted
LARGEST_SHARE = 0.7  # of a run's computing that its exchanges and orders may be taken to be
EXCHANGE_NS = 350.0  # of an exchange besides its coordinates; measured with 123 of them
PASSES = 6  # reads and writes of a coordinate in an exchange: copy, base and shared vector
CACHED = 3.0  # times the stream from memory: vectors of 0.2 to 0.4 MB were exchanged so fast
ORDER_NS = 4.0  # of shuffling, per row
ALL_ALIKE = 1 << 60, 0.0  # rows before the first exchange, and growth, where neither counts
MOST_FACTORS = 512  # of block times that are drawn from
NS = 1e-9


@dataclass(frozen=True)
class RunCosts:
    """What a run has measured, in seconds.

    Attributes
    ----------
    row : float
        Visiting a row, shuffling left out.
    exchange : float
        An exchange of a private copy with the shared vector; 0 where there is none.
    order : float
        Shuffling the order of an epoch.
    message : float
        Of a master's time, for one message; 0 where there is no master, or it was not measured.
    outside : float
        Of the run before the first worker began and after the last ended.
    factors : float64 array
        Times of blocks over their mean.
    source : str
        Where `exchange` is from, in words.
    notes : tuple of str
        What makes these numbers doubtful.
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
    """What is read of a run's `Report`, which stands above this file."""

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
    """The facts of a report that a prediction needs; ValueError if it allows none.

    paces : by number of workers, where it is known: rows of a block, and between two exchanges
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
        self.turns = report.turns[report.turns[:, :, ROWS] > 0].astype(np.float64)
        self.rows = float(sum(worker["rows"] for worker in workers))
        self.blocks = float(sum(worker["blocks"] for worker in workers))
        self.pushes = float(sum(worker["pushes"] for worker in workers))
        busy = [worker["mean_block_seconds"] * worker["blocks"] for worker in workers]
        self.busy = float(sum(busy))
        if len(self.turns) < LEAST_QUANTA or self.busy < LEAST_SECONDS:
            raise ValueError(
                f"this run was too short to have measured anything: {self.busy * 1e3:.3g} ms of "
                f"computing in {len(self.turns)} turns, of at least {LEAST_SECONDS * 1e3:g} ms in "
                f"{LEAST_QUANTA}. Let it do more epochs."
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
        if by_gradient:  # the first exchanges come no sooner than later ones, of one worker none
            self._pace = ALL_ALIKE
            self._measured = self._measured or self.block_rows
        if not self._measured and self.exchanges and plane["exchange"] != "auto":
            # of one worker, who has nobody to exchange with
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
        # a block that was not chosen by the number of workers stays as it is
        self.adapts = self.block_rows == automatic and not (self.has_master or by_gradient)
        self.per_epoch = per_epoch

    def is_free(self, n_workers: int) -> bool:
        """Whether the barrier lets everybody pass."""
        return n_workers == 1 or numbers_of(self.barrier, n_workers)["barrier"] == codes.FREE

    def is_ordered(self, n_workers: int) -> bool:
        """Whether workers fold in their order: BSP on a plane that has an order."""
        ordered = self.exchanges or self.has_master
        return n_workers > 1 and ordered and is_bsp(self.barrier, n_workers)

    def rows_of_block(self, n_workers: int) -> int:
        """Rows of a block in a run with so many workers."""
        if n_workers in self.paces:
            return self.paces[n_workers][0]
        automatic = block_rows(self.n_rows, n_workers, self.per_epoch)
        if self.is_ordered(n_workers) and self.n_workers > 1:
            return min(self.block_rows, automatic)
        return automatic if self.adapts else self.block_rows

    def interval(self, n_workers: int) -> int:
        """Rows between two exchanges in a run with so many workers."""
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
        """Exchanges in a block of so many rows, on average over the run."""
        if not self.exchanges or n_workers == 1:
            return 0.0
        if self.is_ordered(n_workers):
            return 2.0  # a push and a pull
        if not self.is_free(n_workers):
            return math.ceil(n_rows / self.interval(n_workers)) + 1.0
        own = self.rows / n_workers
        return pushes_of(own, self.interval(n_workers), *self._pace) / own * n_rows


def pushes_of(n_rows: float, interval: int, first: int, growth: float) -> float:
    """Exchanges of a worker in the first `n_rows` rows of a new model: the first come sooner."""
    done, pushes = 0.0, 0.0
    while interval > first and done < min(interval / growth, n_rows):
        done += max(first, growth * done)
        pushes += 1.0
    return pushes + max(0.0, n_rows - done) / interval


def exchange_seconds(n_coordinates: int, itemsize: int) -> float:
    """Seconds of an exchange by the machine's constants.

    That of `hogshare.planes.shared` is meant to be cautious, and twice this. This one was within
    10 % of what was measured for 45,000 coordinates in float32 and float64, and 40 % for 123; since
    lines are asked for ahead, 45,000 in float32 take three quarters of it.
    """
    known = machine.load()
    streamed = PASSES * itemsize / (CACHED * known.stream_gb_per_second)
    fetched = LINE_TRANSFERS * known.line_transfer_ns * itemsize / LINE_BYTES
    return (EXCHANGE_NS + n_coordinates * (streamed + fetched)) * NS


def separate_costs(turns: np.ndarray, exchanges: np.ndarray) -> tuple[float, float, float]:
    """Seconds of a row and of an exchange by least squares, and the latter's relative error.

    Residuals count relative to the quantum's time. Quanta that were interrupted are left out. The
    error is the standard one, and infinite where a row and an exchange cannot be separated.

    turns : float64 (n_quanta, 4), of each quantum its blocks, rows, pushes and nanoseconds
    exchanges : float64 (n_quanta,)
    """
    per_row = turns[:, NANOSECONDS] / turns[:, ROWS]
    kept = per_row <= OUTLIER * np.median(per_row)
    seconds = turns[kept, NANOSECONDS] * NS
    design = np.column_stack([turns[kept, ROWS], exchanges[kept]]) / seconds[:, None]
    with DeferredSignals():  # what NumPy warns of is changed meanwhile
        if len(design) < LEAST_QUANTA or np.linalg.matrix_rank(design) < 2:
            return 0.0, 0.0, math.inf
        solution = np.linalg.lstsq(design, np.ones(len(design)), rcond=None)[0]
        # scaled, or the inverse of its square would lose all digits
        scale = np.linalg.norm(design, axis=0)
        inverse = np.linalg.inv((design / scale).T @ (design / scale))
    residual = np.square(design @ solution - 1.0).sum() / (len(design) - 2)
    error = math.sqrt(residual * inverse[1, 1]) / scale[1]
    row, exchange = (float(value) for value in solution)
    return row, exchange, error / exchange if exchange > 0.0 else math.inf


def costs_of(run: ReportFacts) -> RunCosts:
    """What the run has measured; see `RunCosts`."""
    notes = []
    exchange, source, done = 0.0, "there are none", 0.0
    order = ORDER_NS * NS * run.n_rows
    if run.exchanges:
        n_coordinates = run.n_features * run.n_columns * run.vectors
        exchange = exchange_seconds(n_coordinates, run.dtype.itemsize)
        source = "the machine's constants (hogshare info --probe)"
        if run.n_workers > 1:
            # behind a barrier a worker also fetches what the others have done, each block
            pulls = 0.0 if run.is_free(run.n_workers) else 1.0
            done = run.pushes + pulls * run.blocks
            counted = run.turns[:, PUSHES] + pulls * run.turns[:, BLOCKS]
            _, fitted, error = separate_costs(run.turns, counted)
            if error < SEPARABLE:
                exchange, source = fitted, f"least squares over {len(run.turns)} quanta"
    extra = exchange * done + order * run.epochs
    if extra > LARGEST_SHARE * run.busy:
        shrink = LARGEST_SHARE * run.busy / extra
        exchange, order, extra = exchange * shrink, order * shrink, extra * shrink
        notes.append(
            "exchanges and orders are taken to cost less than estimated, so that they are at most "
            f"{LARGEST_SHARE:.0%} of the run"
        )
    row = (run.busy - extra) / run.rows
    message = 0.0
    if run.mail is not None and run.mail["messages"]:
        message = run.mail["seconds"] / run.mail["messages"]
    modelled = row * run.turns[:, ROWS]
    if done:
        modelled = modelled + exchange * counted
    factors = _evened(run.turns[:, NANOSECONDS] * NS / modelled, run.turns[:, BLOCKS])
    return RunCosts(row, exchange, order, message, run.outside, factors, source, tuple(notes))


def _evened(factors: np.ndarray, blocks: np.ndarray) -> np.ndarray:
    """Factors of blocks: each quantum's as often as it had blocks, in few numbers of mean 1."""
    along = np.argsort(factors, kind="stable")
    ends = np.cumsum(blocks[along])
    n = int(min(ends[-1], MOST_FACTORS))
    places = np.searchsorted(ends, (np.arange(n) + 0.5) * ends[-1] / n)
    chosen = factors[along][places]
    return np.asarray(chosen / chosen.mean())
