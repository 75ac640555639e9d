"""The state of a run between two epochs: taken out of a session, put into another one.

Called by the caller while nobody computes: all workers rest or have left, or the only worker is the
calling thread itself, which has just ended an epoch. So nothing is in flight, and every number that
counts stands in the session's arrays.

Of one worker everything is kept as it stands, with its scale, its sums and its cumulative penalty:
the run goes on bit for bit. Of several workers what they agree on is kept, their vector and the sum
of their iterates, and any number of workers can go on from it; also from one worker's state, which
is brought into that form first. What is left out then is how much of the l1 penalty each worker
still owed to features that its rows had not touched of late.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hogshare.engine.arrays import MAX_HISTORY
from hogshare.engine.checkpoint_parts import STATE_PREFIX
from hogshare.engine.checkpoints import Saved
from hogshare.engine.homes import HOMES
from hogshare.engine.homes import PREFIX as PLANES
from hogshare.engine.session import Session
from hogshare.engine.worker_states import restore_states, states
from hogshare.kernels import layout
from hogshare.kernels.schedule import epoch_schedule
from hogshare.rules.memories import CHECKPOINTED

# how one worker's state stands, by the plan's `private`, and how that of several does
FORMS = {
    epoch_schedule.ALONE: "alone",
    epoch_schedule.LOCK_FREE: "lock-free",
    epoch_schedule.MASTER: "lock-free",  # at rest all mail is in the vector
    epoch_schedule.EXCHANGE: "folded",
}
FOLDED = "folded"
COPIED = "copied"  # one worker with a master: all is in the vector and the sum of iterates

# of every run whose orders are shuffled from one another
ORDERS = ("order", "permutation")


def _common(session: Session) -> dict[str, np.ndarray]:
    """What a state has of every session: the arrays themselves, read and written in place."""
    names = ["w", *CHECKPOINTED, "columns", "intercept", "dual_mean"]
    if session.rule.first_t > session.rule.average > 0:
        names += ["average_coef", "average_intercept"]  # the mean that the run has begun with
    return {name: session.arrays[name] for name in names}


def _own(session: Session) -> dict[str, np.ndarray]:
    private = session.private(session.local_workers.start)
    return {name: getattr(private, name) for name in ("local", "lag", "received")}


def field_names(prefix: str, count: int) -> list[str]:
    """Names of a table's rows in `layout`, by their place."""
    names = {getattr(layout, name): name for name in vars(layout) if name.startswith(prefix)}
    return [names[place] for place in range(count)]


def fields() -> dict[str, list[str]]:
    """What stands in the rows of the tables of a state."""
    return {
        "columns": field_names("C_", layout.N_COLUMN_FIELDS),
        "local": field_names("L_", layout.N_LOCAL_FIELDS),
    }


def form_of(session: Session) -> str:
    """How this session's state is written."""
    numbers = session.settings
    is_one = numbers.n_workers == 1 and session.homes is None
    if not is_one:
        return FOLDED
    return COPIED if session.plan.copied else FORMS[session.plan.private]


def collect(session: Session, facts: dict[str, Any], looks: dict[str, Any]) -> Saved:
    """Copy a session's state; nobody computes meanwhile. Facts and looks as of `Saved`."""
    homes = {}
    if session.homes is not None:
        homes = session.homes.state()
        session.homes.gather()
    a, model = session.arrays, session.model()
    state = homes | _common(session)
    state["history"] = a["history"][: session.word(layout.EPOCHS)]
    if _shuffles_on(session):
        state |= {name: a[name] for name in ORDERS}
    state |= states(a)
    form = form_of(session)
    state |= _folded_sums(session) if form == FOLDED else _own(session)
    arrays = {f"{STATE_PREFIX}{name}": array.copy() for name, array in state.items() if array.size}
    arrays |= {"coef": model.coef, "intercept": model.intercept}
    if model.average_coef is not None and model.average_intercept is not None:
        arrays["average_coef"] = model.average_coef
        arrays["average_intercept"] = model.average_intercept
    return Saved(
        epochs=session.word(layout.EPOCHS),
        facts=facts,
        first_t=session.rule.first_t,
        form=form,
        ready=min(session.word(layout.READY), session.word(layout.EPOCHS) + 2),
        looks=looks,
        fields=fields(),
        arrays=arrays,
    )


def _shuffles_on(session: Session) -> bool:
    """Whether an epoch's order is the last one's, shuffled further."""
    plan, drawn = session.plan, session.arrays["chances"].size > 0
    return bool(plan.shuffle) and not plan.window and not drawn and not plan.shares


def _folded_sums(session: Session) -> dict[str, np.ndarray]:
    """What several workers have between them, as if one had done it all and had just folded it."""
    a = session.arrays
    state = {"local": (local := _fresh_local(a["w"], session.settings.n_columns))}
    if a["lag"].size:
        count, state["lag"], bias = session.sums_of_iterates()
        local[layout.L_AVERAGE_COUNT], local[layout.L_AVERAGE_INTERCEPT] = count, bias
    return state


def _fresh_local(w: np.ndarray, n_columns: int) -> np.ndarray:
    """A worker's own numbers when it comes to a vector for the first time."""
    local = np.zeros((layout.N_LOCAL_FIELDS, n_columns))
    local[layout.L_SCALE] = 1.0
    local[layout.L_STRETCH] = 1.0
    vector = w.reshape(-1, n_columns).astype(np.float64)
    local[layout.L_SQUARED_NORM] = np.square(vector).sum(axis=0)
    local[layout.L_L1_NORM] = np.abs(vector).sum(axis=0)
    return local


def folded(state: dict[str, np.ndarray], form: str) -> dict[str, np.ndarray]:
    """One worker's state as that of several: scale and what the sums lack are multiplied out."""
    if form == FOLDED:
        return state
    w, local = state["w"], state["local"]
    n_columns = local.shape[1]
    alone = form == FORMS[epoch_schedule.ALONE]
    after = dict(state)
    if "lag" in state and form != COPIED:
        weight = local[layout.L_AVERAGE_SCALE if alone else layout.L_AVERAGE_COUNT]
        after["lag"] = state["lag"] + np.tile(weight, len(w) // n_columns) * w
    if alone:
        # the one worker's scale, intercept and mean stand beside the vector until it leaves
        after["w"] = (np.tile(local[layout.L_SCALE], len(w) // n_columns) * w).astype(w.dtype)
        after["intercept"] = local[layout.L_INTERCEPT].copy()
        after["dual_mean"] = local[layout.L_DUAL_MEAN].copy()
    after["local"] = _fresh_local(after["w"], n_columns)
    for place in (layout.L_AVERAGE_COUNT, layout.L_AVERAGE_INTERCEPT):
        after["local"][place] = local[place]
    after.pop("received", None)
    return after


def restore(session: Session, saved: Saved) -> None:
    """Put a state into a session that has been filled as for a run from zero.

    Raises ValueError if the file's arrays do not fit the session.
    """
    a = session.arrays
    state = saved.state
    exact = form_of(session) == saved.form != FOLDED
    _check(session, saved, state, exact)
    if not exact:
        state = folded(state, saved.form)
    for name, array in (_common(session) | (_own(session) if exact else {})).items():
        if array.size:
            array[...] = state[name]
    restore_states(a, state)
    history = state.get("history", a["history"][:0])
    kept = min(len(a["history"]), len(history))
    a["history"][:kept] = history[:kept]
    if not exact:
        _spread(session, state)
    if session.homes is not None:
        session.homes.scatter()
        session.homes.go_on_with(state)
    _set_schedule(session, saved, state)


def _spread(session: Session, state: dict[str, np.ndarray]) -> None:
    """Give the workers of a session a folded state; the sums so far become the first one's."""
    a, local = session.arrays, session.locals()
    own = state["local"].copy()
    own[layout.L_INTERCEPT] = state["intercept"]
    own[layout.L_DUAL_MEAN] = state["dual_mean"]
    local[:] = own
    local[1:, layout.L_AVERAGE_COUNT] = 0.0  # of several sites the runtime does so
    local[1:, layout.L_AVERAGE_INTERCEPT] = 0.0
    if not a["lag"].size:
        return
    lag = state["lag"]
    if (
        session.plan.private in (epoch_schedule.LOCK_FREE, epoch_schedule.MASTER)
        and not session.plan.copied
    ):
        lag = lag - np.tile(own[layout.L_AVERAGE_COUNT], session.settings.n_features) * a["w"]
    a["lag"][0, : session.size] = lag


def _set_schedule(session: Session, saved: Saved, state: dict[str, np.ndarray]) -> None:
    """Let the next block to be claimed be the first of the epoch that follows."""
    a, plan = session.arrays, session.plan
    ready = saved.epochs
    if _shuffles_on(session) and "order" in state:
        for name in ORDERS:
            a[name][...] = state[name]
        ready = saved.ready
        for epoch in range(saved.epochs, ready):
            a["remaining"][(epoch % 2) * layout.WORD] = plan.n_blocks
    # else each epoch's order is made anew, from the seed and the epoch
    control = a["control"]
    control[layout.EPOCHS] = saved.epochs
    control[layout.READY] = ready
    control[layout.TICKET] = control[layout.COMPLETED] = saved.epochs * plan.n_blocks
    if plan.shares:
        a["table"][:, layout.T_SHARE] = saved.epochs * (plan.n_blocks // plan.shares)
    session.open_epochs()
    if not (a["columns"][layout.C_ACTIVE] != 0.0).any():
        session.stop(layout.STOPPED_BY_CRITERION)
    elif saved.epochs >= plan.max_epochs:
        session.stop(layout.STOPPED_BY_LIMIT)


def _check(session: Session, saved: Saved, state: dict[str, np.ndarray], exact: bool) -> None:
    """Trust no file: what kernels index with is in range, and everything has its shape."""
    a = session.arrays
    problem = f"{saved.path}: the checkpoint is damaged, or not hogshare's own: "
    if saved.fields != fields():
        raise ValueError(
            f"{saved.path}: the checkpoint was written by a hogshare that keeps other numbers of a "
            "run. Resume with that version, or begin a new run at its model with "
            f"start=Checkpoint({saved.path!r}).model()."
        )
    if saved.form not in FORMS.values():
        raise ValueError(f"{problem}it has the unknown form {saved.form!r}.")
    expected = {**_common(session), **_own(session)}
    if not exact:
        del expected["received"]
    expected["history"] = np.empty(min(saved.epochs, MAX_HISTORY))
    if "order" in state or "permutation" in state:
        expected |= {name: a[name] for name in ORDERS}
    for name, array in expected.items():
        if not array.size:
            continue
        found, shape, kind = state.get(name), array.shape, array.dtype
        if found is None or found.shape != shape or found.dtype != kind:
            raise ValueError(f"{problem}{name} is not {kind} of shape {shape}.")
    for name, array in states(a).items():
        found = state.get(name)
        kind, shape = array.dtype, array.shape[1:]
        fits = found is not None and found.dtype == kind and found.shape[1:] == shape and len(found)
        if array.size and not fits:
            raise ValueError(f"{problem}{name} is not {kind} of shape {shape} for each worker.")
    _check_numbers(session, state, problem)
    for name in ORDERS:
        rows = state.get(name, np.zeros(1, np.int64))
        if rows.min() < 0 or rows.max() >= len(a["permutation"]):
            raise ValueError(f"{problem}{name} holds rows that do not exist.")
    if not _is_a_call(saved, state["columns"]):
        raise ValueError(f"{problem}columns asks for a look that no epoch's end asks for.")
    if not saved.epochs <= saved.ready <= saved.epochs + 2:
        raise ValueError(f"{problem}{saved.ready} orders are ready after {saved.epochs} epochs.")


def _check_numbers(session: Session, state: dict[str, np.ndarray], problem: str) -> None:
    """Refuse vectors that are not finite, and states that no plane or rule of ours has."""
    vectors = {"w": session.arrays["w"].dtype, HOMES: np.dtype(np.float64)}
    for name, kind in vectors.items():
        found = state.get(name)
        if found is not None and (found.dtype != kind or not np.isfinite(found).all()):
            raise ValueError(f"{problem}{name} is not {kind}, every number finite.")
    own = {} if session.homes is None else session.homes.arrays
    for name, array in own.items():
        found = state.get(f"{PLANES}{name}")
        if found is not None and found.dtype != array.dtype:
            raise ValueError(f"{problem}{PLANES}{name} is not {array.dtype}.")
    if session.outside is None or not session.outside.rule.descends:
        return
    for name in states(session.arrays):
        counts = state[name].dtype.kind in "iu"
        fits = state[name].min(initial=0) >= 0 if counts else np.isfinite(state[name]).all()
        if not fits:
            raise ValueError(f"{problem}{name} has numbers of no run.")


def _is_a_call(saved: Saved, columns: np.ndarray) -> bool:
    """Whether what stands there of the next look is what `kernels.endings.call` leaves.

    A look is called for by a run that looks, and for one of the next epochs. Workers that rest for
    one that nobody takes would rest for ever.
    """
    words = columns[[layout.C_ENOUGH, layout.C_SMALL, layout.C_SOONEST]]
    if not saved.criteria:
        return not words.any()
    if np.isnan(words).any() or words[1:].min() < 0.0:
        return False
    asked = -float(words[0, 0])
    return asked <= 0.0 or (asked.is_integer() and asked <= saved.epochs + 2)
