"""gensim's online LDA."""

from __future__ import annotations

from typing import Any

import numpy as np

from hogshare.lab.rivals.contestant import Setting
from hogshare.lab.rivals.topics.discipline import TopicsContestant


class GensimLDA(TopicsContestant):
    """`LdaModel`, from its own corpus; in one process."""

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
