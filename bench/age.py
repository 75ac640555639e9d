"""Corollary 2 of AsySG-con by experiment: updates to a target against the age of gradients.

The age is exact: T + 1 workers run one after another in one thread. A worker's message is applied,
it reads the model and computes its next message, and that is applied after all the others': exactly
T updates later (the first T are younger). No further core is needed, and no clock.

For each planned T, (10) gives the number of updates K from which on it is allowed, and (9) the step
size. The same step is then run at every age, allowed or not, until the target: the objective at
which gradients without age have made 98 % of their gain in K updates. Reported are medians over
seeds of the updates to the target and, for the corollary itself, of the mean squared gradient norm
over K updates, next to the bound (11). Usage::

    python bench/age.py --json bench/results/age.json
"""

from __future__ import annotations

import math
import statistics
from typing import Any

import numpy as np
import script

from hogshare import ASP, SDCA, SGD, Master, Model, StepSize, Stop, problems, solve, theory
from hogshare.engine.arrays import fill, private_memory, row_arrays
from hogshare.engine.choices import Choices
from hogshare.engine.description import describe
from hogshare.engine.session import Session
from hogshare.engine.world import World
from hogshare.kernels import layout
from hogshare.kernels.exchange import master_updates
from hogshare.kernels.jit.decorators import kernel
from hogshare.kernels.schedule import epoch_schedule, quanta
from hogshare.lab.harness.table_numbers import over_seeds

AGES = (0, 1, 2, 4, 8, 16, 32, 64)
MORE_AGES = (96, 128, 192, 256, 384, 512)  # where no planned age is, to find where updates double
PARTS = 200  # looks at the model in K updates
PATIENCE = 4  # times K updates, after which a target counts as not reached
GAIN = 0.98
TURN = quanta.QUANTA[quanta.QuantumKind(plane=epoch_schedule.MASTER, single=True)]


@kernel
def exchange_message(rows, rule, plan, schedule, vector, memory, mail, private, me):
    """Apply a worker's message, as the master, and compute its next one."""
    master_updates.take_message(plan, schedule, vector, mail, me)
    return TURN(rows, rule, plan, schedule, vector, memory, mail, private, me, 1)


def data(name: str) -> Any:
    """Rows, scaled where they are dense, and labels."""
    if name == "breast_cancer":
        from sklearn.datasets import load_breast_cancer
        from sklearn.preprocessing import scale

        X, y = load_breast_cancer(return_X_y=True)
        return scale(X), y
    from hogshare import datasets

    return datasets.load(name)


def constants(problem: Any, batch: int) -> dict[str, float]:
    """What the analysis needs to know: gap, L, sigma; the latter at the start or the optimum."""
    best = solve(problem, rule=SDCA(), stop=Stop(epochs=1000, relative_gap=1e-6), seed=0).model
    start = Model(np.zeros_like(best.coef), np.zeros_like(best.intercept))
    lowest = problem.objective(best.coef, best.intercept)
    noise = [theory.gradient_noise(problem, m, batch, on_support=True) for m in (start, best)]
    at_start = problem.objective(start.coef, start.intercept)
    known = {"gap": at_start - lowest, "L": theory.lipschitz(problem), "sigma": max(noise)}
    return known | {"start": at_start, "optimum": lowest}


def session_of(
    problem: Any, age: int, step: float, batch: int, damped: bool, seed: int, updates: int
) -> Session:
    """A run of T + 1 workers and a master in this process's memory, which nobody drives yet."""
    rule, steps = SGD(batch=batch), StepSize("constant", eta0=step / batch)
    stop = Stop(epochs=2 + math.ceil((updates + age + 1) * batch / problem.n_rows), tol=None)
    choices = Choices(
        problem=problem,
        rule=rule,
        plane=Master(damped=damped, fold="sum"),
        barrier=ASP(),
        step=steps,
        stop=stop,
        world=World((age + 1,)),
        seed=seed,
        block=batch,
    )
    settings, shapes = describe(choices)
    # one worker would be its own master, as soon as it has a message
    settings.plan["inline"] = 0
    made = Session({**private_memory(shapes), **row_arrays(problem)}, settings)
    fill(made, problem, rule, stop, steps, None, None)
    return made


def run(
    problem: Any, age: int, step: float, batch: int, damped: bool, seed: int, K: int, target: float
) -> tuple[float, float, float]:
    """One run at one age.

    Returns the updates to the target (infinity: not reached), the mean squared gradient norm over
    K updates, and the objective after them.
    """
    made = session_of(problem, age, step, batch, damped, seed, PATIENCE * K)
    table, every = made.schedule.table, max(1, K // PARTS)
    workers = [made.worker(k) for k in range(age + 1)]
    assert all(worker.join() for worker in workers)
    whole = made.rows, made.rule, made.plan, made.schedule, made.vector, made.memory, made.mail

    def posted(k: int) -> int:
        return int(made.mail.box.counters[k, layout.M_POSTED])

    def post(k: int, mailed: int) -> None:
        while posted(k) == mailed:  # an epoch's end is a turn by itself
            workers[k].run_quantum(1)

    for k in range(age + 1):
        post(k, 0)
    norms: list[float] = []
    reached, before, at_end = math.inf, math.inf, math.inf
    for update in range(PATIENCE * K + 1):
        if update % every == 0:
            with np.errstate(all="ignore"):
                found = theory.gradient(problem, made.model())
            value = found.objective
            if update < K:
                norms.append(found.squared_norm)
            else:
                at_end = min(at_end, value) if update < K + every else at_end
            if not math.isfinite(value) or value > 1e6:
                return math.inf, math.inf, math.inf
            if value <= target and math.isinf(reached):
                share = (before - target) / (before - value) if math.isfinite(before) else 1.0
                reached = update - every * (1.0 - share)
            before = value
            if update >= K and math.isfinite(reached):
                break
        k = update % (age + 1)
        mailed = posted(k)
        exchange_message(*whole, workers[k].private, k)
        assert table[k, layout.T_STALENESS] == min(age, update)
        post(k, mailed)
    return reached, statistics.fmean(norms), at_end


def sweep(
    problem: Any, known: dict[str, float], planned: int, batch: int, seeds: int, damped: bool
) -> dict[str, Any]:
    """All ages with the step of (9) for the K that (10) asks for at the planned age."""
    facts = theory.Constants(gap=known["gap"], L=known["L"], sigma=known["sigma"])
    K = theory.con_least_updates(facts, planned)
    step = theory.con_step_size(facts, K)

    def median(age: int, damped: bool, target: float) -> tuple[dict[str, Any], float]:
        runs = [run(problem, age, step, batch, damped, s, K, target) for s in range(1, seeds + 1)]
        updates = [updates for updates, _, _ in runs]
        over = over_seeds(updates)
        return {
            "age": age,
            "updates": over["median"],
            "spread": [over["low"], over["high"]],
            "squared_gradient": over_seeds([norm for _, norm, _ in runs])["median"],
        }, statistics.median(value for _, _, value in runs)

    _, at_end = median(0, False, -math.inf)
    target = known["start"] - GAIN * (known["start"] - at_end)
    lines, damped_lines = [], []
    for age in (*AGES, *MORE_AGES):
        line, _ = median(age, False, target)
        lines.append(line)
        if damped and age <= AGES[-1] and all(x["updates"] for x in damped_lines):
            damped_lines.append(median(age, True, target)[0])
        # past the planned age what is looked for is where updates double
        if age >= AGES[-1] and (line["updates"] is None or line["updates"] > 2 * base(lines)):
            break
    for part in (lines, damped_lines):
        for line in part:
            line["over_age_0"] = line["updates"] and line["updates"] / base(lines)
            line["allowed"] = line["age"] <= planned
    return {
        "planned_age": planned,
        "K": K,
        "step": step,
        "bound": theory.con_bound(facts, K),
        "target": target,
        "flat_within": max(abs(x["over_age_0"] - 1.0) for x in lines if x["allowed"]),
        "doubled_at": doubling(lines),
        "ages": lines,
        "damped": damped_lines,
    }


def base(lines: list[dict[str, Any]]) -> float:
    """Updates without age."""
    return float(lines[0]["updates"])


def doubling(lines: list[dict[str, Any]]) -> list[int | None]:
    """Last age below twice the updates and first at or above; None: there is none."""
    slow = [x["age"] for x in lines if x["updates"] is None or x["over_age_0"] >= 2.0]
    first = min(slow) if slow else None
    return [max(x["age"] for x in lines if first is None or x["age"] < first), first]


def measure(options: Any) -> dict[str, Any]:
    """Every planned age."""
    problem = problems.linear(*data(options.data), alpha=options.alpha)
    known = constants(problem, options.batch)
    print({name: round(value, 5) for name, value in known.items()})
    results = []
    for planned in options.planned:
        found = sweep(problem, known, planned, options.batch, options.seeds, True)
        results.append(found)
        print({key: value for key, value in found.items() if key not in ("ages", "damped")})
        script.show(found["ages"], f"updates to {found['target']:.4g} by age")
        script.show(found["damped"], "damped")
    settings = vars(options) | {"json": None}
    return {"settings": settings, "constants": known, "results": results}


if __name__ == "__main__":
    script.run(
        __doc__, measure, data="breast_cancer", batch=4, alpha=0.01, planned=(16, 32), seeds=5
    )
