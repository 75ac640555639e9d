"""A network's step, predicted from constants of the machine and measured: a model of its speed.

The constants are measured by loops over single parts of the kernels: a product of two matrices of
the given shape, a sum of rows and a value in it, a value's place when a mini-batch is sorted by
columns, a number that a rule moves, a row of numbers that it moves in distant memory, a unit, the
losses of the rows, a byte of a row that is gathered. A step of n rows is then::

    products of dense columns, forward and back + (rows and columns with values) sums
    + values * (2 in sums + a place) + numbers moved
    + n * (units, outputs and their products, bytes)

where rows of a wide first layer that a mini-batch touches are moved twice: by the missed steps, and
by the current one. Measured: medians over rounds of one worker's passes, by `solve`. Goal: within
20 %. Usage::

    HOGSHARE_DATA=FOLDER python bench/network_speed.py --json bench/results/network_speed.json
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import networks
import numpy as np
import scipy.sparse as sp
import script

from hogshare import problems
from hogshare.kernels.jit.decorators import kernel
from hogshare.kernels.networks import dense_layers, network_training, slices, tiles
from hogshare.kernels.rules import momentum

UNITS = networks.HIDDEN
KINDS = {"sgd": momentum.AHEAD, "adam": momentum.ADAM}
VECTORS = {"sgd": 2, "adam": 3}  # that a rule moves
LOOPS = 300
CASES = [
    ("mnist", 50, "float32"),
    ("mnist", 200, "float32"),
    ("mnist", 50, "float64"),
    ("a9a", 200, "float32"),
    ("20news", 200, "float32"),
    *(("normal", batch, "float32") for batch in networks.CASES["normal"].batches),
]


@kernel
def products(loops, n, depth, width, a, b, c):
    """Products of small matrices."""
    for _ in range(loops):
        tiles.product(n, depth, width, a, 0, depth, 1, b, 0, width, c, 0, width, 0)


@kernel
def sums(loops, numbers, places, count, m, width, out):
    """Sums of so many rows, which stand in the second cache."""
    for _ in range(loops):
        for i in range(0, places.shape[0], count):
            tiles.sum_rows(count, numbers, i, places, i, m, 0, width, width, out, 0)


@kernel
def sorts(loops, rows, inputs, memory):
    """Mini-batches that are sorted by columns."""
    for _ in range(loops):
        network_training.sort_by_columns(rows, inputs, memory)
        memory.counts[:] = 0


@kernel
def moves(loops, own, slopes, late, kind, numbers):
    """Steps of numbers that stand in the second cache."""
    for _ in range(loops):
        n = slopes.shape[0]
        for begin in range(0, own.w.shape[0], n):
            slices.move(own, begin, late.together, 0, 1, n, slopes, kind, numbers)


@kernel
def far_moves(loops, own, slopes, places, kind, numbers):
    """Steps of rows of numbers that lie anywhere in memory."""
    for _ in range(loops):
        n, width = 30, slopes.shape[0] // 30
        for first in range(0, places.shape[0], n):
            slices.move(own, 0, places, first, n, width, slopes, kind, numbers)


@kernel
def units(loops, memory, n, width, biases):
    """What is done with a unit's sum, and on the way back."""
    for _ in range(loops):
        dense_layers.finish(memory, 0, n, width, biases, dense_layers.RELU)
        at = n * width
        dense_layers.through_activation(memory[:at], memory[at:], dense_layers.RELU)


@kernel
def ends(loops, net, memory, inputs, rows):
    """Losses of rows, and derivatives."""
    for _ in range(loops):
        network_training.end_rows(net, memory, inputs, rows)


@kernel
def gathers(rows, numbers, n_dense, out):
    """Rows that are wherever the order has them."""
    for first in range(0, rows.shape[0], 50):
        dense_layers.gather_dense(rows[first : first + 50], numbers, n_dense, n_dense, out)


def nanoseconds(run: Callable[[int], object], things: float, loops: int = LOOPS) -> float:
    """Of one thing, in so many loops: the median of some runs, of which the first compiles."""
    run(1)
    taken = []
    for _ in range(5):
        began = time.perf_counter_ns()
        run(loops)
        taken.append((time.perf_counter_ns() - began) / (loops * things))
    return statistics.median(taken)


def of_product(n: int, depth: int, width: int, kind: str) -> float:
    """Nanoseconds of a product of small matrices."""
    draws = np.random.default_rng(0)
    shapes = n * depth, depth * width, n * width
    parts = [draws.standard_normal(size).astype(kind) for size in shapes]
    return nanoseconds(lambda k: products(k, n, depth, width, *parts), 1.0)


def stated(n_values: int, kind: str) -> Any:
    """A trainer on sparse rows of so many values, and a mini-batch of 50 of them."""
    draws = np.random.default_rng(0)
    rows = sp.random_array(
        (2000, 500), density=n_values / 500, format="csr", dtype=kind, random_state=draws
    )
    problem = problems.network(rows, np.arange(2000) % 10, (UNITS,))
    batch = draws.permutation(2000)[:50]
    batch.flags.writeable = False
    return problem.trainer(50), batch, int(np.diff(rows.indptr)[batch].sum())


def sorted_batch(n_values: int, kind: str) -> tuple[int, float]:
    """Values of a mini-batch, and nanoseconds in which it is sorted by columns."""
    trainer, batch, values = stated(n_values, kind)
    of_sort = batch, trainer._inputs, trainer._memory
    return values, nanoseconds(lambda k: sorts(k, *of_sort), 1.0)


def of_ends(trainer: Any, batch: int) -> float:
    """Nanoseconds of the losses of a mini-batch."""
    rows = np.arange(batch)
    rows.flags.writeable = False
    of_end = trainer._net._replace(rule=momentum.AHEAD), trainer._memory, trainer._inputs, rows
    return nanoseconds(lambda k: ends(k, *of_end), 1.0)


def constants(kind: str) -> dict[str, float]:
    """Nanoseconds of each part."""
    draws = np.random.default_rng(0)

    def numbers(*shape: int) -> np.ndarray:
        return draws.standard_normal(shape).astype(kind)

    itemsize = np.dtype(kind).itemsize
    width = tiles.padded(UNITS, itemsize)
    found: dict[str, float] = {}
    places = draws.integers(0, 500, 3000).astype(np.uint32)
    of_sums, row = (numbers(500 * width), width, numbers(width)), numbers(width)
    values = numbers(3000)
    one, thirty = (
        nanoseconds(lambda k, n=n: sums(k, values, places, n, *of_sums), 3000) for n in (1, 30)
    )
    found["value"] = (30.0 * thirty - one) / 29.0
    found["sum"] = one - found["value"]
    # a row of 6 values and one of 30 tell what a row costs in a sort, and what a value
    few, many = (sorted_batch(n, kind) for n in (6, 30))
    found["place"] = (many[1] - few[1]) / (many[0] - few[0])
    found["row"] = (few[1] - found["place"] * few[0]) / 50.0
    own = slices.Vectors(*(np.abs(numbers(20 * 4096)) for _ in range(3)))
    step = np.zeros(slices.N_NUMBERS)
    step[:6] = 1e-9, 0.9, 0.999, 1e-8, 0.02, 1e-6
    slopes, late = numbers(4096), stated(6, kind)[0]._memory.late
    for rule, code in KINDS.items():
        of_move = own, slopes, late, code, step
        found[f"move, {rule}"] = nanoseconds(lambda k, a=of_move: moves(k, *a), len(own.w))
    far = slices.Vectors(*(np.abs(numbers(40_000 * width)) for _ in range(3)))
    anywhere = draws.permutation(40_000)[:9000]
    for rule, code in KINDS.items():
        of_far = far, numbers(30 * width), anywhere, code, step
        found[f"far, {rule}"] = nanoseconds(lambda k, a=of_far: far_moves(k, *a), 9000.0, 10)
    memory = numbers(2 * 50 * width)
    found["unit"] = nanoseconds(lambda k: units(k, memory, 50, width, row), 50 * width)
    much, out, order = numbers(20_000 * 300), numbers(50 * 300), draws.permutation(20_000)
    of_bytes = 20_000.0 * 300.0 * itemsize
    found["byte"] = nanoseconds(lambda _: gathers(order, much, 300, out), of_bytes, 1)
    return found


def predicted(problem: Any, solver: str, batch: int, of: dict[str, float]) -> float:
    """Seconds of a step."""
    columns, kind = problem.columns, problem.dtype
    width, last = (tiles.padded(n, kind.itemsize) for n in (UNITS, problem.n_outputs))
    trainer = problem.trainer(batch)
    n_dense, strip = columns.n_dense, trainer._net.strip
    values = len(columns.data) / problem.n_rows * batch
    n_sparse, touched = len(columns.order) - n_dense, columns.touched(problem.n_rows, batch)
    time_ns = 0.0
    if n_dense:
        time_ns += of_product(batch, n_dense, width, kind.name)
        strips = divmod(n_dense, strip)
        time_ns += strips[0] * of_product(strip, batch, width, kind.name)
        time_ns += of_product(strips[1], batch, width, kind.name) if strips[1] else 0.0
    if n_sparse:
        time_ns += (batch + touched) * of["sum"] + values * (2.0 * of["value"] + of["place"])
        time_ns += batch * of["row"]
    time_ns += of_product(batch, UNITS, last, kind.name)
    time_ns += of_product(batch, problem.n_outputs, width, kind.name)
    time_ns += of_product(UNITS, batch, last, kind.name)
    time_ns += of_ends(trainer, batch)
    time_ns += batch * (width * of["unit"] + n_dense * kind.itemsize * of["byte"])
    moved = n_dense * width + UNITS * last
    if len(trainer._memory.late.stamps):
        time_ns += 2.0 * touched * of[f"far, {solver}"]
        moved += n_sparse * width if solver == "adam" else 0.0  # each step that a row has missed
    else:
        moved += n_sparse * width
    return 1e-9 * (time_ns + moved * of[f"move, {solver}"])


def measure(options: Any) -> dict[str, Any]:
    """Constants, and steps as predicted and as measured."""
    found = {kind: constants(kind) for kind in ("float32", "float64")}
    table = []
    for name, batch, kind in CASES:
        X, y = networks.CASES[name].load()
        problem = problems.network(X.astype(kind), y, (UNITS,))
        n_steps, passes = -(-problem.n_rows // batch), networks.CASES[name].passes[0]
        for solver in networks.RULES:
            run = problem, solver, batch, passes, "one worker"
            taken = [networks.ours(*run) / n_steps for _ in range(1 + options.rounds)][1:]
            cell = {"rows": name, "batch": batch, "type": kind, "solver": solver}
            cell["predicted us"] = 1e6 * predicted(problem, solver, batch, found[kind])
            cell["measured us"] = 1e6 * statistics.median(taken)
            cell["measured / predicted"] = cell["measured us"] / cell["predicted us"]
            table.append(cell)
    for kind, numbers in found.items():
        script.show([numbers], f"nanoseconds, {kind}")
    script.show(table, "a step")
    return {"settings": {"rounds": options.rounds, "constants": found}, "results": table}


if __name__ == "__main__":
    script.run(__doc__, measure, rounds=5)
