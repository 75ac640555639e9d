"""The arrays of a run by name: their sizes, and their values when the run begins.

`private_memory` allocates private memory for these arrays. A runtime that needs shared memory
allocates it from the same list.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from hogshare.engine.choices import Choices
from hogshare.engine.home_vectors import PREFIX
from hogshare.engine.rule_states import go_on_with, state_shapes
from hogshare.engine.session import Session
from hogshare.engine.stops import Stop
from hogshare.engine.workspace import ROW_ARRAYS, SessionSettings
from hogshare.kernels import layout
from hogshare.kernels.rules import block_sums, coordinate_steps, losses
from hogshare.kernels.schedule import barrier_codes, epoch_schedule
from hogshare.planes.protocol import Plane, edges_of
from hogshare.planes.protocol import Shapes as Shapes
from hogshare.planes.shared import feature_curvature, feature_rarity
from hogshare.problems.model import Handed, Model, columns_last
from hogshare.problems.protocol import Problem, RowProblem, by_gradient, has_rows
from hogshare.rules.pace import row_chances
from hogshare.rules.protocol import Rule
from hogshare.rules.row_memory import BY_METHOD
from hogshare.rules.steps import StepSize
from hogshare.shm import mailbox, speeds
from hogshare.shm.spacing import PAIR, SPACING
from hogshare.system import memory

MAX_HISTORY = 100_000
LARGEST_CURVATURE = 1e30  # with it an exchange averages, whatever the step
BARRIERS = 1  # distinguishes the barriers' random streams from other streams of the same seed
OPEN_NUMBERS = 1 << 20  # most numbers of all open epochs together: eight megabytes
MAX_SNAPSHOT_BYTES = 2**31
MAX_RECORDING_BYTES = 2**31

MODEL_ARRAYS = ("w", "lag")  # arrays that become part of the model
SMALL_MEMORY = 1 << 18  # bytes; clearing them takes a fraction of the time of making their arrays
NOTHING: Mapping[str, np.ndarray] = MappingProxyType({})


def _padded(count: int, itemsize: int, spacing: int) -> int:
    """Pad a row: the next worker's row then begins on a multiple of `spacing` bytes."""
    step = spacing // itemsize
    return -(-max(count, 1) // step) * step


def shapes(c: Choices, settings: SessionSettings) -> Shapes:
    """List the names, shapes and dtypes of a run's arrays, except the arrays of its rows."""
    problem, plane, n_training = c.problem, c.plane, c.n_training
    plan, columns = settings.plan, settings.n_columns
    workers, own_workers = settings.n_workers, len(settings.world.local_workers)
    m = settings.n_features * columns
    kind, word = problem.dtype.name, layout.WORD
    mode = plan["private"]
    # workers of a simulation are one thread, and may be many
    spacing = PAIR if plan["sleeps"] == epoch_schedule.SIMULATED else SPACING
    padded = _padded(m, problem.dtype.itemsize, spacing)
    copies = (
        mode in (epoch_schedule.EXCHANGE, epoch_schedule.MASTER)
        or plan["parts"] > 0
        or plane.has_homes
    )
    n_params = m + columns * settings.rule["fit_intercept"]
    own = {f"{PREFIX}{name}": one for name, one in plane.arrays(n_params, workers).items()}
    if by_gradient(problem):
        own |= split_shapes(c, plan, own_workers, padded, spacing)
    in_place = mode in (epoch_schedule.LOCK_FREE, epoch_schedule.MASTER) and not plan["copied"]
    weighs = mode == epoch_schedule.EXCHANGE or plane.weighs
    is_mailed = mode == epoch_schedule.MASTER
    n_edges = len(edges_of(plane, workers))
    sparse, dense = message_capacity(problem, settings) if is_mailed else (0, 0)
    if n_edges and not is_mailed:
        sparse = dense = n_params + plane.extra
    summed = m if is_mailed else 0
    memory = BY_METHOD[settings.rule["method"]]
    l1 = settings.rule["l1_ratio"] > 0.0 and not in_place and not memory.is_proximal
    average = settings.rule["average"] > 0
    copied = memory.has_average and mode == epoch_schedule.EXCHANGE
    copied_average = _padded(m, 8, spacing) if copied else 0
    n_snapshots = plan["n_blocks"] * plan["max_epochs"] // plan["record_every"] if c.trace else 0
    if n_snapshots * m * problem.dtype.itemsize > MAX_SNAPSHOT_BYTES:
        raise ValueError(
            f"A trace of {n_snapshots} snapshots of {m} coefficients would take more than "
            f"{MAX_SNAPSHOT_BYTES >> 30} GiB; ask for fewer with trace=, or for fewer epochs."
        )
    n_open = open_epochs(plan, columns)
    n_segments = max(1, min(64, m * problem.dtype.itemsize // 16384))
    return {
        "w": ((m,), kind),
        "intercept": ((columns,), "float64"),
        **vectors_of_groups(plane, workers, padded, columns, kind),
        "curvature": ((settings.n_features if weighs else 0,), "float32"),
        "intercept_curvature": ((1,), "float64"),
        "dual": ((0,), kind),
        "dual_mean": ((columns,), "float64"),
        "gradients": ((0,), kind),
        "average": ((0,), "float64"),
        "units": ((2, 0), "float64"),
        **memory.arrays(problem),
        "rarity": ((settings.n_features if in_place or memory.has_average else 0,), "float32"),
        "divisors": ((0 if problem.divisors is None else problem.n_features,), "float64"),
        "chances": ((problem.n_rows if c.rule.draws else 0,), "float64"),
        "segments": ((n_segments * word,), "int64"),
        "control": ((layout.N_CONTROL * word,), "int64"),
        "returned": ((workers * word,), "int64"),
        "table": ((workers, layout.N_TABLE), "int64"),
        "staleness": ((workers, layout.HISTOGRAM), "int64"),
        "quanta": ((own_workers + 1, speeds.RING_SIZE, speeds.N_QUANTUM), "int64"),
        "columns": ((layout.N_COLUMN_FIELDS, columns), "float64"),
        "order": ((2, n_training), "int64"),
        "permutation": ((problem.n_rows + windows_of_one_share(problem, plan),), "int64"),
        "held_out": ((problem.n_rows if n_training < problem.n_rows else 0,), "uint8"),
        "done": ((n_open, plan["n_blocks"]), "int64"),
        "remaining": ((n_open * word,), "int64"),
        "sums": ((n_open, 3 * columns + (plan["n_blocks"] if plan["grid"] else 0)), "float64"),
        "ages": ((workers if is_mailed else 0, layout.HISTOGRAM), "int64"),
        **mailbox.shapes(n_edges, plane.queue, sparse, dense),
        "gathered": ((summed,), "float64"),
        "gathered_places": ((summed,), "int64"),
        "gathered_marks": ((summed,), "int64"),
        "gathered_intercepts": ((columns,), "float64"),
        "journal": ((summed + columns,), "float64"),
        "recording": ((event_capacity(plan) if c.record else 0, layout.N_EVENT), "int64"),
        "history": ((min(plan["max_epochs"], MAX_HISTORY),), "float64"),
        "copy": ((own_workers, padded if copies else 0), kind),
        "base": ((own_workers, padded if copies else 0), kind),
        "received": ((own_workers, padded if l1 else 0), kind),
        "lag": ((own_workers, _padded(m, 8, spacing) if average else 0), "float64"),
        "local": ((own_workers, _padded(layout.N_LOCAL_FIELDS * columns, 8, spacing)), "float64"),
        "average_copy": ((own_workers, copied_average), "float64"),
        "average_base": ((own_workers, copied_average), "float64"),
        "pending": ((own_workers, _padded(n_segments, 8, spacing)), "int64"),
        "scratch": ((own_workers, _padded(scratch_size(settings), 8, spacing)), "float64"),
        "average_coef": ((columns, settings.n_features) if average else (0, 0), "float64"),
        "average_intercept": ((columns,), "float64"),
        **snapshots(n_snapshots, m, columns, kind, plane.has_homes),
        **own,
    }


def split_shapes(
    c: Choices, plan: dict[str, Any], own_workers: int, padded: int, spacing: int
) -> Shapes:
    """List the shapes of the rule's state, and of each worker's part of a split mini-batch.

    With split mini-batches, the workers share one state. A worker's part is the gradient of its
    rows, or the values that it shares with its team (`hogshare.engine.gradient_steps`).
    """
    problem, split, rows = c.problem, plan["split"], plan["step_rows"]
    kind, n_teammates = problem.dtype.name, split if rows else 0
    states = state_shapes(c.rule, problem.n_params, 1 if split else own_workers, kind)
    n_vectors = 1 + sum(shape[1:] == (problem.n_params,) for shape, _ in states.values())
    if n_teammates:
        n_numbers = problem.numbers_of_part(rows, split)
        padded = _padded(n_numbers, problem.dtype.itemsize, spacing)
    values = problem.shared_values(rows, split).items() if n_teammates else ()
    return {
        **states,
        **{f"team_{name}": shape for name, shape in values},
        "parts": ((split, padded if split else 0), kind),
        "team_words": ((n_teammates, layout.WORD), "int64"),
        "team_before": ((n_vectors if n_teammates else 0, problem.n_params), kind),
    }


def open_epochs(plan: dict[str, Any], columns: int) -> int:
    """Return how many epochs may be open at once.

    The number is two if workers wait for each other at an epoch's end. Otherwise, it is as large as
    `OPEN_NUMBERS` allows, and at least two.
    """
    if not plan["free"]:
        return 2
    most = OPEN_NUMBERS // (plan["n_blocks"] + 3 * columns + layout.WORD)
    return int(max(2, min(plan["max_epochs"], most)))


def windows_of_one_share(problem: Problem, plan: dict[str, Any]) -> int:
    """Count the windows of one share of all rows; the windows of several shares are no more."""
    return problem.n_rows // plan["window"] + 1 if plan["shares"] == 1 and plan["window"] > 1 else 0


def snapshots(n: int, m: int, columns: int, kind: str, has_homes: bool) -> Shapes:
    """List the shapes of a trace's n snapshots; with homes, also of their disagreements."""
    return {
        "snapshots": ((n, m), kind),
        "snapshot_intercepts": ((n, columns), "float64"),
        "snapshot_times": ((n,), "int64"),
        "snapshot_blocks": ((n,), "int64"),
        "snapshot_spreads": ((n if has_homes else 0,), "float64"),
    }


def vectors_of_groups(plane: Plane, n_workers: int, padded: int, columns: int, kind: str) -> Shapes:
    """List the shapes of the groups' common vectors; empty if workers have their own copies."""
    groups = plane.groups(n_workers) if plane.is_direct else None
    n = 0 if groups is None else int(groups.max()) + 1
    return {
        "vectors": ((n, padded), kind),
        "vector_intercepts": ((n, columns), "float64"),
    }


def event_capacity(plan: dict[str, Any]) -> int:
    """Return the largest number of events of a run: its blocks, and one remainder per epoch."""
    count = int(plan["max_epochs"] * (plan["n_blocks"] + 1) + 1)
    if count * layout.N_EVENT * 8 > MAX_RECORDING_BYTES:
        raise ValueError(
            f"A recording of {count} events would take more than {MAX_RECORDING_BYTES >> 30} GiB; "
            "ask for fewer epochs or larger blocks."
        )
    return count


def scratch_size(settings: SessionSettings) -> int:
    """Size a worker's scratch: steps of a mini-batch, and marks of drawn coordinates."""
    size = int(settings.rule["batch"]) * settings.n_columns
    drawn = settings.rule["coordinate"]
    if drawn != coordinate_steps.ALL:
        size += coordinate_steps.MARKS
    if drawn in (coordinate_steps.SUPPORT, coordinate_steps.UNBIASED) and settings.width == 0:
        size += settings.n_features
    return size


def message_capacity(problem: Problem, settings: SessionSettings) -> tuple[int, int]:
    """Return the largest numbers of values in a message to a master: with and without places.

    Coordinates of a block's rows, and the step of a gradient, are sent with their places. The
    values of a whole copy are sent without places. An exception is l1, with which places mark the
    clipped values.
    """
    m, columns = problem.n_features * problem.n_columns, problem.n_columns
    if settings.plan["copied"]:
        if settings.rule["l1_ratio"] > 0.0:
            return m, columns
        return 0, -(-m * problem.dtype.itemsize // 8) + columns
    if not problem.is_sparse:
        return m, columns
    longest = int(np.diff(problem.rows.indptr).max(initial=0))
    return max(1, min(m, settings.plan["block_rows"] * longest * columns)), columns


def fill(
    session: Session,
    problem: Problem,
    rule: Rule,
    stop: Stop,
    step: StepSize,
    start: Model | None,
    remote_rows: np.ndarray | None,
) -> None:
    """Write a run's first values into the session's fresh (zeroed) arrays, before workers start.

    remote_rows : see `Choices`
    """
    a, plan = session.arrays, session.plan
    columns = a["columns"]
    columns[layout.C_ACTIVE] = 1.0
    columns[layout.C_ETA] = step.eta0
    columns[layout.C_BEST] = np.inf
    if has_rows(problem):
        columns[layout.C_POSITIVE] = problem.positive
        columns[layout.C_NEGATIVE] = problem.negative
    a["returned"][:] = layout.NO_BLOCK
    session.raise_limit(plan.max_epochs)
    session.open_epochs()
    a["table"][:, layout.T_BLOCK] = layout.NO_BLOCK
    if plan.barrier == barrier_codes.LAG:  # other barriers draw no samples
        a["table"][:, layout.T_STREAM] = barrier_streams(plan.seed, len(a["table"]))
    if not (plan.window or plan.grid):  # with windows, every epoch's order is drawn anew
        a["permutation"][: problem.n_rows] = np.arange(problem.n_rows)
    a["history"][:] = np.nan
    if problem.divisors is not None:
        a["divisors"][:] = problem.divisors
    if remote_rows is not None:
        a["held_out"][:] = remote_rows
    if start is not None:
        if not _is_assigned(a["w"], start, start.coef):
            a["w"][:] = columns_last(start.coef)
        a["intercept"][:] = start.intercept
        if start.average_coef is not None and a["average_coef"].size:
            if not _is_assigned(a["average_coef"], start, start.average_coef):
                a["average_coef"][:] = start.average_coef
            a["average_intercept"][:] = start.average_intercept
        if by_gradient(problem) and start.memory is not None:
            go_on_with(a, start.memory)
    norms = session.locals()
    norms[:, layout.L_SCALE] = 1.0
    norms[:, layout.L_STRETCH] = 1.0
    norms[:, layout.L_INTERCEPT] = a["intercept"]
    if start is not None and session.rule.track == block_sums.CRITERION:  # no other rule reads them
        w = a["w"].reshape(-1, session.settings.n_columns).astype(np.float64, copy=False)
        norms[:, layout.L_SQUARED_NORM] = np.square(w).sum(axis=0)
        norms[:, layout.L_L1_NORM] = np.abs(w).sum(axis=0)
    if has_rows(problem):
        _fill_rows(session, problem, rule, stop, start)
    if by_gradient(problem) and a["curvature"].size:
        # infinity times a step of zero would be NaN
        a["curvature"][:] = np.minimum(problem.curvature(), LARGEST_CURVATURE)
    if session.homes is not None:
        groups = session.homes.plane.groups(session.settings.n_workers)
        if groups is not None:
            a["table"][:, layout.T_GROUP] = groups
        session.homes.scatter()


def _fill_rows(
    session: Session, problem: RowProblem, rule: Rule, stop: Stop, start: Model | None
) -> None:
    a, plan, memory = session.arrays, session.plan, session.row_memory
    memory.begin(session)
    if a["chances"].size:
        a["chances"][:] = row_chances(problem, rule, stop.validation)
    in_place = plan.private in (epoch_schedule.LOCK_FREE, epoch_schedule.MASTER) and not plan.copied
    if memory.has_average or (in_place and problem.penalty is not None):
        a["rarity"][:] = feature_rarity(problem, a["chances"])
    if start is not None:
        memory.fill(session, start)
        session.locals()[:, layout.L_DUAL_MEAN] = a["dual_mean"]
    if a["curvature"].size:
        a["curvature"][:] = feature_curvature(problem, plan.seed, a["chances"])
        # an exchange multiplies it by the features' step size; the intercept has another one
        intercept_step = memory.intercept_step(session.rule)
        a["intercept_curvature"][0] = losses.CURVATURE[session.rule.loss] * intercept_step


def assigned(start: Model | None, iterate: float) -> dict[str, np.ndarray]:
    """Select those arrays of a `Handed` start that the run uses in place, without copies.

    iterate : weight of an iterate in the lag (see `hogshare.kernels.rules.sgd_steps`); if the
        weight is below 1, the lag is the array of the start's average
    """
    if not isinstance(start, Handed):
        return {}
    arrays = {"w": columns_last(start.coef)}
    if start.average_coef is not None:
        arrays["average_coef"] = start.average_coef
        if iterate < 1.0:
            arrays["lag"] = columns_last(start.average_coef)[np.newaxis]
    return arrays


def _is_assigned(array: np.ndarray, start: Model, part: np.ndarray) -> bool:
    return isinstance(start, Handed) and np.may_share_memory(array, part)


def barrier_streams(seed: int, n_workers: int) -> np.ndarray:
    """Return the first number of each worker's random stream of barrier samples; never zero."""
    draws = np.random.default_rng([seed, BARRIERS]).integers(1, 2**32, n_workers, dtype=np.uint32)
    return draws.astype(np.int64)


def row_arrays(problem: Problem) -> dict[str, np.ndarray]:
    """Return the rows' own arrays by name (not copies)."""
    rows = problem.rows
    parts = (rows.data, rows.indices, rows.indptr, rows.y, rows.weight)
    return dict(zip(ROW_ARRAYS, parts, strict=True))


def private_memory(
    specification: Shapes, assigned: Mapping[str, np.ndarray] = NOTHING
) -> dict[str, np.ndarray]:
    """Allocate a run's arrays in this process; two arrays never share a cache line."""
    return RunMemory(specification, assigned).arrays(assigned)


class RunMemory:
    """One piece of memory for a run's arrays; another run of the same shapes may reuse it.

    NumPy's allocator puts small arrays next to each other. A word that one worker writes at every
    exchange would then share its cache line with a word that another worker reads at every row.
    Therefore the arrays are spaced within one piece of memory. Allocating fifty pieces would take a
    fifth of a millisecond, which is long for a small fit.

    Handed arrays already have their own memory. An array that becomes part of the model is
    allocated separately, and remains when the other memory is freed or reused.
    """

    def __init__(self, specification: Shapes, assigned: Mapping[str, np.ndarray]) -> None:
        self._specification, self._assigned = specification, tuple(assigned)
        self._of_model, places, size, model_size = [], [], 0, 0
        kinds: dict[str, np.dtype] = {}  # cached: few different dtypes, each slow to construct
        for name, (shape, kind) in specification.items():
            if name in assigned:
                continue
            if kind not in kinds:
                kinds[kind] = np.dtype(kind)
            if name in MODEL_ARRAYS:
                self._of_model.append((name, shape, kinds[kind]))
                model_size += math.prod(shape) * kinds[kind].itemsize
                continue
            places.append((name, shape, kinds[kind], size))
            size += -(-math.prod(shape) * kinds[kind].itemsize // SPACING) * SPACING
        memory.require(size + model_size, "A fit to these rows")
        self._memory, start = _zeros(size)
        self._arrays = {
            name: np.ndarray(shape, kind, self._memory, start + at)
            for name, shape, kind, at in places
        }

    @property
    def is_small(self) -> bool:
        """Whether it is worth caching."""
        return self._memory.nbytes <= SMALL_MEMORY

    def fits(self, specification: Shapes, assigned: Mapping[str, np.ndarray]) -> bool:
        """Whether a run of these arrays may use this memory, once the previous run is over."""
        return self._assigned == tuple(assigned) and self._specification == specification

    def clear(self) -> None:
        """Write zeros everywhere, as in fresh memory."""
        self._memory[:] = 0

    def arrays(self, assigned: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return all arrays of a run by name: views of this memory, and the handed arrays."""
        own = {}
        for name, shape, kind in self._of_model:
            place, start = _zeros(math.prod(shape) * kind.itemsize)
            own[name] = np.ndarray(shape, kind, place, start)
        return {**self._arrays, **own, **assigned}


def _zeros(size: int) -> tuple[np.ndarray, int]:
    """Allocate bytes that share no cache line with other memory; return them and their start."""
    padded = np.zeros(size + 2 * SPACING, np.uint8)
    return padded, -padded.ctypes.data % SPACING
