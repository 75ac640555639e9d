"""
The time of a fit, against scikit-learn
=======================================

Logistic regression on rows that look like text, with one changed import: the same parameters and
the same objective, on all cores. The times are those of the machine that built this page.
"""

import time
import warnings

import matplotlib.pyplot as plt
from sklearn import linear_model
from sklearn.exceptions import ConvergenceWarning

import hogshare
from hogshare import datasets

X, y = datasets.zipf_classification(n_samples=8_000, n_features=20_000, seed=0)
hogshare.LogisticRegression(n_jobs=-1).fit(X, y)  # the first fit compiles, and is not measured


def seconds(estimator, n_rows):
    """The quickest of three fits, since other programs may take a core."""
    taken = []
    for _ in range(3):
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # scikit-learn's default is short
            estimator.fit(X[:n_rows], y[:n_rows])
        taken.append(time.perf_counter() - began)
    return min(taken)


counts = [1_000, 2_000, 4_000, 8_000]
contestants = {
    "scikit-learn": linear_model.LogisticRegression(),
    "hogshare, one worker": hogshare.LogisticRegression(),
    "hogshare, all cores": hogshare.LogisticRegression(n_jobs=-1),
}

# %%
# Both axes are logarithmic: a curve that lies lower by one line is ten times as fast.

fig, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
for name, estimator in contestants.items():
    ax.loglog(counts, [seconds(estimator, n) for n in counts], "o-", label=name)
ax.set(xlabel="rows", ylabel="seconds of a fit")
ax.set_xticks(counts, [f"{n:,}" for n in counts])
ax.minorticks_off()
ax.grid(alpha=0.3)
fig.legend(loc="outside right upper")
plt.show()
