"""What a factorisation answers when asked: predictions, the best items, and who is like whom."""

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

# Of a fit, for folding in: bias_alpha, confidence, sampling, the unit of ratings, and their mean.
Weights = tuple[float, float, str, float, float]
FORM = ("loss", "biases", "nonnegative")  # parameters that a model has for good
MOST_INSERTED = 256  # items of a list, beyond which it is sorted
BLOCK_SCORES = 1 << 21  # of users times items, that are made at once: 8 MB


class Recommending:
    """Answers from what a fit has left: ids, factors, biases, the mean, and what has been seen.

    Who goes on from it has the parameters `biases`, `bias_alpha`, `confidence`, `loss`,
    `nonnegative`, `sampling`, `unknown`.
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
    _form: tuple[str, bool, bool] | None = None  # of a fit, as in `FORM`; None in older files
    _weights: Weights | None = None

    @property
    def _of_fit(self) -> tuple[str, bool, bool]:
        """The form that the fit had, whatever parameters have been set since."""
        return self._form or (self.loss, bool(self.biases), bool(self.nonnegative))

    @property
    def _is_probable(self) -> bool:
        """Whether predictions are probabilities."""
        return self._of_fit[0] == "logistic"

    @property
    def _predicts_mean(self) -> bool:
        """Whether the mean is a part of predictions, and not only of those of who is not known.

        Before there was a mean without biases, they decided it.
        """
        return bool(self.biases) if self._form is None else has_mean(self._form, self.negatives_)

    def _vocabularies(self) -> list[Vocabulary]:
        """Which line stands for whom; made anew where ids have been set, as by `load`."""
        known = vars(self).get("_known")
        if known is None or known[0].ids is not self.users_ or known[1].ids is not self.items_:
            known = self._known = [Vocabulary(self.users_), Vocabulary(self.items_)]
        return list(known)

    def predict(self, users: Any, items: Any) -> np.ndarray:
        """Predict ratings; of 'logistic' probabilities.

        Parameters
        ----------
        users, items : array-like of shape (n_pairs,), or one id
            Pairs; one id goes with all of the others.

        Returns
        -------
        ndarray of float32 of shape (n_pairs,)
            Of a user or an item that was in no fit (see `unknown`): what is known of the other, and
            the mean.
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
        """What users will like best.

        Parameters
        ----------
        users : array-like of shape (n_users,), or one id; None with `ratings`
        n : int, default=10
            How many items.
        exclude_seen : bool, default=True
            Whether to leave out what a user has rated, in a fit or in `ratings`.
        candidates : array-like of shape (n_candidates,), default=None
            The items to choose from; None is all. What was in no fit is left out (see `unknown`).
        ratings : dict of item to rating, or list of items, default=None
            In the place of `users`: what somebody has rated who was in no fit, or a list of what
            somebody has met, where the fit was of pairs. Factors and bias are those that are best
            for these and the items as they are, with the fit's penalty; the model does not change.

        Returns
        -------
        list of (item, prediction)
            Best first, and fewer than `n` where there are no more; of several users a list of such
            lists. A user that was in no fit (see `unknown`) gets what all like.
        """
        check_is_fitted(self, "user_factors_")
        ranges.whole(1, n=n)
        if (users is None) == (ratings is None):
            raise TypeError("recommend takes users, or the ratings of somebody who was in no fit.")
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
        """The best of a choice for each of some users."""
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
        # in float64, and among equal predictions by what the logistic function has rounded away
        scores = self._linear(users[rows], items)
        values = (expit(scores) if self._is_probable else scores).astype(np.float32)
        order = np.lexsort((items, -scores, -values, rows))
        pairs = list(zip(self.items_[items[order]].tolist(), values[order].tolist(), strict=True))
        ends = np.cumsum(np.bincount(rows, minlength=len(users))).tolist()
        return [pairs[i:j] for i, j in zip([0, *ends], ends, strict=False)]

    def similar_items(self, items: Any, n: int = 10) -> list[Any]:
        """Items whose factors point the same way.

        Parameters
        ----------
        items : array-like of shape (n_items,), or one id
        n : int, default=10
            How many, without the item itself.

        Returns
        -------
        list of (item, similarity)
            The cosine of the angle between factors, largest first; of several items a list of such
            lists, of one that was in no fit (see `unknown`) an empty one.
        """
        return self._similar("items", items, n)

    def similar_users(self, users: Any, n: int = 10) -> list[Any]:
        """Users whose factors point the same way; as `similar_items`.

        Parameters
        ----------
        users : array-like of shape (n_users,), or one id
        n : int, default=10
            How many, without the user itself.

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
            cosines[line] = -np.inf
            answers.append([(names[k], float(cosines[k])) for k in best_of(cosines, int(n))])
        return answers[0] if is_one(asked) else answers

    def _lines_of(self, asked: Any, name: str, vocabulary: int) -> np.ndarray:
        """Lines of one id or of several, those of a vocabulary; warns of ids that it lacks."""
        ids = as_array([asked] if is_one(asked) else asked, name)
        lines = self._vocabularies()[vocabulary].lines(ids)
        self._warn_of_unknown({name: (lines, ids)})
        return lines

    def _choice(self, candidates: Any) -> np.ndarray:
        """Lines of the items to choose from, in their order."""
        if candidates is None:
            return np.arange(len(self.items_))
        lines = self._lines_of(candidates, "candidates", 1)
        return np.unique(lines[lines != NOBODY])

    def _seen_among(self, users: np.ndarray, choice: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where in a choice the items are that users have rated: where each begins, and places."""
        ends = np.append(self.seen_.indptr, self.seen_.indptr[-1])  # of `NOBODY`, who has none
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
        """What users make of each item of a choice, in float32: by factors and items' biases.

        Without what is the same for all items of a user, and without what the logistic function
        makes of it: neither changes the order.
        """
        known = users != NOBODY
        ones = np.ones((len(users), 1), np.float32)
        factors = np.where(known[:, None], self.user_factors_[users], np.float32(0.0))
        designs = np.column_stack([self.item_factors_[choice], self.item_biases_[choice]])
        return np.ascontiguousarray(np.hstack([factors, ones]) @ designs.T, dtype=np.float32)

    def _pairs_of(self, lines: np.ndarray, values: np.ndarray, scores: np.ndarray) -> list[Any]:
        """Items and predictions, best first: of those whose predictions are the same by scores."""
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
        """The best items for somebody who has rated some."""
        if not isinstance(ratings, Mapping):
            of_pairs = self.solver_ == ALTERNATING or self.negatives_
            if not of_pairs or is_one(ratings):  # a word has letters, which are no items
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
        kept = scores.copy()
        if exclude_seen:
            kept[np.isin(choice, lines)] = -np.inf
        best = best_of(kept, n)
        predicted = expit(scores[best]) if self._is_probable else scores[best]
        return self._pairs_of(choice[best], predicted.astype(np.float32), scores[best])

    def _folded_in(self, lines: np.ndarray, values: np.ndarray) -> tuple[float, np.ndarray]:
        """Bias and factors that are best for ratings of some items, which stay as they are."""
        n_factors, (loss, biases, nonnegative) = self.item_factors_.shape[1], self._of_fit
        now = self.bias_alpha, self.confidence, self.sampling, 1.0, 1.0
        bias_alpha, confidence, sampling, _, _ = self._weights or now
        ridge = fold_in.LineForm(n_factors, biases, self.alpha_, bias_alpha)
        mean = self.mean_ if self._predicts_mean else 0.0
        of_items = self.item_factors_, self.item_biases_.astype(np.float64) + mean
        if self.solver_ == ALTERNATING:
            # of an item that is there twice the strengths add up, as in a fit
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
        """Ratings of somebody new, in the unit that those of the fit had.

        Raises
        ------
        TypeError, ValueError
            As of `fit`.
        """
        if not ratings:
            return np.zeros(0)
        loss = self._of_fit[0]
        unit = 1.0 if self._weights is None else self._weights[3]
        values = np.asarray(checked_ratings(ratings, "squared_error"), np.float64) / unit
        if self.solver_ == ALTERNATING and values.min() < 0.0:
            raise ValueError(
                f"the model is of how often pairs have met, and ratings go down to "
                f"{min(ratings):g}: leave out what is disliked."
            )
        if loss == PAIRWISE and values.min() != values.max():
            raise ValueError(
                "the model is of pairs that have met, and these ratings differ: give a list of "
                "those that count."
            )
        return checked_ratings(values, loss)

    def _warn_of_unknown(self, asked: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> None:
        """Warn of ids that were in no fit, or refuse them: lines and ids, by what they are."""
        missing = [
            (name, repr(of.tolist()[0 if len(of) == 1 else int(np.argmax(line == NOBODY))]))
            for name, (line, of) in asked.items()
            if (line == NOBODY).any()
        ]
        if not missing or self.unknown == "ignore":
            return
        told = " and ".join(f"{name} that were in no fit, such as {one}" for name, one in missing)
        if self.unknown == "raise":
            raise ValueError(f"There are {told}; unknown='ignore' predicts what is known.")
        warn(
            f"There are {told}: predicted from the mean and what is known of the other; "
            "unknown='ignore' says nothing.",
        )

    def _predicted(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        z = self._linear(users, items)
        return (expit(z) if self._is_probable else z).astype(np.float32)

    def _linear(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Predictions in float64, before the logistic function."""
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
    """Whether predictions begin with a mean: with biases, or of ratings that products may be below.

    Non-negative factors without biases are to be all that there is.
    """
    _, biases, nonnegative = form
    return biases or not (nonnegative or negatives)


def best_of(scores: np.ndarray, n: int) -> np.ndarray:
    """Places of the n largest scores, largest first, of equal ones the first; none of -infinity.

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
