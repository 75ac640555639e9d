"""Claims of Niu et al. 2011 (Hogwild!), Leblond et al. 2017 and Pedregosa et al. 2017 (ASAGA)."""

from __future__ import annotations

import math
import statistics

from hogshare import datasets, problems
from hogshare.engine.stops import Stop
from hogshare.lab import bounds
from hogshare.lab.claims.claim import DIFFERS, REAL, Claim, ClaimNumber, Found, near, over
from hogshare.lab.studies import staleness
from hogshare.planes import Shared
from hogshare.solvers import prox_asaga, solve

HOGWILD = "Niu et al. 2011"
THREADS = (1, 2, 4, 8)
TWO_HOGWILD, TWO_PROX = 1.6, 1.9  # on two cores, by Amdahl's law from 3.1 on ten and 12 on twenty
EXCESS = 1e-10  # relative excess of the target objective over the optimum


def hogwild(seed: int, quick: bool) -> Found:
    """Measure the speedup of two threads to the same objective, on one vector and with copies."""
    n_rows, n_features = (20_000, 20_000) if quick else (101_210, 47_236)
    X, y = datasets.zipf_classification(n_samples=n_rows, n_features=n_features, seed=seed)
    problem = problems.linear(X, y, loss="hinge", alpha=1.0 / n_rows, fit_intercept=False)
    planes = {"vector": Shared(exchange=None), "copies": Shared()}
    rounds, epochs = (3, 6) if quick else (5, 8)
    found: dict[str, float] = {}
    for name, plane in planes.items():
        ratios = []
        for k in range(-1, rounds):  # the first round is a warm-up
            run = {"plane": plane, "stop": Stop(epochs=epochs, tol=None), "seed": seed}
            pair = [solve(problem, n_workers=n, runtime="threads", trace=2, **run) for n in (1, 2)]
            target = max(float(one.trace.objective[-1]) for one in pair if one.trace is not None)
            times = [one.seconds_to(target) for one in pair]
            if k >= 0:
                ratios.append(float(times[0] or 0.0) / float(times[1] or math.inf))
        found[name] = statistics.median(ratios)
    sparse = bounds.sparsity(X)
    return {**found, "omega": sparse.omega, "delta": sparse.delta, "rho": sparse.rho}


def proximal(seed: int, quick: bool) -> Found:
    """Measure epochs and seconds to a high precision, relative to those of one thread."""
    n_rows, n_features = (10_000, 2_000) if quick else (30_000, 10_000)
    X, y = datasets.zipf_classification(n_samples=n_rows, n_features=n_features, seed=seed)
    problem = problems.linear(
        X, y, penalty="elasticnet", l1_ratio=0.15, alpha=1e-4, fit_intercept=False
    )
    stop = Stop(epochs=100, tol=None)
    best = solve(problem, rule="saga", n_workers=1, runtime="caller", stop=300, seed=seed, trace=1)
    assert best.trace is not None
    target = float(best.trace.objective.min()) * (1.0 + EXCESS)
    runs = [
        prox_asaga(problem, n_workers=n, runtime="threads", stop=stop, trace=1, seed=seed)
        for n in THREADS
    ]
    epochs = [run.epochs_to(target) for run in runs]
    return {
        "epochs": math.inf if epochs[0] is None else epochs[0],
        **{f"epochs {n}": over(k, epochs[0]) for n, k in zip(THREADS[1:], epochs[1:], strict=True)},
        "time 2": over(runs[0].seconds_to(target), runs[1].seconds_to(target)),
    }


def linear_rate(seed: int, quick: bool) -> Found:
    """Measure the slope of log(gap) at several stalenesses, relative to the slope without any."""
    n_rows = 300 if quick else 1000
    known = staleness.drawn(seed, n_rows)
    slopes = {
        age: staleness.asaga_rate(known, age, 20 if quick else 40, seed)
        for age in (0, n_rows // 33, n_rows // 10 - 1)
    }
    alone, some, most = slopes.values()
    return {"slope": alone, "some": some / alone, "most": most / alone}


CLAIMS = (
    Claim(
        name="hogwild",
        source=f"{HOGWILD}, table of speedups",
        says="On sparse problems ten cores that share one vector without locks are 3.1 to 8.8 "
        "times as fast as one core.",
        workload="hinge loss on rows like those of RCV1, two threads on this machine's cores; "
        "quick 20,000 x 20,000",
        numbers={
            "vector": ClaimNumber(
                "time speedup of two threads on one vector",
                f"3.1 to 8.8, ten cores; {TWO_HOGWILD} of two",
            ),
            "copies": ClaimNumber("time speedup of two threads with exchanged private copies"),
            "omega": ClaimNumber("Omega, largest number of features in a row"),
            "delta": ClaimNumber("Delta, share of the rows with the most frequent feature"),
            "rho": ClaimNumber(
                "rho, largest share of rows that have a feature in common with one row"
            ),
        },
        measure=hogwild,
        agrees=lambda x: x["vector"] > TWO_HOGWILD or near(x["vector"], TWO_HOGWILD),
        when=f"two threads on one vector are {TWO_HOGWILD} times as fast as one thread, to within "
        "a fifth or more; by Amdahl's law this corresponds to the least printed speedup, 3.1 on "
        "ten cores for RCV1",
        partly=lambda x: x["vector"] > 1.0,
        seconds=(4, 120),
        why="A row takes some tenths of a microsecond, about as long as the transfer of a cache "
        "line between two cores. The common words of a text are in most rows (rho is near 1), so "
        "almost every row needs such transfers. Two threads on one vector are therefore slower "
        "than one thread. With private copies that are exchanged, which this package uses for "
        "that reason, they are about as fast as one; only longer rows give a gain. The printed "
        "speedups are from cores on which a row took far longer.",
        verdict=DIFFERS,
        clock=REAL,
    ),
    Claim(
        name="asaga-prox",
        source="Pedregosa et al. 2017, abstract",
        says="ProxASAGA on 20 cores is up to 12 times as fast as on one core.",
        workload="logistic loss with elastic net, rows like text, threads on two cores, to 1e-10 "
        "of the optimum; 30,000 x 10,000, quick 10,000 x 2,000",
        numbers={
            "epochs": ClaimNumber("epochs to the target, one thread"),
            **{
                f"epochs {n}": ClaimNumber(f"epochs to the target, {n} threads over one")
                for n in THREADS[1:]
            },
            "time 2": ClaimNumber(
                "time speedup of two threads", f"up to 12, 20 cores; {TWO_PROX} of two"
            ),
        },
        measure=proximal,
        agrees=lambda x: (
            all(x[f"epochs {n}"] < 1.15 for n in THREADS[1:]) and near(x["time 2"], TWO_PROX)
        ),
        when="2, 4 and 8 threads need less than 1.15 times the epochs of one thread, and two "
        f"threads are {TWO_PROX} times as fast as one, to within a fifth; by Amdahl's law this "
        "corresponds to 12 on 20 cores",
        partly=lambda x: x["time 2"] > 1.0,
        seconds=(19, 90),
        why="Updates without locks need no additional epochs. Two threads on one vector lose time "
        "to the transfer of its cache lines, because a row takes less than a microsecond.",
        clock=REAL,
        verdict=DIFFERS,
    ),
    Claim(
        name="asaga-rate",
        source="Leblond et al. 2017, theorem on ASAGA",
        says="With a staleness below a tenth of the number of rows, ASAGA converges linearly, as "
        "fast as SAGA.",
        workload="logistic loss on 300 x 20 normal rows (in full 1,000 x 20), tasks of one row by "
        "workers of equal speed on a virtual clock",
        numbers={
            "slope": ClaimNumber("change of log(gap) per epoch without staleness"),
            "some": ClaimNumber("change of log(gap), staleness n / 33 over none", 1.0),
            "most": ClaimNumber("change of log(gap), staleness n / 10 over none", 1.0),
        },
        measure=linear_rate,
        agrees=lambda x: x["slope"] < -0.1 and min(x["some"], x["most"]) > 0.85,
        when="without staleness log(gap) falls by more than 0.1 per epoch, and with staleness it "
        "falls more than 0.85 times as fast",
        seconds=(13, 320),
    ),
)
