"""snapml: IBM's coordinate descent on the dual or the primal, with a model for each thread.

It computes in float32 on rows that are sparse by rows (dual) or by columns (primal).
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from hogshare.lab.rivals.contestant import Setting
from hogshare.lab.rivals.linear.task import Linear


class SnapDual(Linear):
    """Coordinate ascent on the dual of the log loss, all workers."""

    name = "snapml dual"
    library = "snapml"
    losses = ("log_loss",)
    dual: ClassVar[bool] = True

    def prepare(self, X: Any, y: np.ndarray) -> Any:
        import snapml

        if sparse.issparse(X):
            kind = sparse.csr_matrix if self.dual else sparse.csc_matrix
            rows = kind(X, dtype=np.float32)
        else:
            rows = np.asarray(X, dtype=np.float32, order="C" if self.dual else "F")
        return rows, y, snapml

    def threads(self) -> int:
        """How many threads it is given."""
        return self.task.workers

    def fit(self, prepared: Any, setting: Setting, budget: float, seed: int) -> Any:
        X, y, snapml = prepared
        return self.made(snapml, int(budget), seed).fit(X, y)

    def made(self, snapml: Any, epochs: int, seed: int) -> Any:
        """Make an estimator that runs all its epochs."""
        return snapml.LogisticRegression(dual=self.dual, **self.common(epochs, seed))

    def common(self, epochs: int, seed: int) -> Setting:
        """Return what its models have in common."""
        return {
            "max_iter": epochs,
            "regularizer": 1.0 / self.task.C,
            "n_jobs": self.threads(),
            "tol": 0.0,
            "fit_intercept": False,
            "random_state": seed,
        }


class SnapPrimal(SnapDual):
    """Coordinate descent on the primal, all workers."""

    name = "snapml primal"
    dual = False


class SnapSVM(SnapDual):
    """Coordinate ascent on the dual of the hinge loss, all workers."""

    name = "snapml SVM"
    losses = ("hinge",)

    def made(self, snapml: Any, epochs: int, seed: int) -> Any:
        return snapml.SupportVectorMachine(loss="hinge", **self.common(epochs, seed))


class OneThread(SnapDual):
    """The same with one thread: more of them are not always faster."""

    def refusal(self) -> str:
        return "the same as with all workers" if self.task.workers == 1 else ""

    def threads(self) -> int:
        return 1


class SnapDualOne(OneThread):
    """One thread on the dual."""

    name = "snapml dual one thread"


class SnapPrimalOne(OneThread, SnapPrimal):
    """One thread on the primal."""

    name = "snapml primal one thread"


class SnapSVMOne(OneThread, SnapSVM):
    """One thread on the dual of the hinge loss."""

    name = "snapml SVM one thread"
