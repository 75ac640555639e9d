"""Matrix factorisation behind `solve`: passes on every plane, in every runtime; refusals."""

import naive
import numpy as np
import pytest
import scipy.optimize

from hogshare import ASP, BSP, SGD, SSP, Checkpoint, Master, Shared, StepSize, problems, solve
from hogshare.problems import GradientError, GradientProblem
from hogshare.problems.factorisation import CELL_RATINGS, in_cells

N_USERS, N_ITEMS, N, RANK = 60, 40, 1500, 2


def known_rank(loss="squared_error"):
    rng = np.random.default_rng(0)
    users, items = rng.integers(N_USERS, size=N), rng.integers(N_ITEMS, size=N)
    P, Q = rng.normal(size=(N_USERS, RANK)), rng.normal(size=(N_ITEMS, RANK))
    ratings = (P[users] * Q[items]).sum(axis=1) + rng.normal(size=N_USERS)[users] + 3.0
    return users, items, (ratings > 3.0).astype(float) if loss == "logistic" else ratings


def made(**settings):
    loss = settings.get("loss", "squared_error")
    return problems.factorisation(*known_rank(loss), n_factors=RANK, **settings)


RUN = {"rule": SGD(), "step": StepSize("constant", 0.03), "stop": 30, "seed": 0, "block": 100}
PLANES = [Shared(), Shared(exchange=None), Master()]
RUNTIMES = ["threads", "processes", "simulator"]


@pytest.mark.parametrize("plane", PLANES, ids=repr)
@pytest.mark.parametrize("runtime", ["caller", *RUNTIMES])
def test_one_worker_is_a_plain_loop(plane, runtime):
    """The kernel, called in a loop over the rows that a run tells."""

    class Spied(type(made())):
        def advance(self, w, rows, eta):
            seen.append((rows.copy(), eta))
            return super().advance(w, rows, eta)

    seen, problem = [], made()
    spied = Spied(problem.ratings, problem.loss)
    solve(spied, **RUN, runtime="caller")
    w = problem.start()
    steps = [(rows, eta) for rows, eta in seen if eta > 0.0]  # else to see how long a pass takes
    for rows, eta in steps:
        problem.advance(w, rows, eta)
    assert sum(len(rows) for rows, _ in steps) == 30 * N
    assert all(eta == 0.03 for _, eta in steps)
    report = solve(problem, **RUN, plane=plane, runtime=runtime, n_workers=1)
    if plane == Master():  # whose messages are differences, added to what they are of
        np.testing.assert_allclose(report.model.params, w, rtol=1e-3, atol=1e-4)
    else:
        np.testing.assert_array_equal(report.model.params, w)


def test_steps_are_those_of_the_twin():
    problem = made(dtype=np.float64)
    run = {**RUN, "stop": 1, "shuffle": False}
    w, _ = naive.factor_steps(problem.start(), problem.ratings, np.arange(N), 0.03)
    np.testing.assert_allclose(solve(problem, **run).model.params, w, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("plane", [Shared(), Master()], ids=repr)
def test_bsp_gives_the_same_bits_everywhere(plane):
    settings = {**RUN, "plane": plane, "barrier": BSP(), "n_workers": 2}
    first, *others = (solve(made(), runtime=r, **settings).model.params for r in RUNTIMES)
    for other in others:
        np.testing.assert_array_equal(first, other)


@pytest.mark.parametrize("n_workers", [2, 4])
@pytest.mark.parametrize("plane", PLANES, ids=repr)
@pytest.mark.sample(1)
def test_more_workers_reach_the_same_objective(plane, n_workers):
    problem = made(alpha=0.5)
    settings = {**RUN, "stop": 150}
    best = problem.objective(solve(problem, **settings).model.params)
    barrier = BSP() if plane != Shared(exchange=None) else SSP(1)
    # where updates are added as they come, the last steps shake more
    block = 30 if plane == Master() else 100
    settings |= {"runtime": "simulator", "barrier": barrier, "block": block}
    report = solve(problem, **settings, plane=plane, n_workers=n_workers)
    assert problem.objective(report.model.params) < 1.1 * best
    assert sum(worker["rows"] for worker in report.workers) == 150 * N


@pytest.mark.parametrize("runtime", ["threads", "processes"])
@pytest.mark.parametrize("plane", PLANES, ids=repr)
@pytest.mark.parametrize("barrier", [ASP(), SSP(2)], ids=repr)
def test_it_runs_everywhere(plane, barrier, runtime):
    report = solve(made(), **RUN, plane=plane, barrier=barrier, runtime=runtime, n_workers=2)
    problem = made()
    assert problem.objective(report.model.params) < 0.7 * problem.objective(problem.start())
    assert sum(worker["rows"] for worker in report.workers) == 30 * N


@pytest.mark.parametrize("loss", ["squared_error", "logistic"])
def test_biases_are_fitted_first(loss):
    """Against another minimiser; without factors the objective is convex."""
    problem = problems.factorisation(*known_rank(loss), n_factors=0, loss=loss, dtype=np.float64)
    start = problem.start()
    best = scipy.optimize.minimize(
        lambda w: (problem.objective(w), problem.evaluate(w)[1]), 0.0 * start, jac=True
    )
    assert best.success
    nothing = problem.objective(0.0 * start)
    assert problem.objective(start) - best.fun < 0.01 * (nothing - best.fun)
    report = solve(problem, step=StepSize("constant", 0.02), stop=50, seed=0)
    assert problem.objective(report.model.params) - best.fun < 0.03 * (nothing - best.fun)


def test_the_objective_is_that_of_the_gradient():
    problem = made(alpha=0.7, bias_alpha=0.2, dtype=np.float64)
    w = problem.start() + 0.1
    _, gradient = problem.evaluate(w)
    for j in (0, 1, 2, N_USERS * 3, N_USERS * 3 + 2):
        there, back = w.copy(), w.copy()
        there[j] += 1e-6
        back[j] -= 1e-6
        difference = (problem.objective(there) - problem.objective(back)) / 2e-6
        assert gradient[j] == pytest.approx(difference, abs=1e-7)


def test_mini_batches_are_by_gradient():
    run = {**RUN, "rule": SGD(batch=10), "block": None, "stop": 20}
    problem = made()
    report = solve(problem, **run)
    assert problem.objective(report.model.params) < 0.7 * problem.objective(problem.start())


def test_factors_are_not_negative():
    problem = made(nonnegative=True)
    for plane in PLANES:
        report = solve(problem, **RUN, plane=plane, n_workers=2, runtime="threads")
        _, users, _, items = problem.split(report.model.params)
        assert users.min() == 0.0 and items.min() == 0.0 and users.max() > 0.0


def test_it_goes_on_from_a_checkpoint(tmp_path):
    path = tmp_path / "run.npz"
    whole = solve(made(), **RUN).model.params
    solve(made(), **{**RUN, "stop": 13}, checkpoint=Checkpoint(path))
    np.testing.assert_array_equal(solve(made(), **RUN, resume=path).model.params, whole)


def test_a_run_is_replayed():
    from hogshare import replay

    run = {**RUN, "stop": 3, "plane": Master(), "n_workers": 2, "runtime": "threads"}
    report = solve(made(), **run, record=True)
    again = replay(made(), report)
    np.testing.assert_array_equal(again.params, report.model.params)


def test_cells_are_pairs_of_groups_along_diagonals():
    n = 64 * CELL_RATINGS
    rng = np.random.default_rng(0)
    users, items = rng.integers(1000, size=n), rng.integers(400, size=n)
    counts = np.bincount(users), np.bincount(items)
    found, ends = in_cells(users, items, np.arange(float(n)), counts, 0)
    order = found[2].astype(int)
    assert np.array_equal(found[0], users[order]) and np.array_equal(found[1], items[order])
    assert np.array_equal(np.sort(order), np.arange(n))
    assert len(ends) == 64 and ends[-1] == n
    cells = np.split(order, ends[:-1])
    assert max(map(len, cells)) < 1.5 * CELL_RATINGS
    for line in (users, items):
        groups = [set(line[cell]) for cell in cells]
        assert max(map(len, groups)) < len(np.unique(line)) / 6
        for first in range(0, 64, 8):  # on a diagonal every line is in one cell
            assert sum(map(len, groups[first : first + 8])) == len(np.unique(line))
    own = [set(users[cell]) for cell in cells[::8]]
    assert all(
        one == own[0] for one in own
    )  # as `hogshare.kernels.schedule.epoch_schedule.cell_is_free` has it
    for diagonal in range(8):
        of_last = set(items[cells[8 * diagonal + 7]])
        assert of_last == set(items[cells[(7 + diagonal) % 8]])


def test_steps_too_long_are_told():
    with pytest.raises(ValueError, match="a smaller eta0 than 30 might help"):
        solve(made(), **{**RUN, "step": 30.0})


USERS, ITEMS, RATINGS = known_rank()


@pytest.mark.parametrize(
    ("given", "settings", "told"),
    [
        ((USERS, ITEMS, RATINGS), {"shape": (10, 99)}, "outside of a matrix with 10 users"),
        ((USERS, ITEMS, RATINGS), {"shape": (99, 10)}, "outside of a matrix with 10 items"),
        ((USERS - 1, ITEMS, RATINGS), {}, "go from -1"),
        ((USERS[:3], ITEMS, RATINGS), {}, "one number for each of the 1500 ratings"),
        (([], [], []), {}, "no ratings"),
        ((USERS, ITEMS, np.where(USERS == 3, np.nan, RATINGS)), {}, "NaN or infinity"),
        ((USERS, ITEMS, -np.abs(RATINGS)), {"loss": "logistic"}, "from 0 .no. to 1"),
        ((USERS, ITEMS, RATINGS), {"loss": "hinge"}, "loss must be one of"),
        ((USERS, ITEMS, RATINGS), {"alpha": -1.0}, "alpha must be"),
        ((USERS, ITEMS, RATINGS), {"n_factors": 1.5}, "n_factors must be"),
        ((USERS, ITEMS, RATINGS), {"n_factors": 0, "biases": False}, "nothing to fit"),
        ((USERS, ITEMS, RATINGS[:, None]), {}, "one dimension"),
        ((USERS, ITEMS, RATINGS), {"dtype": np.int64}, "float32 or float64"),
        ((USERS, ITEMS, RATINGS), {"shape": (3,)}, "numbers of users and of items"),
    ],
)
def test_what_cannot_be_is_refused(given, settings, told):
    with pytest.raises(ValueError, match=told):
        problems.factorisation(*given, **settings)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ((USERS.astype(float), ITEMS, RATINGS), "whole numbers"),
        ((USERS, ITEMS, ["good"] * N), "must be numbers"),
    ],
)
def test_what_is_of_another_kind_is_refused(given, told):
    with pytest.raises(TypeError, match=told):
        problems.factorisation(*given)


def test_atomic_adds_are_refused():
    with pytest.raises(ValueError, match="adds='atomic'"):
        solve(made(), **RUN, plane=Shared(exchange=None, adds="atomic"))


class Means(GradientProblem):
    """A pass of the user's, row by row in Python."""

    def __init__(self, points, answer=None):
        self.points = points
        self.n_rows, self.n_params = points.shape
        self.answer = answer

    def gradient(self, w, rows, out):
        away = w - self.points[rows]
        out += away.sum(axis=0)
        return 0.5 * np.square(away).sum()

    def advance(self, w, rows, eta):
        loss = 0.0
        for row in rows:
            away = w - self.points[row]
            loss += 0.5 * away @ away
            w -= eta * away
        return loss if self.answer is None else self.answer


POINTS = np.random.default_rng(0).normal(loc=[1.0, -2.0], size=(300, 2))


@pytest.mark.parametrize("plane", PLANES, ids=repr)
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_pass_of_ones_own_runs_everywhere(plane, runtime):
    step = StepSize("invscaling", 0.05, 0.5)
    run = {"plane": plane, "runtime": runtime, "n_workers": 2, "step": step, "stop": 10, "seed": 0}
    report = solve(Means(POINTS), **run, block=30)
    np.testing.assert_allclose(report.model.params, [1.0, -2.0], atol=0.2)


@pytest.mark.parametrize(
    ("answer", "told"), [("much", "has to return the sum"), (np.nan, "NaN or infinite")]
)
def test_a_pass_that_answers_no_loss_is_told(answer, told):
    with pytest.raises(GradientError, match=f"advance of Means.*{told}"):
        solve(Means(POINTS, answer), stop=1)


def test_a_pass_that_raises_is_told():
    problem = Means(POINTS)
    problem.points = None
    with pytest.raises(GradientError, match="advance of Means raised TypeError"):
        solve(problem, stop=1)
