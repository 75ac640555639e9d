"""Bytes that a session allocates per feature and per row, besides the rows themselves.

They follow from `describe` and are the same everywhere; what the benchmark times is `describe`
itself. Slopes are taken between two sizes that are large enough for the number of segments to be
at its limit and for borders of cache lines not to show.
"""

import math

import numpy as np
import pytest
from scipy import sparse

from hogshare.barriers import ASP
from hogshare.engine.choices import Choices
from hogshare.engine.description import describe
from hogshare.engine.stops import Stop
from hogshare.engine.world import World
from hogshare.planes.shared import Shared
from hogshare.rules import SAGA, SDCA, SGD
from hogshare.rules.steps import StepSize

N_ROWS, N_FEATURES = 1 << 16, 1 << 19

CASES = {
    "sgd": (SGD(), Shared()),
    "averaged sgd": (SGD(average=1), Shared()),
    "dual": (SDCA(), Shared()),
    "saga": (SAGA(), Shared()),
    "one vector": (SGD(), Shared(exchange=None)),
}


@pytest.fixture
def problem(linear):
    """``problem(n_rows, n_features, columns)``: one nonzero; `describe` asks for the shape."""

    def make(n_rows, n_features, columns):
        one = np.ones(1, np.float32), ([0], [0])
        return linear(sparse.csr_array(one, shape=(n_rows, n_features)), columns)

    return make


def arrays_of(problem, rule, plane, n_workers):
    """The names, shapes and dtypes of a run's arrays."""
    choices = Choices(
        problem=problem,
        rule=rule,
        plane=plane,
        barrier=ASP(),
        step=StepSize("constant"),
        stop=Stop(epochs=10),
        world=World((n_workers,)),
        seed=0,
    )
    return describe(choices)[1]


def bytes_of(shapes):
    return sum(math.prod(shape) * np.dtype(kind).itemsize for shape, kind in shapes.values())


@pytest.mark.benchmark(group="memory")
@pytest.mark.parametrize("columns", [1, 10])
@pytest.mark.parametrize("n_workers", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_session(benchmark, problem, case, n_workers, columns):
    rule, plane = CASES[case]
    small = problem(N_ROWS, N_FEATURES, columns)
    base = bytes_of(benchmark(describe, small, rule, plane, n_workers))
    wide = bytes_of(arrays_of(problem(N_ROWS, 2 * N_FEATURES, columns), rule, plane, n_workers))
    long = bytes_of(arrays_of(problem(2 * N_ROWS, N_FEATURES, columns), rule, plane, n_workers))
    per_feature, per_row = (wide - base) / N_FEATURES, (long - base) / N_ROWS
    benchmark.extra_info["bytes_per_feature"] = round(per_feature, 2)
    benchmark.extra_info["bytes_per_row"] = round(per_row, 2)
    # at least the model itself, and the row's place in two orders and in the permutation
    assert per_feature >= columns * small.dtype.itemsize
    assert per_row >= 3 * 8
