"""``hogshare warmup``: compile what fits need, and keep it, before the first fit: for an image."""

from __future__ import annotations

import functools
import json
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from hogshare.cli import console, options

DTYPES = ("float32", "float64")  # of rows; others are converted
N_ROWS, N_FEATURES, N_CLASSES = 400, 10, 3


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "warmup",
        help="compile what fits need, before the first one",
        description="Compile the kernels that estimators need, for dense and sparse rows, and keep "
        "them in the cache folder (see hogshare info; HOGSHARE_CACHE_DIR names another). It takes "
        "a minute or two; what is there already is left as it is. Exit code 1 if nothing can be "
        "kept.",
        epilog="example: hogshare warmup --dtype float32",
        formatter_class=options.HelpFormatter,
    )
    parser.add_argument(
        "--dtype",
        choices=DTYPES,
        nargs="+",
        default=list(DTYPES),
        help="numbers of the rows (default: both)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(args: Any) -> int:
    """Fit each estimator to a few rows; tell what there is in the folder then."""
    from hogshare.kernels import jit
    from hogshare.kernels.cache import KernelsNotKept

    begin = time.perf_counter()
    before = jit.kept()
    work = list(fits(args.dtype))
    with warnings.catch_warnings(), console.progress(len(work), "compiling") as bar:
        warnings.simplefilter("ignore")  # so few rows are no problem to converge on
        warnings.simplefilter("error", KernelsNotKept)
        try:
            for what, fit in work:
                bar.advance(what)
                fit()
        except KernelsNotKept as trouble:
            console.say(f"hogshare: error: {trouble}")
            return 1
    sizes = jit.kept()
    facts = {
        "folder of compiled kernels": str(jit.CACHE_FOLDER),
        "kernels": len(sizes),
        "of these new": len(sizes.keys() - before.keys()),
        "megabytes": round(sum(sizes.values()) / 1e6, 1),
        "seconds": round(time.perf_counter() - begin, 1),
    }
    if args.json:
        console.out(json.dumps(facts, indent=2))
    else:
        console.show_table(("what", "value"), [(name, str(value)) for name, value in facts.items()])
    return 0


def fits(dtypes: list[str]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield fits, each with a name, that compile all that estimators need."""
    import numpy as np
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    values = rng.standard_normal((N_ROWS, N_FEATURES))
    few, many = values[:, 0] > 0.0, rng.integers(N_CLASSES, size=N_ROWS)
    for dtype in dtypes:
        dense = values.astype(dtype)
        for kind, X in (("dense", dense), ("sparse", sp.csr_array(dense))):
            for name, estimator in estimators():
                targets = (values[:, 0],) if name in REGRESSIONS else (few, many)
                for y in targets:
                    yield f"({name}, {kind} {dtype})", functools.partial(estimator.fit, X, y)


REGRESSIONS = ("SGDRegressor", "Ridge", "Lasso", "ElasticNet")


def estimators() -> Iterator[tuple[str, Any]]:
    """Yield estimators by name, one for each rule, with one worker and with two."""
    import hogshare

    auto = {"loss": "log_loss", "learning_rate": "auto"}
    for name, settings in (
        ("SGDClassifier", {}),
        ("SGDClassifier", auto),
        ("SGDRegressor", {}),
        ("LogisticRegression", {}),
        ("LogisticRegressionCV", {"Cs": 2, "cv": 2}),
        ("Ridge", {}),
        ("RidgeClassifier", {}),
        ("Lasso", {"alpha": 0.01}),
        ("ElasticNet", {"alpha": 0.01}),
    ):
        estimator = getattr(hogshare, name)
        yield name, estimator(**settings)
        yield name, estimator(**settings, n_jobs=2, runtime="threads")
