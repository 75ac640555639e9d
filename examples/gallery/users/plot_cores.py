"""
All cores: time by workers
==========================

One model with ``n_jobs=1, 2, ...``, up to the cores of the machine that built this page.
``n_jobs`` is a ceiling: a fit starts as many workers as pay, fewer on a busy machine.
"""

import os
import time

import matplotlib.pyplot as plt
import numpy as np

from hogshare import LatentDirichletAllocation, MatrixFactorization, SGDClassifier, datasets

X, y = datasets.load("zipf-small", dtype="float32")
draws = np.random.default_rng(0)
topics = draws.dirichlet(np.full(1_000, 0.05), size=10)
documents = draws.poisson(80 * draws.dirichlet(np.full(10, 0.2), size=2_000) @ topics)
ratings = datasets.known_rank(300_000, n_users=5_000, n_items=2_000, rank=8, seed=0)

fixed = {"random_state": 0}
fits = {
    "SGDClassifier, sparse rows": lambda n: SGDClassifier(
        loss="log_loss", max_iter=10, tol=None, n_jobs=n, **fixed
    ).fit(X, y),
    "LatentDirichletAllocation, documents": lambda n: LatentDirichletAllocation(
        10, learning_method="online", max_iter=2, n_jobs=n, **fixed
    ).fit(documents),
    "MatrixFactorization, ratings": lambda n: MatrixFactorization(
        16, alpha=2.0, max_iter=10, n_jobs=n, **fixed
    ).fit(*ratings),
}


def seconds(fit, n_workers):
    """The quickest of five, since other programs may take a core."""
    taken = []
    for _ in range(5):
        began = time.perf_counter()
        fit(n_workers)
        taken.append(time.perf_counter() - began)
    return min(taken)


# %%
# Seconds of one worker are 100 %. The dashed line is the ideal speedup by cores.

cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
workers = [n for n in (1, 2, 4, 8, 16) if n <= cores]
fig, ax = plt.subplots(figsize=(8.5, 3.5), layout="constrained")
for name, fit in fits.items():
    fit(1)  # compiles, where nothing is cached yet
    taken = np.array([seconds(fit, n) for n in workers])
    ax.plot(workers, 100 * taken / taken[0], "o-", label=name)
ax.plot(workers, 100 / np.array(workers), "--", color="gray", label="linear")
ax.set(xlabel="workers", ylabel="time of a fit (%)", xticks=workers, ylim=(0, None))
fig.legend(loc="outside right upper")
plt.show()
