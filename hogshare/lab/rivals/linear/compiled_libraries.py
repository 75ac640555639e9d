"""C++ libraries with threaded solvers: multi-core LIBLINEAR, snapml and tick."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from hogshare.lab.rivals.contestant import TOLERANCES, Setting
from hogshare.lab.rivals.linear.linear_race import Linear

# step sizes of tick, in the unit that it recommends: one over the largest smoothness of a row
STEPS = (1.0, 0.3, 0.1, 0.03, 3.0)


class LiblinearNewton(Linear):
    """LIBLINEAR with ``-s 0``: trust-region Newton on the primal of the log loss, in float64.

    A budget is a tolerance, because the Python layer of ``liblinear-multicore`` has no limit on
    iterations.
    """

    name = "liblinear Newton"
    library = "liblinear-multicore"
    losses: ClassVar[tuple[str, ...]] = ("log_loss",)
    unit = "tolerance"
    codes: ClassVar[dict[str, int]] = {"log_loss": 0}

    def grid(self) -> list[Setting]:
        return [{"threads": count} for count in sorted({1, self.task.workers})]

    def ladder(self) -> Sequence[float]:
        return TOLERANCES

    def prepare(self, X: Any, y: np.ndarray) -> Any:
        from liblinear import liblinearutil

        # its parameter and model are ctypes structures, which do not accept csr_array
        rows = sparse.csr_matrix(X, dtype=np.float64)
        return liblinearutil.problem(y, rows), liblinearutil

    def fit(self, prepared: Any, setting: Setting, budget: float, seed: int) -> Any:
        problem, liblinear = prepared
        options = f"-s {self.codes[self.task.loss]} -c {self.task.C!r} -e {budget!r} -B -1 -q"
        if setting["threads"] > 1:
            options += f" -m {setting['threads']}"
        return liblinear.train(problem, options)

    def model(self, fitted: Any) -> np.ndarray:
        w = np.ctypeslib.as_array(fitted.w, (fitted.nr_feature,)).astype(np.float64)
        # the class of the first row comes first and counts as positive
        return w * float(fitted.label[0])


class LiblinearDual(LiblinearNewton):
    """LIBLINEAR with ``-s 7`` (log loss) or ``-s 3`` (hinge): coordinate descent on the dual."""

    name = "liblinear dual"
    losses = ("log_loss", "hinge")
    codes: ClassVar[dict[str, int]] = {"log_loss": 7, "hinge": 3}

    def grid(self) -> list[Setting]:
        # the dual of the log loss has no parallel form
        return [{"threads": 1}] if self.task.loss == "log_loss" else super().grid()


class SnapDual(Linear):
    """snapml: coordinate ascent on the dual or descent on the primal; each thread has a model.

    snapml computes in float32 on rows that are sparse by rows (dual) or by columns (primal).
    """

    name = "snapml dual"
    library = "snapml"
    losses = ("log_loss",)
    dual: ClassVar[bool] = True
    one_thread: ClassVar[bool] = False  # more threads are not always faster

    def refusal(self) -> str:
        is_same = self.one_thread and self.task.workers == 1
        return "the same as with all workers" if is_same else ""

    def prepare(self, X: Any, y: np.ndarray) -> Any:
        import snapml

        if sparse.issparse(X):
            kind = sparse.csr_matrix if self.dual else sparse.csc_matrix
            rows = kind(X, dtype=np.float32)
        else:
            rows = np.asarray(X, dtype=np.float32, order="C" if self.dual else "F")
        return rows, y, snapml

    def fit(self, prepared: Any, setting: Setting, budget: float, seed: int) -> Any:
        X, y, snapml = prepared
        settings = {
            "max_iter": int(budget),
            "regularizer": 1.0 / self.task.C,
            "n_jobs": 1 if self.one_thread else self.task.workers,
            "tol": 0.0,
            "fit_intercept": False,
            "random_state": seed,
        }
        if self.task.loss == "hinge":
            return snapml.SupportVectorMachine(loss="hinge", **settings).fit(X, y)
        return snapml.LogisticRegression(dual=self.dual, **settings).fit(X, y)


class TickSVRG(Linear):
    """tick's variance-reduced gradients; threads write one vector without locks."""

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

        # it accepts neither csr_array nor labels of another precision than the rows
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
        """Return the settings that tick's solvers share: no stop criterion and no history."""
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


class TickSDCA(TickSVRG):
    """tick's stochastic dual coordinate ascent, in one thread."""

    name = "tick SDCA"
    solver = "SDCA"

    def grid(self) -> list[Setting]:
        return [{}]

    def fit(self, prepared: Any, setting: Setting, budget: float, seed: int) -> Any:
        model, _, kind, prox = prepared
        solver = kind(l_l2sq=self.task.alpha, **self.common(budget, seed))
        return solver.set_model(model).set_prox(prox.ProxZero()).solve()


CONTESTANTS = (
    SnapDual,
    SnapDual.called("snapml dual one thread", one_thread=True),
    SnapDual.called("snapml primal", dual=False),
    SnapDual.called("snapml primal one thread", dual=False, one_thread=True),
    SnapDual.called("snapml SVM", losses=("hinge",)),
    SnapDual.called("snapml SVM one thread", losses=("hinge",), one_thread=True),
    LiblinearNewton,
    LiblinearDual,
    TickSVRG,
    TickSVRG.called("tick SAGA", solver="SAGA"),  # and with threads ASAGA
    TickSDCA,
)
