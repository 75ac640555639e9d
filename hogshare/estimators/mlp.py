"""`MLPClassifier` and `MLPRegressor`: scikit-learn's estimators, trained on every core."""

from __future__ import annotations

from typing import Any

from sklearn.neural_network import MLPClassifier as _MLPClassifier
from sklearn.neural_network import MLPRegressor as _MLPRegressor
from sklearn.utils.metaestimators import available_if

from hogshare.estimators.fits import fits
from hogshare.estimators.linear_models import Accuracy
from hogshare.estimators.network_mixin import NetworkMixin
from hogshare.estimators.workers import constraints_of
from hogshare.problems.linear.labels import own_type
from hogshare.problems.linear.row_arrays import require_dense


class MLPClassifier(Accuracy, NetworkMixin, _MLPClassifier):
    """Multi-layer perceptron classifier, trained on every core.

    A drop-in replacement for `sklearn.neural_network.MLPClassifier`, and a subclass of it. The
    parameters, defaults and attributes are the same. `n_jobs`, `plane`, `barrier`, `runtime` and
    `report_` are added. Compiled kernels compute the gradients, and several workers compute each
    step together. The steps are therefore scikit-learn's with any number of workers, up to
    rounding.

    Attributes
    ----------
    classes_ : ndarray or list of ndarray of shape (n_classes,)
        Class labels, for each output.

    See Also
    --------
    hogshare.problems.network : The problem, for `hogshare.solve`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from hogshare import MLPClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> settings = {"batch_size": 50, "learning_rate_init": 0.005, "tol": 0.02}
    >>> model = MLPClassifier((32,), random_state=0, **settings).fit(X / 16.0, y)
    >>> bool(model.score(X / 16.0, y) > 0.97)
    True
    """

    _parameter_constraints = constraints_of(_MLPClassifier)

    def __init__(
        self,
        hidden_layer_sizes: Any = (100,),
        activation: str = "relu",
        *,
        solver: str = "adam",
        alpha: float = 0.0001,
        batch_size: int | str = "auto",
        learning_rate: str = "constant",
        learning_rate_init: float = 0.001,
        power_t: float = 0.5,
        max_iter: int = 200,
        shuffle: bool = True,
        random_state: Any = None,
        tol: float = 1e-4,
        verbose: bool = False,
        warm_start: bool = False,
        momentum: float = 0.9,
        nesterovs_momentum: bool = True,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-8,
        n_iter_no_change: float = 10,
        max_fun: int = 15000,
        n_jobs: int | None = None,
        plane: Any = "shared",
        barrier: Any = None,
        runtime: str = "auto",
    ) -> None:
        self._store(locals())

    def _targets(self, y: Any) -> Any:
        return own_type(y)

    @available_if(lambda est: est._check_solver())
    @fits
    def partial_fit(
        self, X: Any, y: Any, sample_weight: Any = None, classes: Any = None
    ) -> MLPClassifier:
        """Train for one epoch on the given rows.

        Parameters
        ----------
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            Labels, or a column of zeros and ones for each label of multilabel rows.
        classes : array-like of shape (n_classes,), default=None
            All labels of all calls to `partial_fit`; required in the first call.
        """
        self._check_before(X, sample_weight)
        super().partial_fit(X, self._targets(y), sample_weight=sample_weight, classes=classes)
        return self


class MLPRegressor(NetworkMixin, _MLPRegressor):
    """Multi-layer perceptron regressor, trained on every core.

    A drop-in replacement for `sklearn.neural_network.MLPRegressor`, and a subclass of it. The
    parameters, defaults and attributes are the same. `n_jobs`, `plane`, `barrier`, `runtime` and
    `report_` are added. Compiled kernels compute the gradients, and several workers compute each
    step together. The steps are therefore scikit-learn's with any number of workers, up to
    rounding.

    Parameters
    ----------
    loss : {"squared_error", "poisson"}, default="squared_error"
        The loss function. "squared_error" is half of the squared error. "poisson" is half of the
        Poisson deviance; targets must not be negative, and the output activation is the
        exponential function.

    See Also
    --------
    hogshare.problems.network : The problem, for `hogshare.solve`.

    Examples
    --------
    >>> import numpy as np
    >>> from hogshare import MLPRegressor
    >>> X = np.linspace(-1.0, 1.0, 200)[:, np.newaxis]
    >>> model = MLPRegressor(hidden_layer_sizes=(20,), activation="tanh", random_state=0)
    >>> model = model.set_params(learning_rate_init=0.02, batch_size=20, max_iter=300)
    >>> bool(model.fit(X, np.sin(3.0 * X[:, 0])).score(X, np.sin(3.0 * X[:, 0])) > 0.99)
    True
    """

    _parameter_constraints = constraints_of(_MLPRegressor)

    def __init__(
        self,
        loss: str = "squared_error",
        hidden_layer_sizes: Any = (100,),
        activation: str = "relu",
        *,
        solver: str = "adam",
        alpha: float = 0.0001,
        batch_size: int | str = "auto",
        learning_rate: str = "constant",
        learning_rate_init: float = 0.001,
        power_t: float = 0.5,
        max_iter: int = 200,
        shuffle: bool = True,
        random_state: Any = None,
        tol: float = 1e-4,
        verbose: bool = False,
        warm_start: bool = False,
        momentum: float = 0.9,
        nesterovs_momentum: bool = True,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-8,
        n_iter_no_change: float = 10,
        max_fun: int = 15000,
        n_jobs: int | None = None,
        plane: Any = "shared",
        barrier: Any = None,
        runtime: str = "auto",
    ) -> None:
        self._store(locals())

    def _targets(self, y: Any) -> Any:
        require_dense(y)
        return y

    @available_if(lambda est: est._check_solver)
    @fits
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> MLPRegressor:
        """Train for one epoch on the given rows.

        Parameters
        ----------
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        """
        self._check_before(X, sample_weight)
        super().partial_fit(X, self._targets(y), sample_weight=sample_weight)
        return self
