"""Convergence checks: evaluate the model in pauses, settle its intercepts, schedule the next check.

A check takes one or two passes over the rows and as much time as half an epoch, so checks are few.
If the rule remembers rows, the change of this memory in an epoch decays like the gradient, and is
known without a pass. The run pauses for the next check once this change has fallen by the factor by
which the criterion still has to fall (`kernels.schedule.epoch_criteria.call`). Because the change
and the criterion are not in exact proportion, the next check also has a latest epoch. The latest
epoch is a few times the epochs so far, or the epoch that the rate of the checks so far predicts.
Plain descent has no memory of rows, so its next check comes at the latest epoch. The epochs of
checks depend on the models, not on time: one worker with a seed stops at the same epoch in every
call.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from hogshare.engine.session import Session
from hogshare.engine.stops import Stop
from hogshare.kernels import layout
from hogshare.kernels.rows.shared_passes import Each
from hogshare.kernels.rules import losses
from hogshare.problems.gradient import GradientProblem
from hogshare.problems.linear.intercepts import best_intercepts, best_without_features
from hogshare.problems.linear.optimality import Optimality, components
from hogshare.problems.model import Model
from hogshare.problems.protocol import RowProblem

FIRST_CHECK = 3  # epochs
# most epochs to the next check, per epoch so far, if the end of an epoch may request a check
PATIENCE = 7
DOUBT = 2.0  # most epochs to the next check, per epoch that the checks so far predict
SPACING = 16  # a check waits at least 1/SPACING of the epochs so far: late requests may be noise
TAKEN_SHARE = 0.9  # SAGA's average is taken for the gradient if it has this share of it
SETTLED = 0.1  # the intercepts are good enough at a mean slope of this share of the tolerance
NAMES = {
    "gradient": "largest component of the gradient",
    "gap": "duality gap",
    "relative_gap": "relative duality gap",
}


# ``by_one(found)`` calls `found` in one process, and returns the result in all processes of the run
ByOne = Callable[[Callable[[], np.ndarray]], np.ndarray]


def at_once(found: Callable[[], np.ndarray]) -> np.ndarray:
    """Call `found` and return its result, in a run of one process."""
    return found()


class AtPause:
    """An action of the caller in a run's pauses."""

    def act(self, session: Session, each: Each = map) -> int | None:
        """Act on the session while no worker writes to it.

        Returns the epoch of the next pause, or None to stop the run.
        """
        raise NotImplementedError

    def evaluate(self, session: Session, each: Each = map) -> int | None:
        """Do the first part of `act`, before the epoch's decision; return the result of `act`."""
        return self.act(session, each)

    def save(self, session: Session) -> None:
        """Do the second part of `act`, after the decision that the run goes on."""

    def meanwhile(self) -> Callable[[], None] | None:
        """Return remaining work, which any thread may do while workers go on, or None."""
        return None


class EachEpoch(AtPause):
    """Pause workers at every epoch's end, so that a callback reads the model of its epoch.

    Without pauses, fast workers could end several epochs before the caller's thread reports the
    first one. All these epochs would be reported with the model of the last epoch.

    checks : another action, which is called in the pauses at its own epochs
    """

    def __init__(self, checks: AtPause | None, session: Session) -> None:
        self._checks = checks
        self._next = session.word(layout.LIMIT)
        session.raise_limit(min(self._next, session.word(layout.EPOCHS) + 1))

    def act(self, session: Session, each: Each = map) -> int | None:
        """Do the other action if it is due at this epoch; workers pause again at the next epoch."""
        epoch = session.word(layout.EPOCHS)
        called_for = session.called_for
        due = self._next if called_for is None else min(self._next, called_for)
        if self._checks is not None and epoch >= due:
            again = self._checks.act(session, each)
            if again is None:
                return None
            self._next = again
        return epoch + 1

    def meanwhile(self) -> Callable[[], None] | None:
        """Return the remaining work of the other action, or None."""
        return None if self._checks is None else self._checks.meanwhile()


def reported_gradient(problem: RowProblem, session: Session, coef: np.ndarray) -> float:
    """Return the largest component of the gradient that SAGA's average gives; 0 without it."""
    average = session.memory.average
    if not average.size:
        return 0.0
    units = problem.sampled_units
    of_losses = average.reshape(-1, problem.n_columns).T
    found = components(problem, units, coef, of_losses, session.mean_slopes())
    return float(found[units.known].max(initial=0.0))


class Checks(AtPause):
    """The checks of `Stop.gradient`, `Stop.gap` and `Stop.relative_gap` during one run.

    stop : a stop with at least one of these criteria
    settles : whether a check sets the intercepts to the best intercepts for the coefficients
    """

    def __init__(self, problem: Any, stop: Stop, settles: bool) -> None:
        self.problem = problem
        self.criteria = stop.criteria
        self.epochs = stop.epochs
        self.give_up = stop.give_up
        self.settles = settles and problem.fit_intercept and problem.loss not in losses.KINKED
        self.hopeless = False
        self.seen: list[dict[str, Any]] = []

    def begin(self, session: Session) -> None:
        """Start with the best intercepts for zero coefficients; they need no pass over the rows."""
        if not self.settles:
            return
        problem, start = self.problem, best_without_features(self.problem)
        margins = np.zeros(problem.n_rows * problem.n_columns)
        parts = [(0, problem.n_rows)]
        session.put_intercept(best_intercepts(problem, margins, start, self._enough, parts))

    def go_on(self, session: Session, seen: list[dict[str, Any]]) -> None:
        """Resume a saved run, whose checks so far have the results `seen`."""
        self.seen = seen
        self._put_units(session)

    def _put_units(self, session: Session) -> None:
        if self.criteria.get("gradient", 0.0) > 0.0:
            session.put_units(*self.problem.sampled_units)

    def prepare(self) -> None:
        """Load or compile the kernels of a check, before the workers start."""
        columns = self.problem.n_columns
        shape = columns, self.problem.n_features
        rows = self.problem.rows
        nothing = self.problem.with_rows(rows._replace(y=rows.y[:0]))
        settle = 0.0 if self.settles else None
        # with slopes, the pass over the conjugates is compiled too; some checks need it
        slopes = np.empty((0, columns)) if self._needs_gap else None
        zeros = Model(np.zeros(shape), np.zeros(columns))
        check = Optimality(nothing, zeros, slopes=slopes, settle=settle)
        if self._needs_gap:
            check.gap()

    @property
    def _needs_gap(self) -> bool:
        return set(self.criteria) != {"gradient"}

    @property
    def _enough(self) -> float:
        return SETTLED * self.criteria.get("gradient", 0.0)

    @property
    def met(self) -> bool:
        """Whether the last check found that all criteria are met."""
        return bool(self.seen) and not self._unmet()

    def _unmet(self) -> list[str]:
        last, criteria = self.seen[-1], self.criteria
        # the gradient may be zero at a model whose objective is not finite
        if not math.isfinite(last["objective"]):
            return list(criteria)
        return [kind for kind, tolerance in criteria.items() if not last[kind] <= tolerance]

    def note(self, epoch: int, optimality: Optimality) -> None:
        """Append the result of a check."""
        found = {kind: getattr(optimality, kind)() for kind in self.criteria}
        self.seen.append({"epoch": epoch, **found, "objective": optimality.objective})

    def act(self, session: Session, each: Each = map) -> int | None:
        """Evaluate the model and settle its intercepts while no worker writes the model."""
        epoch = session.word(layout.EPOCHS)
        coef = self._evaluate(session, epoch, each)
        if self.met:
            return None
        if epoch == 0:
            return FIRST_CHECK
        wanted = max(self._foreseen(kind) for kind in self._unmet())
        if self.gives_up(epoch, wanted):
            return None
        enough, soonest = 0.0, max(1, epoch // SPACING)
        if coef is not None:
            enough = min(self._enough_change(kind, session, coef) for kind in self._unmet())
            small = self.criteria.get("gradient", 0.0)
            self._put_units(session)
            session.ask_for_check(enough, small, epoch + soonest)
        if enough == 0.0:
            return epoch + ((epoch + 1) // 2 if math.isinf(wanted) else whole(min(epoch, wanted)))
        # a run that may give up has to notice early that its epochs will not suffice
        reach = epoch if self.give_up else PATIENCE * epoch
        return epoch + max(soonest, whole(min(reach, DOUBT * wanted)))

    def _evaluate(self, session: Session, epoch: int, each: Each) -> np.ndarray | None:
        """Evaluate the model and note the result; return its coefficients."""
        optimality = Optimality(
            self.problem,
            session.model(),
            slopes=self._dual_slopes(session),
            with_gap=self._needs_gap,
            settle=self._enough if self.settles else None,
            each=each,
            n_parts=len(session.local_workers),
        )
        if self.settles:
            session.put_intercept(optimality.intercept)
        self.note(epoch, optimality)
        return optimality.coef

    def gives_up(self, epoch: int, wanted: float) -> bool:
        """Whether the remaining epochs would not suffice at the recent rate."""
        if self.give_up and len(self.seen) > 2:
            # infinity: nothing has been gained. Early in a run this may be noise
            stuck = math.isinf(wanted) and epoch >= self.epochs // 5
            far = math.isfinite(wanted) and wanted > 1.5 * (self.epochs - epoch)
            self.hopeless = stuck or far
        return self.hopeless

    def _enough_change(self, kind: str, session: Session, coef: np.ndarray) -> float:
        """Estimate the sum of an epoch's squared changes at which a criterion may be met.

        Near the optimum, the changes, the gradient and the model's distance from the optimum are in
        proportion to each other; the gap is in proportion to their squares. If SAGA's average
        already gives the gradient, the result is infinity, which accepts any sum: the model may
        then move in only a few directions, with small changes. 0 means that the sum is unknown.
        """
        last = self.seen[-1][kind]
        if not last > 0.0:
            return 0.0  # the objective is NaN
        short = self.criteria[kind] / last
        if (
            kind == "gradient"
            and short > 0.0
            and reported_gradient(self.problem, session, coef) >= TAKEN_SHARE * last
        ):
            return math.inf
        found = session.change * (short**2 if kind == "gradient" else short)
        return found if math.isfinite(found) else 0.0

    def _dual_slopes(self, session: Session) -> np.ndarray | None:
        if not self._needs_gap or self.problem.loss not in losses.KINKED:
            # with a smooth loss, derivatives at the model are newer than the memory of rows
            return None
        return session.remembered()

    def _foreseen(self, kind: str) -> float:
        """Predict the number of epochs still needed at the recent rate; infinity without progress.

        The recent rate is the rate since the last check in the first two thirds of the epochs. The
        rate since the run's first check would be too high, because runs become slower. The rate
        since the previous check would be mostly noise.
        """
        last = self.seen[-1]
        early = [check for check in self.seen if 3 * check["epoch"] <= 2 * last["epoch"]]
        first = early[-1] if early else self.seen[0]
        if not 0.0 < last[kind] < first[kind]:
            return math.inf  # also after the first check, and if a value is not finite
        rate = math.log(first[kind] / last[kind]) / (last["epoch"] - first["epoch"])
        if self.criteria[kind] == 0.0:
            return sys.float_info.max
        return math.log(last[kind] / self.criteria[kind]) / rate

    def sentence(self) -> str:
        """Describe the result of the last check."""
        parts, unmet = [], self._unmet()
        for kind, tolerance in self.criteria.items():
            how = "is still at" if kind in unmet else "came down to"
            value = self.seen[-1][kind]
            parts.append(f"the {NAMES[kind]} {how} {value:.3g} ({tolerance:.3g} was asked for)")
        return " and ".join(parts)


class GradientChecks(Checks):
    """The checks of `Stop.gradient` for a problem defined by a gradient: passes over all rows."""

    def __init__(self, problem: GradientProblem, stop: Stop) -> None:
        super().__init__(problem, stop, False)
        self.by_one: ByOne = at_once

    def prepare(self) -> None:
        """Do nothing: the gradient is the user's."""

    def _evaluate(self, session: Session, epoch: int, each: Each) -> None:
        model = session.model()

        def found() -> np.ndarray:
            gradient = self.problem.gradient_at(model)
            largest = np.abs(gradient).max(initial=0.0)
            return np.array([largest, self.problem.objective_at(model)], np.float64)

        largest, objective = self.by_one(found).tolist()
        self.seen.append({"epoch": epoch, "gradient": largest, "objective": objective})


def whole(epochs: float) -> int:
    """Round a number of epochs up, to at least one."""
    return max(1, math.ceil(epochs))


def check_criterion(problem: RowProblem, stop: Stop) -> None:
    """Refuse a criterion that the problem does not have.

    Raises ValueError for `Stop.gradient` if the loss has kinks, and for a gap without a penalty.
    """
    if stop.gradient is not None and problem.loss in losses.KINKED:
        raise ValueError(
            f"Stop(gradient=...) needs a smooth loss, which {problem.loss!r} is not: at its "
            "optimum the gradient need not be zero. Use gap= or tol=."
        )
    gaps = [name for name in stop.criteria if name != "gradient"]
    if gaps and (problem.penalty is None or problem.alpha == 0.0):
        raise ValueError(
            f"Stop({gaps[0]}=...) needs a penalty with alpha > 0: without one the dual has no "
            "point near the optimum. Use gradient= or tol=."
        )
