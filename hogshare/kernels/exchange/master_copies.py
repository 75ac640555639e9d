"""Copies of a master's model at sites outside its memory: listing and writing changed values.

A site's vector is some version of the master's model. The *news* of a site are the coordinates
whose values in the master's model have changed since then. The site's thread writes the news under
the seqlock that readers check (`master_updates.read_once`), together with the counts of the
messages in the new version; the master writes a version in the same way. So a worker reads a state
that the master's model has been in.

Writers: at the master's site, the master's thread writes `reported`. At another site, only the
thread that exchanges messages with the master's site writes the vector, VERSION, WRITES, APPLIED
and T_APPLIED. Nothing is freed in a kernel.
"""

import numpy as np

from hogshare.kernels import layout
from hogshare.kernels.jit.atomics import fence, load, store
from hogshare.kernels.jit.decorators import kernel


@kernel
def list_news(vector, reported, places, values):
    """List the places where the model differs from the last report to a site.

    Return the number of these places. Places beyond the length of `places` are counted but not
    listed. `reported`, `places` and `values` are written.

    reported : float64, the reported coefficients, then the intercepts
    """
    count = 0
    m = vector.w.shape[0]
    for j in range(reported.shape[0]):
        now = np.float64(vector.w[j]) if j < m else vector.intercept[j - m]
        if now != reported[j]:
            reported[j] = now
            if count < places.shape[0]:
                places[count] = j
                values[count] = now
            count += 1
    return count


@kernel
def take_news(schedule, vector, places, values, version, applied, of_workers, first):
    """Write the master's news into a site's vector.

    places : int64, the places of `values`; if empty, `values` are the whole vector
    version : version of the master's model after this change
    applied : APPLIED of the master's model after this change
    of_workers : int64, T_APPLIED of this site's workers, from worker `first` on
    """
    control = schedule.control
    kind = vector.w.dtype.type
    m = vector.w.shape[0]
    store(control, layout.WRITES, load(control, layout.WRITES) + 1)
    fence()  # WRITES is odd before anything changes
    for k in range(values.shape[0]):
        j = places[k] if places.shape[0] > 0 else k
        if j < m:
            vector.w[j] = kind(values[k])
        else:
            vector.intercept[j - m] = values[k]
    for k in range(of_workers.shape[0]):
        store(schedule.table[first + k], layout.T_APPLIED, of_workers[k])
    store(control, layout.APPLIED, applied)
    store(control, layout.VERSION, version)
    # Even again, as the last store: a reader that saw none or all of these stores finds WRITES
    # unchanged.
    store(control, layout.WRITES, load(control, layout.WRITES) + 1)
