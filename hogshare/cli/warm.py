"""``hogshare warm``: compile what fits need, and keep it, before the first fit: for an image."""

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
from hogshare.words import listed, nearest

DTYPES = ("float32", "float64")  # of rows; others are converted
N_ROWS, N_FEATURES, N_CLASSES = 400, 10, 3
DONE = "warm.json"  # in the folder of kernels: what has been warmed, and the files there were then

AUTO = {"loss": "log_loss", "learning_rate": "auto"}
# settings of estimators, one for each rule
ESTIMATORS: dict[str, tuple[dict[str, Any], ...]] = {
    "SGDClassifier": ({}, AUTO),
    "SGDRegressor": ({},),
    "LogisticRegression": ({},),
    "LogisticRegressionCV": ({"Cs": 2, "cv": 2},),
    "Ridge": ({},),
    "RidgeClassifier": ({},),
    "Lasso": ({"alpha": 0.01},),
    "ElasticNet": ({"alpha": 0.01},),
}
REGRESSIONS = ("SGDRegressor", "Ridge", "Lasso", "ElasticNet")

Fit = tuple[str, Callable[[], Any]]


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "warm",
        help="compile what fits need, before the first one",
        description="Compile the kernels that estimators need, for dense and sparse rows, two "
        "classes and more, one worker and several, and keep them in the cache folder (see hogshare "
        "info; HOGSHARE_CACHE_DIR names another). For all estimators it takes a minute or two; "
        "what is there already is left as it is. With --rule, --plane, --exchange or --barrier: "
        "what hogshare.solve needs for these choices, and of estimators what is named besides. "
        "Exit code 1 if nothing can be kept.",
        epilog="example: hogshare warm SGDClassifier Ridge --dtype float32\n"
        "example: hogshare warm --rule saga --exchange none --barrier ssp:4",
        formatter_class=options.HelpFormatter,
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
        help="numbers of the rows (default: both)",
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
    """Return an estimator's name as it is spelt."""
    for name in ESTIMATORS:
        if text.lower() == name.lower():
            return name
    raise argparse.ArgumentTypeError(
        f"{text!r} is not {listed(ESTIMATORS)}.{nearest(text, ESTIMATORS)}"
    )


def run(args: Any) -> int:
    """Fit what is named to a few rows; tell what there is in the folder then."""
    from hogshare.kernels import jit, telling
    from hogshare.kernels.cache import KernelsNotKept

    if jit.JIT_DISABLED:
        console.say("hogshare: error: NUMBA_DISABLE_JIT is set, so that nothing is compiled")
        return 1
    begin = time.perf_counter()
    before = jit.kept()
    work = list(fits(args))
    done = all_done()
    if done.issuperset(what for what, _ in work):
        console.say("hogshare: nothing to do; all of it is there")
    else:
        console.say(f"hogshare: compiling into {jit.CACHE_FOLDER}, for up to two minutes")
        try:
            with (
                warnings.catch_warnings(),
                telling.block("warm", silent=True),
                console.progress(len(work), "compiling") as bar,
            ):
                warnings.simplefilter("ignore")  # so few rows are no problem to converge on
                warnings.simplefilter("error", KernelsNotKept)
                for what, fit in work:
                    bar.advance(f"({what})")
                    fit()
        except KernelsNotKept as trouble:
            console.say(f"hogshare: error: {trouble}")
            return 1
        write_down(done.union(what for what, _ in work))
    show(args.json, before, time.perf_counter() - begin)
    return 0


def show(as_json: bool, before: dict[str, int], seconds: float) -> None:
    """Print what there is, and what of it is new."""
    from hogshare.kernels import jit

    sizes = jit.kept()
    facts = {
        "folder of compiled kernels": str(jit.CACHE_FOLDER),
        "kernels": len(sizes),
        "of these new": len(sizes.keys() - before.keys()),
        "megabytes": round(sum(sizes.values()) / 1e6, 1),
        "seconds": round(seconds, 1),
    }
    if as_json:
        console.out(json.dumps(facts, indent=2))
    else:
        console.show_table(("what", "value"), [(name, str(value)) for name, value in facts.items()])


def all_done() -> set[str]:
    """What has been warmed for this processor, if all files of then are still there."""
    from hogshare.kernels import jit

    if jit.CACHE_FOLDER is None:
        return set()
    try:
        noted = json.loads((jit.CACHE_FOLDER / DONE).read_bytes())
        if noted["processor"] == jit.processor() and noted["files"].items() <= jit.kept().items():
            return set(noted["done"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass  # it says nothing, then
    return set()


def write_down(done: set[str]) -> None:
    """Note what has been warmed; where that cannot be written the next call looks for itself."""
    from hogshare import files
    from hogshare.kernels import jit

    noted = {"processor": jit.processor(), "files": jit.kept(), "done": sorted(done)}
    if jit.CACHE_FOLDER is not None:
        with contextlib.suppress(OSError):
            files.replace(jit.CACHE_FOLDER / DONE, json.dumps(noted, indent=2).encode())


def fits(args: Any) -> Iterator[Fit]:
    """Yield fits, each with a name, that compile all that is asked for."""
    import numpy as np
    import scipy.sparse as sp

    choices = {name: getattr(args, name, None) for name in ("rule", "plane", "barrier")}
    solves = any(choices.values()) or hasattr(args, "exchange")
    names = args.estimators or ([] if solves else list(ESTIMATORS))
    rng = np.random.default_rng(0)
    values = rng.standard_normal((N_ROWS, N_FEATURES))
    few, many = values[:, 0] > 0.0, rng.integers(N_CLASSES, size=N_ROWS)
    for dtype in args.dtype:
        dense = values.astype(dtype)
        for kind, X in (("dense", dense), ("sparse", sp.csr_array(dense))):
            rows = f"{kind} {dtype}"
            for name in names:
                targets = (values[:, 0],) if name in REGRESSIONS else (few, many)
                yield f"{name}, {rows}", functools.partial(fit_all, name, X, targets)
            if solves:
                settings = composition(args)
                words = ", ".join(str(value) for value in settings.values())
                yield f"solve, {words}, {rows}", functools.partial(run_all, settings, X, few, many)


def fit_all(name: str, X: Any, targets: tuple[Any, ...]) -> None:
    """Fit an estimator with each rule, with one worker and with two."""
    import hogshare

    for settings, y in itertools.product(ESTIMATORS[name], targets):
        for more in ({}, {"n_jobs": 2, "runtime": "threads"}):
            getattr(hogshare, name)(**settings, **more).fit(X, y)


def composition(args: Any) -> dict[str, Any]:
    """The arguments of `hogshare.solve` that are named.

    Raises
    ------
    WrongCommandLine
        If the master's plane is to have an exchange.
    """
    import hogshare
    from hogshare import barriers
    from hogshare.solvers import choices

    word = args.rule or "sgd"
    rule = word if word == choices.AUTO else choices.RULES[word]()
    exchange = getattr(args, "exchange", "auto")
    if args.plane == "master":
        if hasattr(args, "exchange"):
            raise options.WrongCommandLine("--exchange is for --plane shared")
        plane: Any = hogshare.Master()
    else:
        plane = hogshare.Shared(exchange=exchange)
    return {"rule": rule, "plane": plane, "barrier": barriers.parse(args.barrier or "asp")}


def run_all(settings: dict[str, Any], X: Any, *targets: Any) -> None:
    """Solve with these choices, for one column and for several, with one worker and with two."""
    from hogshare import Stop, problems, solve

    for y, n_workers in itertools.product(targets, (1, 2)):
        runtime = "threads" if n_workers > 1 else "caller"
        problem = problems.linear(X, y, alpha=1e-2)
        solve(problem, **settings, runtime=runtime, n_workers=n_workers, stop=Stop(epochs=2))
