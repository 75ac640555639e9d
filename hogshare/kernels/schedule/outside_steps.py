"""Kernels for steps that are taken outside of kernels, between two quanta.

Writers: every worker writes the vector, by atomic adds.
"""

from hogshare.kernels.exchange.master_updates import proposals
from hogshare.kernels.jit.atomics import add_float
from hogshare.kernels.jit.decorators import kernel


@kernel
def subtract(w, places, step):
    """Subtract a step from the one vector by atomic adds, so no add is lost.

    places : int64, the places of `w` from which `step` is subtracted, entry by entry; if empty,
        all places
    """
    kind = w.dtype.type
    if places.shape[0] == 0:
        for j in range(w.shape[0]):
            if step[j] != 0.0:
                add_float(w, j, kind(-step[j]))
    else:
        for k in range(places.shape[0]):
            add_float(w, places[k], kind(-step[k]))


@kernel
def count_proposals(plan, schedule, mail, me):
    """Return `master_updates.proposals` for a message that is written outside of kernels."""
    return proposals(plan, schedule, mail, me)
