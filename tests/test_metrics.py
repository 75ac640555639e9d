"""Measures of lists, by their definitions and beside scikit-learn's; and splits of ratings."""

import itertools

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.metrics import ndcg_score, roc_auc_score

from hogshare import MatrixFactorization, datasets, metrics
from hogshare.metrics import (
    auc_at_k,
    average_precision_at_k,
    leave_k_out,
    ndcg_at_k,
    precision_at_k,
    ranking_metrics_at_k,
    recall_at_k,
    split_by_time,
)

ITEMS = 9
MEASURES = (precision_at_k, recall_at_k, ndcg_at_k, average_precision_at_k)


def lists(seed, n_users=6):
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(ITEMS).tolist() for _ in range(n_users)]
    return orders, [set(rng.choice(ITEMS, rng.integers(1, ITEMS), replace=False)) for _ in orders]


@pytest.mark.parametrize("k", [1, 3, ITEMS, 20])
@pytest.mark.parametrize("seed", range(5))
def test_measures_are_what_their_definitions_say(seed, k):
    orders, relevant = lists(seed)
    pairs = list(zip(orders, relevant, strict=True))
    hits = [[item in wanted for item in order[:k]] for order, wanted in pairs]
    sizes = [len(wanted) for wanted in relevant]
    mean = np.mean
    assert precision_at_k(orders, relevant, k) == pytest.approx(mean([sum(h) / k for h in hits]))
    recalls = [sum(h) / n for h, n in zip(hits, sizes, strict=True)]
    assert recall_at_k(orders, relevant, k) == pytest.approx(mean(recalls))
    precisions = [
        sum(sum(h[: i + 1]) / (i + 1) for i in range(len(h)) if h[i]) / min(k, n)
        for h, n in zip(hits, sizes, strict=True)
    ]
    assert average_precision_at_k(orders, relevant, k) == pytest.approx(mean(precisions))


@pytest.mark.parametrize("k", [1, 4, ITEMS])
def test_ndcg_and_whole_auc_are_scikit_learn_s(k):
    orders, relevant = lists(7)
    truth = np.array([[item in wanted for item in range(ITEMS)] for wanted in relevant], float)
    score = np.array([[-order.index(item) for item in range(ITEMS)] for order in orders], float)
    assert ndcg_at_k(orders, relevant, k) == pytest.approx(ndcg_score(truth, score, k=k))
    # behind the first k all are alike
    score = np.maximum(score, -float(k))
    expected = np.mean([roc_auc_score(t, s) for t, s in zip(truth, score, strict=True)])
    assert auc_at_k(orders, relevant, ITEMS, k) == pytest.approx(expected)


def test_short_lists_users_without_anything_and_bounds():
    for measure in MEASURES:
        assert measure([["a"], []], [{"a"}, {"b"}], 1) == 0.5
        assert measure([["a"], ["b"]], [{"a"}, set()], 1) == 1.0
        assert measure([["b", "a"]], [{"c"}], 2) == 0.0
    assert precision_at_k([["a"]], [{"a", "b"}], 4) == 0.25
    assert recall_at_k([["a"]], [{"a", "b"}], 4) == 0.5
    assert auc_at_k([[]], [{"a"}], 5, 3) == 0.5


@pytest.mark.parametrize("measure", [*MEASURES, lambda a, b, k: auc_at_k(a, b, 9, k)])
def test_what_is_no_list_is_refused(measure):
    with pytest.raises(ValueError, match="a list has 'a' twice"):
        measure([["a", "b", "a"]], [{"a"}], 3)
    with pytest.raises(ValueError, match="2 lists and relevant has 1"):
        measure([["a"], ["b"]], [{"a"}], 3)
    with pytest.raises(ValueError, match="relevant has no items for any user"):
        measure([["a"]], [set()], 3)
    with pytest.raises(ValueError, match="k must be"):
        measure([["a"]], [{"a"}], 0)


def test_items_that_cannot_be_all_are_refused():
    with pytest.raises(ValueError, match="n_items=2 is too small for a user with 2 relevant"):
        auc_at_k([["a", "b"]], [{"a", "b"}], 2)
    with pytest.raises(ValueError, match="2 other recommended"):
        auc_at_k([["a", "b", "c"]], [{"a"}], 2)


@pytest.mark.parametrize("timed", [True, False])
def test_k_of_each_user_are_held_out(timed):
    rng = np.random.default_rng(0)
    users, times = rng.integers(0, 20, 200), rng.integers(0, 50, 200)
    users[users == 3] = 4
    users[:2] = 3  # who has two
    train, test = leave_k_out(users, 2, times=times if timed else None, random_state=0)
    assert sorted([*train, *test]) == list(range(200))
    counts = np.bincount(users[test], minlength=20)
    assert counts[3] == 0 and (np.delete(counts, 3) == 2).all()
    again = leave_k_out(users, 2, times=times if timed else None, random_state=0)
    np.testing.assert_array_equal(again[1], test)
    if timed:
        for user in set(users[test]):
            latest = times[test[users[test] == user]].min()
            assert times[train[users[train] == user]].max() <= latest
    else:
        assert leave_k_out(users, 2, random_state=1)[1].tolist() != test.tolist()


def test_ratings_after_a_moment_are_held_out():
    times = np.array(["2024-01-03", "2024-01-01", "2024-01-02", "2024-01-03"], "datetime64[D]")
    train, test = split_by_time(times, 0.5)
    assert train.tolist() == [1, 2] and test.tolist() == [0, 3]
    train, test = split_by_time(times, 0.25)  # those of one moment stay together
    assert train.tolist() == [0, 1, 2, 3] and test.tolist() == []
    for size in (0.0, 1.0, 2):
        with pytest.raises(ValueError, match="test_size must be between 0 and 1"):
            split_by_time(times, size)
    with pytest.raises(ValueError, match="times is empty"):
        split_by_time([])
    with pytest.raises(ValueError, match="2 ratings and 1 times"):
        leave_k_out([1, 1], times=[3])


def test_what_is_no_time_and_no_user_is_refused():
    for times in ([1.0, np.nan, 3.0], np.array(["2024-01-01", "NaT"], "datetime64[D]")):
        with pytest.raises(ValueError, match=r"times has [nN]a"):
            split_by_time(times)
        with pytest.raises(ValueError, match="at place 1: leave such ratings out"):
            leave_k_out([1] * len(times), times=times)
    for times in ([[1, 2], [3, 4]], ["a", "b"], [1, {}]):
        with pytest.raises(TypeError, match="times must be numbers or dates"):
            split_by_time(times)
    for users in ("abc", 5):
        with pytest.raises(TypeError, match="users must be ids"):
            leave_k_out(users)
    with pytest.raises(ValueError, match="users contains NaN"):
        leave_k_out([1.0, np.nan])


def test_users_are_told_apart_as_in_a_fit():
    assert leave_k_out(["1", 1], times=[1, 2])[1].tolist() == []
    assert leave_k_out([(1, 2), (1, 3), (1, 2)], times=[1, 2, 3])[1].tolist() == [2]
    sets = [frozenset([1]), frozenset([2]), frozenset([1]), frozenset([2]), frozenset([1, 2])]
    assert leave_k_out(sets, times=[1, 2, 3, 4, 5])[1].tolist() == [2, 3]


@pytest.mark.parametrize("size", [0.29, 0.57, 0.07, 0.5])
def test_a_share_of_a_hundred_is_whole(size):
    assert len(split_by_time(np.arange(100), size)[1]) == round(100 * size)


def test_what_looks_like_lists_is_refused():
    with pytest.raises(ValueError, match="pairs of item and score"):
        precision_at_k([[("tea", 0.5)]], [["tea"]], 1)
    for wrong in (["tea"], {"ann": [1]}, [1], "tea", 3):
        with pytest.raises(TypeError, match="recommended must have"):
            precision_at_k(wrong, [["tea"]], 1)
        with pytest.raises(TypeError, match="relevant must have"):
            precision_at_k([["tea"]], wrong, 1)
    for n_items in (np.nan, 4.5, "5"):
        with pytest.raises(ValueError, match="n_items must be a whole number"):
            auc_at_k([["a"]], [{"a"}], n_items)
    with pytest.raises(NotFittedError):
        ranking_metrics_at_k(MatrixFactorization(), [1], [1])


def test_a_model_is_measured_by_what_it_recommends():
    users, items, ratings = datasets.known_rank(20_000, n_users=300, n_items=80, rank=2)
    train, test = leave_k_out(users, 4, random_state=0)
    model = MatrixFactorization(2, random_state=0).fit(users[train], items[train], ratings[train])
    liked = test[ratings[test] > np.quantile(ratings, 0.8)]
    found = ranking_metrics_at_k(model, users[liked], items[liked], 5)
    chance = 5 / 80
    assert found["recall"] > 2 * chance and found["auc"] > 0.55
    pairs = {}
    for user, item in zip(users[liked].tolist(), items[liked].tolist(), strict=True):
        pairs.setdefault(user, set()).add(item)
    told = [[item for item, _ in model.recommend(user, 5)] for user in pairs]
    assert found["ndcg"] == metrics.ndcg_at_k(told, list(pairs.values()), 5)
    with pytest.raises(ValueError, match="knows no pair"):
        ranking_metrics_at_k(model, [-1, 3], [0, -5])
    with pytest.raises(ValueError, match="2 users and 1 items are not pairs"):
        ranking_metrics_at_k(model, [1, 3], [0])


def test_lists_may_be_of_any_ids():
    named = [[("a", 1), "b", 3]], [{3, ("a", 1)}]
    for measure, expected in itertools.product((precision_at_k,), (2 / 3,)):
        assert measure(*named, 3) == pytest.approx(expected)
