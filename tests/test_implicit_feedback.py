"""`MatrixFactorization` of who has met what: lists, routes, refusals, new users, files."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import hogshare
from hogshare import MatrixFactorization
from hogshare.estimators import recommendations
from hogshare.metrics import ranking_metrics_at_k

N_USERS, N_ITEMS = 120, 40
ROUTES = {
    "als": {},
    "bpr": {"loss": "bpr"},
    "bpr by popularity": {"loss": "bpr", "sampling": "popularity", "negatives": 2},
    "logistic": {"loss": "logistic"},
    "logistic nonnegative": {"loss": "logistic", "nonnegative": True},
    "bpr without biases": {"loss": "bpr", "biases": False},
    "als without biases": {"biases": False},
}


def two_tastes(seed=0):
    """Pairs: even users like the first half of the items, odd ones the others."""
    rng = np.random.default_rng(seed)
    users = np.repeat(np.arange(N_USERS), 8)
    items = rng.integers(N_ITEMS // 2, size=len(users)) + N_ITEMS // 2 * (users % 2)
    pairs = np.unique(np.column_stack([users, items]), axis=0)
    return pairs[rng.permutation(len(pairs))].T


def fitted(route, users, items, **settings):
    model = MatrixFactorization(random_state=0, max_iter=30, **ROUTES[route], **settings)
    return model.fit(users, items)


@pytest.fixture(scope="module", params=ROUTES)
def route(request):
    return request.param


def test_lists_are_of_ones_own_taste(route):
    users, items = two_tastes()
    model = fitted(route, users, items)
    lists = model.recommend(np.arange(N_USERS), n=5)
    own = [
        (item >= N_ITEMS // 2) == user % 2
        for user, of_user in enumerate(lists)
        for item, _ in of_user
    ]
    assert np.mean(own) > 0.9
    seen = set(zip(users.tolist(), items.tolist(), strict=True))
    assert not any((u, item) in seen for u, of_user in enumerate(lists) for item, _ in of_user)


def test_held_out_pairs_are_found_again(route):
    users, items = two_tastes()
    model = fitted(route, users[:-200], items[:-200])
    found = ranking_metrics_at_k(model, users[-200:], items[-200:], k=10)
    assert found["recall"] > 1.4 * 10 / N_ITEMS


def test_a_new_user_is_as_an_old_one(route):
    users, items = two_tastes()
    model = fitted(route, users, items, unknown="raise")
    own = [4, 7, 11, 13]
    best = [item for item, _ in model.recommend(ratings=own, n=6)]
    assert not set(own) & set(best)
    assert np.mean([item < N_ITEMS // 2 for item in best]) > 0.8
    assert best == [item for item, _ in model.recommend(ratings=dict.fromkeys(own, 1), n=6)]


def test_files_bring_all_of_it_back(route, tmp_path):
    users, items = two_tastes()
    model = fitted(route, [f"u{u}" for u in users], [f"i{i}" for i in items])
    hogshare.save(model, tmp_path / "taste.npz")
    again = hogshare.load(tmp_path / "taste.npz")
    assert again.solver_ == model.solver_ and again.negatives_ == model.negatives_
    assert again.recommend("u3", 5) == model.recommend("u3", 5)
    assert again.recommend(ratings=["i1", "i2"]) == model.recommend(ratings=["i1", "i2"])


@pytest.mark.parametrize("route", ["als", "bpr", "logistic"])
def test_seeds_repeat(route):
    users, items = two_tastes()
    one, two = (fitted(route, users, items, n_jobs=1) for _ in range(2))
    assert np.array_equal(one.item_factors_, two.item_factors_)
    other = MatrixFactorization(random_state=1, max_iter=30, **ROUTES[route]).fit(users, items)
    assert not np.array_equal(one.item_factors_, other.item_factors_)


def test_als_has_the_same_bits_with_any_number_of_threads():
    users, items = two_tastes()
    one, two = (fitted("als", users, items, n_jobs=n) for n in (1, 2))
    assert np.array_equal(one.item_factors_, two.item_factors_)
    assert one.report_.solver == "als" and one.solver_ == "als" and one.n_iter_ == 30


def test_the_order_of_pairs_does_not_matter_to_als():
    users, items = two_tastes()
    order = np.random.default_rng(1).permutation(len(users))
    one = fitted("als", users, items)
    two = fitted("als", users[order], items[order])
    assert np.array_equal(one.item_factors_, two.item_factors_)


def test_pairs_in_a_matrix_are_pairs():
    users, items = two_tastes()
    matrix = sp.csr_matrix((np.ones(len(users)), (users, items)), shape=(N_USERS, N_ITEMS))
    with pytest.warns(UserWarning, match="taken for pairs.*solver='als'"):
        model = MatrixFactorization(random_state=0, max_iter=30).fit(matrix)
    assert np.array_equal(model.item_factors_, fitted("als", users, items).item_factors_)


def test_strengths_weigh():
    users, items = two_tastes()
    rng = np.random.default_rng(0)
    strengths = rng.choice([0.1, 10.0], size=len(users))
    model = MatrixFactorization(solver="als", random_state=0).fit(users, items, strengths)
    z = model.predict(users, items)
    errors = 1.0 - z
    assert errors[strengths == 10.0].mean() < 0.8 * errors[strengths == 0.1].mean()


def test_a_strength_of_zero_is_no_meeting():
    users, items = two_tastes()
    strengths = np.where(np.arange(len(users)) % 3, 1.0, 0.0)
    settings = {"solver": "als", "random_state": 0, "n_factors": 4, "alpha": 1.0}
    one = MatrixFactorization(**settings).fit(users, items, strengths)
    kept = strengths > 0
    assert set(users[kept]) == set(users) and set(items[kept]) == set(items)
    two = MatrixFactorization(**settings).fit(users[kept], items[kept], 2.0 * strengths[kept] / 2)
    assert np.array_equal(one.item_factors_, two.item_factors_)
    assert one.seen_.nnz > two.seen_.nnz


def test_als_folds_in_what_it_would_fit():
    users, items = two_tastes()
    model = MatrixFactorization(n_factors=6, random_state=0, max_iter=100, alpha=1.0)
    model.fit(users, items)
    for user in (0, 1, 5):
        own = items[users == user].tolist()
        new = dict(model.recommend(ratings=own, n=10))
        old = dict(model.recommend(user, n=10))
        assert new.keys() == old.keys()
        np.testing.assert_allclose([new[i] for i in old], list(old.values()), atol=2e-3)


def test_als_stops_by_tol():
    users, items = two_tastes()
    settings = {"random_state": 0, "max_iter": 500, "n_iter_no_change": 2}
    model = MatrixFactorization(tol=1e-6, **settings).fit(users, items)
    assert 3 < model.n_iter_ < 500 and model.report_.converged


@pytest.mark.parametrize("loss", ["bpr", "logistic"])
def test_partial_fit_takes_pairs(loss):
    users, items = two_tastes()
    model = MatrixFactorization(loss=loss, random_state=0)
    half = len(users) // 2
    for _ in range(20):
        for part in (slice(half), slice(half, None)):
            model.partial_fit(users[part], items[part])
    model.partial_fit(["new"] * 4, [1, 2, 3, 5])
    assert model.negatives_ == (1 if loss == "bpr" else 4)
    best = [item for item, _ in model.recommend(0, n=5)]
    assert np.mean([item < N_ITEMS // 2 for item in best]) > 0.7
    assert model.seen_.nnz == len(users) + 4


def test_more_workers_find_as_much(route):
    users, items = two_tastes()
    model = fitted(route, users[:-200], items[:-200], n_jobs=2, runtime="threads")
    found = ranking_metrics_at_k(model, users[-200:], items[-200:], k=10)
    assert found["recall"] > 1.4 * 10 / N_ITEMS


@pytest.mark.parametrize(
    ("settings", "ratings", "message"),
    [
        ({"loss": "bpr"}, [1, 2, 3], "these ratings differ"),
        ({"loss": "bpr", "negatives": 0}, None, "use 1 or more"),
        ({"solver": "sgd"}, None, "ratings is None"),
        ({"solver": "als", "loss": "logistic"}, None, "not 'logistic'"),
        ({"nonnegative": True}, None, "does not bound factors"),
        ({"plane": "shared"}, None, "has no plane"),
        ({"barrier": "bsp"}, None, "has no barrier"),
        ({"runtime": "processes"}, None, "runs in threads"),
        ({"solver": "als"}, [1, -2, 3], "must not be negative; got -2"),
        ({"solver": "als", "confidence": 1e5}, [1, 2, 1e3], "lost in rounding"),
        ({"solver": "als", "alpha": 1e300}, [1, 2, 3], "beyond the range of float32"),
        ({"solver": "als"}, [0, 0, 0], "no pair has met"),
        ({"loss": "bpr"}, [-1, -1, -1], "no pair has met"),
        ({"sampling": "all"}, None, "sampling"),
    ],
)
def test_what_does_not_go_together_is_refused(settings, ratings, message):
    with pytest.raises(ValueError, match=message):
        MatrixFactorization(**settings).fit([0, 1, 2], [0, 1, 0], ratings)


def test_what_als_cannot_do_is_said():
    users, items = two_tastes()
    model = fitted("als", users, items)
    with pytest.raises(ValueError, match="takes steps, which solver='als' does not have"):
        model.partial_fit(users, items)
    with pytest.raises(ValueError, match="ratings is None"):
        MatrixFactorization().partial_fit(users, items)
    with pytest.raises(ValueError, match="ranking_metrics_at_k"):
        model.score(users, items)


def test_no_pairs_are_refused():
    with pytest.raises(ValueError, match="no pairs"):
        MatrixFactorization().fit([], [])
    with pytest.raises(ValueError, match="one for each rating"):
        MatrixFactorization().fit([1, 2], [1])


def test_one_pair_and_one_item_are_enough():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for settings in ROUTES.values():
            model = MatrixFactorization(random_state=0, **settings).fit(["ann"], ["tea"])
            assert np.isfinite(model.predict("ann", "tea")).all()
            assert model.recommend("ann") == []


def test_long_lists_begin_as_short_ones(monkeypatch):
    users, items = two_tastes()
    model = fitted("als", users, items)
    whole = model.recommend([3, 4], n=N_ITEMS)
    monkeypatch.setattr(recommendations, "MOST_INSERTED", 5)
    assert model.recommend([3, 4], n=N_ITEMS) == whole
    assert model.recommend([3, 4], n=5) == [one[:5] for one in whole]


def test_every_call_of_partial_fit_draws_anew():
    users = items = np.arange(50)
    model = MatrixFactorization(0, loss="bpr", random_state=0, bias_alpha=0.0).fit(users, items)
    lowered = set()
    for _ in range(12):
        before = model.item_biases_.copy()
        model.partial_fit([0], [0])
        lowered.add(int(np.argmin(model.item_biases_ - before)))
    assert len(lowered) > 6


def test_a_model_of_ratings_is_not_made_one_of_pairs():
    users, items = two_tastes()
    ratings = np.random.default_rng(0).uniform(1.0, 5.0, len(users))
    model = MatrixFactorization(3, random_state=0).fit(users, items, ratings)
    before = model.predict(users, items)
    with pytest.raises(ValueError, match="takes steps"):
        model.set_params(solver="als").partial_fit(users[:5], items[:5], ratings[:5])
    assert np.array_equal(model.predict(users, items), before)
    model.set_params(solver="auto", n_factors="auto").partial_fit(users, items, ratings)
    assert model.item_factors_.shape[1] == 3


def test_negatives_of_a_fit_stay():
    users, items = two_tastes()
    model = MatrixFactorization(loss="logistic", random_state=0).fit(users, items)
    with pytest.raises(ValueError, match="negatives=9, and the model was fitted with 4"):
        model.set_params(negatives=9).partial_fit(users, items)


@pytest.mark.parametrize(("route", "rating"), [("als", 5.0), ("als", 0.2), ("logistic", 0.5)])
def test_folding_in_has_the_unit_of_the_fit(route, rating):
    users, items = two_tastes()
    ratings = np.full(len(users), rating)
    with pytest.warns(UserWarning, match="taken for pairs"):
        model = MatrixFactorization(random_state=0, **ROUTES[route]).fit(users, items, ratings)
    own = items[users == 3].tolist()
    by_ratings = model.recommend(ratings=dict.fromkeys(own, rating))
    assert by_ratings == model.recommend(ratings=own)


def test_an_item_of_a_list_has_the_mean_strength():
    users, items = two_tastes()
    strengths = np.random.default_rng(0).uniform(50.0, 100.0, len(users))
    model = MatrixFactorization(solver="als", random_state=0).fit(users, items, strengths)
    given = dict.fromkeys([1, 2], float(strengths.mean()))
    for (item, one), (same, other) in zip(
        model.recommend(ratings=[1, 2]), model.recommend(ratings=given), strict=True
    ):
        assert item == same and one == pytest.approx(other, rel=1e-5)
    assert model.recommend(ratings=[1, 1, 2]) != model.recommend(ratings=[1, 2])
    with pytest.raises(ValueError, match="must not be negative; got -1"):
        model.recommend(ratings={1: -1.0, 2: 3.0})
    pairwise = fitted("bpr", users, items)
    with pytest.raises(ValueError, match="these ratings differ"):
        pairwise.recommend(ratings={1: 5.0, 2: 0.0})


def test_parameters_that_change_after_the_fit_change_no_answer(route):
    users, items = two_tastes()
    model = fitted(route, users, items)
    before = model.predict(0, [1, 2, 3]), model.recommend(ratings=[1, 2])
    others = {"loss": "squared_error", "biases": not model.biases, "confidence": 77.0}
    others |= {"sampling": "popularity", "bias_alpha": 9.0, "nonnegative": not model.nonnegative}
    if route.startswith("als"):
        others["loss"] = "logistic"
    model.set_params(**others)
    assert np.array_equal(model.predict(0, [1, 2, 3]), before[0])
    assert model.recommend(ratings=[1, 2]) == before[1]


def test_large_weights_are_met():
    users, items = two_tastes()
    model = MatrixFactorization(8, confidence=1e5, random_state=0).fit(users, items)
    np.testing.assert_allclose(model.predict(users, items), 1.0, atol=0.02)
