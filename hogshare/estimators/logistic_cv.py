"""`LogisticRegressionCV`: scikit-learn's estimator, with warm starts and parallel folds."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn import config_context, get_config
from sklearn.linear_model import LogisticRegressionCV as _LogisticRegressionCV
from sklearn.linear_model._logistic import _check_solver
from sklearn.metrics import get_scorer, make_scorer
from sklearn.model_selection import check_cv
from sklearn.utils import compute_class_weight
from sklearn.utils.metadata_routing import (
    _raise_for_params,
    _routing_enabled,
    process_routing,
)
from sklearn.utils.validation import _check_method_params

from hogshare.estimators.fits import fits
from hogshare.estimators.linear_models import LinearClassifier, ToTheOptimum
from hogshare.estimators.logistic import LogisticRegression
from hogshare.estimators.parameters import LOGISTIC_WORDS, MAX_INT
from hogshare.estimators.solver_report import report_of
from hogshare.estimators.validation import check_rows, classes_of
from hogshare.estimators.workers import chooses_runtime, constraints_of, require_workers
from hogshare.problems.linear.labels import own_type
from hogshare.problems.model import Model
from hogshare.problems.weights import row_weights
from hogshare.runtimes.choice import usable_workers
from hogshare.runtimes.pool import call_in_queue
from hogshare.system import memory
from hogshare.system.callers import warn
from hogshare.system.messages import speaking
from hogshare.system.ranges import meaning, whole

COPIES = 3  # number of arrays as large as `Cs` while the scale is computed


@dataclass(frozen=True)
class PenaltyGrid:
    """The penalties to choose from, and the scoring.

    ratios : values of `l1_ratio`; [None] if `l1_ratios` is None
    penalty : name of the penalty
    legacy : whether fitted attributes have scikit-learn's older form
    """

    Cs: np.ndarray
    ratios: list[Any]
    penalty: str
    scoring: Any
    legacy: bool


def kind_of(penalty: str, ratio: float | None) -> str:
    """Return a penalty's name, "l1" or "l2" if it is pure: kernels then skip the other part."""
    if penalty != "elasticnet" or ratio is None:
        return penalty
    return {0.0: "l2", 1.0: "l1"}.get(ratio, penalty)


def settled(estimator: Any) -> PenaltyGrid:
    """Return the grid of penalties from the parameters; warn of defaults as scikit-learn does.

    Raises
    ------
    ValueError
        If the grid is empty, or contains an invalid penalty.
    """
    est = estimator
    ratios: Any = None if isinstance(est.l1_ratios, str) else est.l1_ratios
    if isinstance(est.l1_ratios, str):
        _warn_of_change(
            "The default value for l1_ratios will change from None to (0.0,) in version 1.10; "
            "set a value, e.g. l1_ratios=(0,)."
        )
    elif est.penalty == "deprecated" and ratios is None:
        _warn_of_change(
            "'l1_ratios=None' was deprecated in version 1.8 and will trigger an error in 1.10. Use "
            "an array-like with values in [0, 1] instead."
        )
    if est.penalty == "deprecated":
        with meaning("l1_ratios must be numbers between 0 and 1"):
            shares = np.unique(np.asarray([0.0] if ratios is None else ratios, float)).tolist()
        penalty = {(0.0,): "l2", (1.0,): "l1"}.get(tuple(shares), "elasticnet")
    else:
        penalty = est.penalty
        _warn_of_change(
            "'penalty' was deprecated in version 1.8 and will be removed in 1.10. Use "
            "l1_ratios=(0,) instead of penalty='l2', l1_ratios=(1,) instead of penalty='l1', "
            "l1_ratios set to floats between 0 and 1 instead of penalty='elasticnet', and "
            "Cs=(np.inf,) instead of penalty=None."
        )
        if penalty != "elasticnet" and ratios is not None:
            warn(
                "l1_ratios parameter is only used when penalty is 'elasticnet'. Got "
                f"(penalty={penalty})",
            )
    if penalty == "elasticnet":
        given = ratios is not None and len(ratios) > 0
        if not given or not all(isinstance(r, Real) and 0.0 <= float(r) <= 1.0 for r in ratios):
            raise ValueError(
                "l1_ratios must be an array-like of numbers between 0 and 1; got "
                f"(l1_ratios={ratios!r})"
            )
    if est.scoring == "warn":
        _warn_of_change(
            "The default value of the parameter 'scoring' will change from None, i.e. accuracy, to "
            "'neg_log_loss' in version 1.11; set scoring='neg_log_loss', or scoring='accuracy'."
        )
    if est.use_legacy_attributes == "warn":
        name = type(est).__name__
        _warn_of_change(
            f"The fitted attributes of {name} will be simplified in scikit-learn 1.10. Set "
            "`use_legacy_attributes=False` to have that now, or `True` to silence this warning. "
            "The default value of use_legacy_attributes will change from True to False."
        )
    if isinstance(est.Cs, Integral):
        n_cs = int(est.Cs)
        whole(1, Cs=n_cs)
        memory.require(COPIES * 8 * n_cs, f"Cs={n_cs}")
        Cs = np.logspace(-4, 4, n_cs)
    else:
        with meaning("Cs must be a number or a list of positive numbers"):
            Cs = np.asarray(est.Cs, float)
    if Cs.ndim != 1 or not Cs.size or not (Cs > 0.0).all():
        raise ValueError(f"Cs must be a number or a list of positive numbers; got {est.Cs!r}.")
    return PenaltyGrid(
        Cs,
        [None] if ratios is None else list(ratios),
        penalty,
        None if est.scoring == "warn" else est.scoring,
        est.use_legacy_attributes in ("warn", True),
    )


def _warn_of_change(text: str) -> None:
    warn(text, FutureWarning)


def point(template: dict[str, Any], C: float, ratio: float | None, **others: Any) -> Any:
    """Return a `LogisticRegression` for one penalty, whose `_fit_rows` fits checked rows.

    template, others : attributes of the estimator
    """
    estimator = LogisticRegression(C=C)
    for name, value in {**template, "l1_ratio": ratio, **others}.items():
        setattr(estimator, name, value)
    return estimator


@dataclass(frozen=True)
class Path:
    """The fits to a fold's rows with one `l1_ratio` and every `C`, one after another.

    template : parameters that all fits have in common, and `classes_`, the labels of all folds
    X, y, sample_weight : all rows, their labels and their weights
    train, test : indices of the rows to fit, and of the left-out rows
    """

    template: dict[str, Any]
    penalty: str
    ratio: float | None
    Cs: np.ndarray
    X: Any
    y: np.ndarray
    sample_weight: np.ndarray | None
    train: np.ndarray
    test: np.ndarray

    def follow(
        self, scorer: Any, score_params: dict[str, Any], is_over: Callable[[], bool]
    ) -> tuple[np.ndarray, list[float], list[int]] | None:
        """Fit from the strongest penalty to the weakest, and score the fits in the order of `Cs`.

        Returns coefficients of shape (n_cs, n_columns, n_features + fit_intercept), scores and
        numbers of iterations; None if ``is_over()`` was True before a fit.
        """
        X, y, weight = self.X[self.train], self.y[self.train], self.sample_weight
        weight = None if weight is None else weight[self.train]
        estimator = point(self.template, self.Cs[0], self.ratio)
        fitted: dict[int, tuple[np.ndarray, np.ndarray, int]] = {}
        last = None
        for k in np.argsort(self.Cs, kind="stable"):
            if is_over():
                return None
            estimator.C = self.Cs[k]
            last = estimator._fit_rows(X, y, weight, self.penalty, last)
            fitted[int(k)] = estimator.coef_, estimator.intercept_, int(estimator.n_iter_[0])
        score = self._score(scorer, score_params)
        coefs, scores, counts = [], [], []
        for k, C in enumerate(self.Cs):
            estimator.C = C
            estimator.coef_, estimator.intercept_, n_iter = fitted[k]
            parts = [estimator.coef_]
            parts += [estimator.intercept_[:, None]] if estimator.fit_intercept else []
            coefs.append(np.hstack(parts))
            scores.append(score(estimator))
            counts.append(n_iter)
        return np.array(coefs), scores, counts

    def _score(self, scorer: Any, params: dict[str, Any]) -> Callable[[Any], float]:
        """Return a function that scores an estimator on the left-out rows."""
        X, y, weight = self.X[self.test], self.y[self.test], self.sample_weight
        if scorer is None:
            weight = None if weight is None else weight[self.test]
            return lambda estimator: estimator.score(X, y, sample_weight=weight)
        params = _check_method_params(X=self.X, params=params, indices=self.test)
        return lambda estimator: scorer(estimator, X, y, **params)


def scorer_for(scoring: Any, classes: np.ndarray) -> Any:
    """Return the scorer for a parameter `scoring`.

    A scorer that takes labels gets all classes, since a fold may lack a class. If `scoring` is
    None, the result is None, and the estimator's own `score` is used.

    classes : the distinct labels of all rows, sorted
    """
    scorer = get_scorer(scoring)
    function = getattr(scorer, "_score_func", None)
    known = inspect.signature(function).parameters if function is not None else {}
    if "labels" not in known:
        return scorer
    settings = {"labels": classes, **scorer._kwargs}
    if "pos_label" in known and len(classes) == 2:
        settings.setdefault("pos_label", classes[-1])
    return make_scorer(
        function,
        greater_is_better=scorer._sign == 1,
        response_method=scorer._response_method,
        **settings,
    )


class LogisticRegressionCV(LinearClassifier, ToTheOptimum, _LogisticRegressionCV):
    """Logistic regression whose `C` and `l1_ratio` are chosen by cross-validation.

    A drop-in replacement for `sklearn.linear_model.LogisticRegressionCV`, and a subclass of it. The
    parameters, defaults, attributes and warnings are the same. `plane`, `barrier`, `runtime`,
    `solver_` and `report_` are added. Every model is fitted as `hogshare.LogisticRegression` fits
    it. The fits of a fold go from the strongest penalty to the weakest, and each starts from the
    previous solution and its rule's row memory. On four data sets the fits took a quarter to a half
    of the epochs of fits from zero (``docs/logistic.md``).

    Parameters
    ----------
    Cs : int or array-like of shape (n_cs,), default=10
        Inverses of regularization strength to choose from. An int is the number of values on a
        logarithmic scale between 1e-4 and 1e4.

    l1_ratios : array-like of shape (n_l1_ratios,) or None, default=None
        Elastic-Net mixing parameters (shares of l1) to choose from.

    fit_intercept, dual, penalty, solver, tol, max_iter, class_weight, intercept_scaling
        As in `LogisticRegression`. For "balanced", all rows are counted, not the rows of a fold.

    cv : int, cross-validation generator or iterable, default=None
        The cross-validation folds; None is five stratified folds.

    scoring : str or callable, default=None
        The scoring method for the left-out rows; None is accuracy. If folds are fitted in parallel,
        several threads call it at the same time.

    n_jobs : int or None, default=None
        Number of workers. None is one worker (or the number from a surrounding joblib context); -1
        is all usable cores. A path is the fits to one fold with one of `l1_ratios` and all of `Cs`.
        With ``runtime="auto"`` workers fit paths in parallel, each its own path. Several workers
        fit a model together only in the last fit, or if there are more workers than paths. With a
        named runtime the models are fitted one after another, each by all workers together.

    verbose : int, default=0
        If positive, each fit prints the lines that `LogisticRegression` prints.

    refit : bool, default=True
        Whether to fit all rows with the `C` and `l1_ratio` whose score, averaged over the folds, is
        best. If False, the coefficients with the best score in each fold are averaged.

    random_state : int, RandomState or None, default=None
        Determines the order of the rows; see `LogisticRegression`. It does not affect the folds,
        which depend on `cv`.

    use_legacy_attributes : bool, default=True
        The form of the attributes; see scikit-learn's page.

    runtime : {"auto", "caller", "threads", "processes", "mpi"} or Runtime, default="auto"
        Where the workers run; see `n_jobs`.

    Attributes
    ----------
    Cs_ : ndarray of shape (n_cs,)
        The values of C that were compared.

    l1_ratios_ : ndarray of shape (n_l1_ratios,)
        The values of l1_ratio that were compared; ``[None]`` if `l1_ratios` is None.

    coefs_paths_ : dict of ndarray of shape (n_folds, n_cs, n_l1_ratios, n_dof), or ndarray of \
            shape (n_folds, n_l1_ratios, n_cs, n_classes, n_dof)
        Coefficients of every fit on a fold, with the intercept last. A dict by class, or an array
        if `use_legacy_attributes` is False. If `l1_ratios` is None, the arrays of this dict and of
        `scores_` have no axis for it.

    scores_ : dict of ndarray of shape (n_folds, n_cs, n_l1_ratios), or ndarray of shape \
            (n_folds, n_l1_ratios, n_cs)
        Scores on the left-out rows.

    C_, l1_ratio_ : ndarray of shape (n_classes,) or (1,), or float
        The chosen values.

    n_iter_ : ndarray of shape (1, n_folds, n_cs, n_l1_ratios) or (n_folds, n_l1_ratios, n_cs)
        Number of epochs of each fit, plus iterations of a method that finished it: at most
        `max_iter`.

    solver_ : str
        The methods of the last fit, which is on all rows, as in `LogisticRegression`. "none" if
        `refit` is False.

    report_ : Report or SolverReport
        The report of the last fit. If `refit` is False, a `SolverReport` that states it.

    See Also
    --------
    LogisticRegression : One fit.

    Notes
    -----
    If one worker fits each path, the fits on folds are the same in every call, for any number of
    parallel paths. If the scores of several values of `C` are equal or nearly equal, `C_` depends
    on how closely each fit meets `tol`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from hogshare import LogisticRegressionCV
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LogisticRegressionCV(
    ...     Cs=[0.01, 1.0],
    ...     l1_ratios=(0,),
    ...     scoring="neg_log_loss",
    ...     max_iter=1000,
    ...     use_legacy_attributes=False,
    ... )
    >>> model.fit(X, y).C_, model.scores_.shape
    (1.0, (5, 1, 2))
    """

    _parameter_constraints = constraints_of(_LogisticRegressionCV)
    _words = LOGISTIC_WORDS

    def __init__(
        self,
        *,
        Cs: Any = 10,
        l1_ratios: Any = "warn",
        fit_intercept: bool = True,
        cv: Any = None,
        dual: bool = False,
        penalty: str = "deprecated",
        scoring: Any = "warn",
        solver: str = "lbfgs",
        tol: float = 1e-4,
        max_iter: int = 100,
        class_weight: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        refit: bool = True,
        intercept_scaling: float = 1.0,
        random_state: Any = None,
        use_legacy_attributes: Any = "warn",
        plane: Any = "shared",
        barrier: Any = None,
        runtime: str = "auto",
    ) -> None:
        self._store(locals())

    # each of these attributes has one of two forms, as in scikit-learn
    C_: Any
    l1_ratio_: Any
    n_iter_: Any
    scores_: Any
    coefs_paths_: Any

    @fits
    def fit(self, X: Any, y: Any, sample_weight: Any = None, **params: Any) -> LogisticRegressionCV:
        """Choose `C` and `l1_ratio` by cross-validation, and fit all rows with them.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, for fits and (unless metadata routing is enabled) for scores.
            Negative weights are refused.
        **params : dict
            Arguments of the splitter and the scorer, with scikit-learn's metadata routing enabled.
        """
        _raise_for_params(params, self, "fit")
        require_workers(self)
        choice = settled(self)
        _check_solver(self.solver, choice.penalty, self.dual)
        X, y, _ = check_rows(self, X, own_type(y), sizes=False)  # each fold has other rows
        self.classes_ = classes_of(y)
        point({"solver": self.solver}, 1.0, 0.0)._check_classes(self.classes_)
        if sample_weight is not None:
            sample_weight = row_weights(sample_weight, X, X.dtype)
        to_splitter, to_scorer = self._routed(sample_weight, params)
        folds = list(check_cv(self.cv, y, classifier=True).split(X, y, **to_splitter))
        if not folds:
            raise ValueError(f"cv={self.cv!r} gives no fold: name a number of folds, 2 or more.")
        threads, workers = self._crews(len(folds) * len(choice.ratios))
        template = self._template(y, sample_weight)
        paths = [
            Path(
                {**template, "random_state": self._seed(), "n_jobs": workers},
                kind_of(choice.penalty, ratio),
                ratio,
                choice.Cs,
                X,
                y,
                sample_weight,
                train,
                test,
            )
            for train, test in folds
            for ratio in choice.ratios
        ]
        scorer = scorer_for(choice.scoring, self.classes_)
        config = get_config()

        def follow(path: Path, is_over: Callable[[], bool]) -> Any:
            # threads do not inherit scikit-learn's configuration
            with config_context(**config), speaking(self._words):
                return path.follow(scorer, to_scorer, is_over)

        found = call_in_queue(follow, paths, threads)
        shape = len(folds), len(choice.ratios), len(choice.Cs)
        coefs, scores, n_iter = (np.array(part) for part in zip(*found, strict=True))
        self.coefs_paths_ = coefs.reshape(*shape, *coefs.shape[2:])
        self.scores_ = scores.reshape(shape)
        self.n_iter_ = n_iter.astype(np.int32).reshape(shape)
        self.Cs_, self.l1_ratios_ = choice.Cs, np.asarray(choice.ratios)
        if self.refit:
            self._refit(template, choice, X, y, sample_weight)
        else:
            self._average(choice)
        if choice.legacy:
            self._to_legacy(choice)
        else:
            given = self.l1_ratio_ is not None
            self.l1_ratio_ = float(self.l1_ratio_ if given else self.penalty == "l1")
            self.C_ = float(self.C_)
        return self

    def score(self, X: Any, y: Any, sample_weight: Any = None, **score_params: Any) -> float:
        """Return the score of predictions by `scoring`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Their labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.
        **score_params : dict
            Arguments of the scorer, with scikit-learn's metadata routing enabled.

        Returns
        -------
        score : float

        Raises
        ------
        ValueError
            If labels are missing.
        """
        theirs: Any = super()
        y = own_type(y)
        return float(theirs.score(X, y, sample_weight=sample_weight, **score_params))

    def _template(self, y: np.ndarray, sample_weight: Any) -> dict[str, Any]:
        """Return the parameters and labels that are common to all fits, as a dict of attributes."""
        class_weight = self.class_weight
        if isinstance(class_weight, dict) and not set(class_weight) <= set(self.classes_):
            raise ValueError(
                "The given class_weight dict must have the class labels as keys; "
                f"classes={self.classes_} but key={class_weight.keys()}"
            )
        if class_weight == "balanced":
            weights = compute_class_weight(
                class_weight, classes=self.classes_, y=y, sample_weight=sample_weight
            )
            class_weight = dict(zip(self.classes_, weights, strict=True))
        names = ["dual", "tol", "fit_intercept", "intercept_scaling", "solver", "max_iter"]
        names += ["verbose", "plane", "barrier", "runtime"]
        return {
            **{name: getattr(self, name) for name in names},
            "class_weight": class_weight,
            "classes_": self.classes_,
        }

    def _routed(
        self, sample_weight: Any, params: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the arguments of the splitter, and the arguments of the scorer."""
        if _routing_enabled():
            routed = process_routing(self, "fit", sample_weight=sample_weight, **params)
            return routed.splitter.split, routed.scorer.score
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        return {}, {**params, **weights}

    def _seed(self) -> Any:
        """Return a path's `random_state`; if the parameter is a generator, draw an int from it."""
        if isinstance(self.random_state, np.random.RandomState):
            return int(self.random_state.randint(MAX_INT))
        return self.random_state

    def _crews(self, n_paths: int) -> tuple[int, int | None]:
        """Return the number of parallel paths, and the number of workers of each fit in a path."""
        if not chooses_runtime(self):
            return 1, self.n_jobs
        usable = usable_workers(self.n_jobs)
        threads = min(usable, n_paths)
        return threads, usable // threads

    def _refit(
        self,
        template: dict[str, Any],
        choice: PenaltyGrid,
        X: Any,
        y: np.ndarray,
        sample_weight: Any,
    ) -> None:
        """Fit all rows with the values that are best on average, and set the fitted attributes.

        The fit starts from the mean of the folds' coefficients with these values.
        """
        total = self.scores_.sum(axis=0).T  # with this order of axes the first C wins ties
        c, ratio = np.unravel_index(np.argmax(total), total.shape)
        self.C_ = choice.Cs[c]
        self.l1_ratio_ = choice.ratios[ratio]
        estimator = point(
            template,
            self.C_,
            self.l1_ratio_,
            random_state=self._seed(),
            n_jobs=self.n_jobs,
            verbose=max(0, self.verbose - 1),
        )
        mean = self.coefs_paths_[:, ratio, c].mean(axis=0)
        features = X.shape[1]
        start = None
        if self.solver != "liblinear":
            intercept = mean[:, features] if self.fit_intercept else np.zeros(len(mean), X.dtype)
            start = Model(np.ascontiguousarray(mean[:, :features]), intercept)
        kind = kind_of(choice.penalty, self.l1_ratio_)
        estimator._fit_rows(X, y, sample_weight, kind, start)
        for name in ("coef_", "intercept_", "solver_", "report_"):
            setattr(self, name, getattr(estimator, name))

    def _average(self, choice: PenaltyGrid) -> None:
        """Set the attributes to averages of the best values and coefficients of all folds."""
        scores = np.swapaxes(self.scores_, 1, 2)  # with this order of axes the first C wins ties
        flat = scores.reshape(len(scores), -1).argmax(axis=1)
        c, ratio = np.unravel_index(flat, scores.shape[1:])
        mean = self.coefs_paths_[np.arange(len(scores)), ratio, c].mean(axis=0)
        self.C_ = np.mean(choice.Cs[c])
        given = choice.penalty == "elasticnet"
        self.l1_ratio_ = np.mean(np.asarray(choice.ratios)[ratio]) if given else 0.0
        self.solver_ = "none"
        self.coef_, self.intercept_ = mean, np.zeros(len(mean), mean.dtype)
        if self.fit_intercept:
            self.coef_, self.intercept_ = np.ascontiguousarray(mean[:, :-1]), mean[:, -1].copy()
        reason = "refit=False averages the best coefficients of all folds"
        self.report_ = report_of(self, "", reason, time.perf_counter())

    def _to_legacy(self, choice: PenaltyGrid) -> None:
        """Convert the fitted attributes to scikit-learn's older form, with one entry per class."""
        labels = self.classes_[-len(self.coef_) :]

        def legacy(values: np.ndarray) -> np.ndarray:
            """Reorder (n_folds, n_l1_ratios, n_cs, ...) to (n_folds, n_cs[, n_l1_ratios], ...)."""
            values = np.swapaxes(values, 1, 2)
            return values[:, :, 0] if choice.ratios == [None] else values

        paths, scores = legacy(self.coefs_paths_), legacy(self.scores_)
        self.coefs_paths_ = {name: paths[..., k, :] for k, name in enumerate(labels)}
        self.scores_ = {name: scores.copy() for name in labels}
        self.n_iter_ = legacy(self.n_iter_)[None]
        self.C_ = np.tile(self.C_, len(labels))
        self.l1_ratio_ = np.tile(self.l1_ratio_, len(labels))
