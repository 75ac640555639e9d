"""
Are the probabilities right?
============================

Of the rows to which a model gives a probability of 0.8, four in five should be of that class: a
curve on the diagonal. Each point is a tenth of the test rows. ``loss="modified_huber"`` predicts 0
and 1 too often; scikit-learn's ``CalibratedClassifierCV`` corrects it, and gives probabilities to a
support vector machine, which has none.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import CalibratedClassifierCV, calibration_curve
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split

from hogshare import LogisticRegression, SGDClassifier

X, y = make_classification(20_000, 20, n_informative=6, flip_y=0.1, class_sep=0.7, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X.astype(np.float32), y, random_state=0)

huber = SGDClassifier(loss="modified_huber", random_state=0)
hinge = SGDClassifier(loss="hinge", learning_rate="auto", random_state=0)
models = {
    "LogisticRegression": LogisticRegression(),
    "SGD, modified Huber": huber,
    "the same, calibrated": CalibratedClassifierCV(huber, method="isotonic", cv=3),
    "SGD, hinge, calibrated": CalibratedClassifierCV(hinge, method="isotonic", cv=3),
}

fig, ax = plt.subplots(figsize=(7.5, 4), layout="constrained")
ax.plot([0, 1], [0, 1], "--", color="gray", label="right")
for name, model in models.items():
    model.fit(X_train, y_train)
    right, said = calibration_curve(
        y_test, model.predict_proba(X_test)[:, 1], n_bins=10, strategy="quantile"
    )
    ax.plot(said, right, "o-", ms=4, label=name)
ax.set(xlabel="probability that the model gives", ylabel="share that is of the class")
fig.legend(loc="outside right upper")
plt.show()
