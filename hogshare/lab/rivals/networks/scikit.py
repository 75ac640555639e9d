"""scikit-learn's `MLPClassifier`."""

from __future__ import annotations

from typing import Any

import numpy as np

from hogshare.lab.rivals.contestant import Setting
from hogshare.lab.rivals.networks.discipline import MOMENTUM, NetworkContestant


class ScikitSGD(NetworkContestant):
    """By momentum."""

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


class ScikitAdam(ScikitSGD):
    """By Adam."""

    name = "sklearn Adam"
    solver = "adam"
