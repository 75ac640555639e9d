"""Steps outside of kernels: the user's function, in any language, computes a block's gradient.

A quantum (`hogshare.kernels.schedule.outside_steps`) claims a block, and a `BlockWorker` takes the
block's step in the place that the plane prescribes:

- private copies, or the vector of an only worker: in the copy, which the quantum folds;
- the one vector without locks: in this vector, by NumPy's subtraction or by atomic adds;
- a master: in the worker's next slot, as a message that the quantum posts.

Alternatively, the problem itself takes a step for each row of the block
(`GradientProblem.advance`), in the copy or in the one vector. In this case, and if a block is
several mini-batches, the message to a master is the change of the worker's copy of the snapshot.

If a mini-batch is split, a block is a part of the mini-batch, and the worker writes the part's
gradient to its row of `parts`. The worker with the round's first section takes one step by the sum
of the parts.

Some problems take the steps of many mini-batches in one call (`EpochPlan.step_rows`). A block then
has `step_rows` mini-batches. The workers that split such a block are a team: each computes with a
slice of the vector and writes this slice at the block's end
(`hogshare.kernels.networks.network_training`). If a worker of the team dies, the worker with the
block's first part takes all steps of the block alone.

Writers: worker `me` writes its own copy, its own slots, its own row of `parts`, and its own `out`.
The worker that takes a step writes the one vector. For T_PART see
`hogshare.kernels.schedule.ordered_rounds`. Readers: the worker that takes the round's step reads
all rows of `parts`, after each worker's releasing store of T_READY. For other readers see
`hogshare.kernels.schedule.epoch_schedule`. Freeing: the session's owner.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hogshare.engine.participants import Worker
from hogshare.engine.rule_states import WorkerState
from hogshare.engine.workspace import Workspace
from hogshare.kernels import layout
from hogshare.kernels.exchange.copy_exchange import exchange_weight
from hogshare.kernels.mail.edge_slots import next_slot
from hogshare.kernels.networks.network_training import Values
from hogshare.kernels.rules import momentum, step_schedules
from hogshare.kernels.schedule import epoch_schedule, ordered_rounds, outside_steps
from hogshare.kernels.schedule.shares import rows_before, span_of
from hogshare.problems.gradient import (
    BlockClaim,
    GradientCaller,
    GradientProblem,
    NotFinite,
    Stepper,
)
from hogshare.problems.kernel_arrays import sealed
from hogshare.problems.network_trainer import TeamArrays
from hogshare.rules.protocol import Descents, Rule
from hogshare.shm.mailbox import NO_PLACES

OF_A_GRADIENT = ("descend", "part")  # methods of a compiled gradient besides its call
SMOOTHING = 0.25  # weight of the newest value in a worker's smoothed period of steps


def takes_passes(problem: GradientProblem, rule: Rule) -> bool:
    """Whether the problem itself takes the rows' steps, in passes."""
    is_one_step = problem.has_steps and rule.batch is not None  # a pass would include more rows
    return problem.has_pass and rule.is_plain and not is_one_step


@dataclass
class GradientSteps:
    """The problem and rule of a run's steps, in the form in which every worker receives them.

    around : functions that wrap the gradient of each worker; set them before the worker begins
    travels : whether some workers are processes; the runtime sets this before any worker begins
    """

    problem: GradientProblem
    rule: Rule
    around: list[Callable[[Callable[..., Any]], Callable[..., Any]]] = field(default_factory=list)
    travels: bool = False

    def __getstate__(self) -> dict[str, Any]:
        sent = {"problem": self.problem.for_process(), "rule": self.rule, "around": []}
        return {**sent, "travels": self.travels}

    def for_worker(
        self, me: int
    ) -> tuple[Callable[..., Any], Callable[[BlockClaim], object] | None]:
        """Return two functions for worker `me`: one takes rows, the other is notified of blocks."""
        passes = takes_passes(self.problem, self.rule)
        made = self.problem.advance_for_worker(me) if passes else self.problem.for_worker(me)
        return self._within(made), getattr(made, "begin", None)

    def trainer(self, *of_worker: Any) -> Callable[..., Any]:
        """Return the function that takes a block's steps for a worker: `NetworkProblem.trainer`."""
        return self._within(self.problem.trainer(*of_worker))  # type: ignore[attr-defined]

    def _within(self, call: Callable[..., Any]) -> Callable[..., Any]:
        of_call = {name: getattr(call, name) for name in OF_A_GRADIENT if hasattr(call, name)}
        for by in self.around:
            call = by(call)
            of_call = {name: by(method) for name, method in of_call.items()}
        if self.around:  # the wrapper needs the gradient's methods, too
            for name, method in of_call.items():
                setattr(call, name, method)
        return call

    @property
    def users(self) -> tuple[Any, ...]:
        """The user's own objects."""
        return *getattr(self.problem, "users", (self.problem,)), self.rule


def is_known(rule: Rule) -> bool:
    """Whether kernels take a rule's steps without any further work."""
    return rule.descends and not rule.average and not rule.weight_decay and rule.clip is None


def _counts(state: WorkerState) -> dict[str, np.ndarray]:
    """Copy the arrays of a rule's state that have exactly one number."""
    return {name: array.copy() for name, array in state.items() if array.size == 1}


class BlockWorker(Worker):
    """A worker whose steps are taken outside of kernels."""

    def __init__(self, session: Workspace, me: int) -> None:
        super().__init__(session, me)
        outside = session.outside
        assert outside is not None
        self.rule = self.rule_alone = outside.rule
        # ticket of this worker's last step; steps of the whole run per step of this worker
        self.ticket, self.period = -1, 0.0
        self.is_split = session.plan.split > 0
        self.state = WorkerState(
            session.arrays, 0 if self.is_split else me - session.local_workers.start
        )
        self.states = (self.state,) if self.state else ()
        self.call: GradientCaller | None = None
        self.advance: Stepper | None = None
        call, self.begin = outside.for_worker(me)
        if takes_passes(outside.problem, outside.rule):
            self.advance = Stepper(outside.problem, call)
        else:
            self.call = GradientCaller(outside.problem, call)
        plan = session.plan
        self.is_mailed = plan.private == epoch_schedule.MASTER
        # if all workers take a step together, or no curvature is known to weigh the step, it is
        # added
        is_weighed = plan.fold == epoch_schedule.MEAN or bool(self.vector.curvature.any())
        is_added = self.is_split or not is_weighed
        self.fold, self.one_of = epoch_schedule.SUM if is_added else plan.fold, 1
        self.is_lock_free = plan.private == epoch_schedule.LOCK_FREE and not plan.parts
        self.w = self.vector.w if self.is_lock_free else self.private.w
        self.seen = sealed(self.w)
        self.posts = self.is_mailed
        # a step that only changes the vector is taken in the same call as the gradient
        self.descends = (
            self.call is not None and self.call.descends and is_known(self.rule) and not plan.atomic
        )
        self.local = self.private.local[:, 0]
        self.order = sealed(session.schedule.order)
        self.outside = outside
        self.team = self._team() if plan.step_rows and self.is_split else None
        of_team = () if self.team is None else (self.me, plan.split, self.team)
        self.trainer = outside.trainer(plan.step_rows, *of_team) if plan.step_rows else None
        self.trainer_alone: Callable[..., Any] | None = None  # to go on without the team
        self.counted: tuple[int, list[dict[str, np.ndarray]]] = -1, []

    def _team(self) -> TeamArrays:
        """Return the shared arrays of the workers that compute a mini-batch together (views)."""
        arrays, schedule = self.session.arrays, self.session.schedule
        own = arrays["team_words"], arrays["parts"], arrays["team_before"]
        values = Values(*(arrays[f"team_{name}"] for name in Values._fields))
        n_layers = self.outside.problem.n_layers
        return TeamArrays(
            *own, values, schedule.table, schedule.control, n_layers, self.outside.travels
        )

    def first_quantum(self, nanoseconds: int) -> int:
        """Return 1, for one block: the time of a block is not known yet."""
        return 1

    def run_quantum(self, n_blocks: int) -> int:
        """Claim up to `n_blocks` blocks and take their steps; return a ``QUANTUM_`` answer."""
        while True:
            answer = super().run_quantum(n_blocks)
            if answer == layout.QUANTUM_STEP:
                self.step()
                n_blocks -= 1
            elif answer == layout.QUANTUM_GATHER:
                self.gather()
            else:
                return answer

    def step(self) -> None:
        """Take the steps of the block that the worker has claimed."""
        ticket, order, first, end, rows_so_far = self._block()
        rows = order[first:end]
        t = self.session.rule.first_t + rows_so_far
        if self.begin is not None:
            settings = self.session.settings
            epoch, block = divmod(ticket, self.session.plan.n_blocks)
            counts = int(rows_so_far), settings.n_workers
            self.begin(BlockClaim(epoch, block, settings.world.first, *counts))
        if self.trainer is not None:
            rows = self._batch(ticket, order) if self.is_split else rows
            self._train(self.trainer, ticket, rows, t)
            return
        if self.advance is not None:
            self._pass(self.advance, rows, t)
            return
        assert self.call is not None
        if self.is_split:
            self._part(self.call, rows, self._batch(ticket, order))
        else:
            self._pace(ticket)
            self._by_batches(self.call, rows, t)

    def _block(self) -> tuple[int, np.ndarray, int, int, float]:
        """Describe the block that the worker has claimed.

        Returns the block's ticket (the number of its claim), the order of its epoch (a view), its
        first and last place (exclusive) in this order, and the number of rows that the run visits
        before it.
        """
        plan, ticket = self.session.plan, int(self.table[layout.T_BLOCK])
        order = self.order[ticket // plan.n_blocks % 2]
        cut = plan.n_blocks, plan.block_rows, plan.shares, plan.split
        first, end, before = span_of(ticket % plan.n_blocks, len(order), *cut)
        return ticket, order, first, end, float(rows_before(ticket, len(order), before, plan))

    def _batch(self, ticket: int, order: np.ndarray) -> np.ndarray:
        """Return the rows of the mini-batch that a block is a part of."""
        plan = self.session.plan
        begin = ticket % plan.n_blocks // plan.split * plan.block_rows
        return order[begin : begin + plan.block_rows]

    def _pace(self, ticket: int) -> None:
        """Adapt the rule to a worker that takes only some of the run's steps.

        The period is the smoothed number of tickets from one of the worker's own steps to the next.
        If the other workers take no steps, the rule does not change. A worker with a home does not
        change its rule, because no other worker takes steps on the home's vector.
        """
        passed, self.ticket = ticket - self.ticket, ticket
        if self.home is not None or ticket == passed - 1 or passed < 1:
            return  # the worker's first block, or a block that another worker has left behind
        settings = self.session.settings
        period = passed * settings.n_workers / len(self.session.local_workers)
        self.period += (period - self.period) * (SMOOTHING if self.period else 1.0)
        self.rule = self.rule_alone.among(self.period)

    def _train(self, trainer: Callable[..., Any], ticket: int, rows: np.ndarray, t: float) -> None:
        """Take the steps of a block's mini-batches in one call, alone or as one of the team."""
        plan, table = self.session.plan, self.session.schedule.table
        block, part = divmod(ticket, max(1, plan.split))
        size = plan.step_rows
        # While this worker computes, the other workers of the team read counts of steps (such as
        # Adam's), so the counts change only at the end. A worker that repeats a block counts from
        # the block's start.
        if self.counted[0] != block:
            self.counted = block, [_counts(state) for state in self.states]
        copies = [
            {**state, **{name: count.copy() for name, count in counts.items()}}
            for state, counts in zip(self.states, self.counted[1], strict=True)
        ]
        etas = self._step_sizes(t + size * np.arange(-(-len(rows) // size)))
        descents = self.rule.descents(etas, *copies)
        states = table[:, layout.T_STATE]
        loss = None
        if not self.is_split or not np.isin(states, (layout.DEAD, layout.DONE)).any():
            loss = trainer(self.w, rows, descents, block)
        if loss is None and part == 0:
            loss = self._train_alone(rows, descents, block)
        if loss is not None and not np.isfinite(loss):
            self._is_divergence(surely=True)
            loss = 0.0
        elif part == 0:
            for state, own in zip(self.states, copies, strict=True):
                for name, array in own.items():
                    state[name] = array
        self.local[layout.L_LOSS] += loss or 0.0
        self.local[layout.L_CRITERION] += loss or 0.0
        if self.is_split:
            self.table[layout.T_PART] = 0 if part else ordered_rounds.STEPPED

    def _train_alone(self, rows: np.ndarray, descents: Descents, block: int) -> float:
        """Take the steps of a block in place of a team that has lost a worker."""
        assert self.team is not None
        plan, (_, first, second, numbers) = self.session.plan, descents
        vectors = [one for one in (self.w, first, second) if one is not None]
        of_block = block, len(numbers)
        self.team.break_up(self.me, *of_block)
        if self.team.is_through(*of_block):
            return 0.0  # the lost worker had completed the block
        self.team.put_back(block, vectors)
        self.trainer_alone = self.trainer_alone or self.outside.trainer(plan.step_rows)
        self.team.save(self.me, block, vectors)
        loss: float = self.trainer_alone(self.w, rows, descents, block)
        self.team.note_through(*of_block)
        return loss

    def _part(self, call: GradientCaller, rows: np.ndarray, batch: np.ndarray) -> None:
        if not len(rows):
            return
        share = call.problem.share_of(rows, batch)
        part = self.session.arrays["parts"][self.me][: len(self.w)]
        try:
            loss = call.part(self.seen, rows, share, part)
        except NotFinite:
            if not self._is_divergence(call.problem.overwrites):
                raise
            return
        loss *= share * len(batch) / len(rows) if call.problem.by_mean else 1.0
        self.local[layout.L_LOSS] += loss
        self.local[layout.L_CRITERION] += loss
        self.table[layout.T_PART] = len(rows)

    def gather(self) -> None:
        """Take the step of the round's mini-batch in this worker's section; no worker computes."""
        table, call = self.session.schedule.table, self.call
        assert call is not None
        # not the part of a dead worker: another worker repeats its block, and that part counts
        waiting = (table[:, layout.T_PART] > 0) & (table[:, layout.T_STATE] != layout.DEAD)
        parts = np.flatnonzero(waiting)
        n_rows = int(table[parts, layout.T_PART].sum())
        table[:, layout.T_PART] = 0
        ticket, order, _, _, rows_so_far = self._block()
        # after a death, a round may lack a part: the step is the mean over the present rows,
        # times their share of the mini-batch
        share = n_rows / len(self._batch(ticket, order))
        self.rule = self.rule_alone.among(share)
        t = self.session.rule.first_t + rows_so_far
        self._take_together(parts, share, share * self._step_size(t), n_rows, t)
        self.table[layout.T_PART] = ordered_rounds.STEPPED

    def _take_together(
        self, parts: np.ndarray, share: float, eta: float, n_rows: int, t: float
    ) -> None:
        """Take a step by the sum of the parts; the order of the workers determines its bits."""
        rows, n = self.session.arrays["parts"], len(self.w)
        self.posts = self.is_mailed
        is_plain = share == 1.0 and not self.posts and not self.session.plan.atomic
        if is_plain and is_known(self.rule):
            kind, first, second, *numbers = self.rule.descent(eta, *self.states)
            own = rows[parts[0]]
            first, second = (own if array is None else array for array in (first, second))
            momentum.descend_sum(self.w, rows, parts, first, second, kind, *numbers)
            return
        total = rows[parts[0], :n]  # a view: the sum replaces the first worker's part
        for k in parts[1:]:
            total += rows[k, :n]
        if share != 1.0:
            total /= total.dtype.type(share)
        self._move(total, None, eta, n_rows, t)

    def _pass(self, advance: Stepper, rows: np.ndarray, t: float) -> None:
        """Let the problem take a step for each row, on the plane's vector."""
        try:
            loss = advance(self.w, rows, self._step_size(t))
        except NotFinite:
            if not self._is_divergence():
                raise
            loss = 0.0
        self.local[layout.L_LOSS] += loss
        self.local[layout.L_CRITERION] += loss
        if self.is_mailed:
            # the base is the snapshot that the block began with
            changed = np.flatnonzero(self.private.base != self.w)
            away = self.private.base[changed] - self.w[changed]
            self._write_message(changed, self._weighed(changed, away, len(rows)))

    def _weighed(self, places: np.ndarray | None, step: np.ndarray, n_rows: int) -> np.ndarray:
        """Weigh a step of `n_rows` rows, because other messages begin near the same vector.

        If many rows of a pass touch a coordinate, each pass moves the coordinate to its optimum.
        The sum of several such passes would move it several times as far
        (`hogshare.kernels.exchange.master_updates`).
        """
        if self.fold == epoch_schedule.SUM:
            return step
        session = self.session
        groups = session.plan, session.schedule, session.mail
        self.one_of = int(outside_steps.count_proposals(*groups, self.me))
        if self.fold == epoch_schedule.MEAN or self.one_of == 1:
            return step / step.dtype.type(self.one_of)
        curvature = self.vector.curvature if places is None else self.vector.curvature[places]
        z = float(self.local[layout.L_ETA]) * n_rows * curvature
        return step * exchange_weight(z, float(self.one_of)).astype(step.dtype)

    def _is_divergence(self, surely: bool = False) -> bool:
        """Return whether too long steps took the vector out of range; if they did, stop the run."""
        if not surely and np.isfinite(self.w).all():
            return False
        if self.table[layout.T_SITE] == layout.ONE_SITE:
            self.session.stop(layout.STOPPED_BY_DIVERGENCE)
        else:
            # the runtime stops all sites at the same point
            self.table[layout.T_STOPS] = layout.STOPPED_BY_DIVERGENCE
        return True

    def _by_batches(self, call: GradientCaller, rows: np.ndarray, t: float) -> None:
        size = self.rule.batch or max(self.session.plan.block_rows, len(rows))
        # several steps make one message: they are taken on the copy, and the copy's change is sent
        self.posts = self.is_mailed and len(rows) <= size
        for begin in range(0, len(rows), size):
            batch = rows[begin : begin + size]
            eta = self._step_size(t)
            try:
                if self.descends and not self.posts:
                    descent = self.rule.descent(eta, *self.states)
                    loss = call.descend(self.seen, batch, self.w, descent)
                else:
                    loss, places = call(self.seen, batch)
                    self._move(call.out, places, eta, len(batch), t)
            except NotFinite:
                # a built-in gradient is finite wherever the vector is of a sensible size
                if not self._is_divergence(call.problem.overwrites):
                    raise
                loss = 0.0
                if self.posts:
                    self._write_message(NO_PLACES, self.w[:0].copy())
            self.local[layout.L_LOSS] += loss
            self.local[layout.L_CRITERION] += loss
            t += len(batch)
        if self.is_mailed and not self.posts:
            away = self.private.base - self.w
            step = self._weighed(None, away, len(rows))
            # the iterates of this block are the copy's; later iterates contain the added share
            self._count_change(None, step - away, t)
            self._write_message(None, step)

    def _step_sizes(self, times: np.ndarray) -> np.ndarray:
        """Return the sizes of successive steps at the times `times`."""
        if self.session.rule.schedule in (step_schedules.ADAPTIVE, step_schedules.CONSTANT):
            return np.full(len(times), self._step_size(float(times[0])))
        return np.array([self._step_size(float(t)) for t in times])

    def _step_size(self, t: float) -> float:
        rule, columns = self.session.rule, self.session.schedule.columns
        if rule.schedule == step_schedules.ADAPTIVE:
            eta = float(columns[layout.C_ETA, 0])
        else:
            eta = float(
                step_schedules.step_size(rule.schedule, rule.eta0, rule.power_t, 0.0, 0.0, t)
            )
        self.local[layout.L_ETA] = eta
        return eta

    def _move(
        self, out: np.ndarray, places: np.ndarray | None, eta: float, n_rows: int, t: float
    ) -> None:
        """Take one step from the gradient in `out`."""
        if self.state:  # a rule with a state also moves coordinates in which this gradient is zero
            step, places = out if places is None else out.copy(), None
        else:
            step = out if places is None else out[places]
        if self.rule.clip is not None:
            momentum.shorten(step, float(self.rule.clip))
        if self.rule.decays_gradient:
            self._decay(step, places, self.rule.weight_decay)
        self.rule.step(step, eta, *self.states)
        if not self.rule.decays_gradient:
            self._decay(step, places, eta * self.rule.weight_decay)
        if self.posts:
            step = self._weighed(places, step, n_rows)
        self._count_iterates(places, step, n_rows, t)
        if self.posts:
            self._write_message(places, step)
        elif self.is_lock_free and self.session.plan.atomic:
            outside_steps.subtract(self.w, NO_PLACES if places is None else places, step)
        elif places is None:
            np.subtract(self.w, step, out=self.w)
        else:
            self.w[places] -= step

    def _decay(self, step: np.ndarray, places: np.ndarray | None, share: float) -> None:
        """Add a share of the vector to a gradient, or to a step, at its places."""
        if share:
            seen = self.w if places is None else self.w[places]
            step += self.w.dtype.type(share) * seen

    def _write_message(self, places: np.ndarray | None, step: np.ndarray) -> None:
        """Write the message to a master: the negative step, which the master adds."""
        box, count = self.session.mail.box, len(step)
        edge = self.me, next_slot(box, self.me)
        head, values = box.heads[edge], box.values[edge]
        values[box.places.shape[2]] = 0.0  # the intercept
        if places is None:
            values = values.view(self.w.dtype)
        else:
            box.places[edge][:count] = places
        np.negative(step, out=values[:count])
        head[layout.H_COUNT] = -(-count * values.itemsize // box.values.itemsize)
        head[layout.H_DENSE], head[layout.H_WHOLE] = 1, places is None
        head[layout.H_PROPOSALS] = self.one_of

    def _averaged_from(self) -> float:
        """Count the run's rows before the first counted iterate, which begins a mini-batch."""
        rule, plan = self.session.rule, self.session.plan
        n_rows = self.order.shape[1]
        size = self.rule.batch or plan.block_rows
        epochs_before, rows = divmod(max(0.0, rule.average - rule.first_t), float(n_rows))
        first = min(float(n_rows), -(-rows // size) * size)
        return rule.first_t + epochs_before * n_rows + first

    def _count_iterates(
        self, places: np.ndarray | None, step: np.ndarray, n_rows: int, t: float
    ) -> None:
        """Add a step's iterate to the sum of iterates, once for each of its rows.

        The iterate is the vector w after the step. The sum of N iterates is ``N w``, minus each
        change times the number of iterates before this change. For private copies see
        `hogshare.kernels.rules.sgd_steps`, and for the one vector
        `hogshare.kernels.rules.hogwild_steps`.
        """
        if not 0 < self.session.rule.average <= t:
            return
        self._count_change(places, step, t)
        if self.session.plan.private not in (epoch_schedule.LOCK_FREE, epoch_schedule.MASTER):
            self.local[layout.L_AVERAGE_SCALE] += n_rows
        self.local[layout.L_AVERAGE_COUNT] += n_rows

    def _count_change(self, places: np.ndarray | None, step: np.ndarray, t: float) -> None:
        """Correct the sum of iterates for a change (the negative `step`) that they do not have."""
        if not 0 < self.session.rule.average <= t:
            return
        if self.session.plan.private in (epoch_schedule.LOCK_FREE, epoch_schedule.MASTER):
            before = t - self._averaged_from()
        else:
            before = self.local[layout.L_AVERAGE_SCALE]
        if before:
            change = before * step.astype(np.float64, copy=False)
            self.private.lag[slice(None) if places is None else places] += change
