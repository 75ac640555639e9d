"""`Ridge` and `RidgeClassifier`: scikit-learn's estimators, with wide rows fitted on every core."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgWarning
from sklearn.linear_model import Ridge as _Ridge
from sklearn.linear_model import RidgeClassifier as _RidgeClassifier
from sklearn.linear_model._ridge import _BaseRidge
from sklearn.utils.class_weight import compute_sample_weight

from hogshare.engine.stops import Stop
from hogshare.estimators.all_rows import AllRows, all_rows_of
from hogshare.estimators.fits import fits
from hogshare.estimators.least_squares import LeastSquares, Squares, least_squares, zeros
from hogshare.estimators.linear_models import LinearClassifier
from hogshare.estimators.solver_report import report_of
from hogshare.estimators.validation import check_rows, weights_of_part
from hogshare.estimators.workers import (
    SCALE,
    chooses_runtime,
    constraints_of,
    require_square,
    require_workers,
    warn_unconverged,
    warn_unless_converged,
    with_mean_one,
)
from hogshare.kernels.rows.survey import Survey
from hogshare.optimum.compression import MOST_FEATURES, CompressedRows
from hogshare.optimum.conjugate_gradients import (
    by_conjugate_gradients,
    gradient_at,
    missed,
    rounding_of,
)
from hogshare.problems.linear.labels import own_type
from hogshare.problems.linear.row_arrays import check_sparse, require_dense
from hogshare.problems.model import Model
from hogshare.problems.protocol import RowProblem
from hogshare.problems.weights import class_weights, row_weights
from hogshare.report import Report
from hogshare.runtimes.forked_call import changed_by_fork
from hogshare.system.clusters import is_collection
from hogshare.system.interrupts import errstate
from hogshare.system.ranges import meaning

DIRECT_SIZE = 400  # rows or features up to which an exact solution is faster than iterations
FEW_OF_SPARSE = 100  # features up to which sparse rows are solved as dense ones
LOST = 1e-7  # largest error from rounding the largest feature's squares, relative to all squares
CONJUGATE_GRADIENTS = "cg"
EXACT = ("cholesky", "svd")  # scikit-learn's solvers that have no convergence criterion
LONG_WORK = 5e10  # products: a second or two on a few cores, during which no signal is handled
WORK_OF_SVD = 10.0  # cost of a singular value decomposition relative to the normal equations
SOLVERS = {
    CONJUGATE_GRADIENTS: "conjugate gradients ('cg')",
    "cholesky": "scikit-learn's 'cholesky'",
}
GAP_SHARE = 500.0  # required relative duality gap, in units of tol, as in LogisticRegression
ADVICE = "Increase max_iter or tol, scale the data (StandardScaler), or use solver='auto'."
# ``state(target)`` returns the problem of the target with that index.
State = Callable[[int], RowProblem]
# ``enough(target, steepest)`` returns the largest component that the target's gradient may have at
# the end of a fit. `steepest` is the largest component at zero coefficients. Both are in the
# features' units, as `gradient_at` returns them.
Enough = Callable[[int, float], float]


class RidgeMixin(LeastSquares):
    """Fitting by the workers for an estimator with scikit-learn's Ridge parameters.

    Parameters
    ----------
    copy_X : bool, default=True
        Whether scikit-learn's solvers copy `X`; the workers never write to it.

    max_iter : int or None, default=None
        Maximum number of passes over the rows (epochs) for each target, and maximum number of
        iterations of conjugate gradients. None means 1000; for conjugate gradients it means 1000
        or the number of features, whichever is larger. For scikit-learn's solvers see its page.

    tol : float, default=1e-4
        The workers and conjugate gradients stop when the largest component of the gradient is at
        most `tol` times its value at zero coefficients. Each component is in the unit of its
        feature (the formula is in `hogshare.Stop`). This is the criterion of scikit-learn's
        'sparse_cg', but in the maximum norm and independent of the units of the features. With
        ``solver='auto'`` and ``runtime='auto'`` there is a second condition: the duality gap
        relative to the objective must be at most ``500 * tol``. It is needed because large values
        or weights can make the gradient at zero very large; the first condition alone is then too
        weak. A fit that misses a condition warns. For scikit-learn's solvers see its page.

    solver : {'auto', 'svd', 'cholesky', 'lsqr', 'sparse_cg', 'sag', 'saga', 'lbfgs'}, \
            default='auto'
        With 'auto', 'sag' and 'saga' the workers fit, by dual coordinate ascent or SAGA, whichever
        suits the rows. Unless a `runtime` is named, 'auto' uses faster solvers for at most 400
        rows, or rows with at most 400 features. Dense rows are then solved by scikit-learn's
        'cholesky', which is exact. Sparse rows are solved by conjugate gradients ('cg'), in which
        each coefficient has its own unit. The same two solvers finish a fit if the workers foresee
        that `max_iter` epochs will not suffice. 'cg' also solves dense rows with more features
        than rows if one feature is so large that the inner products of rows would contain too few
        digits of the other features. Rows in parts (on ranks or in Dask collections) are solved
        exactly up to 2,000 features (sparse rows up to 100), and by 'cg' with more features. The
        other names, including 'sparse_cg', are scikit-learn's own solvers with their own criteria.

    positive : bool, default=False
        When set to True, forces the coefficients to be positive. scikit-learn's 'lbfgs' then fits.

    Attributes
    ----------
    n_iter_ : None or ndarray of shape (n_targets,)
        Number of epochs plus number of iterations of 'cg', for each target or class. None after a
        solver without iterations.

    solver_ : str
        The methods that fitted the model: 'sdca', 'saga', 'cg', or the name of one of
        scikit-learn's solvers. Several names are in the order of use, as in 'saga, cholesky'.

    report_ : Report, list of Report or SolverReport
        The report of the workers' run, or a list with one report for each target or class. If other
        solvers did the whole fit, a `SolverReport` with the solver's name and the reason.
    """

    class_weight: Any

    @property
    def _chooses(self) -> bool:
        """Whether the parameters leave the choice of the solver to this class."""
        return self.solver == "auto" and chooses_runtime(self)

    def _strengths(self) -> np.ndarray:
        """Return `alpha` as an array of one entry, or of one per target; refuse negative values."""
        with meaning("alpha must be a number, or an array with one for each target"):
            alpha = np.asarray(self.alpha, np.float64).ravel()
        if not (np.isfinite(alpha) & (alpha >= 0.0)).all():
            raise ValueError(f"alpha must be finite and at least 0; got {self.alpha!r}.")
        return alpha

    def _reads_parts(self, n_features: int) -> bool:
        """Whether a process with a part of the rows needs no rows from other processes."""
        return not self.positive or super()._reads_parts(n_features)

    def _is_exact(self, n_features: int, is_sparse: bool) -> bool:
        """Whether rows that are spread over several processes are solved exactly."""
        if self.solver == "sparse_cg" and not self.positive:
            return False
        if is_sparse and not (self.positive or self.solver == "cholesky"):
            return n_features <= FEW_OF_SPARSE
        return n_features <= MOST_FEATURES

    def _fit_own(self, everybody: AllRows, X: Any, y: np.ndarray, sample_weight: Any) -> None:
        """Fit rows that are spread over several processes.

        Collective: all ranks must call it. Sets the fitted attributes and `report_`.
        """
        if self._is_exact(X.shape[1], sp.issparse(X)):
            self._fit_parts(everybody, X, y, sample_weight, self._few_rows)
            return
        began = time.perf_counter()
        weight, total = with_mean_one(weights_of_part(everybody, sample_weight, X), everybody)
        targets = y.astype(np.float64).reshape(len(y), -1)
        middle = np.zeros(targets.shape[1])
        if self.fit_intercept:
            middle = everybody.added(weight.astype(np.float64) @ targets)
            middle = middle / everybody.added(float(weight.sum(dtype=np.float64)))

        def state(target: int, strength: float) -> RowProblem:
            own = least_squares(
                X,
                targets[:, target] - middle[target],
                "l2",
                strength / total,
                fit_intercept=self.fit_intercept,
                sample_weight=weight,
            )
            return everybody.whole(own)

        self._fit_by_products(state, middle, y.ndim, "of all ranks", began)

    def _fit_by_products(
        self,
        state: Callable[[int, float], RowProblem],
        middle: np.ndarray,
        n_dim: int,
        whose: str,
        began: float,
    ) -> None:
        """Fit rows in several processes by conjugate gradients, target by target.

        Sets coef_, intercept_, n_iter_, solver_ and report_.

        state : ``state(target, strength)`` returns the problem, whose sums are over all rows
        middle : mean of each target, which has been subtracted from the problem's targets
        n_dim : number of dimensions of the targets
        whose : words for the report, such as "of all ranks"
        began : time at which the fit began, from `time.perf_counter`
        """
        strengths = self._strengths_of(len(middle))
        found, worst = [], 1.0
        for target in range(len(middle)):
            problem = state(target, float(strengths[target]))
            start = zeros(problem)
            floor = rounding_of(problem, float(middle[target]))
            enough = max(float(self.tol) * gradient_at(problem, start), floor)
            limit = max(self._most_epochs, problem.n_features if self.max_iter is None else 0)
            asked = enough, GAP_SHARE * float(self.tol), floor
            model, steps, miss = start, 0, missed(problem, start, *asked)
            if not miss <= 1.0:
                model, steps, miss = by_conjugate_gradients(problem, *asked, start, limit)
            found.append((model, steps))
            worst = worst if miss <= worst else miss  # a NaN counts as the worst
        coef = np.array([model.coef[0] for model, _ in found])
        intercept = middle + np.array([model.intercept[0] for model, _ in found], np.float64)
        self._set_attributes(n_dim, coef, intercept.astype(coef.dtype))
        self.n_iter_ = np.array([steps for _, steps in found], np.int32)
        self.solver_ = CONJUGATE_GRADIENTS
        reason = f"it needs only sums over the rows {whose}"
        by = SOLVERS[CONJUGATE_GRADIENTS]
        self.report_ = report_of(self, by, reason, began, worst <= 1.0)
        self._warn_of(worst)

    def _strengths_of(self, n_targets: int) -> np.ndarray:
        """Return the penalty's strength for each target, a read-only view."""
        alpha = self._strengths()
        if alpha.size not in (1, n_targets):
            raise ValueError(
                "Number of targets and number of penalties do not correspond: "
                f"{alpha.size} != {n_targets}"
            )
        return np.broadcast_to(alpha, n_targets)

    def _warn_of(self, miss: float) -> None:
        if not miss <= 1.0:
            warn_unconverged(
                f"after {int(np.max(self.n_iter_))} iterations the gradient or the duality gap is "
                f"still {miss:.3g} times the limit set by tol. {SCALE}"
            )

    def _few_rows(self, few: CompressedRows) -> Any:
        """Return an unfitted estimator of scikit-learn's for the compressed rows."""
        names = ("alpha", "max_iter", "tol", "positive", "random_state")
        settings = {name: getattr(self, name) for name in names}
        exact = "svd" if few.X.shape[1] <= DIRECT_SIZE else "cholesky"
        solver = "lbfgs" if self.positive else exact
        return _Ridge(fit_intercept=False, solver=solver, **settings)

    def _why_scikit_learn(self, X: Any) -> str:
        """Return the reason why scikit-learn's solver fits these rows; empty if the workers do."""
        if self.positive:
            return "no other solver takes positive=True"
        if self.solver not in ("auto", "sag", "saga"):
            return f"solver={self.solver!r} asks for it"
        if not self._chooses:
            return ""
        shape = getattr(X, "shape", None)
        shape = np.asarray(X).shape if shape is None else shape
        if len(shape) != 2:
            return "the rows are not a matrix"
        if min(shape) > DIRECT_SIZE or is_sparse_input(X) or loses_digits(X):
            return ""
        return f"the rows are dense and {few(shape)}: an exact solution is faster than workers"

    def _leave(self, X: Any, y: Any, sample_weight: Any, reason: str) -> None:
        """Fit by scikit-learn's own `fit`, and set `report_`, which contains the reason."""
        if self.solver == "cholesky" and len(shape := getattr(X, "shape", ())) == 2:
            require_square(min(shape), "solver='cholesky'")
        began = self._fit_by_scikit_learn(X, y, sample_weight)
        by = f"scikit-learn's {self.solver_!r}"
        self.report_ = report_of(self, by, reason, began, True if self.solver_ in EXACT else None)

    def _hand_over(self, X: Any, y: Any, **others: Any) -> None:
        self._solve(X, partial(super()._hand_over, X, y, **others))

    def _solve(self, X: Any, fit: Callable[[], object]) -> None:
        """Call ``fit()``, in a fork if it may take seconds, so that Ctrl-C can end it.

        fit : scikit-learn's `fit` of this estimator, with its arguments bound
        """
        if not (self.solver in ("auto", *EXACT) and self._is_long(X)):
            fit()
            return
        # no signal is handled during a call of LAPACK: the call runs in a process that can be ended
        changed_by_fork(self, fit)

    def _is_long(self, X: Any) -> bool:
        """Whether an exact solution takes seconds, during which no signal is handled."""
        shape: tuple[int, ...] = getattr(X, "shape", ())
        if len(shape) != 2:
            return False
        work = 2.0 * shape[0] * shape[1] * min(shape)
        return work * (WORK_OF_SVD if self.solver == "svd" else 1.0) > LONG_WORK

    def _fit_rows(
        self, X: Any, y: np.ndarray, sample_weight: Any, seen: Survey | None = None
    ) -> None:
        """Fit checked rows by the workers, or by `_finish` if the rows are few and `solver` allows.

        `X` is read in place. Sets the fitted attributes and `report_`.
        """
        weight = row_weights(sample_weight, X, X.dtype)
        weight, total = with_mean_one(weight)
        squares = Squares(X, y, weight, self.fit_intercept, seen)
        alpha = self._strengths_of(squares.n_targets)

        def state(target: int) -> RowProblem:
            # scikit-learn's objective, divided by twice the sum of the weights
            return squares.problem(target, "l2", float(alpha[target]) / total, 0.0)

        def enough(target: int, steepest: float) -> float:
            return max(float(self.tol * steepest), squares.rounding(target))

        failed: list[Report] = []
        began = time.perf_counter()
        if not self._chooses or min(X.shape) > DIRECT_SIZE:
            failed = self._fit_by_workers(y, squares, state, enough)
            if not failed:
                return
            if not self._chooses:
                warn_unless_converged(failed[0], ADVICE)
                return
        good = self._finish(X, y, sample_weight, squares, state, enough, fitted=bool(failed))
        if not failed:
            by = " and ".join(SOLVERS[name] for name in self.solver_.split(", "))
            what = "are sparse and" if sp.issparse(X) else "have one very large feature and"
            reason = f"the rows {what} {few(X.shape)}: this is faster than workers"
            self.report_ = report_of(self, by, reason, began, good)
        for report in failed:
            report.notes.append(
                f"the fit was finished by {self.solver_.split(', ')[-1]!r}, because "
                f"{report.stop_reason}"
            )

    def _fit_by_workers(
        self, y: np.ndarray, squares: Squares, state: State, enough: Enough
    ) -> list[Report]:
        """Fit by the workers, target by target; return the reports of targets that failed.

        Sets coef_, intercept_, solver_, report_ and n_iter_, for failed targets too.
        """

        def begin(target: int, problem: RowProblem) -> tuple[Stop, Model | None]:
            steepest = gradient_at(problem, zeros(problem))
            gap = GAP_SHARE * self.tol if self._chooses and problem.l2 > 0.0 else None
            stop = Stop(
                self._most_epochs,
                gradient=enough(target, steepest),
                relative_gap=gap,
                give_up=self._chooses,
            )
            # the start is checked before the first step: if zeros meet the criterion, they are
            # the result
            good = steepest <= squares.rounding(target)
            return stop, zeros(problem) if good else None

        reports = self._fit_targets(y, squares, state, begin, draws=self.solver != "auto")
        self.n_iter_ = np.array([report.n_epochs for report in reports], np.int32)
        return [report for report in reports if not report.converged]

    def _finish(
        self,
        X: Any,
        y: np.ndarray,
        sample_weight: Any,
        squares: Squares,
        state: State,
        enough: Enough,
        fitted: bool,
    ) -> bool:
        """Solve dense rows exactly; continue by conjugate gradients where a solution is poor.

        Sparse rows, and rows for which `loses_digits`, are solved by conjugate gradients only.
        Each target's final solution is checked, and a poor one gives a warning. Sets coef_,
        intercept_, solver_ and n_iter_. Returns whether all solutions are good.

        fitted : whether the workers have fitted; if rows are not solved exactly, conjugate
            gradients then start from the workers' coefficients
        """
        names = [self.solver_] if fitted else []
        counts = np.ravel(self.n_iter_).astype(np.int32) if fitted else None
        exact = not (sp.issparse(X) or loses_digits(X))
        if exact:
            with warnings.catch_warnings():
                # its condition number depends on the features' units; the result is checked below
                warnings.simplefilter("ignore", LinAlgWarning)
                self._solve(X, partial(_BaseRidge.fit, self, X, y, sample_weight=sample_weight))
            names.append(self.solver_)
            fitted = True
        coef = np.zeros((squares.n_targets, X.shape[1]), X.dtype)
        intercept = np.zeros(squares.n_targets, X.dtype)
        if fitted:
            coef[:], intercept[:] = np.reshape(self.coef_, coef.shape), self.intercept_
        n_iter = np.zeros(squares.n_targets, np.int32) if counts is None else counts
        limit = max(self._most_epochs, X.shape[1] if self.max_iter is None else 0)
        worst, moved = 1.0, False
        for target in range(squares.n_targets):
            problem = state(target)
            wanted = enough(target, gradient_at(problem, zeros(problem)))
            # the gap of an exact solution is a rounding error
            gap = np.inf if exact else GAP_SHARE * float(self.tol)
            asked = wanted, gap, squares.rounding(target)
            model = squares.start(target, coef[target], float(intercept[target]))
            miss = missed(problem, model, *asked)
            if not miss <= 1.0:
                moved = True
                model, steps, miss = by_conjugate_gradients(problem, *asked, model, limit)
                coef[target], n_iter[target] = model.coef[0], n_iter[target] + steps
                intercept[target] = squares.intercept(target, model)
            if not miss <= worst:  # a NaN counts as the worst
                worst = miss
        if moved or not exact:
            names.append(CONJUGATE_GRADIENTS)
            self._set_attributes(np.ndim(y), coef, intercept)
            self.n_iter_ = n_iter
        self.solver_ = ", ".join(names)
        self._warn_of(worst)
        return worst <= 1.0


def few(shape: tuple[int, ...]) -> str:
    """Return the end of a sentence "the rows ..." that states the number of rows or features."""
    n_rows, n_features = shape
    what = f"have {n_features:,} features" if n_features <= n_rows else f"are {n_rows:,}"
    return f"{what}, at most {DIRECT_SIZE}"


def is_sparse_input(X: Any) -> bool:
    """Whether rows are sparse: a SciPy matrix, or a pandas data frame with sparse columns only."""
    # only a frame with sparse columns has the attribute `sparse`
    return bool(sp.issparse(X)) or (getattr(X, "ndim", 0) == 2 and hasattr(X, "sparse"))


def loses_digits(X: Any) -> bool:
    """Whether one large feature would spoil an exact solution with more features than rows.

    With more features than rows scikit-learn's 'cholesky' solves with the inner products of rows.
    If one feature has large units, these products contain too few digits of the other features.
    With more rows than features 'cholesky' solves with the inner products of features, and one
    feature's size costs no digits of the others. The result is then False.
    """
    X = np.asarray(X)
    if X.shape[0] >= X.shape[1] or X.dtype.kind not in "fiu" or not X.size:
        return False
    kind = X.dtype if X.dtype == np.float32 else np.dtype(np.float64)
    with errstate(all="ignore"):
        squares = np.einsum("ij,ij->j", X, X, dtype=np.float64)
        usual = float(np.median(squares)) * X.shape[1]
        return bool(squares.max() * np.finfo(kind).eps > LOST * usual)


class Ridge(RidgeMixin, _Ridge):
    """Least squares with an l2 penalty, on every core if that is faster.

    A drop-in replacement for `sklearn.linear_model.Ridge`, and a subclass of it. The problem,
    ``|y - Xw|^2 + alpha |w|^2``, the parameters, defaults and attributes are the same. `n_jobs`,
    `plane`, `barrier`, `runtime` and `report_` are added.

    Parameters
    ----------
    alpha : float or array-like of shape (n_targets,), default=1.0
        Constant that multiplies the L2 term. An array has one constant for each target.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        Coefficients.

    See Also
    --------
    ElasticNet : Least squares with l1 and l2 penalties.

    Notes
    -----
    'saga' accepts sparse rows with an intercept, which scikit-learn's 'saga' refuses.

    Examples
    --------
    >>> from sklearn.datasets import make_regression
    >>> from hogshare import Ridge
    >>> X, y = make_regression(2000, 500, noise=1.0, random_state=0)
    >>> model = Ridge(n_jobs=-1, random_state=0).fit(X, y)
    >>> model.coef_.shape, model.solver_
    ((500,), 'saga')
    """

    _parameter_constraints = constraints_of(_Ridge)

    def __init__(
        self,
        alpha: Any = 1.0,
        *,
        fit_intercept: bool = True,
        copy_X: bool = True,
        max_iter: int | None = None,
        tol: float = 1e-4,
        solver: str = "auto",
        positive: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        plane: Any = "shared",
        barrier: Any = None,
        runtime: str = "auto",
    ) -> None:
        self._store(locals())

    @fits
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Ridge:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows; the dtypes float32 and float64 are preserved. A Dask array or data frame is fitted
            in place by the workers of a `dask.distributed.Client`.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets.
        sample_weight : float or array-like of shape (n_samples,), default=None
            Weights of the rows; negative weights are refused.
        """
        require_workers(self)
        self._strengths()
        if is_collection(X):
            from hogshare.estimators.partitioned_fits import fit_ridge

            fit_ridge(self, X, y, sample_weight)
            return self
        everybody = all_rows_of(self)
        if everybody.is_one and (reason := self._why_scikit_learn(X)):
            self._leave(X, y, sample_weight, reason)
            return self
        X, y, seen = check_rows(self, X, y, sizes=True, multi_output=True, y_numeric=True)
        if everybody.is_one:
            self._fit_rows(X, y, sample_weight, seen)
        else:
            self._fit_own(everybody, X, y, sample_weight)
        return self


class RidgeClassifier(LinearClassifier, RidgeMixin, _RidgeClassifier):
    """Classifier by least squares on targets -1 and 1 with an l2 penalty.

    A drop-in replacement for `sklearn.linear_model.RidgeClassifier`, and a subclass of it. The
    problem, parameters, defaults and attributes are the same. `n_jobs`, `plane`, `barrier`,
    `runtime` and `report_` are added. See `Ridge` for the cases that scikit-learn's solvers fit.

    Parameters
    ----------
    alpha : float, default=1.0
        Constant that multiplies the L2 term.

    class_weight : dict, 'balanced' or None, default=None
        Weights of the classes; a row's weight is multiplied by its class's weight. 'balanced' uses
        the sum of the rows' weights in each class, where scikit-learn counts the rows.

    See Also
    --------
    LogisticRegression : A classifier with probabilities.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from hogshare import RidgeClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = RidgeClassifier().fit(X, y)  # few features: solved exactly
    >>> model.solver_, bool(model.score(X, y) > 0.95)
    ('cholesky', True)
    """

    _parameter_constraints = constraints_of(_RidgeClassifier)

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        fit_intercept: bool = True,
        copy_X: bool = True,
        max_iter: int | None = None,
        tol: float = 1e-4,
        class_weight: Any = None,
        solver: str = "auto",
        positive: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        plane: Any = "shared",
        barrier: Any = None,
        runtime: str = "auto",
    ) -> None:
        self._store(locals())

    @fits
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> RidgeClassifier:
        """Fit the model.

        Parameters
        ----------
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            Labels.
        sample_weight : float or array-like of shape (n_samples,), default=None
            Weights of the rows; negative weights are refused.
        """
        require_workers(self)
        self._strengths()
        y = own_type(y)
        if sp.issparse(y) and y.shape[1] == 1:  # scikit-learn accepts several sparse columns
            require_dense(y)
        everybody = all_rows_of(self)
        if everybody.is_one and (reason := self._why_scikit_learn(X)):
            self._leave(X, y, sample_weight, reason)
            return self
        check_sparse(X)
        X, y, weight, targets = self._prepare_data(X, y, sample_weight, "saga")
        if X.dtype not in (np.float32, np.float64):
            X = X.astype(np.float64)
        if sp.issparse(X):
            X = X.tocsr()  # scikit-learn converts pandas' frames to triplets
            check_sparse(X)
        else:
            X = np.ascontiguousarray(X)
        if everybody.is_one:
            self._fit_rows(X, targets, weight)
        else:
            self._fit_own(everybody, X, targets, weight)
        return self

    def _prepare_data(self, X: Any, y: Any, sample_weight: Any, solver: str) -> Any:
        """Prepare data as scikit-learn does, except for ``class_weight="balanced"``.

        For 'balanced' scikit-learn counts the rows, with which a weight of 2 differs from two equal
        rows; this method sums the rows' weights. If the rows are in several processes, this is
        collective: all ranks must call it. Sets what scikit-learn's method sets, such as
        `classes_`.
        """
        everybody = all_rows_of(self)
        if sample_weight is not None and everybody.is_one:
            sample_weight = row_weights(sample_weight, X)
        given = sample_weight if everybody.is_one else None
        class_weight, self.class_weight = self.class_weight, None
        try:
            X, y, weight, targets = super()._prepare_data(X, y, given, solver)
        finally:
            self.class_weight = class_weight
        if not everybody.is_one:  # also targets for labels that only other processes have
            targets = everybody.own(self._label_binarizer.fit_transform(everybody.joined(y)))
            self.classes_ = self._label_binarizer.classes_
            weight = weights_of_part(everybody, sample_weight, X).astype(weight.dtype)
        if class_weight is None:
            return X, y, weight, targets
        if isinstance(class_weight, str):  # "balanced", the only string that is accepted
            own = everybody.own(balanced(everybody.joined(y), everybody.joined(weight)))
        else:
            own = class_weights(compute_sample_weight(class_weight, y))
        return X, y, np.where(weight > 0.0, weight * own, 0.0).astype(weight.dtype), targets


def balanced(y: Any, weight: np.ndarray) -> np.ndarray:
    """Return a factor for each row that gives equal total weight to the classes of each label.

    y : labels, of shape (n_rows,) or (n_rows, n_labels)
    weight : weight of each row
    """
    labels = (y.toarray() if sp.issparse(y) else np.asarray(y)).reshape(len(weight), -1)
    own = np.ones(len(weight))
    for label in labels.T:
        classes, places = np.unique(label, return_inverse=True)
        sums = np.bincount(places, weight, len(classes))
        with errstate(divide="ignore"):  # a class of zero weight
            own *= (weight.sum(dtype=np.float64) / (len(classes) * sums))[places]
    return own
