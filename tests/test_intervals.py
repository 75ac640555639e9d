"""`every` of planes with homes: so many rows lie between two exchanges, by whatever steps."""

import numpy as np
import pytest

from hogshare import SGD, Mirrors, Replicas, problems, solve

N, D = 960, 5
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, D))
Y = X @ np.arange(D) + 0.1 * RNG.standard_normal(N)
USERS, ITEMS = RNG.integers(0, 30, N), RNG.integers(0, 20, N)
WORKERS, EPOCHS = 4, 2
OWN = N // WORKERS  # rows of a worker in an epoch
RUN = {"n_workers": WORKERS, "runtime": "simulator", "stop": EPOCHS, "seed": 0}


def gradient(w, rows, out):
    away = X[rows] @ w - Y[rows]
    out[:] = X[rows].T @ away
    return 0.5 * float(away @ away)


PROBLEMS = {
    "linear": problems.linear(X, Y, loss="squared_error", alpha=0.01),
    "gradient": problems.user(gradient, N, D),
    "factorisation": problems.factorisation(USERS, ITEMS, Y),
    "topics": problems.topics(RNG.integers(0, 3, (N, 12)), 3),
    "network": problems.network(X, Y > 0.0, (3,)),
}
STEPS = {"linear": 1e-3, "gradient": 1e-4, "factorisation": 0.01, "topics": None, "network": 0.01}
PLANES = {
    "replicas": lambda **more: Replicas("ring", **more),
    "async": lambda **more: Replicas("ring", sync="async", **more),
    "mirrors": lambda **more: Mirrors(WORKERS, threshold=0.0, **more),
    "direct": lambda **more: Mirrors([0, 0, 1, 1], threshold=0.0, **more),
}


def rounds_of(kind, plane, every, **more):
    report = solve(
        PROBLEMS[kind], plane=PLANES[plane](every=every), step=STEPS[kind], **{**RUN, **more}
    )
    return report.exchanges.clocks if report.reduces is None else report.reduces.rounds


@pytest.mark.parametrize("plane", PLANES)
@pytest.mark.parametrize("kind", PROBLEMS)
@pytest.mark.parametrize(("every", "rounds"), [(10, 24), (48, 5), (64, 4), (128, 2), (5000, 1)])
def test_workers_exchange_every_so_many_rows(kind, plane, every, rounds):
    assert (rounds_of(kind, plane, every) == EPOCHS * rounds).all()


@pytest.mark.parametrize("plane", ["replicas", "mirrors"])
@pytest.mark.parametrize("kind", ["gradient", "network"])
def test_an_interval_is_of_whole_batches(kind, plane):
    assert (rounds_of(kind, plane, 60, rule=SGD(batch=20)) == EPOCHS * 4).all()
    for every in (10, 50):
        message = f"every={every} rows is not a multiple of the .* rows of a block"
        with pytest.raises(ValueError, match=message):
            rounds_of(kind, plane, every, rule=SGD(batch=20))


@pytest.mark.parametrize("kind", PROBLEMS)
def test_an_interval_is_of_whole_blocks(kind):
    assert (rounds_of(kind, "replicas", 60, block=20) == EPOCHS * 4).all()
    with pytest.raises(ValueError, match="not a multiple of the 50 rows of a block"):
        rounds_of(kind, "replicas", 60, block=50)


@pytest.mark.parametrize("kind", ["gradient", "network", "topics"])
def test_steps_are_no_longer_for_a_longer_interval(kind):
    with pytest.raises(
        ValueError, match=r"every=100 rows is not a multiple of the 64 rows .* every=128"
    ):
        rounds_of(kind, "mirrors", 100)


@pytest.mark.parametrize("plane", ["replicas", "mirrors"])
def test_rows_that_are_claimed_come_as_often(plane):
    claimed = PLANES[plane](every=48, rows="claimed")
    report = solve(PROBLEMS["factorisation"], plane=claimed, step=0.01, **RUN)
    assert report.block_rows == 48
    assert sum(worker["blocks"] for worker in report.workers) == EPOCHS * N // 48
