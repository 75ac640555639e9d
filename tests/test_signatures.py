"""A kernel of a turn is compiled once per rule, plane and type of number, whatever else is asked
for: every further signature would cost its user seconds, in the middle of a fit.
"""

import itertools

import cases
import numpy as np
import pytest
from numba import typeof

from hogshare import BSP, PSSP, SAGA, SDCA, SGD, Fraction, Master, Shared, Stop

COPIES, ONE_VECTOR = Shared(exchange=3), Shared(exchange=None, adds="atomic")
RULES = {
    "sgd": (COPIES, [SGD(), SGD(average=True)]),
    "hogwild": (ONE_VECTOR, [SGD(), SGD(batch=4), SGD(average=5), SGD(coordinate="unbiased")]),
    "dual": (COPIES, [SDCA()]),
    "saga": (COPIES, [SAGA(), SAGA(step=1), SAGA(sampling="importance"), SAGA(replace=True)]),
    "asaga": (ONE_VECTOR, [SAGA(), SAGA(step=1)]),
    "master": (Master(2, cutoff=3, damped=True), [SGD(), SGD(batch=4)]),
}
# numbers as callers write them
PROBLEMS = [
    {"alpha": 1},
    {"alpha": np.float32(0.5), "penalty": "elasticnet", "l1_ratio": 0, "weighted": True},
    {"columns": 3, "penalty": "elasticnet", "l1_ratio": np.float64(0.5), "fit_intercept": False},
    {"task": "regression", "loss": "huber", "epsilon": 1},
]
RUNS = [
    {"n_workers": 1},
    {"n_workers": 2, "trace": 5, "stop": Stop(epochs=3, tol=1)},
    {"n_workers": 4, "shuffle": False, "report_epochs": True, "first_t": 7},
    {"n_workers": 2, "stop": Stop(epochs=3, validation=np.arange(23) % 3 == 0)},
    {"n_workers": 2, "barrier": BSP()},
    {"n_workers": 4, "barrier": PSSP(2, 1, hold=True), "block": 4},
    {"n_workers": 3, "barrier": Fraction(1)},
]


@pytest.mark.parametrize("form", ["dense", "csr", "csr64"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", RULES)
def test_one_signature_per_rule_and_type_of_number(name, dtype, form):
    plane, rules = RULES[name]
    signatures = set()
    for rule, settings, run in itertools.product(rules, PROBLEMS, RUNS):
        problem, *_ = cases.problem(form, dtype, **settings)
        session = cases.session(problem, rule=rule, plane=plane, **run)
        worker = session.worker(0)
        numbers, groups = (session.rule, session.plan), (*cases.groups(session), session.mail)
        arguments = session.rows, *numbers, *groups, worker.private
        signatures.add(tuple(map(typeof, arguments)))
    assert len(signatures) == 1
