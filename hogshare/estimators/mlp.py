"""`MLPClassifier` and `MLPRegressor`: scikit-learn's, trained by every core."""

from __future__ import annotations

from typing import Any

from sklearn.base import _fit_context
from sklearn.neural_network import MLPClassifier as _MLPClassifier
from sklearn.neural_network import MLPRegressor as _MLPRegressor
from sklearn.utils.metaestimators import available_if

from hogshare.estimators.accuracy import Accuracy
from hogshare.estimators.network import NETWORK_CONSTRAINTS, Network
from hogshare.estimators.parameters import always_checked
from hogshare.estimators.ranks import with_all_ranks
from hogshare.estimators.told import told
from hogshare.problems.linear.labels import own_type
from hogshare.problems.linear.rows import require_dense


class MLPClassifier(Accuracy, Network, _MLPClassifier):
    """A network that classifies, trained on every core.

    A drop-in replacement of `sklearn.neural_network.MLPClassifier`, and a subclass of it: the same
    parameters, defaults and attributes, plus `n_jobs`, `plane`, `barrier`, `runtime` and
    `report_`. Gradients are computed by compiled kernels with BLAS, and several workers take steps
    together; any number of them takes scikit-learn's steps, to rounding.

    Parameters
    ----------
    hidden_layer_sizes : array-like of int, default=(100,)
        Units of the hidden layers.

    activation : {"identity", "logistic", "tanh", "relu"}, default="relu"
        Of the hidden layers.

    solver : {"lbfgs", "sgd", "adam"}, default="adam"
        "lbfgs" is scikit-learn's own, by one worker.

    alpha : float, default=0.0001
        Strength of the penalty on coefficients: ``alpha / 2`` times their squares come once to the
        losses of a mini-batch.

    batch_size : int or "auto", default="auto"
        Rows of a mini-batch, which is a step; "auto" is 200, or all if there are fewer.

    learning_rate : {"constant", "invscaling", "adaptive"}, default="constant"
        How the step size of "sgd" goes: as it is; divided by ``(t_ + 1) ** power_t`` at each
        epoch's end; divided by 5 whenever the fit would end.

    learning_rate_init : float, default=0.001
        The step size, or its first value.

    power_t : float, default=0.5
        See `learning_rate`.

    max_iter : int, default=200
        Epochs at the most.

    shuffle : bool, default=True
        Whether each epoch visits the rows in a new order.

    random_state : int, RandomState instance or None, default=None
        Of the first coefficients, of the rows held out, and of the orders.

    tol : float, default=1e-4
        By how much an epoch's loss, or the score of rows held out, has to be better than the best
        so far.

    verbose : bool, default=False
        Whether epochs are printed.

    warm_start : bool, default=False
        Whether `fit` goes on from the coefficients as they are.

    momentum : float, default=0.9
        Share of the last step that the next one begins with, for "sgd".

    nesterovs_momentum : bool, default=True
        Whether a step looks ahead by as much of the next one.

    early_stopping : bool, default=False
        Whether rows are held out, by whose score the fit ends, and the best network is kept.

    validation_fraction : float, default=0.1
        Share of the rows that are held out.

    beta_1, beta_2 : float, default=0.9 and 0.999
        What a step of "adam" leaves of the means of gradients and of their squares.

    epsilon : float, default=1e-8
        Added to the root by which "adam" divides.

    n_iter_no_change : int, default=10
        Epochs without an improvement by `tol` after which the fit ends.

    max_fun : int, default=15000
        Evaluations of the loss at the most, for "lbfgs".

    n_jobs : int or None, default=None
        Workers that train the network together; see `LogisticRegression`.

    plane : {"shared", "master"}, Plane or None, default="shared"
        Where the network lives while several workers train it. "shared" (and None) is
        ``hogshare.Shared()``, private copies; ``Shared(exchange=None)`` is one vector that all read
        and write.

    barrier : Barrier, callable or str, default=None
        When a worker may go on after a mini-batch; see `LogisticRegression`.

    runtime : {"auto", "caller", "threads", "processes", "mpi"} or Runtime, default="auto"
        Who runs the workers. "mpi": ranks, each of which gives rows of its own (`hogshare.MPI`).

    Attributes
    ----------
    classes_ : ndarray or list of ndarray of shape (n_classes,)
        Labels.

    loss_ : float
        Mean loss, with the penalty: over the last epoch's mini-batches before their steps, as
        scikit-learn has it, by one worker; of the last epoch's network by several.

    best_loss_ : float or None
        The smallest so far; None with `early_stopping`.

    loss_curve_ : list of float
        Those of all epochs.

    validation_scores_ : list of float or None
        Scores of the rows held out, epoch by epoch; None without.

    best_validation_score_ : float or None
        The best of them.

    t_ : int
        Rows trained on so far.

    coefs_, intercepts_ : list of ndarray
        By layer.

    n_features_in_ : int
        Number of features seen during `fit`.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen during `fit`, where `X` has names that are all strings.

    n_iter_ : int
        Epochs of the last `fit`.

    n_layers_ : int
        Those of inputs and outputs included.

    n_outputs_ : int
        Units of the last layer.

    out_activation_ : str
        Of the last layer.

    report_ : Report or SolverReport
        How the workers' last run went; of "lbfgs" a `SolverReport` says who solved, and why.

    See Also
    --------
    hogshare.problems.network : The problem, for `hogshare.solve`.

    Notes
    -----
    Workers rest at the end of each epoch, where it is decided whether there is another: by the loss
    of that epoch's network, so that a fit may end an epoch or two from where one worker's does.
    Momentum and moments are the fit's, and `partial_fit` goes on with them. Behind a `barrier` that
    is named, other than "bsp", they are each worker's own, and go on as the mean of those that
    worked.

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

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012
        **_MLPClassifier._parameter_constraints,
        **NETWORK_CONSTRAINTS,
    }

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
        super().__init__(
            hidden_layer_sizes=hidden_layer_sizes,
            activation=activation,
            solver=solver,
            alpha=alpha,
            batch_size=batch_size,
            learning_rate=learning_rate,
            learning_rate_init=learning_rate_init,
            power_t=power_t,
            max_iter=max_iter,
            shuffle=shuffle,
            random_state=random_state,
            tol=tol,
            verbose=verbose,
            warm_start=warm_start,
            momentum=momentum,
            nesterovs_momentum=nesterovs_momentum,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            beta_1=beta_1,
            beta_2=beta_2,
            epsilon=epsilon,
            n_iter_no_change=n_iter_no_change,
            max_fun=max_fun,
        )
        self.n_jobs = n_jobs
        self.plane = plane
        self.barrier = barrier
        self.runtime = runtime

    @with_all_ranks
    @_fit_context(prefer_skip_nested_validation=True)
    @told
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MLPClassifier:
        """Train the network.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            Labels, or columns of zeros and ones where a row may have many.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, none of them negative.

        Returns
        -------
        self : MLPClassifier
        """
        with self._in_own_words():
            self._check_before(X, sample_weight)
            super().fit(X, own_type(y), sample_weight=sample_weight)
        return self

    @available_if(lambda est: est._check_solver())
    @with_all_ranks
    @always_checked
    @_fit_context(prefer_skip_nested_validation=True)
    @told
    def partial_fit(
        self, X: Any, y: Any, sample_weight: Any = None, classes: Any = None
    ) -> MLPClassifier:
        """Train for one epoch on some rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            Labels, or columns of zeros and ones where a row may have many.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, none of them negative.
        classes : array-like of shape (n_classes,), default=None
            All labels that there are; needed in the first call.

        Returns
        -------
        self : MLPClassifier
        """
        with self._in_own_words():
            self._check_before(X, sample_weight)
            super().partial_fit(X, own_type(y), sample_weight=sample_weight, classes=classes)
        return self


class MLPRegressor(Network, _MLPRegressor):
    """A network that regresses, trained on every core.

    A drop-in replacement of `sklearn.neural_network.MLPRegressor`, and a subclass of it: the same
    parameters, defaults and attributes, plus `n_jobs`, `plane`, `barrier`, `runtime` and
    `report_`. Gradients are computed by compiled kernels with BLAS, and several workers take steps
    together; any number of them takes scikit-learn's steps, to rounding.

    Parameters
    ----------
    loss : {"squared_error", "poisson"}, default="squared_error"
        Half of the squares; or half of Poisson's deviance, with the exponential as the last
        activation, of targets that are not negative.

    hidden_layer_sizes : array-like of int, default=(100,)
        Units of the hidden layers.

    activation : {"identity", "logistic", "tanh", "relu"}, default="relu"
        Of the hidden layers.

    solver : {"lbfgs", "sgd", "adam"}, default="adam"
        "lbfgs" is scikit-learn's own, by one worker.

    alpha : float, default=0.0001
        Strength of the penalty on coefficients: ``alpha / 2`` times their squares come once to the
        losses of a mini-batch.

    batch_size : int or "auto", default="auto"
        Rows of a mini-batch, which is a step; "auto" is 200, or all if there are fewer.

    learning_rate : {"constant", "invscaling", "adaptive"}, default="constant"
        How the step size of "sgd" goes: as it is; divided by ``(t_ + 1) ** power_t`` at each
        epoch's end; divided by 5 whenever the fit would end.

    learning_rate_init : float, default=0.001
        The step size, or its first value.

    power_t : float, default=0.5
        See `learning_rate`.

    max_iter : int, default=200
        Epochs at the most.

    shuffle : bool, default=True
        Whether each epoch visits the rows in a new order.

    random_state : int, RandomState instance or None, default=None
        Of the first coefficients, of the rows held out, and of the orders.

    tol : float, default=1e-4
        By how much an epoch's loss, or the score of rows held out, has to be better than the best
        so far.

    verbose : bool, default=False
        Whether epochs are printed.

    warm_start : bool, default=False
        Whether `fit` goes on from the coefficients as they are.

    momentum : float, default=0.9
        Share of the last step that the next one begins with, for "sgd".

    nesterovs_momentum : bool, default=True
        Whether a step looks ahead by as much of the next one.

    early_stopping : bool, default=False
        Whether rows are held out, by whose score the fit ends, and the best network is kept.

    validation_fraction : float, default=0.1
        Share of the rows that are held out.

    beta_1, beta_2 : float, default=0.9 and 0.999
        What a step of "adam" leaves of the means of gradients and of their squares.

    epsilon : float, default=1e-8
        Added to the root by which "adam" divides.

    n_iter_no_change : int, default=10
        Epochs without an improvement by `tol` after which the fit ends.

    max_fun : int, default=15000
        Evaluations of the loss at the most, for "lbfgs".

    n_jobs : int or None, default=None
        Workers that train the network together; see `LogisticRegression`.

    plane : {"shared", "master"}, Plane or None, default="shared"
        Where the network lives while several workers train it. "shared" (and None) is
        ``hogshare.Shared()``, private copies; ``Shared(exchange=None)`` is one vector that all read
        and write.

    barrier : Barrier, callable or str, default=None
        When a worker may go on after a mini-batch; see `LogisticRegression`.

    runtime : {"auto", "caller", "threads", "processes", "mpi"} or Runtime, default="auto"
        Who runs the workers. "mpi": ranks, each of which gives rows of its own (`hogshare.MPI`).

    Attributes
    ----------
    loss_ : float
        Mean loss, with the penalty: over the last epoch's mini-batches before their steps, as
        scikit-learn has it, by one worker; of the last epoch's network by several.

    best_loss_ : float or None
        The smallest so far; None with `early_stopping`.

    loss_curve_ : list of float
        Those of all epochs.

    validation_scores_ : list of float or None
        Scores of the rows held out, epoch by epoch; None without.

    best_validation_score_ : float or None
        The best of them.

    t_ : int
        Rows trained on so far.

    coefs_, intercepts_ : list of ndarray
        By layer.

    n_features_in_ : int
        Number of features seen during `fit`.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of features seen during `fit`, where `X` has names that are all strings.

    n_iter_ : int
        Epochs of the last `fit`.

    n_layers_ : int
        Those of inputs and outputs included.

    n_outputs_ : int
        Units of the last layer.

    out_activation_ : str
        Of the last layer.

    report_ : Report or SolverReport
        How the workers' last run went; of "lbfgs" a `SolverReport` says who solved, and why.

    See Also
    --------
    hogshare.problems.network : The problem, for `hogshare.solve`.

    Notes
    -----
    Workers rest at the end of each epoch, where it is decided whether there is another: by the loss
    of that epoch's network, so that a fit may end an epoch or two from where one worker's does.
    Momentum and moments are the fit's, and `partial_fit` goes on with them. Behind a `barrier` that
    is named, other than "bsp", they are each worker's own, and go on as the mean of those that
    worked.

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

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012
        **_MLPRegressor._parameter_constraints,
        **NETWORK_CONSTRAINTS,
    }

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
        super().__init__(
            loss=loss,
            hidden_layer_sizes=hidden_layer_sizes,
            activation=activation,
            solver=solver,
            alpha=alpha,
            batch_size=batch_size,
            learning_rate=learning_rate,
            learning_rate_init=learning_rate_init,
            power_t=power_t,
            max_iter=max_iter,
            shuffle=shuffle,
            random_state=random_state,
            tol=tol,
            verbose=verbose,
            warm_start=warm_start,
            momentum=momentum,
            nesterovs_momentum=nesterovs_momentum,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            beta_1=beta_1,
            beta_2=beta_2,
            epsilon=epsilon,
            n_iter_no_change=n_iter_no_change,
            max_fun=max_fun,
        )
        self.n_jobs = n_jobs
        self.plane = plane
        self.barrier = barrier
        self.runtime = runtime

    @with_all_ranks
    @_fit_context(prefer_skip_nested_validation=True)
    @told
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MLPRegressor:
        """Train the network.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Numbers.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, none of them negative.

        Returns
        -------
        self : MLPRegressor
        """
        with self._in_own_words():
            self._check_before(X, sample_weight)
            require_dense(y)
            super().fit(X, y, sample_weight=sample_weight)
        return self

    @available_if(lambda est: est._check_solver)
    @with_all_ranks
    @always_checked
    @_fit_context(prefer_skip_nested_validation=True)
    @told
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> MLPRegressor:
        """Train for one epoch on some rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Numbers.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, none of them negative.

        Returns
        -------
        self : MLPRegressor
        """
        with self._in_own_words():
            self._check_before(X, sample_weight)
            require_dense(y)
            super().partial_fit(X, y, sample_weight=sample_weight)
        return self
