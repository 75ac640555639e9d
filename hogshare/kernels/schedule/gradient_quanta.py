"""Quanta whose blocks' steps are taken outside: by a gradient of the user's, between two calls.

As `hogshare.kernels.schedule.quanta` in all but that, whose factories make them. A quantum claims a
block, pulls for it, and answers QUANTUM_STEP. Who has called takes the step where the plane wants
it (`hogshare.engine.gradient_steps`) and calls again: that quantum pushes and counts the block, and
claims the next if `n_blocks` is not 0. So a block is one call of a kernel and one of the gradient.

Who writes: T_STEP, the worker alone, 1 from the claim of a block to its end. All else as `turns`.
"""

from hogshare.kernels.exchange.master_updates import proposals
from hogshare.kernels.jit.atomics import add_float
from hogshare.kernels.jit.decorators import kernel
from hogshare.kernels.rules.sgd_steps import GRADIENT
from hogshare.kernels.schedule.epoch_schedule import ALONE, EXCHANGE, LOCK_FREE, MASTER
from hogshare.kernels.schedule.quanta import master_quantum_of, quantum_of
from hogshare.kernels.schedule.stale_blocks import stale_quantum_of


@kernel
def subtract(w, places, step):
    """Subtract a step from the one vector by atomic adds, of which none is lost.

    places : int64, of `step` and of `w`; empty: all
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
    """`master_updates.proposals`, for who writes a message outside of kernels."""
    return proposals(plan, schedule, mail, me)


def block_quantum_of(name, lock_free, ordered=False):
    """Make the kernel of a quantum on the shared vector, or on a private copy of it."""
    return quantum_of(name, GRADIENT, lock_free, ordered, outside=True)


stale_block_quantum = stale_quantum_of("apart_block_turn", outside=True)
# By Plan.private and Plan.ordered.
_private = block_quantum_of("block_turn", False)
_round = block_quantum_of("block_round", False, ordered=True)
BLOCK_QUANTA = {
    (EXCHANGE, 0): _private,
    (ALONE, 0): _private,
    (EXCHANGE, 1): _round,
    (ALONE, 1): _round,
    (LOCK_FREE, 0): block_quantum_of("block_lock_free_turn", True),
    (LOCK_FREE, 1): block_quantum_of("block_lock_free_round", True, ordered=True),
    (MASTER, 0): master_quantum_of("block_master_turn", False, outside=True),
    (MASTER, 1): master_quantum_of("block_master_round", True, outside=True),
}
