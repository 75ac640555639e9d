"""One run, from its final choices to its report: prepare, run, report."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from hogshare.barriers import BuiltIn
from hogshare.engine.arrays import Shapes, assigned, fill, row_arrays
from hogshare.engine.checkpoint_session import CheckpointWriter, restore
from hogshare.engine.checkpoints import Checkpoint, Saved
from hogshare.engine.choices import Choices
from hogshare.engine.confirmation import Confirmation, can_go_on, go_on
from hogshare.engine.convergence_checks import (
    FIRST_CHECK,
    AtPause,
    Checks,
    EachEpoch,
    GradientChecks,
)
from hogshare.engine.description import describe
from hogshare.engine.epoch_ends import EpochEnds
from hogshare.engine.gradient_steps import GradientSteps
from hogshare.engine.session import Session
from hogshare.engine.workspace import SessionSettings
from hogshare.kernels import layout
from hogshare.kernels.schedule import epoch_schedule
from hogshare.links.traffic import total
from hogshare.planes.mirrors import Exchanges
from hogshare.problems.model import Model, sum_of_squares
from hogshare.problems.protocol import by_gradient
from hogshare.report import Report
from hogshare.runtimes.blas import one_thread_each
from hogshare.runtimes.driver import polls_of
from hogshare.runtimes.hooks import OnEpoch, call_parts
from hogshare.runtimes.interpreter_exit import known
from hogshare.runtimes.protocol import Runtime
from hogshare.solvers import outcome
from hogshare.solvers.repeats import Repeatable
from hogshare.stragglers import Stragglers
from hogshare.system import memory
from hogshare.system.callers import warn
from hogshare.system.interrupts import errstate

if TYPE_CHECKING:
    from hogshare.engine.event_log import Recording

COPIES = 4  # fewest copies of a model in float64 in a fit: 27 to 58 bytes per coefficient in all


@dataclass(kw_only=True)
class Run:
    """A run with its final choices."""

    choices: Choices
    runner: Runtime
    notes: list[str]  # for the report; the run adds more
    began: float  # begin of the call of `solve`, by `time.perf_counter`
    start: Model | None  # the caller's start
    saved: Saved | None  # the run to resume
    checkpoint: Checkpoint | None
    facts: dict[str, Any]  # facts by which a checkpoint identifies the run
    stragglers: Stragglers | None
    on_epoch: OnEpoch | EpochEnds | None
    gradients: bool  # whether the trace has the gradient's norm
    seed: Any  # the caller's
    again: Repeatable
    seconds: dict[str, float] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        c = self.choices
        self.settings, self.shapes = describe(c)
        if c.record:
            from hogshare.engine.event_log import check_recordable

            check_recordable(self.settings, c.plane.has_homes)
        self.checks = checks_of(c)
        self.handed = assigned(self.start, self.settings.rule["iterate"])
        if not self.handed:
            memory.require(
                COPIES * 8 * c.problem.n_features * c.problem.n_columns,
                f"A fit of {c.problem.n_features:,} features",
            )

    def to_the_end(self) -> Report:
        """Prepare the run, run the workers, and return the report.

        Raises
        ------
        ValueError
            If the run diverges.
        """
        arrays = self.runner.allocate(self.shapes, row_arrays(self.choices.problem), self.handed)
        try:
            self.prepare(arrays)
            model = self.work()
            return self.report(model)
        finally:
            self.runner.close()  # after errors and interruptions too

    # -- before

    def prepare(self, arrays: dict[str, np.ndarray]) -> None:
        """Fill memory, compile kernels, and set up the evaluations of the model during the run."""
        c, saved, checks = self.choices, self.saved, self.checks
        asked = None if isinstance(c.barrier, BuiltIn) else c.barrier
        outside = GradientSteps(c.problem, c.rule) if by_gradient(c.problem) else None
        plane = c.plane if c.plane.has_homes else None
        session = Session(arrays, self.settings, asked, self.stragglers, outside, plane)
        fill(session, c.problem, c.rule, c.stop, c.step, self.start, c.remote_rows)
        next_check = FIRST_CHECK if self.start is None else 0  # a given start may be good enough
        if saved is not None:
            restore(session, saved)
            next_check = saved.next_check
            self.notes.append(f"resumed after {saved.epochs} epochs from {saved.path}")
        if checks is not None:
            session.raise_limit(next_check)
            if saved is not None:
                checks.go_on(session, saved.checks_seen)
            elif self.start is None:
                checks.begin(session)
        self.session, self.ends = session, None
        self.heard: OnEpoch | None = None
        self.writer: CheckpointWriter | None = None
        self.at_pause: AtPause | None = checks
        if isinstance(self.on_epoch, EpochEnds):
            self.ends = self.at_pause = self.on_epoch
            self.ends.begin(session)
        else:
            self.heard = self.on_epoch
        if self.checkpoint is not None:
            self._open_checkpoints(next_check)
        if self.heard is not None and self.on_epoch is not None and self._paces:
            self.at_pause = EachEpoch(self.at_pause, session)
        session.set_up_quanta(polls_of(session))
        self.runner.prepare(session)
        filled = time.perf_counter()
        session.worker(session.local_workers.start).prepare()
        if checks is not None:
            checks.prepare()
        self.doubt = confirmation_of(c, session)
        self.ready = time.perf_counter()
        self.seconds = {"setup": filled - self.began, "compile": self.ready - filled}

    @property
    def _paces(self) -> bool:
        """Whether workers pause at each epoch's end, while `on_epoch` reads the epoch's model.

        They do not pause in five cases: (1) each worker continues without the other workers; (2)
        the run has a virtual clock, whose times a pause would change; (3) the workers are on MPI
        ranks, which wait for each other at the end of each epoch anyway; (4) `on_epoch` only counts
        epochs; (5) the barrier is BSP: a worker would fold its changes before its pause, when other
        workers have not read the model yet, and this would change the bits of the result.
        """
        session = self.session
        return (
            getattr(self.on_epoch, "reads_models", True)
            and self.runner.name in ("threads", "processes")
            and session.settings.n_workers > 1
            and session.homes is None
            and not (session.plan.free or session.plan.ordered)
        )

    def _open_checkpoints(self, next_check: int) -> None:
        assert self.checkpoint is not None
        inside = self.runner.is_inside
        what = self.session, self.checkpoint, self.facts, self.checks
        writer = CheckpointWriter(*what, next_check, inside, self.runner.files)
        self.session.raise_limit(writer.limit)
        self.writer = writer
        self.heard, self.at_pause = writer.notified_by(self.heard), writer.at_pause

    # -- the run

    def work(self) -> Model:
        """Run the workers; return the model.

        Raises
        ------
        ValueError
            If the model has left the floating-point range.
        """
        session = self.session
        session.began = session.clock()
        with errstate(all="ignore") as ignored:  # an average may be too large for the rows' type
            try:
                with known(session), one_thread_each(session):
                    self.notes += ignored.outside(self._run)
            except BaseException:
                if self.handed:
                    session.settle()
                raise
            over = time.perf_counter()
            session.restore_sums()
            if session.homes is not None:
                session.homes.finish()
            # no `last` model with a writer: the final checkpoint needs the memory that it reuses
            model = session.model(last=self.runner.is_private and self.writer is None)
            remembered = session.remembered()
            self.squares = sum_of_squares(model.coef)
            is_finite = model.is_finite(self.squares)
        self.seconds["run"] = over - self.ready
        self.seconds["total"] = over - self.began
        if remembered is not None:
            model = dataclasses.replace(model, memory=remembered)
        if session.word(layout.STOP) == layout.STOPPED_BY_DIVERGENCE or not is_finite:
            raise diverged(session.word(layout.EPOCHS), self.choices)
        return model

    def _run(self) -> list[str]:
        """Run the workers, and run them again while the model does not meet the criterion."""
        self.outcome = self.runner.run(self.session, self.heard, self.at_pause)
        if self.ends is not None:
            self.ends.finish(self.session)
        notes, self.sent = list(self.outcome.notes), [self.outcome.traffic]
        while self.doubt is not None and self._must_go_on(self.doubt):
            go_on(self.session)
            self.outcome = self.runner.run(self.session, self.heard, self.at_pause)
            notes += self.outcome.notes
            self.sent.append(self.outcome.traffic)
        return notes

    def _must_go_on(self, doubt: Confirmation) -> bool:
        """Whether a run that `tol` has ended must continue; evaluates the model."""
        session = self.session
        if session.word(layout.STOP) != layout.STOPPED_BY_CRITERION:
            return False  # only an end by `tol` needs a confirmation
        return not doubt.confirm(session) and can_go_on(session) and not doubt.is_hopeless

    # -- after

    def report(self, model: Model) -> Report:
        """Return the report of the run."""
        c, session, checks, doubt = self.choices, self.session, self.checks, self.doubt
        if self.writer is not None:
            self.writer.finish()
            self.notes += self.writer.notes
        if outcome.is_absurd(c.problem, model, self.squares):
            warn(
                outcome.absurd(c.rule, c.step),
                ConvergenceWarning,
            )
            self.notes.append(outcome.absurd(c.rule, c.step))
        homes = session.homes
        if homes is not None and (remark := homes.plane.remark(homes.arrays)) is not None:
            warn(remark, ConvergenceWarning)
            self.notes.append(remark)
        if checks is not None:
            model = self._checked_model(checks, model)
        converged, why = self._end()
        described = outcome.settings(c, self.runner.name, session, self.seed)
        described |= self.runner.facts()
        if self.outcome.seconds is not None:
            self.seconds["virtual"] = self.outcome.seconds
        first = self.start if self.saved is None else self.saved.model()
        begun = 0 if self.saved is None else self.saved.epochs
        seen = c.problem.view(model)
        if seen.memory is not model.memory:
            seen = dataclasses.replace(seen, memory=model.memory)
        return Report(
            model=seen,
            settings=described,
            versions=outcome.versions(),
            machine=outcome.machine(),
            n_epochs=session.word(layout.EPOCHS),
            converged=converged,
            stop_reason=why,
            checks=[*(checks.seen if checks else []), *(doubt.seen if doubt else [])],
            epoch_losses=outcome.epoch_losses(session),
            trace=outcome.trace(session, c.problem, first, self.gradients, begun)
            if c.trace
            else None,
            workers=outcome.workers(session),
            staleness=outcome.staleness(session),
            ages=outcome.ages(session),
            turns=outcome.quanta_of(session),
            mail=outcome.mail(session),
            seconds=self.seconds,
            **self._account(),
            notes=self.notes,
            again=self.again,
            recording=recorded(session, c, self.settings, self.shapes, self.start)
            if c.record
            else None,
        )

    def _account(self) -> dict[str, Any]:
        """Return the traffic, and the account of a plane with homes, by the report's names."""
        session, sent = self.session, self.sent
        account = None if session.homes is None else session.homes.account()
        if not self.runner.counts_mail(session):
            own = getattr(account, "traffic", None)
            sent = [*sent, outcome.mail_traffic(session) if own is None else own]
        name = "exchanges" if isinstance(account, Exchanges) else "reduces"
        return {"traffic": total(sent), name: account}

    def _checked_model(self, checks: Checks, model: Model) -> Model:
        """Return the final model after a convergence check, which may set its intercept."""
        session = self.session
        if checks.seen and checks.seen[-1]["epoch"] >= session.word(layout.EPOCHS):
            return model  # the last check was of this model
        with errstate(all="ignore"):  # as for the checks during the run
            checks.act(session, call_parts)
        return dataclasses.replace(model, intercept=session.model().intercept)

    def _end(self) -> tuple[bool, str]:
        """Return whether a criterion was met, and the reason for the run's end as a sentence."""
        checks, doubt, reason = self.checks, self.doubt, self.session.word(layout.STOP)
        converged, why = reason == layout.STOPPED_BY_CRITERION, outcome.REASONS[reason]
        if doubt is not None and doubt.seen:
            if converged:
                converged = doubt.met
                why = why if converged else f"the losses no longer fall, but {doubt.sentence()}"
            else:
                self.notes.append(f"after {doubt.seen[-1]['epoch']} epochs {doubt.sentence()}")
        why = self.outcome.why or why
        if checks is not None:
            converged = checks.met
            if checks.hopeless:
                why = "the remaining epochs would not suffice"
            why = checks.sentence() if converged else f"{why}; {checks.sentence()}"
        return converged, why


def checks_of(c: Choices) -> Checks | None:
    """Return the convergence checks of a run, if a criterion needs them."""
    if not c.stop.has_checks:
        return None
    if by_gradient(c.problem):
        return GradientChecks(c.problem, c.stop)
    return Checks(c.problem, c.stop, c.rule.remembers)


def confirmation_of(c: Choices, session: Session) -> Confirmation | None:
    """Return the check that confirms an end by `tol`; None if not requested or not needed."""
    if not c.stop.confirm or c.stop.tol is None:
        return None
    doubt = Confirmation(c.problem, c.stop.tol, c.stop.epochs)
    if not doubt.is_needed(session):
        return None
    doubt.prepare()
    return doubt


def recorded(
    session: Session, c: Choices, settings: SessionSettings, shapes: Shapes, start: Model | None
) -> Recording | None:
    """Return the run's recording; None if a worker has died, since a part of it is lost."""
    from hogshare.engine.event_log import Recording, taken_from

    died = bool((session.schedule.table[:, layout.T_STATE] == layout.DEAD).any())
    events, proposals = taken_from(session)
    if died or len(events) < session.word(layout.COMPLETED):
        return None  # a replay needs every completed block
    exact = session.plan.private == epoch_schedule.MASTER
    return Recording(events, proposals, exact, settings, shapes, c.rule, c.step, c.stop, start)


class Diverged(ValueError):
    """A run's model has left the floating-point range."""


def diverged(epoch: int, c: Choices) -> Diverged:
    """Return the error for a run whose model left the floating-point range."""
    advice, what, too = "", "problem", ""
    if c.problem.has_rows:
        advice = "Scaling input data with StandardScaler or MinMaxScaler might help. "
        what, too = "data", " too"
    return Diverged(
        f"Floating-point under-/overflow occurred at epoch #{epoch}. {advice}The steps are too "
        f"large for this {what}: {c.rule.remedy(c.step)} might help{too}."
    )
