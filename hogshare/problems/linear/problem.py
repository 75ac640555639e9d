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
NORM_ROWS = 2048  # that tell what all are like
UNIT_ROWS = 256  # dense ones that tell how large features are


@dataclass(frozen=True)
class LinearProblem:
    """A linear model to be fitted; make one with `hogshare.problems.linear`.

    The objective is ``sum_i weight_i loss(y_i, p_i) / n + alpha ((1 - l1_ratio) |w|^2 / 2 +
    l1_ratio |w|_1)``, summed over columns, with the intercept not penalised. The multinomial loss
    is one number per row, not one per column.

    Attributes
    ----------
    rows : Rows
        Data as the kernels see it (read-only views).
    n_features, n_columns : int
        The model matrix is (n_features, n_columns): one column, or one per class.
    classes : ndarray or None
        Labels in the order of the columns; None for regression.
    positive, negative : ndarray of shape (n_columns,)
        Weights of a column's own class and of the rest.
    seen : Survey or None
        What checking the rows has seen of them, their sizes included.
    features : Features or None
        What its features are like, where that is known from before the rows were centred.
    divisors : ndarray of shape (n_features,) or None
        By what features have been divided; the penalty is on the coefficients of those that they
        were before, which are so much smaller. None: they are as they were.
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
    has_rows: ClassVar[bool] = True  # that kernels step through

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.rows.y)

    @property
    def n_all(self) -> int:
        """Number of rows that the objective is a mean over: of a part of the rows, all of them."""
        return self.n_rows

    @property
    def nnz_of_all(self) -> int:
        """Number of stored values of all those rows."""
        return self.nnz

    def totals(self, *numbers: np.ndarray) -> list[np.ndarray]:
        """The sums of arrays over all who have a part of the rows: the arrays, if one has all."""
        return list(numbers)

    def cached(self, function: Callable[..., Any], *args: Any, of: Any = None, **how: Any) -> Any:
        """What ``function(part, *args, **how)`` gives of every part of the rows, where that is.

        of : what is taken in the place of the parts' problems: something that is cached already
        """
        return function(self if of is None else of, *args, **how)

    def total(self, function: Callable[..., Any], *args: Any, of: Any = None) -> list[np.ndarray]:
        """Sums over the parts of the rows of the arrays that such a function gives.

        Everybody who has a part has to ask.
        """
        return self.totals(*function(self if of is None else of, *args))

    def mask_of_all(self, mask: np.ndarray) -> np.ndarray:
        """A mask of the rows, as one of all rows."""
        return np.asarray(mask)

    def pooled_mean(self, value: float, weight: float) -> float:
        """The mean of a number over all who have a part of the rows, by what each part weighs."""
        return value

    @property
    def largest_weight(self) -> float:
        """The largest weight of a row and its class."""
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
        """Strength of the penalty's l2 part; 0 without one."""
        if self.penalty is None:
            return 0.0
        return self.alpha * (1.0 - effective_l1_ratio(self.penalty, self.l1_ratio))

    @property
    def l1(self) -> float:
        """Strength of the penalty's l1 part; 0 without one."""
        if self.penalty is None:
            return 0.0
        return self.alpha * effective_l1_ratio(self.penalty, self.l1_ratio)

    @property
    def strengths(self) -> tuple[np.ndarray | float, np.ndarray | float]:
        """Strengths of l1 and l2 on every feature, or the one of all."""
        if self.divisors is None:
            return self.l1, self.l2
        return self.l1 / self.divisors, self.l2 / np.square(self.divisors)

    @property
    def terms(self) -> tuple[RowArrays, int, float]:
        """What kernels take of the losses: rows, the loss's code, and its threshold."""
        return self.rows, losses.CODES[self.loss], float(self.epsilon)

    @property
    def column_weights(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights of the columns' own classes, and of the rest."""
        return self.positive, self.negative

    @property
    def is_regression(self) -> bool:
        """Whether targets are numbers, not classes."""
        return self.classes is None

    @property
    def sample_every(self) -> int:
        """Of how many rows one is enough to tell what rows are like."""
        return max(1, self.n_all // NORM_ROWS)

    @once
    def survey(self) -> Survey:
        """What one pass over the rows sees. Made once."""
        if self.seen is not None:
            return self.seen
        rows = self.rows
        if not self.is_sparse:
            return survey_dense(rows.data, rows.width, True)
        return survey(rows.data, rows.indices, rows.indptr, self.n_features, True)

    @property
    def norms(self) -> tuple[float, float]:
        """Mean and largest squared norm of the rows. Infinite where squares leave the range."""
        return self.survey.mean, self.survey.largest

    def require_norms(self) -> None:
        """Refuse rows that are too large for any step, and for every criterion.

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
        """Squared norm of every row; float64 of shape (n_rows,). Asked for by few rules."""
        out = np.empty(self.n_rows)
        squared_norms(self.rows, out)
        return out

    @once
    def nonzeros(self) -> np.ndarray:
        """Values that are stored of each feature of sparse rows: int64 of shape (n_features,)."""
        if self.survey.counts is not None:
            return self.survey.counts
        return nonzeros_of(self.rows, self.n_features)

    @once
    def sampled_norms(self) -> tuple[float, float]:
        """Mean and largest squared norm of every `sample_every`-th row; of all, if those are known.

        Dense rows are always looked at whole: how they lie in memory must not decide.

        Looked at once: rule, steps and exchange go by it, and rows far from each other have to be
        waited for.
        """
        if self.seen is not None or not self.is_sparse:
            return self.norms
        mean, largest = norms_of(self.rows, self.sample_every)
        return float(mean), float(largest)

    @once
    def sharpness(self) -> float:
        """See `hogshare.problems.linear.sharpness`; looked at once too."""
        return sharpness_of(self.loss, self.row_sizes(), self.rows.y, self.sample_every)

    def row_sizes(self) -> np.ndarray:
        """Largest weight of each row in any column: its own times its class's."""
        return row_sizes(self.rows, self.positive, self.negative)

    @once
    def doubles(self) -> DoubleRows:
        """The rows in double precision: sparse ones of float32 are copied. Asked for by few."""
        return DoubleRows(self.rows, self.n_features)

    @once
    def units(self) -> Units:
        """See `problems.linear.units`; of what a sample says too little of, by all rows."""
        sampled = self._sampled_features
        unknown = np.flatnonzero(~sampled.known)
        if self.is_sparse:
            return self._units(self.features_of_all())
        if not len(unknown):
            return self._units(sampled)
        # most are known, as a rule: those that are not take a fraction of a pass over all
        missing = self._features_of(len(unknown), places=unknown)
        return self._units(sampled.with_known(unknown, missing))

    @once
    def sampled_units(self) -> Units:
        """The same by a sample of the rows, of which few tell of features that all rows have."""
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
        """What the features are like, by all rows."""
        return self._features_of(self.n_features)

    def _features_of(self, n_features: int, every: int = 1, **which: Any) -> Features:
        total = partial(self.total, of_rows)
        return features_of(total, n_features, self.fit_intercept, every, **which)

    def with_rows(self, rows: RowArrays, divisors: np.ndarray | None = None) -> LinearProblem:
        """The same problem of other rows; nothing has been seen of them yet.

        divisors : by what their features have been divided; None: as those of these rows
        """
        divisors = self.divisors if divisors is None else divisors
        return replace(self, rows=rows, seen=None, divisors=divisors)

    def objective(self, coef: np.ndarray, intercept: np.ndarray) -> float:
        """Objective at a model.

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
        intercept = np.asarray(intercept, dtype=np.float64).reshape(self.n_columns)
        total, scratch = np.zeros(self.n_columns), np.empty(self.n_columns)
        w = np.ascontiguousarray(coef.T).reshape(-1).astype(self.dtype)
        add_losses(*self.terms, w, intercept, *self.column_weights, scratch, total)
        return float(total.sum()) / self.n_rows + self.penalty_at(coef)

    def check(self) -> None:
        """Nothing: `linear` has looked at what it was given."""

    def start_model(self, start: Any) -> Model | None:
        """The model to start from; None: at zero.

        Raises
        ------
        TypeError
            If what is given is no model.
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
        """Objective at a model."""
        return self.objective(model.coef, model.intercept)

    def view(self, model: Model) -> Model:
        """A model of the engine's, as users see it: as it is."""
        return model

    @property
    def n_params(self) -> int:
        """Numbers of the model as one vector: coefficients feature by feature, then intercepts."""
        return self.n_columns * (self.n_features + bool(self.fit_intercept))

    def start(self) -> np.ndarray:
        """Where a run begins that is given no start, as one vector: zeros."""
        return np.zeros(self.n_params)

    def gradient(self, w: np.ndarray, rows: np.ndarray, out: np.ndarray) -> float:
        """As `hogshare.problems.GradientProblem.gradient`, at the model as one vector.

        So the mean over all rows is the gradient of the objective; where l1 has a kink it is 0.

        Parameters
        ----------
        w : ndarray of shape (n_params,)
        rows : ndarray of int64
            Which rows.
        out : ndarray of shape (n_params,)
            To which the sum of their gradients is added, each with the whole penalty's.

        Returns
        -------
        float
            The sum of the rows' losses, each with the penalty.
        """
        size, columns = self.n_features * self.n_columns, self.n_columns
        intercept = w[size:] if self.fit_intercept else np.zeros(columns)
        of_rows, of_intercepts = np.zeros(size), np.zeros(columns)
        chosen = np.ascontiguousarray(rows, dtype=np.int64)
        model = (
            np.ascontiguousarray(w[:size], dtype=self.dtype),
            np.ascontiguousarray(intercept, dtype=np.float64),
        )
        sums = np.empty(columns), of_rows, of_intercepts
        total = add_gradients(*self.terms, chosen, *model, *self.column_weights, *sums)
        coef = np.asarray(w[:size], dtype=np.float64).reshape(self.n_features, columns)
        l1, l2 = (np.reshape(strength, (-1, 1)) for strength in self.strengths)
        of_rows += len(rows) * (l2 * coef + l1 * np.sign(coef)).reshape(-1)
        out[:size] += of_rows
        if self.fit_intercept:
            out[size:] += of_intercepts
        return float(total) + len(rows) * self.penalty_at(coef.T)

    def model_at(self, params: np.ndarray) -> Model:
        """The model that a vector is."""
        size = self.n_features * self.n_columns
        coef = params[:size].reshape(self.n_features, self.n_columns).T
        intercept = params[size:] if self.fit_intercept else np.zeros(self.n_columns)
        return Model(coef.copy(), np.array(intercept))

    def shard(self) -> Shard:
        """Its rows, as a part of more of them."""
        return shard_of(self.rows, LabelCoding(self.classes, self.positive, self.negative))

    def united(
        self, facts: Sequence[Mapping[str, Any]], arrays: Mapping[str, np.ndarray]
    ) -> LinearProblem:
        """The problem of all rows of which this one's are a part."""
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
        """What it is, for checkpoints: two problems with the same are one."""
        rows = self.rows
        # column indices count as numbers, however many bytes they have
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
        """What it is, as plain data, for reports."""
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
        """Penalty of coefficients (float64), summed over columns."""
        value = 0.0
        coef = coef if self.divisors is None else coef / self.divisors
        with errstate(over="ignore"):  # of a diverged model it is rightly infinite
            if self.l2 > 0.0:
                value += self.l2 * 0.5 * float(np.square(coef).sum())
            if self.l1 > 0.0:
                value += self.l1 * float(np.abs(coef).sum())
        return value


def of_rows(problem: LinearProblem, function: Callable[..., Any], *args: Any) -> Any:
    """What a function gives of a problem's rows."""
    return function(problem.rows, *args)


def effective_l1_ratio(penalty: str | None, l1_ratio: float) -> float:
    """Share of l1 in a penalty."""
    return {"l1": 1.0, "elasticnet": float(l1_ratio)}.get(penalty or "", 0.0)


def encode_labels(
    y: np.ndarray, classes: np.ndarray, loss: str, dtype: np.dtype
) -> tuple[np.ndarray, int]:
    """Targets as the kernels want them, and the number of columns.

    Two classes make one column with targets {0, 1} (log loss) or {-1, 1}; more make one column
    each, and the target is the class's number.
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
    """Assemble a problem from validated input.

    Finite and of matching shapes (scikit-learn sees to that); a sparse matrix has passed
    `check_sparse`, or `survey_rows`, which gave `seen`, sizes included. Without `sample_weight`
    every row counts once.
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
            # there is no rest: a row's weight is its own class's in every column
            if class_weight is not None:
                of_rows = weights[target.astype(np.int64)]
                sample_weight = of_rows if sample_weight is None else sample_weight * of_rows
            weights = np.ones(n_columns)
        # as in scikit-learn: one against the rest gives the rest weight one
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
    """Refuse what names no loss, penalty or task; some of what may be given has no hash."""
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
    """Labels in the order of the columns, and their weights; both looked at."""
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
            f"A classification needs at least two classes; y holds only {labels[0]!r}."
        )
    if not np.isin(y, labels).all():
        raise ValueError("y holds labels that are not in `classes`.")
    if class_weight is None:
        return labels, None
    by_class = class_weights(class_weight)
    if by_class.shape != labels.shape:
        raise ValueError(
            f"class_weight must hold a number for each of {len(labels)} classes; got shape "
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
        float32 and float64 are kept; anything else becomes float64. CSR is used as it is.
    y : array-like of shape (n_rows,)
        Labels, or numbers for a regression.
    loss : str, default="log_loss"
        ``log_loss``, ``hinge``, ``squared_hinge``, ``modified_huber``, ``perceptron``,
        ``squared_error``, ``huber``, ``epsilon_insensitive``, ``squared_epsilon_insensitive``, or
        ``multinomial``: cross entropy of the softmax over all classes, whose columns are fitted
        together, where ``log_loss`` fits each class against the rest. With two classes it is
        ``log_loss``, with its one column (as in scikit-learn's `LogisticRegression`).
    penalty : {"l2", "l1", "elasticnet", None}, default="l2"
        Penalty on the coefficients (never on the intercept).
    alpha : float, default=1e-4
        Factor of the penalty.
    l1_ratio : float, default=0.15
        Share of l1 in ``elasticnet``.
    fit_intercept : bool, default=True
        Whether to fit an intercept.
    epsilon : float, default=0.1
        Threshold of ``huber`` and of the epsilon-insensitive losses.
    sample_weight : array-like of shape (n_rows,), default=None
        Weights of the rows, none of them negative; None means one each.
    class_weight : array-like of shape (n_classes,), default=None
        Weights of the classes, in the order of `classes`.
    classes : array-like of shape (n_classes,), default=None
        Sorted labels; by default those that occur in `y`.
    task : {"classification", "regression", None}, default=None
        By default the loss decides: ``squared_error``, ``huber`` and the epsilon-insensitive ones
        are for regression.

    Returns
    -------
    LinearProblem

    Raises
    ------
    ValueError
        If an argument is out of its range, `X` or `y` holds NaN or infinity, lengths differ, a CSR
        matrix is damaged, or there is only one class.

    Notes
    -----
    `X` is checked here, once, and then used as it is by every run: a copy is made only where its
    kind asks for one. Whoever changes `X.indices` or `X.indptr` in place later, before a run is
    over, has kernels read and write anywhere, which may end the process. To check again before each
    run would take as long as 6 to 10 per cent of an epoch. The estimators' `fit` checks each time.

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
    # here because processes import this file too, and check nothing: a worker would start a second
    # later
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
