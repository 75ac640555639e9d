"""
The loss curve of a network
===========================

``MLPClassifier`` leaves ``loss_curve_``, the mean loss of each epoch. A curve that falls steadily
and flattens is good; a curve that jumps needs a smaller ``learning_rate_init``, and one that falls
slowly a larger.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from hogshare import MLPClassifier

X, y = load_digits(return_X_y=True)
X = (X / 16).astype(np.float32)

fig, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
for rate in (0.0001, 0.001, 0.01, 0.1):
    model = MLPClassifier((64,), learning_rate_init=rate, max_iter=40, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # forty epochs, and no more
        model.fit(X, y)
    ax.semilogy(np.arange(len(model.loss_curve_)) + 1, model.loss_curve_, label=f"{rate:g}")
ax.set(xlabel="epoch", ylabel="mean loss")
fig.legend(loc="outside right upper", title="learning_rate_init")
plt.show()
