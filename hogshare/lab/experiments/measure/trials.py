"""What the benches of runs share: the problem, contestants in turn, the result, medians."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from hogshare.cli import console
from hogshare.report import Report, Trace

# share of the gain that a default target leaves out
LAST_PART = 0.01

Contestant = TypeVar("Contestant")


def problem_of(X: Any, y: Any, settings: dict[str, Any]) -> Any:
    """Return the linear problem that the command line describes."""
    from hogshare import problems

    wanted = ("loss", "penalty", "alpha", "l1_ratio")
    return problems.linear(X, y, **{name: settings[name] for name in wanted})


def default_step(X: Any) -> float:
    """Return one over the mean squared norm of a row: safe for log loss, whatever the rows."""
    import numpy as np

    values = X.data if hasattr(X, "indptr") else np.asarray(X)
    total = float(np.square(values, dtype=np.float64).sum())
    return X.shape[0] / total if total > 0.0 else 1.0


def has_own_steps(problem: Any) -> bool:
    """Whether a problem says its steps itself, each of a block of rows."""
    from hogshare.problems.protocol import by_gradient

    return by_gradient(problem) and problem.has_steps


def default_target(runs: list[dict[str, Any]]) -> float:
    """Return what every run comes down to that ends better than it began.

    That is where the worst of them has made all but a hundredth of its gain.
    """
    ends = [(run["trace"]["objective"][0], run["trace"]["objective"][-1]) for run in runs]
    gains = [(start, end) for start, end in ends if end is not None and end < start]
    if not gains:
        raise ValueError("no run has come below its start; take a smaller --step")
    return float(max(end + LAST_PART * (start - end) for start, end in gains))


def in_turn(contestants: list[Contestant], number: int) -> list[Contestant]:
    """Return them in the order of a round.

    Each round begins with another: a slow minute then hits all alike.
    """
    shift = number % len(contestants)
    return contestants[shift:] + contestants[:shift]


def race(
    racing: list[Contestant],
    rounds: int,
    what: str,
    warm_up: Callable[[], Any],
    run: Callable[[Contestant, int], Any],
) -> float:
    """Let every contestant run in every round; returns what the warm-up took, in seconds.

    what : names the bar of progress
    run : ``run(contestant, round)``
    """
    with console.progress(len(racing) * rounds + 1, what) as progress:
        begin = time.perf_counter()
        warm_up()
        seconds = time.perf_counter() - begin
        progress.advance("(warming up)")
        for number in range(rounds):
            for one in in_turn(racing, number):
                run(one, number)
                progress.advance(f"(round {number + 1}, {one})")
    return seconds


def name_of(contestant: tuple[str, ...]) -> str:
    """Return what a contestant of several words is called."""
    return ", ".join(contestant)


def race_of(
    what: str,
    problem: Any,
    settings: dict[str, Any],
    contestants: list[Any],
    briefly: dict[str, Any],
    run_once: Callable[[Any, dict[str, Any], Any, int], Report],
    facts: Callable[[Report, Any, int], dict[str, Any]],
) -> dict[str, Any]:
    """Run every contestant in every round; return the result, with its runs and without a table.

    what : names the bar of progress
    briefly : settings of the run that warms up, besides
    run_once : ``run_once(problem, settings, contestant, seed)``
    facts : ``facts(report, contestant, round)``, what is kept of a run, its "contestant" by name
    """
    racing = {name_of(one): one for one in contestants}
    runs: list[dict[str, Any]] = []
    last: list[Report] = []

    def run(name: str, number: int) -> None:
        last[:] = [run_once(problem, settings, racing[name], settings["seed"] + number)]
        runs.append(facts(last[0], racing[name], number))

    def once() -> None:
        run_once(problem, settings | briefly, contestants[0], settings["seed"])

    names = list(racing)
    warm_up = race(names, settings["rounds"], what, once, run)
    result = result_of(problem, last[0], settings, warm_up)
    result["runs"] = sorted(runs, key=lambda run: (names.index(run["contestant"]), run["round"]))
    return result


def runs_of(bench: Any, problem: Any, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Run every contestant of a bench once, without a bar and a warm-up; what is kept of each.

    bench : module with ``contestants``, ``run_once`` and ``facts``, as `race_of` takes them
    """
    return [
        bench.facts(bench.run_once(problem, settings, one, settings["seed"]), one, 0)
        for one in bench.contestants(settings)
    ]


def result_of(
    problem: Any, report: Report, settings: dict[str, Any], warm_up: float
) -> dict[str, Any]:
    """Return what is known of a bench besides its runs; `report` is any of its own."""
    return {
        "settings": settings,
        "data": {"rows": problem.n_rows, "columns": problem.n_features, "nonzeros": problem.nnz},
        "versions": report.versions,
        "machine": report.machine,
        "warm_up_seconds": warm_up,
        "target": settings["target"],
    }


def trace_of(run: dict[str, Any]) -> Trace:
    """Return the trace of a run as `Trace`; what was not finite is NaN again."""
    # a float array of None is one of NaN
    return Trace(**{name: np.array(run["trace"][name], dtype=np.float64) for name in run["trace"]})


def median(values: list[float | None]) -> float | None:
    """Return the median where None is infinite, and None for infinity."""
    middle = statistics.median(math.inf if value is None else value for value in values)
    return middle if math.isfinite(middle) else None


def tell_of_targets(table: list[dict[str, Any]]) -> None:
    """Say what a missing time means, if one is missing."""
    if any(row["seconds"] is None for row in table):
        console.say("-: most runs did not reach the target; try more --epochs or a higher --target")
