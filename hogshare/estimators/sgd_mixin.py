"""The base of both SGD estimators: checks of settings, the start, the run, the attributes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassifierMixin, is_classifier
from sklearn.callback import CallbackSupportMixin
from sklearn.exceptions import ConvergenceWarning, UndefinedMetricWarning
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit
from sklearn.utils._param_validation import StrOptions

from hogshare.engine.checkpoints import Checkpoint
from hogshare.engine.stops import Stop
from hogshare.estimators.all_rows import all_rows_of
from hogshare.estimators.column_scales import warn_if_unlike
from hogshare.estimators.epoch_tasks import EpochTasks
from hogshare.estimators.linear_models import LinearModel
from hogshare.estimators.parameters import SGD_WORDS
from hogshare.estimators.validation import check_rows, weights_of_part
from hogshare.kernels.rows.survey import Survey
from hogshare.kernels.rules import step_schedules
from hogshare.problems.linear import build
from hogshare.problems.linear.column_units import ColumnUnits, suited
from hogshare.problems.linear.labels import own_type
from hogshare.problems.model import Handed, Model, in_place
from hogshare.problems.protocol import RowProblem
from hogshare.problems.weights import require_weight
from hogshare.report import Report
from hogshare.rules.automatic_rule import automatic_rule
from hogshare.rules.protocol import Rule
from hogshare.rules.sgd import SGD
from hogshare.rules.steps import StepSize
from hogshare.runtimes.hooks import OnEpoch
from hogshare.solvers.choice_names import plane_of
from hogshare.solvers.solver import OrderSeed, solve
from hogshare.system.callers import warn
from hogshare.system.clusters import is_collection
from hogshare.system.interrupts import errstate

LEARNING_RATES: list[Any] = [StrOptions({"auto", *step_schedules.CODES})]
AVERAGES = ("_standard_coef", "_standard_intercept", "_average_coef", "_average_intercept")


class SGDMixin(LinearModel, CallbackSupportMixin):
    """Fitting by `hogshare.solve` for an estimator with scikit-learn's SGD parameters.

    To save a fit while it runs, set `_checkpoint`; to resume it, set `_resume`. Both are passed to
    `hogshare.solve`, as its arguments of these names. The command line uses them.

    Parameters
    ----------
    penalty : {'l2', 'l1', 'elasticnet', None}, default='l2'
        The penalty (regularization term) on the coefficients, never on the intercept. 'l1' and
        'elasticnet' set coefficients to exactly zero.

    alpha : float, default=0.0001
        Constant that multiplies the penalty. It is also used to compute the learning rate when
        `learning_rate` is 'optimal'.

    l1_ratio : float or None, default=0.15
        The Elastic Net mixing parameter, between 0 and 1: the share of l1. Only used if `penalty`
        is 'elasticnet'. With other penalties it may be None.

    max_iter : int, default=1000
        Maximum number of passes over the rows (epochs) in `fit`.

    tol : float or None, default=1e-3
        The stopping criterion: the fit stops when an epoch's mean loss plus penalty (with
        `early_stopping` the score on held-out rows) has not improved by `tol` for
        `n_iter_no_change` consecutive epochs. With None the fit never stops early.

    shuffle : bool, default=True
        Whether each epoch visits the rows in a new order.

    verbose : int, default=0
        If positive, print the model's norm, nonzeros, intercept and objective after each epoch.

    epsilon : float, default=0.1
        Threshold of the losses 'huber', 'epsilon_insensitive' and 'squared_epsilon_insensitive'.

    random_state : int, RandomState or None, default=None
        Determines the order of the rows and the split for early stopping. With one worker an int
        gives the same model bit for bit in every call; with several workers the model depends on
        their timing.

    eta0 : float, default=0.01
        The initial learning rate for 'constant', 'invscaling' and 'adaptive', and the parameter C
        of 'pa1' and 'pa2'.

    early_stopping : bool, default=False
        Whether to hold out a fraction of the rows (for a classifier, of each class) and stop when
        the score on them no longer improves; see `tol`.

    validation_fraction : float, default=0.1
        Fraction of the rows to hold out for early stopping.

    n_iter_no_change : int, default=5
        Number of epochs without improvement to wait before stopping.

    warm_start : bool, default=False
        Whether `fit` starts from the solution of the previous fit. `fit` resets the step counter;
        `partial_fit` continues it.

    average : bool or int, default=False
        Whether `coef_` is the average of the iterates. An int greater than 1 is the number of
        visited rows after which averaging begins.

    plane : {"shared", "master"}, Shared, Master or None, default="shared"
        Where the model lives while several workers fit it. "shared" (and None) is
        ``hogshare.Shared()``: private copies, which are exchanged at intervals.
        ``Shared(exchange=None)`` is Hogwild!: one vector that all workers write without locks.

    Attributes
    ----------
    t_ : float
        Step counter: 1 plus the number of rows times the number of epochs.

    report_ : Report or SolverReport
        The report of the last `fit` or `partial_fit`: workers, staleness, seconds, settings. A
        `SolverReport` if scikit-learn's own epochs fitted few rows; see the notes.

    Notes
    -----
    - Few rows (values times classes up to 100,000) are fitted by scikit-learn's class of the same
      name, which is as fast on them and compiles nothing. The model is the same, bit for bit.
      Workers fit few rows if early stopping, averages, ``learning_rate='auto'`` or callbacks are
      used, or if `runtime`, `plane` or `barrier` asks for workers.
    - With more than one worker a fit is not reproducible: its result depends on how the workers are
      scheduled. The tag ``non_deterministic`` is then True.
    - Rows of more than 16 MB are shuffled in windows: eight neighbors from each of eight random
      places. This takes a fifth to a third less time, because a processor fetches neighbors faster.
      The model is then as good as scikit-learn's model with the same seed, but not equal. With
      ``shuffle=False`` the models are equal.
    - Matrices with 64-bit indices are accepted.
    - scikit-learn's callbacks (``set_callbacks``) are supported in `fit`, with a task per epoch. If
      a hook asks to stop, the fit ends after the epoch.
    - As in scikit-learn, `partial_fit` changes `coef_` in place. This also changes the coefficients
      of ``report_.model``; copy them to preserve them. If `coef_` was not made by the previous call
      (it was assigned, is read-only, or belongs to a copied estimator), it is copied once and never
      written. If a call is interrupted, or raises because the model has left the floating-point
      range, its steps up to that moment remain in `coef_`.
    """

    _words = SGD_WORDS
    _checkpoint: Checkpoint | None = None
    _resume: str | None = None

    def _reads_parts(self, n_features: int) -> bool:
        """Whether each of several ranks without shared memory needs only its own rows."""
        return True

    def _check_settings(self, for_partial_fit: bool = False) -> None:
        """Refuse combinations of parameters; each parameter alone has been checked already."""
        if self.early_stopping and for_partial_fit:
            raise ValueError("early_stopping should be False with partial_fit")
        if self.learning_rate == "auto":
            self._check_auto(for_partial_fit)
        if self.learning_rate == "optimal" and self.alpha == 0:
            raise ValueError(
                "alpha must be > 0 since learning_rate is 'optimal'. "
                "alpha is used to compute the optimal learning rate."
            )
        if self.learning_rate in ("pa1", "pa2"):
            wanted = "hinge" if is_classifier(self) else "epsilon_insensitive"
            if self.loss != wanted:
                raise ValueError(
                    f"Learning rate '{self.learning_rate}' only works with loss '{wanted}'."
                )
        if self.penalty == "elasticnet" and self.l1_ratio is None:
            raise ValueError("l1_ratio must be set when penalty is 'elasticnet'")

    def _check_auto(self, for_partial_fit: bool) -> None:
        """Refuse parameters that rules with row memory do not support."""
        if not plane_of(self.plane).has_copies:
            raise ValueError(
                "learning_rate='auto' needs private copies: use plane=Shared() instead of "
                "exchange=None."
            )
        if self.average:
            raise ValueError(
                "learning_rate='auto' leaves no noise to average away; use average=False."
            )
        if for_partial_fit or self.warm_start:
            raise ValueError(
                "learning_rate='auto' stores a number for every row of one fit and cannot continue "
                "from an earlier model: use fit with warm_start=False, or another learning_rate."
            )

    def _pass(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        max_iter: int | None,
        init: tuple[Any, Any] | None,
        *,
        reset: bool,
        classes: Any = None,
    ) -> None:
        """Check the input, fit it, and set the fitted attributes.

        X, y and weights are only read. Collective: all ranks must call it, in the same order, since
        sums over rows are sums over all ranks.

        max_iter : maximum number of epochs; None for the single epoch of `partial_fit`
        init : initial coefficients and intercept, each of which may be None for zeros; None to
            continue from the present model
        reset : whether to set `n_features_in_` and `feature_names_in_`, or to compare with them
        classes : the argument `classes` of `partial_fit`
        """
        if is_collection(X):
            from hogshare.estimators.partitioned_fits import fit_sgd

            fit_sgd(self, X, y, sample_weight, init, max_iter, classes, reset)
            return
        anew, labels = max_iter is not None, isinstance(self, ClassifierMixin)
        # scikit-learn's step sizes do not depend on the rows' norms
        sizes, y = self.learning_rate == "auto", own_type(y) if labels else y
        classes = None if classes is None else own_type(classes)
        X, y, seen = check_rows(self, X, y, sizes=sizes, reset=reset)
        if anew:
            warn_if_unlike(self, X)
        class_weight, n_columns = None, 1
        if labels:
            class_weight = self._read_labels(y, classes, anew)
            n_columns = 1 if len(class_weight) <= 2 else len(class_weight)
        else:
            with errstate(over="ignore"):  # targets too large for the rows' dtype are refused below
                y = y.astype(X.dtype, copy=False)
        weight = None
        if sample_weight is not None:
            # with early stopping the split below gives a better message
            zeros = labels and self.early_stopping
            weight = weights_of_part(all_rows_of(self), sample_weight, X, zeros)
        start = self._start((n_columns, X.shape[1]), X, y, weight, init, anew)
        if class_weight is not None and len(class_weight) < 2:
            n_classes = f"{len(class_weight)} class{'' if len(class_weight) == 1 else 'es'}"
            raise ValueError(f"The number of classes has to be greater than one; got {n_classes}.")
        validation, seed = self._draw(y, weight)
        problem = self._problem(X, y, seen, weight, class_weight)
        self._learn(
            problem,
            X,
            y,
            start=start,
            validation=validation,
            seed=seed,
            max_iter=max_iter,
            sample_weight=sample_weight,
        )

    def _read_labels(self, y: np.ndarray, classes: Any, anew: bool) -> np.ndarray:
        """Set `classes_`, and return the weight of each class.

        anew : True in `fit`, False in `partial_fit`
        classes : the argument `classes` of `partial_fit`
        """
        raise NotImplementedError

    def _draw(self, y: np.ndarray, weight: np.ndarray | None) -> tuple[np.ndarray | None, int]:
        """Draw the held-out rows and the seed of the row order, as scikit-learn does; return both.

        The held-out rows are the result of `_held_out`.
        """
        raise NotImplementedError

    def _held_out(self, y: np.ndarray, sample_weight: np.ndarray | None) -> np.ndarray | None:
        """Return a mask of the rows that early stopping scores; None without early stopping.

        Collective: all ranks must call it. The mask is for this process's rows.
        """
        if not self.early_stopping:
            return None
        everybody, n_own = all_rows_of(self), len(y)
        y, sample_weight = everybody.joined(y), everybody.joined(sample_weight)
        splitter = StratifiedShuffleSplit if is_classifier(self) else ShuffleSplit
        split = splitter(test_size=self.validation_fraction, random_state=self.random_state)
        training, held_out = next(split.split(np.zeros((len(y), 1)), y))
        if sample_weight is not None:
            require_weight(validation=sample_weight[held_out], training=sample_weight[training])
        if len(training) == 0 or len(held_out) == 0:
            raise ValueError(
                f"Splitting {len(y)} samples into a train set and a validation set with "
                f"validation_fraction={self.validation_fraction!r} led to an empty set "
                f"({len(training)} and {len(held_out)} samples). Please either change "
                "validation_fraction, increase number of samples, or disable early_stopping."
            )
        if len(held_out) < 2 and not is_classifier(self):
            warn(
                "early_stopping holds out a single row, for which the R^2 score is not "
                "well-defined and decides nothing: increase validation_fraction or the number of "
                "samples.",
                UndefinedMetricWarning,
            )
        mask = np.zeros(len(y), dtype=bool)
        mask[held_out] = True
        mask = everybody.own(mask)
        if not everybody.is_one and mask.all():
            mask[n_own // 2] = False  # a rank needs a row that is not held out to take steps
        return mask

    def _first_model(
        self, shape: tuple[int, int], dtype: np.dtype, coef_init: Any, intercept_init: Any
    ) -> Model:
        """Return the model from which `fit` starts: zeros, or a copy of the given model."""
        n_columns, n_features = shape
        coef, intercept = np.zeros(shape, dtype), np.zeros(n_columns, dtype)
        if coef_init is not None:
            coef_init = np.asarray(_unsparse(coef_init), dtype=dtype)
            fits = coef_init.size == n_features if n_columns == 1 else coef_init.shape == shape
            if not fits:
                raise ValueError(
                    f"Provided coef_init does not match dataset. Its shape is {coef_init.shape}; "
                    f"needed is {shape if n_columns > 1 else (n_features,)}."
                )
            coef = coef_init.reshape(shape).copy()
        if intercept_init is not None:
            intercept_init = np.asarray(intercept_init, dtype=dtype)
            if intercept_init.shape != (n_columns,) and (n_columns > 1 or intercept_init.shape):
                raise ValueError(
                    "Provided intercept_init does not match dataset. Its shape is "
                    f"{intercept_init.shape}; needed is {(n_columns,)}."
                )
            intercept = intercept_init.reshape(n_columns).copy()
        return Model(coef, intercept, 1.0)

    def _start(
        self,
        shape: tuple[int, int],
        X: Any,
        y: np.ndarray,
        weight: np.ndarray | None,
        init: tuple[Any, Any] | None,
        anew: bool,
    ) -> Model:
        """Return the model from which a pass starts: `init`, or the present model if it is None."""
        if init is None:
            return self._last_model(shape, X, y, weight)
        if anew:
            return self._first_model(shape, X.dtype, *init)
        return Handed(np.zeros(shape[::-1], X.dtype).T, np.zeros(shape[0], X.dtype))

    def _last_model(self, shape: tuple[int, int], X: Any, *data: Any) -> Handed:
        """Return the model from which `partial_fit` continues.

        Its arrays are the last run's arrays if possible, and copies otherwise.

        X, data : the training data; arrays that share memory with the data are copied
        """
        if self.learning_rate == "auto":
            self._check_auto(for_partial_fit=True)
        rows = X.data if sp.issparse(X) else X
        others = [part for part in (rows, *data) if type(part) is np.ndarray]
        t = float(getattr(self, "t_", 1.0))
        averaged = self.average and getattr(self, "_average_coef", None) is not None
        coef = self._standard_coef if averaged else self.coef_
        coef = self._going_on(coef, shape, X.dtype, others)
        intercept = np.atleast_1d(self._standard_intercept if averaged else self.intercept_)
        if not self.average:
            return Handed(coef, intercept, t)
        if not averaged:
            # averaging was switched on after the last call: the model so far is its own average
            return Handed(coef, intercept, t, coef.copy("K"), intercept)
        average = self._going_on(self._average_coef, shape, X.dtype, [*others, coef])
        return Handed(coef, intercept, t, average, self._average_intercept)

    def _going_on(
        self, coef: Any, shape: tuple[int, int], dtype: np.dtype, others: list[np.ndarray]
    ) -> np.ndarray:
        """Return coefficients that a run may write: `coef` if the last run made it, else a copy.

        Coefficients that the user assigned, or that belong to another estimator, are copied.

        others : arrays that must not share memory with the result
        """
        coef = np.asanyarray(_unsparse(coef)).reshape(shape)
        disjoint = not any(np.may_share_memory(coef, part) for part in others)
        if disjoint and in_place(coef, dtype) and self._is_own(coef):
            return coef
        with errstate(over="ignore"):  # the run reports an overflow
            return np.array(coef.T, dtype=dtype, order="C", subok=False).T

    def __getstate__(self) -> Any:
        # a copied estimator has the original's arrays, and may get the id() of a deleted original
        return {k: v for k, v in super().__getstate__().items() if k != "_run_by"}

    def _is_own(self, coef: np.ndarray) -> bool:
        """Whether these coefficients were made by this estimator's last run."""
        model = getattr(getattr(self, "report_", None), "model", None)
        if model is None or self.__dict__.get("_run_by") != id(self):
            return False  # a copy of an estimator has the original's arrays
        # the whole array of the model's coefficients in the same memory and order, not a part
        return any(
            part is not None and part.size == coef.size and part.base is coef.base is not None
            for part in (model.coef, model.average_coef)
        )

    def _problem(
        self,
        X: Any,
        y: np.ndarray,
        seen: Survey | None,
        sample_weight: np.ndarray | None,
        class_weight: np.ndarray | None,
    ) -> RowProblem:
        """Return the problem to minimize."""
        return build(
            X,
            y,
            loss=self.loss,
            penalty=self.penalty,
            alpha=self.alpha,
            l1_ratio=self.l1_ratio or 0.0,
            fit_intercept=self.fit_intercept,
            epsilon=self.epsilon,
            sample_weight=sample_weight,
            class_weight=class_weight,
            classes=None if class_weight is None else self.classes_,
            seen=seen,
        )

    def _learn(
        self,
        problem: RowProblem,
        X: Any,
        y: np.ndarray,
        *,
        start: Model,
        validation: np.ndarray | None,
        seed: int,
        max_iter: int | None,
        sample_weight: Any,
    ) -> None:
        """Run the solver, and set the fitted attributes.

        max_iter : maximum number of epochs; None for the single epoch of `partial_fit`
        """
        everybody = all_rows_of(self)
        n_rows = everybody.added(len(y))
        n_training = n_rows
        if validation is not None:
            n_training = everybody.added(int(np.count_nonzero(~validation)))

        def attributes(model: Model) -> dict[str, Any]:
            epochs = round((model.t - start.t) / n_training)
            return self._fitted(model, start.t + epochs * n_rows)

        tasks = EpochTasks(self, problem, X, y, sample_weight, max_iter, attributes)
        automatic = self.learning_rate == "auto"
        tasks.begin(start)
        rule: Rule = SGD(average=self.average)
        # on ranks the columns of other ranks' rows may need other units
        columns = suited(problem) if automatic and everybody.is_one else None
        heard: OnEpoch | None = tasks if tasks.wanted else None
        if columns is not None:
            problem, start = columns.recast(problem), columns.inward(start)
            heard = _outward(columns, heard)
        if automatic:
            whole = everybody.whole(problem)
            rule = automatic_rule(whole, self.shuffle, from_anywhere=not start.is_zero())
        report = solve(
            problem,
            rule=rule,
            plane=self.plane,
            barrier=self.barrier,
            runtime=self.runtime,
            n_workers=self.n_jobs,
            step=None if automatic else self._step_size(),
            stop=Stop(
                epochs=max_iter or 1,
                # a single epoch needs no criterion, and is cheaper without one
                tol=self.tol if max_iter else None,
                patience=self.n_iter_no_change,
                validation=validation,
                confirm=automatic
                and validation is None
                and self.tol is not None
                and bool(max_iter),
            ),
            shuffle=self.shuffle,
            # without `random_state`, a resumed run has the seed of the checkpoint
            seed=None if self._resume and self.random_state is None else OrderSeed(seed),
            start=None if self._resume else start,
            on_epoch=heard,
            checkpoint=self._checkpoint,
            resume=self._resume,
        )
        if columns is not None:
            report = dataclasses.replace(report, model=columns.outward(report.model))
        self._set_attributes(report, attributes)
        tasks.end(report)
        if max_iter:
            self._warn(report, max_iter)

    def _step_size(self) -> StepSize:
        return StepSize(self.learning_rate, eta0=self.eta0, power_t=self.power_t)

    def _fitted(self, model: Model, t: float) -> dict[str, Any]:
        """Return the fitted attributes for a model, whose arrays they are.

        t : value of the attribute `t_`
        """
        coef, intercept = model.coef, model.intercept
        # model.t counts training rows only; with early stopping `t` also counts held-out rows
        if self.average and self.average <= model.t - 1.0 and model.average_coef is not None:
            assert model.average_intercept is not None
            coef, intercept = model.average_coef, model.average_intercept
        return {"coef_": self._shaped(coef), "intercept_": intercept, "t_": t}

    def _shaped(self, coef: np.ndarray) -> np.ndarray:
        """Return the engine's coefficients in the shape of `coef_`, without a copy."""
        return coef

    def _set_attributes(
        self, report: Report, attributes: Callable[[Model], dict[str, Any]]
    ) -> None:
        model = report.model
        self.__dict__.update(attributes(model), n_iter_=report.n_epochs)
        if isinstance(self.random_state, Integral):  # the run's own seed is drawn from it
            settings = {**report.settings, "random_state": int(self.random_state)}
            report = dataclasses.replace(report, settings=settings)
        self.report_ = report.without_memory()
        self._run_by = id(self)
        if model.average_coef is not None:
            # in scikit-learn's names and shapes, for partial_fit
            flat = model.coef.shape[0] == 1
            self._standard_coef = model.coef.ravel() if flat else model.coef
            self._standard_intercept = model.intercept
            self._average_coef = model.average_coef.ravel() if flat else model.average_coef
            self._average_intercept = model.average_intercept
        else:
            # a later partial_fit with averaging must not continue from an earlier fit's averages
            for name in AVERAGES:
                self.__dict__.pop(name, None)

    def _warn(self, report: Report, max_iter: int) -> None:
        """Give the warnings of `fit`, with scikit-learn's messages."""
        if self.learning_rate == "auto" and report.checks and not report.converged:
            reason = report.stop_reason if report.n_epochs < max_iter else report.notes[-1]
            warn(
                f"The fit has not converged after {report.n_epochs} epochs: {reason}. Scale the "
                "data (StandardScaler, or MaxAbsScaler for sparse rows), or increase max_iter.",
                ConvergenceWarning,
            )
        elif self.tol is not None and report.n_epochs == max_iter:
            warn(
                "Maximum number of iteration reached before convergence. Consider increasing "
                "max_iter to improve the fit.",
                ConvergenceWarning,
            )
        if self.power_t < 0:
            warn(
                "Negative values for `power_t` are deprecated in version 1.8 and will raise an "
                "error in 1.10. Use values in the range [0.0, inf) instead.",
                FutureWarning,
            )


def _outward(columns: ColumnUnits, heard: OnEpoch | None) -> OnEpoch | None:
    """Return an `on_epoch` that calls `heard` with models in the units of the original rows."""
    if heard is None:
        return None

    def on_epoch(epoch: int, snapshot: Callable[[], Model]) -> bool:
        return heard(epoch, lambda: columns.outward(snapshot()))

    on_epoch.reads_models = getattr(heard, "reads_models", True)  # type: ignore[attr-defined]
    return on_epoch


def _unsparse(coef: Any) -> Any:
    return coef.toarray() if sp.issparse(coef) else coef
