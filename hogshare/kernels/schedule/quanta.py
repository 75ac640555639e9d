"""Many blocks in one call: the compiled form of the worker's loop.

A call of a kernel from Python costs microseconds and takes the interpreter's lock, and an epoch of
a small data set takes a millisecond. So a worker calls a kernel once for a *quantum*. The kernel
claims, computes and pushes up to `n_blocks` blocks without Python, and polls the stop word at every
block. The loop in Python (`hogshare.engine.loop`) is the same loop with quanta as its computing
step.

One factory makes all quanta. It has three bodies, because a block ends at different places: (1) in
its own quantum, after its push (`shared_quanta`); (2) in a later quantum, after the master has
taken its message (`master_quanta`); (3) after many quanta, each of which reads or writes a part
(`stale_quanta`). In a single body every second line would be a branch between these. The bodies
share their steps (`block_claims`, `run_membership`, `ordered_rounds`).

The factory's arguments are constants of the kernel. Numba removes a branch on a constant before it
infers types, so a fit compiles the row loops of its own rule and no others.

With `OUTSIDE` a quantum claims a block, pulls for it, and answers QUANTUM_STEP. The caller takes
the step at the place that the plane requires (`hogshare.engine.gradient_steps`) and calls the
kernel again. The second call pushes and counts the block, and claims the next block if `n_blocks`
is not 0. So each block takes one call of a kernel and one call of the gradient.
"""

from typing import Any, NamedTuple

from hogshare.kernels.jit.decorators import kernel
from hogshare.kernels.rules.sgd_steps import DUAL, GRADIENT, SAGA
from hogshare.kernels.schedule.epoch_schedule import ALONE, EXCHANGE, LOCK_FREE, MASTER
from hogshare.kernels.schedule.master_quanta import master_quantum
from hogshare.kernels.schedule.shared_quanta import shared_quantum
from hogshare.kernels.schedule.stale_quanta import stale_quantum

# where a block's step is taken: (ROWS) on its rows; (COPY) on a private copy of the master's
# snapshot, with a scale; (OUTSIDE) outside of kernels, between two calls; (CELLS) on the ratings of
# a cell
ROWS, COPY, OUTSIDE, CELLS = range(4)


class QuantumKind(NamedTuple):
    """The properties in which quanta differ.

    method : code of the rule, see `sgd_steps.RuleNumbers.method`
    plane : code of the plane, see `EpochPlan.private`
    ordered : whether workers fold and claim in order, see `ordered_rounds`
    single : whether the model has one column; see `sgd_steps.sgd_rows`
    step : where a block's step is taken: ROWS, COPY, OUTSIDE or CELLS
    virtual : whether a block is read and written in parts, on a virtual clock; see `stale_quanta`
    """

    method: int = GRADIENT
    plane: int = EXCHANGE
    ordered: bool = False
    single: bool = False
    step: int = ROWS
    virtual: bool = False


def quantum_of(name: str, kind: QuantumKind) -> Any:
    """Make the kernel of a quantum, called `name` in the cache folder, profiles and tracebacks."""
    outside = kind.step == OUTSIDE
    if kind.virtual:
        body = stale_quantum(outside)
    elif kind.plane == MASTER:
        body = master_quantum(kind.ordered, kind.step == COPY, kind.single, outside)
    else:
        lock_free, cells = kind.plane == LOCK_FREE, kind.step == CELLS
        body = shared_quantum(kind.method, lock_free, kind.ordered, kind.single, outside, cells)
    body.__name__ = body.__qualname__ = name
    return kernel(body)


# Ordered quanta are separate kernels: few runs need them, and they would double the code that a
# first fit compiles. Quanta for one column are separate kernels if they are faster; for the dual
# rule they were not.
QUANTA: dict[QuantumKind, Any] = {}


def _tabulate(name: str, kind: QuantumKind, **others: tuple[Any, ...]) -> None:
    """Enter a kernel for its kind, and for kinds that differ only in fields that it ignores."""
    kinds = [kind]
    for field, values in others.items():
        kinds = [one._replace(**{field: value}) for one in kinds for value in values]
    QUANTA.update(dict.fromkeys(kinds, quantum_of(name, kind)))


_COPIES, _COLUMNS = (EXCHANGE, ALONE), (True, False)
for _name, _method in (("sgd", GRADIENT), ("saga", SAGA)):
    _kind = QuantumKind(_method)
    _tabulate(f"{_name}_quantum", _kind._replace(single=True), plane=_COPIES)
    _tabulate(f"{_name}_columns_quantum", _kind, plane=_COPIES)
_tabulate("dual_quantum", QuantumKind(DUAL), plane=_COPIES, single=_COLUMNS)
for _name, _method in (("sgd", GRADIENT), ("dual", DUAL), ("saga", SAGA)):
    _kind = QuantumKind(_method, ordered=True)
    _tabulate(f"{_name}_round", _kind, plane=_COPIES, single=_COLUMNS)
_tabulate("hogwild_quantum", QuantumKind(GRADIENT, LOCK_FREE), single=_COLUMNS)
_tabulate("asaga_quantum", QuantumKind(SAGA, LOCK_FREE), single=_COLUMNS)
_tabulate("stale_quantum", QuantumKind(GRADIENT, LOCK_FREE, virtual=True), single=_COLUMNS)
for _ordered, _name in ((False, "quantum"), (True, "round")):
    _kind = QuantumKind(GRADIENT, MASTER, _ordered)
    _tabulate(f"master_{_name}", _kind, single=_COLUMNS)
    _kind = _kind._replace(step=COPY)
    _tabulate(f"copied_{_name}", _kind._replace(single=True))
    _tabulate(f"copied_columns_{_name}", _kind)
    _kind = QuantumKind(GRADIENT, EXCHANGE, _ordered, step=OUTSIDE)
    _tabulate(f"block_{_name}", _kind, plane=_COPIES, single=_COLUMNS)
    _kind = _kind._replace(plane=LOCK_FREE)
    _tabulate(f"block_lock_free_{_name}", _kind, single=_COLUMNS)
    _tabulate(f"block_master_{_name}", _kind._replace(plane=MASTER), single=_COLUMNS)
_kind = QuantumKind(GRADIENT, LOCK_FREE, step=OUTSIDE, virtual=True)
_tabulate("stale_block_quantum", _kind, single=_COLUMNS)
# a problem with rows in cells names this quantum in its `CompiledPass`
factors_quantum = quantum_of("factors_quantum", QuantumKind(GRADIENT, LOCK_FREE, step=CELLS))


def quantum_for(plan: Any, rule: Any, n_columns: int, outside: bool) -> Any:
    """Return the kernel of a run's quanta.

    plan : `EpochPlan`
    rule : `sgd_steps.RuleNumbers`
    n_columns : number of columns of the model
    outside : whether the problem's steps are taken outside of kernels
    """
    step = OUTSIDE if outside else COPY if plan.copied else ROWS
    method = rule.method if step == ROWS else GRADIENT
    ordered, virtual = bool(plan.ordered), plan.parts > 0
    return QUANTA[QuantumKind(method, plan.private, ordered, n_columns == 1, step, virtual)]
