"""One exchange of the whole vector, nanoseconds per coordinate, while nobody else wants it.

A worker that exchanges after every row, on rows of one nonzero: what a row itself takes (about 30
ns) counts as part of the exchange, which matters up to some thousand features. That an exchange
costs more while others write the same lines is docs/exchange.md's business.
"""

import numpy as np
import pytest
from scipy import sparse

from hogshare.kernels import layout
from hogshare.planes.shared import Shared
from hogshare.rules import SAGA, SDCA, SGD

COORDINATES = 1 << 22  # exchanged in an epoch


def rows_of_one(n_features, dtype):
    """Rows of one nonzero each, so many that an epoch exchanges `COORDINATES` coordinates."""
    n_rows = max(16, COORDINATES // n_features)
    features = np.random.default_rng(0).integers(n_features, size=n_rows)
    parts = np.ones(n_rows, dtype), features.astype(np.int32), np.arange(n_rows + 1, dtype=np.int32)
    return sparse.csr_array(parts, shape=(n_rows, n_features))


@pytest.fixture
def time_exchange(time_epochs, linear, worker):
    def run(rule, n_features, dtype):
        problem = linear(rows_of_one(n_features, dtype), alpha=1e-4)
        first = worker(problem, rule=rule, plane=Shared(exchange=1), n_workers=2)
        time_epochs(first, "coordinate", problem.n_rows * n_features)
        # each row ended with an exchange: else something else has been timed
        assert first.session.word(layout.VERSION) == first.table[layout.T_ROWS]

    return run


@pytest.mark.benchmark(group="exchange: size")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_features", [10**3, 10**4, 10**5, 10**6])
def test_size(time_exchange, n_features, dtype):
    time_exchange(SGD(), n_features, dtype)


@pytest.mark.benchmark(group="exchange: rule")
@pytest.mark.parametrize("rule", [SGD(), SGD(average=1), SDCA(), SAGA()], ids=str)
def test_rule(time_exchange, rule):
    time_exchange(rule, 10**5, "float32")
