"""The epochs of `MLPClassifier` and `MLPRegressor`, in scikit-learn's order.

Only the training differs from scikit-learn's. At the end of each epoch the workers pause, and the
fit makes scikit-learn's decisions in scikit-learn's order. A fit by one worker therefore repeats
scikit-learn's fit.
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

NOT_FINITE = (  # scikit-learn's own constant
    "Solver produced non-finite parameter weights. The input data may contain large values and "
    "need to be preprocessed."
)
SMALLER = "A smaller learning_rate_init might help too."
MOST_ROWS = 200  # of a mini-batch whose size is "auto"
LATE = 0.1  # mean delay of a gradient, in steps, from which the fit warns


class NetworkMixin(Exporting):
    """Training by the workers, for an estimator with the parameters of scikit-learn's networks.

    Parameters
    ----------
    hidden_layer_sizes : array-like of int, default=(100,)
        The ith element is the number of units in the ith hidden layer.

    activation : {"identity", "logistic", "tanh", "relu"}, default="relu"
        Activation function of the hidden layers.

    solver : {"lbfgs", "sgd", "adam"}, default="adam"
        The solver for weight optimization. "lbfgs" is scikit-learn's own, run by one worker.

    alpha : float, default=0.0001
        Strength of the L2 penalty. ``alpha / 2`` times the sum of the squared coefficients is added
        once to the sum of a mini-batch's losses.

    batch_size : int or "auto", default="auto"
        Number of rows in a mini-batch; each mini-batch is a step. "auto" is
        ``min(200, n_samples)``.

    learning_rate : {"constant", "invscaling", "adaptive"}, default="constant"
        Schedule of the step size for "sgd": "constant" leaves it unchanged; "invscaling" divides it
        by ``(t_ + 1) ** power_t`` at each epoch's end; "adaptive" divides it by 5 whenever the fit
        would otherwise end.

    learning_rate_init : float, default=0.001
        The initial step size.

    power_t : float, default=0.5
        The exponent of "invscaling"; see `learning_rate`.

    max_iter : int, default=200
        Maximum number of epochs.

    shuffle : bool, default=True
        Whether each epoch visits the rows in a new order.

    random_state : int, RandomState instance or None, default=None
        Determines the initial coefficients, the held-out rows and the order of the rows.

    tol : float, default=1e-4
        Smallest improvement that counts, of an epoch's loss or of the score on held-out rows,
        relative to the best loss or score so far.

    verbose : bool, default=False
        Whether to print progress after each epoch.

    warm_start : bool, default=False
        Whether `fit` starts from the coefficients of the previous fit.

    momentum : float, default=0.9
        Momentum of "sgd": the share of the last step that is added to the next one.

    nesterovs_momentum : bool, default=True
        Whether to use Nesterov's momentum.

    early_stopping : bool, default=False
        Whether to hold out rows. The score on these rows then decides when the fit ends, and the
        result is the network with the best score.

    validation_fraction : float, default=0.1
        The fraction of the rows to hold out.

    beta_1, beta_2 : float, default=0.9 and 0.999
        Exponential decay rates of "adam" for the means of gradients and of squared gradients.

    epsilon : float, default=1e-8
        Value for numerical stability in "adam", added to the root in the denominator.

    n_iter_no_change : int, default=10
        Number of epochs without an improvement by `tol` after which the fit ends.

    max_fun : int, default=15000
        Maximum number of evaluations of the loss, for "lbfgs".

    plane : {"shared", "master"}, Plane or None, default="shared"
        Where the network lives while several workers train it. "shared" (and None) is
        ``hogshare.Shared()``, private copies; ``Shared(exchange=None)`` is one vector that all
        workers read and write.

    Attributes
    ----------
    loss_ : float
        Mean loss with the penalty. As in scikit-learn, it is the mean over the last epoch's
        mini-batches, each before its step. If each worker takes steps of its own, it is the loss of
        the network after the last epoch.

    best_loss_ : float or None
        The smallest loss of an epoch so far; None with `early_stopping`.

    loss_curve_ : list of float
        The losses of all epochs.

    validation_scores_ : list of float or None
        The score on the held-out rows after each epoch; None without `early_stopping`.

    best_validation_score_ : float or None
        The best of these scores.

    t_ : int
        Number of rows trained on so far.

    coefs_, intercepts_ : list of ndarray
        The ith element contains the coefficients, or the intercepts, of layer i.

    n_iter_ : int
        Number of epochs of the last `fit`.

    n_layers_ : int
        Number of layers, including inputs and outputs.

    n_outputs_ : int
        Number of units in the output layer.

    out_activation_ : str
        Activation function of the output layer.

    report_ : Report or SolverReport
        The report of the workers' last run; for "lbfgs" a `SolverReport` with the solver's name and
        the reason.

    Notes
    -----
    Workers pause at the end of each epoch, when the fit decides whether to start another. All
    workers use the same momentum and moments, with which `partial_fit` continues. A named `barrier`
    other than "bsp" has two effects: (1) The fit decides by the loss of the network at the epoch's
    end, and may end an epoch or two before or after a fit by one worker. (2) Each worker has its
    own momentum and moments, and `partial_fit` continues with the mean over the workers that took
    steps.
    """

    _words = BATCH_WORDS

    report_: Report | SolverReport

    @fits
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train the network.

        Parameters
        ----------
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets. For regression, numbers. For classification, class labels, or a column of zeros
            and ones for each label of multilabel rows.
        """
        if is_collection(X):
            from hogshare.estimators.partitioned_fits import fit_whole

            anew = not (self.warm_start and hasattr(self, "coefs_"))
            fit_whole(self, X, y, sample_weight, reset=anew)
            return self
        self._check_before(X, sample_weight)
        super().fit(X, self._targets(y), sample_weight=sample_weight)  # type: ignore[misc]
        return self

    def _targets(self, y: Any) -> Any:
        """Return the targets in the form that scikit-learn's class takes."""
        raise NotImplementedError

    def _check_before(self, X: Any, sample_weight: Any) -> None:
        """Refuse input that scikit-learn would accept, before the rows are read."""
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
            self._report("scikit-learn", "solver='lbfgs' does not descend by mini-batches", began)
        return self

    def _report(self: Any, by: str, reason: str, began: float) -> None:
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
        """Train from the present coefficients, and set the fitted attributes.

        This method replaces scikit-learn's loop, whose parameters it has.
        """
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
        """Call scikit-learn's method, whose last argument is the number of units per layer."""
        self._require_layers(data[-1])
        super()._fit_lbfgs(*data)  # type: ignore[misc]

    def _require_layers(self: Any, layer_units: list[int]) -> None:
        """Refuse to continue from a network that has other layers."""
        known = [len(coefs) for coefs in self.coefs_] + [self.coefs_[-1].shape[1]]
        if layer_units == known:
            return
        self.n_outputs_ = known[-1]
        raise ValueError(
            f"The network from which this fit would continue has {tuple(known)} units in its "
            f"layers, inputs and outputs included; {tuple(layer_units)} were requested. With "
            "warm_start=True, and in partial_fit, hidden_layer_sizes and the number of targets "
            "must not change. For another network fit with warm_start=False."
        )

    def _begin_curves(self: Any) -> None:
        """Set attributes that this fit's criterion needs and that an earlier fit has not set."""
        known = vars(self)
        known.setdefault("loss_curve_", [])
        known.setdefault("_no_improvement_count", 0)
        if self.early_stopping and known.get("validation_scores_") is None:
            known["validation_scores_"], self.best_validation_score_ = [], -np.inf
        if not self.early_stopping and known.get("best_loss_") is None:
            self.best_loss_ = np.inf


class Training:
    """The epochs of one fit, which set the fitted attributes of the estimator.

    n_rows : number of training rows
    held_out : rows, targets and weights for early stopping; three None without early stopping
    incremental : whether this is the single epoch of `partial_fit`
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
        """Have the workers train, and set the estimator's attributes.

        batch : number of rows in a mini-batch

        Raises
        ------
        ValueError
            If the network leaves the floating-point range and no epoch has a score on held-out
            rows.
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

    def _decide(self, end: EpochEnd) -> bool:
        """Set the next epoch's order and step size; return whether the fit is over."""
        est = self.estimator
        if end.epoch:
            model = end.model()
            self._take(model.params, model.shapes)
            self.over = self._ends(self._loss(end, model.params))
        if self.over or end.epoch == self.epochs:
            return self.over  # returned before a new order is drawn, as in scikit-learn
        if est.shuffle:
            self.order = shuffle(self.order, random_state=est._random_state)
            end.take_order(self.order)
        end.take_step(optimizers.step_of(est._optimizer))
        return False

    def _loss(self, end: EpochEnd, params: np.ndarray) -> float:
        """Return the loss of an epoch.

        If the workers compute steps together, this is scikit-learn's loss: the mean, over the
        epoch, of each mini-batch's loss before its step. This mean does not show the effect of late
        steps. If workers take steps of their own, this is therefore the loss of the network at the
        epoch's end. Both losses contain the penalty as often as the steps do.
        """
        problem = self.problem
        if end.n_workers == 1 or end.is_split:
            return end.loss
        # each mini-batch's step contains the whole penalty, and the objective contains it once
        n_batches = -(-problem.n_rows // self.batch)
        self.is_late = not (end.is_split or end.has_homes)
        return end.objective(problem, params) + (n_batches - 1) * problem.penalty_at(params)

    def _warn_of_late_steps(self, report: Report) -> None:
        """Warn if gradients were so late that the fit differs from a fit by one worker."""
        lateness = report.staleness_mean
        if self.is_late and lateness >= LATE:
            warn(
                f"With barrier={report.settings['barrier']} gradients were {lateness:.1f} steps "
                "late on the mean: this is another optimizer than one worker's, and it overshoots "
                "where the loss is sharp. Use barrier=None and a plane without exchanges or sums, "
                "with which the workers compute each mini-batch together; or compare loss_ with "
                "that of n_jobs=1.",
                ConvergenceWarning,
            )

    def _ends(self, loss: float) -> bool:
        """Count an epoch as scikit-learn does; return whether it is the last one."""
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
        if est._no_improvement_count <= est.n_iter_no_change:  # "<=" as in scikit-learn
            return False
        what = "Validation score" if est.early_stopping else "Training loss"
        reason = (
            f"{what} did not improve more than tol={est.tol:f} for {est.n_iter_no_change} "
            "consecutive epochs."
        )
        if est._optimizer.trigger_stopping(reason, est.verbose):
            return True
        est._no_improvement_count = 0
        return False

    def _take(self, vector: np.ndarray, shapes: tuple[tuple[int, ...], ...]) -> None:
        """Set the estimator's layers from a vector, in the dtype of its present layers."""
        est, found = self.estimator, parted(vector, shapes)
        kind = est.coefs_[0].dtype
        est.coefs_ = [coefs.astype(kind, copy=False) for coefs, _ in found]
        est.intercepts_ = [intercepts.astype(kind, copy=False) for _, intercepts in found]

    def _diverged(self, began: float) -> None:
        """End a fit whose network has left the floating-point range.

        The result is the network of the epoch with the best score; without a score, raise an error.
        """
        est = self.estimator
        if not (est.early_stopping and math.isfinite(est.best_validation_score_)):
            raise ValueError(f"{NOT_FINITE} {SMALLER}") from None
        est.n_iter_ += 1
        est.loss_ = math.nan
        est.loss_curve_.append(math.nan)
        est.validation_scores_.append(math.nan)
        est._report("workers, until then", "the network has left the range of numbers", began)
        warn(
            f"The steps have left the range of numbers in epoch {est.n_iter_}; the fit returns the "
            f"network of the epoch with the best validation score. {SMALLER}",
            ConvergenceWarning,
        )


# -- from the estimator to the arguments of solve --------------------------------------------------


def _parted(
    est: Any, X: Any, y: np.ndarray, weight: np.ndarray | None
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Split rows, targets and weights as scikit-learn does; return training and held-out parts."""
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
    """Return the number of rows in a mini-batch."""
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
    """Return the problem that the workers minimize."""
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
