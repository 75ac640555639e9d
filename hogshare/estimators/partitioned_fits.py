"""Fits of Dask collections by the estimators, through `hogshare.partitioned`.

This module is imported when a collection is passed to `fit`. Unsupported parameters are refused
before anything is computed. An argument `est` is the estimator.
"""

from __future__ import annotations

import copy
import time
import warnings
from typing import Any, NoReturn

import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state, compute_class_weight
from sklearn.utils.multiclass import (
    _check_partial_fit_first_call,
    check_classification_targets,
)
from sklearn.utils.validation import validate_data

from hogshare.barriers import barrier_of, name_of
from hogshare.estimators.convergence_warnings import warn_of_what_is_left, warn_without_optimum
from hogshare.estimators.epoch_tasks import print_epoch
from hogshare.estimators.parameters import MAX_INT
from hogshare.estimators.solver_report import report_of
from hogshare.estimators.workers import chooses_runtime, strength
from hogshare.optimum.compression import CompressedRows
from hogshare.optimum.full_batch import finish, method_for
from hogshare.partitioned import (
    Descended,
    DescentSettings,
    Meaning,
    PartitionedRows,
    descend,
    problem_of_all,
)
from hogshare.partitioned.partition_blocks import Block, Split, joined
from hogshare.problems.model import Model
from hogshare.problems.protocol import RowProblem
from hogshare.problems.weights import class_weights
from hogshare.report import Report
from hogshare.rules.sgd import SGD
from hogshare.runtimes.choice import check_jobs
from hogshare.solvers import outcome
from hogshare.solvers.choice_names import plane_of
from hogshare.system.callers import warn
from hogshare.system.clusters import local_client, this_worker
from hogshare.system.interrupts import errstate

MEANT = ("loss", "penalty", "alpha", "l1_ratio", "fit_intercept")
# a sum over partitions takes the scheduler 10 ms, too long for each of many products
AFAR = {"few": 1000, "modest": 0}
INSTEAD = "If the rows fit in this machine's memory, pass X.compute()."


def fit_sgd(
    est: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    init: tuple[Any, Any] | None,
    max_iter: int | None,
    classes: Any,
    reset: bool,
) -> None:
    """Fit an SGD estimator, and set its attributes.

    init, max_iter, classes, reset : as in `SGDMixin._pass`
    """
    began, classifies, anew = time.perf_counter(), is_classifier(est), max_iter is not None
    if is_one_partition(X):
        if not anew:
            method, how = "partial_fit", {"classes": classes} if classifies else {}
        else:
            assert init is not None
            method, how = "fit", {"coef_init": init[0], "intercept_init": init[1]}
        fit_whole(est, X, y, sample_weight, method=method, reset=reset, **how)
        return
    check_sgd(est, anew)
    check_workers(est)
    plane = plane_of(est.plane)
    with PartitionedRows(X, y, sample_weight, with_labels=classifies) as rows:
        rows.require_one_target()
        if not reset:
            check_columns(est, rows)
        by_class = None
        if classifies:
            present, counts, _ = rows.labels()
            classes = present if anew else labels_of(est, classes, present)
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
        shape = n_columns, rows.n_features
        start = est._first_model(shape, rows.dtype, *(init or (None, None)))
        if init is None:
            start = going_on(est, shape, rows.dtype)
        settings = DescentSettings(
            step=est._step_size(),
            epochs=max_iter or 1,
            tol=est.tol if anew else None,
            patience=est.n_iter_no_change,
            shuffle=est.shuffle,
            seed=int(check_random_state(est.random_state).randint(MAX_INT)),
            average=int(est.average),
            exchange=None if plane.is_automatic else plane.interval(None),
            most=None if est.n_jobs in (None, -1) else int(est.n_jobs),  # quanta at one time
            split=split_of(est) if est.early_stopping and anew else None,
            heard=say if est.verbose else None,
        )
        setup = time.perf_counter() - began
        found = descend(rows, meaning, settings, start)
        report = report_on(est, rows, meaning, found, setup)
        if reset:
            describe(est, rows)
    if classes is not None:
        est.classes_ = classes
    t = start.t + found.n_epochs * report.settings["problem"]["rows"]
    est._set_attributes(report, lambda model: est._fitted(model, t))
    if found.absurd:
        warn(
            outcome.absurd(SGD(), est._step_size()),
            ConvergenceWarning,
        )
    if anew:
        est._warn(report, est.max_iter)


def split_of(est: Any) -> Split:
    """Return the split into training and held-out rows that the estimator's parameters request."""
    seed = check_random_state(est.random_state).randint(MAX_INT)
    return Split(float(est.validation_fraction), int(seed))


def labels_of(est: Any, classes: Any, present: np.ndarray) -> np.ndarray:
    """Return the labels that `partial_fit` knows, which must include the labels in `present`.

    In the first call, sets `classes_`.

    classes : the argument of `partial_fit`; None if not given
    present : the distinct labels of all partitions, sorted

    Raises ValueError if a label is unknown, or if the first call does not name the labels.
    """
    _check_partial_fit_first_call(est, classes)
    known: np.ndarray = est.classes_
    if new := sorted(set(present.tolist()) - set(known.tolist()), key=str):
        raise ValueError(
            f"y contains the label {new[0]!r}, which is not in classes={known}: name all labels "
            "in the first call of partial_fit."
        )
    return known


def going_on(est: Any, shape: tuple[int, int], dtype: np.dtype) -> Model:
    """Return the model from which `partial_fit` continues: a copy of the present model."""
    coef = np.array(np.reshape(est.coef_, shape), dtype)
    return Model(coef, np.array(np.atleast_1d(est.intercept_), dtype), float(est.t_))


def report_on(
    est: Any, rows: PartitionedRows, meaning: Meaning, found: Descended, setup: float
) -> Report:
    """Return the report of a descent.

    setup : seconds before the descent
    """
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
            "block_rows": found.quantum_rows,
            "exchange_rows": found.quantum_rows,
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
    """Fit `LogisticRegression` to the optimum, and set its attributes.

    penalty : name of the penalty; None without one
    """
    began = time.perf_counter()
    if is_one_partition(X) or est.solver == "liblinear":
        fit_whole(est, X, y, sample_weight)
        return
    check_workers(est)
    with PartitionedRows(X, y, sample_weight, with_labels=True) as rows:
        classes, _, weights = rows.labels()
        check_labels(classes)
        est.classes_ = classes
        est._check_classes(est.classes_)
        by_class = None
        if est.class_weight is not None:
            by_class = weights_of(est.class_weight, classes, weights)
        total = float(weights @ (np.ones(len(classes)) if by_class is None else by_class))
        alpha = strength(np.inf if penalty is None else est.C, total)
        meaning = Meaning(
            loss="multinomial",
            penalty=penalty if alpha > 0.0 else None,
            alpha=alpha,
            l1_ratio=est.l1_ratio or 0.0,
            fit_intercept=est.fit_intercept,
            classes=classes,
            row_weights=by_class,
            scale=rows.n_rows / total,
            dtype=rows.dtype.name,
        )
        problem = problem_of_all(rows, meaning)
        stop = est._stop(problem, est.max_iter, False)
        method = method_for(problem, est.solver, **AFAR)
        heard = say_objective if est.verbose else None
        found = finish(problem, est._start(problem), stop, method, est.max_iter, heard=heard)
        describe(est, rows)
        workers = len(rows.workers_present())
        n_iter = sum(found.iterations.values())
        names = list(found.iterations) or [method if est.max_iter else "none"]
        est._set_attributes(est._fitted(found.model, 0.0), n_iter, ", ".join(names))
        est.report_ = report_of(
            est,
            f"{' and '.join(map(repr, names))}, on sums over the partitions of {workers} workers "
            "of a Dask cluster",
            "the rows are a Dask collection, and this method stores nothing per row between passes",
            began,
            found.converged,
        )
        est.report_.notes.append(
            f"{found.sentence}; the objective is {found.found['objective']:.9g}"
        )
        if not found.converged:
            warn_of_what_is_left(
                f"after {n_iter} iterations {found.sentence}", n_iter, est.max_iter, problem
            )
        warn_without_optimum(problem, found.model)


def fit_ridge(est: Any, X: Any, y: Any, sample_weight: Any) -> None:
    """Fit `Ridge`, and set its attributes."""
    began = time.perf_counter()
    if est.solver not in ("auto", "cholesky", "sparse_cg") and not is_one_partition(X):
        refuse(f"solver={est.solver!r}", "use solver='auto'")
    check_workers(est)
    if not is_one_partition(X):
        with PartitionedRows(X, y, sample_weight) as rows:
            if est._reads_parts(rows.n_features):
                if est._is_exact(rows.n_features, rows.is_sparse):
                    fit_condensed(est, rows, began)
                else:
                    fit_by_products(est, rows, began)
                return
    fit_whole(est, X, y, sample_weight)


def fit_by_products(est: Any, rows: PartitionedRows, began: float) -> None:
    """Fit ridge regression by conjugate gradients, target by target, and set the attributes."""
    total, n_targets = rows.weight_sum, rows.facts[0].n_targets
    middle = rows.moments(est.fit_intercept).y_mean

    def state(target: int, strength: float) -> RowProblem:
        meaning = Meaning(
            loss="squared_error",
            penalty="l2" if strength > 0.0 else None,
            alpha=strength / total,
            fit_intercept=est.fit_intercept,
            scale=rows.n_rows / total,
            dtype=rows.dtype.name,
            target=target,
            middle=float(middle[target]),
        )
        return problem_of_all(rows, meaning)

    n_dim = 2 if n_targets else 1
    est._fit_by_products(state, middle, n_dim, f"of {len(rows.facts)} partitions", began)
    describe(est, rows)


def fit_lasso(
    est: Any, X: Any, y: Any, sample_weight: Any
) -> tuple[Any, CompressedRows] | tuple[None, None]:
    """Fit `Lasso` or `ElasticNet`, and set its attributes.

    Returns the result of `fit_condensed`; two None if one worker has collected and fitted all rows.
    """
    began = time.perf_counter()
    check_workers(est)
    if not is_one_partition(X):
        with PartitionedRows(X, y, sample_weight) as rows:
            if est._reads_parts(rows.n_features):
                return fit_condensed(est, rows, began)
    fit_whole(est, X, y, sample_weight)
    return None, None


def fit_condensed(est: Any, rows: PartitionedRows, began: float) -> tuple[Any, CompressedRows]:
    """Fit least squares on the compressed rows, and set the attributes.

    Returns scikit-learn's estimator, fitted on the compressed rows, and these rows.
    """
    few = rows.condensed(est.fit_intercept)
    n_dim = 2 if rows.facts[0].n_targets else 1
    whose = f"of {len(rows.facts)} partitions"
    found = est._fit_few(few, est._few_rows, n_dim, rows.dtype, whose, began)
    describe(est, rows)
    return found, few


def is_one_partition(X: Any) -> bool:
    """Whether a collection is one partition, whose worker can fit it as a single machine would."""
    return int(getattr(X, "npartitions", 0)) == 1


def fit_whole(
    est: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    method: str = "fit",
    with_targets: bool = True,
    reset: bool = True,
    **how: Any,
) -> None:
    """Have one worker collect and fit all rows, and copy the attributes of its estimator to `est`.

    A generator in `random_state` advances as in a fit of this process.

    method : name of the estimator's method that fits
    with_targets : whether this method takes `y`
    reset : as in `SGDMixin._pass`
    how : further keyword arguments of this method
    """
    if getattr(est, "_skl_callbacks", None):
        refuse("a callback", "use verbose=1 to print epochs")
    with PartitionedRows(X, y, sample_weight, with_targets=with_targets) as rows:
        if not reset:
            check_columns(est, rows)
        attributes, warned = rows.whole(fit_on_worker, est, method, how)
        # attributes of an earlier fit that the worker's estimator does not have
        for name in vars(est).keys() - attributes.keys() - {"feature_names_in_"}:
            delattr(est, name)
        parameters = est.get_params(deep=False)
        vars(est).update({k: v for k, v in attributes.items() if k not in parameters})
        if isinstance(parameters.get("random_state"), np.random.RandomState):
            est.random_state.set_state(attributes["random_state"].get_state())
        if reset:
            describe(est, rows)
        count = len(rows.facts)
    where = "the worker that has it" if count == 1 else "one worker, which collected them"
    note = f"{count} partition{'s' if count > 1 else ''}, fitted by {where}"
    for report in est.report_ if isinstance(est.report_, list) else [est.report_]:
        report.notes.append(note)
    for text, category in warned:
        warn(text, category)


def fit_on_worker(
    est: Any, method: str, how: dict[str, Any], *blocks: Block
) -> tuple[dict[str, Any], list[tuple[str, type[Warning]]]]:
    """On a worker, fit the rows of all blocks; return the attributes and the caught warnings."""
    est = copy.deepcopy(est)  # a worker may be a thread of the caller's process
    vars(est).pop("feature_names_in_", None)  # the client has compared them; blocks have no names
    X, y, weight = joined(blocks)
    if est.n_jobs == -1:
        est.n_jobs = max(1, int(this_worker().state.nthreads))
    if weight is not None:
        how = {**how, "sample_weight": weight}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        getattr(est, method)(X, y, **how)
    # without the worker's object id, by which an estimator recognizes its own arrays
    attributes = {name: value for name, value in vars(est).items() if name != "_run_by"}
    return attributes, [(str(one.message), one.category) for one in caught]


def refuse(what: str, instead: str) -> NoReturn:
    """Raise an error for a parameter that is not supported with Dask collections.

    what : the parameter and its value
    instead : advice what to use

    Raises
    ------
    ValueError
    """
    raise ValueError(f"{what} is not supported with Dask collections: {instead}. {INSTEAD}")


def check_sgd(est: Any, anew: bool) -> None:
    """Refuse parameters that descent on partitions does not support.

    anew : False if the fit continues from a model
    """
    if est.average and not anew:
        refuse("average with partial_fit", "use fit, or average=False")
    if est.learning_rate in ("auto", "pa1", "pa2"):
        refuse(
            f"learning_rate={est.learning_rate!r}",
            "use 'optimal', 'constant', 'invscaling' or 'adaptive'; LogisticRegression and Ridge "
            "converge to the optimum",
        )
    if getattr(est, "_skl_callbacks", None):
        refuse("a callback", "use verbose=1 to print epochs")


def check_workers(est: Any) -> None:
    """Refuse workers other than the cluster's; raise an error if there is no cluster."""
    local_client()
    check_jobs(est.n_jobs)
    if est.n_jobs is not None and est.n_jobs < -1:
        refuse(f"n_jobs={est.n_jobs}", "use None, -1 (all of the cluster's threads) or a number")
    if not plane_of(est.plane).has_copies:
        refuse("a plane without private copies", "use plane='shared'")
    if not chooses_runtime(est):
        refuse(f"runtime={est.runtime!r}", "use runtime='auto', which is the cluster's workers")
    if name_of(barrier_of(est.barrier)) != name_of(barrier_of(None)):
        refuse(f"barrier={est.barrier!r}", "use barrier=None; no worker gets an epoch ahead")


def check_labels(classes: np.ndarray) -> None:
    """Refuse values that are not class labels.

    classes : the distinct labels of all partitions, sorted

    Raises
    ------
    ValueError
        If the labels are fractions, or if there is only one label.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # scikit-learn warns if all labels differ
        check_classification_targets(classes)
    if len(classes) < 2:
        raise ValueError(
            "The number of classes has to be greater than one; got 1 class, in all partitions."
        )


def weights_of(class_weight: Any, classes: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the weight of each class.

    class_weight : the parameter of the estimator
    classes : the distinct labels, sorted
    counts : number of rows, or sum of the rows' weights, of each class that has rows

    Raises ValueError if the weights should be balanced and a class has no rows.
    """
    if isinstance(class_weight, str):  # "balanced": other strings have been refused
        if len(counts) < len(classes):
            raise ValueError(
                f"classes should have valid labels that are in y: class_weight={class_weight!r} "
                f"needs rows of all classes, {classes}. Pass such rows, or set class_weight to a "
                "dict of weights."
            )
        with errstate(divide="ignore"):  # a class of zero weight is refused
            return class_weights(counts.sum() / (len(classes) * counts))
    return class_weights(compute_class_weight(class_weight, classes=classes, y=classes))


def check_columns(est: Any, rows: PartitionedRows) -> None:
    """Compare the number and names of the columns with those of the estimator's earlier fit.

    Raises ValueError if they differ; warns if only one of the two has names.
    """
    like: Any = np.empty((0, rows.n_features))
    if rows.columns:
        from pandas import DataFrame  # type: ignore[import-untyped]

        like = DataFrame(columns=rows.columns)
    validate_data(est, like, reset=False, skip_check_array=True)


def describe(est: Any, rows: PartitionedRows) -> None:
    """Set the estimator's `n_features_in_`, and `feature_names_in_` if all names are strings."""
    est.n_features_in_ = rows.n_features
    names = rows.columns or ()
    if names and all(isinstance(name, str) for name in names):
        est.feature_names_in_ = np.asarray(names, dtype=object)
    elif hasattr(est, "feature_names_in_"):
        del est.feature_names_in_


def say_objective(iteration: int, value: float, model: Model) -> None:
    """Print the lines of `verbose` after an iteration of a full-batch method."""
    print_epoch(iteration, model, f"Objective: {value:f}", what="Iteration")


def say(epoch: int, value: float, model: Model) -> None:
    """Print the lines of `verbose` after an epoch."""
    print_epoch(epoch, model, f"Avg. loss and penalty: {value:f}")
