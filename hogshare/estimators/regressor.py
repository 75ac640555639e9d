"""`SGDRegressor`: scikit-learn's estimator, fitted on every core."""

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

    A drop-in replacement for `sklearn.linear_model.SGDRegressor`, and a subclass of it. The
    parameters, defaults and attributes are the same. `n_jobs`, `plane`, `barrier`, `runtime` and
    `report_` are added. See scikit-learn's page for the losses and schedules.

    Parameters
    ----------
    loss : {'squared_error', 'huber', 'epsilon_insensitive', 'squared_epsilon_insensitive'}, \
            default='squared_error'
        The loss function.

    learning_rate : str, default='invscaling'
        The schedule of the step size: 'constant' is eta0; 'optimal' is ``1 / (alpha (t + t0))``
        with t0 by Bottou's heuristic; 'invscaling' is ``eta0 / t**power_t``; 'adaptive' is eta0,
        divided by 5 whenever the stop criterion is met; 'pa1' and 'pa2' are passive-aggressive
        steps, with ``loss='epsilon_insensitive'`` only. 'auto', which scikit-learn does not have,
        needs no tuning and converges to the optimum. It is `hogshare.SDCA` or `hogshare.SAGA`,
        whichever suits the rows. If columns have very different sizes, a fit may not reach the
        optimum; it then warns. 'auto' refuses averaging, warm starts and `partial_fit`.

    power_t : float, default=0.25
        The exponent for inverse scaling learning rate. Negative values are deprecated, as in
        scikit-learn.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Coefficients, in the dtype of `X` (float32 and float64 are preserved).

    intercept_ : ndarray of shape (1,)
        Intercept.

    n_iter_ : int
        Number of completed epochs.

    See Also
    --------
    SGDClassifier : The same for classification.
    hogshare.solve : The underlying solver, with all its settings.

    Notes
    -----
    One worker takes exactly scikit-learn's step for each row, and a fit with the same int
    `random_state` gives scikit-learn's coefficients up to rounding. The differences are:

    - `fit` computes averages from sums in float64. scikit-learn, and `partial_fit` of this class,
      update a running mean in the dtype of `X`.
    - The score that decides early stopping is the present model's score. scikit-learn 1.9.1 leaves
      out the scale factor of an l2 penalty.
    - `coef_init` and `intercept_init` also have an effect with ``warm_start=True``.
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
            Rows. float32 and float64, dense in C order or CSR, are used without a copy. A Dask
            array or data frame is fitted in place by the workers of a `dask.distributed.Client`.
        y : array-like of shape (n_samples,)
            Targets.
        coef_init : ndarray of shape (n_features,), default=None
            The initial coefficients to warm-start the optimization.
        intercept_init : ndarray of shape (1,), default=None
            The initial intercept to warm-start the optimization.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows; by default 1.

        Notes
        -----
        All arguments are only read, and the initial arrays are copied. Do not change X during the
        fit.
        """
        self._check_settings()
        warm = self.warm_start and getattr(self, "coef_", None) is not None
        if warm:
            # as in scikit-learn, a regressor continues from the last iterate, not from the average
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
        """Continue for one epoch on the given rows.

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
        # scikit-learn draws two numbers; the first is the seed of the row order
        seed = int(generator.randint(MAX_INT))
        generator.randint(1, MAX_INT)
        return validation, seed

    def _shaped(self, coef: np.ndarray) -> np.ndarray:
        return coef.ravel()
