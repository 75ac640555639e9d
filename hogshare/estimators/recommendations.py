"""Predictions of a fitted factorization: ratings, the best items, similar users and items.

The *line* of a user or an item is its row in the arrays of factors and biases.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import expit
from sklearn.utils.validation import check_is_fitted

from hogshare.estimators import fold_in
from hogshare.estimators.feedback import ALTERNATING
from hogshare.estimators.vocabulary import NOBODY, Vocabulary, as_array, is_one
from hogshare.kernels.ratings.top_lists import NONE, best_of_rows
from hogshare.problems.factorisation import checked_ratings
from hogshare.problems.preferences import PAIRWISE
from hogshare.system import ranges
from hogshare.system.callers import warn

# Values of a fit that folding in needs: bias_alpha, confidence, sampling, ratings' unit and mean.
Weights = tuple[float, float, str, float, float]
FORM = ("loss", "biases", "nonnegative")  # parameters that partial_fit cannot change
MOST_INSERTED = 256  # longest list that is made by insertion; a longer list is sorted
BLOCK_SCORES = 1 << 21  # users times items of one block of scores: 8 MB


class Recommending:
    """Predictions from fitted attributes: ids, factors, biases, the mean, and the rated pairs.

    No method changes these attributes.

    A subclass has the parameters `biases`, `bias_alpha`, `confidence`, `loss`, `nonnegative`,
    `sampling`, `unknown`.
    """

    users_: np.ndarray
    items_: np.ndarray
    user_factors_: np.ndarray
    item_factors_: np.ndarray
    user_biases_: np.ndarray
    item_biases_: np.ndarray
    seen_: sp.csr_array
    alpha_: float
    mean_: float
    item_counts_: np.ndarray
    solver_: str
    negatives_: int
    biases: bool
    bias_alpha: float
    confidence: float
    loss: str
    nonnegative: bool
    sampling: str
    unknown: str
    _form: tuple[str, bool, bool] | None = None  # values of `FORM` in the fit; None in older files
    _weights: Weights | None = None

    @property
    def _of_fit(self) -> tuple[str, bool, bool]:
        """The form of the model when it was fitted, even if parameters have been set since."""
        return self._form or (self.loss, bool(self.biases), bool(self.nonnegative))

    @property
    def _is_probable(self) -> bool:
        """Whether predictions are probabilities."""
        return self._of_fit[0] == "logistic"

    @property
    def _predicts_mean(self) -> bool:
        """Whether all predictions contain the mean, not only for unknown users or items.

        In older files, which store no form, a model has a mean if it has biases.
        """
        return bool(self.biases) if self._form is None else has_mean(self._form, self.negatives_)

    def _vocabularies(self) -> list[Vocabulary]:
        """Return both vocabularies, users' and items'; cached until `users_` or `items_` is set."""
        known = vars(self).get("_known")
        if known is None or known[0].ids is not self.users_ or known[1].ids is not self.items_:
            known = self._known = [Vocabulary(self.users_), Vocabulary(self.items_)]
        return list(known)

    def predict(self, users: Any, items: Any) -> np.ndarray:
        """Predict ratings, or probabilities with ``loss='logistic'``.

        Parameters
        ----------
        users, items : array-like of shape (n_pairs,), or one id
            The user and the item of each pair. A single id is paired with all ids of the other.

        Returns
        -------
        ndarray of float32 of shape (n_pairs,)
            Predictions. If the user or the item of a pair was in no fit (see `unknown`), the
            prediction is the mean plus the bias of the other.
        """
        check_is_fitted(self, "user_factors_")
        given = [[one] if is_one(one) else one for one in (users, items)]
        ids = [as_array(one, name) for one, name in zip(given, ("users", "items"), strict=True)]
        if len(ids[0]) != len(ids[1]) and 1 not in (len(ids[0]), len(ids[1])):
            raise ValueError(
                f"predict takes pairs: got {len(ids[0])} users and {len(ids[1])} items."
            )
        lines = [one.lines(of) for one, of in zip(self._vocabularies(), ids, strict=True)]
        lines = [np.ascontiguousarray(line) for line in np.broadcast_arrays(*lines)]
        self._warn_of_unknown({"users": (lines[0], ids[0]), "items": (lines[1], ids[1])})
        return self._predicted(*lines)

    def recommend(
        self,
        users: Any = None,
        n: int = 10,
        *,
        exclude_seen: bool = True,
        candidates: Any = None,
        ratings: Mapping[Any, float] | Iterable[Any] | None = None,
    ) -> list[Any]:
        """Recommend the items with the highest predictions.

        Parameters
        ----------
        users : array-like of shape (n_users,), or one id; None with `ratings`
        n : int, default=10
            Number of items.
        exclude_seen : bool, default=True
            Whether to exclude items that the user has rated, in a fit or in `ratings`.
        candidates : array-like of shape (n_candidates,), default=None
            The items to choose from; None means all items. Items that were in no fit are left out
            (see `unknown`).
        ratings : dict of item to rating, or list of items, default=None
            Instead of `users`: the ratings of a user who was in no fit. If the model was fitted to
            pairs without ratings, a list of the user's items. The user's factors and bias are
            fitted to these, with the penalty of the fit and with the items' factors and biases
            fixed. The model does not change.

        Returns
        -------
        list of (item, prediction)
            The best items first, fewer than `n` if there are no more. For several users a list of
            such lists. A user that was in no fit (see `unknown`) gets the items with the largest
            biases.
        """
        check_is_fitted(self, "user_factors_")
        ranges.whole(1, n=n)
        if (users is None) == (ratings is None):
            raise TypeError(
                "recommend takes either users, or ratings= for a user who was in no fit."
            )
        choice = self._choice(candidates)
        if ratings is not None:
            return self._best_for_new(ratings, int(n), exclude_seen, choice)
        lines = self._lines_of(users, "users", 0)
        answers: list[Any] = []
        step = max(1, BLOCK_SCORES // max(1, len(choice)))
        for first in range(0, len(lines), step):
            answers += self._lists(lines[first : first + step], choice, int(n), exclude_seen)
        return answers[0] if is_one(users) else answers

    def _lists(
        self, users: np.ndarray, choice: np.ndarray, n: int, exclude_seen: bool
    ) -> list[list[Any]]:
        """Return the best items of a choice for each user: pairs of an item's id and a prediction.

        users, choice : lines of users and of items
        """
        best = np.empty((len(users), min(n, len(choice))), np.int64)
        begins, seen = np.zeros(len(users) + 1, np.int64), np.empty(0, np.int64)
        if exclude_seen:
            begins, seen = self._seen_among(users, choice)
        scores_of = self._scores(users, choice)
        if best.shape[1] <= MOST_INSERTED:
            scratch = np.empty(best.shape[1], np.float32)
            best_of_rows(scores_of, begins, seen, scratch, best)
        else:
            best[:] = NONE
            for k, row in enumerate(scores_of):
                row[seen[begins[k] : begins[k + 1]]] = -np.inf
                places = best_of(row, n)
                best[k, : len(places)] = places
        rows, columns = np.nonzero(best != NONE)
        items = choice[best[rows, columns]]
        # sorted in float64; equal predictions are sorted by score, since the logistic function
        # rounds different scores to equal predictions
        scores = self._linear(users[rows], items)
        values = (expit(scores) if self._is_probable else scores).astype(np.float32)
        order = np.lexsort((items, -scores, -values, rows))
        pairs = list(zip(self.items_[items[order]].tolist(), values[order].tolist(), strict=True))
        ends = np.cumsum(np.bincount(rows, minlength=len(users))).tolist()
        return [pairs[i:j] for i, j in zip([0, *ends], ends, strict=False)]

    def similar_items(self, items: Any, n: int = 10) -> list[Any]:
        """Find the items whose factors have the most similar directions.

        Parameters
        ----------
        items : array-like of shape (n_items,), or one id
        n : int, default=10
            Number of similar items, not counting the item itself.

        Returns
        -------
        list of (item, similarity)
            The similarity is the cosine of the angle between factors; the largest comes first. For
            several items a list of such lists. The list is empty for an item that was in no fit
            (see `unknown`).
        """
        return self._similar("items", items, n)

    def similar_users(self, users: Any, n: int = 10) -> list[Any]:
        """Find the users whose factors have the most similar directions, as `similar_items` does.

        Parameters
        ----------
        users : array-like of shape (n_users,), or one id
        n : int, default=10
            Number of similar users, not counting the user itself.

        Returns
        -------
        list of (user, similarity)
        """
        return self._similar("users", users, n)

    def _similar(self, kind: str, asked: Any, n: int) -> list[Any]:
        check_is_fitted(self, "user_factors_")
        ranges.whole(1, n=n)
        of_users = kind == "users"
        names = (self.users_ if of_users else self.items_).tolist()
        factors = self.user_factors_ if of_users else self.item_factors_
        lines = self._lines_of(asked, kind, 0 if of_users else 1)
        length = np.sqrt(np.einsum("ij,ij->i", factors, factors, dtype=np.float64))
        unit = factors / np.maximum(length, np.finfo(np.float64).tiny)[:, None]
        answers: list[Any] = []
        for line in lines:
            if line == NOBODY:
                answers.append([])
                continue
            cosines = unit @ unit[line]
            cosines[line] = -np.inf  # not the item itself
            answers.append([(names[k], float(cosines[k])) for k in best_of(cosines, int(n))])
        return answers[0] if is_one(asked) else answers

    def _lines_of(self, asked: Any, name: str, vocabulary: int) -> np.ndarray:
        """Return the lines of one id or several ids; warn of unknown ids, or refuse them.

        name : name of the argument, for messages
        vocabulary : 0 for users, 1 for items
        """
        ids = as_array([asked] if is_one(asked) else asked, name)
        lines = self._vocabularies()[vocabulary].lines(ids)
        self._warn_of_unknown({name: (lines, ids)})
        return lines

    def _choice(self, candidates: Any) -> np.ndarray:
        """Return the lines of the items to choose from, sorted."""
        if candidates is None:
            return np.arange(len(self.items_))
        lines = self._lines_of(candidates, "candidates", 1)
        return np.unique(lines[lines != NOBODY])

    def _seen_among(self, users: np.ndarray, choice: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the places in a choice of the items that users have rated.

        Returns two arrays. The places of user k are ``places[begins[k] : begins[k + 1]]``; the
        first array is `begins`, the second is `places`.
        """
        ends = np.append(self.seen_.indptr, self.seen_.indptr[-1])  # an empty row for `NOBODY`
        first, last = ends[users], ends[users + 1]
        first, last = (np.where(users == NOBODY, 0, one) for one in (first, last))
        counts = last - first
        begins = np.concatenate([[0], np.cumsum(counts)])
        within = np.arange(begins[-1]) - np.repeat(begins[:-1], counts)
        items = self.seen_.indices[np.repeat(first, counts) + within]
        places = np.full(len(self.items_), NOBODY)
        places[choice] = np.arange(len(choice))
        found = places[items]
        chosen = found != NOBODY
        return np.concatenate([[0], np.cumsum(chosen)])[begins], found[chosen]

    def _scores(self, users: np.ndarray, choice: np.ndarray) -> np.ndarray:
        """Return float32 scores of a choice's items for users, from factors and the items' biases.

        The logistic function, and terms that are equal for all items of a user, are left out,
        because they do not change the order of the items.
        """
        known = users != NOBODY
        ones = np.ones((len(users), 1), np.float32)
        factors = np.where(known[:, None], self.user_factors_[users], np.float32(0.0))
        designs = np.column_stack([self.item_factors_[choice], self.item_biases_[choice]])
        return np.ascontiguousarray(np.hstack([factors, ones]) @ designs.T, dtype=np.float32)

    def _pairs_of(self, lines: np.ndarray, values: np.ndarray, scores: np.ndarray) -> list[Any]:
        """Return items and predictions, best first; equal predictions are sorted by score."""
        order = np.lexsort((lines, -scores, -values))
        names = self.items_[lines[order]].tolist()
        return list(zip(names, values[order].tolist(), strict=True))

    def _best_for_new(
        self,
        ratings: Mapping[Any, float] | Iterable[Any],
        n: int,
        exclude_seen: bool,
        choice: np.ndarray,
    ) -> list[Any]:
        """Return the best items for a new user with ratings of some items."""
        if not isinstance(ratings, Mapping):
            of_pairs = self.solver_ == ALTERNATING or self.negatives_
            if not of_pairs or is_one(ratings):  # a string is not a list of items, though iterable
                also = ", or a list of items" if of_pairs else ""
                raise TypeError(f"ratings must be a dict of item to rating{also}; got {ratings!r}.")
            items = list(ratings)
            values = np.ones(len(items)) if self._weights is None else self._weights[4]
            values = np.broadcast_to(values, len(items))
        else:
            items, values = list(ratings), self._strengths_of(list(ratings.values()))
        lines = self._lines_of(items, "items", 1)
        known = lines != NOBODY
        lines, values = lines[known], np.asarray(values, np.float64)[known]
        bias, factors = self._folded_in(lines, values)
        scores = self.item_factors_[choice].astype(np.float64) @ factors + bias
        scores += self.item_biases_[choice].astype(np.float64)
        scores += self.mean_ if self._predicts_mean else 0.0
        ranked = scores.copy()
        if exclude_seen:
            ranked[np.isin(choice, lines)] = -np.inf
        best = best_of(ranked, n)
        predicted = expit(scores[best]) if self._is_probable else scores[best]
        return self._pairs_of(choice[best], predicted.astype(np.float32), scores[best])

    def _folded_in(self, lines: np.ndarray, values: np.ndarray) -> tuple[float, np.ndarray]:
        """Return a new user's bias and factors, fitted with all items' factors and biases fixed.

        lines : lines of the items that the user has rated
        values : the user's ratings of these items, in the unit of the fit's ratings
        """
        n_factors, (loss, biases, nonnegative) = self.item_factors_.shape[1], self._of_fit
        now = self.bias_alpha, self.confidence, self.sampling, 1.0, 1.0
        bias_alpha, confidence, sampling, _, _ = self._weights or now
        ridge = fold_in.LineForm(n_factors, biases, self.alpha_, bias_alpha)
        mean = self.mean_ if self._predicts_mean else 0.0
        of_items = self.item_factors_, self.item_biases_.astype(np.float64) + mean
        if self.solver_ == ALTERNATING:
            # the strengths of an item that occurs twice add up, as in a fit
            lines, which = np.unique(lines, return_inverse=True)
            extras = confidence * np.bincount(which, weights=values, minlength=len(lines))
            found = fold_in.of_strengths(*of_items, lines, extras, ridge)
        elif self.negatives_:
            popularity = self.item_counts_ if sampling == "popularity" else None
            drawn = fold_in.NegativeDraws(self.negatives_, popularity, loss == PAIRWISE)
            met = lines, values
            found = fold_in.of_pairs(*of_items, *met, drawn, ridge, nonnegative)
        else:
            q, fixed = (part[lines] for part in of_items)
            found = fold_in.of_ratings(q, fixed, values, loss, ridge, nonnegative)
        return (float(found[-1]) if biases else 0.0), found[:n_factors]

    def _strengths_of(self, ratings: list[Any]) -> np.ndarray:
        """Return a new user's ratings in the unit of the fit's ratings.

        Raises
        ------
        TypeError, ValueError
            If `fit` would refuse these ratings.
        """
        if not ratings:
            return np.zeros(0)
        loss = self._of_fit[0]
        unit = 1.0 if self._weights is None else self._weights[3]
        values = np.asarray(checked_ratings(ratings, "squared_error"), np.float64) / unit
        if self.solver_ == ALTERNATING and values.min() < 0.0:
            raise ValueError(
                f"the model was fitted to how often pairs have met, so ratings must not be "
                f"negative; got {min(ratings):g}. Leave out disliked items."
            )
        if loss == PAIRWISE and values.min() != values.max():
            raise ValueError(
                "the model was fitted to pairs that have met, without ratings, but these ratings "
                "differ: pass a list of the items that count."
            )
        return checked_ratings(values, loss)

    def _warn_of_unknown(self, asked: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> None:
        """Warn of ids that were in no fit, or refuse them if ``unknown='raise'``.

        asked : lines and ids, by the name of the argument
        """
        missing = [
            (name, repr(of.tolist()[0 if len(of) == 1 else int(np.argmax(line == NOBODY))]))
            for name, (line, of) in asked.items()
            if (line == NOBODY).any()
        ]
        if not missing or self.unknown == "ignore":
            return
        what = " and ".join(f"{name} that were in no fit, such as {one}" for name, one in missing)
        if self.unknown == "raise":
            raise ValueError(
                f"There are {what}; with unknown='ignore' they are predicted from the mean and "
                "the bias of the other."
            )
        warn(
            f"There are {what}: predicted from the mean and the bias of the other; "
            "unknown='ignore' gives no warning.",
        )

    def _predicted(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        z = self._linear(users, items)
        return (expit(z) if self._is_probable else z).astype(np.float32)

    def _linear(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Return predictions in float64, before the logistic function."""
        z = np.full(len(users), self.mean_)
        known_user, known_item = users != NOBODY, items != NOBODY
        z[known_user] += self.user_biases_[users[known_user]]
        z[known_item] += self.item_biases_[items[known_item]]
        both = known_user & known_item
        of_users, of_items = self.user_factors_[users[both]], self.item_factors_[items[both]]
        if not self._predicts_mean:
            z[both] = 0.0
        z[both] += np.einsum("ij,ij->i", of_users, of_items)
        return z


def has_mean(form: tuple[str, bool, bool], negatives: int) -> bool:
    """Whether predictions contain a mean: with biases, or for ratings with factors of any sign.

    With non-negative factors and no biases the prediction is the product of factors alone.

    form : values of the parameters in `FORM`
    negatives : number of items that are drawn for each pair; 0 for ratings
    """
    _, biases, nonnegative = form
    return biases or not (nonnegative or negatives)


def best_of(scores: np.ndarray, n: int) -> np.ndarray:
    """Return the places of the n largest scores, the largest first.

    Equal scores are in the order of their places. Scores of -infinity are left out.

    Examples
    --------
    >>> import numpy as np
    >>> from hogshare.estimators.recommendations import best_of
    >>> best_of(np.array([1.0, 3.0, -np.inf, 3.0, 2.0]), 3).tolist()
    [1, 3, 4]
    """
    places = np.arange(len(scores))
    if n < len(scores):
        places = np.flatnonzero(scores >= np.partition(scores, len(scores) - n)[len(scores) - n])
    places = places[scores[places] > -np.inf]
    return places[np.argsort(-scores[places], kind="stable")[:n]]
