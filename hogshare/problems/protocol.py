"""What the engine asks of every problem, whatever is minimised.

There are two kinds. Of a linear problem kernels step through the rows (`has_rows`); of any other
the engine asks for the gradient of a block (`hogshare.problems.gradient`, from which a problem of
one's own derives). Where one kind is meant, `has_rows` and `by_gradient` tell which it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

import numpy as np

from hogshare.kernels.rows import Rows
from hogshare.problems.model import Model
from hogshare.problems.sharding import Shard

if TYPE_CHECKING:
    from hogshare.problems.gradient import GradientProblem
    from hogshare.problems.linear.units import Units


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

    def shard(self) -> Shard | None:
        """Its rows, as a part of more of them; None: they cannot be put together."""
        ...

    def united(
        self, facts: Sequence[Mapping[str, Any]], arrays: Mapping[str, np.ndarray]
    ) -> Problem:
        """The problem of all rows of which this one's are a part (`problems.sharding`)."""
        ...

    def start_model(self, start: Any) -> Model | None:
        """A start that a caller gives, as the engine has models; None where there is none."""
        ...

    @property
    def n_params(self) -> int:
        """Numbers of the model as one vector."""
        ...

    def start(self) -> np.ndarray:
        """Where a run begins that is given no start, as one vector."""
        ...

    def model_at(self, params: np.ndarray) -> Any:
        """The model that a vector is, as users see it."""
        ...

    def view(self, model: Model) -> Any:
        """A model of the engine's, as users see it."""
        ...

    def objective_at(self, model: Any) -> float:
        """Objective at a model, the engine's or as users see it."""
        ...


class RowProblem(Problem, Protocol):
    """A problem whose rows kernels step through: losses of predictions, and a penalty.

    What rules, planes, the engine and estimators know of a linear problem. One is made by
    `hogshare.problems.linear`, and the attributes are told there.
    """

    @property
    def loss(self) -> str:
        """Name of the loss of a row's prediction."""
        ...

    @property
    def epsilon(self) -> float:
        """Threshold of some losses."""
        ...

    @property
    def penalty(self) -> str | None:
        """Name of the penalty; None: there is none."""
        ...

    @property
    def alpha(self) -> float:
        """Factor of the penalty."""
        ...

    @property
    def l1_ratio(self) -> float:
        """Share of l1 in an elastic net."""
        ...

    @property
    def l1(self) -> float:
        """Strength of the penalty's l1 part."""
        ...

    @property
    def l2(self) -> float:
        """Strength of the penalty's l2 part."""
        ...

    @property
    def strengths(self) -> tuple[np.ndarray | float, np.ndarray | float]:
        """Strengths of l1 and l2 on every feature, or the one of all."""
        ...

    @property
    def fit_intercept(self) -> bool:
        """Whether there is an intercept, which is not penalised."""
        ...

    @property
    def n_all(self) -> int:
        """Rows that the objective is a mean over: of a part of the rows, all of them."""
        ...

    @property
    def largest_weight(self) -> float:
        """The largest weight of a row and its class."""
        ...

    @property
    def positive(self) -> np.ndarray:
        """Weights of the columns' own classes."""
        ...

    @property
    def negative(self) -> np.ndarray:
        """Weights of the rest."""
        ...

    @property
    def sample_every(self) -> int:
        """Of how many rows one is enough to tell what rows are like."""
        ...

    @property
    def norms(self) -> tuple[float, float]:
        """Mean and largest squared norm of the rows."""
        ...

    @property
    def sampled_norms(self) -> tuple[float, float]:
        """The same of a sample, where looking at all would take long."""
        ...

    @property
    def squared_norms(self) -> np.ndarray:
        """Squared norm of every row."""
        ...

    @property
    def nonzeros(self) -> np.ndarray:
        """Values that are stored of each feature of sparse rows."""
        ...

    @property
    def sharpness(self) -> float:
        """Of a loss with kinks, what stands for its curvature."""
        ...

    @property
    def units(self) -> Units:
        """In which a column's part of the gradient is compared."""
        ...

    @property
    def sampled_units(self) -> Units:
        """The same by a sample of the rows."""
        ...

    def require_norms(self) -> None:
        """Refuse rows that are too large for any step."""
        ...

    def row_sizes(self) -> np.ndarray:
        """Largest weight of each row in any column."""
        ...

    def with_rows(self, rows: Rows, divisors: np.ndarray | None = None) -> RowProblem:
        """The same problem of other rows."""
        ...

    def objective(self, coef: np.ndarray, intercept: np.ndarray) -> float:
        """Objective at coefficients and intercepts."""
        ...

    def penalty_at(self, coef: np.ndarray) -> float:
        """The penalty's part of it."""
        ...


def has_rows(problem: Problem) -> TypeGuard[RowProblem]:
    """Whether kernels step through a problem's rows, as those of a linear problem."""
    return problem.has_rows


def by_gradient(problem: Problem) -> TypeGuard[GradientProblem]:
    """Whether a problem is known by its gradient."""
    return not problem.has_rows
