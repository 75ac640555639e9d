"""The race of topic models: to a relative distance from the best perplexity known.

Of each word of a held-out document one half, by a coin, tells the document's shares of topics, and
the other is to be foreseen: perplexity is ``exp(-mean log p)`` over those, with the topics' means.
(scikit-learn's own `perplexity` is another quantity.) A model is what each library's topic-word
matrix is, float [n_topics, n_words]; everybody's shares are inferred in the same way.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from hogshare.lab.rivals.contestant import Contestant, Task
from hogshare.lab.rivals.discipline import Reference, above

HELD_OUT = 5  # one document of so many
LONG = 20  # passes, whose perplexity is taken for the best
COUNTS = (1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20)


def halves(counts: sp.csr_array, seed: int = 0) -> tuple[sp.csr_array, sp.csr_array]:
    """Documents to complete: what is told of them, and the rest."""
    first, second = counts.copy(), counts.copy()
    first.data = np.random.default_rng(seed).binomial(counts.data.astype(int), 0.5).astype(float)
    second.data = counts.data - first.data
    for half in (first, second):
        half.eliminate_zeros()
    return first, second


def perplexity(shares: np.ndarray, components: np.ndarray, second: sp.csr_array) -> float:
    """Of the second halves, by the shares that the first have told."""
    words = components / components.sum(axis=1, keepdims=True)
    pairs = second.tocoo()
    likely = np.einsum("ij,ji->i", shares[pairs.row], words[:, pairs.col])
    return float(np.exp(-(pairs.data @ np.log(likely)) / pairs.data.sum()))


@dataclass(frozen=True)
class TopicsTask(Task):
    """Topics, and documents of a step."""

    n_topics: int
    batch: int

    @property
    def online(self) -> dict[str, Any]:
        """The settings of online LDA by scikit-learn's names."""
        return {
            "n_components": self.n_topics,
            "learning_method": "online",
            "batch_size": self.batch,
        }


class TopicsContestant(Contestant):
    """Who fits counts of words in documents by online steps; a budget counts passes."""

    task: TopicsTask

    def ladder(self) -> tuple[int, ...]:
        return COUNTS

    def model(self, fitted: Any) -> np.ndarray:
        return np.asarray(fitted.components_)


class TopicsRace:
    """Document completion, by the topics of four fifths of the documents.

    Parameters
    ----------
    counts : csr_array of shape (n_documents, n_words)
    n_topics, batch : int
    seed : int
        Of the documents that are held out.
    """

    measure: ClassVar[str] = "a relative distance from the best completion perplexity"

    def __init__(self, counts: Any, n_topics: int, batch: int, seed: int = 0) -> None:
        counts = sp.csr_array(counts, dtype=float)
        order = np.random.default_rng(seed).permutation(counts.shape[0])
        self.X, self.y = counts[np.sort(np.delete(order, slice(0, None, HELD_OUT)))], None
        self.halves = halves(counts[np.sort(order[::HELD_OUT])], seed)
        self._task = TopicsTask(1, n_topics, batch)
        self.what = f"{n_topics} topics, {batch} documents of a step"

    def task(self, workers: int) -> TopicsTask:
        """Topics and documents of a step."""
        return TopicsTask(workers, self._task.n_topics, self._task.batch)

    def judge(self, model: np.ndarray) -> float:
        """Completion perplexity."""
        if not (np.isfinite(model).all() and (model > 0.0).all()):
            return float("inf")
        return perplexity(self._infer(model), model, self.halves[1])

    def _infer(self, components: np.ndarray) -> np.ndarray:
        """Shares of topics, by variational inference of what is told of the documents."""
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
        """Many passes of ours, with one worker."""
        from hogshare.estimators import LatentDirichletAllocation

        began = time.perf_counter()
        settings = {**self._task.online, "n_jobs": 1, "random_state": 0}
        model = LatentDirichletAllocation(max_iter=LONG, **settings).fit(self.X)
        value = self.judge(model.components_)
        return Reference(value, None, f"hogshare, {LONG} passes", time.perf_counter() - began)

    def distance(self, value: float, lowest: float) -> float:
        """Relative."""
        return above(value, lowest)

    def settings(self) -> dict[str, Any]:
        """Topics and documents of a step."""
        return {"topics": self._task.n_topics, "batch": self._task.batch}

    def facts(self) -> dict[str, Any]:
        """Sizes."""
        shape, nonzeros = self.X.shape, int(self.X.nnz)
        sizes = {"rows": shape[0], "columns": shape[1], "nonzeros": nonzeros}
        return {**sizes, "dtype": str(self.X.dtype)}

    def at_start(self) -> float:
        """Of all words alike."""
        n_words = self.X.shape[1]
        return self.judge(np.ones((self._task.n_topics, n_words)))
