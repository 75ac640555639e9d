"""The race of networks, whose targets are shares of misclassified held-out rows.

A model is a vector as in `hogshare.problems.network`. For each layer it has the coefficients, of
shape (inputs, units) or (size, size, channels, filters), and then the intercepts.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hogshare.lab.rivals.contestant import Contestant, RaceTask, Setting
from hogshare.lab.rivals.discipline import Discipline, Reference, split
from hogshare.lab.studies.named_networks import NamedNetwork
from hogshare.problems.layers import Dense, Layer
from hogshare.problems.modules import library

STEPS = {"sgd": (0.03, 0.1, 0.01), "adam": (0.001, 0.003)}
MOMENTUM = 0.9  # Nesterov momentum of sgd


@dataclass(frozen=True)
class NetworkTask(RaceTask):
    """The facts of a network: its hidden layers, and the shape of a row if it is an image."""

    layers: tuple[Layer, ...]
    image: tuple[int, int, int] | None
    n_inputs: int
    n_outputs: int
    batch: int

    @property
    def hidden(self) -> tuple[int, ...] | None:
        """Units of the hidden layers; None if not all layers are fully connected."""
        units = [layer.units for layer in self.layers if isinstance(layer, Dense)]
        return tuple(units) if len(units) == len(self.layers) else None


class NetworkRace(Discipline):
    """A named network, which is trained on four fifths of the rows and judged on the other fifth.

    Parameters
    ----------
    family : Network
    X, y : array-like
        Rows and labels, from `family.data`.
    seed : int
        Seed of the held-out rows.
    """

    measure = "a share of misclassified held-out rows"

    def __init__(self, family: NamedNetwork, X: Any, y: Any, seed: int = 0) -> None:
        train, test = split(X.shape[0], seed)
        codes = np.unique(y, return_inverse=True)[1]
        self.family = family
        self.X, self.y = X[train], codes[train]
        self.test = X[test], codes[test]
        self.problem: Any = family.state((self.X, self.y))
        self.what = family.what(self.problem)
        self.settings = {"batch": family.rows_of_a_gradient, "held_out": len(test)}
        sizes = {"rows": self.problem.n_rows, "columns": family.n_inputs}
        self.facts = {**sizes, "params": self.problem.n_params, "dtype": str(self.X.dtype)}

    def task(self, workers: int) -> NetworkTask:
        family = self.family
        sizes = family.n_inputs, family.n_outputs, family.rows_of_a_gradient
        return NetworkTask(workers, family.layers, family.image, *sizes)

    def judge(self, model: np.ndarray) -> float:
        if not np.isfinite(model).all():
            return float("inf")
        X, y = self.test
        return float(np.mean(self.problem.predict(model, X) != y))

    def find(self) -> Reference:
        return Reference(0.0, 0.0, "no mistakes", 0.0)

    def distance(self, value: float, lowest: float) -> float:
        return value

    def at_start(self) -> float:
        return self.judge(np.zeros(self.problem.n_params, self.problem.dtype))


class NetworkContestant(Contestant):
    """A contestant that fits a network on mini-batches by momentum or Adam, with tuned steps."""

    task: NetworkTask
    solver: ClassVar[str] = "sgd"

    def grid(self) -> list[Setting]:
        return [{"step": step, "batch": self.task.batch} for step in STEPS[self.solver]]


class HogshareNetwork(NetworkContestant):
    """`hogshare.solve` in threads with private copies, by momentum or Adam."""

    name = "hogshare SGD"
    library = "hogshare"
    exchange: ClassVar[str | None] = "auto"

    def prepare(self, X: Any, y: Any) -> Any:
        from hogshare.problems.network import network

        return network(X, y, layers=self.task.layers, shape=self.task.image)

    def fit(self, prepared: Any, setting: Setting, budget: float, seed: int) -> Any:
        from hogshare.planes.shared import Shared
        from hogshare.rules.adam import Adam
        from hogshare.rules.sgd import SGD
        from hogshare.solvers.solver import solve

        batch = setting["batch"]
        rule = SGD(batch=batch, momentum=MOMENTUM, nesterov=True)
        return solve(
            prepared,
            rule=Adam(batch=batch) if self.solver == "adam" else rule,
            plane=Shared(exchange=self.exchange),
            n_workers=self.task.workers,
            runtime="threads",
            step=setting["step"],
            stop=int(budget),
            seed=seed,
            start=prepared.start(seed),
        )

    def model(self, fitted: Any) -> np.ndarray:
        return np.asarray(fitted.model.params)


class ScikitNetwork(NetworkContestant):
    """scikit-learn's `MLPClassifier`, by momentum or Adam."""

    name = "sklearn SGD"
    library = "scikit-learn"

    def refusal(self) -> str:
        return "" if self.task.hidden else "it has no convolutions"

    def fit(self, prepared: Any, setting: Setting, budget: float, seed: int) -> Any:
        from sklearn.neural_network import MLPClassifier

        assert self.task.hidden is not None
        model = MLPClassifier(
            self.task.hidden,
            solver=self.solver,
            batch_size=setting["batch"],
            learning_rate_init=setting["step"],
            momentum=MOMENTUM,
            max_iter=int(budget),
            n_iter_no_change=int(budget) + 1,
            random_state=seed,
        )
        return model.fit(*prepared)

    def model(self, fitted: Any) -> np.ndarray:
        layers = zip(fitted.coefs_, fitted.intercepts_, strict=True)
        return np.concatenate([part.ravel() for layer in layers for part in layer])


class TorchNetwork(NetworkContestant):
    """torch on tensors in memory, by momentum, with one thread per allowed worker."""

    name = "torch SGD"
    library = "torch"

    def refusal(self) -> str:
        return "" if self.task.hidden else "this contestant builds only fully connected layers"

    def prepare(self, X: Any, y: Any) -> Any:
        torch = library()
        dense = X.toarray() if hasattr(X, "toarray") else X
        rows = torch.from_numpy(np.ascontiguousarray(dense, np.float32))
        if self.task.n_outputs == 1:
            return rows, torch.from_numpy(y.astype(np.float32)[:, np.newaxis])
        return rows, torch.from_numpy(y.astype(np.int64))

    def fit(self, prepared: Any, setting: Setting, budget: float, seed: int) -> Any:
        torch = library()
        torch.set_num_threads(self.task.workers)
        torch.manual_seed(seed)
        X, y = prepared
        module, functional = self.made(torch), torch.nn.functional
        one = self.task.n_outputs == 1
        loss = functional.binary_cross_entropy_with_logits if one else functional.cross_entropy
        optimiser: Any
        if self.solver == "adam":
            optimiser = torch.optim.Adam(module.parameters(), lr=setting["step"])
        else:
            momentum = {"momentum": MOMENTUM, "nesterov": True}
            optimiser = torch.optim.SGD(module.parameters(), lr=setting["step"], **momentum)
        for _ in range(int(budget)):
            for part in torch.randperm(len(X)).split(setting["batch"]):
                optimiser.zero_grad()
                loss(module(X[part]), y[part]).backward()
                optimiser.step()
        return module

    def made(self, torch: Any) -> Any:
        """Make the network."""
        assert self.task.hidden is not None
        sizes = [self.task.n_inputs, *self.task.hidden, self.task.n_outputs]
        layers: list[Any] = []
        for n_in, n_out in itertools.pairwise(sizes):
            layers += [torch.nn.Linear(n_in, n_out), torch.nn.ReLU()]
        return torch.nn.Sequential(*layers[:-1])

    def model(self, fitted: Any) -> np.ndarray:
        parts = [p.detach().numpy() for p in fitted.parameters()]
        return np.concatenate([part.T.ravel() for part in parts])


CONTESTANTS = (
    HogshareNetwork,
    HogshareNetwork.called("hogshare exchange=None", exchange=None),  # one vector without locks
    HogshareNetwork.called("hogshare Adam", solver="adam"),
    ScikitNetwork,
    ScikitNetwork.called("sklearn Adam", solver="adam"),
    TorchNetwork,
    TorchNetwork.called("torch Adam", solver="adam"),
)
