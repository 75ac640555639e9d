"""Vowpal Wabbit, which reads its own cache file, as its authors intend."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from hogshare.lab.rivals.contestant import Setting
from hogshare.lab.rivals.linear.linear_race import Linear

LOSSES = {"log_loss": "logistic", "hinge": "hinge"}

# of the plain update, in units of one over the mean squared norm of a row; it falls like 1/sqrt(t)
STEPS = (10.0, 3.0, 30.0, 1.0)

# of the adaptive update, which is normalised: it needs no unit
RATES = (0.5, 0.1, 0.02)


def write_text(X: Any, y: np.ndarray, path: Path) -> None:
    """Write rows in Vowpal Wabbit's text format; features are named by whole numbers.

    A whole number as a name is its own hash.
    """
    X = sparse.csr_array(X)
    with open(path, "w", encoding="ascii") as file:
        for i, label in enumerate(y.astype(int)):
            row = slice(X.indptr[i], X.indptr[i + 1])
            pairs = zip(X.indices[row], X.data[row], strict=True)
            cells = " ".join(f"{j}:{v:.9g}" for j, v in pairs)
            file.write(f"{label} | {cells}\n")


class WabbitSGD(Linear):
    """Vowpal Wabbit's online updates: adaptive and normalised (its default), or plain."""

    name = "vw SGD"
    library = "vowpalwabbit"

    def grid(self) -> list[Setting]:
        settings: list[Setting] = [
            {"update": "--sgd", "rate": step / self.task.mean_square, "l2": True} for step in STEPS
        ]
        # with l2 the adaptive update diverges after some passes; without l2 it minimises another
        # objective, which may suffice for an easy target
        for penalty in (True, False):
            for rate in RATES:
                update = "--adaptive --normalized --invariant"
                settings.append({"update": update, "rate": rate, "l2": penalty})
        return settings

    def prepare(self, X: Any, y: np.ndarray) -> Any:
        from vowpalwabbit import Workspace

        folder = tempfile.TemporaryDirectory(prefix="hogshare-vw-")
        text = Path(folder.name) / "rows.txt"
        write_text(X, y, text)
        bits = max(1, (self.task.n_columns - 1).bit_length())
        arguments = ["--cache_file", str(Path(folder.name) / "rows.cache"), "-b", str(bits)]
        arguments += ["--loss_function", LOSSES[self.task.loss], "--noconstant", "--holdout_off"]
        arguments += ["--quiet"]
        Workspace(arg_list=[*arguments, "-d", str(text)]).finish()
        text.unlink()
        return arguments, Workspace, folder

    def fit(self, prepared: Any, setting: Setting, budget: float, seed: int) -> Any:
        arguments, Workspace, _ = prepared
        extra = [*setting["update"].split(), "-l", repr(setting["rate"])]
        if setting["l2"]:
            extra += ["--l2", repr(self.task.alpha)]
        return Workspace(arg_list=[*arguments, "--passes", str(int(budget)), *extra])

    def model(self, fitted: Any) -> np.ndarray:
        w = np.array([fitted.get_weight(j) for j in range(self.task.n_columns)])
        fitted.finish()
        return w

    def close(self, prepared: Any) -> None:
        prepared[2].cleanup()


class WabbitBFGS(WabbitSGD):
    """Vowpal Wabbit's L-BFGS, a batch method; the penalty belongs to the summed loss."""

    name = "vw BFGS"
    losses = ("log_loss",)

    def grid(self) -> list[Setting]:
        return [{}]

    def ladder(self) -> tuple[float, ...]:
        # the first pass only computes a gradient and takes no step
        return tuple(count for count in super().ladder() if count > 1)

    def fit(self, prepared: Any, setting: Setting, budget: float, seed: int) -> Any:
        arguments, Workspace, _ = prepared
        extra = ["--bfgs", "--termination", "1e-15", "--l2", repr(1.0 / self.task.C)]
        return Workspace(arg_list=[*arguments, "--passes", str(int(budget)), *extra])
