"""The row kernels: one worker alone, one epoch a turn, nanoseconds per nonzero of the rows.

An epoch's turn has what belongs to it besides rows: claims, the next order's shuffle, the look for
numbers that are not finite. With 10 columns a nonzero is read once and serves all of them.
"""

import pytest

from hogshare.planes.shared import Shared
from hogshare.rules import SAGA, SDCA, SGD

RULES = {"sgd": SGD(), "dual": SDCA(), "saga": SAGA()}
FORMS = pytest.mark.parametrize("form", ["csr", "dense"])
DTYPES = pytest.mark.parametrize("dtype", ["float32", "float64"])


@pytest.mark.benchmark(group="kernels: rows")
@pytest.mark.parametrize("columns", [1, 10])
@DTYPES
@FORMS
@pytest.mark.parametrize("rule", RULES)
def test_rows(time_epochs, linear, worker, rows, rule, form, dtype, columns):
    X = rows(form, dtype)
    alone = worker(linear(X, columns, alpha=1e-4), rule=RULES[rule])
    time_epochs(alone, "nonzero", X.size)


@pytest.mark.benchmark(group="kernels: penalties")
@pytest.mark.parametrize("penalty", [None, "l1", "elasticnet"])
@pytest.mark.parametrize("rule", ["sgd", "saga"])
def test_penalties(time_epochs, linear, worker, rows, rule, penalty):
    X = rows("csr", "float32")
    alone = worker(linear(X, penalty=penalty, alpha=1e-4), rule=RULES[rule])
    time_epochs(alone, "nonzero", X.size)


@pytest.mark.benchmark(group="kernels: one vector without locks")
@pytest.mark.parametrize("adds", ["plain", "atomic"])
@DTYPES
@FORMS
def test_hogwild_rows(time_epochs, linear, worker, rows, form, dtype, adds):
    X = rows(form, dtype)
    plane = Shared(exchange=None, adds=adds)
    time_epochs(worker(linear(X, alpha=1e-4), plane=plane), "nonzero", X.size)
