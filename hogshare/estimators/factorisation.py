"""`MatrixFactorization`: predicts ratings of items by users, fitted on every core.

The *line* of a user or an item is its row in the arrays of factors and biases.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.metrics import r2_score
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from hogshare.engine.stops import Stop
from hogshare.estimators.all_rows import all_rows_of
from hogshare.estimators.factorisation_alternation import alternated
from hogshare.estimators.feedback import (
    ALTERNATING,
    AUTO,
    FACTORS,
    STEPS,
    Feedback,
    feedback_of,
)
from hogshare.estimators.fits import fits
from hogshare.estimators.frames import columns_of
from hogshare.estimators.parameters import MAX_INT, SGD_WORDS, KnownParameters, generator_of
from hogshare.estimators.penalty import chosen, may_be_chosen, short
from hogshare.estimators.rating_passes import each_of, pairs_of
from hogshare.estimators.rating_scale import Scale, scale_of
from hogshare.estimators.recommendations import FORM, Recommending, Weights, has_mean
from hogshare.estimators.solver_report import SolverReport
from hogshare.estimators.vocabulary import Vocabulary, as_array, distinct
from hogshare.estimators.workers import WORKER_CONSTRAINTS
from hogshare.planes import Grid, Shared
from hogshare.planes.protocol import Plane
from hogshare.problems.factorisation import (
    FactorisationForm,
    FactorisationProblem,
    build,
    checked_ratings,
    mean_of,
    size_of_chance,
)
from hogshare.problems.linear.row_arrays import check_sparse
from hogshare.problems.params import Params
from hogshare.problems.preferences import PAIRWISE, POINTWISE, PairDraws, build_preferences
from hogshare.report import Report
from hogshare.rules.steps import StepSize
from hogshare.runtimes.hooks import OnEpoch
from hogshare.solvers.run import Diverged
from hogshare.solvers.solver import solve
from hogshare.system.messages import speaking

# The first step times the curvature of a rating's loss. On a set of known rank (1,000,000
# ratings, 8 factors) the number of epochs to come within 1 % of the best objective was 16 or more
# with 0.4, 14 with 0.6, 10 with 0.8, and 12 with 1.2. With 1.8 times 0.8, fits from some starts
# diverged.
FIRST_STEP = 0.8
SHORTER, SHORTEST = 0.3, 1e-5  # factor of the steps after a divergence, and its lower bound
# Pace of biases, relative to the ratings' spread around them. Biases are fitted before a run
# begins, and the long steps that suit factors would only add noise to them. Of 2, 1, 0.5, 0.25, 0.1
# and 0.05 this pace had the best test R2, or an R2 at most 0.003 below the best, on films, on
# ratings of known rank and on rounded ratings (with a given penalty). With a pace of 1 the R2 was
# up to 0.07 below the best.
BIAS_PACE = 0.25


class MatrixFactorization(Recommending, KnownParameters, BaseEstimator):
    """Matrix factorization of ratings of items by users, fitted on every core.

    The prediction is ``mean_ + b_u + c_i + p_u . q_i``. The fit minimizes::

        sum over ratings of (r - prediction)^2 / 2
            + alpha / 2 (|P|^2 + |Q|^2) + bias_alpha / 2 (|b|^2 + |c|^2)

    by stochastic gradient descent, rating by rating. By default, the ratings that several workers
    process at the same time have no user or item in common (Gemulla et al. 2011, Zhuang et al.
    2013). The model is therefore the same with several workers as with one. With another `plane`
    these ratings may have users or items in common, as in Hogwild! (Niu et al. 2011).

    Parameters
    ----------
    n_factors : int or 'auto', default='auto'
        Number of factors of each user and each item. With 0 the model has only biases. 'auto' is 64
        with solver 'als', and 8 otherwise.

    biases : bool, default=True
        Whether users and items have biases, relative to the mean of all ratings. First the biases
        of all items are fitted, then the biases of all users, and then all biases together with the
        factors. Without biases the prediction is ``mean_ + p_u . q_i``, except with `nonnegative`.

    loss : {'squared_error', 'logistic', 'bpr'}, default='squared_error'
        'squared_error' is for ratings. 'logistic' is for ratings from 0 (no) to 1 (yes), or for
        pairs without ratings; each pair is then compared with `negatives`. Its predictions are
        probabilities. 'bpr' is for pairs without ratings, and assumes that users prefer the items
        of their pairs to other items (Rendle et al. 2009). Its predictions rank items, and have no
        unit.

    solver : {'auto', 'sgd', 'als'}, default='auto'
        'sgd' fits the given pairs of users and items. 'als' fits all pairs of users and items, by
        alternating least squares: the given pairs have target 1 and weight
        ``1 + confidence * rating``, and all others have target 0 and weight 1 (Hu, Koren and
        Volinsky 2008). With 'squared_error', 'auto' is 'als' for pairs without ratings and, with a
        warning, if all ratings are equal. Otherwise 'auto' is 'sgd'.

    confidence : float, default=5.0
        Factor of a rating in the weights of 'als'; see `solver`. If all ratings are equal, each
        counts as 1. The product of `confidence` and a rating must be at most 1e6.

    negatives : int or 'auto', default='auto'
        Number of items drawn in every epoch for each pair, among the items with which the user has
        no pair. 'logistic' fits the drawn items as ratings of 0; 'bpr' ranks the drawn items below
        the pair's item. 'auto' is 1 with 'bpr'. With 'logistic', 'auto' is 4 for pairs without
        ratings, and if all ratings are equal; otherwise it is 0. 'squared_error' draws no items.

    sampling : {'uniform', 'popularity'}, default='uniform'
        Whether `negatives` are drawn uniformly, or in proportion to their number of pairs.

    alpha : float or 'auto', default='auto'
        Strength of the penalty on factors. The strength is the same for every user and item,
        whatever the number of their ratings. 'auto' holds out a tenth of the ratings (at most
        20,000), and chooses the multiple of
        `hogshare.problems.FactorisationProblem.noise_edge` with which a fit to the other ratings
        best predicts the held-out ratings. This takes three to six short fits of half as many
        epochs. With fewer than 1,000 ratings, for pairs without ratings, and in `partial_fit`,
        'auto' is a fixed multiple.

    bias_alpha : float, default=2.0
        Strength of the penalty on biases.

    nonnegative : bool, default=False
        Whether factors (not biases) must be at least 0. Without biases this is non-negative matrix
        factorization: the prediction is ``p_u . q_i``, without a mean.

    learning_rate : {'invscaling', 'constant', 'adaptive'}, default='invscaling'
        The learning rate schedule: 'invscaling' is ``eta0 / (1 + epochs)**power_t``; 'constant' is
        eta0; 'adaptive' is eta0, divided by 5 whenever the stop criterion is met.

    eta0 : float or 'auto', default='auto'
        The initial learning rate. 'auto' depends on the spread of ratings around the biases, and is
        reduced if a fit diverges. This may happen if a few ratings are far larger than all others.

    power_t : float, default=0.75
        The exponent for inverse scaling learning rate; see `learning_rate`.

    max_iter : int, default=20
        Maximum number of passes over the ratings (epochs) in `fit`.

    tol : float or None, default=None
        The stopping criterion: the fit stops when an epoch's mean loss has not improved by `tol`
        for `n_iter_no_change` consecutive epochs. With None the fit never stops early.

    n_iter_no_change : int, default=5
        Number of epochs without improvement to wait before stopping; see `tol`.

    unknown : {'warn', 'ignore', 'raise'}, default='warn'
        What to do about a user or an item that was in no fit: warn, give no warning, or raise an
        error. The prediction for a pair with such a user (or item) is the mean plus the bias of the
        pair's item (or user).

    random_state : int, RandomState or None, default=None
        Determines the initial factors, the order of ratings, and all draws. An int gives the same
        model bit for bit with any number of workers. With `negatives` or another plane, however,
        the model of several workers depends on their timing.

    plane : {"grid", "shared", "master"}, Grid, Shared, Master or None, default=None
        Where the model lives while several workers fit it. ``Grid()`` is one vector, in which no
        two workers write the same users or items at the same time. ``Shared(exchange=None)`` is
        Hogwild!: one vector that all workers write without locks. ``Shared()``, or "shared", is
        private copies with an exchange after every block. None means ``Grid()``; with `negatives`
        it means ``Shared(exchange=None)``, and across ranks, which share no memory, ``Shared()``.

    Attributes
    ----------
    users_, items_ : ndarray of shape (n_users,), (n_items,)
        The ids of users and items, in the order of the rows of the arrays below.

    user_factors_, item_factors_ : ndarray of float32 of shape (n_users, n_factors), ...
        The factors P and Q.

    user_biases_, item_biases_ : ndarray of float32 of shape (n_users,), (n_items,)
        The biases b and c; zeros if `biases` is False.

    alpha_ : float
        The strength of the penalty on factors.

    mean_ : float
        The mean of the first fit's ratings; with 'logistic', the logit of this mean. Biases are
        relative to it; without biases, the products of factors are relative to it. Without biases
        and with `nonnegative`, it is predicted only if the user or the item was in no fit.

    seen_ : csr_array of uint8 of shape (n_users, n_items)
        The rated pairs.

    user_counts_, item_counts_ : ndarray of int64
        Number of ratings of each user and of each item. A pair that is repeated in a later
        `partial_fit` counts once.

    n_iter_ : int
        Number of completed epochs.

    t_ : float
        Step counter: the number of the first fit's ratings plus all ratings visited since.

    solver_ : str
        "sgd" or "als".

    negatives_ : int
        Number of items that were drawn for each pair; 0 if ratings were fitted.

    report_ : Report or SolverReport
        The report of the last `fit` or `partial_fit`, without the short fits of ``alpha="auto"``.

    See Also
    --------
    hogshare.problems.factorisation : The underlying problem, for `hogshare.solve`.

    Notes
    -----
    A pair that occurs twice in one call is two ratings, each with its own loss.

    With ``alpha="auto"`` and ``eta0="auto"``, multiplying all ratings by a number multiplies the
    predictions by this number, up to the rounding of float32. Adding a number to all ratings adds
    the number to the predictions, except in non-negative matrix factorization. The unit of a given
    `alpha` is the unit of a rating; the unit of a given `eta0` is the reciprocal of that unit;
    `bias_alpha` has no unit.

    Examples
    --------
    >>> from hogshare import MatrixFactorization
    >>> users = ["ann", "ann", "bob", "bob", "cleo", "cleo"]
    >>> items = ["tea", "rum", "tea", "gin", "rum", "gin"]
    >>> model = MatrixFactorization(n_factors=1, random_state=0)
    >>> model.fit(users, items, [5, 1, 4, 2, 2, 1]).predict("cleo", "tea").round()
    array([3.], dtype=float32)
    >>> [item for item, _ in model.recommend("ann", n=1)]
    ['gin']
    """

    _words = SGD_WORDS
    user_counts_: np.ndarray
    item_counts_: np.ndarray
    seen_: sp.csr_array
    alpha_: float
    mean_: float
    t_: float
    _eta0: float  # first step of the first fit
    _unit: float  # number of the first fit's ratings, relative to which steps decrease
    _pace: float = 1.0  # pace of biases; 1.0 for a model from a file that stores no pace
    report_: Report | SolverReport
    solver_: str = STEPS
    negatives_: int = 0

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_factors": [Interval(Integral, 0, None, closed="left"), StrOptions({"auto"})],
        "biases": ["boolean"],
        "loss": [StrOptions({"squared_error", "logistic", "bpr"})],
        "solver": [StrOptions({"auto", "sgd", "als"})],
        "confidence": [Interval(Real, 0, None, closed="neither")],
        "negatives": [Interval(Integral, 0, None, closed="left"), StrOptions({"auto"})],
        "sampling": [StrOptions({"uniform", "popularity"})],
        "alpha": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "bias_alpha": [Interval(Real, 0, None, closed="left")],
        "nonnegative": ["boolean"],
        "learning_rate": [StrOptions({"invscaling", "constant", "adaptive"})],
        "eta0": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "power_t": [Interval(Real, 0, 10, closed="both")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left"), None],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "unknown": [StrOptions({"warn", "ignore", "raise"})],
        "random_state": ["random_state"],
        **WORKER_CONSTRAINTS,
    }

    def __init__(
        self,
        n_factors: int | str = "auto",
        *,
        biases: bool = True,
        loss: str = "squared_error",
        solver: str = "auto",
        confidence: float = 5.0,
        negatives: int | str = "auto",
        sampling: str = "uniform",
        alpha: float | str = "auto",
        bias_alpha: float = 2.0,
        nonnegative: bool = False,
        learning_rate: str = "invscaling",
        eta0: float | str = "auto",
        power_t: float = 0.75,
        max_iter: int = 20,
        tol: float | None = None,
        n_iter_no_change: int = 5,
        unknown: str = "warn",
        random_state: Any = None,
        n_jobs: int | None = None,
        plane: Any = None,
        barrier: Any = None,
        runtime: str = "auto",
    ) -> None:
        self._store(locals())

    # -- fitting

    @fits
    def fit(
        self, users: Any, items: Any = None, ratings: Any = None, *, columns: Any = None
    ) -> MatrixFactorization:
        """Fit the model.

        Parameters
        ----------
        users : array-like of shape (n_ratings,), sparse matrix of shape (n_users, n_items) or frame
            Ids of the users, of any hashable type. Or all ratings as a matrix, whose row and column
            numbers are the ids: every stored entry is a rating, including explicit zeros, and an
            entry that is stored twice is two ratings. Or all ratings as a data frame (of pandas,
            polars or Arrow), with the columns named by `columns`.
        items : array-like of shape (n_ratings,)
            Ids of the items.
        ratings : array-like of shape (n_ratings,), default=None
            The ratings. None means pairs without ratings, such as clicks or purchases; see
            `solver` and `loss`.
        columns : tuple of str, default=None
            Names of a data frame's columns of users, items and ratings; two names for pairs without
            ratings. None means "user", "item" and "rating", or their plurals, in lower or upper
            case.

        Raises
        ------
        TypeError, ValueError
            If the input or a parameter is not valid, or if the run diverges.

        Warns
        -----
        UserWarning
            If all ratings are equal; the message says how they are fitted.
        """
        ids, values = self._triples(users, items, ratings, columns)
        feedback = feedback_of(self, values, len(ids[0]))
        if sp.issparse(users):
            known = [Vocabulary(np.arange(n)) for n in users.shape]
            lines = ids
        else:
            found = [distinct(one) for one in ids]
            known, lines = [Vocabulary(names) for names, _ in found], [line for _, line in found]
        self._learn(known, lines, feedback, self.max_iter, anew=True)
        return self

    @fits
    def partial_fit(
        self, users: Any, items: Any = None, ratings: Any = None, *, columns: Any = None
    ) -> MatrixFactorization:
        """Continue for one epoch on some ratings, possibly with new users and items.

        Parameters
        ----------
        users, items, ratings, columns
            As in `fit`. New ids are appended to the known ids. The penalty of a user or an item is
            divided among all of its ratings so far; a repeated pair counts once. The strength that
            ``alpha="auto"`` has chosen grows with the new ratings. Steps decrease with the number
            of visits per known rating: several calls that together visit every known rating once
            count as one epoch.

        Raises
        ------
        TypeError, ValueError
            If `fit` would raise the error, or if `n_factors`, `loss`, `biases` or `nonnegative`
            differs from its value in the first fit.
        """
        if getattr(self, "user_factors_", None) is None:
            ids, values = self._triples(users, items, ratings, columns)
            known = [Vocabulary(one[:0]) for one in ids]
        else:
            self._require_same_form()
            ids, values = self._triples(users, items, ratings, columns)
            known = self._vocabularies()
        grown = [one.grown(of) for one, of in zip(known, ids, strict=True)]
        lines = [line for _, line in grown]
        anew = not hasattr(self, "user_factors_")
        feedback = self._going_on(values, len(lines[0]), anew)
        self._learn([one for one, _ in grown], lines, feedback, 1, anew=anew)
        return self

    def _learn(
        self,
        known: list[Vocabulary],
        lines: list[np.ndarray],
        feedback: Feedback,
        epochs: int,
        *,
        anew: bool,
    ) -> None:
        """Fit some ratings, and set all fitted attributes.

        known : vocabularies of users and items, which include these ratings' ids
        lines : each rating's line of its user, and of its item
        epochs : maximum number of epochs
        anew : whether the fit starts from new biases and factors; if not, it continues from the
            present biases and factors
        """
        sizes = [len(one.ids) for one in known]
        counts = self._counted(lines, sizes, anew)
        seen = _pairs(lines, sizes, None if anew else self.seen_)
        generator = generator_of(self.random_state)
        draws, order = (int(seed) for seed in generator.randint(MAX_INT, size=2))
        if not anew and feedback.negatives:
            order = (order + int(self.t_)) % MAX_INT  # else every call would draw the same items
        if feedback.solver == ALTERNATING:
            self._alternate(known, lines, feedback, counts, draws)
            self.seen_ = seen
            return
        alpha = None if anew else self.alpha_ * self._edge_grown(counts)
        mean = 0.0 if feedback.negatives else self._mean_of(feedback, anew)
        begins = has_mean(self._form_now, feedback.negatives) if anew else self._predicts_mean
        of_problem = mean if begins else 0.0
        scale = self._scale_of(feedback, of_problem, anew)
        of_problem -= scale.mean
        problem = self._problem(lines, feedback, counts, seen, alpha, order, scale, of_problem)
        mean = problem.ratings.mean if feedback.negatives else mean
        pace = BIAS_PACE * problem.residual if anew else self._pace
        problem = problem.with_bias_pace(pace)
        start, t = problem.start(draws), float(problem.n_rows)
        eta0, unit = self._first_step(problem), t
        if not anew:
            # steps decrease with the visits per known rating, including the new ratings
            known_before = int(self.user_counts_.sum())
            unit = self._unit + float(counts[0].sum()) - known_before
            start, t = self._grown(problem, start), self.t_
            eta0 = self._eta0 if self.eta0 == AUTO else eta0
        eta = eta0 * unit**self._power
        with speaking({**self._words, "a smaller eta0": self._smaller(eta0 / scale.size)}):
            tol = None if self.tol is None else self.tol / scale.size**2
            if anew and self.alpha == AUTO and may_be_chosen(problem, epochs):
                found = self._chosen_alpha(problem, start, eta, epochs, order, tol)
                problem = problem.with_alpha(found)
            model = Params(start, t)
            report, shorter = self._solved_safely(problem, model, eta, epochs, order, tol)
            eta0 *= shorter
        model = scale.grown(problem, report.model)
        report, self.n_iter_ = scale.report(report, model), report.n_epochs
        parts = problem.split(model.params)
        user_biases, user_factors, item_biases, item_factors = map(np.ascontiguousarray, parts)
        self.users_, self.items_ = (one.ids for one in known)
        self.user_biases_, self.item_biases_ = user_biases, item_biases
        self.user_factors_, self.item_factors_ = user_factors, item_factors
        self.user_counts_, self.item_counts_ = counts
        self.alpha_ = problem.ratings.alpha * scale.size
        self.mean_, self.t_ = float(mean), float(model.t)
        if anew:  # a model from an older file has no form, and continues without one
            self._form, self._weights = self._form_now, self._weights_now(feedback)
        self._eta0, self._unit = float(eta0 / scale.size), float(unit)
        self._pace = float(pace * scale.size)
        self.report_, self.seen_ = report, seen
        self.solver_, self.negatives_ = STEPS, feedback.negatives

    def _alternate(
        self,
        known: list[Vocabulary],
        lines: list[np.ndarray],
        feedback: Feedback,
        counts: list[np.ndarray],
        seed: int,
    ) -> None:
        """Fit by alternating least squares, and set all fitted attributes but `seen_`."""
        sizes, k = [len(one.ids) for one in known], self._n_factors_of(feedback, True)
        found, self.alpha_, report = alternated(self, lines, sizes, feedback.values, k, seed)
        self.users_, self.items_ = (one.ids for one in known)
        self.user_factors_, self.item_factors_ = (one[:, :k].copy() for one in found)
        biases = [one[:, k] if self.biases else np.zeros(len(one), one.dtype) for one in found]
        self.user_biases_, self.item_biases_ = map(np.ascontiguousarray, biases)
        self.user_counts_, self.item_counts_ = counts
        self.report_, self.n_iter_ = report, int(report.n_iter)
        self.mean_, self.solver_, self.negatives_ = 0.0, ALTERNATING, 0
        self._form, self._weights = self._form_now, self._weights_now(feedback)
        self._eta0 = self._unit = self._pace = 1.0
        self.t_ = 1.0 + float(self.n_iter_) * len(lines[0])

    def _n_factors_of(self, feedback: Feedback, anew: bool) -> int:
        """Return the number of factors."""
        if not (self.n_factors or self.biases):
            raise ValueError("n_factors=0 with biases=False leaves nothing to fit.")
        if self.n_factors != AUTO:
            return int(self.n_factors)
        if not anew:
            return int(self.user_factors_.shape[1])
        return FACTORS[feedback.solver]

    @property
    def _form_now(self) -> tuple[str, bool, bool]:
        """The present values of the parameters in `FORM`, which later calls must not change."""
        return self.loss, bool(self.biases), bool(self.nonnegative)

    def _weights_now(self, feedback: Feedback) -> Weights:
        """Return the values of a fit's parameters and ratings that folding in needs."""
        numbers = float(self.bias_alpha), float(self.confidence), self.sampling
        return *numbers, feedback.unit, float(feedback.values.mean())

    def _scale_of(self, feedback: Feedback, mean: float, anew: bool) -> Scale:
        """Return the scale of the ratings for the fit, around the predicted mean.

        Ratings are not divided by their size if a penalty or a step is given, since these have a
        unit. If the fit continues from a model, ratings are not divided either, since each change
        of the unit would round the model.
        """
        if self.loss != "squared_error" or feedback.negatives:
            return Scale()
        return scale_of(feedback.values, mean, anew and self.alpha == AUTO == self.eta0)

    def _mean_of(self, feedback: Feedback, anew: bool) -> float:
        """Return the mean to which biases are relative."""
        return mean_of(feedback.values, self.loss) if anew else self.mean_

    def _going_on(self, values: np.ndarray | None, n: int, anew: bool) -> Feedback:
        """Return the feedback for `partial_fit`, of the same kind as in the first fit."""
        if ALTERNATING in (self.solver, STEPS if anew else self.solver_):
            raise ValueError(
                "partial_fit takes steps, which solver='als' does not have: use fit, or fit pairs "
                "with loss='bpr' or loss='logistic'. For a new user no fit is needed: use "
                "recommend(ratings=...)."
            )
        if not anew and values is None and not self.negatives_:
            raise ValueError(
                "ratings is None, but the model was fitted to ratings: pass ratings to partial_fit."
            )
        feedback = feedback_of(self, values, n, is_part=True)
        if anew or feedback.negatives == self.negatives_:
            return feedback
        if self.negatives != AUTO:
            raise ValueError(
                f"negatives={self.negatives}, and the model was fitted with {self.negatives_}: "
                "partial_fit needs the same value; use fit to begin anew."
            )
        return feedback._replace(negatives=self.negatives_)

    def _edge_grown(self, counts: list[np.ndarray]) -> float:
        """Return the factor by which new ratings raise `size_of_chance`, and therefore `alpha`.

        The factor is exactly 1.0 without new ratings.
        """
        before = size_of_chance([self.user_counts_, self.item_counts_])
        return size_of_chance(counts) / before if before else 1.0

    def _counted(self, lines: list[np.ndarray], sizes: list[int], anew: bool) -> list[np.ndarray]:
        """Return the number of ratings of each user and each item, including earlier calls."""
        if anew:
            return [np.bincount(line, minlength=n) for line, n in zip(lines, sizes, strict=True)]
        new = ~_are_stored(self.seen_, lines)  # a repeated rating counts once
        found = []
        for line, n, before in zip(
            lines, sizes, (self.user_counts_, self.item_counts_), strict=True
        ):
            found.append(np.bincount(line[new], minlength=n))
            found[-1][: len(before)] += before
        return found

    def _in_columns(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return a method's arguments with the columns of a data frame in place of the frame."""
        users, items, ratings = (given.get(name) for name in ("users", "items", "ratings"))
        found = columns_of(users, items, ratings, given.get("columns"))
        return {**found._asdict(), "columns": None}

    def _triples(
        self, users: Any, items: Any, ratings: Any, columns: Any
    ) -> tuple[list[np.ndarray], np.ndarray | None]:
        """Return the ids of each rating's user and item, and the ratings; None without ratings."""
        users, items, ratings = columns_of(users, items, ratings, columns)
        if sp.issparse(users):
            if items is not None or ratings is not None:
                raise TypeError(
                    "a sparse matrix contains users, items and ratings: pass neither items nor "
                    "ratings with it."
                )
            check_sparse(users)
            entries = sp.coo_array(users)  # not through CSR, where SciPy sums repeated entries
            values = checked_ratings(entries.data, self.loss)
            order = np.lexsort(entries.coords[::-1])  # the same ratings in every format
            return [line[order].astype(np.int64) for line in entries.coords], values[order]
        if items is None:
            raise TypeError(
                "items is None: pass users, items and possibly ratings, with one entry each for "
                "every rating; or a sparse matrix, or a data frame."
            )
        if ratings is None:
            ids = self._ids(users, items, len(as_array(users, "users")))
            if not len(ids[0]):
                raise ValueError("There are no pairs: at least one is needed.")
            return ids, None
        values = checked_ratings(ratings, self.loss)
        return self._ids(users, items, len(values)), values

    def _ids(self, users: Any, items: Any, n: int) -> list[np.ndarray]:
        ids = [as_array(users, "users"), as_array(items, "items")]
        for name, one in zip(("users", "items"), ids, strict=True):
            if len(one) != n:
                raise ValueError(
                    f"there are {n} ratings and {len(one)} {name}: pass one for each rating."
                )
        return ids

    def _problem(
        self,
        lines: list[np.ndarray],
        feedback: Feedback,
        counts: list[np.ndarray],
        seen: sp.csr_array,
        alpha: float | None,
        seed: int,
        scale: Scale,
        mean: float,
    ) -> FactorisationProblem:
        """Return the problem to minimize.

        alpha : strength of the penalty from an earlier fit; None in a first fit
        mean : mean of the predictions, in the unit of `scale`; with drawn items the problem
            computes its own mean
        """
        n_factors = self._n_factors_of(feedback, alpha is None)
        alone = self.alpha == AUTO
        strengths = 0.0 if alone else float(self.alpha), float(self.bias_alpha)
        nonnegative = bool(self.nonnegative)
        loss = POINTWISE if feedback.negatives else self.loss
        form = FactorisationForm(n_factors, bool(self.biases), loss, *strengths, nonnegative)
        values = scale.shrunk(feedback.values)
        problem: FactorisationProblem
        if feedback.negatives:
            draws = PairDraws(self.loss, feedback.negatives, self.sampling, seed)
            known = seen.indptr.astype(np.int64), seen.indices.astype(np.uint32)
            of_rows = (lines[0], lines[1]), values, tuple(counts)
            problem = build_preferences(*of_rows, form, draws, known)
        else:
            each = each_of(self.n_jobs, len(values))
            problem = build(lines[0], lines[1], values, tuple(counts), form, mean, seed, each)
        if alone:
            problem = problem.with_alpha(problem.noise_edge() if alpha is None else alpha)
        return problem

    def _first_step(self, problem: FactorisationProblem) -> float:
        if self.eta0 == AUTO:
            return FIRST_STEP / problem.sharpness
        return float(self.eta0)

    @property
    def _power(self) -> float:
        """The exponent by which steps decrease."""
        return float(self.power_t) if self.learning_rate == "invscaling" else 0.0

    def _chosen_alpha(
        self,
        problem: FactorisationProblem,
        start: np.ndarray,
        eta0: float,
        epochs: int,
        seed: int,
        tol: float | None,
    ) -> float:
        """Return the penalty's strength with which short fits best predict held-out ratings."""

        def fitted(part: FactorisationProblem) -> np.ndarray:
            model = Params(start, float(part.n_rows))
            try:
                report = self._solved(part, model, eta0, short(epochs), seed, tol)
            except Diverged:
                return np.full(part.n_params, np.inf, part.dtype)
            return np.asarray(report.model.params)

        return chosen(problem, fitted, seed)

    def _solved_safely(
        self,
        problem: FactorisationProblem,
        start: Params,
        eta0: float,
        epochs: int,
        seed: int,
        tol: float | None,
    ) -> tuple[Report, float]:
        """Have the workers fit the problem; after a divergence with eta0='auto', shorten the steps.

        A fit may diverge because the spread of most ratings determines the steps, and a few ratings
        may be far larger.

        Returns the report, and the factor by which the steps were shortened.
        """
        shorter = 1.0
        while True:
            try:
                settings = shorter * eta0, epochs, seed, tol, self._on_epoch
                return self._solved(problem, start, *settings), shorter
            except Diverged:
                if self.eta0 != AUTO or shorter < SHORTEST:
                    raise
                shorter *= SHORTER

    def _solved(
        self,
        problem: FactorisationProblem,
        start: Params,
        eta0: float,
        epochs: int,
        seed: int,
        tol: float | None,
        on_epoch: OnEpoch | None = None,
    ) -> Report:
        """Have the workers fit the problem.

        eta0 : first step for `solve`, which decreases steps with the number of visited ratings, not
            with the number of epochs
        """
        everybody = all_rows_of(self)
        plane: Plane = Shared()
        if everybody.shares_memory:
            # drawn items may be in any cell of a grid
            plane = Shared(exchange=None) if problem.cells is None else Grid()
        return solve(
            problem,
            plane=plane if self.plane is None else self.plane,
            barrier=everybody.barrier(self.barrier),
            runtime=self.runtime,
            n_workers=self.n_jobs,
            step=StepSize(self.learning_rate, eta0, self._power),
            stop=Stop(epochs, tol, patience=self.n_iter_no_change),
            seed=seed,
            shuffle=False,  # shuffled once: an order per epoch takes as long as the epoch's steps
            start=start,
            on_epoch=on_epoch,
        )

    def _smaller(self, first: float) -> str:
        """Return a suggestion for the message after a divergence: a smaller first step.

        first : first step of the diverged fit
        """
        if self.eta0 == AUTO:
            return f"eta0={0.3 * first:.2g} (eta0='auto' began with {first:.2g})"
        return f"a smaller eta0 than {first:g}"

    def _require_same_form(self) -> None:
        """Refuse to continue from a model whose number of factors or `FORM` differs."""
        if self.n_factors not in (AUTO, self.user_factors_.shape[1]):
            raise ValueError(
                f"n_factors={self.n_factors}, and the model has {self.user_factors_.shape[1]}: "
                "partial_fit needs the same value; use fit to begin anew."
            )
        for name, now, fitted in zip(
            FORM, self._form_now, self._form or self._form_now, strict=True
        ):
            if now != fitted:
                raise ValueError(
                    f"{name}={now!r}, and the model was fitted with {name}={fitted!r}: partial_fit "
                    "needs the same value; use fit to begin anew."
                )

    def _grown(self, problem: FactorisationProblem, drawn: np.ndarray) -> np.ndarray:
        """Return the model as a new vector, with drawn factors for new users and items.

        drawn : a new model of the problem, which is not changed
        """
        drawn = drawn.copy()
        for part, own in zip(problem.split(drawn), self._parts(), strict=True):
            part[: len(own)] = own
        if self.biases:
            for part, own in zip(problem.split(drawn)[::2], self._parts()[::2], strict=True):
                part[len(own) :] = 0.0  # the drawn biases were fitted without the known ones
        return drawn

    def _parts(self) -> tuple[np.ndarray, ...]:
        return self.user_biases_, self.user_factors_, self.item_biases_, self.item_factors_

    # -- scores

    def score(
        self, users: Any, items: Any = None, ratings: Any = None, *, columns: Any = None
    ) -> float:
        """Return the coefficient of determination R^2 of the predictions of some ratings.

        Parameters
        ----------
        users, items, ratings, columns
            As in `fit`.

        Returns
        -------
        float
            At most 1, which is the best. Predicting the mean of these ratings gives 0.
        """
        check_is_fitted(self, "user_factors_")
        ids, values = self._triples(users, items, ratings, columns)
        if values is None or self.loss == PAIRWISE:
            raise ValueError(
                "score is R squared of ratings, and needs ratings and another loss than 'bpr': for "
                "lists of items use hogshare.metrics.ranking_metrics_at_k."
            )
        return float(r2_score(values, self.predict(*ids)))


def _pairs(lines: list[np.ndarray], sizes: list[int], before: Any) -> sp.csr_array:
    """Return the rated pairs, including the pairs of earlier calls, as a matrix of ones.

    before : the matrix of earlier calls, which is not changed; None without one
    """
    seen = pairs_of(lines[0], lines[1], sizes)
    if before is not None:
        before = before.copy()
        before.resize(tuple(sizes))
        seen = (seen + before).tocsr()
    seen.data[:] = 1
    return seen


def _are_stored(seen: sp.csr_array, lines: list[np.ndarray]) -> np.ndarray:
    """Return, for each pair of lines, whether it is stored in a matrix in canonical order.

    Pairs beyond the shape of the matrix are not stored.
    """
    width = 1 + max(seen.shape[1], int(lines[1].max(initial=0)))
    # pairs as single numbers, sorted since the matrix is in canonical order
    stored = np.repeat(np.arange(seen.shape[0]), np.diff(seen.indptr)) * width + seen.indices
    pairs = lines[0] * width + lines[1]
    places = np.searchsorted(stored, pairs)
    return stored.take(places, mode="clip") == pairs if len(stored) else np.zeros(len(pairs), bool)
