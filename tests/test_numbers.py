"""Numbers that nothing can be done with are refused by name, before a run; never otherwise.

A table of what takes numbers: a class or a function, arguments that are right, and what uses the
result. Each argument in turn is made each of the bad values.
"""

import inspect
import math
import warnings

import numpy as np
import pytest
from sklearn.base import is_classifier

import hogshare as h
from hogshare import problems
from hogshare import simulation as sim
from hogshare import stragglers as laws
from hogshare.system import ranges

BAD = (
    *(math.nan, math.inf, -math.inf, -1, 0, 1e300, -1e300, 5e-324, 10**400, -(10**400), 2**63),
    *("x", "", 1j, [1e300, 1], [10**400], [math.nan], ["a"], np.float32(np.nan), np.ones(2)),
    *(np.int64(3), np.uint64(3), np.bool_(True), [], {}, object()),
)
LARGE = (1 << 60, np.uint64(1 << 60))  # which a run of so many epochs would take
ROWS = np.random.default_rng(0).standard_normal((12, 2))


def run(**settings):
    problem = problems.linear(ROWS, ROWS[:, 0] > 0)
    return h.solve(problem, **{"stop": h.Stop(epochs=2), "seed": 0, "n_workers": 1} | settings)


def simulated(**settings):
    return run(runtime=sim.Simulator(**settings), n_workers=2, block=5)


def behind(barrier):
    return run(barrier=barrier, runtime=sim.Simulator(), n_workers=2, block=5)


def late(law):
    return run(stragglers=law, runtime=sim.Simulator(), n_workers=2, block=5)


def blocks(law):
    return simulated(block_time=law)


def threaded(**settings):
    return run(**{"n_workers": 2, "runtime": "threads", "block": 3} | settings)


def of_classes(**settings):
    return problems.linear(ROWS, ROWS[:, 0] > 0, **{"penalty": "elasticnet"} | settings)


def of_numbers(epsilon):
    return problems.linear(ROWS, ROWS[:, 0], loss="huber", epsilon=epsilon)


TABLE = {
    "Simulator": (sim.Simulator, {}, lambda it: run(runtime=it, n_workers=2, block=5)),
    "Constant": (sim.Constant, {"seconds": 1.0}, blocks),
    "Exponential": (sim.Exponential, {"mean": 1.0}, blocks),
    "Gamma": (sim.Gamma, {"mean": 1.0, "shape": 2.0}, blocks),
    "block times' LogNormal": (sim.LogNormal, {"mean": 1.0, "sigma": 0.5}, blocks),
    "Uniform": (sim.Uniform, {"low": 0.5, "high": 1.0}, blocks),
    "Measured": (sim.Measured, {"seconds": [1.0]}, blocks),
    "Churn": (sim.Churn, {}, lambda it: simulated(churn=it)),
    "Link": (sim.Link, {}, lambda it: simulated(network=sim.Network(link=it))),
    "Network": (sim.Network, {}, lambda it: simulated(network=it)),
    "ControlledDelay": (laws.ControlledDelay, {"delay": 0.5}, late),
    "ProductionCluster": (laws.ProductionCluster, {}, late),
    "stragglers' LogNormal": (laws.LogNormal, {"sigma": 0.5}, late),
    "Recorded": (laws.Recorded, {"seconds": [[1.0], [0.0]]}, late),
    "SSP": (h.SSP, {"staleness": 1}, behind),
    "PBSP": (h.PBSP, {"sample": 1}, behind),
    "PSSP": (h.PSSP, {"sample": 1, "staleness": 1}, behind),
    "Fraction": (h.Fraction, {"share": 0.5}, behind),
    "Throttled": (h.Throttled, {"available": 1}, behind),
    "Stop": (h.Stop, {"epochs": 2}, lambda it: run(stop=it) if it.epochs < 9 else None),
    "StepSize": (h.StepSize, {"kind": "constant"}, lambda it: run(step=it)),
    "SGD": (h.SGD, {}, lambda it: run(rule=it, plane=h.Master(), step=0.1)),
    "SAGA": (h.SAGA, {}, lambda it: run(rule=it)),
    "Shared": (h.Shared, {}, lambda it: threaded(plane=it)),
    "Master": (h.Master, {}, lambda it: threaded(plane=it)),
    "Checkpoint": (h.Checkpoint, {"path": "never-written.npz"}, None),
    "solve": (run, {}, None),
    "solve in threads": (threaded, {}, None),
    "linear": (of_classes, {}, lambda it: h.solve(it, stop=2)),
    "linear's epsilon": (of_numbers, {}, lambda it: h.solve(it, stop=2)),
}
OF_SOLVE = (
    *("rule", "plane", "step", "stop", "start", "shuffle", "trace", "block", "record", "gradients"),
    *("stragglers", "barrier", "on_epoch", "n_workers", "runtime"),
)
OF_LINEAR = (
    *("loss", "penalty", "alpha", "l1_ratio", "fit_intercept", "sample_weight", "class_weight"),
    *("classes", "task"),
)
OF = {run: OF_SOLVE, threaded: ("trace", "block", "n_workers"), of_classes: OF_LINEAR}


@pytest.mark.parametrize("name", TABLE)
def test_bad_numbers_are_refused_by_name_or_do_no_harm(name):
    make, right, use = TABLE[name]
    parameters = OF.get(make) or list(inspect.signature(make).parameters)
    wrong, refused = [], 0
    for parameter in parameters:
        for bad in (*BAD, *(() if parameter == "stop" else LARGE)):
            case = f"{parameter}={str(bad)[:30]!r}"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    it = make(**right | {parameter: bad})
                except (ValueError, TypeError) as error:
                    refused += 1
                    if parameter.replace("_", " ") not in str(error).replace("_", " "):
                        wrong.append(f"{case}: {error}")
                    continue
                except Exception as error:
                    wrong.append(f"{case}: {error!r}")
                    continue
                try:
                    if use is not None:
                        use(it)
                except (ValueError, sim.SimulationError):
                    pass  # what does not fit the run, or diverges in it, is told by that
                except Exception as error:
                    wrong.append(f"{case}, in a run: {error!r}")
    assert not wrong, "\n".join(wrong)
    assert refused > 5 * len(parameters)


ESTIMATORS = (
    *(h.SGDClassifier, h.SGDRegressor, h.LogisticRegression, h.LogisticRegressionCV),
    *(h.Ridge, h.RidgeClassifier, h.Lasso, h.ElasticNet),
)
# of what scikit-learn says in other words
ITS_WORDS = ("number of penalties", "Precompute", "n splits", "Solver lbfgs supports", "unpack")


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
@pytest.mark.filterwarnings("ignore")
def test_estimators_refuse_them_by_name_too(kind):
    y = ROWS[:, 0] > 0 if is_classifier(kind()) else ROWS[:, 0]
    wrong, refused = [], 0
    for parameter in kind().get_params():
        for bad in (*BAD, *LARGE):
            settings = {"max_iter": 3, "cv": 2} | {parameter: bad}
            try:
                kind(
                    **{name: settings[name] for name in settings.keys() & kind().get_params()}
                ).fit(ROWS, y)
            except (ValueError, TypeError, MemoryError) as error:
                refused += 1
                names = (parameter.replace("_", " "), "under-/overflow", *ITS_WORDS)
                if not any(name in str(error).replace("_", " ") for name in names):
                    wrong.append(f"{parameter}={str(bad)[:30]!r}: {error!r}")
            except Exception as error:
                wrong.append(f"{parameter}={str(bad)[:30]!r}: {error!r}")
    assert not wrong, "\n".join(wrong)
    assert refused > 100


@pytest.mark.parametrize("integer", [np.int64, np.uint8, np.int32])
def test_whole_numbers_of_numpys_are_whole_numbers(integer):
    """And are kept as Python's, which reports and files know."""
    four = integer(4)
    made = [
        *(h.Master(four, cutoff=four), h.Shared(exchange=four), h.SSP(four), h.PBSP(four)),
        *(h.PSSP(four, four), h.Fraction(0.5, four, four), h.Throttled(four), h.SGD(four, four)),
        *(h.Stop(epochs=four, patience=four), h.Checkpoint("run.npz", epochs=four)),
        sim.Simulator(parts=four, seed=four),
    ]
    assert "np." not in repr(made)
    assert made[0] == h.Master(4, cutoff=4)


@pytest.mark.parametrize(
    ("runtime", "n_workers"), [("threads", 2), ("processes", 2), ("simulator", 2), ("caller", 1)]
)
def test_a_sum_that_is_never_full_ends_with_the_run(runtime, n_workers):
    """And mail that is never too old is none that is dropped."""
    plane = h.Master(gradients=ranges.LARGEST, cutoff=ranges.LARGEST)
    report = run(plane=plane, runtime=runtime, n_workers=n_workers, block=3)
    assert report.n_epochs == 2 and np.abs(report.model.coef).max() > 0.0
