"""torch, from tensors in memory."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from hogshare.lab.rivals.contestant import Setting
from hogshare.lab.rivals.networks.discipline import MOMENTUM, NetworkContestant
from hogshare.problems.modules import library


class TorchSGD(NetworkContestant):
    """By momentum, with as many threads as there may be workers."""

    name = "torch SGD"
    library = "torch"

    def refusal(self) -> str:
        return "" if self.task.hidden else "its layers are built of those that are connected wholly"

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
        """The network."""
        assert self.task.hidden is not None
        sizes = [self.task.n_inputs, *self.task.hidden, self.task.n_outputs]
        layers: list[Any] = []
        for n_in, n_out in itertools.pairwise(sizes):
            layers += [torch.nn.Linear(n_in, n_out), torch.nn.ReLU()]
        return torch.nn.Sequential(*layers[:-1])

    def model(self, fitted: Any) -> np.ndarray:
        parts = [p.detach().numpy() for p in fitted.parameters()]
        return np.concatenate([part.T.ravel() for part in parts])


class TorchAdam(TorchSGD):
    """By Adam."""

    name = "torch Adam"
    solver = "adam"
