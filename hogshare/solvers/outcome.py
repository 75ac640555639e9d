"""Conversion of a finished session to the plain data of a report."""

from __future__ import annotations

import os
import platform
import sys
from functools import cache
from importlib.metadata import version
from typing import Any

import joblib
import numpy as np

from hogshare._version import __version__
from hogshare.barriers import name_of
from hogshare.engine.choices import Choices
from hogshare.engine.session import Session
from hogshare.kernels import layout
from hogshare.kernels.schedule import barrier_codes, epoch_schedule, worker_life
from hogshare.links.traffic import MODEL, Counted, Traffic
from hogshare.problems.model import Model
from hogshare.problems.protocol import Problem, by_gradient, has_rows
from hogshare.report import Trace
from hogshare.rules.protocol import Rule
from hogshare.rules.steps import StepSize
from hogshare.shm.mailbox import HEADER_BYTES, mail_bytes
from hogshare.shm.speeds import MESSAGES, NANOSECONDS, recorded
from hogshare.system.interrupts import errstate
from hogshare.system.machine import cores

SENT = layout.M_POSTED, layout.M_PLACED, layout.M_DENSE  # an edge's counters of sent mail
REASONS = {
    layout.RUNNING: "the run was cut short",
    layout.STOPPED_BY_CRITERION: "the stop criterion was met",
    layout.STOPPED_BY_CALLER: "the caller asked for it",
    layout.STOPPED_BY_DIVERGENCE: "the model left the floating-point range",
    layout.STOPPED_BY_LIMIT: "all epochs were done",
}


def absurd(rule: Rule, step: StepSize) -> str:
    """Return the warning for a run whose model is finite, but useless."""
    return (
        "The fit has diverged: the model is finite only because derivatives are clipped, and its "
        "loss is more than 1e8 times that of a model of zeros. The steps are too large for this "
        f"data: scale the input (StandardScaler); {rule.remedy(step)} might help too."
    )


def is_absurd(problem: Problem, model: Model, squares: float) -> bool:
    """Whether a finite model is the result of a divergence.

    A diverged model may be finite for linear problems, because their derivatives are clipped. The
    loss is evaluated only if the coefficients are large.

    squares : sum of the coefficients' squares
    """
    if not has_rows(problem) or squares < 1e12 or np.abs(model.coef).max(initial=0.0) < 1e6:
        return False
    with errstate(all="ignore"):
        nothing = problem.objective(np.zeros_like(model.coef), np.zeros_like(model.intercept))
        # "not below" rather than "above": the objective itself may be NaN
        return not problem.objective(model.coef, model.intercept) <= 1e8 * (1.0 + nothing)


def settings(c: Choices, runtime: str, session: Session, seed: Any) -> dict[str, Any]:
    """Return the settings of a run as plain data."""
    problem, rule, plane, stop = c.problem, c.rule, c.plane, c.stop
    plan = session.plan
    schedule = rule.schedule(c.step)
    if schedule is not None and rule.remembers:
        # from the columns: a resumed run takes these from the earlier run
        columns = session.schedule.columns
        falls = columns[layout.C_FALLS, 0] > 0
        schedule["kind"] = "falls" if falls else "constant"
        # on average over the first epoch
        schedule["eta0"] = session.rule.saga_step if falls else float(columns[layout.C_ETA, 0])
    return {
        "problem": problem.facts(),
        "rule": {"name": type(rule).__name__, **vars(rule)},
        # if several workers average, they add atomically, whatever the plane's setting
        "plane": {
            "name": type(plane).__name__,
            **vars(plane),
            **({"adds": "atomic"} if plan.atomic else {}),
        },
        "barrier": name_of(c.barrier),
        "stragglers": None if session.stragglers is None else repr(session.stragglers),
        "runtime": runtime,
        "n_workers": session.settings.n_workers,
        "step": schedule,
        "stop": {
            "epochs": stop.epochs,
            "tol": stop.tol,
            "patience": stop.patience,
            "confirm": stop.confirm,
            "gradient": stop.gradient,
            "gap": stop.gap,
            "relative_gap": stop.relative_gap,
        },
        "seed": seed if isinstance(seed, (int, np.integer)) else None,
        "block_rows": plan.block_rows,
        "exchange_rows": plan.interval,
    }


def versions() -> dict[str, str]:
    """Return the versions of hogshare, Python and the libraries."""
    return dict(_versions())


@cache
def _versions() -> dict[str, str]:
    from numba import __version__ as numba_version

    return {
        "hogshare": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba_version,
        "scikit-learn": _scikit_learn(),
    }


def _scikit_learn() -> str:
    module = sys.modules.get("sklearn")
    return getattr(module, "__version__", "") or version("scikit-learn")


def machine() -> dict[str, Any]:
    """Return the system, the processor and its cores."""
    return {
        **_system(),
        "usable_cores": _usable_cores(_affinity(), os.environ.get("LOKY_MAX_CPU_COUNT")),
    }


@cache
def _system() -> dict[str, Any]:
    """Return facts that do not change; counting cores takes as long as all facts of a small fit."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": platform.machine(),
        "cores": cores(),
    }


def _affinity() -> frozenset[int]:
    """Return the cores on which this thread may run, if the system reports them."""
    return frozenset(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ())


@cache
def _usable_cores(affinity: frozenset[int], limit: str | None) -> int:
    """Count usable cores; the count is cached for each value of the arguments.

    joblib reads the container's quota from several files. This takes longer than an epoch of a
    small fit, so the count is cached. The arguments are the settings that a program can change for
    itself. The number of possible workers is not cached: `usable_workers` calls joblib each time.
    """
    return int(joblib.cpu_count())


def epoch_losses(session: Session) -> np.ndarray:
    """Return the mean loss of each finished epoch; empty if losses were not tracked."""
    if session.rule.track == 0:
        return np.zeros(0)
    return session.schedule.history[: session.word(layout.EPOCHS)].copy()


def staleness(session: Session) -> np.ndarray:
    """Return the staleness histogram over all workers, without the empty bins at its end."""
    return _whole(session.schedule.staleness)


def ages(session: Session) -> np.ndarray | None:
    """Return the histogram of the staleness of messages to a master; None without a master."""
    return _whole(session.mail.ages) if session.plan.private == epoch_schedule.MASTER else None


def _whole(histograms: np.ndarray) -> np.ndarray:
    total: np.ndarray = histograms.sum(axis=0)
    used = total.nonzero()[0]
    return total[: used[-1] + 1] if used.size else total[:1]  # never empty: readers index it


def quanta_of(session: Session) -> np.ndarray:
    """Return the last quanta of each worker; see `Report.quanta_of`."""
    return recorded(session.arrays["quanta"])


def mail(session: Session) -> dict[str, Any] | None:
    """Return the master's number of messages and its time; None without a permanent master."""
    if not session.has_master:
        return None
    total, word = session.arrays["quanta"][-1, 0], session.word
    return {
        "messages": int(total[MESSAGES]) + word(layout.MAIL_HELPED),
        "seconds": float(total[NANOSECONDS] + word(layout.MAIL_HELPED_NS)) * 1e-9,
    }


def mail_traffic(session: Session) -> Counted:
    """Return the traffic of workers in one memory: mail, and reads of a master's model.

    The size of a message is counted as on the virtual clock (`mail_bytes`).
    """
    found, item = Traffic(), session.vector.w.dtype.itemsize
    homes, has_master = session.homes, session.plan.private == epoch_schedule.MASTER
    n_workers = session.settings.n_workers
    for edge, counters in enumerate(session.mail.box.counters.tolist()):
        messages, placed, dense = (counters[k] for k in SENT)
        n_bytes = mail_bytes(placed, dense, item) + (messages - 1) * HEADER_BYTES
        sender, to = (edge, MODEL) if homes is None else homes.ends(edge)
        found.add("update" if has_master else "mail", sender, to, n_bytes, messages)
    for worker, row in enumerate(session.schedule.table[:n_workers].tolist() if has_master else ()):
        reads, values = row[layout.T_READS], row[layout.T_VALUES_READ]
        found.add("model", MODEL, worker, item * values + HEADER_BYTES * reads, reads)
    return found.as_dict()


def workers(session: Session) -> list[dict[str, Any]]:
    """Return a mapping for each worker; its `joined_seconds` counts from the start of the run.

    If a worker never reads the other workers' clocks, its lead is unknown. Without a barrier, no
    worker reads these clocks.
    """
    lines = []
    knows_lead = session.plan.barrier != barrier_codes.FREE
    for k, row in zip(session.local_workers, session.local_table.tolist(), strict=True):
        joined = (row[layout.T_JOINED] - session.began) * 1e-9
        lines.append(
            {
                "worker": k,
                "state": layout.STATES[row[layout.T_STATE]],
                "moves": worker_life.story(row),
                "blocks": row[layout.T_BLOCKS],
                "rows": row[layout.T_ROWS],
                "pushes": row[layout.T_PUSHES],
                "dropped": row[layout.T_DROPPED],
                "waiting_seconds": row[layout.T_WAITING] * 1e-9,
                "waiting_for_plane_seconds": row[layout.T_PLANE_WAIT_NS] * 1e-9,
                "mean_block_seconds": row[layout.T_BUSY] * 1e-9 / max(1, row[layout.T_BLOCKS]),
                "largest_lead": row[layout.T_LAG] if knows_lead else None,
                "joined_seconds": joined if row[layout.T_PROCESS] else None,
                "pid": row[layout.T_PROCESS],
            }
        )
    return lines


def trace(
    session: Session,
    problem: Problem,
    start: Model | None,
    gradients: bool,
    first_epoch: int = 0,
) -> Trace:
    """Evaluate the objective, and its gradient, at the start and on every snapshot taken.

    gradients : whether the gradient is evaluated, too
    first_epoch : number of epochs before the start, in a resumed run
    """

    def evaluate(coef: np.ndarray, intercept: np.ndarray) -> tuple[float, ...]:
        model = Model(coef, intercept)
        if not gradients:
            return (problem.objective_at(model),)
        if by_gradient(problem):
            slope = problem.gradient_at(model)
            return problem.objective_at(model), float(slope @ slope)
        assert has_rows(problem)
        from hogshare.problems.linear.gradients import gradient

        found = gradient(problem, model)
        return found.objective, found.squared_norm

    a, n = session.arrays, session.settings.n_columns
    coef = np.zeros((n, problem.n_features), problem.dtype) if start is None else start.coef
    intercept = np.zeros(n) if start is None else start.intercept
    done = float(first_epoch)
    points = [(done, done * session.plan.n_blocks, 0.0, *evaluate(coef, intercept))]
    for slot in np.flatnonzero(a["snapshot_blocks"]):
        done = float(a["snapshot_blocks"][slot])
        taken = float(a["snapshot_times"][slot] - session.began) * 1e-9
        coef = a["snapshots"][slot].reshape(-1, n).T
        values = evaluate(coef, a["snapshot_intercepts"][slot])
        points.append((done / session.plan.n_blocks, done, taken, *values))
    # workers fill slots in any order
    order = sorted(range(len(points)), key=points.__getitem__)
    epochs, blocks, seconds, *evaluated = np.array(points)[order].T
    if a["snapshot_spreads"].size:
        spreads = np.append(0.0, a["snapshot_spreads"][a["snapshot_blocks"] > 0])[order]
        evaluated = [*evaluated, spreads] if gradients else [*evaluated, None, spreads]
    # two workers may write snapshots slightly out of order: both get the later time
    return Trace(epochs, blocks, np.maximum.accumulate(seconds), *evaluated)
