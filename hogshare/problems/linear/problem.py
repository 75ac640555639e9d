"""Linear models: a loss of a row's prediction plus a penalty on the coefficients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from hogshare.kernels.rows.moments import nonzeros_of, norms_of, squared_norms
from hogshare.kernels.rows.row_scores import add_losses
from hogshare.kernels.rows.row_views import RowArrays
from hogshare.kernels.rows.survey import Survey, survey, survey_dense
from hogshare.kernels.rows.whole_gradients import add_gradients
from hogshare.kernels.rules import losses, penalties
from hogshare.problems.fingerprints import DIGITS, digits
from hogshare.problems.kernel_arrays import require_unmasked
from hogshare.problems.linear.doubles import DoubleRows
from hogshare.problems.linear.labels import distinct, own_type
from hogshare.problems.linear.row_arrays import as_rows, check_sparse, each_column_once, is_sparse
from hogshare.problems.linear.shards import LabelCoding, shard_of, whole_rows
from hogshare.problems.linear.sharpness import row_sizes, sharpness_of
from hogshare.problems.linear.units import Features, Units, features_of, units_of
from hogshare.problems.model import Model
from hogshare.problems.shard import Shard
from hogshare.problems.weights import class_weights, row_weights
from hogshare.system import missed_calls, ranges
from hogshare.system.interrupts import errstate, leaves_numpy
from hogshare.system.lazy_attribute import once
from hogshare.system.messages import nearest

REGRESSION_LOSSES = (
    "squared_error",
    "huber",
    "epsilon_insensitive",
    "squared_epsilon_insensitive",
)
NORM_ROWS = 2048  # sampled rows from which norms are estimated
UNIT_ROWS = 256  # sampled dense rows from which sizes of features are estimated


@dataclass(frozen=True)
class LinearProblem:
    """A linear model to be fitted; make one with `hogshare.problems.linear`.

    The objective is
    ``sum_i weight_i loss(y_i, p_i) / n + alpha ((1 - l1_ratio) |w|^2 / 2 + l1_ratio |w|_1)``,
    summed over columns, where p_i is the prediction of row i. The intercept is not penalised. The
    multinomial loss has one value per row, not one per row and column.

    Attributes
    ----------
    rows : Rows
        The data in the form that kernels read: read-only views.
    n_features, n_columns : int
        Shape of the model matrix, which has one column, or one column for each class.
    classes : ndarray or None
        Labels in the order of the columns; None for regression.
    positive, negative : ndarray of shape (n_columns,)
        Weight of each column's own class, and weight of the other classes.
    seen : Survey or None
        The result of the pass that checked the rows, with the sizes of the rows; None if there was
        no such pass.
    features : Features or None
        Statistics of the features, if they were computed before the rows were centred.
    divisors : ndarray of shape (n_features,) or None
        Divisors of the features, or None if the features have not been divided. The penalty is on
        the coefficients of the original features, which are the model's coefficients divided by the
        divisors.
    """

    rows: RowArrays
    n_features: int
    n_columns: int
    classes: np.ndarray | None
    loss: str
    epsilon: float
    penalty: str | None
    alpha: float
    l1_ratio: float
    fit_intercept: bool
    positive: np.ndarray = field(repr=False)
    negative: np.ndarray = field(repr=False)
    seen: Survey | None = field(default=None, repr=False, compare=False)
    features: Features | None = field(default=None, repr=False, compare=False)
    divisors: np.ndarray | None = field(default=None, repr=False, compare=False)
    has_rows: ClassVar[bool] = True  # kernels step through its rows

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.rows.y)

    @property
    def n_all(self) -> int:
        """Number of rows over which the objective is a mean: the rows of all parts."""
        return self.n_rows

    @property
    def nnz_of_all(self) -> int:
        """Number of stored values of all rows."""
        return self.nnz

    def totals(self, *numbers: np.ndarray) -> list[np.ndarray]:
        """Return the sums of arrays over all parts of the rows; all ranks must call this method."""
        return list(numbers)

    def cached(self, function: Callable[..., Any], *args: Any, of: Any = None, **how: Any) -> Any:
        """Return a handle of ``function(part, *args, **how)`` for every part of the rows.

        of : handle of cached results, which are passed to `function` in place of the problems of
            the parts, or None
        """
        return function(self if of is None else of, *args, **how)

    def total(self, function: Callable[..., Any], *args: Any, of: Any = None) -> list[np.ndarray]:
        """Return the sums of the arrays that a function returns for each part of the rows.

        All processes that have a part must make this call.
        """
        return self.totals(*function(self if of is None else of, *args))

    def mask_of_all(self, mask: np.ndarray) -> np.ndarray:
        """Return the mask of all rows from the masks of all parts; all ranks must call it."""
        return np.asarray(mask)

    def pooled_mean(self, value: float, weight: float) -> float:
        """Return the weighted mean of a number over all parts; all ranks must call this method."""
        return value

    @property
    def largest_weight(self) -> float:
        """The largest product of the weights of a row and its class."""
        largest = float(self.rows.weight.max(initial=0.0)) if self.rows.weight.size else 1.0
        return largest * max(self.positive.tolist() + self.negative.tolist())

    @property
    def nnz(self) -> int:
        """Number of stored values."""
        return len(self.rows.data)

    @property
    def dtype(self) -> np.dtype:
        """Floating-point type of rows and model."""
        return self.rows.data.dtype

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are CSR."""
        return self.rows.width == 0

    @property
    def l2(self) -> float:
        """Strength of the penalty's l2 part; 0 if it has none."""
        if self.penalty is None:
            return 0.0
        return self.alpha * (1.0 - effective_l1_ratio(self.penalty, self.l1_ratio))

    @property
    def l1(self) -> float:
        """Strength of the penalty's l1 part; 0 if it has none."""
        if self.penalty is None:
            return 0.0
        return self.alpha * effective_l1_ratio(self.penalty, self.l1_ratio)

    @property
    def strengths(self) -> tuple[np.ndarray | float, np.ndarray | float]:
        """Strengths of l1 and l2: arrays over the features, or one number for all features."""
        if self.divisors is None:
            return self.l1, self.l2
        return self.l1 / self.divisors, self.l2 / np.square(self.divisors)

    @property
    def terms(self) -> tuple[RowArrays, int, float]:
        """Arguments of kernels: rows, code of the loss, and threshold of the loss."""
        return self.rows, losses.CODES[self.loss], float(self.epsilon)

    @property
    def column_weights(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights of the columns' own classes, and weights of all other classes."""
        return self.positive, self.negative

    @property
    def values_per_row(self) -> float:
        """Mean number of values that a row's gradient reads, over all columns."""
        return self.rows.data.size * self.n_columns / max(1, self.n_rows)

    @property
    def is_regression(self) -> bool:
        """Whether targets are numbers, not classes."""
        return self.classes is None

    @property
    def sample_every(self) -> int:
        """Sampling interval: every `sample_every`-th row is read to estimate the sizes of rows."""
        return max(1, self.n_all // NORM_ROWS)

    @once
    def survey(self) -> Survey:
        """Norms of the rows and counts of the features, from a pass at the first access."""
        if self.seen is not None:
            return self.seen
        rows = self.rows
        if not self.is_sparse:
            return survey_dense(rows.data, rows.width, True)
        return survey(rows.data, rows.indices, rows.indptr, self.n_features, True)

    @property
    def norms(self) -> tuple[float, float]:
        """Mean and largest squared norm of the rows; infinite if squares overflow."""
        return self.survey.mean, self.survey.largest

    def require_norms(self) -> None:
        """Raise an error if rows are too large for any step size and any criterion.

        Raises
        ------
        ValueError
            If squared norms overflow.
        """
        if not np.isfinite(self.sampled_norms[0]):
            raise ValueError(
                "Rows are too large: their squared norms leave the floating-point range, and with "
                "them every step. Scale the input, for example with StandardScaler or MinMaxScaler."
            )

    @once
    def squared_norms(self) -> np.ndarray:
        """Squared norm of every row, for a few rules: float64 of shape (n_rows,); computed once."""
        out = np.empty(self.n_rows)
        squared_norms(self.rows, out)
        return out

    @once
    def nonzeros(self) -> np.ndarray:
        """Number of stored values of each feature of sparse rows: int64 of shape (n_features,)."""
        if self.survey.counts is not None:
            return self.survey.counts
        return nonzeros_of(self.rows, self.n_features)

    @once
    def sampled_norms(self) -> tuple[float, float]:
        """Mean and largest squared norm of every `sample_every`-th row, or of all rows if known.

        If rows are dense, all rows are read, so the result does not depend on the layout in memory.

        The norms are computed at the first access and stored, because rule, steps and exchange use
        them, and reading rows far from each other takes time.
        """
        if self.seen is not None or not self.is_sparse:
            return self.norms
        mean, largest = norms_of(self.rows, self.sample_every)
        return float(mean), float(largest)

    @once
    def sharpness(self) -> float:
        """Sharpness of the losses, see `hogshare.problems.linear.sharpness`."""
        return sharpness_of(self.loss, self.row_sizes(), self.rows.y, self.sample_every)

    def row_sizes(self) -> np.ndarray:
        """Return each row's largest weight in any column: its weight times its class's weight."""
        return row_sizes(self.rows, self.positive, self.negative)

    @once
    def doubles(self) -> DoubleRows:
        """The rows in double precision, for a few methods; sparse float32 rows are copied once."""
        return DoubleRows(self.rows, self.n_features)

    @once
    def units(self) -> Units:
        """Units of the features, see `problems.linear.units`; all rows decide unclear units."""
        sampled = self._sampled_features
        unknown = np.flatnonzero(~sampled.known)
        if self.is_sparse:
            return self._units(self.features_of_all())
        if not len(unknown):
            return self._units(sampled)
        # most units are usually known, so this takes a fraction of a pass over all features
        missing = self._features_of(len(unknown), places=unknown)
        return self._units(sampled.with_known(unknown, missing))

    @once
    def sampled_units(self) -> Units:
        """Units of the features from a sample of rows; few rows suffice for dense features."""
        return self._units(self._sampled_features)

    def _units(self, features: Features) -> Units:
        return units_of(features, self.loss, self.l2, self.n_all)

    @once
    def _sampled_features(self) -> Features:
        if self.features is not None:
            return self.features
        every = self.sample_every if self.is_sparse else max(1, self.n_all // UNIT_ROWS)
        return self._features_of(self.n_features, every)

    def features_of_all(self) -> Features:
        """Return statistics of the features from all rows."""
        return self._features_of(self.n_features)

    def _features_of(self, n_features: int, every: int = 1, **which: Any) -> Features:
        total = partial(self.total, of_rows)
        return features_of(total, n_features, self.fit_intercept, every, **which)

    def with_rows(self, rows: RowArrays, divisors: np.ndarray | None = None) -> LinearProblem:
        """Return the same problem with other rows, which have not been surveyed.

        divisors : divisors of the features of the new rows, or None for this problem's divisors
        """
        divisors = self.divisors if divisors is None else divisors
        return replace(self, rows=rows, seen=None, divisors=divisors)

    def objective(self, coef: np.ndarray, intercept: np.ndarray) -> float:
        """Return the objective at a model.

        Parameters
        ----------
        coef : ndarray of shape (n_columns, n_features)
        intercept : ndarray of shape (n_columns,)

        Returns
        -------
        float
            Mean weighted loss plus penalty, summed over columns.
        """
        coef = np.asarray(coef, dtype=np.float64).reshape(self.n_columns, self.n_features)
        return float(self.loss_sums(coef, intercept).sum()) / self.n_rows + self.penalty_at(coef)

    def loss_sums(self, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
        """Return the sum of these rows' weighted losses in each column: shape (n_columns,)."""
        coef = np.asarray(coef, dtype=np.float64).reshape(self.n_columns, self.n_features)
        intercept = np.asarray(intercept, dtype=np.float64).reshape(self.n_columns)
        total, scratch = np.zeros(self.n_columns), np.empty(self.n_columns)
        w = np.ascontiguousarray(coef.T).reshape(-1).astype(self.dtype)
        add_losses(*self.terms, w, intercept, *self.column_weights, scratch, total)
        return total

    def check(self) -> None:
        """Do nothing, because `linear` has checked its arguments."""

    def start_model(self, start: Any) -> Model | None:
        """Return the model at which a run starts, or None if the run starts at zero.

        Raises
        ------
        TypeError
            If `start` is not a model.
        """
        if start is None or isinstance(start, Model):
            return start
        shape = getattr(start, "shape", None)
        raise TypeError(
            "start must be a Model: Model(coef, intercept) with coef of shape (n_columns, "
            "n_features), the model of a report (report.model), or that of a checkpoint; got "
            f"{type(start).__name__}{'' if shape is None else f' of shape {shape}'}."
        )

    def objective_at(self, model: Any) -> float:
        """Return the objective at a model."""
        return self.objective(model.coef, model.intercept)

    def view(self, model: Model) -> Model:
        """Return `model`: the engine's models of linear problems are also the users' models."""
        return model

    @property
    def n_params(self) -> int:
        """Length of the model as one vector: coefficients feature by feature, then intercepts."""
        return self.n_columns * (self.n_features + bool(self.fit_intercept))

    def start(self) -> np.ndarray:
        """Return the default start of a run as one vector: zeros."""
        return np.zeros(self.n_params)

    def gradient(self, w: np.ndarray, rows: np.ndarray, out: np.ndarray) -> float:
        """Add the rows' gradients to `out`, as `hogshare.problems.GradientProblem.gradient` does.

        The mean over all rows is the gradient of the objective. At coefficients of zero, the l1
        penalty contributes 0.

        Parameters
        ----------
        w : ndarray of shape (n_params,)
        rows : ndarray of int64
            Numbers of the rows.
        out : ndarray of shape (n_params,)
            Array to which the sum of the rows' gradients is added. Each row's gradient includes the
            gradient of the whole penalty.

        Returns
        -------
        float
            The sum of the rows' losses. Each row's loss includes the whole penalty.

        Raises
        ------
        ValueError
            If `w` or `out` has another shape, or a row does not exist.
        """
        size, columns = self.n_features * self.n_columns, self.n_columns
        for name, vector in (("w", w), ("out", out)):
            if np.shape(vector) != (self.n_params,):
                raise ValueError(
                    f"{name} must be a vector of {self.n_params} parameters; its shape is "
                    f"{np.shape(vector)}."
                )
        chosen = np.ascontiguousarray(rows, dtype=np.int64)
        # the kernel reads wherever it is told to
        if len(chosen) and not (chosen.min() >= 0 and chosen.max() < self.n_rows):
            raise ValueError(f"rows must be from 0 to {self.n_rows - 1}.")
        intercept = w[size:] if self.fit_intercept else np.zeros(columns)
        of_rows, of_intercepts = np.zeros(size), np.zeros(columns)
        model = (
            np.ascontiguousarray(w[:size], dtype=self.dtype),
            np.ascontiguousarray(intercept, dtype=np.float64),
        )
        sums = np.empty(columns), of_rows, of_intercepts
        total = add_gradients(*self.terms, chosen, *model, *self.column_weights, *sums)
        if self.l1 > 0.0 or self.l2 > 0.0:
            coef = np.asarray(w[:size], dtype=np.float64).reshape(self.n_features, columns)
            l1, l2 = (np.reshape(strength, (-1, 1)) for strength in self.strengths)
            of_rows += len(rows) * (l2 * coef + l1 * np.sign(coef)).reshape(-1)
            total += len(rows) * self.penalty_at(coef.T)
        out[:size] += of_rows
        if self.fit_intercept:
            out[size:] += of_intercepts
        return float(total)

    def model_at(self, params: np.ndarray) -> Model:
        """Return a vector as a model, whose arrays are copies."""
        size = self.n_features * self.n_columns
        coef = params[:size].reshape(self.n_features, self.n_columns).T
        intercept = params[size:] if self.fit_intercept else np.zeros(self.n_columns)
        return Model(coef.copy(), np.array(intercept))

    def shard(self) -> Shard:
        """Return the rows as a shard (views), which `united` unites with other shards."""
        return shard_of(self.rows, LabelCoding(self.classes, self.positive, self.negative))

    def united(
        self, facts: Sequence[Mapping[str, Any]], arrays: Mapping[str, np.ndarray]
    ) -> LinearProblem:
        """Return the problem of the rows of all shards."""
        rows, labels = whole_rows(self.rows.width, facts, arrays)
        return replace(
            self,
            rows=rows,
            n_columns=labels.n_columns,
            classes=labels.classes,
            positive=labels.positive,
            negative=labels.negative,
            seen=None,
            features=None,
        )

    def identity(self) -> dict[str, Any]:
        """Return the problem's identity for checkpoints; equal problems have equal identities."""
        rows = self.rows
        # the digest of column indices depends on their values, not on their dtype
        arrays = [rows.data, rows.indices, rows.indptr, rows.y, rows.weight]
        return {
            "loss": self.loss,
            "epsilon": self.epsilon,
            "penalty": self.penalty,
            "alpha": self.alpha,
            "l1_ratio": effective_l1_ratio(self.penalty, self.l1_ratio),
            "fit_intercept": self.fit_intercept,
            "rows": self.n_rows,
            "features": self.n_features,
            "columns": self.n_columns,
            "dtype": self.dtype.name,
            "format": "csr" if self.is_sparse else "dense",
            "data": f"{DIGITS}:{digits(*arrays, self.positive, self.negative)}",
        }

    def facts(self) -> dict[str, Any]:
        """Return a description as plain data, for reports."""
        return {
            "loss": self.loss,
            "penalty": self.penalty,
            "alpha": self.alpha,
            "l1_ratio": self.l1_ratio,
            "fit_intercept": self.fit_intercept,
            "rows": self.n_rows,
            "features": self.n_features,
            "columns": self.n_columns,
            "nonzeros": self.nnz,
            "dtype": self.dtype.name,
            "format": "csr" if self.is_sparse else "dense",
        }

    def penalty_at(self, coef: np.ndarray) -> float:
        """Return the penalty of coefficients (float64), summed over columns."""
        value = 0.0
        coef = coef if self.divisors is None else coef / self.divisors
        with errstate(over="ignore"):  # the penalty of a diverged model is infinite
            if self.l2 > 0.0:
                value += self.l2 * 0.5 * float(np.square(coef).sum())
            if self.l1 > 0.0:
                value += self.l1 * float(np.abs(coef).sum())
        return value


def of_rows(problem: LinearProblem, function: Callable[..., Any], *args: Any) -> Any:
    """Call a function of a problem's rows."""
    return function(problem.rows, *args)


def effective_l1_ratio(penalty: str | None, l1_ratio: float) -> float:
    """Return the share of l1 in a penalty."""
    return {"l1": 1.0, "elasticnet": float(l1_ratio)}.get(penalty or "", 0.0)


def encode_labels(
    y: np.ndarray, classes: np.ndarray, loss: str, dtype: np.dtype
) -> tuple[np.ndarray, int]:
    """Return the targets for kernels, and the number of columns.

    For two classes there is one column, with targets {0, 1} for the log loss and {-1, 1} for other
    losses. For more classes there is one column for each class, and the target of a row is the
    number of its class.
    """
    if len(classes) > 2:
        return np.searchsorted(classes, y).astype(dtype), len(classes)
    target = np.asarray(y == classes[-1]).astype(dtype)
    return (target if loss == "log_loss" else 2 * target - 1), 1


def build(
    X: Any,
    y: np.ndarray,
    *,
    loss: str,
    penalty: str | None,
    alpha: float,
    l1_ratio: float,
    fit_intercept: bool,
    epsilon: float,
    sample_weight: np.ndarray | None,
    class_weight: np.ndarray | None,
    classes: np.ndarray | None,
    seen: Survey | None = None,
    features: Features | None = None,
) -> LinearProblem:
    """Make a problem from validated input; X is read in place if its type allows.

    The input must be finite and have matching shapes, as scikit-learn's checks ensure. A sparse
    matrix must have passed `check_sparse` or `survey_rows`. `seen` is the result of `survey_rows`
    with sizes, or None. Without `sample_weight` every row has weight one.
    """
    if is_sparse(X):
        given, X = X, each_column_once(X)
        seen = seen if X is given else None
    dtype = X.dtype
    n_columns = 1
    if classes is None:
        with errstate(over="ignore"):
            target = np.asarray(y).astype(dtype, copy=False)
        if not np.isfinite(target).all():
            raise ValueError(f"Targets are too large for {dtype}: scale them, or use float64 rows.")
        weights = np.ones(1)
        positive = negative = np.ones(1)
    else:
        if loss == "multinomial" and len(classes) == 2:
            loss = "log_loss"  # as in scikit-learn's LogisticRegression
        target, n_columns = encode_labels(y, classes, loss, dtype)
        weights = np.ones(len(classes)) if class_weight is None else np.asarray(class_weight)
        if loss == "multinomial":
            # the columns are coupled: in every column, a row has the weight of its own class
            if class_weight is not None:
                of_rows = weights[target.astype(np.int64)]
                sample_weight = of_rows if sample_weight is None else sample_weight * of_rows
            weights = np.ones(n_columns)
        # as in scikit-learn's one-vs-all: all other classes have weight one
        positive = weights[1:2].copy() if n_columns == 1 else weights.copy()
        negative = weights[0:1].copy() if n_columns == 1 else np.ones(n_columns)
    return LinearProblem(
        rows=as_rows(X, target, sample_weight),
        n_features=X.shape[1],
        n_columns=n_columns,
        classes=classes,
        loss=loss,
        epsilon=float(epsilon),
        penalty=penalty,
        alpha=float(alpha),
        l1_ratio=float(l1_ratio),
        fit_intercept=bool(fit_intercept),
        positive=positive.astype(np.float64),
        negative=negative.astype(np.float64),
        seen=seen,
        features=features,
    )


def _check_words(loss: Any, penalty: Any, task: Any) -> None:
    """Raise an error for an unknown loss, penalty or task; the arguments may be unhashable."""
    if not isinstance(loss, str) or loss not in losses.CODES:
        near = nearest(loss, losses.CODES)
        raise ValueError(f"loss must be one of {sorted(losses.CODES)}; got {loss!r}.{near}")
    if not isinstance(penalty, str | None) or penalty not in penalties.CODES:
        near = nearest(penalty, penalties.CODES)
        raise ValueError(
            f"penalty must be 'l2', 'l1', 'elasticnet' or None; got {penalty!r}.{near}"
        )
    if not isinstance(task, str | None) or task not in (None, "classification", "regression"):
        raise ValueError(f"task must be 'classification', 'regression' or None; got {task!r}.")


def _labels(y: np.ndarray, classes: Any, class_weight: Any) -> tuple[np.ndarray, Any]:
    """Check the labels and their weights; return them in the order of the columns."""
    if classes is None:
        labels = distinct(y)
    else:
        with ranges.meaning("classes must be a sorted list of distinct labels, such as those in y"):
            labels = np.asarray(classes)
            if labels.ndim != 1 or (labels[1:] <= labels[:-1]).any():
                raise ValueError(f"got {classes!r}")
    if len(labels) == 0:
        raise ValueError("A classification needs at least two classes; classes is empty.")
    if len(labels) < 2:
        raise ValueError(
            f"A classification needs at least two classes; y contains only {labels[0]!r}."
        )
    if not (known := np.isin(y, labels)).all():
        raise ValueError(
            f"y contains labels that are not in `classes`, e.g. {y[~known][0]!r}: add them to "
            "`classes`, or drop their rows."
        )
    if class_weight is None:
        return labels, None
    by_class = class_weights(class_weight)
    if by_class.shape != labels.shape:
        raise ValueError(
            f"class_weight must have a number for each of {len(labels)} classes; got shape "
            f"{by_class.shape}."
        )
    return labels, by_class


@missed_calls.counted
@leaves_numpy
def linear(
    X: Any,
    y: Any,
    *,
    loss: str = "log_loss",
    penalty: str | None = "l2",
    alpha: float = 1e-4,
    l1_ratio: float = 0.15,
    fit_intercept: bool = True,
    epsilon: float = 0.1,
    sample_weight: Any = None,
    class_weight: Any = None,
    classes: Any = None,
    task: str | None = None,
) -> LinearProblem:
    """State a linear classification or regression problem.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_rows, n_features)
        The rows. float32 and float64 stay as they are; other dtypes are converted to float64. A CSR
        matrix or a C-ordered array of these dtypes is read in place.
    y : array-like of shape (n_rows,)
        Labels, or numbers for a regression.
    loss : str, default="log_loss"
        ``log_loss``, ``hinge``, ``squared_hinge``, ``modified_huber``, ``perceptron``,
        ``squared_error``, ``huber``, ``epsilon_insensitive``, ``squared_epsilon_insensitive``, or
        ``multinomial``. ``multinomial`` is the cross entropy of the softmax over all classes, and
        fits all columns together. ``log_loss`` fits each class against all others. With two
        classes, ``multinomial`` is the same as ``log_loss`` with one column, as in scikit-learn's
        `LogisticRegression`.
    penalty : {"l2", "l1", "elasticnet", None}, default="l2"
        Penalty on the coefficients; the intercept has no penalty.
    alpha : float, default=1e-4
        Factor of the penalty.
    l1_ratio : float, default=0.15
        Share of l1 in ``elasticnet``.
    fit_intercept : bool, default=True
        Whether to fit an intercept.
    epsilon : float, default=0.1
        Threshold of ``huber`` and of the epsilon-insensitive losses.
    sample_weight : array-like of shape (n_rows,), default=None
        Weights of the rows, which must not be negative. By default each row has weight one.
    class_weight : array-like of shape (n_classes,), default=None
        Weights of the classes, in the order of `classes`.
    classes : array-like of shape (n_classes,), default=None
        Sorted labels; by default the labels in `y`.
    task : {"classification", "regression", None}, default=None
        By default the loss determines the task: ``squared_error``, ``huber`` and the
        epsilon-insensitive losses are for regression, other losses for classification.

    Returns
    -------
    LinearProblem

    Raises
    ------
    ValueError
        If an argument is out of its range, if `X` or `y` contains NaN or infinity, if lengths
        differ, if a CSR matrix is damaged, or if `y` has only one class.

    Notes
    -----
    This function checks `X` once. Every run then reads `X` without a copy, unless its dtype or
    layout requires a copy. So do not change `X` while the problem is in use. If `X.indices` or
    `X.indptr` are changed in place before the end of a run, kernels read and write arbitrary
    memory, which may end the process. A check before each run would take 6 to 10 per cent of the
    time of an epoch. The `fit` method of an estimator checks `X` in each call.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from hogshare import problems
    >>> problem = problems.linear(*load_breast_cancer(return_X_y=True), loss="hinge")
    >>> problem.n_rows, problem.n_features, problem.n_columns
    (569, 30, 1)
    """
    _check_words(loss, penalty, task)
    ranges.not_negative(alpha=alpha, epsilon=epsilon)
    ranges.share(l1_ratio=l1_ratio)
    ranges.flag(fit_intercept=fit_intercept)
    # not imported at the top: worker processes import this file but check nothing, and would start
    # a second later
    from sklearn.utils.validation import check_X_y

    regression = task == "regression" or (task is None and loss in REGRESSION_LOSSES)
    if regression and loss not in REGRESSION_LOSSES:
        raise ValueError(f"loss={loss!r} needs classes; for a regression use {REGRESSION_LOSSES}.")
    check_sparse(X)
    require_unmasked("y", y)
    y = y if regression else own_type(y)
    X, y = check_X_y(
        X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C", y_numeric=regression
    )
    weight = row_weights(sample_weight, X, X.dtype)
    labels = None
    if not regression:
        labels, class_weight = _labels(y, classes, class_weight)
    elif classes is not None or class_weight is not None:
        raise ValueError("classes and class_weight are for a classification.")
    return build(
        X,
        y,
        loss=loss,
        penalty=None if penalty == "none" else penalty,
        alpha=alpha,
        l1_ratio=l1_ratio,
        fit_intercept=fit_intercept,
        epsilon=epsilon,
        sample_weight=weight,
        class_weight=class_weight,
        classes=labels,
    )
