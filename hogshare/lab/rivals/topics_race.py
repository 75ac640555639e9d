"""The race of topic models, to a relative distance from the best known perplexity.

The words of a held-out document are split in halves at random. The document's shares of topics are
inferred from the first half, and the second half is predicted. The perplexity is
``exp(-mean log p)`` over the second halves, with the topics' means. (scikit-learn's own
`perplexity` is another quantity.) A model is a library's topic-word matrix, float of shape
(n_topics, n_words). The shares are inferred in the same way for all libraries.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from hogshare.lab.rivals.contestant import Contestant, RaceTask, Setting
from hogshare.lab.rivals.discipline import Discipline, Reference, split

LONG = 20  # passes of the reference
COUNTS = (1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20)


@dataclass(frozen=True)
class TopicsTask(RaceTask):
    """The task of a contestant: the number of topics, and the number of documents in a step."""

    n_topics: int
    batch: int

    @property
    def online(self) -> dict[str, Any]:
        """Return the settings of online LDA, with scikit-learn's names."""
        return {
            "n_components": self.n_topics,
            "learning_method": "online",
            "batch_size": self.batch,
        }


def halves(counts: sp.csr_array, seed: int = 0) -> tuple[sp.csr_array, sp.csr_array]:
    """Split the words of documents at random into a known half and a half to predict."""
    first, second = counts.copy(), counts.copy()
    first.data = np.random.default_rng(seed).binomial(counts.data.astype(int), 0.5).astype(float)
    second.data = counts.data - first.data
    for half in (first, second):
        half.eliminate_zeros()
    return first, second


def perplexity(shares: np.ndarray, components: np.ndarray, second: sp.csr_array) -> float:
    """Return the perplexity of the second halves, given the shares of topics."""
    words = components / components.sum(axis=1, keepdims=True)
    pairs = second.tocoo()
    likely = np.einsum("ij,ji->i", shares[pairs.row], words[:, pairs.col])
    return float(np.exp(-(pairs.data @ np.log(likely)) / pairs.data.sum()))


class TopicsRace(Discipline):
    """The discipline of document completion, with topics from four fifths of the documents.

    Parameters
    ----------
    counts : csr_array of shape (n_documents, n_words)
    n_topics, batch : int
    seed : int
        Seed of the held-out documents.
    """

    measure = "a relative distance from the best completion perplexity"

    def __init__(self, counts: Any, n_topics: int, batch: int, seed: int = 0) -> None:
        counts = sp.csr_array(counts, dtype=float)
        train, test = split(counts.shape[0], seed)
        self.X, self.y = counts[train], None
        self.halves = halves(counts[test], seed)
        self.what = f"{n_topics} topics, {batch} documents of a step"
        self.settings = {"topics": n_topics, "batch": batch}
        (rows, columns), nonzeros = self.X.shape, int(self.X.nnz)
        self.facts = {"rows": rows, "columns": columns, "nonzeros": nonzeros, "dtype": "float64"}

    def task(self, workers: int) -> TopicsTask:
        return TopicsTask(workers, self.settings["topics"], self.settings["batch"])

    def judge(self, model: np.ndarray) -> float:
        if not (np.isfinite(model).all() and (model > 0.0).all()):
            return float("inf")
        return perplexity(self._infer(model), model, self.halves[1])

    def _infer(self, components: np.ndarray) -> np.ndarray:
        """Infer the shares of topics from the first halves, by variational inference."""
        from scipy.special import psi
        from sklearn.decomposition import LatentDirichletAllocation

        model = LatentDirichletAllocation(len(components))
        model.components_ = components
        totals = components.sum(axis=1, keepdims=True)
        model.exp_dirichlet_component_ = np.exp(psi(components) - psi(totals))
        model.doc_topic_prior_ = 1.0 / len(components)
        model.n_features_in_ = components.shape[1]
        return np.asarray(model.transform(self.halves[0]))

    def find(self) -> Reference:
        """Compute the reference by many passes of hogshare with one worker."""
        from hogshare.estimators import LatentDirichletAllocation

        began = time.perf_counter()
        settings = {**self.task(1).online, "n_jobs": 1, "random_state": 0}
        model = LatentDirichletAllocation(max_iter=LONG, **settings).fit(self.X)
        value = self.judge(model.components_)
        return Reference(value, None, f"hogshare, {LONG} passes", time.perf_counter() - began)

    def at_start(self) -> float:
        """Return the perplexity of a model with equal probabilities of all words."""
        return self.judge(np.ones((self.settings["topics"], self.X.shape[1])))


class TopicsContestant(Contestant):
    """A contestant that fits word counts of documents by online steps; a budget counts passes."""

    task: TopicsTask

    def ladder(self) -> tuple[int, ...]:
        return COUNTS

    def model(self, fitted: Any) -> np.ndarray:
        return np.asarray(fitted.components_)


class HogshareLDA(TopicsContestant):
    """`hogshare.LatentDirichletAllocation` with its defaults, in threads."""

    name = "hogshare LDA"
    library = "hogshare"
    one_matrix: ClassVar[bool] = False  # whether all workers write one matrix without locks

    def fit(self, prepared: Any, setting: Setting, budget: float, seed: int) -> Any:
        from hogshare.estimators import LatentDirichletAllocation
        from hogshare.planes.shared import Shared

        settings = {**self.task.online, "n_jobs": self.task.workers}
        if self.task.workers > 1:
            settings["runtime"] = "threads"
        if self.one_matrix:
            settings["plane"] = Shared(exchange=None)
        model = LatentDirichletAllocation(max_iter=int(budget), random_state=seed, **settings)
        return model.fit(prepared[0])


class ScikitLDA(TopicsContestant):
    """scikit-learn's online LDA in one process; several would copy each batch between them."""

    name = "sklearn LDA"
    library = "scikit-learn"

    def fit(self, prepared: Any, setting: Setting, budget: float, seed: int) -> Any:
        from sklearn.decomposition import LatentDirichletAllocation

        model = LatentDirichletAllocation(
            max_iter=int(budget), random_state=seed, **self.task.online
        )
        return model.fit(prepared[0])


class GensimLDA(TopicsContestant):
    """gensim's online `LdaModel` on its own corpus, in one process."""

    name = "gensim LDA"
    library = "gensim"

    def prepare(self, X: Any, y: Any) -> Any:
        from gensim.matutils import Sparse2Corpus
        from gensim.models import LdaModel

        corpus = list(Sparse2Corpus(X.tocsc(), documents_columns=False))
        return LdaModel, corpus, {j: str(j) for j in range(X.shape[1])}

    def fit(self, prepared: Any, setting: Setting, budget: float, seed: int) -> Any:
        kind, corpus, words = prepared
        return kind(
            corpus,
            num_topics=self.task.n_topics,
            id2word=words,
            chunksize=self.task.batch,
            passes=int(budget),
            decay=0.7,
            offset=10.0,
            eval_every=None,
            random_state=seed,
        )

    def model(self, fitted: Any) -> np.ndarray:
        return np.asarray(fitted.state.get_lambda(), dtype=np.float64)


CONTESTANTS = (
    HogshareLDA,
    HogshareLDA.called("hogshare exchange=None", one_matrix=True),
    ScikitLDA,
    GensimLDA,
)
