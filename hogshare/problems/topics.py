"""Topics of documents: latent Dirichlet allocation, in stochastic variational steps.

Source: Hoffman, Blei and Bach 2010, "Online learning for latent Dirichlet allocation", Algorithm 2.
After batch t the topics are ``lambda = (1 - rho_t) lambda + rho_t (prior + ratio S_t)``. S_t are
the statistics of the batch, which are nonzero only for the words of the batch. rho_t is the share
of the topics that the step replaces. ratio is the number of all documents, divided by the number of
documents in the batch. In this form every step changes every element of lambda. So the vector of
this problem is u, defined by ``lambda = prior + P_t u`` with ``P_t = prod_{i <= t} (1 - rho_i)``.
For u the same step is ``u += rho_t ratio S_t / P_t``: a batch changes only the elements of its
words, and the steps of several workers add up in any order. The vector also contains the sums of u
over the words, and the number of its steps, from which every worker computes t.

Departure: a worker does not see steps that are not yet in the vector, so two workers may take their
steps with the same rho_t. In the paper, the later of these steps has a smaller rho.
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

SHAPE, SIZE = 100.0, 0.01  # of the gamma distribution of initial topics and shares
EPS = float(np.finfo(np.float64).eps)  # added to a likelihood
LEAST = 1e-250  # least P_t in a step; the inverse of a smaller P_t may overflow
LEAST_PRIOR = float(np.finfo(np.float32).tiny)  # smaller priors lose digits in float32
MAX_SEED = np.iinfo(np.int32).max
SPARSE_SHARE = 0.25  # if a batch has a larger share of the words, its step counts as dense


@dataclass(frozen=True)
class TopicParams(Params):
    """Topics, and the vector from which they are computed.

    Attributes
    ----------
    components : ndarray of shape (n_topics, n_words)
        Variational parameters of the topics: a pseudo-count of the occurrences of each word in each
        topic.
    n_batches : int
        Number of batches that the topics include, with the batches before the run.
    random_state : RandomState
        State to pass to the problem of another run that continues this run.
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
        self.random_state = copy.deepcopy(random_state)  # never advanced: runs draw from copies
        self._components = components
        self._first: DocumentDraws | None = None  # draws of worker 0 in this process's last run

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_first": None}

    # -- the vector ------------------------------------------------------------------------------

    def start(self) -> np.ndarray:
        """Return the vector of the initial topics, at which a run begins, as a new array."""
        vector = np.zeros(self.n_params)
        vector[: -self.n_topics - 1] = (self._components.T - self.word_prior).ravel()
        vector[-self.n_topics - 1 : -1] = (self._components - self.word_prior).sum(axis=1)
        return vector

    def parts(self, vector: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return two views of a vector: u by word and topic (flat), and the sums of u by topic."""
        return vector[: -self.n_topics - 1], vector[-self.n_topics - 1 : -1]

    def weight(self, step: int) -> float:
        """Return the paper's rho: the share of the topics that step `step` (from 0) replaces."""
        return float((self.offset + self.n_batches + 1 + step) ** -self.decay)

    def left_after(self, n_steps: int) -> float:
        """Return P_t, the share of the initial topics that remains after `n_steps` steps."""
        steps = np.arange(self.n_batches + 1, self.n_batches + 1 + n_steps)
        return float(np.exp(np.log1p(-((self.offset + steps) ** -self.decay)).sum()))

    def components(self, vector: np.ndarray) -> np.ndarray:
        """Return the topics of a vector as a new float64 array of shape (n_topics, n_words)."""
        u, _ = self.parts(vector)
        left = self.left_after(round(float(vector[-1])))
        return np.ascontiguousarray(self.word_prior + left * u.reshape(-1, self.n_topics).T)

    def view(self, model: Model) -> TopicParams:
        """Return the vector and its topics."""
        known = params_of(model)
        n_batches = self.n_batches + round(float(known.params[-1]))
        found = self.components(known.params)
        return TopicParams(
            known.params, known.t, known.average, found, n_batches, self._random_state_after()
        )

    def _random_state_after(self) -> np.random.RandomState:
        """Return a state for the next run; after one worker's run it continues the draws."""
        first = self._first
        if first is not None and first.sequential and first.stream is not None:
            return copy.deepcopy(first.stream)
        after = copy.deepcopy(self.random_state)
        after.randint(MAX_SEED)
        return after

    # -- steps -----------------------------------------------------------------------------------

    def for_worker(self, me: int) -> Reader:
        """Return a worker's `Reader`, which has its own scratch memory and random draws."""
        return self._announced(Reader(self), me)

    def gradient(
        self, w: np.ndarray, rows: np.ndarray, out: np.ndarray
    ) -> float | tuple[float, np.ndarray]:
        """Write minus the step of a batch to `out`; return minus the bound of its documents."""
        return Reader(self)(w, rows, out)

    def advance(self, w: np.ndarray, rows: np.ndarray, eta: float) -> float:
        """Take the step of a batch in place."""
        return Stepping(self)(w, rows, eta)

    def advance_for_worker(self, me: int) -> Stepping:
        """Return a worker's `Stepping`, which has its own scratch memory and random draws."""
        return self._announced(Stepping(self), me)

    def _announced(self, reader: AnyReader, me: int) -> AnyReader:
        if me == 0:
            self._first = reader.draws
        return reader

    # -- passes over all documents ---------------------------------------------------------------

    def objective(self, params: np.ndarray) -> float:
        """Return minus the lower bound of the log-evidence, divided by the number of documents."""
        return self.evaluate(params)[0]

    def evaluate(self, params: np.ndarray) -> tuple[float, np.ndarray]:
        """Return minus the bound per document, and its natural gradient.

        The gradient is ``lambda`` minus the value of ``lambda`` after a step with all documents and
        rho 1, per document. The shares of topics in each document are fitted again, from ones. If
        ranks have parts of the documents, all ranks must call this method.
        """
        u, totals = self.parts(frozen(np.asarray(params, dtype=self.dtype)))
        left = self.left_after(round(float(params[-1])))
        gammas = np.ones((self.n_rows, self.n_topics))
        own, seen = Reader(self).whole(u, totals, left, slice(0, self.n_rows), gammas)
        of_documents, seen = self.totals(np.array([own]), seen)
        bound = float(of_documents[0])
        bound += topics_bound(u, totals, self.word_prior, left, self.word_prior)
        away = np.zeros(self.n_params)
        away[: u.size] = left * u - self.total / self.n_all * seen.ravel()
        return -bound / self.n_all, away / self.n_all

    def among(self, whole: Whole) -> GradientProblem:
        """Return a copy as `GradientProblem.among` does; its `total` is the sum over all parts."""
        own = self._copy_among(whole)
        (documents,) = own.totals(np.array([self.total]))
        own.total = float(documents[0])
        return own


class DocumentDraws:
    """Initial shares of documents; they depend on the seed and the block, not on the worker.

    A single worker draws the shares of all blocks from one random stream, as scikit-learn does.
    With several workers, each worker would have to draw the shares of the other workers' blocks
    from this stream. So with several workers each block has its own stream, which depends on the
    seed, the site, the epoch and the block.
    """

    def __init__(self, problem: TopicsProblem) -> None:
        self.n_topics = problem.n_topics
        self.begins = problem.random_state
        self.stream: np.random.RandomState | None = None  # None: before any block, shares are 1
        self.sequential = False
        self.n_rows = 0  # rows that have been drawn in sequence

    def begin(self, claim: BlockClaim) -> None:
        """Set the random stream to the beginning of a block."""
        self.sequential = claim.n_workers == 1
        if not self.sequential:
            seed = copy.deepcopy(self.begins).randint(MAX_SEED)
            key = [seed, claim.site, claim.epoch, claim.block]
            self.stream = np.random.RandomState(key)
            return
        if self.stream is None or self.n_rows > claim.rows_before:
            self.stream, self.n_rows = copy.deepcopy(self.begins), 0
        self.numbers(claim.rows_before - self.n_rows)  # skip rows that a resumed run has done

    def numbers(self, n_rows: int) -> np.ndarray:
        """Return the initial shares of the next rows as float64 of shape (n_rows, n_topics)."""
        shape = n_rows, self.n_topics
        self.n_rows += n_rows
        return np.ones(shape) if self.stream is None else self.stream.gamma(SHAPE, SIZE, shape)


class Reader:
    """Compute the step of a batch as a gradient, with scratch memory and draws of one worker."""

    def __init__(self, problem: TopicsProblem) -> None:
        self.problem = problem
        self.draws = DocumentDraws(problem)
        self.begin = self.draws.begin
        self.desk = self._desk(0)
        self.of_a_word = np.arange(problem.n_topics)
        self.of_all = np.arange(problem.n_params - problem.n_topics - 1, problem.n_params)
        self._known = 0, 1.0  # a number of steps, and P_t after them

    def __call__(
        self, w: np.ndarray, rows: np.ndarray, out: np.ndarray
    ) -> float | tuple[float, np.ndarray]:
        """Write minus the step of a batch to `out`, and return as `TopicsProblem.gradient` does."""
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
        """Fit a batch; return its number of distinct words, its counts' factor, and its bound."""
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
        """Fit many documents; return their bound, and the expected counts by word and topic.

        gammas : initial shares of all documents, overwritten by the fitted shares
        """
        bound, seen = 0.0, np.zeros((self.problem.n_words, self.problem.n_topics))
        for first in range(rows.start, rows.stop, PASS_ROWS):
            last = min(first + PASS_ROWS, rows.stop)
            part = np.arange(first, last)
            n_ids, of_part = self.fit(u, totals, left, part, gammas[first:last], most)
            seen[self.desk.ids[:n_ids]] += self.desk.seen[:n_ids]
            bound += of_part
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
        """Fit the shares of some documents; return their number of distinct words, and their bound.

        gammas : initial shares of the documents, overwritten by the fitted shares
        most : largest number of passes over a document, or None for the problem's limit
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
        """Return scratch memory for batches with at most `n_words` words."""
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
        """Return the number of steps that a vector includes, and P_t after these steps."""
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
                f"after {n_steps} batches nothing is left of the topics from before the run: "
                "use fewer epochs, then another run from report.model.components, or a larger "
                "learning_decay"
            )
        return n_steps, left


class Stepping(Reader):
    """A reader that takes the step in place."""

    def __call__(self, w: np.ndarray, rows: np.ndarray, eta: float) -> float:  # type: ignore[override]
        """Take the step of a batch in place in `w`; return minus the bound of its documents."""
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

    The objective is minus the lower bound of the log-evidence, per document. A block of documents
    is a batch and makes one step. Pass the number of documents in a block to `solve` as ``block=``
    (default 64), and do not pass ``step=``.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_documents, n_words)
        Count of each word in each document; at least 0. The problem may read X in place, so do not
        change X while the problem is in use. (A CSR matrix of floats without duplicate entries is
        read in place; other inputs are copied.)
    n_topics : int, default=10
    doc_topic_prior, topic_word_prior : float or None, default=None
        Prior of the shares of topics in a document, and prior of the shares of words in a topic. By
        default both are ``1 / n_topics``.
    learning_decay : float, default=0.7
        Exponent (kappa in the paper) of ``rho_t = (learning_offset + t) ** -learning_decay``, which
        is the share of the topics that batch t replaces; t counts from 1. The exponent is above 0
        and at most 1. If it is above 0.5, the steps converge.
    learning_offset : float, default=10.0
        The offset in rho_t, at least 1 (tau_0 in the paper).
    total_samples : float or None, default=None
        Number of documents from which the batches are drawn; by default the number of rows of X.
    mean_change_tol : float, default=1e-3
        The shares of topics in a document are fitted until the mean change of the document's
        variational parameters in a pass is smaller than this number.
    max_doc_update_iter : int, default=100
        Largest number of passes over a document in one fit of its shares.
    components : array-like of shape (n_topics, n_words), default=None
        Initial topics, such as ``report.model.components``; they are copied. By default the initial
        topics are drawn with `random_state`.
    n_batches : int, default=0
        Number of batches that `components` already includes (``report.model.n_batches``).
    random_state : int, RandomState instance or None, default=None
        Source of random numbers for the initial topics and for the initial shares of the documents.
        An int gives the same draws for each call of `topics`. If None, the draws come from NumPy's
        global random state. A RandomState instance is advanced if the initial topics are drawn; the
        problem draws the initial shares from a copy. The initial shares of a block do not depend on
        the worker, and are the same each time that the problem is solved. To continue another run,
        pass ``report.model.random_state``.

    Returns
    -------
    TopicsProblem
        A problem for `solve`. After the run, ``report.model.components`` contains the topics.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, is out of its range, or is NaN.

    Notes
    -----
    Source: Hoffman, Blei and Bach 2010, Algorithm 2. The algorithm is rewritten in a form in which
    the steps add up in any order, and a step changes only the words of its batch; see
    ``docs/guide/topics.md``. With one worker and ``shuffle=False`` the steps equal the steps of
    `sklearn.decomposition.LatentDirichletAllocation`, up to rounding.

    ``plane=Shared(exchange=None)`` suits several workers, because all workers see the step of a
    batch at once. A `Master` with a cutoff drops batches. Averages of iterates are meaningless for
    topics.

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
    """Check documents; return their rows in the form of kernels, and the number of words.

    Raises ValueError if a count is negative, NaN or infinite, or if an index is out of range. The
    returned rows may be views of X.
    """
    from sklearn.utils import check_array
    from sklearn.utils.validation import check_non_negative

    check_sparse(X)
    found = check_array(canonical(X), accept_sparse="csr", dtype=[np.float64, np.float32])
    check_non_negative(found, "problems.topics")
    return as_documents(found), found.shape[1]


def as_documents(X: Any) -> Documents:
    """Return checked rows in the form of kernels; CSR rows are read in place, dense rows copied."""
    rows = sp.csr_array(X)
    return Documents(*(frozen(part) for part in (rows.data, rows.indices, rows.indptr)))
