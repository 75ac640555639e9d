"""Topics: seconds and document-completion perplexity, against scikit-learn's online LDA.

20 newsgroups (by date), 20 topics, the words ranked 101 to 5,100 by their frequency in the training
documents, online steps of 128 documents. A random half of each test document's words determines its
shares of topics, and the other half is predicted: perplexity is ``exp(-mean log p)`` over the
latter, with the topics' means. (scikit-learn's own `perplexity` is another quantity.) Alternating
contestants, medians of the rounds; seconds are those of `fit`. Goal: at least 2 times faster than
scikit-learn to the perplexity that it has after as many passes. `seconds to it` is the minimum over
hogshare's numbers of passes whose perplexity is at most that (to a thousandth). Results are written
after each round. Usage::

    HOGSHARE_DATA=FOLDER python bench/topics.py --json bench/results/topics.json
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import script
from sklearn.decomposition import LatentDirichletAllocation as Theirs

from hogshare import LatentDirichletAllocation, Shared

TOPICS, BATCH = 20, 128
FIRST, LAST = 100, 5100  # ranks of the words
MORE = 1  # passes of ours too, where as many are not quite as good
ONLINE = {"learning_method": "online", "batch_size": BATCH, "random_state": 0}
NEAR = 1.001  # as good: one worker's steps are scikit-learn's to rounding
SCIKIT = "scikit-learn"
OURS: dict[str, dict[str, Any]] = {
    "one worker": {"n_jobs": 1},
    "two threads, copies": {"n_jobs": 2, "runtime": "threads"},
    "two threads, one vector": {
        "n_jobs": 2,
        "runtime": "threads",
        "plane": Shared(exchange=None),
    },
}


def counts(folder: Path, name: str) -> sp.csr_array:
    """Words of documents."""
    with np.load(folder / f"20news_{name}_counts.npz", allow_pickle=False) as parts:
        arrays = parts["data"].astype(float), parts["indices"].astype(np.int32), parts["indptr"]
        return sp.csr_array(arrays, shape=tuple(parts["shape"]))


def documents(folder: Path) -> tuple[sp.csr_array, sp.csr_array, sp.csr_array]:
    """Those to learn from, and the two halves of those to complete."""
    train, test = counts(folder, "train"), counts(folder, "test")
    kept = np.argsort(-train.sum(axis=0), kind="stable")[FIRST:LAST]
    train, test = train[:, kept], test[:, kept]
    first, second = test.copy(), test.copy()
    first.data = np.random.default_rng(0).binomial(test.data.astype(int), 0.5).astype(float)
    second.data -= first.data
    for half in (first, second):
        half.eliminate_zeros()
    return train, first, second


def perplexity(model: Any, first: sp.csr_array, second: sp.csr_array) -> float:
    """Of the second halves, by the first."""
    shares = model.transform(first)
    words = model.components_ / model.components_.sum(axis=1, keepdims=True)
    pairs = second.tocoo()
    likely = np.einsum("ij,ji->i", shares[pairs.row], words[:, pairs.col])
    return float(np.exp(-(pairs.data @ np.log(likely)) / pairs.data.sum()))


def measured(folder: Path, passes_of: Sequence[int], rounds: int) -> Iterator[list[dict[str, Any]]]:
    """Seconds and perplexity of everybody, in turn: what there is after each round."""
    train, *halves = documents(folder)
    taken: dict[tuple[str, int], list[tuple[float, float]]] = {}

    def note(who: str, passes: int, kind: Callable[..., Any], settings: dict[str, Any]) -> None:
        model = kind(TOPICS, max_iter=passes, **ONLINE, **settings)
        seconds = script.seconds(lambda: model.fit(train))
        taken.setdefault((who, passes), []).append((seconds, perplexity(model, *halves)))
        print(f"{who:24} {passes:3} {seconds:7.2f} {taken[who, passes][-1][1]:8.1f}", flush=True)

    for settings in OURS.values():  # kernels and threads are there
        LatentDirichletAllocation(TOPICS, max_iter=1, **ONLINE, **settings).fit(train[:1000])
    for _ in range(rounds):
        for passes in passes_of:
            note(SCIKIT, passes, Theirs, {})
        for who, settings in OURS.items():
            for passes in sorted({one + more for one in passes_of for more in (0, MORE)}):
                note(who, passes, LatentDirichletAllocation, settings)
        yield summed(taken)


def summed(taken: dict[tuple[str, int], list[tuple[float, float]]]) -> list[dict[str, Any]]:
    """Medians, and how long it took to be as good as scikit-learn."""
    median = {
        cell: tuple(map(statistics.median, zip(*runs, strict=True))) for cell, runs in taken.items()
    }
    table: list[dict[str, Any]] = []
    for (who, passes), (seconds, found) in median.items():
        cell = {"who": who, "passes": passes, "seconds": seconds, "perplexity": found}
        if (SCIKIT, passes) in median and who != SCIKIT:
            their_seconds, asked = median[SCIKIT, passes]
            enough = [s for (w, _), (s, p) in median.items() if w == who and p <= asked * NEAR]
            cell["seconds to it"] = min(enough, default=None)
            cell["times faster"] = their_seconds / min(enough) if enough else None
        table.append(cell)
    return table


def measure(options: Any) -> Iterator[dict[str, Any]]:
    """What there is after each round."""
    table: list[dict[str, Any]] = []
    folder = Path(options.data_home or os.environ["HOGSHARE_DATA"])
    for done, table in enumerate(measured(folder, options.passes, options.rounds), start=1):
        yield {"rounds": done, "topics": TOPICS, "batch": BATCH, "results": table}
    script.show(table, "seconds and perplexity")


if __name__ == "__main__":
    script.run(__doc__, measure, script.HOME, rounds=3, passes=(3, 10))
