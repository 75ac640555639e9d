"""
Early stopping
==============

With ``early_stopping=True`` a tenth of the rows is held out, and the fit ends when the score on
those has not risen for ``n_iter_no_change`` epochs. The loss of the other rows still falls: it does
not show when to stop. The fit returns the network of the best epoch.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification

from hogshare import MLPClassifier

X, y = make_classification(3_000, 40, n_informative=8, flip_y=0.15, random_state=0)
model = MLPClassifier(
    (100,),
    alpha=0.0,
    learning_rate_init=0.003,
    early_stopping=True,
    n_iter_no_change=10,
    random_state=0,
).fit(X.astype(np.float32), y)

epochs = np.arange(model.n_iter_) + 1
best = int(np.argmax(model.validation_scores_))
fig, (above, below) = plt.subplots(2, sharex=True, figsize=(7, 4.5), layout="constrained")
above.plot(epochs, model.loss_curve_)
above.set(ylabel="loss of the rows\nthat are fitted")
below.plot(epochs, model.validation_scores_)
below.plot(epochs[best], model.validation_scores_[best], "o", label="best epoch: what is returned")
below.set(xlabel="epoch", ylabel="accuracy on the\nrows held out")
fig.legend(loc="outside upper right")
plt.show()
