"""`SGDClassifier`: scikit-learn's, with every core for one model."""

from __future__ import annotations

from typing import Any

from sklearn.base import _fit_context
from sklearn.linear_model import SGDClassifier as _SGDClassifier

from hogshare.estimators.accuracy import Accuracy
from hogshare.estimators.common import LEARNING_RATES
from hogshare.estimators.parameters import always_checked
from hogshare.estimators.passes import ClassifierPass
from hogshare.estimators.ranks import with_all_ranks
from hogshare.estimators.told import told
from hogshare.estimators.workers import WORKER_CONSTRAINTS


class SGDClassifier(Accuracy, ClassifierPass, _SGDClassifier):
    """Linear classifier fitted by stochastic gradient descent, on every core.

    A drop-in replacement of `sklearn.linear_model.SGDClassifier`, and a subclass of it: the same
    parameters with the same meaning and defaults, the same attributes, plus `n_jobs` for one
    model, `plane`, `barrier`, `runtime` and `report_`. See scikit-learn's page for the losses and
    schedules.

    Parameters
    ----------
    loss : {'hinge', 'log_loss', 'modified_huber', 'squared_hinge', 'perceptron', \
            'squared_error', 'huber', 'epsilon_insensitive', 'squared_epsilon_insensitive'}, \
            default='hinge'
        'hinge' is a linear support vector machine, 'log_loss' logistic regression. 'log_loss' and
        'modified_huber' give probabilities.

    penalty : {'l2', 'l1', 'elasticnet', None}, default='l2'
        The penalty on the coefficients (never on the intercept). 'l1' and 'elasticnet' set
        coefficients to exactly zero.

    alpha : float, default=0.0001
        Factor of the penalty; the 'optimal' learning rate is computed from it too.

    l1_ratio : float or None, default=0.15
        Share of l1 in 'elasticnet', between 0 and 1. None is possible with other penalties.

    fit_intercept : bool, default=True
        Whether to fit an intercept.

    max_iter : int, default=1000
        Passes over the rows (epochs) at the most, in `fit`.

    tol : float or None, default=1e-3
        Stop when an epoch's mean loss plus penalty (with `early_stopping` the score on held-out
        rows) has not improved by `tol` for `n_iter_no_change` epochs in a row. None: never.

    shuffle : bool, default=True
        Whether each epoch visits the rows in a new order.

    verbose : int, default=0
        If positive, print the model's norm, nonzeros, intercept and objective after each epoch.

    epsilon : float, default=0.1
        Threshold of 'huber' and of the epsilon-insensitive losses.

    n_jobs : int or None, default=None
        Workers that fit the model together, for any number of classes. None is one (or what a
        surrounding joblib context says), -1 all usable cores. With ``runtime="auto"`` it is a
        ceiling, and one worker is used where more cannot pay or others have the cores now; with a
        runtime named, so many start.

    random_state : int, RandomState or None, default=None
        Of the row order and of the split for early stopping. With one worker an int gives the
        same model bit for bit in every call; with more workers the model depends on their timing.

    learning_rate : str, default='optimal'
        The schedule of the step size: 'constant' (eta0), 'optimal' (``1 / (alpha (t + t0))``, t0
        by Bottou's heuristic), 'invscaling' (``eta0 / t**power_t``), 'adaptive' (eta0, divided by
        5 whenever the stop criterion is met), 'pa1' and 'pa2' (passive-aggressive, with
        ``loss='hinge'`` only). Not in scikit-learn: 'auto' needs no tuning and converges to the
        optimum instead of hovering around it. It is `hogshare.SDCA` or `hogshare.SAGA`, whichever
        suits the rows, for every loss but the perceptron's; a fit that does not get to the
        optimum, for columns of very unlike sizes, warns. Averaging, warm starts and `partial_fit`
        are refused.

    eta0 : float, default=0.01
        The step size of 'constant', the first of 'invscaling' and 'adaptive', and C of 'pa1' and
        'pa2'.

    power_t : float, default=0.5
        Exponent of 'invscaling'. Negative values are deprecated, as in scikit-learn.

    early_stopping : bool, default=False
        Whether to hold out a stratified fraction of the rows and stop when the score on them no
        longer improves; see `tol`.

    validation_fraction : float, default=0.1
        Fraction of the rows to hold out for early stopping.

    n_iter_no_change : int, default=5
        Epochs without improvement to wait for.

    class_weight : dict, "balanced" or None, default=None
        Weights of the classes; "balanced" is ``n_samples / (n_classes * np.bincount(y))``.

    warm_start : bool, default=False
        Whether `fit` starts from the last fit's solution. The step counter starts anew;
        `partial_fit` goes on with it.

    average : bool or int, default=False
        Whether `coef_` is the average of the iterates; an int above 1 begins to average after
        so many rows.

    plane : {"shared", "master"}, Shared, Master or None, default="shared"
        Where the model lives while several workers fit it. "shared" (and None) is
        ``hogshare.Shared()``: private copies that are exchanged now and then;
        ``Shared(exchange=None)`` is Hogwild!, one vector that all write without locks.

    barrier : Barrier, callable or str, default=None
        When a worker may go on after a block of rows: `ASP` (and None: nobody waits), `BSP`, `SSP`,
        `PBSP`, `PSSP`, `Fraction`, `Throttled`, one of these in words ("bsp", "ssp:4"), or a
        function ``(table, me) -> bool``; see `hogshare.barriers`. One worker alone never waits.

    runtime : {"auto", "caller", "threads", "processes", "mpi"} or Runtime, default="auto"
        Who runs the workers. "auto" takes threads, or processes if the rows come from
        `hogshare.share`. "mpi": ranks, each of which gives rows of its own (`hogshare.MPI`).

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Coefficients, in the dtype of `X` (float32 and float64 are kept). In memory feature by
        feature (Fortran order).

    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts.

    n_iter_ : int
        Epochs that were finished; with several classes, by the class that took the longest.

    classes_ : ndarray of shape (n_classes,)
        The labels.

    t_ : float
        Step counter: 1 plus rows times epochs.

    n_features_in_ : int
        Number of features seen during `fit`.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen during `fit`, where `X` has names that are all strings.

    report_ : Report
        How the last fit (or `partial_fit`) went: workers, staleness, seconds, settings.

    See Also
    --------
    SGDRegressor : The same for regression.
    hogshare.solve : The solver underneath, with all its settings.

    Notes
    -----
    One worker does per row exactly what scikit-learn does, and a binary fit with the same int
    `random_state` gives scikit-learn's coefficients up to rounding. Where this class departs:

    - With more than one worker a fit is not reproducible: workers meet as they are scheduled. The
      tag ``non_deterministic`` says so.
    - Rows of more than 16 MB are shuffled by windows: eight neighbours from each of eight random
      places in turn, which a processor fetches in a fifth to a third less time. The model is then
      as good as, and not the same as, scikit-learn's of that seed; ``shuffle=False`` is the same.
    - All classes are fitted in one pass over a row, so they share one row order; scikit-learn
      draws one per class.
    - Averages of a fit are sums in float64; scikit-learn keeps a running mean in the dtype of `X`,
      as `partial_fit` does here too. After averaging has begun, `partial_fit` goes on from the last
      iterate's intercept too, which scikit-learn 1.9 forgets.
    - The accuracy that decides early stopping counts both classes, on the model as it stands.
      scikit-learn 1.9.1 compares predictions in {-1, 1} with labels in {0, 1} for the log loss,
      and leaves out the scale factor of an l2 penalty.
    - `verbose` prints one group of lines per epoch for all classes, and the objective of the model
      at the end of the epoch.
    - Matrices with 64-bit indices are accepted.
    - scikit-learn's callbacks (``set_callbacks``) are supported in `fit`, with a task per epoch; a
      hook that asks to stop ends the fit after its epoch.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from hogshare import SGDClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), SGDClassifier(n_jobs=-1, random_state=0))
    >>> bool(model.fit(X, y).score(X, y) > 0.95)
    True
    """

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012
        **_SGDClassifier._parameter_constraints,
        **WORKER_CONSTRAINTS,
        "learning_rate": LEARNING_RATES,
    }

    def __init__(
        self,
        loss: str = "hinge",
        *,
        penalty: str | None = "l2",
        alpha: float = 0.0001,
        l1_ratio: float | None = 0.15,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        tol: float | None = 1e-3,
        shuffle: bool = True,
        verbose: int = 0,
        epsilon: float = 0.1,
        n_jobs: int | None = None,
        random_state: Any = None,
        learning_rate: str = "optimal",
        eta0: float = 0.01,
        power_t: float = 0.5,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        class_weight: Any = None,
        warm_start: bool = False,
        average: bool | int = False,
        plane: Any = "shared",
        barrier: Any = None,
        runtime: str = "auto",
    ) -> None:
        super().__init__(
            loss=loss,
            penalty=penalty,
            alpha=alpha,
            l1_ratio=l1_ratio,
            fit_intercept=fit_intercept,
            max_iter=max_iter,
            tol=tol,
            shuffle=shuffle,
            verbose=verbose,
            epsilon=epsilon,
            n_jobs=n_jobs,
            random_state=random_state,
            learning_rate=learning_rate,
            eta0=eta0,
            power_t=power_t,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            class_weight=class_weight,
            warm_start=warm_start,
            average=average,
        )
        self.plane = plane
        self.barrier = barrier
        self.runtime = runtime

    @with_all_ranks
    @_fit_context(prefer_skip_nested_validation=True)
    @told
    def fit(
        self,
        X: Any,
        y: Any,
        coef_init: Any = None,
        intercept_init: Any = None,
        sample_weight: Any = None,
    ) -> SGDClassifier:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows. float32 and float64, dense in C order or CSR, are used without a copy. Or a Dask
            array or data frame, which a `dask.distributed.Client`'s workers fit where it is.
        y : array-like of shape (n_samples,)
            Labels.
        coef_init : ndarray of shape (n_classes, n_features), default=None
            Coefficients to start from.
        intercept_init : ndarray of shape (n_classes,), default=None
            Intercepts to start from.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, multiplied with those of the classes; none is negative.

        Returns
        -------
        self : SGDClassifier

        Raises
        ------
        ValueError
            If the input or a parameter is not valid, or if the run diverges.
        """
        self._check_settings()
        if self.warm_start and hasattr(self, "coef_"):
            coef_init = self.coef_ if coef_init is None else coef_init
            intercept_init = self.intercept_ if intercept_init is None else intercept_init
        with self._in_own_words():
            self._pass(X, y, None, sample_weight, self.max_iter, (coef_init, intercept_init))
        return self

    @with_all_ranks
    @always_checked
    @_fit_context(prefer_skip_nested_validation=True)
    @told
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> SGDClassifier:
        """Go on for one epoch on the given rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Labels.
        classes : array-like of shape (n_classes,), default=None
            All labels that will ever occur; needed in the first call.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, none of them negative.

        Returns
        -------
        self : SGDClassifier

        Notes
        -----
        As in scikit-learn a call changes `coef_` in place, and with it the coefficients of
        ``report_.model``; copy what is to be kept. Coefficients that the call before has not made
        (assigned ones, read-only ones, those of a copied estimator) are copied once, never written.
        Of a call that raises because the model has left the floating-point range, or that is
        interrupted, the steps up to there stay in `coef_`.
        """
        if not hasattr(self, "classes_"):
            self._check_settings(for_partial_fit=True)
            if self.class_weight == "balanced":
                raise ValueError(
                    "class_weight 'balanced' is not supported for partial_fit. In order to use "
                    "'balanced' weights, use compute_class_weight('balanced', classes=classes, "
                    "y=y). In place of y you can use a large enough sample of the full training "
                    "set target to properly estimate the class frequency distributions. Pass the "
                    "resulting weights as the class_weight parameter."
                )
        init = None if getattr(self, "coef_", None) is not None else (None, None)
        with self._in_own_words():
            self._pass(X, y, classes, sample_weight, None, init)
        return self
