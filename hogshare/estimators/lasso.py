"""`ElasticNet` and `Lasso`: scikit-learn's estimators, fitted on every core."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import ElasticNet as _ElasticNet
from sklearn.linear_model import Lasso as _Lasso

from hogshare.engine.stops import Stop
from hogshare.estimators.all_rows import all_rows_of
from hogshare.estimators.coordinate_descent import descend
from hogshare.estimators.fits import fits
from hogshare.estimators.least_squares import LeastSquares, Squares
from hogshare.estimators.solver_report import report_of
from hogshare.estimators.validation import check_rows, for_scikit_learn
from hogshare.estimators.workers import (
    SCALE,
    chooses_runtime,
    constraints_of,
    may_choose_runtime,
    require_square,
    require_workers,
    warn_unless_converged,
    with_mean_one,
)
from hogshare.kernels.rows.survey import Survey
from hogshare.optimum.compression import CompressedRows
from hogshare.problems.model import Model
from hogshare.problems.protocol import RowProblem
from hogshare.problems.weights import row_weights
from hogshare.report import Report
from hogshare.system.clusters import is_collection

GAP_SHARE = 0.01  # duality gap relative to scikit-learn's tolerance; see `tol`
COORDINATE_DESCENT = "cd"
SPARSE_VALUES = 1_000_000  # number of values up to which coordinate descent is faster
OTHERWISE = " Or use runtime='auto', with which scikit-learn's coordinate descent finishes the fit."


class ElasticNet(LeastSquares, _ElasticNet):
    """Least squares with l1 and l2 penalties, on every core.

    A drop-in replacement for `sklearn.linear_model.ElasticNet`, and a subclass of it. The problem,
    ``|y - Xw|^2 / (2 n) + alpha l1_ratio |w|_1 + alpha (1 - l1_ratio) |w|^2 / 2``, the parameters,
    defaults and attributes are the same. `n_jobs`, `plane`, `barrier`, `runtime`, `solver_` and
    `report_` are added. The workers fit sparse rows of more than a million values, by dual
    coordinate ascent or SAGA. Unless a `runtime` is named, scikit-learn's coordinate descent fits
    all other rows, because it is faster on them (see ``docs/logistic.md``).

    Parameters
    ----------
    alpha : float, default=1.0
        Constant that multiplies the penalty terms.

    l1_ratio : float, default=0.5
        The ElasticNet mixing parameter, ``0 <= l1_ratio <= 1``: the share of l1 in the penalty.

    precompute : bool or array-like of shape (n_features, n_features), default=False
        A given Gram matrix is used by scikit-learn's coordinate descent. True has no effect on the
        workers, since the optimum is the same.

    max_iter : int, default=1000
        Maximum number of passes over the rows (epochs).

    copy_X : bool, default=True
        Whether scikit-learn's coordinate descent copies `X`; the workers never write to it.

    tol : float, default=1e-4
        The workers stop when the duality gap is at most ``0.01 * tol`` times the mean square of `y`
        about its mean (without intercept, about zero). The gap is computed at the model itself, by
        a pass over all rows. scikit-learn requires a gap of `tol`, and also that coefficients no
        longer change. The models of both are therefore about equally good.

    positive : bool, default=False
        When set to True, forces the coefficients to be positive. scikit-learn's coordinate descent
        then fits.

    selection : {'cyclic', 'random'}, default='cyclic'
        Order of the features in scikit-learn's coordinate descent. It has no effect on the
        workers, since the optimum is the same.

    runtime : {"auto", "caller", "threads", "processes", "mpi"} or Runtime, default="auto"
        Where the workers run. With "auto" scikit-learn's coordinate descent fits the rows on which
        it is faster. With "auto" coordinate descent also finishes a fit if the workers foresee that
        `max_iter` epochs will not suffice.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_targets, n_features)
        Coefficients, many of them exactly zero.

    sparse_coef_ : sparse matrix of shape (1, n_features) or (n_targets, n_features)
        Sparse representation of the fitted `coef_`.

    n_iter_ : int or list of int
        Number of epochs for each target.

    dual_gap_ : float or ndarray of shape (n_targets,)
        Duality gap of the returned model.

    solver_ : str
        The methods that fitted the model: 'sdca', 'saga', 'cd', or several as in 'saga, cd'.

    report_ : Report, list of Report or SolverReport
        The report of the workers' run, or a list with one report for each target. If scikit-learn
        did the whole fit, a `SolverReport` with the reason.

    See Also
    --------
    Lasso : Least squares with an l1 penalty alone.
    Ridge : Least squares with an l2 penalty alone.

    Examples
    --------
    >>> from sklearn.datasets import make_regression
    >>> from hogshare import ElasticNet
    >>> X, y = make_regression(2000, 50, n_informative=5, noise=1.0, random_state=0)
    >>> model = ElasticNet(alpha=5.0, l1_ratio=0.9, runtime="threads", n_jobs=2).fit(X, y)
    >>> int((model.coef_ != 0.0).sum()), model.solver_
    (5, 'sdca')
    """

    _parameter_constraints = constraints_of(_ElasticNet)

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        l1_ratio: float = 0.5,
        fit_intercept: bool = True,
        precompute: Any = False,
        max_iter: int = 1000,
        copy_X: bool = True,
        tol: float = 1e-4,
        warm_start: bool = False,
        positive: bool = False,
        random_state: Any = None,
        selection: str = "cyclic",
        n_jobs: int | None = None,
        plane: Any = "shared",
        barrier: Any = None,
        runtime: str = "auto",
    ) -> None:
        self._store(locals())

    @fits
    def fit(self, X: Any, y: Any, sample_weight: Any = None, check_input: bool = True) -> Any:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows; the dtypes float32 and float64 are preserved. A Dask array or data frame is fitted
            in place by the workers of a `dask.distributed.Client`.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets.
        sample_weight : float or array-like of shape (n_samples,), default=None
            Weights of the rows; only their ratios matter. Negative weights are refused.
        check_input : bool, default=True
            Whether scikit-learn's coordinate descent checks the input; the workers always do.
        """
        require_workers(self)
        if is_collection(X):
            from hogshare.estimators.partitioned_fits import fit_lasso

            found, few = fit_lasso(self, X, y, sample_weight)
            if found is not None and few is not None:
                self.dual_gap_ = found.dual_gap_ * (len(few.X) / few.moments.weight)
            return self
        everybody = all_rows_of(self)
        if not everybody.is_one:
            X, y, _ = check_rows(self, X, y, sizes=False, multi_output=True, y_numeric=True)
            found, few = self._fit_parts(everybody, X, y, sample_weight, self._few_rows)
            self.dual_gap_ = found.dual_gap_ * (len(few.X) / few.moments.weight)
            return self
        if reason := self._why_scikit_learn(X):
            if self.precompute is True and not sp.issparse(X) and np.ndim(X) == 2:
                require_square(np.shape(X)[1], "precompute=True")
            began = self._fit_by_scikit_learn(X, y, sample_weight, check_input=check_input)
            self.solver_ = COORDINATE_DESCENT
            by = f"scikit-learn's coordinate descent ({COORDINATE_DESCENT!r})"
            converged = True if np.max(self.n_iter_) < self._most_epochs else None
            self.report_ = report_of(self, by, reason, began, converged)
            return self
        X, y, seen = check_rows(self, X, y, sizes=True, multi_output=True, y_numeric=True)
        self._fit_by_workers(X, y, sample_weight, seen)
        return self

    def _hand_over(self, X: Any, y: Any, **others: Any) -> None:
        """Fit by scikit-learn's coordinate descent; set the attributes that its `fit` sets."""
        theirs = self._theirs()
        if self.warm_start and hasattr(self, "coef_"):
            theirs.coef_ = np.array(self.coef_)
        descend(theirs, X, y, on_epoch=self._on_epoch, **others)
        found = {name: value for name, value in vars(theirs).items() if name.endswith("_")}
        if "feature_names_in_" not in found:  # remove attributes of an earlier fit
            self.__dict__.pop("feature_names_in_", None)
        self.__dict__.update(found)

    def _theirs(self) -> Any:
        """Return an estimator of scikit-learn's `ElasticNet` with these parameters."""
        settings = {name: getattr(self, name) for name in _ElasticNet._get_param_names()}
        return _ElasticNet(**{**settings, "max_iter": self._most_epochs})

    def _why_scikit_learn(self, X: Any) -> str:
        """Return the reason to fit by coordinate descent; empty if the workers fit."""
        if self.positive:
            return "no other solver takes positive=True"
        if self.alpha == 0.0:
            return "alpha=0 leaves the workers no duality gap as a criterion"
        if not isinstance(self.precompute, (bool, np.bool_)):
            return "a Gram matrix is given, which the workers do not use"
        if not chooses_runtime(self):
            return ""
        if not sp.issparse(X):
            return "it is faster on dense rows"
        if X.nnz <= SPARSE_VALUES:
            return f"it is faster on sparse rows of at most {SPARSE_VALUES:,} values"
        return ""

    def _few_rows(self, few: CompressedRows) -> Any:
        """Return an unfitted estimator of scikit-learn's for the compressed rows."""
        # scikit-learn divides the sum of squares by the number of compressed rows
        alpha = self.alpha * few.moments.weight / len(few.X)
        theirs = self._theirs().set_params(alpha=alpha, fit_intercept=False, precompute=False)
        if self.warm_start and hasattr(self, "coef_"):
            theirs.coef_ = np.array(self.coef_, np.float64)
        return theirs

    def _fit_by_workers(
        self, X: Any, y: np.ndarray, sample_weight: Any, seen: Survey | None
    ) -> None:
        weight = row_weights(sample_weight, X, X.dtype)
        weight, _ = with_mean_one(weight)
        squares = Squares(X, y, weight, self.fit_intercept, seen)
        finish = chooses_runtime(self)
        # with these names the kernels skip the part of the penalty that a pure l1 or l2 lacks
        penalty = {0.0: "l2", 1.0: "l1"}.get(float(self.l1_ratio), "elasticnet")

        def state(target: int) -> RowProblem:
            return squares.problem(target, penalty, float(self.alpha), float(self.l1_ratio))

        def begin(target: int, problem: RowProblem) -> tuple[Stop, Model | None]:
            gap = GAP_SHARE * self.tol * squares.spread(target)
            floor = squares.rounding(target) ** 2
            stop = Stop(epochs=self._most_epochs, gap=max(gap, floor), give_up=finish)
            return stop, start(target)

        def start(target: int) -> Model | None:
            before = getattr(self, "coef_", None) if self.warm_start else None
            if before is None:
                return None
            before = before.toarray() if sp.issparse(before) else np.asarray(before)
            if before.size != squares.n_targets * X.shape[1]:
                raise ValueError(
                    f"The last solution's coef_ has shape {before.shape}, and these rows have "
                    f"{X.shape[1]} features and {squares.n_targets} target(s): with "
                    "warm_start=True the features and targets must be those of the previous fit."
                )
            before = before.reshape(-1, X.shape[1])[target]
            # without fit_intercept, `intercept_` is one number for all targets
            intercepts = np.broadcast_to(np.ravel(self.intercept_), squares.n_targets)
            # a copy (`Squares.start`): the run never writes `coef_`
            return squares.start(target, before, float(intercepts[target]))

        reports = self._fit_targets(y, squares, state, begin, draws=self.selection == "random")
        single = squares.n_targets == 1
        gaps = np.array([report.checks[-1]["gap"] for report in reports], X.dtype)
        epochs = [report.n_epochs for report in reports]
        self.dual_gap_ = gaps[0] if single else gaps
        self.n_iter_ = epochs[0] if single else epochs
        failed = next((report for report in reports if not report.converged), None)
        if failed is None:
            return
        theirs = for_scikit_learn(X) if finish else None
        if theirs is None:
            otherwise = OTHERWISE if may_choose_runtime(self) else ""
            warn_unless_converged(failed, f"{SCALE}{otherwise}")
            return
        self._finish(failed, theirs, y, sample_weight, epochs)

    def _finish(
        self, failed: Report, X: Any, y: np.ndarray, sample_weight: Any, epochs: list[int]
    ) -> None:
        """Continue from the workers' model by scikit-learn's coordinate descent.

        Sets the fitted attributes, and adds a note to the report `failed`.

        epochs : number of the workers' epochs for each target
        """
        theirs = self._theirs().set_params(warm_start=True)
        theirs.coef_, theirs.intercept_ = np.array(self.coef_), self.intercept_
        descend(theirs, X, y, sample_weight, self._on_epoch)
        self.coef_, self.intercept_ = theirs.coef_, theirs.intercept_
        self.dual_gap_ = theirs.dual_gap_
        counts = (np.array(epochs) + np.ravel(theirs.n_iter_)).tolist()
        self.n_iter_ = counts[0] if len(counts) == 1 else counts
        self.solver_ = f"{self.solver_}, {COORDINATE_DESCENT}"
        failed.notes.append(
            "the fit was finished by scikit-learn's coordinate descent in "
            f"{np.sum(theirs.n_iter_)} iterations, because {failed.stop_reason}"
        )


class Lasso(ElasticNet, _Lasso):
    """Least squares with an l1 penalty, on every core.

    A drop-in replacement for `sklearn.linear_model.Lasso`. The problem,
    ``|y - Xw|^2 / (2 n) + alpha |w|_1``, the parameters, defaults and attributes are the same. The
    class also has the parameters and attributes that `hogshare.ElasticNet` adds to scikit-learn's.
    It is a subclass of `sklearn.linear_model.Lasso` and of `hogshare.ElasticNet`. The workers' rule
    is SAGA. See `ElasticNet` for the rows that the workers fit, and the rows that coordinate
    descent fits.

    See Also
    --------
    ElasticNet : Least squares with l1 and l2 penalties.

    Examples
    --------
    >>> from sklearn.datasets import make_regression
    >>> from hogshare import Lasso
    >>> X, y = make_regression(2000, 50, n_informative=5, noise=1.0, random_state=0)
    >>> model = Lasso(alpha=2.0, runtime="threads", n_jobs=2).fit(X, y)
    >>> int((model.coef_ != 0.0).sum()), model.solver_
    (5, 'saga')
    """

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012
        name: kinds
        for name, kinds in ElasticNet._parameter_constraints.items()
        if name != "l1_ratio"
    }

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        fit_intercept: bool = True,
        precompute: Any = False,
        copy_X: bool = True,
        max_iter: int = 1000,
        tol: float = 1e-4,
        warm_start: bool = False,
        positive: bool = False,
        random_state: Any = None,
        selection: str = "cyclic",
        n_jobs: int | None = None,
        plane: Any = "shared",
        barrier: Any = None,
        runtime: str = "auto",
    ) -> None:
        self._store(locals())
