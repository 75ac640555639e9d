"""One run's memory and the four things a worker does with it: join, take turns, record, leave.

Who writes: as `hogshare.kernels.epochs` and `hogshare.kernels.exchange` say for the shared arrays;
row `me` of every private array belongs to worker `me`. A snapshot's place is written by the worker
whose block made it due. Who frees: whoever allocated (the runtime: private memory, or an arena).

A session is arrays by name plus a few numbers, so that a process that is handed the arrays builds
the same session from them.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import typeof

from hogshare.engine.memory import fill_memory, sum_anew
from hogshare.engine.rules import SAGA, SDCA, SGD, Rule
from hogshare.engine.sampling import row_chances
from hogshare.engine.steps import StepSize, optimal_start
from hogshare.engine.stops import Stop
from hogshare.kernels import layout, losses, penalties, repair, saga, schedules, sgd, turns
from hogshare.kernels.epochs import Plan
from hogshare.kernels.epochs import Shared as SharedArrays
from hogshare.kernels.jit import JIT_DISABLED, is_cached
from hogshare.kernels.rows import Rows
from hogshare.planes.shared import EXCHANGE_SHARE, Shared, feature_curvature, feature_rarity
from hogshare.problems.linear import LinearProblem, effective_l1_ratio
from hogshare.problems.model import Model
from hogshare.problems.rows import windows

log = logging.getLogger("hogshare")

LINES = 128  # bytes: a cache line and the one fetched with it
MAX_BLOCK_ROWS = 8192
BLOCKS_PER_WORKER = 8  # per epoch: a slow worker delays its end by at most one block
DELAY = 8  # rows per row of age at which SAGA keeps what an exchange holds back
SPREAD = 16  # rows per row that all workers have between two exchanges, for rules with memory
DEAREST = 2.0  # estimate of an exchange's cost that SAGA bears, in its rows' time
FEWEST = 64  # rows between exchanges for them
LONGEST = 2.0 / 3.0  # step of SAGA that is stable on all rows tried, times L
SAMPLE_ROWS = 2048  # to tell the largest
MAX_HISTORY = 100_000
MAX_SNAPSHOT_BYTES = 2**31

Shapes = dict[str, tuple[tuple[int, ...], str]]


@dataclass(frozen=True)
class Settings:
    """Numbers that make a session out of arrays; plain data, so that they travel."""

    rule: dict[str, Any]
    plan: dict[str, Any]
    width: int
    n_features: int
    n_columns: int
    n_workers: int


def _padded(count: int, itemsize: int) -> int:
    """Elements of a row that ends on a 128-byte border, so that no two workers share a line."""
    per_line = LINES // itemsize
    return -(-max(count, 1) // per_line) * per_line


class Session:
    """The arrays of one run.

    Parameters
    ----------
    arrays : mapping of str to ndarray
        As `shapes` lists them, plus the rows' arrays.
    settings : Settings
    """

    def __init__(self, arrays: Mapping[str, np.ndarray], settings: Settings) -> None:
        self.arrays = arrays
        self.settings = settings
        self.rule = sgd.Rule(**settings.rule)
        self.plan = Plan(**settings.plan)
        rows = [arrays[name].view() for name in ROW_ARRAYS]
        for view in rows:
            view.flags.writeable = False
        self.rows = Rows(rows[0], rows[1], rows[2], settings.width, rows[3], rows[4])
        self.shared = SharedArrays(**{name: arrays[name] for name in SharedArrays._fields})
        self.size = settings.n_features * settings.n_columns
        self.take_turn = turns.TURNS[self.rule.method, self.plan.private == turns.LOCK_FREE]

    def private(self, me: int) -> sgd.Private:
        """Worker `me`'s own arrays."""
        fields = {}
        for name in ("copy", "base", "received", "lag", "average_copy", "average_base"):
            array = self.arrays[name]
            fields[name] = array[me, : self.size] if array.shape[1] else array[me]
        if self.plan.private == turns.ALONE:
            fields["copy"] = self.shared.w
            fields["average_copy"] = self.shared.average
        local = self.arrays["local"][me, : layout.N_LOCAL_FIELDS * self.settings.n_columns]
        return sgd.Private(
            fields["copy"],
            fields["base"],
            fields["received"],
            fields["lag"],
            local.reshape(layout.N_LOCAL_FIELDS, self.settings.n_columns),
            self.arrays["pending"][me],
            fields["average_copy"],
            fields["average_base"],
        )

    def worker(self, me: int) -> Worker:
        """What worker `me` calls."""
        return Worker(self, me)

    # -- words that the caller's side reads and writes ------------------------------------------

    def word(self, place: int) -> int:
        """A control word: an aligned load; what it orders is read after every worker has left."""
        return int(self.shared.control[place])

    def stop(self, reason: int = layout.STOPPED_BY_CALLER) -> None:
        """Ask all workers to stop at their next block; the first reason that is given stands."""
        turns.stop(self.shared.control, reason)

    def model(self) -> Model:
        """The model as it stands, averages included (exact once every worker has left)."""
        n_columns, shared = self.settings.n_columns, self.shared
        local = self._locals()
        coef = shared.w.reshape(-1, n_columns)
        intercept = shared.intercept
        if self.plan.private == turns.ALONE:
            # the one worker's scale and intercept stand beside the vector until it leaves
            coef = (coef * local[0, layout.L_SCALE]).astype(shared.w.dtype)
            intercept = local[0, layout.L_INTERCEPT]
        coef = shrunk(np.array(coef.T, order="C"), self.rule.threshold)
        intercept = intercept.astype(shared.w.dtype)
        t = self.rule.first_t + self.word(layout.EPOCHS) * float(shared.order.shape[1])
        if not self.rule.average:
            return Model(coef, intercept, t)
        counts = local[:, layout.L_AVERAGE_COUNT]
        count = counts.sum(axis=0)
        total = self.arrays["lag"][:, : self.size].sum(axis=0)
        # what is not in the lag yet: see `hogshare.kernels.sgd`
        lock_free = self.plan.private == turns.LOCK_FREE
        weights = counts if lock_free else local[:, layout.L_AVERAGE_SCALE]
        for k in np.flatnonzero(weights.any(axis=1)):
            w = shared.w if lock_free else self.private(int(k)).w
            total = total + np.tile(weights[k], self.settings.n_features) * w
        before = max(0.0, self.rule.first_t - self.rule.average)
        total = total.reshape(-1, n_columns).T + before * self.arrays["average_coef"]
        bias = local[:, layout.L_AVERAGE_INTERCEPT].sum(axis=0)
        bias = bias + before * self.arrays["average_intercept"]
        share = 1.0 / np.maximum(count + before, 1.0)
        return Model(
            coef,
            intercept,
            t,
            (total * share[:, None]).astype(coef.dtype),
            (bias * share).astype(coef.dtype),
        )

    def put_intercept(self, intercept: np.ndarray) -> None:
        """Move the intercepts while nobody works; whoever joins again starts from there."""
        self.shared.intercept[:] = intercept
        if self.plan.private == turns.ALONE:
            self._locals()[0, layout.L_INTERCEPT] = intercept

    def rests(self) -> bool:
        """Whether the epochs up to the limit are done and every worker has pushed what it had."""
        return (
            self.word(layout.LIMIT) <= self.word(layout.EPOCHS) < self.plan.max_epochs
            # by their states: LIVE may be one off after a death inside of joining or leaving
            and not np.isin(self.shared.table[:, layout.T_STATE], layout.IN_RUN).any()
            and self.word(layout.STOP) == layout.RUNNING
        )

    def raise_limit(self, epochs: int) -> None:
        """Let workers that rest go on up to so many epochs."""
        self.shared.control[layout.LIMIT] = min(epochs, self.plan.max_epochs)

    def restore_sums(self) -> None:
        """Make what is bound to be a sum over the rows that sum again, if a worker has died.

        During the run that is done too (`turns.pause`); this is for a death that came at the end.
        """
        if self._lost_anyone():
            sum_anew(self)

    def _lost_anyone(self) -> bool:
        return bool((self.shared.table[:, layout.T_STATE] == layout.DEAD).any())

    def restore_at_rest(self) -> bool:
        """`restore_sums` while all rest; False if a worker that joined late is just about it."""
        if not self._lost_anyone():
            return True
        me = self.settings.n_workers + 1  # the caller, beside the workers
        if not repair.take_sums(self.shared.control, me):
            return False
        self.restore_sums()
        repair.give_sums_back(self.shared.control)
        return True

    def _locals(self) -> np.ndarray:
        n = layout.N_LOCAL_FIELDS * self.settings.n_columns
        return self.arrays["local"][:, :n].reshape(
            self.settings.n_workers, layout.N_LOCAL_FIELDS, self.settings.n_columns
        )


def shrunk(coef: np.ndarray, threshold: float) -> np.ndarray:
    """Move every coefficient towards zero: from the dual rule's vector to its model."""
    if threshold == 0.0:
        return coef
    sizes = np.maximum(np.abs(coef) - coef.dtype.type(threshold), 0.0)
    return np.copysign(sizes, coef).astype(coef.dtype)


_PREPARED: set[tuple[str, str, str]] = set()  # turns and types that this process has loaded
ROW_ARRAYS = ("row_data", "row_indices", "row_indptr", "row_y", "row_weight")


class Worker:
    """One worker's side of a session."""

    def __init__(self, session: Session, me: int) -> None:
        self.session = session
        self.me = me
        self.private = session.private(me)
        self.table = session.shared.table[me]
        self.scratch = session.arrays["scratch"][me]

    def prepare(self) -> None:
        """Load or compile the kernels for this session's types; a run does nothing else before."""
        s = self.session
        name = s.take_turn.__name__
        key = (name, s.shared.w.dtype.name, s.rows.indices.dtype.name)
        if key in _PREPARED or JIT_DISABLED:
            return
        if not is_cached(f"turns.{name}"):
            log.info("compiling; this takes some seconds, once per rule and type of number")
        turn = (s.rows, s.rule, s.plan, s.shared, self.private, self.scratch, self.me, 0)
        s.take_turn.compile(tuple(map(typeof, turn)))
        turns.join.compile(tuple(map(typeof, (s.rule, s.plan, s.shared, self.private, self.me))))
        turns.leave.compile(tuple(map(typeof, (s.rule, s.plan, s.shared, self.private, self.me))))
        # not when somebody wants to stop: that has to be quick
        turns.stop.compile(tuple(map(typeof, (s.shared.control, layout.STOPPED_BY_CALLER))))
        _PREPARED.add(key)

    def join(self) -> bool:
        """Enter the run and pull for the first time; False if the run has been closed."""
        s = self.session
        joined = bool(turns.join(s.rule, s.plan, s.shared, self.private, self.me))
        if joined and not self.table[layout.T_JOINED]:
            self.table[layout.T_PROCESS] = os.getpid()
            self.table[layout.T_JOINED] = time.perf_counter_ns()
        return joined

    def must_rest(self) -> bool:
        """Whether the caller has yet to raise the limit."""
        s = self.session
        return (
            s.word(layout.LIMIT) <= s.word(layout.EPOCHS) and s.word(layout.STOP) == layout.RUNNING
        )

    def rejoin(self) -> bool:
        """Enter the run again after a rest; False if it has ended meanwhile."""
        if self.session.word(layout.STOP) != layout.RUNNING:
            return False
        self.table[layout.T_STATE] = layout.STARTING
        return self.join()

    def turn(self, n_blocks: int) -> int:
        """Claim and compute up to `n_blocks` blocks; one of the ``TURN_`` answers."""
        s = self.session
        answer = s.take_turn(
            s.rows, s.rule, s.plan, s.shared, self.private, self.scratch, self.me, n_blocks
        )
        self.table[layout.T_HEARTBEAT] = time.perf_counter_ns()
        return int(answer)

    def leave(self) -> None:
        """Push what is left."""
        s = self.session
        turns.leave(s.rule, s.plan, s.shared, self.private, self.me)

    def record(self) -> None:
        """Copy the model into the place of the snapshot that is due."""
        s = self.session
        completed = s.word(layout.COMPLETED)
        slot = completed // s.plan.record_every - 1
        if not 0 <= slot < len(s.arrays["snapshot_blocks"]):
            return
        intercept = s.shared.intercept
        scale = np.ones(s.settings.n_columns)
        if s.plan.private == turns.ALONE:
            scale = self.private.local[layout.L_SCALE]
            intercept = self.private.local[layout.L_INTERCEPT]
        snapshot = s.arrays["snapshots"][slot]
        with np.errstate(all="ignore"):  # a diverging run may overflow here; it is told at the end
            np.multiply(
                s.shared.w.reshape(-1, s.settings.n_columns),
                scale.astype(snapshot.dtype),
                out=snapshot.reshape(-1, s.settings.n_columns),
            )
            snapshot[:] = shrunk(snapshot, s.rule.threshold)
        s.arrays["snapshot_intercepts"][slot] = intercept
        s.arrays["snapshot_times"][slot] = time.perf_counter_ns()
        s.arrays["snapshot_blocks"][slot] = completed

    def model(self) -> Model:
        """The model as it stands between this worker's turns."""
        return self.session.model()


def block_rows(n_rows: int, n_workers: int, per_epoch: int) -> int:
    """Rows of a block: small enough for even work and for the trace, large enough to be cheap."""
    limit = n_rows if n_workers == 1 else -(-n_rows // (BLOCKS_PER_WORKER * n_workers))
    limit = min(limit, MAX_BLOCK_ROWS, -(-n_rows // max(1, per_epoch)))
    return max(1, limit)


def describe(
    problem: LinearProblem,
    *,
    rule: Rule,
    plane: Shared,
    step: StepSize,
    stop: Stop,
    n_workers: int,
    seed: int,
    shuffle: bool,
    first_t: float,
    trace: int,
    report_epochs: bool,
    track: int,
) -> tuple[Settings, Shapes]:
    """Settle a run's numbers and list the arrays it needs."""
    n_rows = problem.n_rows
    held_out = 0 if stop.validation is None else int(np.count_nonzero(stop.validation))
    n_training = n_rows - held_out
    if plane.exchange is None:
        mode = turns.LOCK_FREE
    else:
        mode = turns.ALONE if n_workers == 1 else turns.EXCHANGE
    interval = plane.interval(problem) if mode == turns.EXCHANGE else 0
    rows_per_block = block_rows(n_training, n_workers, trace)
    # whole mini-batches: a block's end cuts one short
    batch = min(int(rule.batch), n_training)
    rows_per_block = min(n_training, -(-rows_per_block // batch) * batch)
    n_blocks = -(-n_training // rows_per_block)
    record_every = max(1, n_blocks // trace) if trace else 0
    l1 = effective_l1_ratio(problem.penalty, problem.l1_ratio)
    numbers = sgd.Rule(
        loss=losses.CODES[problem.loss],
        epsilon=problem.epsilon,
        penalty=penalties.CODES[problem.penalty],
        alpha=problem.alpha,
        l1_ratio=l1,
        schedule=schedules.CODES[step.kind],
        eta0=float(step.eta0),
        power_t=float(step.power_t),
        optimal_init=optimal_start(problem.loss, problem.epsilon, problem.alpha),
        average=rule.average,
        fit_intercept=int(problem.fit_intercept),
        # scikit-learn's smaller intercept step for sparse rows, whose features are small
        intercept_decay=0.01 if problem.is_sparse else 1.0,
        track=track,
        batch=batch,
        first_t=float(first_t),
        **_memory_numbers(rule, problem, l1, n_training),
    )
    window, abreast = windows(problem.rows, problem.n_rows)
    if mode == turns.EXCHANGE and not isinstance(rule, SGD):
        stretch = min(n_workers, stretch_limit(rule, problem, l1, numbers))
        oldest = oldest_reading(n_workers, stretch)
        if plane.exchange == "auto" and l1 == 0.0:
            interval = interval_with_memory(interval, rule, n_training, n_workers, oldest)
        keep = keeps(rule, l1, n_training, interval * oldest)
        numbers = numbers._replace(stretch=stretch, keep=float(keep))
    plan = Plan(
        block_rows=rows_per_block,
        n_blocks=n_blocks,
        max_epochs=int(stop.epochs),
        interval=interval,
        private=mode,
        atomic=int(plane.adds == "atomic"),
        shuffle=int(shuffle),
        replace=int(isinstance(rule, SAGA) and rule.replace),
        window=window,
        abreast=abreast,
        seed=int(seed),
        record_every=record_every,
        report_epochs=int(report_epochs),
        early_stopping=int(stop.validation is not None),
        regression=int(problem.is_regression),
        patience=int(stop.patience),
        tol=-np.inf if stop.tol is None else float(stop.tol),
    )
    settings = Settings(
        numbers._asdict(),
        plan._asdict(),
        problem.rows.width,
        problem.n_features,
        problem.n_columns,
        n_workers,
    )
    draws = isinstance(rule, SAGA) and rule.draws
    return settings, shapes(problem, settings, n_training, trace, draws)


def stretch_limit(rule: Rule, problem: LinearProblem, l1: float, numbers: sgd.Rule) -> float:
    """How much longer a worker's steps in its own copy may be; see `hogshare.kernels.exchange`.

    A step of SDCA that goes a share of the way to the optimum of its row alone may be one over that
    share as long (on the largest row), one of SAGA 2 / (3 L), from where its own steps turn
    unstable (`saga_step`). 1 for losses with kinks, where SDCA goes all of the way, and for SAGA
    with l1, whose zeros are exact.
    """
    if isinstance(rule, SGD) or problem.loss in losses.KINKED:
        return 1.0
    smoothness = numbers.curvature * largest_weight(problem)
    every = max(1, problem.n_rows // SAMPLE_ROWS)
    mean, largest = saga.norms_of(problem.rows, every)
    if isinstance(rule, SDCA):
        reach = smoothness * (largest / numbers.dual_scale + numbers.intercept_step)
        return 1.0 + 1.0 / max(reach, 1e-300)
    if l1 > 0.0:
        return 1.0
    if rule.sampling == "importance":
        largest = min(largest, 2.0 * mean)  # over the row's chance
    way = numbers.saga_step * smoothness * (largest + float(problem.fit_intercept))
    return max(1.0, LONGEST / max(way, 1e-300))


def oldest_reading(n_workers: int, stretch: float) -> float:
    """Intervals of which a worker may not know what the others did, if what is held back is kept.

    What is held back of a hot coordinate, all but stretch / workers, comes that many exchanges
    later, and meanwhile every worker has an interval of its own.
    """
    return n_workers * n_workers / stretch


def interval_with_memory(
    interval: int, rule: Rule, n_rows: int, n_workers: int, oldest: float
) -> int:
    """Rows between exchanges for the rules whose every epoch is worth a factor.

    `interval` is what an exchange's cost asks for. Progress per epoch falls with the share of the
    rows that the workers have between two exchanges of each (SDCA on text: 1.02 times the epochs at
    a fortieth, 1.05 at a twentieth, 1.2 at a tenth), so that is at most a sixteenth. Below `FEWEST`
    an exchange is dear however small the model is. SAGA exchanges so often that it can keep what is
    held back, unless that is too dear (the estimate is four times what was measured).
    """
    bearable = min(max(interval, FEWEST), n_rows // (SPREAD * n_workers))
    if isinstance(rule, SAGA):
        kept = int(n_rows / (DELAY * oldest))
        if DEAREST * EXCHANGE_SHARE * kept >= interval:
            bearable = min(bearable, kept)
    return max(1, bearable)


def keeps(rule: Rule, l1: float, n_rows: int, age: float) -> bool:
    """Whether what an exchange holds back stays in the worker's copy, to be offered again.

    SDCA has to: its vector is a sum. For SAGA it is a matter of speed: better than dropping it if
    no reading is older than an eighth of the rows (`age` in rows, see `oldest_reading`). With l1
    exact zeros need the copy to be the shared vector.
    """
    if isinstance(rule, SDCA):
        return True
    return isinstance(rule, SAGA) and l1 == 0.0 and DELAY * age <= n_rows


def _memory_numbers(rule: Rule, problem: LinearProblem, l1: float, n_rows: int) -> dict[str, Any]:
    """Numbers of the rules that remember rows; neutral for the others."""
    numbers = {
        "method": sgd.GRADIENT,
        "dual_scale": 1.0,
        "dual_rows": float(n_rows),
        "intercept_step": 0.0,
        "threshold": 0.0,
        "tamed": 0,
        "curvature": losses.CURVATURE[losses.CODES[problem.loss]],
        "saga_step": 0.0,
        "keep": 0.0,
        "stretch": 1.0,
    }
    smoothness = max(numbers["curvature"] * largest_weight(problem), 1e-300)
    if isinstance(rule, SDCA):
        numbers["method"] = sgd.DUAL
        numbers["dual_scale"] = (1.0 - l1) * problem.alpha * n_rows
        numbers["threshold"] = l1 / (1.0 - l1)
        if problem.fit_intercept:
            # SAGA's step for the one coordinate that has no penalty: 1 / (3 L)
            numbers["intercept_step"] = 1.0 / (3.0 * smoothness)
    if isinstance(rule, SAGA):
        numbers["method"] = sgd.SAGA
        numbers["saga_step"] = rule.step or saga_step(problem, smoothness, rule)
        numbers["tamed"] = int(rule.step is None)
    return numbers


def largest_weight(problem: LinearProblem) -> float:
    """The largest weight of a row and its class."""
    largest = float(problem.rows.weight.max(initial=0.0)) if problem.rows.weight.size else 1.0
    return largest * float(max(problem.positive.max(), problem.negative.max()))


def saga_step(problem: LinearProblem, smoothness: float, rule: SAGA) -> float:
    """1 / (3 L) with L of the mean row, but at most 1 / (2 L) of the largest.

    1 / (3 L) with the largest row's L is what the theory asks for; up to 2 / (3 L) no set of rows
    was found on which a run diverges, and with 1 / L many. Where rows are drawn by importance, a
    row's L over its chance is at most twice the mean, so that the first is below 2 / (3 L) anyway.

    Raises
    ------
    ValueError
        If squared norms overflow: the step would be zero, and the model stay where it is.
    """
    with np.errstate(over="ignore"):
        mean, largest = saga.norms_of(problem.rows, 1)
    if not math.isfinite(mean):
        raise ValueError(
            "Rows are too large: their squared norms leave the floating-point range, and with them "
            "every step. Scale the input, for example with StandardScaler or MinMaxScaler."
        )
    one = float(problem.fit_intercept)
    if rule.sampling == "importance":
        largest = mean
    steps = 3.0 * smoothness * (mean + one), 2.0 * smoothness * (largest + one)
    return 1.0 / max(*steps, 1e-300)


def shapes(
    problem: LinearProblem, settings: Settings, n_training: int, trace: int, draws: bool
) -> Shapes:
    """Names, shapes and dtypes of a run's arrays, the rows' own apart."""
    plan, workers, columns = settings.plan, settings.n_workers, settings.n_columns
    m = settings.n_features * columns
    kind, word = problem.dtype.name, layout.WORD
    mode = plan["private"]
    padded = _padded(m, problem.dtype.itemsize)
    is_dual = settings.rule["method"] == sgd.DUAL
    is_saga = settings.rule["method"] == sgd.SAGA
    l1 = settings.rule["l1_ratio"] > 0.0 and mode != turns.LOCK_FREE and not (is_dual or is_saga)
    average = settings.rule["average"] > 0
    copied_average = _padded(m, 8) if is_saga and mode == turns.EXCHANGE else 0
    n_snapshots = plan["n_blocks"] * plan["max_epochs"] // plan["record_every"] if trace else 0
    if n_snapshots * m * problem.dtype.itemsize > MAX_SNAPSHOT_BYTES:
        raise ValueError(
            f"A trace of {n_snapshots} snapshots of {m} coefficients would take more than "
            f"{MAX_SNAPSHOT_BYTES >> 30} GiB; ask for fewer with trace=, or for fewer epochs."
        )
    n_segments = max(1, min(64, m * problem.dtype.itemsize // 16384))
    return {
        "w": ((m,), kind),
        "intercept": ((columns,), "float64"),
        "curvature": ((settings.n_features if mode == turns.EXCHANGE else 0,), "float32"),
        "intercept_curvature": ((1,), "float64"),
        "dual": ((problem.n_rows * (1 + columns) if is_dual else 0,), kind),
        "dual_mean": ((columns,), "float64"),
        "gradients": ((problem.n_rows * columns if is_saga else 0,), kind),
        "average": ((m if is_saga else 0,), "float64"),
        "rarity": (
            (settings.n_features if mode == turns.LOCK_FREE or is_saga else 0,),
            "float32",
        ),
        "chances": ((problem.n_rows if draws else 0,), "float64"),
        "segments": ((n_segments * word,), "int64"),
        "control": ((layout.N_CONTROL * word,), "int64"),
        "returned": ((workers * word,), "int64"),
        "table": ((workers, word), "int64"),
        "staleness": ((workers, layout.HISTOGRAM), "int64"),
        "columns": ((layout.N_COLUMN_FIELDS, columns), "float64"),
        "order": ((2, n_training), "int64"),
        "permutation": ((problem.n_rows,), "int64"),
        "held_out": ((problem.n_rows if n_training < problem.n_rows else 0,), "uint8"),
        "done": ((2, plan["n_blocks"]), "int64"),
        "remaining": ((2 * word,), "int64"),
        "sums": ((2, 3 * columns), "float64"),
        "history": ((min(plan["max_epochs"], MAX_HISTORY),), "float64"),
        "copy": ((workers, padded if mode == turns.EXCHANGE else 0), kind),
        "base": ((workers, padded if mode == turns.EXCHANGE else 0), kind),
        "received": ((workers, padded if l1 else 0), kind),
        "lag": ((workers, _padded(m, 8) if average else 0), "float64"),
        "local": ((workers, _padded(layout.N_LOCAL_FIELDS * columns, 8)), "float64"),
        "average_copy": ((workers, copied_average), "float64"),
        "average_base": ((workers, copied_average), "float64"),
        "pending": ((workers, _padded(n_segments, 8)), "int64"),
        "scratch": ((workers, _padded(settings.rule["batch"] * columns, 8)), "float64"),
        "average_coef": ((columns, settings.n_features) if average else (0, 0), "float64"),
        "average_intercept": ((columns,), "float64"),
        "snapshots": ((n_snapshots, m), kind),
        "snapshot_intercepts": ((n_snapshots, columns), "float64"),
        "snapshot_times": ((n_snapshots,), "int64"),
        "snapshot_blocks": ((n_snapshots,), "int64"),
    }


def fill(
    session: Session,
    problem: LinearProblem,
    rule: Rule,
    stop: Stop,
    step: StepSize,
    start: Model | None,
) -> None:
    """Write a run's first values into fresh (zeroed) arrays, before any worker starts."""
    a, plan = session.arrays, session.plan
    columns = a["columns"]
    columns[layout.C_ACTIVE] = 1.0
    columns[layout.C_ETA] = step.eta0
    columns[layout.C_BEST] = np.inf
    columns[layout.C_POSITIVE] = problem.positive
    columns[layout.C_NEGATIVE] = problem.negative
    a["returned"][:] = layout.NO_BLOCK
    session.raise_limit(plan.max_epochs)
    a["table"][:, layout.T_BLOCK] = layout.NO_BLOCK
    a["permutation"][:] = np.arange(problem.n_rows)
    a["history"][:] = np.nan
    if stop.validation is not None:
        a["held_out"][:] = stop.validation
    if start is not None:
        a["w"][:] = np.asarray(start.coef).T.reshape(-1)
        a["intercept"][:] = start.intercept
        if start.average_coef is not None and a["average_coef"].size:
            a["average_coef"][:] = start.average_coef
            a["average_intercept"][:] = start.average_intercept
    norms = session._locals()
    norms[:, layout.L_SCALE] = 1.0
    norms[:, layout.L_STRETCH] = 1.0
    norms[:, layout.L_INTERCEPT] = a["intercept"]
    w = a["w"].reshape(-1, session.settings.n_columns).astype(np.float64, copy=False)
    if start is not None:
        norms[:, layout.L_SQUARED_NORM] = np.square(w).sum(axis=0)
        norms[:, layout.L_L1_NORM] = np.abs(w).sum(axis=0)
    is_saga = session.rule.method == sgd.SAGA
    if is_saga:
        columns[layout.C_ETA] = session.rule.saga_step
        columns[layout.C_CALM] = np.inf
    if isinstance(rule, SAGA) and a["chances"].size:
        a["chances"][:] = row_chances(problem, rule, stop.validation)
    if is_saga or (plan.private == turns.LOCK_FREE and problem.penalty is not None):
        a["rarity"][:] = feature_rarity(problem, a["chances"])
    if start is not None:
        fill_memory(session, problem, start)
        norms[:, layout.L_DUAL_MEAN] = a["dual_mean"]
    if plan.private == turns.EXCHANGE:
        a["curvature"][:] = feature_curvature(problem, np.random.default_rng(plan.seed))
        bound = losses.CURVATURE[session.rule.loss]
        is_sgd = session.rule.method == sgd.GRADIENT
        a["intercept_curvature"][0] = bound * (session.rule.intercept_decay if is_sgd else 1.0)


def row_arrays(problem: LinearProblem) -> dict[str, np.ndarray]:
    """The rows' own arrays by name."""
    rows = problem.rows
    parts = (rows.data, rows.indices, rows.indptr, rows.y, rows.weight)
    return dict(zip(ROW_ARRAYS, parts, strict=True))


def private_memory(specification: Shapes) -> dict[str, np.ndarray]:
    """Allocate a run's arrays in this process, each on cache lines of its own.

    The allocator puts small arrays side by side. A word that one worker writes at every exchange
    would then share its line with one that the other reads at every row.
    """
    arrays = {}
    for name, (shape, kind) in specification.items():
        n_bytes = math.prod(shape) * np.dtype(kind).itemsize
        room = np.zeros(n_bytes + 2 * LINES, np.uint8)
        start = -room.ctypes.data % LINES
        arrays[name] = room[start : start + n_bytes].view(kind).reshape(shape)
    return arrays


__all__ = [
    "Session",
    "Settings",
    "Worker",
    "describe",
    "fill",
    "private_memory",
    "row_arrays",
]
