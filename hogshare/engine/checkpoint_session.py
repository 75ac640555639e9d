"""Collect the state of a run between two epochs, restore it, and write its checkpoints.

`collect` and `restore` are called while no worker computes. Either all workers have paused or left,
or the only worker is the calling thread, which has just ended an epoch. No block is then under way,
and the session's arrays contain the whole state.

A run of one worker stores the worker's whole state, with its scale, its sums and its cumulative
penalty. A resumed run of one worker therefore continues bit for bit. A run of several workers
stores the common state: their vector and the sum of their iterates. Any number of workers can
continue from the common state. Several workers can also continue from the state of one worker,
which is first converted to the common form. The common form omits the pending l1 penalty: the part
that each worker had not yet applied to features that are absent from its latest rows.

The caller's thread calls the methods of a `CheckpointWriter`. Another thread calls the function
that `meanwhile` returns, and the caller waits for its end before the next call. If the only worker
runs in the calling thread, its state is saved at the end of an epoch without a pause. The bits of
the run are then the bits of a run without checkpoints. Workers in other threads and processes pause
at that epoch. Their state is copied, and they go on while the copy is written.
"""

from __future__ import annotations

import functools
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from hogshare.engine.arrays import MAX_HISTORY
from hogshare.engine.checkpoints import STATE_PREFIX, Checkpoint, OneFile, Saved
from hogshare.engine.convergence_checks import AtPause, Checks
from hogshare.engine.home_vectors import HOMES
from hogshare.engine.home_vectors import PREFIX as PLANES
from hogshare.engine.rule_states import restore_states, states
from hogshare.engine.session import Session
from hogshare.kernels import layout
from hogshare.kernels.rows.shared_passes import Each
from hogshare.kernels.schedule import epoch_schedule
from hogshare.problems.model import Model
from hogshare.rules.row_memory import CHECKPOINTED
from hogshare.system.callers import users_line

# the form of a worker's state, by the plan's `private`
FORMS = {
    epoch_schedule.ALONE: "alone",
    epoch_schedule.LOCK_FREE: "lock-free",
    epoch_schedule.MASTER: "lock-free",  # in a pause the vector contains all mail
    epoch_schedule.EXCHANGE: "folded",
}
FOLDED = "folded"  # the form of several workers' state
COPIED = "copied"  # one worker with a master: its state is the vector and the sum of iterates

# arrays of a run in which an epoch's order is the previous order, shuffled further
ORDERS = ("order", "permutation")


def _common(session: Session) -> dict[str, np.ndarray]:
    """Return the arrays that are in the state of every session (not copies)."""
    names = ["w", *CHECKPOINTED, "columns", "intercept", "dual_mean"]
    if session.rule.first_t > session.rule.average > 0:
        names += ["average_coef", "average_intercept"]  # the mean at the run's start
    return {name: session.arrays[name] for name in names}


def _own(session: Session) -> dict[str, np.ndarray]:
    private = session.private(session.local_workers.start)
    return {name: getattr(private, name) for name in ("local", "lag", "received")}


def field_names(prefix: str, count: int) -> list[str]:
    """Return the names of a table's rows in `layout`, in the order of the rows."""
    names = {getattr(layout, name): name for name in vars(layout) if name.startswith(prefix)}
    return [names[place] for place in range(count)]


def fields() -> dict[str, list[str]]:
    """Return the names of the rows of each of a state's tables."""
    return {
        "columns": field_names("C_", layout.N_COLUMN_FIELDS),
        "local": field_names("L_", layout.N_LOCAL_FIELDS),
    }


def form_of(session: Session) -> str:
    """Return the form in which this session's state is written."""
    numbers = session.settings
    is_one = numbers.n_workers == 1 and session.homes is None
    if not is_one:
        return FOLDED
    return COPIED if session.plan.copied else FORMS[session.plan.private]


def collect(session: Session, facts: dict[str, Any], checks: dict[str, Any]) -> Saved:
    """Copy a session's state while no worker computes.

    facts : the field `facts` of `Saved`
    checks : the field `checks` of `Saved`
    """
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
        checks=checks,
        fields=fields(),
        arrays=arrays,
    )


def _shuffles_on(session: Session) -> bool:
    """Whether an epoch's order is the previous order, shuffled further."""
    plan, drawn = session.plan, session.arrays["chances"].size > 0
    return bool(plan.shuffle) and not plan.window and not drawn and not plan.shares


def _folded_sums(session: Session) -> dict[str, np.ndarray]:
    """Add up the workers' sums; the result is as if one worker had done all work and folded it."""
    a = session.arrays
    state = {"local": (local := _fresh_local(a["w"], session.settings.n_columns))}
    if a["lag"].size:
        count, state["lag"], bias = session.sums_of_iterates()
        local[layout.L_AVERAGE_COUNT], local[layout.L_AVERAGE_INTERCEPT] = count, bias
    return state


def _fresh_local(w: np.ndarray, n_columns: int) -> np.ndarray:
    """Return a new array with a worker's local fields before its first block on the vector `w`."""
    local = np.zeros((layout.N_LOCAL_FIELDS, n_columns))
    local[layout.L_SCALE] = 1.0
    local[layout.L_STRETCH] = 1.0
    vector = w.reshape(-1, n_columns).astype(np.float64)
    local[layout.L_SQUARED_NORM] = np.square(vector).sum(axis=0)
    local[layout.L_L1_NORM] = np.abs(vector).sum(axis=0)
    return local


def folded(state: dict[str, np.ndarray], form: str) -> dict[str, np.ndarray]:
    """Convert one worker's state to the common form: multiply out its scale and its sums."""
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
        # until the one worker leaves, the vector lacks its scale, intercept and mean
        after["w"] = (np.tile(local[layout.L_SCALE], len(w) // n_columns) * w).astype(w.dtype)
        after["intercept"] = local[layout.L_INTERCEPT].copy()
        after["dual_mean"] = local[layout.L_DUAL_MEAN].copy()
    after["local"] = _fresh_local(after["w"], n_columns)
    for place in (layout.L_AVERAGE_COUNT, layout.L_AVERAGE_INTERCEPT):
        after["local"][place] = local[place]
    after.pop("received", None)
    return after


def restore(session: Session, saved: Saved) -> None:
    """Copy a saved state into a session that has been filled for a run from zero.

    Raises ValueError if the file's arrays do not fit the session.
    """
    a = session.arrays
    state = saved.state
    # one worker's state in the same form is copied bit for bit; any other is folded first
    exact = form_of(session) == saved.form != FOLDED
    _check(session, saved, state, exact)
    if not exact:
        state = folded(state, saved.form)
    for name, array in (_common(session) | (_own(session) if exact else {})).items():
        if array.size:
            array[...] = state[name]
    restore_states(a, state)
    history = state.get("history", a["history"][:0])
    n_epochs = min(len(a["history"]), len(history))
    a["history"][:n_epochs] = history[:n_epochs]
    if not exact:
        _spread(session, state)
    if session.homes is not None:
        session.homes.scatter()
        session.homes.go_on_with(state)
    _set_schedule(session, saved, state)


def _spread(session: Session, state: dict[str, np.ndarray]) -> None:
    """Write a folded state into a session's arrays; the first worker gets the sums so far."""
    a, local = session.arrays, session.locals()
    own = state["local"].copy()
    own[layout.L_INTERCEPT] = state["intercept"]
    own[layout.L_DUAL_MEAN] = state["dual_mean"]
    local[:] = own
    local[1:, layout.L_AVERAGE_COUNT] = 0.0  # over several sites the runtime does this
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
    """Set the schedule: the next claim takes the first block of the epoch after the saved ones."""
    a, plan = session.arrays, session.plan
    ready = saved.epochs
    if _shuffles_on(session) and "order" in state:
        for name in ORDERS:
            a[name][...] = state[name]
        ready = saved.ready
        for epoch in range(saved.epochs, ready):
            a["remaining"][(epoch % 2) * layout.WORD] = plan.n_blocks
    # without these arrays, each epoch's order is drawn from the seed and the epoch
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
    """Refuse indices out of range and arrays of other shapes: kernels do not check them."""
    a = session.arrays
    problem = f"{saved.path}: the checkpoint is damaged, or not hogshare's own: "
    if saved.fields != fields():
        raise ValueError(
            f"{saved.path}: the checkpoint was written by a hogshare that stores other numbers of "
            "a run. Resume with that version, or begin a new run at its model with "
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
            raise ValueError(f"{problem}{name} contains rows that do not exist.")
    if not _is_a_call(saved, state["columns"]):
        raise ValueError(f"{problem}columns asks for a check that no epoch's end asks for.")
    if not saved.epochs <= saved.ready <= saved.epochs + 2:
        raise ValueError(f"{problem}{saved.ready} orders are ready after {saved.epochs} epochs.")


def _check_numbers(session: Session, state: dict[str, np.ndarray], problem: str) -> None:
    """Refuse vectors that are not finite, and values that no built-in plane or rule can store."""
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
    """Whether the columns have a request for a check by `kernels.schedule.epoch_criteria.call`.

    Only a run with checks requests a check, and only at one of the next epochs. If a resumed run
    never makes the requested check, its workers would pause forever.
    """
    words = columns[[layout.C_ENOUGH, layout.C_SMALL, layout.C_SOONEST]]
    if not saved.criteria:
        return not words.any()
    if np.isnan(words).any() or words[1:].min() < 0.0:
        return False
    asked = -float(words[0, 0])
    return asked <= 0.0 or (asked.is_integer() and asked <= saved.epochs + 2)


NEVER = sys.maxsize  # an epoch that does not come
GROWTH = 8  # with `seconds`, the epochs between two checkpoints grow by at most this factor

OnEpoch = Callable[[int, Callable[[], Model]], bool]


class CheckpointFailed(RuntimeWarning):
    """A checkpoint could not be written; the run goes on, and the previous file stays."""


class CheckpointWriter(AtPause):
    """Write one run's checkpoints, and make its convergence checks in the same pauses.

    facts : the facts that identify the run, see `hogshare.engine.checkpoints.facts_of`
    checks : the convergence checks, which the writer makes at their own epochs
    next_check : epoch of the first check; ignored without `checks`
    inside : whether the calling thread is the only worker
    files : the object that reads and writes the files
    """

    def __init__(
        self,
        session: Session,
        checkpoint: Checkpoint,
        facts: dict[str, Any],
        checks: Checks | None,
        next_check: int,
        inside: bool,
        files: OneFile | None = None,
    ) -> None:
        self.session = session
        self.checkpoint = checkpoint
        self.facts = facts
        self.checks = checks
        self.next_check = NEVER if checks is None else next_check
        self.inside = inside
        self.files = files or OneFile()
        self.notes: list[str] = []
        self._failing = False
        self._unwritten: Saved | None = None
        self._began = self._last = time.monotonic()
        self._first = self._saved = session.word(layout.EPOCHS)
        self._gap = checkpoint.epochs
        self._next = self._after(self._saved)

    @property
    def limit(self) -> int:
        """The epoch of the workers' next pause."""
        return self._check_at if self.inside else min(self._check_at, self._next)

    @property
    def is_due(self) -> bool:
        """Whether the state is to be copied in this pause."""
        return not self.inside and self.session.word(layout.EPOCHS) >= self._next

    @property
    def at_pause(self) -> AtPause | None:
        """Return the action that a runtime calls in a pause, or None if the run has no pauses."""
        return self if not self.inside or self.checks is not None else None

    # -- the only worker is the calling thread ---------------------------------------------------

    def notified_by(self, on_epoch: OnEpoch | None) -> OnEpoch | None:
        """Return the function that a runtime calls after each epoch."""
        if not self.inside:
            return on_epoch

        def notified(epoch: int, snapshot: Callable[[], Model]) -> bool:
            stop = on_epoch is not None and on_epoch(epoch, snapshot)
            over = epoch >= self.session.plan.max_epochs
            over = over or stop or self.session.word(layout.STOP) != layout.RUNNING
            waited = time.monotonic() - self._last >= self.checkpoint.seconds
            if over or (epoch >= self._next and waited):
                self._write(self._collect())
                self._next = self._after(epoch)
            return bool(stop)

        return notified

    # -- the workers are paused ------------------------------------------------------------------

    def act(self, session: Session, each: Each = map) -> int | None:
        """Evaluate the model if a check is due, then copy the run's state if a save is due."""
        if self.evaluate(session, each) is None:
            return None
        self.save(session)
        return self.limit

    def evaluate(self, session: Session, each: Each = map) -> int | None:
        """Evaluate the model if a check is due.

        Returns the epoch of the next check, or None to stop.
        """
        epoch = session.word(layout.EPOCHS)
        if self.checks is not None and epoch >= self._check_at:
            again = self.checks.act(session, each)
            if again is None:
                return None
            self.next_check = again
        return self._check_at

    def save(self, session: Session) -> None:
        """Copy the run's state if a save is due."""
        epoch = session.word(layout.EPOCHS)
        if self.is_due:
            self._unwritten = self._collect()
            self._pace(epoch)
            self._next = self._after(epoch)

    def meanwhile(self) -> Callable[[], None] | None:
        """Return the function that writes the copied state while the workers go on."""
        saved, self._unwritten = self._unwritten, None
        return None if saved is None else functools.partial(self._write, saved)

    def end(self, why: str) -> None:
        """Write no more checkpoints, and warn once with the reason `why`."""
        if self._next < NEVER:
            self._warn(
                f"{self.checkpoint.path}: no more checkpoints are written, because {why}; the "
                "file is the last one that was whole"
            )
        self._next = NEVER

    def finish(self) -> None:
        """Save the run at its end, when all workers have left."""
        is_newer = self._saved < self.session.word(layout.EPOCHS)
        if not self.inside and self._next < NEVER and is_newer:
            self._write(self._collect())

    # -- both, with a worker in the calling thread and with paused workers -----------------------

    def _after(self, epoch: int) -> int:
        """Return the epoch of the next checkpoint, which is the same in a resumed run."""
        return (epoch // self._gap + 1) * self._gap

    def _pace(self, epoch: int) -> None:
        """Set the epochs between two checkpoints from `seconds` and the pace of the run so far."""
        every = self.checkpoint.epochs
        passed = max(self.files.agreed(time.monotonic() - self._began), 1e-9)
        wanted = round(self.checkpoint.seconds * (epoch - self._first) / passed / every)
        self._gap = every * max(1, min(wanted, GROWTH * self._gap // every))

    @property
    def _check_at(self) -> int:
        """The epoch of the next check; the end of an epoch may have requested an earlier check."""
        called_for = self.session.called_for if self.checks is not None else None
        return self.next_check if called_for is None else min(self.next_check, called_for)

    def _collect(self) -> Saved:
        checks = self.checks
        state_of_checks: dict[str, Any] = {"seen": [], "next": 0}
        if checks is not None:
            epoch = self.session.word(layout.EPOCHS)
            # a resumed run repeats the check that ended this one
            again = self._check_at <= epoch
            seen = [dict(check) for check in checks.seen if check["epoch"] < epoch or not again]
            state_of_checks = {"seen": seen, "next": self._check_at}
        return collect(self.session, self.facts, state_of_checks)

    def _write(self, saved: Saved) -> None:
        """Write a state, unless the run diverges."""
        if not saved.model().is_finite():
            return
        try:
            self.files.save(saved, self.checkpoint.path)
        except OSError as error:
            self._last = time.monotonic()
            if not self._failing:
                self._failing = True
                self._warn_of(error)
            return
        self._failing = False
        self._saved = saved.epochs
        self._last = time.monotonic()

    def _warn_of(self, error: OSError) -> None:
        path = self.checkpoint.path
        self._warn(
            f"{path}: the checkpoint could not be written ({error.strerror or error}); the fit "
            "goes on and tries again at the next one, and the file is as it was before"
        )

    def _warn(self, sentence: str) -> None:
        self.notes.append(sentence)
        warnings.warn(sentence, CheckpointFailed, stacklevel=users_line())
