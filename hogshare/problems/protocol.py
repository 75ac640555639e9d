"""What the engine asks of every problem, whatever is minimised.

There are two kinds. Of a linear problem kernels step through the rows (`has_rows`); of any other
the engine asks for the gradient of a block (`hogshare.problems.gradient`, from which a problem of
one's own derives). Where one kind is meant, `has_rows` and `by_gradient` tell which it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

import numpy as np

from hogshare.kernels.rows import Rows
from hogshare.problems.model import Model

if TYPE_CHECKING:
    from hogshare.problems.gradient import GradientProblem
    from hogshare.problems.linear import LinearProblem


class Size(Protocol):
    """What the costs of a problem's rows and exchanges depend on."""

    @property
    def n_rows(self) -> int:
        """Terms of the sum that is minimised."""
        ...

    @property
    def n_features(self) -> int:
        """Numbers of the model in one column."""
        ...

    @property
    def n_columns(self) -> int:
        """Columns of the model: one, or one per class."""
        ...

    @property
    def nnz(self) -> int:
        """Numbers that a pass over the rows touches."""
        ...

    @property
    def is_sparse(self) -> bool:
        """Whether rows touch few of the features."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the model in a run: float32 or float64."""
        ...


class Problem(Size, Protocol):
    """A problem as the engine knows it: its size, and what a run and its report need of it."""

    @property
    def is_regression(self) -> bool:
        """Whether held-out rows are scored as a regression's."""
        ...

    @property
    def has_rows(self) -> bool:
        """Whether kernels step through its rows."""
        ...

    @property
    def rows(self) -> Rows:
        """What kernels read; of a problem without rows of theirs, nothing."""
        ...

    @property
    def divisors(self) -> np.ndarray | None:
        """By what features have been divided; None: by nothing."""
        ...

    def check(self) -> None:
        """Refuse an instance that is not complete."""
        ...

    def facts(self) -> dict[str, Any]:
        """What it is, as plain data, for reports."""
        ...

    def identity(self) -> dict[str, Any]:
        """What it is, for checkpoints: two problems with the same are one."""
        ...

    def start_model(self, start: Any) -> Model | None:
        """A start that a caller gives, as the engine has models; None where there is none."""
        ...

    def view(self, model: Model) -> Any:
        """A model of the engine's, as users see it."""
        ...

    def objective_at(self, model: Any) -> float:
        """Objective at a model, the engine's or as users see it."""
        ...


def has_rows(problem: Problem) -> TypeGuard[LinearProblem]:
    """Whether kernels step through a problem's rows, as those of a linear problem."""
    return problem.has_rows


def by_gradient(problem: Problem) -> TypeGuard[GradientProblem]:
    """Whether a problem is known by its gradient."""
    return not problem.has_rows
