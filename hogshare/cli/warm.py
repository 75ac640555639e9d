"""``hogshare warm``: compile and cache the kernels of fits beforehand, as for a container image."""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import json
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from hogshare.cli import console, options

DTYPES = ("float32", "float64")  # of rows; other types are converted
# shapes of data that suit SAGA, and of text-like data that suit SDCA
TALL, WIDE = (400, 10), (60, 200)
N_CLASSES = 3
FAR_OFF = 3.0  # added to dense values; columns far from zero are fitted as if they were scaled
DONE = "warm.json"  # record in the cache folder: the warmed fits, and the files after them

AUTO = {"learning_rate": "auto"}
MEAN = {"average": True}
BRIEFLY = {"max_iter": 2}
# settings of estimators: one for each rule, and one to continue from a model
ESTIMATORS: dict[str, tuple[dict[str, Any], ...]] = {
    "SGDClassifier": ({}, MEAN, {"loss": "log_loss", **AUTO}),
    "SGDRegressor": ({}, MEAN, AUTO),
    "LogisticRegression": ({}, {"warm_start": True}),
    "LogisticRegressionCV": ({"Cs": 2, "cv": 2},),
    "Ridge": ({}, {"alpha": 0.0}),
    "RidgeClassifier": ({}, {"alpha": 0.0}),
    "Lasso": ({"alpha": 0.01},),
    "ElasticNet": ({"alpha": 0.01},),
    "MLPClassifier": (BRIEFLY, {"solver": "sgd", **BRIEFLY}),
    "MLPRegressor": (BRIEFLY, {"solver": "sgd", **BRIEFLY}),
    "LatentDirichletAllocation": ({"learning_method": "online"}, {"learning_method": "batch"}),
    "MatrixFactorization": ({}, {"loss": "bpr"}),
}
REGRESSIONS = ("SGDRegressor", "Ridge", "Lasso", "ElasticNet", "MLPRegressor")

Fit = tuple[str, Callable[[], Any]]
Data = tuple[Any, tuple[Any, ...]]  # rows and several targets


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "warm",
        help="compile the kernels of fits beforehand",
        description="Compile the kernels that estimators need, for dense and sparse rows, two "
        "classes and more, one worker and several, and store them in the cache folder (see "
        "hogshare info; HOGSHARE_CACHE_DIR names another). For all estimators it takes some "
        "minutes; kernels in the cache are not compiled again. With --rule, --plane, --exchange or "
        "--barrier: compile the kernels of hogshare.solve for these choices, and of the named "
        "estimators, which get this barrier too. "
        "Exit code 1 if nothing can be cached.",
        epilog="example: hogshare warm SGDClassifier Ridge --dtype float32\n"
        "example: hogshare warm --rule saga --exchange none --barrier ssp:4",
    )
    parser.add_argument(
        "estimators",
        metavar="ESTIMATOR",
        type=estimator,
        nargs="*",
        help=f"{', '.join(ESTIMATORS)} (default: all)",
    )
    parser.add_argument(
        "--dtype",
        choices=DTYPES,
        nargs="+",
        default=list(DTYPES),
        help="type of the rows' values (default: both)",
    )
    parser.add_argument(
        "--rule", type=options.part("rule"), help="of solve: sgd, sdca, saga or auto (default: sgd)"
    )
    parser.add_argument(
        "--plane", type=options.part("plane"), help="of solve: shared or master (default: shared)"
    )
    parser.add_argument(
        "--exchange",
        type=options.exchange,
        default=argparse.SUPPRESS,
        help="of the shared plane: auto, or none for one vector without locks (default: auto)",
    )
    parser.add_argument("--barrier", type=options.barrier, help="of solve (default: asp)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def estimator(text: str) -> str:
    """Return an estimator's name in its proper spelling."""
    return options.known_name(text, ESTIMATORS)


def run(args: Any) -> int:
    """Fit the named estimators to a few rows; report the content of the cache folder."""
    from hogshare.estimators import few_rows
    from hogshare.kernels.jit import announcements, decorators
    from hogshare.kernels.jit.cache import KernelsNotCached

    if decorators.JIT_DISABLED:
        console.say("hogshare: error: NUMBA_DISABLE_JIT is set, so nothing is compiled: unset it")
        return 1
    begin = time.perf_counter()
    before = decorators.cached_files()
    work = list(fits(args))
    done = all_done()
    if done.issuperset(what for what, _ in work):
        console.say("hogshare: nothing to do; all kernels are in the cache")
    else:
        console.say(f"hogshare: compiling into {decorators.CACHE_FOLDER}, for some minutes")
        try:
            with (
                warnings.catch_warnings(),
                announcements.block("warm", silent=True),
                few_rows.fitted_by_workers(),
                console.progress(len(work), "compiling") as bar,
            ):
                warnings.simplefilter("ignore")  # fits to a few rows need not converge
                warnings.simplefilter("error", KernelsNotCached)
                for what, fit in work:
                    bar.advance(f"({what})")
                    fit()
        except KernelsNotCached as trouble:
            console.say(f"hogshare: error: {trouble}")
            return 1
        write_down(done.union(what for what, _ in work))
    show(args.json, before, time.perf_counter() - begin)
    return 0


def show(as_json: bool, before: dict[str, int], seconds: float) -> None:
    """Print the number of compiled kernels, and how many of them are new."""
    from hogshare.kernels.jit import decorators

    sizes = decorators.cached_files()
    facts = {
        "folder of compiled kernels": str(decorators.CACHE_FOLDER),
        "kernels": len(sizes),
        "of these new": len(sizes.keys() - before.keys()),
        "megabytes": round(sum(sizes.values()) / 1e6, 1),
        "seconds": round(seconds, 1),
    }
    rows = [(name, str(value)) for name, value in facts.items()]
    console.show_data(as_json, facts, ("what", "value"), rows)


def all_done() -> set[str]:
    """Return the fits warmed for this processor, if all their files still exist."""
    from hogshare.kernels.jit import decorators

    if decorators.CACHE_FOLDER is None:
        return set()
    try:
        noted = json.loads((decorators.CACHE_FOLDER / DONE).read_bytes())
        if (
            noted["processor"] == decorators.processor()
            and noted["files"].items() <= decorators.cached_files().items()
        ):
            return set(noted["done"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass  # if the record is missing or damaged, nothing counts as warmed
    return set()


def write_down(done: set[str]) -> None:
    """Record the warmed fits; if the record cannot be written, the next call repeats them."""
    from hogshare.kernels.jit import decorators
    from hogshare.system import files

    noted = {
        "processor": decorators.processor(),
        "files": decorators.cached_files(),
        "done": sorted(done),
    }
    if decorators.CACHE_FOLDER is not None:
        with contextlib.suppress(OSError):
            files.replace(decorators.CACHE_FOLDER / DONE, json.dumps(noted, indent=2).encode())


def fits(args: Any) -> Iterator[Fit]:
    """Yield named fits that compile all requested kernels."""
    import numpy as np

    choices = {name: getattr(args, name, None) for name in ("rule", "plane", "barrier")}
    solves = any(choices.values()) or hasattr(args, "exchange")
    names = args.estimators or ([] if solves else list(ESTIMATORS))
    rng = np.random.default_rng(0)
    tall, wide = (rng.standard_normal(shape) for shape in (TALL, WIDE))
    yield "labels and values, workers that come late", without_rows
    for dtype, (kind, form) in itertools.product(args.dtype, FORMS.items()):
        rows = f"{kind} rows of {dtype}"
        numbers, classes = [], []
        for values in (tall, wide, tall + FAR_OFF):
            X, z = form(values.astype(dtype)), np.ascontiguousarray(values[:, 0])
            numbers.append((X, (z,)))
            classes.append((X, (z > 0.0, rng.integers(N_CLASSES, size=len(z)))))
        for name in names:
            data = numbers if name in REGRESSIONS else classes
            barred = [args.barrier] if args.barrier else []
            what = ", ".join((name, *barred, rows))
            yield what, functools.partial(fit_all, name, data, *barred)
        if solves:
            settings = composition(args)
            words = ", ".join(str(value) for value in settings.values())
            yield f"solve, {words}, {rows}", functools.partial(run_all, settings, classes)


def sparse(values: Any) -> Any:
    """Make sparse rows: plain for few columns, otherwise in the form of vectorizers' output.

    Vectorizers' output has unordered columns, and 64-bit indices, which need other checks.
    """
    import numpy as np
    import scipy.sparse as sp

    X = sp.csr_array(values)
    if X.shape == WIDE:
        X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
        X.indices[:2] = X.indices[1::-1].copy()
        X.has_sorted_indices = X.has_canonical_format = False
    return X


FORMS: dict[str, Callable[[Any], Any]] = {"dense": lambda values: values, "sparse": sparse}


def without_rows() -> None:
    """Compile the kernels that are the same for all fits."""
    import numpy as np

    from hogshare.estimators import validation
    from hogshare.kernels import layout
    from hogshare.kernels.schedule import repair
    from hogshare.problems.kernel_arrays import FLOATS
    from hogshare.problems.linear import labels, row_arrays

    for kind in labels.NUMBERS:
        labels.pair_of(np.zeros(1, kind))
    for kind in FLOATS:
        validation.is_finite(np.zeros(row_arrays.MANY, kind))
    repair.refuse(np.zeros(layout.N_TABLE, np.int64))  # used to end runs of processes


def fit_all(name: str, data: list[Data], barrier: str | None = None) -> None:
    """Fit an estimator with each rule, with one and two workers, and continue from its model."""
    import numpy as np

    import hogshare
    from hogshare.kernels.rows import moments

    for X, targets in data:
        if hasattr(X, "indptr"):  # feature counts are used for many features and some rules only
            moments.nonzeros_of(hogshare.problems.linear(X, targets[0]).rows, X.shape[1])
    if name == "LatentDirichletAllocation":
        data = [(abs(X), (None,)) for X, _ in data]  # counts without labels
    elif name == "MatrixFactorization":
        data = [ratings_of(X) for X, _ in data]
    kind = getattr(hogshare, name)
    two = {"n_jobs": 2, "runtime": "threads"}
    runs: list[dict[str, Any]] = [{}, two]
    if barrier is not None and "barrier" in kind().get_params():
        runs.append({**two, "barrier": barrier})
    for settings, (X, targets), run in itertools.product(ESTIMATORS[name], data, runs):
        for y in targets:
            if name == "MatrixFactorization":
                kind(**settings, **run).fit(*X, *([] if "loss" in settings else [y]))
                continue
            estimator = kind(**settings, **run).fit(X, y)
            if "warm_start" in settings:
                estimator.fit(X, y)
            elif hasattr(kind, "partial_fit") and "learning_rate" not in settings:
                estimator = kind(**settings, **run)
                has_classes = y is not None and name not in REGRESSIONS
                classes = {"classes": np.unique(y)} if has_classes else {}
                for _ in range(2):
                    estimator.partial_fit(X, y, **classes)


def ratings_of(X: Any) -> Data:
    """Make users, items and ratings from rows of any form."""
    import numpy as np

    values = np.abs(X[:, [0]].toarray() if hasattr(X, "indptr") else X[:, :1])[:, 0]
    places = np.arange(len(values))
    return (places % 17, places // 17 % 11), (values,)


def composition(args: Any) -> dict[str, Any]:
    """Return the arguments of `hogshare.solve` given on the command line.

    Raises
    ------
    WrongCommandLine
        If an exchange is given for the master plane, or the rule has no kernels for rows.
    """
    import hogshare
    from hogshare import barriers
    from hogshare.solvers import choice_names

    word = args.rule or "sgd"
    if word != choice_names.AUTO and not choice_names.RULES[word].has_kernels:
        raise options.WrongCommandLine(
            f"--rule {word} takes gradients instead of rows and has no kernels to compile for "
            "linear problems: use sgd, sdca, saga or auto"
        )
    rule = word if word == choice_names.AUTO else choice_names.RULES[word]()
    exchange = getattr(args, "exchange", "auto")
    if args.plane == "master":
        if hasattr(args, "exchange"):
            raise options.WrongCommandLine("--exchange is for --plane shared")
        plane: Any = hogshare.Master()
    else:
        plane = hogshare.Shared(exchange=exchange)
    return {"rule": rule, "plane": plane, "barrier": barriers.parse(args.barrier or "asp")}


def run_all(settings: dict[str, Any], data: list[Data]) -> None:
    """Solve with these choices, for two and for more classes, with one and two workers."""
    from hogshare import Stop, problems, solve

    cases = ((X, y) for X, targets in data for y in targets)
    for (X, y), n_workers in itertools.product(cases, (1, 2)):
        runtime = "threads" if n_workers > 1 else "caller"
        problem = problems.linear(X, y, alpha=1e-2)
        solve(problem, **settings, runtime=runtime, n_workers=n_workers, stop=Stop(epochs=2))
