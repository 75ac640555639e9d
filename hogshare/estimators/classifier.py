"""`SGDClassifier`: scikit-learn's estimator, with every core for one model."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import SGDClassifier as _SGDClassifier
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import _check_partial_fit_first_call

from hogshare.estimators import few_rows
from hogshare.estimators.all_rows import all_rows_of
from hogshare.estimators.fits import fits
from hogshare.estimators.linear_models import LinearClassifier
from hogshare.estimators.parameters import MAX_INT, generator_of
from hogshare.estimators.sgd_mixin import LEARNING_RATES, SGDMixin
from hogshare.estimators.validation import are_among, are_plain_classes, are_the_same
from hogshare.estimators.workers import constraints_of
from hogshare.problems.linear.labels import distinct
from hogshare.problems.weights import class_weights


class SGDClassifier(LinearClassifier, SGDMixin, _SGDClassifier):
    """Linear classifier fitted by stochastic gradient descent, on every core.

    A drop-in replacement for `sklearn.linear_model.SGDClassifier`, and a subclass of it. The
    parameters, defaults and attributes are the same, except that `n_jobs` workers fit one model
    together. `plane`, `barrier`, `runtime` and `report_` are added. See scikit-learn's page for the
    losses and schedules.

    Parameters
    ----------
    loss : {'hinge', 'log_loss', 'modified_huber', 'squared_hinge', 'perceptron', \
            'squared_error', 'huber', 'epsilon_insensitive', 'squared_epsilon_insensitive'}, \
            default='hinge'
        The loss function. 'hinge' gives a linear SVM, 'log_loss' gives logistic regression.
        'log_loss' and 'modified_huber' give probability estimates.

    learning_rate : str, default='optimal'
        The schedule of the step size: 'constant' is eta0; 'optimal' is ``1 / (alpha (t + t0))``
        with t0 by Bottou's heuristic; 'invscaling' is ``eta0 / t**power_t``; 'adaptive' is eta0,
        divided by 5 whenever the stop criterion is met; 'pa1' and 'pa2' are passive-aggressive
        steps, with ``loss='hinge'`` only. 'auto', which scikit-learn does not have, needs no tuning
        and converges to the optimum. It is `hogshare.SDCA` or `hogshare.SAGA`, whichever suits the
        rows, for every loss except 'perceptron'. If columns have very different sizes, a fit may
        not reach the optimum; it then warns. 'auto' refuses averaging, warm starts and
        `partial_fit`.

    power_t : float, default=0.5
        The exponent for inverse scaling learning rate. Negative values are deprecated, as in
        scikit-learn.

    class_weight : dict, "balanced" or None, default=None
        Weights associated with classes; "balanced" is
        ``n_samples / (n_classes * np.bincount(y))``.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Coefficients, in the dtype of `X` (float32 and float64 are preserved) and in Fortran order:
        all coefficients of a feature are neighbors in memory.

    n_iter_ : int
        Number of completed epochs; with several classes, the largest number of any class.

    See Also
    --------
    SGDRegressor : The same for regression.
    hogshare.solve : The underlying solver, with all its settings.

    Notes
    -----
    One worker takes exactly scikit-learn's step for each row, and a binary fit with the same int
    `random_state` gives scikit-learn's coefficients up to rounding. The differences are:

    - All classes are fitted in the same passes over the rows, in one row order. scikit-learn draws
      one row order per class.
    - `fit` computes averages from sums in float64. scikit-learn, and `partial_fit` of this class,
      update a running mean in the dtype of `X`. After averaging has begun, `partial_fit` continues
      from the last iterate's coefficients and intercept; scikit-learn 1.9 forgets this intercept.
    - The accuracy that decides early stopping is the present model's accuracy over both classes.
      scikit-learn 1.9.1 compares predictions in {-1, 1} with labels in {0, 1} for the log loss,
      and leaves out the scale factor of an l2 penalty.
    - `verbose` prints one group of lines per epoch for all classes, and the objective of the model
      at the end of the epoch.

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

    _parameter_constraints = constraints_of(_SGDClassifier, learning_rate=LEARNING_RATES)

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
        self._store(locals())

    @fits
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
            Rows. float32 and float64, dense in C order or CSR, are used without a copy. A Dask
            array or data frame is fitted in place by the workers of a `dask.distributed.Client`.
        y : array-like of shape (n_samples,)
            Labels.
        coef_init : ndarray of shape (n_classes, n_features), default=None
            The initial coefficients to warm-start the optimization.
        intercept_init : ndarray of shape (n_classes,), default=None
            The initial intercepts to warm-start the optimization.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, multiplied by the weights of the classes; negative weights are
            refused.
        """
        self._check_settings()
        if self.warm_start and hasattr(self, "coef_"):
            coef_init = self.coef_ if coef_init is None else coef_init
            intercept_init = self.intercept_ if intercept_init is None else intercept_init
        init = coef_init, intercept_init
        if few_rows.suit_sgd(self, X, y):
            few_rows.fit_sgd(self, _SGDClassifier, X, y, init, sample_weight)
            return self
        self._pass(X, y, sample_weight, self.max_iter, init, reset=True)
        return self

    @fits
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> SGDClassifier:
        """Continue for one epoch on the given rows.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            Labels.
        classes : array-like of shape (n_classes,), default=None
            All labels of all calls to `partial_fit`; required in the first call.
        """
        first = not hasattr(self, "classes_")
        if first:
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
        self._pass(X, y, sample_weight, None, init, reset=first, classes=classes)
        return self

    def _read_labels(self, y: np.ndarray, classes: Any, anew: bool) -> np.ndarray:
        everybody = all_rows_of(self)
        if anew:
            classes = everybody.labels(distinct(y))
            if hasattr(self, "classes_"):
                del self.classes_  # set last: refused input must leave the model unchanged
        own = anew and are_plain_classes(classes)  # `classes` are then the labels in `y`
        if own:
            self.classes_ = classes
        elif not are_the_same(getattr(self, "classes_", None), classes):
            _check_partial_fit_first_call(self, classes)
        if self.class_weight is None and (own or are_among(y, self.classes_)):
            return np.ones(len(self.classes_))
        weights = everybody.weights_of_classes(self.class_weight, self.classes_, y)
        return class_weights(weights)

    def _draw(self, y: np.ndarray, weight: np.ndarray | None) -> tuple[np.ndarray | None, int]:
        if len(self.classes_) > 2:  # the row order that scikit-learn draws for the first class
            validation = self._held_out(y, weight)
            seeds = check_random_state(self.random_state).randint(MAX_INT, size=len(self.classes_))
            generator = np.random.RandomState(seeds[0])
            generator.randint(1, MAX_INT)
        else:
            generator = generator_of(self.random_state)
            generator.randint(1, MAX_INT)
            validation = self._held_out(y, weight)
        return validation, int(generator.randint(MAX_INT))
