"""Ranking metrics for the first k recommended items, and splits of ratings to measure them.

A list has the items recommended to a user, best first. A metric depends only on the places of the
user's relevant items in the list, not on ratings. Each metric is the mean over users with at least
one relevant item.

Examples
--------
>>> from hogshare import metrics
>>> metrics.precision_at_k([["tea", "rum"]], [{"tea"}], k=2)
0.5
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from hogshare.estimators.vocabulary import as_array, distinct
from hogshare.system import ranges

__all__ = [
    "auc_at_k",
    "average_precision_at_k",
    "leave_k_out",
    "ndcg_at_k",
    "precision_at_k",
    "ranking_metrics_at_k",
    "recall_at_k",
    "split_by_time",
]

Lists = Sequence[Sequence[Any]]
Relevant = Sequence[Collection[Any]]


def precision_at_k(recommended: Lists, relevant: Relevant, k: int = 10) -> float:
    """Compute the share of the first k places that have a relevant item.

    Parameters
    ----------
    recommended : sequence of lists
        For each user, the recommended items without duplicates, best first. If a list is shorter
        than k, the missing places count as misses.
    relevant : sequence of collections
        For each user the relevant items.
    k : int, default=10
        Number of recommended items that count.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    ValueError
        If the numbers of lists and users differ, a list has an item twice, or no user has a
        relevant item.

    Examples
    --------
    >>> from hogshare.metrics import precision_at_k
    >>> precision_at_k([["tea", "rum"], ["gin", "tea"]], [{"tea"}, {"tea", "gin"}], k=2)
    0.75
    """
    return _mean(_hits(recommended, relevant, k), _precision(k))


def recall_at_k(recommended: Lists, relevant: Relevant, k: int = 10) -> float:
    """Compute the share of the relevant items that are among the first k.

    Parameters
    ----------
    recommended, relevant, k
        As in `precision_at_k`.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    ValueError
        As in `precision_at_k`.

    Examples
    --------
    >>> from hogshare.metrics import recall_at_k
    >>> recall_at_k([["tea", "rum"], ["gin", "ale"]], [{"tea"}, {"tea", "gin"}], k=2)
    0.75
    """
    return _mean(_hits(recommended, relevant, k), _recall)


def ndcg_at_k(recommended: Lists, relevant: Relevant, k: int = 10) -> float:
    """Compute the discounted cumulative gain of the first k, divided by the largest possible gain.

    A hit at place i, counted from 1, gains ``1 / log2(i + 1)``. Source: Jarvelin and Kekalainen
    2002, Cumulated gain-based evaluation of IR techniques, with gains of 0 and 1.

    Parameters
    ----------
    recommended, relevant, k
        As in `precision_at_k`.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    ValueError
        As in `precision_at_k`.

    Examples
    --------
    >>> from hogshare.metrics import ndcg_at_k
    >>> round(ndcg_at_k([["rum", "tea"]], [{"tea"}], k=2), 4)
    0.6309
    """
    return _mean(_hits(recommended, relevant, k), _gain(k))


def average_precision_at_k(recommended: Lists, relevant: Relevant, k: int = 10) -> float:
    """Compute the mean average precision (MAP).

    A user's average precision is a sum over the hits, divided by the largest possible number of
    hits (at most k). Each hit adds the precision of the list up to the hit's place.

    Parameters
    ----------
    recommended, relevant, k
        As in `precision_at_k`.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    ValueError
        As in `precision_at_k`.

    Examples
    --------
    >>> from hogshare.metrics import average_precision_at_k
    >>> average_precision_at_k([["rum", "tea"]], [{"tea"}], k=2)
    0.5
    """
    return _mean(_hits(recommended, relevant, k), _average_precision(k))


def auc_at_k(recommended: Lists, relevant: Relevant, n_items: int, k: int = 10) -> float:
    """Compute the area under the ROC curve, with an unknown order after the first k items.

    This is the probability that a relevant item precedes an irrelevant one. For two items that are
    not among the first k, both orders are equally likely.

    Parameters
    ----------
    recommended, relevant, k
        As in `precision_at_k`.
    n_items : int
        Number of all items that could be recommended.

    Returns
    -------
    float
        Between 0 and 1; 0.5 for random lists.

    Raises
    ------
    ValueError
        As in `precision_at_k`. Also if `n_items` is below a user's number of relevant or
        recommended items, or if all items are relevant to a user.

    Examples
    --------
    >>> from hogshare.metrics import auc_at_k
    >>> auc_at_k([["tea", "rum"]], [{"tea"}], n_items=4, k=2)
    1.0
    """
    ranges.whole(1, n_items=n_items)
    return _mean(_hits(recommended, relevant, k), _area(n_items))


def ranking_metrics_at_k(model: Any, users: Any, items: Any, k: int = 10) -> dict[str, float]:
    """Compute all metrics for a fitted model's recommendations of items new to the user.

    Parameters
    ----------
    model : MatrixFactorization
        A fitted model. Another estimator may be used if it has `users_`, `items_` and a method
        `recommend(users, n)` that returns pairs of item and score.
    users, items : array-like of shape (n_pairs,)
        Relevant pairs that were not in the fit. (The model never recommends an item to a user whose
        pair with this item was in the fit.) Pairs whose user or item is unknown to the model are
        left out, because the model cannot recommend them.
    k : int, default=10
        Number of recommended items that count.

    Returns
    -------
    dict of str to float
        "precision", "recall", "ndcg", "map" and "auc".

    Raises
    ------
    ValueError
        If no pair remains, or `users` and `items` differ in length.

    Examples
    --------
    >>> from hogshare import MatrixFactorization, datasets
    >>> from hogshare.metrics import leave_k_out, ranking_metrics_at_k
    >>> users, items, ratings = datasets.known_rank(5_000, n_users=100, n_items=60, rank=2)
    >>> train, test = leave_k_out(users, k=5, random_state=0)
    >>> model = MatrixFactorization(2, random_state=0)
    >>> model = model.fit(users[train], items[train], ratings[train])
    >>> found = ranking_metrics_at_k(model, users[test], items[test], k=5)
    >>> sorted(found)
    ['auc', 'map', 'ndcg', 'precision', 'recall']
    """
    check_is_fitted(model)
    users, items = _as_ids(users, "users").tolist(), _as_ids(items, "items").tolist()
    if len(users) != len(items):
        raise ValueError(
            f"{len(users)} users and {len(items)} items are not pairs: give one item for each user."
        )
    known = [set(one.tolist()) for one in (model.users_, model.items_)]
    relevant: dict[Any, set[Any]] = {}
    for user, item in zip(users, items, strict=True):
        if user in known[0] and item in known[1]:
            relevant.setdefault(user, set()).add(item)
    if not relevant:
        raise ValueError(
            "the model knows no pair's user and item: give pairs of `users_` and `items_`."
        )
    answers = model.recommend(list(relevant), _whole(k))
    lists = [[item for item, _ in one] for one in answers]
    hits = _hits(lists, list(relevant.values()), k)
    measures = {
        "precision": _precision(k),
        "recall": _recall,
        "ndcg": _gain(k),
        "map": _average_precision(k),
        "auc": _area(len(known[1])),
    }
    return {name: _mean(hits, measure) for name, measure in measures.items()}


def leave_k_out(
    users: Any, k: int = 1, *, times: Any = None, random_state: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """Split ratings into training and test: k ratings of each user are held out for the test.

    Parameters
    ----------
    users : array-like of shape (n_ratings,)
        User of each rating.
    k : int, default=1
        Number of ratings to hold out per user. If a user has at most k ratings, all of them are for
        training.
    times : array-like of shape (n_ratings,), default=None
        Time of each rating. Each user's latest ratings are held out; if times are equal, the last
        ones in `users`. None: ratings are held out at random.
    random_state : int, RandomState or None, default=None
        Seed of the random choice.

    Returns
    -------
    train, test : ndarray of int64
        Places of the ratings, in ascending order.

    Raises
    ------
    ValueError
        If `times` and `users` differ in length.

    Examples
    --------
    >>> from hogshare.metrics import leave_k_out
    >>> leave_k_out(["ann", "bob", "ann", "ann"], times=[3, 1, 9, 4])
    (array([0, 1, 3]), array([2]))
    """
    _, lines = distinct(_as_ids(users, "users"))
    if times is None:
        by = check_random_state(random_state).permutation(len(lines))
    else:
        by = _as_times(times)
        if len(by) != len(lines):
            raise ValueError(
                f"there are {len(lines)} ratings and {len(by)} times: one each is needed."
            )
    # by user, then time, then place: the last key is the primary one
    order = np.lexsort((np.arange(len(lines)), by, lines))
    counts = np.bincount(lines)
    ends = np.cumsum(counts)
    left = np.repeat(ends, counts) - np.arange(len(lines))  # ratings from this to the user's last
    is_test = np.zeros(len(lines), bool)
    is_test[order] = (left <= _whole(k)) & np.repeat(counts > k, counts)
    return np.flatnonzero(~is_test), np.flatnonzero(is_test)


def split_by_time(times: Any, test_size: float = 0.25) -> tuple[np.ndarray, np.ndarray]:
    """Split ratings at a point in time: later ratings are for the test.

    Parameters
    ----------
    times : array-like of shape (n_ratings,)
        Time of each rating.
    test_size : float, default=0.25
        Largest share of the ratings for the test. Ratings with the same time are not separated,
        which may make the share smaller.

    Returns
    -------
    train, test : ndarray of int64
        Places of the ratings, in ascending order.

    Raises
    ------
    ValueError
        If `test_size` is not between 0 and 1.

    Examples
    --------
    >>> from hogshare.metrics import split_by_time
    >>> split_by_time([30, 10, 20, 40])
    (array([0, 1, 2]), array([3]))
    """
    if not 0.0 < test_size < 1.0:
        raise ValueError(f"test_size must be between 0 and 1; got {test_size!r}.")
    by = _as_times(times)
    if not len(by):
        raise ValueError("times is empty: give one time for each rating.")
    # the factor: 0.29 * 100 is 28.999... in binary and would be cut to 28
    moment = np.sort(by)[len(by) - 1 - int(test_size * len(by) * (1.0 + 4.0 * np.finfo(float).eps))]
    is_test = by > moment
    return np.flatnonzero(~is_test), np.flatnonzero(is_test)


def _as_ids(ids: Any, name: str) -> np.ndarray:
    if isinstance(ids, str) or not hasattr(ids, "__iter__"):
        raise TypeError(f"{name} must be ids, one for each rating; got {ids!r}.")
    return as_array(ids, name)


def _as_times(times: Any) -> np.ndarray:
    """Return times as an array of numbers or dates without missing values."""
    found = np.asarray(times)
    if found.dtype == object:
        try:
            found = found.astype("datetime64[us]")
        except (TypeError, ValueError) as error:
            raise TypeError("times must be numbers or dates, all of one kind.") from error
    if found.ndim != 1 or found.dtype.kind not in "iufmMb":
        raise TypeError(
            "times must be numbers or dates, one for each rating; got an array of "
            f"{found.dtype} and shape {found.shape}."
        )
    missing = np.isnat(found) if found.dtype.kind in "mM" else np.isnan(found)
    if missing.any():
        place = int(missing.argmax())
        raise ValueError(f"times has {found[place]} at place {place}: leave such ratings out.")
    return found


def _is_scored(item: Any) -> bool:
    return isinstance(item, tuple) and len(item) == 2 and isinstance(item[1], float)


def _whole(k: Any) -> int:
    ranges.whole(1, k=k)
    return int(k)


Hits = tuple[np.ndarray, int]  # 1.0 at each relevant place of the first k; number of relevant items
Measure = Callable[[np.ndarray, int], float]  # of one user's hits


def _precision(k: int) -> Measure:
    return lambda hits, n: hits.sum() / k


def _recall(hits: np.ndarray, n: int) -> float:
    return float(hits.sum()) / n


def _gain(k: int) -> Measure:
    gains = 1.0 / np.log2(np.arange(2, k + 2))
    return lambda hits, n: gains[: len(hits)] @ hits / gains[: min(k, n)].sum()


def _average_precision(k: int) -> Measure:
    def found(hits: np.ndarray, n: int) -> float:
        precisions = np.cumsum(hits) / np.arange(1, len(hits) + 1)
        return float(precisions @ hits) / min(k, n)

    return found


def _area(n_items: int) -> Measure:
    def found(hits: np.ndarray, n: int) -> float:
        misses, missed = n_items - n, len(hits) - hits.sum()
        if misses < max(1, missed):
            raise ValueError(
                f"n_items={n_items} is too small for a user with {n} relevant items and "
                f"{missed:g} other recommended ones: give the number of all items."
            )
        above = np.cumsum(hits)  # number of hits before each miss
        in_order = float(above @ (1.0 - hits))
        # an irrelevant item after the first k follows all hits and, on average, half of the other
        # relevant items
        return (in_order + (misses - missed) * (hits.sum() + n) / 2.0) / (n * misses)

    return found


def _mean(hits: list[Hits], measure: Measure) -> float:
    return float(np.mean([float(measure(*of_user)) for of_user in hits]))


def _hits(recommended: Lists, relevant: Relevant, k: int) -> list[Hits]:
    """Return the hits of the users with relevant items."""
    k = _whole(k)
    for name, given in (("recommended", recommended), ("relevant", relevant)):
        if isinstance(given, (str, Mapping)) or not isinstance(given, Collection):
            raise TypeError(f"{name} must have a list for each user; got {type(given).__name__}.")
        for one in given:
            if isinstance(one, (str, Mapping)) or not isinstance(one, Collection):
                raise TypeError(
                    f"{name} must have items for each user, in a list; got {type(one).__name__}."
                )
    if len(recommended) != len(relevant):
        raise ValueError(
            f"recommended has {len(recommended)} lists and relevant has {len(relevant)}: give one "
            "of each per user."
        )
    found = []
    for first, wanted in zip(recommended, relevant, strict=True):
        items = set(wanted)
        if not items:
            continue
        shown = list(first)[:k]
        if shown and all(map(_is_scored, shown)) and not any(map(_is_scored, items)):
            raise ValueError(
                "a list has pairs of item and score: give items only, "
                "[item for item, _ in model.recommend(user)]."
            )
        if len(set(shown)) < len(shown):
            twice = next(item for item in shown if shown.count(item) > 1)
            raise ValueError(f"a list has {twice!r} twice: recommend each item once.")
        found.append((np.array([item in items for item in shown], np.float64), len(items)))
    if not found:
        raise ValueError("relevant has no items for any user: give at least one user's.")
    return found
