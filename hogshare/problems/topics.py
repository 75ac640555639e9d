"""Topics of documents: latent Dirichlet allocation, by stochastic variational steps.

Source: Hoffman, Blei and Bach 2010, "Online learning for latent Dirichlet allocation", Algorithm 2.
After the batch t the topics are ``lambda = (1 - rho_t) lambda + rho_t (prior + ratio S_t)``, where
S_t is what the batch has seen, non-zero for its own words only. Written so, every step moves every
number. Here the vector is u of ``lambda = prior + P_t u``, ``P_t = prod_{i <= t} (1 - rho_i)``, for
which the same step is ``u += rho_t ratio S_t / P_t``: a batch moves the numbers of its words,
and steps of several workers add up in any order. The vector also has the sums of u over the words,
and the number of steps that are in it, by which everybody knows t.

Departure: of a step that is not yet in the vector a worker knows nothing, so two workers may take
theirs with the same rho_t. It is then as if the later one had come with the earlier one's rho.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from hogshare.kernels.topics.topic_batches import (
    Desk,
    Documents,
    add_step,
    expect,
    spread,
    topics_bound,
)
from hogshare.problems.gradient import PASS_ROWS, BlockClaim, GradientProblem, Whole
from hogshare.problems.kernel_arrays import canonical, frozen
from hogshare.problems.linear.row_arrays import check_sparse
from hogshare.problems.model import Model
from hogshare.problems.params import Params, params_of
from hogshare.system import missed_calls, ranges
from hogshare.system.interrupts import leaves_numpy

SHAPE, SIZE = 100.0, 0.01  # of the gamma law that first numbers are drawn from
EPS = float(np.finfo(np.float64).eps)  # that a likelihood is raised by
LEAST = 1e-250  # of what steps leave, before its inverse is no number any more
LEAST_PRIOR = float(np.finfo(np.float32).tiny)  # of which numbers in float32 lose no digits
MAX_SEED = np.iinfo(np.int32).max
SPARSE_SHARE = 0.25  # of the words: a batch that has more moves the whole vector


@dataclass(frozen=True)
class TopicParams(Params):
    """Topics, and the vector that a run had them in.

    Attributes
    ----------
    components : ndarray of shape (n_topics, n_words)
        Variational parameters of the topics: pseudo-counts of how often a word was of a topic.
    n_batches : int
        Batches that are in them, those before the run included.
    random_state : RandomState
        With which another run goes on.
    """

    components: np.ndarray = None  # type: ignore[assignment]
    n_batches: int = 0
    random_state: np.random.RandomState = None  # type: ignore[assignment]


class TopicsProblem(GradientProblem):
    """Topics of documents; make one with `hogshare.problems.topics`."""

    releases_interpreter = True
    eta0, has_steps = 1.0, True

    def __init__(
        self,
        documents: Documents,
        components: np.ndarray,
        *,
        priors: tuple[float, float],
        law: tuple[float, float, float],
        n_batches: int,
        patience: tuple[int, float],
        random_state: np.random.RandomState,
    ) -> None:
        self.documents = documents
        self.n_rows = len(documents.begins) - 1
        self.n_topics, self.n_words = components.shape
        self.n_params = self.n_words * self.n_topics + self.n_topics + 1
        self.dtype = np.dtype(np.float64)
        self.document_prior, self.word_prior = priors
        self.decay, self.offset, self.total = law
        self.n_batches = n_batches
        self.most, self.tol = patience
        self.random_state = copy.deepcopy(random_state)  # which no run moves
        self._components = components
        self._first: DocumentDraws | None = None  # of worker 0 of the last run in this process

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_first": None}

    # -- the vector ------------------------------------------------------------------------------

    def start(self) -> np.ndarray:
        """The topics that a run begins with, as the vector has them."""
        vector = np.zeros(self.n_params)
        vector[: -self.n_topics - 1] = (self._components.T - self.word_prior).ravel()
        vector[-self.n_topics - 1 : -1] = (self._components - self.word_prior).sum(axis=1)
        return vector

    def parts(self, vector: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The vector's numbers of words and topics, and their sums: views."""
        return vector[: -self.n_topics - 1], vector[-self.n_topics - 1 : -1]

    def weight(self, step: int) -> float:
        """How much of the topics a step replaces: rho of the papers; the run's first is step 0."""
        return float((self.offset + self.n_batches + 1 + step) ** -self.decay)

    def left_after(self, n_steps: int) -> float:
        """What so many steps leave of what there was before the run: P of the papers."""
        steps = np.arange(self.n_batches + 1, self.n_batches + 1 + n_steps)
        return float(np.exp(np.log1p(-((self.offset + steps) ** -self.decay)).sum()))

    def components(self, vector: np.ndarray) -> np.ndarray:
        """Topics: float64 of shape (n_topics, n_words)."""
        u, _ = self.parts(vector)
        left = self.left_after(round(float(vector[-1])))
        return np.ascontiguousarray(self.word_prior + left * u.reshape(-1, self.n_topics).T)

    def view(self, model: Model) -> TopicParams:
        """The vector, and the topics that it says."""
        known = params_of(model)
        n_batches = self.n_batches + round(float(known.params[-1]))
        found = self.components(known.params)
        return TopicParams(
            known.params, known.t, known.average, found, n_batches, self._random_state_after()
        )

    def _random_state_after(self) -> np.random.RandomState:
        """With what a run goes on: one worker's draws end where the next run's begin."""
        first = self._first
        if first is not None and first.sequential and first.stream is not None:
            return copy.deepcopy(first.stream)
        after = copy.deepcopy(self.random_state)
        after.randint(MAX_SEED)
        return after

    # -- steps -----------------------------------------------------------------------------------

    def for_worker(self, me: int) -> Reader:
        """A worker's own scratch, and the draws of the blocks that it claims."""
        return self._announced(Reader(self), me)

    def gradient(
        self, w: np.ndarray, rows: np.ndarray, out: np.ndarray
    ) -> float | tuple[float, np.ndarray]:
        """Minus a batch's step, and minus its documents' part of the bound."""
        return Reader(self)(w, rows, out)

    def advance(self, w: np.ndarray, rows: np.ndarray, eta: float) -> float:
        """Take the step of a batch in place."""
        return Stepping(self)(w, rows, eta)

    def advance_for_worker(self, me: int) -> Stepping:
        """A worker's own scratch, and the draws of the blocks that it claims."""
        return self._announced(Stepping(self), me)

    def _announced(self, reader: AnyReader, me: int) -> AnyReader:
        if me == 0:
            self._first = reader.draws
        return reader

    # -- passes over all documents ---------------------------------------------------------------

    def objective(self, params: np.ndarray) -> float:
        """Minus the evidence's lower bound, by documents."""
        return self.evaluate(params)[0]

    def evaluate(self, params: np.ndarray) -> tuple[float, np.ndarray]:
        """Minus the bound by documents, and its natural gradient: ``lambda`` less its next value.

        The documents' shares are fitted anew, each from 1.
        """
        u, totals = self.parts(frozen(np.asarray(params, dtype=self.dtype)))
        left = self.left_after(round(float(params[-1])))
        gammas = np.ones((self.n_rows, self.n_topics))
        here, seen = Reader(self).whole(u, totals, left, slice(0, self.n_rows), gammas)
        of_documents, seen = self.totals(np.array([here]), seen)
        bound = float(of_documents[0])
        bound += topics_bound(u, totals, self.word_prior, left, self.word_prior)
        away = np.zeros(self.n_params)
        away[: u.size] = left * u - self.total / self.n_all * seen.ravel()
        return -bound / self.n_all, away / self.n_all

    def among(self, whole: Whole) -> GradientProblem:
        """As `GradientProblem.among`: a batch stands for the documents of all parts."""
        own = self._copy_among(whole)
        (documents,) = own.totals(np.array([self.total]))
        own.total = float(documents[0])
        return own


class DocumentDraws:
    """What documents' numbers begin with: hangs on the seed and on the block, not on who works.

    One worker draws block after block from the stream that the topics were drawn from, as
    scikit-learn does. Of several each would have to draw what the others do, so that a block has a
    stream of its own, of the seed, the epoch and the block.
    """

    def __init__(self, problem: TopicsProblem) -> None:
        self.n_topics = problem.n_topics
        self.begins = problem.random_state
        self.stream: np.random.RandomState | None = None  # None: no block, and numbers begin at 1
        self.sequential = False
        self.n_rows = 0  # that have been drawn, one after the other

    def begin(self, claim: BlockClaim) -> None:
        """Go to a block."""
        self.sequential = claim.n_workers == 1
        if not self.sequential:
            seed = copy.deepcopy(self.begins).randint(MAX_SEED)
            key = [seed, claim.site, claim.epoch, claim.block]
            self.stream = np.random.RandomState(key)
            return
        if self.stream is None or self.n_rows > claim.rows_before:
            self.stream, self.n_rows = copy.deepcopy(self.begins), 0
        self.numbers(claim.rows_before - self.n_rows)  # of a run that a checkpoint goes on with

    def numbers(self, n_rows: int) -> np.ndarray:
        """For the next rows: float64 of shape (n_rows, n_topics)."""
        shape = n_rows, self.n_topics
        self.n_rows += n_rows
        return np.ones(shape) if self.stream is None else self.stream.gamma(SHAPE, SIZE, shape)


class Reader:
    """One worker's scratch and draws: what it makes of a batch."""

    def __init__(self, problem: TopicsProblem) -> None:
        self.problem = problem
        self.draws = DocumentDraws(problem)
        self.begin = self.draws.begin
        self.desk = self._desk(0)
        self.of_a_word = np.arange(problem.n_topics)
        self.of_all = np.arange(problem.n_params - problem.n_topics - 1, problem.n_params)
        self._known = 0, 1.0  # steps, and what they leave

    def __call__(
        self, w: np.ndarray, rows: np.ndarray, out: np.ndarray
    ) -> float | tuple[float, np.ndarray]:
        """Minus the step of a batch, as a gradient."""
        problem = self.problem
        n_ids, factor, bound = self._batch(w, rows)
        spread(self.desk, n_ids, -factor, out)
        out[-1] = -1.0
        if n_ids > SPARSE_SHARE * problem.n_words:
            return -bound
        firsts = self.desk.ids[:n_ids] * problem.n_topics
        of_words = (firsts[:, np.newaxis] + self.of_a_word).ravel()
        return -bound, np.concatenate([of_words, self.of_all])

    def _batch(self, w: np.ndarray, rows: np.ndarray) -> tuple[int, float, float]:
        """Words of a batch, by what the counts of each become its step, and its bound."""
        problem = self.problem
        n_steps, left = self._steps_in(w)
        rho = problem.weight(n_steps)
        n_ids, bound = self.fit(*problem.parts(w), left, rows, self.draws.numbers(len(rows)))
        return n_ids, rho * problem.total / len(rows) / (left * (1.0 - rho)), bound

    def whole(
        self,
        u: np.ndarray,
        totals: np.ndarray,
        left: float,
        rows: slice,
        gammas: np.ndarray,
        most: int | None = None,
    ) -> tuple[float, np.ndarray]:
        """As `fit`, of many documents: their bound, and how much of each word was of each topic.

        gammas : of all documents
        """
        bound, seen = 0.0, np.zeros((self.problem.n_words, self.problem.n_topics))
        for first in range(rows.start, rows.stop, PASS_ROWS):
            last = min(first + PASS_ROWS, rows.stop)
            part = np.arange(first, last)
            n_ids, here = self.fit(u, totals, left, part, gammas[first:last], most)
            seen[self.desk.ids[:n_ids]] += self.desk.seen[:n_ids]
            bound += here
        return bound, seen

    def fit(
        self,
        u: np.ndarray,
        totals: np.ndarray,
        left: float,
        rows: np.ndarray,
        gammas: np.ndarray,
        most: int | None = None,
    ) -> tuple[int, float]:
        """Fit the shares of some documents; how many words they have, and their bound.

        gammas : what each begins with, and then what it has become
        most : passes over a document, if not the problem's
        """
        problem = self.problem
        begins = problem.documents.begins
        n_words = min(problem.n_words, int((begins[rows + 1] - begins[rows]).sum()))
        if n_words > len(self.desk.ids):
            self.desk = self._desk(n_words)
        found: tuple[int, float] = expect(
            problem.documents,
            rows,
            u,
            totals,
            problem.word_prior,
            left,
            self.desk,
            gammas,
            problem.document_prior,
            problem.most if most is None else most,
            problem.tol,
            EPS,
        )
        return found

    def _desk(self, n_words: int) -> Desk:
        """Scratch for batches of at most so many words."""
        n_topics = self.problem.n_topics
        longest = int(np.diff(self.problem.documents.begins).max(initial=0))
        return Desk(
            np.full(self.problem.n_words, -1),
            np.empty(n_words, np.int64),
            np.empty((n_words, n_topics)),
            np.empty((n_words, n_topics)),
            np.empty(n_topics),
            np.empty(n_topics),
            np.empty(longest, np.int64),
        )

    def _steps_in(self, w: np.ndarray) -> tuple[int, float]:
        """How many steps are in a vector, and what they have left of what was before."""
        n_steps = round(float(w[-1]))
        known, left = self._known
        if n_steps < known:
            known, left = 0, 1.0
        while known < n_steps:
            left *= 1.0 - self.problem.weight(known)
            known += 1
        self._known = known, left
        if left < LEAST:
            raise ValueError(
                f"after {n_steps} batches nothing is left of what was before the run: fewer "
                "epochs, then another run from report.model.components, or a larger "
                "learning_decay"
            )
        return n_steps, left


class Stepping(Reader):
    """A reader that takes the step where the vector is."""

    def __call__(self, w: np.ndarray, rows: np.ndarray, eta: float) -> float:  # type: ignore[override]
        """As `TopicsProblem.advance`."""
        n_ids, factor, bound = self._batch(w, rows)
        add_step(self.desk, n_ids, eta * factor, w)
        return -bound


AnyReader = TypeVar("AnyReader", bound=Reader)


@missed_calls.counted
@leaves_numpy
def topics(
    X: Any,
    n_topics: int = 10,
    *,
    doc_topic_prior: float | None = None,
    topic_word_prior: float | None = None,
    learning_decay: float = 0.7,
    learning_offset: float = 10.0,
    total_samples: float | None = None,
    mean_change_tol: float = 1e-3,
    max_doc_update_iter: int = 100,
    components: Any = None,
    n_batches: int = 0,
    random_state: Any = None,
) -> TopicsProblem:
    """State the topics of documents as a problem (latent Dirichlet allocation).

    What is minimised is minus the evidence's lower bound, by documents. A block of documents is a
    batch: it is one step, for which `solve` is told ``block=`` (64 if not) and no ``step=``.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_documents, n_words)
        How often each word is in each document: at least 0.
    n_topics : int, default=10
    doc_topic_prior, topic_word_prior : float or None, default=None
        Of the documents' shares of topics, and of the topics' of words; None: ``1 / n_topics``.
    learning_decay : float, default=0.7
        Kappa of ``rho_t = (learning_offset + t) ** -learning_decay``, the share of the topics that
        the batch t, from 1, replaces; above 0 and at most 1. Above 0.5 the steps converge.
    learning_offset : float, default=10.0
        At least 1.
    total_samples : float or None, default=None
        Documents that the batches are drawn from; None: as many as X has.
    mean_change_tol : float, default=1e-3
        A document's shares are fitted till its numbers change by less, on the average.
    max_doc_update_iter : int, default=100
        Passes over a document, at most.
    components : array-like of shape (n_topics, n_words), default=None
        Topics to begin with, such as ``report.model.components``; None: drawn.
    n_batches : int, default=0
        Batches that are in `components` already (``report.model.n_batches``).
    random_state : int, RandomState instance or None, default=None
        Of the first topics and of what documents' shares begin with: those of a block are the same
        whoever works on it, and whenever the problem is solved. A run that goes on from another
        takes ``report.model.random_state``.

    Returns
    -------
    TopicsProblem
        ``report.model.components`` are the topics.

    Raises
    ------
    TypeError, ValueError
        If an argument is of another kind, out of its range, or NaN.

    Notes
    -----
    Source: Hoffman, Blei and Bach 2010, Algorithm 2. Steps are written so that they add up in any
    order and touch the words of their batch only: ``docs/guide/topics.md``. With one worker and
    ``shuffle=False`` they are those of `sklearn.decomposition.LatentDirichletAllocation`, to
    rounding. ``plane=Shared(exchange=None)`` suits several workers: a batch is seen by all at once.
    A `Master`'s cutoff drops batches. Averages of iterates say nothing here.

    Examples
    --------
    >>> import numpy as np
    >>> from hogshare import problems, solve
    >>> words = np.random.default_rng(0)
    >>> X = np.vstack([words.poisson([4, 4, 0, 0], (50, 4)), words.poisson([0, 0, 4, 4], (50, 4))])
    >>> problem = problems.topics(X, n_topics=2, random_state=0)
    >>> report = solve(problem, block=10, stop=5, seed=0)
    >>> shares = report.model.components / report.model.components.sum(axis=1, keepdims=True)
    >>> np.sort(shares.round(1), axis=0).tolist()
    [[0.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.5, 0.5]]
    """
    from sklearn.utils import check_random_state

    ranges.whole(1, n_topics=n_topics, max_doc_update_iter=max_doc_update_iter)
    ranges.whole(0, n_batches=n_batches)
    ranges.positive(
        doc_topic_prior=1.0 if doc_topic_prior is None else doc_topic_prior,
        topic_word_prior=1.0 if topic_word_prior is None else topic_word_prior,
        learning_decay=learning_decay,
        total_samples=1.0 if total_samples is None else total_samples,
    )
    for name, prior in (
        ("doc_topic_prior", doc_topic_prior),
        ("topic_word_prior", topic_word_prior),
    ):
        if prior is not None and prior < LEAST_PRIOR:
            raise ValueError(f"{name} must be at least {LEAST_PRIOR:.3g}; got {prior!r}.")
    ranges.at_least_one(learning_offset=learning_offset)
    ranges.not_negative(mean_change_tol=mean_change_tol)
    if learning_decay > 1.0:
        raise ValueError(f"learning_decay must be at most 1; got {learning_decay!r}.")
    documents, n_words = documents_of(X)
    stream = check_random_state(random_state)
    if components is None:
        components = stream.gamma(SHAPE, SIZE, (n_topics, n_words))
    components = np.array(components, dtype=np.float64)
    if components.shape != (n_topics, n_words):
        raise ValueError(
            f"components must have shape ({n_topics}, {n_words}), a number for each topic and word "
            f"of X; got {components.shape}."
        )
    if not (np.isfinite(components).all() and (components > 0.0).all()):
        raise ValueError("components must be positive numbers.")
    prior = 1.0 / n_topics
    return TopicsProblem(
        documents,
        components,
        priors=(
            float(prior if doc_topic_prior is None else doc_topic_prior),
            float(prior if topic_word_prior is None else topic_word_prior),
        ),
        law=(
            float(learning_decay),
            float(learning_offset),
            float(len(documents.begins) - 1 if total_samples is None else total_samples),
        ),
        n_batches=int(n_batches),
        patience=(int(max_doc_update_iter), float(mean_change_tol)),
        random_state=stream,
    )


def documents_of(X: Any) -> tuple[Documents, int]:
    """Documents as kernels read them, and how many words there are.

    Raises ValueError: if something is negative, NaN or infinite, or an index is out of range.
    """
    from sklearn.utils import check_array
    from sklearn.utils.validation import check_non_negative

    check_sparse(X)
    found = check_array(canonical(X), accept_sparse="csr", dtype=[np.float64, np.float32])
    check_non_negative(found, "problems.topics")
    return as_documents(found), found.shape[1]


def as_documents(X: Any) -> Documents:
    """Rows that have been checked, dense or CSR, as kernels read them."""
    rows = sp.csr_array(X)
    return Documents(*(frozen(part) for part in (rows.data, rows.indices, rows.indptr)))
