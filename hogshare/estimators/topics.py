"""`LatentDirichletAllocation`: scikit-learn's estimator, fitted on every core."""

from __future__ import annotations

import time
from numbers import Real
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from scipy.special import digamma
from sklearn.decomposition import LatentDirichletAllocation as _LatentDirichletAllocation
from sklearn.utils import gen_even_slices
from sklearn.utils._param_validation import Interval

from hogshare.engine.stops import Stop
from hogshare.estimators.all_rows import all_rows_of
from hogshare.estimators.export import Exporting
from hogshare.estimators.fits import fits
from hogshare.estimators.parameters import BATCH_WORDS
from hogshare.estimators.solver_report import SolverReport, report_of
from hogshare.estimators.workers import constraints_of
from hogshare.kernels.topics.topic_batches import topics_bound
from hogshare.problems.kernel_arrays import canonical
from hogshare.problems.linear.row_arrays import check_sparse
from hogshare.problems.topics import (
    LEAST,
    LEAST_PRIOR,
    SHAPE,
    SIZE,
    Reader,
    TopicsProblem,
    as_documents,
)
from hogshare.report import Report
from hogshare.runtimes.choice import check_jobs
from hogshare.solvers.solver import solve
from hogshare.system.clusters import is_collection

ITERATION_MESSAGE = "iteration: %d of max_iter: %d"  # scikit-learn's message
FORGETS = "learning_decay=0 has each batch replace the topics"
SURE = 1e20 * LEAST  # least share of the start in the topics; overlapping batches leave less
PRIORS = [None, Interval(Real, LEAST_PRIOR, 1, closed="both")]


class LatentDirichletAllocation(Exporting, _LatentDirichletAllocation):
    """Topics of documents by online variational Bayes, on every core.

    A drop-in replacement for `sklearn.decomposition.LatentDirichletAllocation`, and a subclass of
    it. The parameters, defaults and attributes are the same. `plane`, `barrier`, `runtime` and
    `report_` are added. With ``learning_method="online"`` every batch is a step, and workers take
    steps in parallel. The steps of a single worker are scikit-learn's, up to rounding. With "batch"
    scikit-learn's own loop calls compiled passes.

    Parameters
    ----------
    n_components : int, default=10
        Number of topics.

    doc_topic_prior : float or None, default=None
        Prior of document topic distribution theta, above 0. None is ``1 / n_components``.

    topic_word_prior : float or None, default=None
        Prior of topic word distribution beta, above 0. None is ``1 / n_components``.

    learning_method : {"batch", "online"}, default="batch"
        Method of `fit`: "batch" updates the topics once per pass over all documents; "online"
        updates them after each mini-batch. `partial_fit` always uses mini-batches.

    learning_decay : float, default=0.7
        Parameter that controls the learning rate of the online method: mini-batch t replaces the
        share ``(learning_offset + t) ** -learning_decay`` of the topics. It should be in (0.5, 1]
        for convergence. With 0, scikit-learn's loop takes the steps.

    learning_offset : float, default=10.0
        Parameter that downweights early iterations of the online method; at least 1.

    max_iter : int, default=10
        Number of passes over the documents (epochs) in `fit`.

    batch_size : int, default=128
        Number of documents in each step of the online method.

    evaluate_every : int, default=-1
        Number of epochs between two evaluations of the perplexity, after which `fit` may stop. With
        0 or a negative number the perplexity is not evaluated.

    total_samples : float, default=1e6
        Total number of documents. Only used in `partial_fit`.

    perp_tol : float, default=1e-1
        Perplexity tolerance: `fit` stops when the perplexity changes by less than `perp_tol`
        between two evaluations; see `evaluate_every`.

    mean_change_tol : float, default=1e-3
        Stopping tolerance for updating a document's topic distribution: the mean change of its
        parameters.

    max_doc_update_iter : int, default=100
        Maximum number of iterations for updating a document's topic distribution.

    n_jobs : int or None, default=None
        Number of workers that fit the topics, and of threads in `transform`; see
        `LogisticRegression`.

    verbose : int, default=0
        Whether to print progress after each epoch.

    random_state : int, RandomState instance or None, default=None
        Determines the initial topics and document distributions. An int gives the same topics bit
        for bit with one worker. With several workers this holds only if a barrier such as "bsp"
        makes the workers wait.

    plane : {"shared", "master"}, Plane or None, default="shared"
        Where the topics live while several workers fit them. "shared" (and None) is
        ``hogshare.Shared()``, private copies. For very large vocabularies
        ``Shared(exchange=None)`` avoids exchanges: all workers read and write one vector.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Variational parameters for topic word distribution: pseudo-counts of the number of times a
        word was assigned to a topic.

    exp_dirichlet_component_ : ndarray of shape (n_components, n_features)
        Exponential value of expectation of log topic word distribution:
        ``exp(E[log(beta)])``.

    n_batch_iter_ : int
        1 plus the number of steps so far.

    n_iter_ : int
        Number of epochs.

    bound_ : float
        Perplexity of the training documents, as scikit-learn computes it.

    doc_topic_prior_, topic_word_prior_ : float
        The priors.

    random_state_ : RandomState instance
        The generator.

    report_ : Report or SolverReport
        The report of the workers' last run; a `SolverReport` with the reason if scikit-learn's loop
        took the steps.

    See Also
    --------
    hogshare.problems.topics : The problem, for `hogshare.solve`.

    References
    ----------
    Hoffman, Blei and Bach 2010, "Online learning for latent Dirichlet allocation".

    Examples
    --------
    >>> import numpy as np
    >>> from hogshare import LatentDirichletAllocation
    >>> words = np.random.default_rng(0)
    >>> X = np.vstack([words.poisson([4, 4, 0, 0], (50, 4)), words.poisson([0, 0, 4, 4], (50, 4))])
    >>> settings = {"learning_method": "online", "batch_size": 10, "random_state": 0}
    >>> model = LatentDirichletAllocation(2, **settings)
    >>> shares = model.fit_transform(X)
    >>> bool((shares[:50].argmax(axis=1) == shares[0].argmax()).all())
    True
    """

    _parameter_constraints = constraints_of(
        _LatentDirichletAllocation, doc_topic_prior=PRIORS, topic_word_prior=PRIORS
    )
    _words = BATCH_WORDS

    components_: np.ndarray
    n_iter_: int
    n_batch_iter_: int
    report_: Report | SolverReport

    def __init__(
        self,
        n_components: int = 10,
        *,
        doc_topic_prior: float | None = None,
        topic_word_prior: float | None = None,
        learning_method: str = "batch",
        learning_decay: float = 0.7,
        learning_offset: float = 10.0,
        max_iter: int = 10,
        batch_size: int = 128,
        evaluate_every: int = -1,
        total_samples: float = 1e6,
        perp_tol: float = 1e-1,
        mean_change_tol: float = 1e-3,
        max_doc_update_iter: int = 100,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: Any = None,
        plane: Any = "shared",
        barrier: Any = None,
        runtime: str = "auto",
    ) -> None:
        self._store(locals())

    @fits
    def fit(self, X: Any, y: Any = None) -> LatentDirichletAllocation:
        """Learn the topics.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Document word matrix: the count of each word in each document.
        y : None
            Ignored.
        """
        if is_collection(X):
            from hogshare.estimators.partitioned_fits import fit_whole

            fit_whole(self, X, None, with_targets=False)
            return self
        check_jobs(self.n_jobs)
        check_sparse(X)
        rows = self._check_non_neg_array(X, True, whom="LatentDirichletAllocation.fit")
        if reason := self._why_scikit_learn(rows.shape[0]):
            began = time.perf_counter()
            super().fit(X)
            self._report(reason, began)
            return self
        X = rows
        self._init_latent_vars(X.shape[1], dtype=X.dtype)
        self._fit_epochs(X)
        shares, _ = self._e_step(X, cal_sstats=False, random_init=False)
        self.bound_ = self._perplexity_precomp_distr(X, shares)
        return self

    @fits
    def partial_fit(self, X: Any, y: Any = None) -> LatentDirichletAllocation:
        """Update the topics with one pass over some documents, in mini-batches.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Document word matrix: the count of each word in each document.
        y : None
            Ignored.
        """
        check_jobs(self.n_jobs)
        check_sparse(X)
        if self.learning_decay == 0.0:
            began = time.perf_counter()
            super().partial_fit(X)
            self._report(FORGETS, began)
            return self
        first = not hasattr(self, "components_")
        X = self._check_non_neg_array(X, first, "LatentDirichletAllocation.partial_fit")
        if first:
            self._init_latent_vars(X.shape[1], dtype=X.dtype)
        self._run(X, 1, float(self.total_samples))
        return self

    def _check_non_neg_array(self, X: Any, reset_n_features: bool, whom: str) -> Any:
        """Run scikit-learn's check on canonical rows; it would merge repeated entries in place."""
        return super()._check_non_neg_array(canonical(X), reset_n_features, whom)

    # -- runs ------------------------------------------------------------------------------------

    def _why_scikit_learn(self, n_documents: int) -> str:
        """Return the reason why scikit-learn's loop takes the steps; empty if workers take them."""
        if self.learning_method != "online":
            return "learning_method='batch' has one step an epoch"
        if self.max_iter == 0:
            return "max_iter=0 requests no step"
        if self.learning_decay == 0.0:
            return FORGETS
        if self._most_epochs(n_documents, 1) < 1:
            return "a step replaces so much that nothing is left after an epoch"
        return ""

    def _most_epochs(self, n_documents: int, first: int) -> int:
        """Return the largest number of epochs after which the start's share is still representable.

        first : number of the first batch, counted from 1
        """
        n_batches = -(-n_documents // self.batch_size)
        most = self.max_iter * n_batches
        rho = (self.learning_offset + np.arange(first, first + most)) ** -self.learning_decay
        left = np.log1p(-rho).cumsum()
        return int((left > np.log(SURE)).sum()) // n_batches

    def _fit_epochs(self, X: Any) -> None:
        """Run all epochs, with an evaluation of the perplexity between runs; set the attributes."""
        every, last = self.evaluate_every, None
        while True:
            step = 1 if self.verbose else every if every > 0 else self.max_iter
            step = min(step - self.n_iter_ % step, self.max_iter - self.n_iter_)
            step = min(step, max(1, self._most_epochs(X.shape[0], self.n_batch_iter_)))
            self._run(X, step, float(X.shape[0]))
            at, ends = self.n_iter_ + step, False
            if every > 0 and at % every == 0:
                shares, _ = self._e_step(X, cal_sstats=False, random_init=False)
                perplexity = self._perplexity_precomp_distr(X, shares)
                self._say(f"{ITERATION_MESSAGE}, perplexity: %.4f", at, self.max_iter, perplexity)
                ends = bool(last and abs(last - perplexity) < self.perp_tol)
                last = perplexity
            else:
                self._say(ITERATION_MESSAGE, at, self.max_iter)
            self.n_iter_ = at - ends  # scikit-learn does not count the epoch after which it stops
            if ends or at >= self.max_iter:
                return

    def _say(self, text: str, *values: float) -> None:
        if self.verbose:
            print(text % values)  # noqa: T201  # as scikit-learn does

    def _run(self, X: Any, epochs: int, total: float) -> None:
        """Have workers take the batches' steps, and set the fitted attributes.

        total : total number of documents that the steps assume
        """
        self.report_ = report = solve(
            self._problem(X, total),
            plane=self.plane,
            barrier=all_rows_of(self).barrier(self.barrier),
            runtime=self.runtime,
            n_workers=self.n_jobs,
            stop=Stop(epochs=epochs),
            block=self.batch_size,
            shuffle=False,
            seed=0,
            on_epoch=self._on_epoch,
        )
        found = report.model
        self.components_ = found.components.astype(self.components_.dtype, copy=False)
        self.n_batch_iter_ = found.n_batches + 1
        # the generator may be the caller's, which scikit-learn would also advance
        self.random_state_.set_state(found.random_state.get_state())
        self._expect_topics()

    def _problem(self, X: Any, total: float) -> TopicsProblem:
        return TopicsProblem(
            as_documents(X),
            np.asarray(self.components_, dtype=np.float64),
            priors=(float(self.doc_topic_prior_), float(self.topic_word_prior_)),
            law=(float(self.learning_decay), float(self.learning_offset), total),
            n_batches=self.n_batch_iter_ - 1,
            patience=(self.max_doc_update_iter, float(self.mean_change_tol)),
            random_state=self.random_state_,
        )

    def _expect_topics(self) -> None:
        """Set ``exp_dirichlet_component_`` as scikit-learn does after each step."""
        totals = self.components_.sum(axis=1, keepdims=True)
        self.exp_dirichlet_component_ = np.exp(digamma(self.components_) - digamma(totals))

    def _report(self, reason: str, began: float) -> None:
        by = "scikit-learn's loop over compiled passes"
        self.report_ = report_of(self, by, reason, began, solver=self.learning_method)

    # -- passes over documents, in place of scikit-learn's ---------------------------------------

    def _e_step(
        self, X: Any, cal_sstats: bool, random_init: bool, parallel: Any = None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return each document's topic parameters, and the pseudo-counts of words by topic.

        cal_sstats : whether to return the pseudo-counts; if not, None takes their place
        random_init : whether to draw the start from `random_state_`, or to start at ones
        """
        problem = self._problem(X, 1.0)
        shape = X.shape[0], self.n_components
        begin = self.random_state_.gamma(SHAPE, SIZE, shape) if random_init else np.ones(shape)
        _, seen = self._pass(problem, begin, None)
        shares = begin.astype(X.dtype, copy=False)
        return shares, seen.astype(X.dtype, copy=False) if cal_sstats else None

    def _pass(
        self, problem: TopicsProblem, gammas: np.ndarray, most: int | None
    ) -> tuple[float, np.ndarray]:
        """Fit documents' parameters in place, in parallel parts; return the bound and the counts.

        The counts are the pseudo-counts of words by topic.

        gammas : parameters of the documents' topics, which are overwritten
        most : maximum number of iterations; None is the problem's number
        """
        u, totals = problem.parts(problem.start())

        def part(slice_: slice) -> tuple[float, np.ndarray]:
            return Reader(problem).whole(u, totals, 1.0, slice_, gammas, most)

        slices = gen_even_slices(len(gammas), min(effective_n_jobs(self.n_jobs), len(gammas)))
        found = Parallel(n_jobs=self.n_jobs, prefer="threads")(delayed(part)(s) for s in slices)
        seen = sum(seen for _, seen in found)
        return sum(bound for bound, _ in found), np.ascontiguousarray(seen.T)

    def _approx_bound(self, X: Any, doc_topic_distr: np.ndarray, sub_sampling: bool) -> float:
        """Return the lower bound of the evidence, as the method of scikit-learn does.

        doc_topic_distr : parameters of the documents' topics
        """
        problem = self._problem(X, 1.0)
        bound, _ = self._pass(problem, np.array(doc_topic_distr, dtype=np.float64), 0)
        if sub_sampling:
            bound *= float(self.total_samples) / X.shape[0]
        u, totals = problem.parts(problem.start())
        return float(bound + topics_bound(u, totals, problem.word_prior, 1.0, problem.word_prior))
