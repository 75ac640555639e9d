"""Fits of Dask collections: what estimators make of `hogshare.partitioned`.

Imported when a collection comes to `fit`. Everything that cannot be had is refused before anybody
computes.
"""

from __future__ import annotations

import time
import warnings
from typing import Any, NoReturn

import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from hogshare.barriers import barrier_of, name_of
from hogshare.estimators.epochs import print_epoch
from hogshare.estimators.parameters import MAX_INT
from hogshare.estimators.solver_report import report_of
from hogshare.estimators.workers import SCALE, Shape, chooses_runtime, strength, warn_unconverged
from hogshare.partitioned import (
    Descended,
    Meaning,
    PartitionedRows,
    Settings,
    descend,
    least_squares,
    minimise,
)
from hogshare.problems.model import Model
from hogshare.problems.weights import class_weights
from hogshare.report import Report
from hogshare.rules.sgd import SGD
from hogshare.runtimes.choice import check_jobs
from hogshare.solvers import outcome
from hogshare.solvers.choices import plane_of
from hogshare.system.callers import warn
from hogshare.system.clusters import client_here

MEANT = ("loss", "penalty", "alpha", "l1_ratio", "fit_intercept")
INSTEAD = "What fits in this machine's memory may be handed over as X.compute()."


def fit_sgd(est: Any, X: Any, y: Any, sample_weight: Any, init: Any) -> None:
    """Fit an SGD estimator, and set its attributes."""
    began, classifies = time.perf_counter(), is_classifier(est)
    if init is None:
        refuse("partial_fit", "use fit, which goes over all partitions, or partial_fit of arrays")
    check_sgd(est)
    check_workers(est)
    plane = plane_of(est.plane)
    with PartitionedRows(X, y, sample_weight, with_labels=classifies) as rows:
        classes, by_class = None, None
        if classifies:
            classes, counts, _ = rows.labels()
            check_labels(classes)
            by_class = weights_of(est.class_weight, classes, counts)
        meaning = Meaning(
            loss=est.loss,
            penalty=est.penalty,
            alpha=est.alpha,
            l1_ratio=est.l1_ratio or 0.0,
            fit_intercept=est.fit_intercept,
            epsilon=est.epsilon,
            class_weight=by_class,
            classes=classes,
            dtype=rows.dtype.name,
        )
        n_columns = 1 if classes is None or len(classes) <= 2 else len(classes)
        start = est._first_model((n_columns, rows.n_features), rows.dtype, *init)
        settings = Settings(
            step=est._step_size(),
            epochs=est.max_iter,
            tol=est.tol,
            patience=est.n_iter_no_change,
            shuffle=est.shuffle,
            seed=int(check_random_state(est.random_state).randint(MAX_INT)),
            average=int(est.average),
            exchange=None if plane.is_automatic else plane.interval(None),
            most=None if est.n_jobs in (None, -1) else int(est.n_jobs),  # quanta at one time
            heard=say if est.verbose else None,
        )
        setup = time.perf_counter() - began
        found = descend(rows, meaning, settings, start)
        report = report_on(est, rows, meaning, found, setup)
        describe(est, rows)
    if classes is not None:
        est.classes_ = classes
    t = 1.0 + found.n_epochs * report.settings["problem"]["rows"]
    est._keep(report, lambda model: est._fitted(model, t))
    if found.absurd:
        warn(
            outcome.absurd(SGD(), est._step_size()),
            ConvergenceWarning,
        )
    est._warn(report, est.max_iter)


def report_on(
    est: Any, rows: PartitionedRows, meaning: Meaning, found: Descended, setup: float
) -> Report:
    """Report a descent."""
    step = est._step_size()
    plane = plane_of(est.plane)
    reason = "the stop criterion was met" if found.converged else "all epochs were done"
    return Report(
        model=found.model,
        settings={
            "problem": {
                **{name: getattr(meaning, name) for name in MEANT},
                "rows": rows.n_rows,
                "features": rows.n_features,
                "columns": len(found.model.intercept),
                "nonzeros": sum(fact.nnz for fact in rows.facts),
                "dtype": rows.dtype.name,
                "format": "csr" if rows.facts[0].is_sparse else "dense",
                "partitions": len(rows.facts),
            },
            "rule": {"name": "SGD", "average": int(est.average)},
            "plane": {"name": type(plane).__name__, **vars(plane)},
            "barrier": name_of(barrier_of(est.barrier)),
            "stragglers": None,
            "runtime": "dask",
            "n_workers": len(found.workers),
            "step": {"kind": step.kind, "eta0": step.eta0, "power_t": step.power_t},
            "stop": {"epochs": est.max_iter, "tol": est.tol, "patience": est.n_iter_no_change},
            "seed": est.random_state if isinstance(est.random_state, int) else None,
            "block_rows": found.turn_rows,
            "exchange_rows": found.turn_rows,
        },
        versions=outcome.versions(),
        machine=outcome.machine(),
        n_epochs=found.n_epochs,
        converged=found.converged,
        stop_reason=reason,
        epoch_losses=found.epoch_losses,
        workers=found.workers,
        staleness=found.staleness,
        seconds={"setup": setup, "run": found.seconds, "total": setup + found.seconds},
        notes=found.notes,
    )


def fit_logistic(est: Any, X: Any, y: Any, sample_weight: Any, penalty: str | None) -> None:
    """Fit `LogisticRegression` to the optimum, and set its attributes."""
    began = time.perf_counter()
    if penalty in ("l1", "elasticnet"):
        refuse("penalty with l1", "use l2 or none, or SGDClassifier(loss='log_loss') with l1")
    if est.solver == "liblinear":
        refuse("solver='liblinear', whose intercept is penalised", "use solver='lbfgs'")
    if est.max_iter == 0:
        refuse("max_iter=0", "use at least 1")
    check_workers(est)
    with PartitionedRows(X, y, sample_weight, with_labels=True) as rows:
        classes, _, weights = rows.labels()
        check_labels(classes)
        est.classes_ = classes
        est._check_classes()
        by_class = None
        if est.class_weight is not None:
            by_class = weights_of(est.class_weight, classes, weights)
        total = float(weights @ (np.ones(len(classes)) if by_class is None else by_class))
        alpha = strength(np.inf if penalty is None else est.C, total)
        meaning = Meaning(
            loss="multinomial",
            penalty=penalty if alpha > 0.0 else None,
            alpha=alpha,
            fit_intercept=est.fit_intercept,
            classes=classes,
            row_weights=by_class,
            scale=rows.n_rows / total,
            dtype=rows.dtype.name,
        )
        n_columns = 1 if len(classes) == 2 else len(classes)
        start = est._start(Shape(n_columns, rows.n_features, rows.dtype))
        found = minimise(rows, meaning, start, est.tol, est.max_iter)
        describe(est, rows)
        workers = len(rows.there())
    est._keep(est._fitted(found.model, 0.0), found.n_iter, "lbfgs")
    est.report_ = report_of(
        est,
        f"L-BFGS, on sums over the partitions of {workers} workers of a Dask cluster",
        "the rows are a Dask collection, and nothing has to be remembered of them between passes",
        began,
        found.converged,
    )
    est.report_.notes.append(
        f"{found.passes} passes over the rows; gradient {found.gradient:.3g}, "
        f"objective {found.objective:.9g}"
    )
    if not found.converged:
        warn_unconverged(
            f"after {found.n_iter} iterations the largest component of the gradient is "
            f"{found.gradient:.3g}, and tol={est.tol:g}. {SCALE}"
        )


def fit_ridge(est: Any, X: Any, y: Any, sample_weight: Any) -> None:
    """Fit `Ridge`, and set its attributes."""
    began = time.perf_counter()
    strengths = est._strengths()
    if strengths.size != 1 or getattr(y, "ndim", 1) > 1:
        refuse("several targets", "fit one at a time")
    if est.positive:
        refuse("positive=True", "leave it out")
    if est.solver not in ("auto", "cholesky", "sparse_cg"):
        refuse(f"solver={est.solver!r}", "use solver='auto'")
    check_workers(est)
    with PartitionedRows(X, y, sample_weight, with_labels=False) as rows:
        meaning = Meaning(
            loss="squared_error",
            penalty=None,
            alpha=0.0,
            fit_intercept=est.fit_intercept,
            dtype=rows.dtype.name,
        )
        found = least_squares(rows, meaning, float(strengths[0]), est.tol, est.max_iter)
        describe(est, rows)
        workers = len(rows.there())
    est._keep(np.zeros(1), found.coef[None], np.array([found.intercept], found.coef.dtype))
    est.n_iter_ = None if found.n_iter is None else np.array([found.n_iter], np.int32)
    est.solver_ = found.solver
    converged = None if found.n_iter is None else found.miss <= est.tol
    how = "the normal equations" if found.n_iter is None else "conjugate gradients"
    est.report_ = report_of(
        est,
        f"{how}, on sums over the partitions of {workers} workers of a Dask cluster",
        f"the rows are a Dask collection, and have {len(found.coef)} features",
        began,
        converged,
    )
    est.report_.notes.append(f"{found.passes} passes over the rows; residual {found.miss:.3g}")
    if converged is False:
        warn_unconverged(
            f"after {found.n_iter} iterations the residual is {found.miss:.3g}, and "
            f"tol={est.tol:g}. {SCALE}"
        )


def refuse(what: str, instead: str) -> NoReturn:
    """Say that something is not to be had of a Dask collection.

    Raises
    ------
    ValueError
    """
    raise ValueError(f"{what} is not supported with Dask collections: {instead}. {INSTEAD}")


def check_sgd(est: Any) -> None:
    """Refuse what descent on partitions cannot do."""
    if est.early_stopping:
        refuse("early_stopping=True", "leave it out; tol ends a fit by the training loss")
    if est.learning_rate in ("auto", "pa1", "pa2"):
        refuse(
            f"learning_rate={est.learning_rate!r}",
            "use 'optimal', 'constant', 'invscaling' or 'adaptive'; LogisticRegression and Ridge "
            "converge to the optimum",
        )
    if getattr(est, "_skl_callbacks", None):
        refuse("a callback", "use verbose=1 to hear of epochs")


def check_workers(est: Any) -> None:
    """Refuse workers of other kinds than the cluster's; and see that it is there."""
    client_here()
    check_jobs(est.n_jobs)
    if est.n_jobs is not None and est.n_jobs < -1:
        refuse(f"n_jobs={est.n_jobs}", "use None, -1 (all of the cluster's threads) or a number")
    if not plane_of(est.plane).has_copies:
        refuse("a plane without private copies", "use plane='shared'")
    if not chooses_runtime(est):
        refuse(f"runtime={est.runtime!r}", "use runtime='auto', which is the cluster's workers")
    if name_of(barrier_of(est.barrier)) != name_of(barrier_of(None)):
        refuse(f"barrier={est.barrier!r}", "use barrier=None; nobody gets an epoch ahead")


def check_labels(classes: np.ndarray) -> None:
    """Refuse what are no labels.

    Raises
    ------
    ValueError
        If they are numbers that are not whole, or if there is only one.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # each of them once is how they come here
        check_classification_targets(classes)
    if len(classes) < 2:
        raise ValueError(
            "The number of classes has to be greater than one; got 1 class, in all partitions."
        )


def weights_of(class_weight: Any, classes: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Weights of the classes, of which `counts` rows (or their weights) have each."""
    if isinstance(class_weight, str):  # "balanced", which has been checked
        return np.asarray(counts.sum() / (len(classes) * counts))
    return class_weights(compute_class_weight(class_weight, classes=classes, y=classes))


def describe(est: Any, rows: PartitionedRows) -> None:
    """Note what the features are."""
    est.n_features_in_ = rows.n_features
    names = rows.columns or ()
    if names and all(isinstance(name, str) for name in names):
        est.feature_names_in_ = np.asarray(names, dtype=object)
    elif hasattr(est, "feature_names_in_"):
        del est.feature_names_in_


def say(epoch: int, value: float, model: Model) -> None:
    """What `verbose` prints after an epoch."""
    print_epoch(epoch, model, f"Avg. loss and penalty: {value:f}")
