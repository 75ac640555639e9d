"""
Recommendations: how strong a penalty
=====================================

The quality of predictions for held-out ratings, by the strength of the penalty, with little noise
and with much. The penalty that suits one is wrong for the other. ``alpha="auto"``, the default,
finds either.
"""

import matplotlib.pyplot as plt
import numpy as np

from hogshare import MatrixFactorization, datasets
from hogshare.metrics import leave_k_out

alphas = np.logspace(-1, 1.5, 11)
fig, ax = plt.subplots(figsize=(7.5, 3.5), layout="constrained")
for noise, color in ((0.3, "C0"), (1.0, "C1")):
    users, items, ratings = datasets.known_rank(50_000, 1_000, 400, rank=3, noise=noise)
    train, test = leave_k_out(users, k=5, random_state=0)

    def fitted(alpha, train=train, rows=(users, items, ratings)):
        model = MatrixFactorization(10, alpha=alpha, random_state=0)
        return model.fit(*(part[train] for part in rows))

    def score(model, test=test, rows=(users, items, ratings)):
        return model.score(*(part[test] for part in rows))

    scores = [score(fitted(alpha)) for alpha in alphas]
    ax.semilogx(alphas, scores, "o-", color=color, label=f"noise {noise}")
    auto = fitted("auto")
    ax.plot(
        auto.alpha_,
        score(auto),
        "*",
        ms=16,
        color=color,
        mec="black",
        label=f'"auto", noise {noise}',
    )
ax.set(xlabel="alpha", ylabel="R squared of new ratings", ylim=(0, 1))
fig.legend(loc="outside right upper")
plt.show()
