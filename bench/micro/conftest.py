"""What the micro benchmarks share: rows, and sessions whose worker takes turns for ever.

Everything runs through `Session` and `Worker` or through `solve`, as in a fit, so that what is
timed is what users run. See the section on micro benchmarks in docs/performance.md.
"""

import cases
import numpy as np
import pytest

from hogshare import datasets, problems
from hogshare.engine.stops import Stop
from hogshare.kernels import layout
from hogshare.kernels.rules import block_sums
from hogshare.rules.steps import StepSize

ENDLESS = 1 << 40  # epochs: no benchmark comes to its end


@pytest.fixture(scope="session")
def rows():
    """``rows(form, dtype)``: rows like text (CSR) or like measurements (dense), made once."""
    made = {}

    def get(form, dtype):
        if (form, dtype) not in made:
            if form == "csr":
                X, _ = datasets.zipf_classification(8192, 20_000, 67, seed=0, dtype=dtype)
            else:
                X, _ = datasets.dense(8192, 54, seed=0, dtype=dtype)
            made[form, dtype] = X
        return made[form, dtype]

    return get


@pytest.fixture(scope="session")
def linear():
    """``linear(X, columns, ...)``: a problem; two classes for one column, else one per column.

    Labels are random: what they are makes no difference to the time of a row.
    """

    def make(X, columns=1, **settings):
        y = np.random.default_rng(1).integers(max(2, columns), size=X.shape[0])
        return problems.linear(X, y, **settings)

    return make


@pytest.fixture
def worker():
    """``worker(problem, ...)``: worker 0 of a session, joined; others stay away."""

    def make(problem, **settings):
        session = cases.session(
            problem,
            step=StepSize("constant", eta0=0.01),
            stop=Stop(epochs=ENDLESS),
            track=block_sums.NOTHING,
            **settings,
        )
        made = session.worker(0)
        made.prepare()
        assert made.join()
        return made

    return make


@pytest.fixture
def note_ns(benchmark):
    """``note_ns(unit, count)``: say what the median comes to per `unit`."""

    def note(unit, count):
        if benchmark.stats is not None:  # there are none with --benchmark-disable
            median = benchmark.stats.stats.median
            benchmark.extra_info[f"ns_per_{unit}"] = round(median / count * 1e9, 4)

    return note


@pytest.fixture
def time_epochs(benchmark, note_ns):
    """``time_epochs(worker, unit, per_epoch)``: time turns of an epoch, told per `unit`."""

    def run(worker, unit, per_epoch):
        n_blocks = worker.session.plan.n_blocks
        assert benchmark(worker.run_quantum, n_blocks) == layout.QUANTUM_OVER
        assert worker.session.model().is_finite()
        note_ns(unit, per_epoch)

    return run
