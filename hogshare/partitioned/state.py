"""The state of a descent on partitions, and pure functions that compute the next state.

::

    state -- every lane: a quantum from its model --> pushes -- fold --> the next state

A lane is a thread that takes a quantum in each round (see `schedule`); its result is a push. All
lanes of a round begin at the same model. The pushes are folded in the order of their lanes, with
the exchange's weights (`lane_folds`), which determine how much of several workers' changes may be
added. The next state is a function of only the state and the pushes. Any task that has these
computes the same bits, and a lost state can be computed again.

Writers: nothing writes a state after it is made. Readers: the tasks that receive a state, and the
client. Freeing: `descent` releases old states.

For the schedules of step sizes, the time t is the number of rows that the model has passed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hogshare.kernels.rules import losses, step_schedules
from hogshare.optimum.held_out_scores import Scores
from hogshare.partitioned.lane_folds import Weighing
from hogshare.partitioned.lane_quanta import Push
from hogshare.partitioned.partition_blocks import Meaning
from hogshare.problems.linear import effective_l1_ratio
from hogshare.problems.model import Model
from hogshare.rules.sgd import SGD
from hogshare.rules.steps import StepSize, optimal_start

SPARSE_INTERCEPT = 0.01  # the intercept's step as a share of the features', as in scikit-learn
FIFTH, LEAST_ETA = 5.0, 1e-6  # divisor and bound of the schedule 'adaptive', as in scikit-learn
# Typical share of a loss's curvature bound, for losses that are flat or straight in places. With
# the full bound, changes would be folded with smaller weights than possible (docs/exchange.md).
TYPICAL = {"log_loss": 0.25, "multinomial": 0.25, "hinge": 0.25, "perceptron": 0.25}
CURVATURES = 8  # number of quanta that report a curvature, a vector of the model's length


@dataclass(frozen=True)
class Criterion:
    """scikit-learn's criterion for each class: an epoch's value must fall by `tol`.

    The value of a class is its mean loss plus penalty. With held-out rows the value is minus the
    score of these rows, which must therefore rise.

    patience : number of epochs without such a fall after which a class stops learning
    best : for each class, its smallest value
    in_vain : for each class, the number of consecutive epochs without a fall by `tol` below `best`
    active : for each class, whether it still learns; the coefficients of other classes are fixed
    """

    step: StepSize
    tol: float | None
    patience: int
    best: np.ndarray
    in_vain: np.ndarray
    active: np.ndarray

    @classmethod
    def of(cls, step: StepSize, tol: float | None, patience: int, n_columns: int) -> Criterion:
        """Return the criterion before the first epoch."""
        return cls(
            step,
            tol,
            patience,
            np.full(n_columns, np.inf),
            np.zeros(n_columns, int),
            np.ones(n_columns, bool),
        )

    @property
    def is_met(self) -> bool:
        """Whether no class is still learning."""
        return not self.active.any()

    def after(self, values: np.ndarray, are_evaluated: bool = False) -> Criterion:
        """Return the criterion after an epoch with these values.

        are_evaluated : whether the values are the objective at the epoch's last model. If
            partitions differ in their labels these rise and fall while steps are long, so a class
            ends only with a model whose value is within `tol` of the best.
        """
        if self.tol is None:
            return self
        in_vain = np.where(values > self.best - self.tol, self.in_vain + 1, 0)
        best = np.minimum(self.best, values)
        vain = self.active & (in_vain >= self.patience)
        if are_evaluated:
            vain &= values <= best + self.tol
        if self.step.kind == "adaptive" and self.step.eta0 > LEAST_ETA:
            # all classes share one step size, which falls once no active class improves with it
            step = self.step
            if (vain | ~self.active).all():
                step = replace(step, eta0=step.eta0 / FIFTH)
                in_vain = np.zeros_like(in_vain)
            return replace(self, step=step, best=best, in_vain=in_vain)
        return replace(self, best=best, in_vain=in_vain, active=self.active & ~vain)


@dataclass(frozen=True)
class Average:
    """The mean of all iterates over quanta.

    begins : number of rows after which the mean begins; if 0, there is no mean
    rows : number of iterates, one for each row, in the mean
    coef, intercept : the mean in float64
    """

    begins: int
    rows: int = 0
    coef: Any = 0.0
    intercept: Any = 0.0

    def with_push(self, copy: Model, rows: int) -> Average:
        """Return the mean after including the iterates of a quantum.

        copy : the result of the quantum, with the mean of its iterates
        rows : number of these iterates
        """
        total = self.rows + rows
        part = rows / total
        return replace(
            self,
            rows=total,
            coef=self.coef + part * (copy.average_coef - self.coef),
            intercept=self.intercept + part * (copy.average_intercept - self.intercept),
        )


@dataclass(frozen=True)
class WorkerTally:
    """The numbers of a worker's quanta, rows and seconds so far."""

    quanta: int = 0
    rows: int = 0
    seconds: float = 0.0

    def __add__(self, other: WorkerTally) -> WorkerTally:
        return WorkerTally(
            self.quanta + other.quanta, self.rows + other.rows, self.seconds + other.seconds
        )


@dataclass(frozen=True)
class DescentTerms:
    """The constants of a descent.

    n_rows : number of rows of all partitions
    weighing : weighing of changes, whose curvature is still empty
    scores : constants of the scores of held-out rows; None if no row is held out
    evaluates : whether the losses of an epoch are evaluated after it, at its last model. The losses
        before the rows' steps would mislead the criterion if partitions differ in their labels: a
        quantum soon predicts the labels of its own rows, so its losses are small at any model
    """

    meaning: Meaning
    n_rows: int
    weighing: Weighing
    scores: Scores | None
    evaluates: bool = False


@dataclass(frozen=True)
class DescentState:
    """The progress of a descent.

    rows : number of rows that are done in the current epoch
    trained : number of these rows for which a step was taken
    losses : for each class, the sum of these rows' losses, each before its step
    value : mean loss plus penalty of each class, after the last epoch
    mean_losses : mean loss of each class in the last epoch, without the penalty
    curvature : mean of the reported curvatures
    curvatures : number of the reported curvatures
    absurd : for each partition, whether its last quantum found the model finite but useless
    staleness : entry k counts the pushes that were folded after k other pushes of their round
    tallies : tallies of the workers, by address
    """

    model: Model
    criterion: Criterion
    average: Average
    n_epochs: int = 0
    rows: int = 0
    trained: int = 0
    losses: Any = 0.0
    value: Any = None
    mean_losses: Any = None
    curvature: Any = 0.0
    curvatures: int = 0
    absurd: dict[int, bool] = field(default_factory=dict)
    staleness: tuple[int, ...] = ()
    tallies: dict[str, WorkerTally] = field(default_factory=dict)

    @property
    def has_ended(self) -> bool:
        """Whether the criterion is met."""
        return self.criterion.is_met


def folded(state: DescentState, terms: DescentTerms, pushes: list[Push]) -> DescentState:
    """Return the state after a round; `state` is not changed.

    pushes : the pushes of the round's lanes, in the order of the lanes

    Raises ValueError if the model leaves the range of floats.
    """
    if state.has_ended or not pushes:
        return state
    if counts := [push.counts for push in pushes if push.counts is not None]:
        assert terms.scores is not None
        return _after_epoch(state, -terms.scores.of(np.sum(counts, axis=0)))
    if sums := [push.evaluated for push in pushes if push.evaluated is not None]:
        state = _valued(state, terms, np.sum(sums, axis=0) / terms.n_rows)
        return _after_epoch(state, state.value, are_evaluated=True)
    base = state.model
    live = sum(bool(sum(push.trained)) for push in pushes)
    for behind, push in enumerate(pushes):
        state = _counted(state, push, behind)
        if rows := sum(push.trained):
            state = _with_change(state, terms, base, push, rows, live)
    if not state.model.is_finite():
        raise ValueError(
            "Floating-point under-/overflow occurred: the model has left the range of floats. "
            f"Scale the input (StandardScaler); {SGD().remedy(state.criterion.step)} might help "
            "too."
        )
    if state.rows < terms.n_rows:
        return state
    state = _valued(state, terms, state.losses / max(1, state.trained))
    is_open = terms.scores is not None or terms.evaluates  # a round without steps follows
    return state if is_open else _after_epoch(state, state.value)


def _valued(state: DescentState, terms: DescentTerms, means: np.ndarray) -> DescentState:
    """Return the state with the mean losses of its model."""
    value = means + _penalties(state.model, terms.weighing)
    return replace(state, value=value, mean_losses=means)


def _counted(state: DescentState, push: Push, behind: int) -> DescentState:
    """Return the state after including a push's rows and losses.

    behind : number of pushes of the round that have been folded before this push
    """
    tally = state.tallies.get(push.address, WorkerTally()) + WorkerTally(
        1, push.n_rows, push.seconds
    )
    counts = list(state.staleness) + [0] * (behind + 1 - len(state.staleness))
    counts[behind] += 1
    curvature, curvatures = state.curvature, state.curvatures
    if push.curvature is not None:
        curvatures += 1
        curvature = curvature + (push.curvature - curvature) / curvatures
    return replace(
        state,
        rows=state.rows + push.n_rows,
        trained=state.trained + sum(push.trained),
        losses=state.losses + np.sum(push.losses, axis=0),
        curvature=curvature,
        curvatures=curvatures,
        absurd={**state.absurd, **dict.fromkeys(push.partitions, push.absurd)},
        staleness=tuple(counts),
        tallies={**state.tallies, push.address: tally},
    )


def _with_change(
    state: DescentState, terms: DescentTerms, base: Model, push: Push, rows: int, live: int
) -> DescentState:
    """Return the state after folding a push's change of the model.

    base : the model at which the round began
    rows : number of rows for which the push took a step
    live : number of pushes of the round that changed the model
    """
    criterion, into, copy = state.criterion, state.model, push.model
    assert copy is not None
    if live == 1:  # the copy itself: adding its change to the base would round it
        model = Model(copy.coef, copy.intercept, into.t)
    else:
        model = _weighed(state, terms, base, copy, rows, live)
    if not (learns := criterion.active).all():
        coef = np.where(learns[:, np.newaxis], model.coef, into.coef)
        intercept = np.where(learns, model.intercept, into.intercept)
        model = Model(coef, intercept, model.t)
    average = state.average
    if copy.average_coef is not None:
        average = average.with_push(copy, push.averaged)
    return replace(state, model=replace(model, t=into.t + rows), average=average)


def _weighed(
    state: DescentState, terms: DescentTerms, base: Model, copy: Model, rows: int, live: int
) -> Model:
    """Return the model after folding in as much of a copy's change as its round allows.

    The parameters are as in `_with_change`; `copy` is the push's model.
    """
    typical = TYPICAL.get(terms.meaning.loss, 1.0)
    weighing = replace(terms.weighing, curvature=typical * np.asarray(state.curvature))
    eta = eta_at(state.criterion.step, terms.meaning, base.t + 0.5 * rows)
    return weighing.fold(state.model, base, copy, eta, rows, live)


def _after_epoch(
    state: DescentState, values: np.ndarray, are_evaluated: bool = False
) -> DescentState:
    return replace(
        state,
        criterion=state.criterion.after(values, are_evaluated),
        n_epochs=state.n_epochs + 1,
        rows=0,
        trained=0,
        losses=0.0,
    )


def _penalties(model: Model, weighing: Weighing) -> np.ndarray:
    """Return the penalty of each class."""
    coef = model.coef.astype(np.float64)
    squares, absolutes = 0.5 * np.square(coef).sum(axis=1), np.abs(coef).sum(axis=1)
    return np.asarray(weighing.l2 * squares + weighing.l1 * absolutes)


def weighing_of(meaning: Meaning, is_sparse: bool) -> Weighing:
    """Return the weighing for a problem, without curvature, which the first pushes report."""
    ratio = effective_l1_ratio(meaning.penalty, meaning.l1_ratio)
    alpha = 0.0 if meaning.penalty is None else meaning.alpha
    decay = SPARSE_INTERCEPT if is_sparse else 1.0
    bound = float(losses.CURVATURE[losses.CODES[meaning.loss]])
    return Weighing(np.zeros(0), bound * decay, alpha * ratio, alpha * (1.0 - ratio))


def eta_at(step: StepSize, meaning: Meaning, t: float) -> float:
    """Return the step size after `t` rows."""
    alpha = meaning.alpha
    init = 0.0
    if step.kind == "optimal":
        init = optimal_start(meaning.loss, meaning.epsilon, alpha)
    code = step_schedules.CODES[step.kind]
    return float(step_schedules.step_size(code, step.eta0, step.power_t, alpha, init, t))


def constant(step: StepSize) -> StepSize:
    """Return the schedule within a quantum, in which adaptive steps are constant.

    Adaptive steps change only between epochs.
    """
    return replace(step, kind="constant") if step.kind == "adaptive" else step
