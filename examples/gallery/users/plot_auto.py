"""
No step size to tune
====================

SGD with a given step size, against ``learning_rate="auto"``. Each point is a fit of ten epochs: the
distance of its objective from the optimum. Finding the best step size takes many trials; "auto" is
nearer to the optimum without any.
"""

import matplotlib.pyplot as plt
import numpy as np

from hogshare import LogisticRegression, SGDClassifier, datasets

X, y = datasets.zipf_classification(n_samples=8_000, n_features=5_000, dtype="float64", seed=0)
alpha = 1e-5
signs = np.where(y == np.unique(y)[1], 1.0, -1.0)


def objective(model):
    margins = signs * model.decision_function(X)
    return np.logaddexp(0, -margins).mean() + alpha / 2 * np.square(model.coef_).sum()


best = objective(LogisticRegression(C=1 / (alpha * len(y)), tol=1e-8, max_iter=1_000).fit(X, y))
run = {"loss": "log_loss", "alpha": alpha, "max_iter": 10, "tol": None, "random_state": 0}
steps = np.logspace(-3, 2, 11)
gaps = {
    schedule: [
        objective(SGDClassifier(learning_rate=schedule, eta0=step, **run).fit(X, y)) / best - 1
        for step in steps
    ]
    for schedule in ("constant", "invscaling")
}
auto = objective(SGDClassifier(learning_rate="auto", **run).fit(X, y)) / best - 1

# %%
# Both axes are logarithmic.

fig, ax = plt.subplots(figsize=(7.5, 3.5), layout="constrained")
for schedule, gap in gaps.items():
    ax.loglog(steps, gap, "o-", label=f'"{schedule}"')
ax.axhline(auto, color="black", linestyle="--", label='"auto"')
ax.set(xlabel="eta0", ylabel="above the optimum, relative")
fig.legend(loc="outside right upper", title="learning_rate")
plt.show()
