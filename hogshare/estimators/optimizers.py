"""scikit-learn's optimizers of networks: the rules that take their steps, and their state.

As in scikit-learn, an estimator has one optimizer. It contains the step size, and the momentum or
moments, from which the next `partial_fit` continues. A file stores the optimizer's attributes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.neural_network._stochastic_optimizers import AdamOptimizer, SGDOptimizer

from hogshare.problems.network import parted
from hogshare.problems.params import Params
from hogshare.report import Report
from hogshare.rules.adam import Adam
from hogshare.rules.protocol import Rule
from hogshare.rules.sgd import SGD


def of(est: Any) -> Any:
    """Return a new optimizer of scikit-learn's, which stores the step size and the rule's state."""
    params = est.coefs_ + est.intercepts_
    if est.solver == "adam":
        return AdamOptimizer(params, est.learning_rate_init, est.beta_1, est.beta_2, est.epsilon)
    return SGDOptimizer(
        params,
        est.learning_rate_init,
        est.learning_rate,
        est.momentum,
        est.nesterovs_momentum,
        est.power_t,
    )


def rule_of(optimizer: Any, batch: int) -> Rule:
    """Return the rule that takes the optimizer's steps."""
    if isinstance(optimizer, AdamOptimizer):
        betas = {"beta_1": optimizer.beta_1, "beta_2": optimizer.beta_2}
        return Adam(batch=batch, epsilon=optimizer.epsilon, epsilon_hat=True, **betas)
    momentum = optimizer.momentum
    return SGD(batch=batch, momentum=momentum, nesterov=bool(optimizer.nesterov and momentum))


def step_of(optimizer: Any) -> float:
    """Return the present step size; for Adam, its rule then corrects this size for its moments."""
    is_adam = isinstance(optimizer, AdamOptimizer)
    return float(optimizer.learning_rate_init if is_adam else optimizer.learning_rate)


def start_of(est: Any, dtype: np.dtype) -> Params:
    """Return the present network with the state of its optimizer, both copied."""
    n_layers, optimizer = len(est.coefs_), est._optimizer

    def joined(parts: list[np.ndarray]) -> np.ndarray:
        layers = zip(parts[:n_layers], parts[n_layers:], strict=True)
        vector = np.concatenate([part.ravel() for layer in layers for part in layer])
        return vector.astype(dtype, copy=False)

    if isinstance(optimizer, AdamOptimizer):
        memory = {
            "mean": joined(optimizer.ms)[np.newaxis],
            "square": joined(optimizer.vs)[np.newaxis],
            "steps": np.array([[optimizer.t]]),
        }
    else:  # scikit-learn adds its velocity to the network; the rule subtracts its own
        memory = {"velocity": -joined(optimizer.velocities)[np.newaxis]}
    return Params(joined(est.coefs_ + est.intercepts_), memory=memory)


def store_state(optimizer: Any, report: Report, shapes: tuple[tuple[int, ...], ...]) -> None:
    """Store the state of the run's rule in the optimizer.

    If each worker has a state, store the mean over the workers that took blocks.
    """
    memory = report.model.memory
    if memory is None:  # steps without momentum have no state
        return
    n_states = len(next(iter(memory.values())))
    worked = [line["worker"] for line in report.workers if line["blocks"] and n_states > 1] or [0]

    def mean(name: str) -> list[np.ndarray]:
        layers = parted(memory[name][worked].mean(axis=0), shapes)
        return [coefs for coefs, _ in layers] + [intercepts for _, intercepts in layers]

    if isinstance(optimizer, AdamOptimizer):
        optimizer.ms, optimizer.vs = mean("mean"), mean("square")
        optimizer.t = t = round(float(memory["steps"][worked].mean()))
        shrinks = math.sqrt(1.0 - optimizer.beta_2**t) / (1.0 - optimizer.beta_1**t)
        optimizer.learning_rate = optimizer.learning_rate_init * shrinks
    else:
        optimizer.velocities = [-part for part in mean("velocity")]


def restored(numbers: Mapping[str, Any]) -> Any:
    """Return the optimizer stored in a file; only attributes of scikit-learn's class are read.

    numbers : the optimizer's attributes, by name
    """
    optimizer = (AdamOptimizer if "ms" in numbers else SGDOptimizer)([])
    for name in vars(optimizer):
        setattr(optimizer, name, numbers[name])
    return optimizer
