"""Numbers that nothing can be done with are refused by name, before a run; never otherwise.

A table of what takes numbers: a class or a function, arguments that are right, and what uses the
result. Each argument in turn is made each of the bad values.
"""

import inspect
import math
import warnings

import numpy as np
import pytest

import hogshare as h
from hogshare import problems
from hogshare import simulation as sim
from hogshare import stragglers as laws

BAD = (
    *(math.nan, math.inf, -math.inf, -1, 0, 1e300, -1e300, 5e-324, 10**400, -(10**400), 2**63),
    *("x", "", 1j, [1e300, 1], [10**400], [math.nan], ["a"], np.float32(np.nan), np.ones(2)),
)
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
    "SGD": (h.SGD, {}, lambda it: run(rule=it) if it.batch == 1 else None),
    "SAGA": (h.SAGA, {}, lambda it: run(rule=it)),
    "Shared": (h.Shared, {}, None),
    "Master": (h.Master, {}, None),
    "Checkpoint": (h.Checkpoint, {"path": "never-written.npz"}, None),
    "solve": (run, {}, None),
}
OF_SOLVE = (
    *("rule", "plane", "step", "stop", "start", "shuffle", "trace", "block", "record", "gradients"),
    *("stragglers", "barrier", "on_epoch", "n_workers", "runtime"),
)


@pytest.mark.parametrize("name", TABLE)
def test_bad_numbers_are_refused_by_name_or_do_no_harm(name):
    make, right, use = TABLE[name]
    parameters = OF_SOLVE if make is run else list(inspect.signature(make).parameters)
    wrong, refused = [], 0
    for parameter in parameters:
        for bad in BAD:
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
