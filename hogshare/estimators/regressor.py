"""`SGDRegressor`: scikit-learn's, with every core."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import SGDRegressor as _SGDRegressor

from hogshare.estimators import few_rows
from hogshare.estimators.fits import fits
from hogshare.estimators.parameters import MAX_INT, generator_of
from hogshare.estimators.sgd_mixin import LEARNING_RATES, SGDMixin
from hogshare.estimators.workers import constraints_of


class SGDRegressor(SGDMixin, _SGDRegressor):
    """Linear regression fitted by stochastic gradient descent, on every core.

    A drop-in replacement of `sklearn.linear_model.SGDRegressor`, and a subclass of it: the same
    parameters with the same meaning and defaults, the same attributes, plus `n_jobs`, `plane`,
    `barrier`, `runtime` and `report_`. See scikit-learn's page for the losses and schedules.

    Parameters
    ----------
    loss : {'squared_error', 'huber', 'epsilon_insensitive', 'squared_epsilon_insensitive'}, \
            default='squared_error'
        The loss of a row.

    learning_rate : str, default='invscaling'
        The schedule of the step size: 'constant' (eta0), 'optimal' (``1 / (alpha (t + t0))``, t0
        by Bottou's heuristic), 'invscaling' (``eta0 / t**power_t``), 'adaptive' (eta0, divided by
        5 whenever the stop criterion is met), 'pa1' and 'pa2' (passive-aggressive, with
        ``loss='epsilon_insensitive'`` only). Not in scikit-learn: 'auto' needs no tuning and
        converges to the optimum instead of hovering around it. It is `hogshare.SDCA` or
        `hogshare.SAGA`, whichever suits the rows; a fit that does not get to the optimum, for
        columns of very unlike sizes, warns. Averaging, warm starts and `partial_fit` are refused.

    power_t : float, default=0.25
        Exponent of 'invscaling'. Negative values are deprecated, as in scikit-learn.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Coefficients, in the dtype of `X` (float32 and float64 are kept).

    intercept_ : ndarray of shape (1,)
        Intercept.

    n_iter_ : int
        Epochs that were finished.

    See Also
    --------
    SGDClassifier : The same for classification.
    hogshare.solve : The solver underneath, with all its settings.

    Notes
    -----
    One worker does per row exactly what scikit-learn does, and a fit with the same int
    `random_state` gives scikit-learn's coefficients up to rounding. Where this class departs:

    - Averages of a fit are sums in float64; scikit-learn keeps a running mean in the dtype of `X`,
      as `partial_fit` does here too.
    - The score that decides early stopping is that of the model as it stands; scikit-learn 1.9.1
      leaves out the scale factor of an l2 penalty.
    - `coef_init` and `intercept_init` count with ``warm_start=True`` too.
    - `verbose` prints the objective of the model at the end of the epoch.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from hogshare import SGDRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), SGDRegressor(n_jobs=-1, random_state=0))
    >>> bool(model.fit(X, y).score(X, y) > 0.5)
    True
    """

    _parameter_constraints = constraints_of(_SGDRegressor, learning_rate=LEARNING_RATES)

    def __init__(
        self,
        loss: str = "squared_error",
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
        random_state: Any = None,
        learning_rate: str = "invscaling",
        eta0: float = 0.01,
        power_t: float = 0.25,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        warm_start: bool = False,
        average: bool | int = False,
        n_jobs: int | None = None,
        plane: Any = "shared",
        barrier: Any = None,
        runtime: str = "auto",
    ) -> None:
        self._store(locals())

    @fits
    def fit(
        self,
        X: Any,
        y: Any,
        coef_init: Any = None,
        intercept_init: Any = None,
        sample_weight: Any = None,
    ) -> SGDRegressor:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows. float32 and float64, dense in C order or CSR, are used without a copy. Or a Dask
            array or data frame, which a `dask.distributed.Client`'s workers fit where it is.
        y : array-like of shape (n_samples,)
            Targets.
        coef_init : ndarray of shape (n_features,), default=None
            Coefficients to start from.
        intercept_init : ndarray of shape (1,), default=None
            Intercept to start from.
        """
        self._check_settings()
        warm = self.warm_start and getattr(self, "coef_", None) is not None
        if warm:
            # as in scikit-learn, a regressor goes on from the last iterate, not from the average
            averaged = self.average and hasattr(self, "_standard_coef")
            coef = self._standard_coef if averaged else self.coef_
            intercept = self._standard_intercept if averaged else self.intercept_
            coef_init = coef if coef_init is None else coef_init
            intercept_init = intercept if intercept_init is None else intercept_init
        init = coef_init, intercept_init
        if few_rows.suit_sgd(self, X, y):
            few_rows.fit_sgd(self, _SGDRegressor, X, y, init, sample_weight)
            return self
        self._pass(X, y, sample_weight, self.max_iter, init, reset=not warm)
        return self

    @fits
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> SGDRegressor:
        """Go on for one epoch on the given rows.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            Targets.
        """
        first = getattr(self, "coef_", None) is None
        if first:
            self._check_settings(for_partial_fit=True)
        self._pass(X, y, sample_weight, None, (None, None) if first else None, reset=first)
        return self

    def _draw(self, y: np.ndarray, weight: np.ndarray | None) -> tuple[np.ndarray | None, int]:
        validation = self._held_out(y, weight)
        generator = generator_of(self.random_state)
        # of its two numbers the first is the row order's seed
        seed = int(generator.randint(MAX_INT))
        generator.randint(1, MAX_INT)
        return validation, seed

    def _shaped(self, coef: np.ndarray) -> np.ndarray:
        return coef.ravel()
