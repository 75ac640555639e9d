"""tick: SVRG and SAGA, also asynchronous, and SDCA, all in C++."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from hogshare.lab.rivals.contestant import Setting
from hogshare.lab.rivals.linear.task import Linear

# steps in units of one over the largest smoothness constant of a row, which tick recommends
STEPS = (1.0, 0.3, 0.1, 0.03, 3.0)


class TickSVRG(Linear):
    """Variance-reduced gradients; threads write one vector without locks."""

    name = "tick SVRG"
    library = "tick"
    losses = ("log_loss",)
    solver: ClassVar[str] = "SVRG"

    def grid(self) -> list[Setting]:
        counts = sorted({1, self.task.workers})
        return [{"step": step, "threads": count} for step in STEPS for count in counts]

    def prepare(self, X: Any, y: np.ndarray) -> Any:
        from tick import prox, solver
        from tick.linear_model import ModelLogReg

        # it knows neither csr_array nor labels of another precision than the rows
        rows = sparse.csr_matrix(X) if sparse.issparse(X) else np.ascontiguousarray(X)
        model = ModelLogReg(fit_intercept=False).fit(rows, y.astype(rows.dtype))
        return model, float(model.get_lip_max()), getattr(solver, self.solver), prox

    def fit(self, prepared: Any, setting: Setting, budget: float, seed: int) -> Any:
        model, smoothness, kind, prox = prepared
        solver = kind(
            step=setting["step"] / smoothness,
            n_threads=setting["threads"],
            **self.common(budget, seed, setting["threads"]),
        )
        return solver.set_model(model).set_prox(prox.ProxL2Sq(self.task.alpha)).solve()

    def common(self, budget: float, seed: int, threads: int = 1) -> Setting:
        """Return what its solvers have in common: no stop criterion and no history."""
        never = int(budget) + 1
        return {
            "max_iter": int(budget),
            "tol": 0.0,
            # "unif" never draws the last row, and so has another optimum (seen with SAGA and
            # SDCA in 0.8.0.2); with threads "perm" ends in a segmentation fault
            "rand_type": "perm" if threads == 1 else "unif",
            "verbose": False,
            "seed": seed,
            "record_every": never,
            "print_every": never,
        }

    def model(self, fitted: Any) -> np.ndarray:
        return np.asarray(fitted, dtype=np.float64)


class TickSAGA(TickSVRG):
    """SAGA, and with threads ASAGA."""

    name = "tick SAGA"
    solver = "SAGA"


class TickSDCA(TickSVRG):
    """Stochastic dual coordinate ascent, one thread."""

    name = "tick SDCA"
    solver = "SDCA"

    def grid(self) -> list[Setting]:
        return [{}]

    def fit(self, prepared: Any, setting: Setting, budget: float, seed: int) -> Any:
        model, _, kind, prox = prepared
        solver = kind(l_l2sq=self.task.alpha, **self.common(budget, seed))
        return solver.set_model(model).set_prox(prox.ProxZero()).solve()
