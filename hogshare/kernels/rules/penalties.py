"""Penalties as integer codes, and the lazy l1 penalty on one row's support.

The l2 part is a scale factor on the whole vector. The l1 part is the cumulative penalty of
Tsuruoka, Tsujii and Ananiadou (2009): every feature stores the amount of the penalty that it has
received, and receives the missing amount when a row contains the feature. So a sparse row takes
time only for its nonzeros.
"""

import numpy as np

from hogshare.kernels.jit.decorators import inlined
from hogshare.kernels.rows.row_views import column_of

NONE = 0
L1 = 1
L2 = 2
ELASTICNET = 3

CODES = {None: NONE, "none": NONE, "l1": L1, "l2": L2, "elasticnet": ELASTICNET}


def code_of(penalty: str | None, l1_ratio: float) -> int:
    """Return the code of a penalty, given its name and its share of l1.

    An elastic net with only one part has the code of that part, so without l1 no array of received
    l1 penalties exists.
    """
    if penalty == "elasticnet":
        return {0.0: L2, 1.0: L1}.get(float(l1_ratio), ELASTICNET)
    return CODES[penalty]


@inlined
def clip_coordinate(w, received, j, scale, inverse, due):
    """Apply the missing part of the cumulative penalty `due` to coordinate `j`.

    A coordinate above zero is lowered, but not below zero; a coordinate below zero is raised, but
    not above zero. A zero stays zero, as in scikit-learn.

    w, received : a worker's own arrays (`sgd_steps.Private`), so stores are plain. `received` is
        the signed sum of the clips so far, in units of the model ``scale * w``.
    inverse : 1 / `scale`
    """
    kind = w.dtype.type
    before = np.float64(w[j])
    # No branch on the sign, which is hard to predict: `owed` is between plus and minus `due`, so
    # one of the two parts is zero.
    owed = np.float64(received[j])
    lowered = max(0.0, before - max(0.0, due + owed) * inverse)
    raised = min(0.0, before + max(0.0, due - owed) * inverse)
    after = kind(lowered + raised)
    w[j] = after
    received[j] += kind(scale * (np.float64(after) - before))


@inlined
def clip_l1(rows, start, end, w, received, scale, due):
    """Apply the missing part of the cumulative penalty `due[c]` to the support of one row.

    received : array like w, the penalty that each coordinate has received so far; updated like `w`
    scale : float64[n_columns], the model is ``scale * w``
    due : float64[n_columns], the penalty that each coordinate should have received
    """
    n_columns = np.uint64(due.shape[0])
    for c in range(n_columns):
        inverse = 1.0 / scale[c]
        for k in range(start, end):
            j = column_of(rows, start, k) * n_columns + c
            clip_coordinate(w, received, j, scale[c], inverse, due[c])
