"""`alpha="auto"`: the penalty that is chosen by held-out ratings."""

import numpy as np
import pytest

from hogshare import MatrixFactorization, datasets, problems
from hogshare.estimators import penalty


def of_known_rank():
    return datasets.known_rank(40_000, n_users=1000, n_items=400, rank=4)


def of_biases():
    rng = np.random.default_rng(0)
    users, items = rng.integers(500, size=20_000), rng.integers(300, size=20_000)
    ratings = rng.normal(size=500)[users] + rng.normal(size=300)[items]
    return users, items, ratings + rng.normal(size=20_000)


def of_likes():
    users, items, ratings = of_known_rank()
    return users, items, (ratings > 0.3).astype(float)


@pytest.mark.parametrize(
    ("made", "settings"),
    [
        (of_known_rank, {}),
        (of_known_rank, {"n_factors": 24}),
        (of_biases, {}),
        (of_likes, {"loss": "logistic"}),
    ],
)
def test_it_is_nearly_the_best_of_a_grid(made, settings):
    users, items, ratings = made()
    train, test = np.split(np.random.default_rng(1).permutation(len(ratings)), [-4000])

    def error(alpha):
        model = MatrixFactorization(alpha=alpha, random_state=0, unknown="ignore", **settings)
        model.fit(users[train], items[train], ratings[train])
        p, y = model.predict(users[test], items[test]).astype(float), ratings[test]
        p = p if model.loss != "logistic" else np.clip(p, 1e-9, 1.0 - 1e-7)
        if model.loss == "logistic":
            return -np.mean(y * np.log(p) + (1 - y) * np.log(1 - p)), model.alpha_
        return np.sqrt(np.mean((p - y) ** 2)), model.alpha_

    found, chosen = error("auto")
    best = min(error(chosen * q)[0] for q in (0.05, 0.2, 0.5, 2.0, 5.0, 20.0))
    assert found <= 1.02 * best


def test_few_ratings_go_by_the_edge():
    users, items, ratings = (part[:900] for part in of_known_rank())
    model = MatrixFactorization(random_state=0).fit(users, items, ratings)
    users, items = (np.unique(part, return_inverse=True)[1] for part in (users, items))
    problem = problems.factorisation(users, items, ratings, bias_alpha=2.0)
    assert model.alpha_ == pytest.approx(problem.noise_edge(), rel=1e-5)
    assert model.n_iter_ == 20


def test_seeds_repeat_and_tol_acts_over_the_whole_fit():
    users, items, ratings = of_known_rank()
    settings = {"random_state": 0, "n_iter_no_change": 2, "max_iter": 60}
    one, two = (
        MatrixFactorization(tol=1e-3, **settings).fit(users, items, ratings) for _ in range(2)
    )
    assert one.alpha_ == two.alpha_ and np.array_equal(one.item_factors_, two.item_factors_)
    assert 3 < one.n_iter_ < 25  # of five fits of twelve each none could stop before that
    assert one.report_.n_epochs == one.n_iter_


def test_a_problem_is_divided_into_all_of_its_ratings():
    users, items, ratings = of_known_rank()
    problem = problems.factorisation(users, items, ratings, n_factors=3)
    held = np.random.default_rng(0).random(len(ratings)) < 0.1
    part, others = problem.divided(held)
    assert (part.n_rows, others.n_rows) == (np.sum(~held), np.sum(held))
    w = problem.start(0)
    sums = [one.n_rows * one.mean_loss(w) for one in (part, others)]
    assert sum(sums) == pytest.approx(problem.n_rows * problem.mean_loss(w))
    assert part.cells.ends[-1] == part.n_rows and len(part.cells.ends) == len(problem.cells.ends)
    for line, n, shares in (
        (part.ratings.users, part.n_users, part.ratings.of_users),
        (part.ratings.items, part.n_items, part.ratings.of_items),
    ):
        weights = np.bincount(line, weights=shares[line], minlength=n)
        np.testing.assert_allclose(weights[np.unique(line)], 1.0, rtol=1e-5)


def test_the_caller_hears_of_the_fit_alone():
    users, items, ratings = of_known_rank()
    heard = []
    model = MatrixFactorization(random_state=0, max_iter=6)
    model._on_epoch = lambda *what: heard.append(what)
    model.fit(users, items, ratings)
    assert len(heard) == 6 == model.n_iter_


def test_a_grid_is_followed_down_its_valley():
    problem = problems.factorisation(*of_known_rank(), n_factors=3)
    edge = problem.noise_edge()
    asked = []

    def fitted(part):
        asked.append(part.ratings.alpha / part.noise_edge())
        return np.full(part.n_params, abs(np.log(asked[-1] / 0.1)), part.dtype)

    assert penalty.chosen(problem, fitted, 0) == pytest.approx(0.1 * edge, rel=0.05)
    assert len(asked) == len(set(asked)) < len(penalty.GRID)
