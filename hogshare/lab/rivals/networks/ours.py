"""Our own: `hogshare.solve` on a network, in threads."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from hogshare.lab.rivals.contestant import Setting
from hogshare.lab.rivals.networks.discipline import MOMENTUM, NetworkContestant


class HogshareSGD(NetworkContestant):
    """Momentum, with private copies."""

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
        from hogshare.solvers.solving import solve

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


class HogshareOneVector(HogshareSGD):
    """Momentum, on one vector without locks."""

    name = "hogshare exchange=None"
    exchange = None


class HogshareAdam(HogshareSGD):
    """Adam, with private copies."""

    name = "hogshare Adam"
    solver = "adam"
