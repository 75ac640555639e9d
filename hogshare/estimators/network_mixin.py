"""What `MLPClassifier` and `MLPRegressor` have in common: their epochs, as scikit-learn has them.

All but the training is scikit-learn's own. What that decides at the end of an epoch is decided
here in the same order, while the workers rest, so that one worker goes its way.
"""

from __future__ import annotations

import math
import time
from typing import Any, Self

import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.utils import shuffle

from hogshare.engine.epoch_ends import EpochEnd, EpochEnds
from hogshare.engine.stops import Stop
from hogshare.estimators import optimizers
from hogshare.estimators.export import Exporting
from hogshare.estimators.fits import fits
from hogshare.estimators.parameters import BATCH_WORDS
from hogshare.estimators.solver_report import SolverReport, report_of
from hogshare.kernels.networks import output_layers
from hogshare.problems.gradient import GradientError
from hogshare.problems.layers import Dense, plan_of
from hogshare.problems.linear.row_arrays import check_sparse, is_sparse
from hogshare.problems.network import NetworkProblem, parted
from hogshare.problems.weights import require_weight, row_weights
from hogshare.report import Report
from hogshare.rules.steps import StepSize
from hogshare.runtimes.choice import check_jobs
from hogshare.solvers.run import Diverged
from hogshare.solvers.solver import solve
from hogshare.system.callers import warn
from hogshare.system.clusters import is_collection

NOT_FINITE = (  # scikit-learn's own
    "Solver produced non-finite parameter weights. The input data may contain large values and "
    "need to be preprocessed."
)
SMALLER = "A smaller learning_rate_init might help too."
MOST_ROWS = 200  # of a mini-batch whose size is "auto"
LATE = 0.1  # steps that a gradient comes late on the mean, from where on it is told of


class NetworkMixin(Exporting):
    """For an estimator of scikit-learn's that is a network: workers take its steps.

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

    plane : {"shared", "master"}, Plane or None, default="shared"
        Where the network lives while several workers train it. "shared" (and None) is
        ``hogshare.Shared()``, private copies; ``Shared(exchange=None)`` is one vector that all read
        and write.

    Attributes
    ----------
    loss_ : float
        Mean loss, with the penalty: over the last epoch's mini-batches before their steps, as
        scikit-learn has it; of the last epoch's network where workers take steps of their own.

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

    Notes
    -----
    Workers pause at the end of each epoch, where it is decided whether there is another. Behind a
    `barrier` that is named, other than "bsp", that is by the loss of the epoch's network, so that a
    fit may end an epoch or two from where one worker's does. Momentum and moments are the fit's,
    and `partial_fit` goes on with them. Behind such a barrier they are each worker's own, and go on
    as the mean of those that worked.
    """

    _words = BATCH_WORDS

    report_: Report | SolverReport

    @fits
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train the network.

        Parameters
        ----------
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Numbers; of a classifier labels, or columns of zeros and ones where a row may have many.
        """
        if is_collection(X):
            from hogshare.estimators.partitioned_fits import fit_whole

            fit_whole(self, X, y, sample_weight)
            return self
        self._check_before(X, sample_weight)
        super().fit(X, self._targets(y), sample_weight=sample_weight)  # type: ignore[misc]
        return self

    def _targets(self, y: Any) -> Any:
        """What scikit-learn's class takes for the targets."""
        raise NotImplementedError

    def _check_before(self, X: Any, sample_weight: Any) -> None:
        """Refuse, before anybody reads it, what scikit-learn lets pass."""
        check_jobs(self.n_jobs)
        check_sparse(X)
        if sample_weight is not None:
            row_weights(sample_weight, X)

    def _fit(
        self: Any, X: Any, y: Any, sample_weight: Any = None, incremental: bool = False
    ) -> Any:
        began = time.perf_counter()
        super()._fit(X, y, sample_weight, incremental)  # type: ignore[misc]
        if self.solver == "lbfgs":
            self._tell("scikit-learn", "solver='lbfgs' is no descent by mini-batches", began)
        return self

    def _tell(self: Any, by: str, reason: str, began: float) -> None:
        self.report_ = report_of(self, by, reason, began, solver=self.solver)

    def _fit_stochastic(
        self: Any,
        X: Any,
        y: np.ndarray,
        sample_weight: np.ndarray | None,
        activations: list[Any],
        deltas: list[Any],
        coef_grads: list[np.ndarray],
        intercept_grads: list[np.ndarray],
        layer_units: list[int],
        incremental: bool,
    ) -> None:
        """Train, from the coefficients as they are; in place of scikit-learn's loop."""
        self._require_layers(layer_units)
        if self.early_stopping and incremental:
            raise ValueError("partial_fit does not support early_stopping=True")
        if not incremental or not hasattr(self, "_optimizer"):
            self._optimizer = optimizers.of(self)
        self._begin_curves()
        held_out = None, None, None
        if self.early_stopping:
            (X, y, sample_weight), held_out = _parted(self, X, y, sample_weight)
        training = Training(self, X.shape[0], held_out, incremental)
        problem = _problem(self, X, y, sample_weight, layer_units)
        training.run(problem, _batch_rows(self, X.shape[0]))
        if self.early_stopping:
            self.coefs_, self.intercepts_ = self._best_coefs, self._best_intercepts

    def _fit_lbfgs(self: Any, *data: Any) -> None:
        """Leave it to scikit-learn's, whose last argument is the layers' units."""
        self._require_layers(data[-1])
        super()._fit_lbfgs(*data)  # type: ignore[misc]

    def _require_layers(self: Any, layer_units: list[int]) -> None:
        """Refuse to go on from a network that has other layers."""
        known = [len(coefs) for coefs in self.coefs_] + [self.coefs_[-1].shape[1]]
        if layer_units == known:
            return
        self.n_outputs_ = known[-1]
        raise ValueError(
            f"The network that this fit would go on from has {tuple(known)} units in its layers, "
            f"inputs and outputs included, and {tuple(layer_units)} are asked for: with "
            "warm_start=True, and in partial_fit, hidden_layer_sizes and the number of targets "
            "stay as they are. For another network fit with warm_start=False."
        )

    def _begin_curves(self: Any) -> None:
        """Let a fit go on from one that ended otherwise, of which scikit-learn's lacks numbers."""
        known = vars(self)
        known.setdefault("loss_curve_", [])
        known.setdefault("_no_improvement_count", 0)
        if self.early_stopping and known.get("validation_scores_") is None:
            known["validation_scores_"], self.best_validation_score_ = [], -np.inf
        if not self.early_stopping and known.get("best_loss_") is None:
            self.best_loss_ = np.inf


class Training:
    """The epochs of one fit.

    held_out : rows, targets and weights by which the fit may end; None each
    incremental : whether it is one epoch of `partial_fit`
    """

    def __init__(
        self, estimator: Any, n_rows: int, held_out: tuple[Any, Any, Any], incremental: bool
    ) -> None:
        self.estimator = estimator
        self.held_out = held_out
        self.epochs = 1 if incremental else estimator.max_iter
        self.incremental = incremental
        self.order = np.arange(n_rows)
        self.over = self.is_late = False

    def run(self, problem: NetworkProblem, batch: int) -> None:
        """Have the workers train; the estimator has what has come of it.

        Raises
        ------
        ValueError
            If the steps are too long, unless held-out rows tell which epoch was good.
        """
        est, began = self.estimator, time.perf_counter()
        self.problem, self.batch = problem, batch
        est.n_iter_ = 0
        try:
            report = solve(
                problem,
                rule=optimizers.rule_of(est._optimizer, batch),
                plane=est.plane,
                barrier=est.barrier,
                runtime=est.runtime,
                n_workers=est.n_jobs,
                step=StepSize("adaptive", eta0=optimizers.step_of(est._optimizer)),
                stop=Stop(epochs=self.epochs),
                shuffle=False,
                seed=0,
                start=optimizers.start_of(est, problem.dtype),
                on_epoch=EpochEnds(self._decide),
            )
        except (Diverged, GradientError):
            self._diverged(began)
            return
        except KeyboardInterrupt:
            warn("Training interrupted by user.")
            return
        self._take(report.model.params, problem.shapes)
        optimizers.store_state(est._optimizer, report, problem.shapes)
        est.report_ = report.without_memory()
        self._warn_of_late_steps(report)
        if not (self.over or self.incremental):
            warn(
                f"Stochastic Optimizer: Maximum iterations ({est.max_iter}) reached and the "
                "optimization hasn't converged yet.",
                ConvergenceWarning,
            )

    def _decide(self, rest: EpochEnd) -> bool:
        """Say what the next epoch is like; whether there is none."""
        est = self.estimator
        if rest.epoch:
            model = rest.model()
            self._take(model.params, model.shapes)
            self.over = self._ends(self._loss(rest, model.params))
        if self.over or rest.epoch == self.epochs:
            return self.over
        if est.shuffle:
            self.order = shuffle(self.order, random_state=est._random_state)
            rest.take_order(self.order)
        rest.take_step(optimizers.step_of(est._optimizer))
        return False

    def _loss(self, rest: EpochEnd, params: np.ndarray) -> float:
        """An epoch's loss: scikit-learn's, or where workers step by themselves the network's.

        scikit-learn's is the mean over the epoch of each mini-batch's before its step, which says
        nothing of steps that came late; both have the penalty as the steps have it.
        """
        problem = self.problem
        if rest.n_workers == 1 or rest.is_split:
            return rest.loss
        n_batches = -(-problem.n_rows // self.batch)
        self.is_late = not (rest.is_split or rest.has_homes)
        return rest.objective(problem, params) + (n_batches - 1) * problem.penalty_at(params)

    def _warn_of_late_steps(self, report: Report) -> None:
        """Say where steps by gradients of long ago have made another optimiser of it."""
        lateness = report.staleness_mean
        if self.is_late and lateness >= LATE:
            warn(
                f"Behind {report.settings['barrier']} steps came {lateness:.1f} steps late on the "
                "mean, which is another optimiser than one worker's: where the loss is sharp they "
                "overshoot. With no barrier named, nor exchanges or sums of the plane's, workers "
                "compute each mini-batch together; or compare loss_ with that of n_jobs=1.",
                ConvergenceWarning,
            )

    def _ends(self, loss: float) -> bool:
        """Count an epoch, as scikit-learn does; whether it is the last one."""
        est = self.estimator
        est.n_iter_ += 1
        est.loss_ = loss
        est.t_ += len(self.order)
        est.loss_curve_.append(loss)
        if est.verbose:
            print("Iteration %d, loss = %.8f" % (est.n_iter_, loss))  # noqa: T201, UP031
        if est._on_epoch is not None and est._on_epoch(est.n_iter_, None):
            return True
        est._update_no_improvement_count(est.early_stopping, *self.held_out)
        est._optimizer.iteration_ends(est.t_)
        if est._no_improvement_count <= est.n_iter_no_change:
            return False
        what = "Validation score" if est.early_stopping else "Training loss"
        told = (
            f"{what} did not improve more than tol={est.tol:f} for {est.n_iter_no_change} "
            "consecutive epochs."
        )
        if est._optimizer.trigger_stopping(told, est.verbose):
            return True
        est._no_improvement_count = 0
        return False

    def _take(self, vector: np.ndarray, shapes: tuple[tuple[int, ...], ...]) -> None:
        """Give the estimator a vector's layers, in the type that its own have."""
        est, found = self.estimator, parted(vector, shapes)
        kind = est.coefs_[0].dtype
        est.coefs_ = [coefs.astype(kind, copy=False) for coefs, _ in found]
        est.intercepts_ = [intercepts.astype(kind, copy=False) for _, intercepts in found]

    def _diverged(self, began: float) -> None:
        """End a fit whose steps are too long: by an earlier epoch's network, if one was scored."""
        est = self.estimator
        if not (est.early_stopping and math.isfinite(est.best_validation_score_)):
            raise ValueError(f"{NOT_FINITE} {SMALLER}") from None
        est.n_iter_ += 1
        est.loss_ = math.nan
        est.loss_curve_.append(math.nan)
        est.validation_scores_.append(math.nan)
        est._tell("workers, until then", "the network has left the range of numbers", began)
        warn(
            f"The steps have left the range of numbers in epoch {est.n_iter_}, and the network of "
            f"the epoch with the best validation score is kept. {SMALLER}",
            ConvergenceWarning,
        )


# -- from the estimator to what solve takes --------------------------------------------------------


def _parted(
    est: Any, X: Any, y: np.ndarray, weight: np.ndarray | None
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Rows, targets and weights to train on, and those held out, as scikit-learn draws them."""
    stratify = y if is_classifier(est) and est.n_outputs_ == 1 else None
    found = train_test_split(
        *[part for part in (X, y, weight) if part is not None],
        random_state=est._random_state,
        test_size=est.validation_fraction,
        stratify=stratify,
    )
    train, held_out = (*found[::2], None)[:3], (*found[1::2], None)[:3]
    if held_out[0].shape[0] < 2:
        raise ValueError(
            "The validation set is too small. Increase 'validation_fraction' or the size of your "
            "dataset."
        )
    require_weight(validation=held_out[2], training=train[2])
    if is_classifier(est):
        labels = est._label_binarizer.inverse_transform(held_out[1])
        held_out = held_out[0], labels, held_out[2]
    return train, held_out


def _batch_rows(est: Any, n_rows: int) -> int:
    """Rows of a mini-batch."""
    if est.batch_size == "auto":
        return min(MOST_ROWS, n_rows)
    if est.batch_size > n_rows:
        warn(
            "Got `batch_size` less than 1 or larger than sample size. It is going to be clipped",
        )
    return int(min(est.batch_size, n_rows))


def _problem(
    est: Any, X: Any, y: np.ndarray, weight: np.ndarray | None, layer_units: list[int]
) -> NetworkProblem:
    """What the workers minimise."""
    dtype = np.result_type(X.dtype, est.coefs_[0].dtype)
    if is_sparse(X):
        X = X.tocsr().astype(dtype, copy=False)
    else:
        X = np.ascontiguousarray(X, dtype)
    plan = plan_of([Dense(n) for n in layer_units[1:-1]], X.shape[1], None, est.activation)
    Dense(est.n_outputs_, "identity").add_to(plan)
    ends = {
        "softmax": output_layers.SOFTMAX,
        "logistic": output_layers.BINARY,
        "exp": output_layers.POISSON,
        "identity": output_layers.SQUARES if est.n_outputs_ == 1 else output_layers.MEAN_SQUARES,
    }
    end = ends[est.out_activation_]
    if end == output_layers.POISSON and (y < 0.0).any():
        raise ValueError("y must not be negative with loss='poisson'.")
    targets = y.argmax(axis=1)[:, np.newaxis] if end == output_layers.SOFTMAX else y
    targets = np.ascontiguousarray(targets, dtype)
    return NetworkProblem(X, targets, weight, None, plan, end, float(est.alpha), 0)
