"""Theory: the formulas against each other and simulations, the constants against brute force."""

import dataclasses
import itertools
import json

import cases
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import approx_fprime, minimize

from hogshare import SGD, Model, Shared, StepSize, asysg_incon, problems, solve, theory
from hogshare.lab.bounds import smoothness
from hogshare.lab.bounds.report_section import Algorithm, lower_bound, theory_section
from hogshare.problems.linear import REGRESSION_LOSSES
from hogshare.problems.linear.optimality import Optimality
from hogshare.report import Report
from hogshare.theory import Constants, CoordinateConstants

# -- formulas -------------------------------------------------------------------------------------


def constants(n, seed):
    """Draw (what is known, T) over many orders of magnitude."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        gap, L, sigma = 10.0 ** rng.uniform(-4, 4, 3)
        size = int(10.0 ** rng.uniform(0, 5))
        M, T = int(rng.integers(1, 200)), int(10.0 ** rng.uniform(0, 4)) - 1
        numbers = {"gap": gap, "L": L, "sigma": sigma, "n_gradients": M, "n_coordinates": size}
        yield CoordinateConstants(**numbers), T


ONES = CoordinateConstants(gap=1.0, L=1.0, sigma=1.0, n_coordinates=4)


@pytest.mark.quick
def test_con_step_size_and_updates_give_the_condition_and_the_bound():
    """(9) and (10) imply (7), and (8) is at most (11)."""
    largest = 0.0
    for known, T in constants(3000, 0):
        gap, L, sigma, M = known.gap, known.L, known.sigma, known.n_gradients
        K = theory.con_least_updates(known, T)
        step = theory.con_step_size(known, K)
        assert theory.con_condition(known, step, T) <= 1.0 + 1e-9
        # (8) for a constant step, its first updates without anything before them left aside
        noise = K * (step**2 * M * L + 2.0 * (L * M) ** 2 * step * T * step**2) * sigma**2
        eighth = (2.0 * gap + noise) / (M * K * step)
        largest = max(largest, eighth / theory.con_bound(known, K))
    assert 0.9 < largest <= 1.0 + 1e-9


def test_con_condition_fails_without_enough_updates():
    """(10) is no idle demand: with a twentieth of the updates the step (9) is too long."""
    tried = 0
    for known, T in constants(200, 1):
        K = theory.con_least_updates(known, T) / 20.0
        if K > 1.0:
            step = theory.con_step_size(known, K)
            assert theory.con_condition(known, step, T) > 1.0
            tried += 1
    assert tried > 20


def test_incon_step_size_and_writes_give_the_condition_and_the_bound():
    """(17) and (18) imply (15), and (16) as derived is at most (19)."""
    largest = 0.0
    rng = np.random.default_rng(2)
    for known, T in constants(3000, 2):
        K = theory.incon_least_writes(known, T)
        step = theory.incon_step_size(known, K)
        known = dataclasses.replace(known, L_max=known.L * rng.uniform(1e-3, 1.0))
        assert theory.incon_condition(known, step, T) <= 1.0
        sixteenth = theory.incon_bound_of_step(known, step, K, T)
        largest = max(largest, sixteenth / theory.incon_bound(known, K))
    assert 0.2 < largest <= 0.4


def test_the_bound_of_a_step_with_inconsistent_reads_term_by_term():
    """(16), with 2 / n in the middle: what is recalled, 1 / (2 n), claims four times as much."""
    gap, L, L_max, sigma, M, n, K, T, step = 0.7, 1.3, 0.9, 2.0, 3, 5, 900, 4, 1e-3
    known = CoordinateConstants(
        gap=gap, L=L, L_max=L_max, sigma=sigma, n_gradients=M, n_coordinates=n
    )
    start = 2.0 * n * gap / (K * M * step)
    missed = 2.0 / n * L**2 * T * M * step**2 * sigma**2
    bound = theory.incon_bound_of_step(known, step, K, T)
    assert bound == pytest.approx(start + missed + L_max * step * sigma**2, rel=1e-12)
    alone = theory.incon_bound_of_step(known, step, K, 0)
    assert bound - alone == pytest.approx(missed, rel=1e-9)


def test_largest_age_is_the_inverse_of_the_least_updates():
    for known, T in constants(500, 3):
        K = theory.con_least_updates(known, T)
        assert theory.con_largest_age(known, K) >= T
        if K > 1 and theory.con_least_updates(known, T + 1) > K:
            assert theory.con_largest_age(known, K) == T
        K = theory.incon_least_writes(known, T)
        assert theory.incon_largest_age(known, K) >= T
        if K > 1 and theory.incon_least_writes(known, T + 1) > K:
            assert theory.incon_largest_age(known, K) == T
    assert theory.con_largest_age(ONES, 3) is None
    assert theory.con_largest_age(ONES, 4) == 0
    assert theory.incon_largest_age(ONES, 63) is None
    assert theory.incon_largest_age(ONES, 64) == 0


def test_largest_age_of_a_step_meets_the_condition_and_one_more_does_not():
    rng = np.random.default_rng(4)
    for _ in range(500):
        L, M, n = 10.0 ** rng.uniform(-2, 2), int(rng.integers(1, 50)), int(rng.integers(1, 1000))
        numbers = {"L": L, "n_gradients": M, "n_coordinates": n, "L_max": L * rng.uniform(0.01, 1)}
        known = dataclasses.replace(ONES, **numbers)
        step = 10.0 ** rng.uniform(-4, -0.01) / (M * L)
        age = theory.con_largest_age_of_step(known, step)
        assert theory.con_condition(known, step, age) <= 1.0 + 1e-6
        assert theory.con_condition(known, step, age + 1) > 1.0
        step *= 0.5  # (15) has 2 M L_max step
        age = theory.incon_largest_age_of_step(known, step)
        assert theory.incon_condition(known, step, age) <= 1.0 + 1e-6
        assert theory.incon_condition(known, step, age + 1) > 1.0
    assert theory.con_largest_age_of_step(ONES, 1.1) is None
    assert theory.con_largest_age_of_step(ONES, 1.0) == 0
    assert theory.incon_largest_age_of_step(ONES, 0.6) is None
    assert theory.incon_largest_age_of_step(ONES, 0.5) == 0


@pytest.mark.parametrize("age", [0, 1, 3, 50])
def test_bound_of_any_steps(age):
    """(8) term by term, with sums written out."""
    rng = np.random.default_rng(5)
    steps = rng.uniform(0.2, 1.0, 30) * 0.002
    gap, L, sigma, M = 0.7, 1.3, 2.0, 3
    known = Constants(gap=gap, L=L, sigma=sigma, n_gradients=M)
    total = 2.0 * gap
    for k, g in enumerate(steps):
        before = sum(steps[j] ** 2 for j in range(max(0, k - age), k))
        total += (g * g * M * L + 2.0 * L * L * M * M * g * before) * sigma**2
    bound = theory.con_bound_of_steps(known, steps, age)
    assert bound == pytest.approx(total / (M * steps.sum()), rel=1e-12)


def test_steps_that_break_the_condition_are_refused():
    steps = np.full(50, 0.1)
    steps[20] = 0.4
    left = max(
        g + 2.0 * 4 * g * steps[k + 1 : k + 5].sum() for k, g in enumerate(steps)
    )  # (7) with L = M = 1
    assert left > 1.0
    with pytest.raises(ValueError, match=rf"left side is {left:.4g} at update 20"):
        theory.con_bound_of_steps(ONES, steps, 4)
    theory.con_bound_of_steps(ONES, np.full(50, 0.1), 4)


@pytest.mark.parametrize("age", [0, 5, 20])
@pytest.mark.parametrize("M", [1, 4])
def test_a_simulation_with_consistent_reads_keeps_below_the_bound(age, M):
    """Theorem 1 on ``sum_i (1 - cos x_i)``, which is not convex: delays up to the age."""
    rng = np.random.default_rng(6)
    runs, d, K, sigma, L = 200, 6, 300, 1.5, 1.0
    # L = 1 and f* = 0
    x = np.full((runs, d), 1.5)
    gap = d * (1.0 - np.cos(1.5))
    known = Constants(gap=gap, L=L, sigma=sigma, n_gradients=M)
    step = min(theory.con_step_size(known, K), 0.9 / (L * M * (1.0 + 1.5 * age)))
    steps = step * rng.uniform(0.5, 1.0, K)
    past, squares = [x], np.zeros(K)
    for k in range(K):
        squares[k] = np.square(np.sin(x)).sum(axis=1).mean()
        total = np.zeros_like(x)
        for _ in range(M):
            delays = rng.integers(0, min(k, age) + 1, runs)
            read = np.stack([past[k - t][r] for r, t in enumerate(delays)])
            total += np.sin(read) + rng.standard_normal((runs, d)) * sigma / np.sqrt(d)
        x = x - steps[k] * total
        past.append(x)
    bound = theory.con_bound_of_steps(known, steps, age)
    seen = theory.ergodic_gradient_norm(steps, squares)
    assert 0.02 * bound < seen < bound


@pytest.mark.parametrize("age", [0, 12])
def test_a_simulation_with_inconsistent_reads_keeps_below_the_bound(age):
    """Theorem 3: one coordinate a write, and reads that miss any of the last `age` writes."""
    rng = np.random.default_rng(7)
    runs, n, K, sigma, M = 200, 8, 1500, 1.0, 2
    A = rng.standard_normal((n, n))
    A = A @ A.T / n
    L, L_max = float(np.linalg.eigvalsh(A)[-1]), float(A.diagonal().max())
    x = np.full((runs, n), 2.0)
    gap = 0.5 * float(x[0] @ A @ x[0])
    known = CoordinateConstants(
        gap=gap, L=L, L_max=L_max, sigma=sigma, n_gradients=M, n_coordinates=n
    )
    step = theory.incon_step_size(known, K)
    while theory.incon_condition(known, step, age) > 1.0:
        step *= 0.9
    writes, each, squares = [], np.arange(runs), np.zeros(K)
    for k in range(K):
        squares[k] = np.square(x @ A).sum(axis=1).mean()
        total = np.zeros((runs, n))
        for _ in range(M):
            read = x.copy()
            for coordinate, change in writes[len(writes) - age :]:
                read[each, coordinate] -= change * (rng.random(runs) < 0.5)
            total += read @ A + rng.standard_normal((runs, n)) * sigma / np.sqrt(n)
        coordinate = rng.integers(n, size=runs)
        change = -step * total[each, coordinate]
        x[each, coordinate] += change
        writes.append((coordinate, change))
    bound = theory.incon_bound_of_step(known, step, K, age)
    assert 0.02 * bound < theory.ergodic_gradient_norm(np.full(K, step), squares) < bound


CON = {"gap": 1.0, "L": 1.0, "sigma": 1.0, "n_gradients": 1}
INCON = {**CON, "L_max": 1.0, "n_coordinates": 4}

# what each function takes besides what is known
SOUND = {
    "con_step_size": {"n_updates": 10},
    "con_least_updates": {"age": 1},
    "con_largest_age": {"n_updates": 10},
    "con_bound": {"n_updates": 10},
    "con_condition": {"step": 0.1, "age": 1},
    "con_largest_age_of_step": {"step": 0.1},
    "con_bound_of_steps": {"steps": [0.1, 0.1], "age": 1},
    "incon_step_size": {"n_writes": 10},
    "incon_least_writes": {"age": 1},
    "incon_largest_age": {"n_writes": 10},
    "incon_bound": {"n_writes": 10},
    "incon_condition": {"step": 0.1, "age": 1},
    "incon_largest_age_of_step": {"step": 0.1},
    "incon_bound_of_step": {"step": 0.1, "n_writes": 10, "age": 1},
}
BAD = {
    **dict.fromkeys(["gap", "L", "L_max", "sigma", "step"], (0.0, -1.0, np.inf, np.nan, "1", True)),
    **dict.fromkeys(["n_updates", "n_writes", "n_gradients", "n_coordinates"], (0, 0.5, np.nan)),
    "age": (-1, np.nan, np.inf, None),
}


@pytest.mark.parametrize(
    ("function", "name"), [(f, name) for f in SOUND for name in SOUND[f] if name in BAD]
)
def test_numbers_out_of_range_are_refused(function, name):
    getattr(theory, function)(CoordinateConstants(**INCON), **SOUND[function])
    for value in BAD[name]:
        with pytest.raises(ValueError, match=name):
            getattr(theory, function)(ONES, **SOUND[function] | {name: value})


@pytest.mark.parametrize(
    ("kind", "sound", "name"),
    [(Constants, CON, name) for name in CON] + [(CoordinateConstants, INCON, n) for n in INCON],
)
def test_constants_out_of_range_are_refused(kind, sound, name):
    kind(**sound)
    for value in BAD[name]:
        with pytest.raises(ValueError, match=name):
            kind(**sound | {name: value})


def test_the_constant_along_one_coordinate_is_at_most_the_gradients():
    assert CoordinateConstants(**INCON | {"L": 3.0, "L_max": 2.0}).along_one == 2.0
    assert CoordinateConstants(**INCON | {"L": 3.0, "L_max": None}).along_one == 3.0


@pytest.mark.parametrize("steps", [[], [0.1, 0.0], [0.1, -0.1], [0.1, np.inf], [[0.1]], [np.nan]])
def test_steps_out_of_range_are_refused(steps):
    with pytest.raises(ValueError, match="steps must be"):
        theory.con_bound_of_steps(ONES, steps, 1)
    with pytest.raises(ValueError, match="age must be a whole number"):
        theory.con_bound_of_steps(ONES, [0.1], 0.5)


def test_a_step_that_breaks_the_condition_has_no_bound():
    with pytest.raises(ValueError, match=r"condition \(15\)"):
        theory.incon_bound_of_step(ONES, 0.6, 10, 0)


def test_ergodic_gradient_norm():
    rng = np.random.default_rng(8)
    steps, norms = rng.random(20), rng.random(20)
    expected = sum(g * v for g, v in zip(steps, norms, strict=True)) / sum(steps)
    assert theory.ergodic_gradient_norm(steps, norms) == pytest.approx(expected)
    for bad in ([], [1.0, 2.0], [-1.0], [np.nan], [[1.0]]):
        with pytest.raises(ValueError, match=r"squared_norms"):
            theory.ergodic_gradient_norm([0.1], bad)
    with pytest.raises(ValueError, match="steps must be finite"):
        theory.ergodic_gradient_norm([-0.1], [1.0])
    with pytest.raises(ValueError, match="all be zero"):
        theory.ergodic_gradient_norm([0.0], [1.0])


# -- constants of a problem -----------------------------------------------------------------------

SMOOTH = ["log_loss", "squared_hinge", "modified_huber", "squared_error", "huber"]
CASES = [
    *({"loss": loss, "form": form} for loss in SMOOTH for form in ("dense", "csr")),
    {"loss": "squared_epsilon_insensitive"},
    {"loss": "log_loss", "columns": 3},
    {"loss": "multinomial", "columns": 3},
    {"loss": "log_loss", "weighted": True, "fit_intercept": False},
    {"loss": "log_loss", "weighted": True, "columns": 3, "form": "csr64"},
    {"loss": "squared_error", "weighted": True, "penalty": None},
    {"loss": "log_loss", "dtype": "float32"},
]


def a_case(**settings):
    """A problem, the dense rows with a one for the intercept, and a model off the optimum."""
    if settings["loss"] in REGRESSION_LOSSES:
        settings["task"] = "regression"
    made, X, _, _ = cases.problem(**{"alpha": 0.05, **settings})
    rng = np.random.default_rng(11)
    coef = rng.standard_normal((made.n_columns, made.n_features))
    intercept = rng.standard_normal(made.n_columns) * made.fit_intercept
    ones = np.ones((len(X), int(made.fit_intercept)))
    return made, np.hstack([X, ones]), Model(coef, intercept)


def flat(made, found):
    """Coefficients and intercepts that a problem has, one column after the other."""
    parts = [found.coef, found.intercept[:, None]] if made.fit_intercept else [found.coef]
    return np.hstack(parts).reshape(-1)


def model_of(made, vector):
    matrix = vector.reshape(made.n_columns, -1)
    coef = np.ascontiguousarray(matrix[:, : made.n_features])
    return Model(coef, matrix[:, -1] if made.fit_intercept else np.zeros(made.n_columns))


@pytest.mark.parametrize("settings", CASES, ids=str)
def test_gradient_is_the_objectives(settings):
    made, _, model = a_case(**settings)
    found = theory.gradient(made, model)
    assert found.objective == pytest.approx(made.objective(model.coef, model.intercept))
    if made.dtype == np.float64:

        def objective(vector):
            at = model_of(made, vector)
            return made.objective(at.coef, at.intercept)

        numeric = approx_fprime(flat(made, model), objective, 1e-6)
        np.testing.assert_allclose(flat(made, found), numeric, atol=2e-5)
    origin, size, _ = made.units
    largest = np.abs((found.coef - found.intercept[:, None] * origin) / size).max()
    largest = max(largest, np.abs(found.intercept).max())
    assert Optimality(made, model).gradient() == pytest.approx(largest)
    assert found.squared_norm == pytest.approx(np.square(flat(made, found)).sum())
    assert not made.fit_intercept or np.any(found.intercept)


@pytest.mark.parametrize("settings", CASES, ids=str)
@pytest.mark.parametrize("dense_size", [40, 2])
def test_lipschitz_constants_bound_the_change_of_the_gradient(settings, dense_size, monkeypatch):
    """Between random models, and along coordinates; by the dense way and by Lanczos's."""
    monkeypatch.setattr(smoothness, "DENSE_SIZE", dense_size)
    monkeypatch.setattr(smoothness, "VECTORS", 5)
    made, rows, model = a_case(**settings)
    L, L_max = theory.lipschitz(made), theory.coordinate_lipschitz(made)
    here, gradient = flat(made, model), flat(made, theory.gradient(made, model))
    rng = np.random.default_rng(12)
    slack = 1.0 + (1e-3 if made.dtype == np.float32 else 1e-9)
    for size in (1e-2, 1.0, 10.0):
        step = rng.standard_normal(len(here)) * size
        change = flat(made, theory.gradient(made, model_of(made, here + step))) - gradient
        assert np.linalg.norm(change) <= L * np.linalg.norm(step) * slack
        for i in range(len(here)):
            along = np.where(np.arange(len(here)) == i, size, 0.0)
            change = flat(made, theory.gradient(made, model_of(made, here + along))) - gradient
            assert abs(change[i]) <= L_max * size * slack
    assert L_max <= L * (1.0 + 1e-12)
    # what it is: the largest eigenvalue, for weights of a row that are the same in all columns
    weight = smoothness.heaviest(made) / len(rows)
    bound = {"log_loss": 0.25, "squared_error": 1.0, "huber": 1.0, "multinomial": 0.5}
    hessian = bound.get(made.loss, 2.0) * (rows.T * weight) @ rows
    hessian[np.arange(made.n_features), np.arange(made.n_features)] += made.l2
    eigenvalue = np.linalg.eigvalsh(hessian)[-1]
    assert eigenvalue * (1.0 - 1e-9) <= L <= 1.01 * eigenvalue
    assert L_max == pytest.approx(hessian.diagonal().max())


@pytest.mark.parametrize("loss", ["log_loss", "squared_error", "squared_hinge"])
def test_lipschitz_constant_is_reached_at_zero(loss):
    made, rows, _ = a_case(loss=loss)
    weight = np.full(len(rows), 1.0 / len(rows))
    bend = {"log_loss": 0.25, "squared_error": 1.0, "squared_hinge": 2.0}[loss]
    hessian = bend * (rows.T * weight) @ rows
    hessian[np.arange(made.n_features), np.arange(made.n_features)] += made.l2
    step = 1e-5 * np.linalg.eigh(hessian)[1][:, -1]
    ends = [flat(made, theory.gradient(made, model_of(made, s * step))) for s in (0.0, 1.0)]
    reached = np.linalg.norm(ends[1] - ends[0]) / np.linalg.norm(step)
    assert reached == pytest.approx(theory.lipschitz(made), rel=1e-4)


def test_lipschitz_of_many_features_and_of_a_sample():
    rng = np.random.default_rng(13)
    X = sp.random_array((400, 120), density=0.1, random_state=rng, format="csr")
    made = problems.linear(X, rng.integers(0, 2, 400), alpha=1e-3)
    rows = np.hstack([X.toarray(), np.ones((400, 1))])
    hessian = 0.25 / 400 * rows.T @ rows + np.diag([1e-3] * 120 + [0.0])
    whole = np.linalg.eigvalsh(hessian)[-1]
    for tol in (0.1, 1e-6):
        assert whole * (1 - 1e-12) <= theory.lipschitz(made, tol=tol) <= (1 + tol) * whole
    samples = [theory.lipschitz(made, n_rows=50, seed=seed) for seed in range(30)]
    assert whole < np.mean(samples) < 1.5 * whole
    assert theory.lipschitz(made, n_rows=50, seed=1) == samples[1]
    assert theory.lipschitz(made, n_rows=400) == theory.lipschitz(made)
    nothing = problems.linear(np.zeros((3, 50)), [0, 1, 1], penalty=None, fit_intercept=False)
    assert theory.lipschitz(nothing) == theory.coordinate_lipschitz(nothing) == 0.0


def test_lipschitz_where_lanczos_gives_up_is_the_trace(monkeypatch):
    """A safe answer all the same."""

    def give_up(*args, **kwargs):
        raise smoothness.ArpackNoConvergence("no", np.empty(0), np.empty((0, 0)))

    monkeypatch.setattr(smoothness, "eigsh", give_up)
    monkeypatch.setattr(smoothness, "DENSE_SIZE", 2)
    made, rows, _ = a_case(loss="log_loss")
    trace = 0.25 * np.square(rows).sum() / len(rows) + made.l2 * made.n_features
    assert theory.lipschitz(made) == pytest.approx(trace)


def test_lipschitz_refuses():
    made, _, _ = a_case(loss="log_loss")
    with pytest.raises(ValueError, match="n_rows"):
        theory.lipschitz(made, n_rows=0)
    with pytest.raises(ValueError, match="tol"):
        theory.lipschitz(made, tol=0.0)
    large = problems.linear(np.array([[1e200], [1.0]]), [0, 1])
    for function in (theory.lipschitz, theory.coordinate_lipschitz):
        with pytest.raises(ValueError, match="Scale the input"):
            function(large)


@pytest.mark.parametrize("settings", [{"loss": "hinge"}, {"loss": "log_loss", "penalty": "l1"}])
def test_what_is_not_smooth_is_refused(settings):
    made, _, model = a_case(**settings)
    assert theory.unsmooth(made)
    for function in (theory.lipschitz, theory.coordinate_lipschitz):
        with pytest.raises(ValueError, match=r"kinks|l1 part"):
            function(made)
    for function in (theory.gradient, theory.gradient_noise):
        with pytest.raises(ValueError, match=r"kinks|l1 part"):
            function(made, model)


def row_gradients(made, rows, model, on_support=False):
    """G of every row, (n_rows, size): the row's loss by itself, and its penalty."""
    slopes = theory.gradient(made, model).slopes
    out = np.einsum("ic,ij->icj", slopes, rows)
    features = rows[:, : made.n_features]
    penalty = np.ones_like(features)
    if on_support:
        counts = (features != 0.0).sum(axis=0)
        penalty = (features != 0.0) * len(rows) / np.maximum(counts, 1)
    out[:, :, : made.n_features] += made.l2 * penalty[:, None, :] * model.coef[None]
    return out.reshape(len(rows), -1)


@pytest.mark.parametrize("settings", CASES, ids=str)
@pytest.mark.parametrize("on_support", [False, True])
def test_noise_is_that_of_all_rows(settings, on_support):
    made, rows, model = a_case(**settings)
    spread = on_support and made.is_sparse
    each = row_gradients(made, rows, model, spread)
    occurs = np.ones(made.n_features + made.fit_intercept, bool)
    if spread:  # what does not occur is not penalised
        occurs[: made.n_features] = (rows[:, : made.n_features] != 0.0).any(axis=0)
    whole = flat(made, theory.gradient(made, model)) * np.tile(occurs, made.n_columns)
    np.testing.assert_allclose(each.mean(axis=0), whole, atol=1e-5)
    expected = np.sqrt(np.square(each - whole).sum(axis=1).mean())
    found = theory.gradient_noise(made, model, on_support=on_support)
    assert found == pytest.approx(expected, rel=1e-5)
    at = theory.gradient(made, model)
    assert theory.gradient_noise(made, model, on_support=on_support, at=at) == found


def test_noise_of_a_batch_is_that_of_all_batches():
    made, rows, model = a_case(loss="log_loss")
    each, whole = row_gradients(made, rows, model), flat(made, theory.gradient(made, model))
    pairs = [each[list(p)].mean(axis=0) for p in itertools.product(range(len(rows)), repeat=2)]
    expected = np.sqrt(np.square(pairs - whole).sum(axis=1).mean())
    assert theory.gradient_noise(made, model, 2) == pytest.approx(expected)
    with pytest.raises(ValueError, match="batch"):
        theory.gradient_noise(made, model, 0)


def test_a_model_of_another_shape_is_refused():
    made, _, _ = a_case(loss="log_loss")
    with pytest.raises(ValueError, match=r"needs \(1, 7\)"):
        theory.gradient(made, Model(np.zeros((1, 6)), np.zeros(1)))


@pytest.mark.parametrize("form", ["dense", "csr"])
def test_squared_norms(form):
    """Exact beside rows that are far larger."""
    X = cases.matrix()
    X[3] *= 1e9
    made = problems.linear(cases.as_form(X, form), np.arange(len(X)) % 2)
    np.testing.assert_allclose(made.squared_norms, np.square(X).sum(axis=1), rtol=1e-12)


# -- sparsity -------------------------------------------------------------------------------------


def brute_force(X):
    edges = np.asarray(X) != 0.0
    n = len(edges)
    share = max(sum(bool((a & b).any()) for b in edges) for a in edges) / n
    return edges.sum(axis=1).max(), edges.sum(axis=0).max() / n, share


@pytest.mark.parametrize("seed", range(40))
def test_sparsity_is_that_of_brute_force(seed):
    rng = np.random.default_rng(seed)
    shape = rng.integers(1, 30, 2)
    X = (rng.random(shape) < rng.choice([0.02, 0.1, 0.3, 0.9])) * rng.standard_normal(shape)
    expected = brute_force(X)
    for form in (X, sp.csr_array(X), sp.csc_array(X), sp.coo_matrix(X)):
        found = theory.sparsity(form, budget=None)
        assert (found.omega, found.delta, found.rho) == expected
        assert found.is_exact and found.rho_at_most == found.rho
    for budget in (0, 40, 300):
        short = theory.sparsity(X, budget=budget)
        assert (short.omega, short.delta) == expected[:2]
        assert short.rho <= expected[2] <= short.rho_at_most <= 1.0
        assert not short.is_exact or short.rho == expected[2]


def test_sparsity_of_a_search_that_is_cut_short():
    """Rows that share two features each with the next: bounds far above what is found."""
    n = 60
    X = np.zeros((n, n))
    for i in range(n):
        X[i, [i, (i + 1) % n]] = 1.0
    assert theory.sparsity(X) == theory.Sparsity(2, 2 / n, 3 / n, 3 / n)
    short = theory.sparsity(X, budget=0)
    assert short == theory.Sparsity(2, 2 / n, 3 / n, 4 / n)
    assert not short.is_exact


def test_sparsity_counts_values_that_are_not_zero_once():
    X = sp.csr_array((np.array([1.0, 2.0, 0.0, 3.0]), [0, 0, 1, 1], [0, 3, 4]), shape=(2, 2))
    indices = X.indices.copy()
    assert theory.sparsity(X) == theory.Sparsity(1, 0.5, 0.5, 0.5)
    np.testing.assert_array_equal(X.indices, indices)
    assert X.nnz == 4
    assert theory.sparsity(np.zeros((3, 2))) == theory.Sparsity(0, 0.0, 0.0, 0.0)


def test_sparsity_refuses():
    for bad in (np.zeros((0, 3)), np.zeros(3), sp.csr_array((0, 3))):
        with pytest.raises(ValueError, match="at least one row"):
            theory.sparsity(bad)
    with pytest.raises(ValueError, match="budget"):
        theory.sparsity(np.eye(2), budget=-1)
    damaged = sp.csr_array(np.eye(3))
    damaged.indices[1] = 1000
    with pytest.raises(ValueError, match="damaged"):
        theory.sparsity(damaged)


def test_hogwild_step_size():
    alone = theory.hogwild_step_size(0.5, 0.1, 2.0, 4.0, 3.0, theory.sparsity(np.eye(4)), age=0)
    assert alone == pytest.approx(0.5 * 0.1 * 2.0 / (2 * 4.0 * 9.0))
    rows = theory.Sparsity(omega=3, delta=0.25, rho=0.4, rho_at_most=0.5)
    found = theory.hogwild_step_size(0.5, 0.1, 2.0, 4.0, 3.0, rows, age=2)
    assert found == pytest.approx(alone / 3 / (1 + 6 * 0.5 * 2 + 4 * 4 * 3 * 0.5))
    with pytest.raises(ValueError, match="share must be below 1"):
        theory.hogwild_step_size(1.0, 0.1, 2.0, 4.0, 3.0, rows, age=2)
    with pytest.raises(ValueError, match="age"):
        theory.hogwild_step_size(0.5, 0.1, 2.0, 4.0, 3.0, rows, age=-1)
    with pytest.raises(ValueError, match="convexity"):
        theory.hogwild_step_size(0.5, 0.1, 0.0, 4.0, 3.0, rows, age=1)


# -- the section of a report ----------------------------------------------------------------------


@pytest.mark.parametrize("settings", CASES, ids=str)
def test_the_lower_bound_is_below_the_optimum(settings):
    made, _, model = a_case(**settings)

    def objective(vector):
        at = theory.gradient(made, model_of(made, vector))
        return at.objective, flat(made, at)

    best = minimize(objective, np.zeros(len(flat(made, model))), jac=True, tol=1e-10)
    at_optimum = model_of(made, best.x)
    slack = 1e-5 * (1.0 + abs(best.fun))
    for at in (model, at_optimum):
        lowest, source = lower_bound(made, at)
        assert 0.0 <= lowest <= best.fun + slack
        assert (lowest > 0.0) == source.startswith("duality")
    if made.l2 > 0.0:
        assert lower_bound(made, at_optimum)[0] == pytest.approx(best.fun, rel=1e-2, abs=1e-3)


def a_run(made, rows, ages):
    """A report of so many rows, with updates of these ages."""
    model = Model(np.zeros((made.n_columns, made.n_features)), np.zeros(made.n_columns))
    return Report(
        model=model, workers=[{"rows": rows // 2}, {"rows": rows - rows // 2}], staleness=ages
    )


@pytest.mark.parametrize("consistent", [True, False])
def test_speedup_is_expected_of_long_runs_with_small_ages(consistent):
    made, _, _ = a_case(loss="log_loss")
    common = {"consistent": consistent, "n_gradients": 5, "step": None}
    law = "(10)" if consistent else "(18)"

    short = theory_section(made, a_run(made, 10, np.array([2])), Algorithm(**common))
    assert not short["speedup_expected"] and short["up_to_workers"] == 1
    assert short["sentence"].startswith("Linear speedup is not to be expected, because")
    assert law in short["sentence"] and "the run had 2:" in short["sentence"]

    long = theory_section(made, a_run(made, 10**6, np.array([0, 999, 0, 1])), Algorithm(**common))
    assert long["speedup_expected"] and long["condition_holds"]
    assert long["n_updates"] == 200_000
    allowed = long["largest_age"]
    assert long["up_to_workers"] == (5 * allowed if consistent else allowed) + 1
    workers = long["up_to_workers"]
    assert f"is to be expected up to about {workers:,} workers" in long["sentence"]
    assert "no update of this run was older than 3" in long["sentence"]
    assert (long["age_p95"], long["age_max"]) == (1, 3)

    # the same number of updates, of which most are too old; and of which few are
    old = np.zeros(workers + 10, np.int64)
    old[-1] = 100
    late = theory_section(made, a_run(made, 10**6, old), Algorithm(**common))
    assert not late["speedup_expected"] and not late["condition_holds"]
    assert "not to be expected of this run" in late["sentence"]
    old[0] = 10_000
    few = theory_section(made, a_run(made, 10**6, old), Algorithm(**common))
    assert few["speedup_expected"] and not few["condition_holds"]
    assert f"the oldest {workers + 9}" in few["sentence"]


@pytest.mark.parametrize("consistent", [True, False])
def test_the_sections_numbers_are_the_formulas(consistent):
    made, _, _ = a_case(loss="log_loss")
    run = a_run(made, 60_000, np.array([10, 5]))
    found = theory_section(made, run, Algorithm(consistent=consistent, n_gradients=2, step=0.01))
    L, L_max = theory.lipschitz(made), theory.coordinate_lipschitz(made)
    sigma = theory.gradient_noise(made, run.model, on_support=not consistent)
    gap = made.objective(run.model.coef, run.model.intercept) - found["lower_bound"]
    assert (found["L"], found["L_max"], found["sigma"]) == pytest.approx((L, L_max, sigma))
    assert found["gap"] == pytest.approx(gap)
    n = made.n_features + 1
    known = CoordinateConstants(
        gap=gap, L=L, L_max=L_max, sigma=sigma, n_gradients=2, n_coordinates=n
    )
    if consistent:
        expected = {
            "paper_step": theory.con_step_size(known, 30_000),
            "least_updates": theory.con_least_updates(known, 1),
            "largest_age": theory.con_largest_age(known, 30_000),
            "step_condition": theory.con_condition(known, 0.01, 1),
            "bound": theory.con_bound(known, 30_000),
        }
    else:  # a write cycle is n writes
        expected = {
            "paper_step": theory.incon_step_size(known, 30_000 * n),
            "least_updates": -(-theory.incon_least_writes(known, n) // n),
            "largest_age": theory.incon_largest_age(known, 30_000 * n) // n,
            "step_condition": theory.incon_condition(known, 0.01, n),
            "bound": theory.incon_bound(known, 30_000 * n),
        }
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    assert found["step_condition_holds"]


def test_a_step_that_is_too_long_is_told_of():
    made, _, _ = a_case(loss="log_loss")
    run = a_run(made, 10**6, np.array([1, 1]))
    found = theory_section(made, run, Algorithm(consistent=False, n_gradients=1, step=50.0))
    assert not found["step_condition_holds"]
    assert "the one used, 50, is too long for its condition (15)." in found["sentence"]


def test_gradients_of_several_rows_are_less_noisy():
    made, _, _ = a_case(loss="log_loss")
    common = {"consistent": True, "n_gradients": 3, "step": None}
    one = theory_section(made, a_run(made, 3000, np.array([1])), Algorithm(**common))
    ten = theory_section(
        made, a_run(made, 3000, np.array([1])), Algorithm(**common, rows_per_gradient=10)
    )
    assert ten["sigma"] == pytest.approx(one["sigma"] / np.sqrt(10))
    assert (one["n_updates"], ten["n_updates"]) == (1000, 100)


def test_a_start_at_the_optimum_says_nothing():
    X = np.array([[1.0], [2.0], [3.0]])
    made = problems.linear(X, [2.0, 4.0, 6.0], loss="squared_error", penalty=None)
    run = a_run(made, 300, np.array([1]))
    best = Model(np.array([[2.0]]), np.zeros(1))
    found = theory_section(
        made, run, Algorithm(consistent=True, n_gradients=1, step=None), start=best
    )
    assert list(found) == ["sentence"]
    assert "cannot be said" in found["sentence"] and "gap=0" in found["sentence"]


@pytest.mark.parametrize("form", ["dense", "csr"])
def test_asysg_incon_reports_its_theory(cancer, form):
    made = problems.linear(cases.as_form(cancer[0], form), cancer[1])
    report = asysg_incon(
        made, n_workers=2, runtime="threads", batch=2, step=0.01, epochs=3, trace=4, seed=0
    )
    found = json.loads(report.to_json())["theory"]
    assert found["n_updates"] == sum(worker["rows"] for worker in report.workers) / 2
    assert found["step"] == 0.01 and found["paper_step"] > 0.0
    assert (found["age_p95"], found["age_max"]) == (report.staleness_p95, report.staleness_max)
    trace = report.trace
    weights = np.diff(trace.epochs)
    expected = weights @ trace.squared_gradient[:-1] / weights.sum()
    assert found["ergodic_squared_gradient"] == pytest.approx(expected)
    start = theory.gradient(made, Model(np.zeros((1, 30)), np.zeros(1)))
    assert trace.squared_gradient[0] == pytest.approx(start.squared_norm)
    assert trace.objective[0] == pytest.approx(start.objective)
    assert ("rho" in found) == (form == "csr")
    if form == "csr":
        assert (found["omega"], found["delta"], found["rho"]) == brute_force(cancer[0])
    assert report.theory["sentence"] in report.table()
    assert "theory: paper step" in report._repr_html_()


def test_asysg_incon_without_theory(cancer):
    made = problems.linear(*cancer)
    common = {"n_workers": 1, "runtime": "caller", "epochs": 2, "seed": 0, "trace": 2}
    plain = asysg_incon(made, theory=False, **common)
    assert plain.theory is None and plain.trace.squared_gradient is None
    assert "theory" not in plain.to_dict() and "theory" not in plain.table()
    assert "squared_gradient" not in plain.to_dict()["trace"]
    told = asysg_incon(made, **common)
    np.testing.assert_array_equal(told.model.coef, plain.model.coef)
    np.testing.assert_allclose(told.trace.objective, plain.trace.objective)
    hinge = asysg_incon(problems.linear(*cancer, loss="hinge"), **common)
    assert hinge.theory == {"sentence": hinge.theory["sentence"]}
    assert "loss='hinge' has kinks" in hinge.theory["sentence"]
    falling = asysg_incon(made, step=StepSize("invscaling", eta0=0.1), **common)
    assert falling.theory["step"] is None and "step_condition" not in falling.theory
    again = asysg_incon(made, start=told.model, **common)
    assert again.theory["gap"] < told.theory["gap"]


def test_a_traces_gradients_are_asked_for_with_a_trace(cancer):
    made = problems.linear(*cancer)
    report = solve(made, rule=SGD(), plane=Shared(), trace=2, gradients=True, seed=0)
    assert len(report.trace.squared_gradient) == len(report.trace.objective)
    last = theory.gradient(made, report.model)
    assert report.trace.squared_gradient[-1] == pytest.approx(last.squared_norm, rel=1e-6)
    with pytest.raises(ValueError, match="trace=4"):
        solve(made, gradients=True)
    with pytest.raises(ValueError, match="kinks"):
        solve(problems.linear(*cancer, loss="hinge"), trace=2, gradients=True)


@pytest.mark.parametrize("loss", ["log_loss", "multinomial"])
def test_several_columns_are_coordinates_too(loss):
    made, _, _ = a_case(loss=loss, columns=3)
    report = asysg_incon(made, n_workers=1, runtime="caller", epochs=2, seed=0)
    assert report.theory["n_coordinates"] == 3 * (made.n_features + 1)
    assert report.theory["n_updates"] == 2 * made.n_rows
    zero = made.objective(np.zeros((3, made.n_features)), np.zeros(3))
    assert report.theory["gap"] == pytest.approx(zero - report.theory["lower_bound"])
