"""
Streams of rows
===============

``partial_fit`` takes a batch and forgets it, so rows need not fit in memory. Each batch is
predicted before the model has learnt from it: the curve is the accuracy on new rows. After half of
the batches labels are drawn by another rule, and the model follows.
"""

import matplotlib.pyplot as plt
import numpy as np

from hogshare import SGDClassifier

draws = np.random.default_rng(0)
rules = draws.standard_normal((2, 50)).astype(np.float32)


def batches():
    """What a queue or a database would deliver."""
    for number in range(200):
        rows = draws.standard_normal((500, 50), dtype=np.float32)
        yield rows, rows @ rules[number // 100] + draws.standard_normal(500) > 0


models = {
    "steps that fall": SGDClassifier(loss="log_loss", random_state=0),
    "steps that stay": SGDClassifier(
        loss="log_loss", learning_rate="constant", eta0=0.01, random_state=0
    ),
}
scores = {name: [] for name in models}
for rows, labels in batches():
    for name, model in models.items():
        if hasattr(model, "coef_"):
            scores[name].append(model.score(rows, labels))
        model.partial_fit(rows, labels, classes=[False, True])

# %%
# To follow changing data, a model needs steps that do not fall. The curves are means of ten
# batches.

fig, ax = plt.subplots(figsize=(7.5, 3.5), layout="constrained")
for name, values in scores.items():
    smooth = np.convolve(values, np.full(10, 0.1), mode="valid")
    ax.plot(500 * (np.arange(len(smooth)) + 10), smooth, label=name)
ax.axvline(50_000, color="gray", linestyle="--", label="another rule")
ax.set(xlabel="rows so far", ylabel="accuracy on the next rows")
fig.legend(loc="outside right upper")
plt.show()
