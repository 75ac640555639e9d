"""Multi-core LIBLINEAR (package ``liblinear-multicore``), stopped by its tolerance.

Its Python layer has no limit on iterations, so a budget is a tolerance. Rows are float64 nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from hogshare.lab.rivals.contestant import TOLERANCES, Setting
from hogshare.lab.rivals.linear.task import Linear


class LiblinearNewton(Linear):
    """``-s 0``: trust-region Newton on the primal of the log loss."""

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

        # its parameter and model are ctypes structures and know nothing of csr_array
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
    """``-s 7`` and ``-s 3``: coordinate descent on the dual."""

    name = "liblinear dual"
    losses: ClassVar[tuple[str, ...]] = ("log_loss", "hinge")
    codes: ClassVar[dict[str, int]] = {"log_loss": 7, "hinge": 3}

    def grid(self) -> list[Setting]:
        # the dual of the log loss has no parallel form
        return [{"threads": 1}] if self.task.loss == "log_loss" else super().grid()
