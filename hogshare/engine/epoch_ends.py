"""Decisions at the ends of epochs, while the workers are paused: whether to go on, and how.

An ordinary function that is passed as `on_epoch` to `hogshare.solve` decides only whether the run
goes on. On some planes, workers are already in the next epoch when the function is called. A
decision about the next epoch's order or step size needs paused workers. With such decisions, a run
of one worker and a run of several workers use the same loop over epochs.

Writers: the caller's thread writes the orders and the step size while no worker works. Readers: the
workers, when they go on. Freeing: the session's owner.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hogshare.engine.convergence_checks import AtPause
from hogshare.engine.session import Session
from hogshare.engine.stops import Stop
from hogshare.kernels import layout
from hogshare.kernels.rows.shared_passes import Each


class EpochEnd:
    """A run between two epochs.

    epoch : number of finished epochs
    n_workers : number of the run's workers, including workers without a block
    """

    def __init__(self, session: Session, each: Each = map) -> None:
        self._session = session
        self._each = each
        self.epoch = session.word(layout.EPOCHS)
        self.n_workers = session.settings.n_workers

    @property
    def loss(self) -> float:
        """Mean loss of the last epoch's rows; each loss is computed before the row's step."""
        return float(self._of_last()[0]) / self._session.schedule.order.shape[1]

    @property
    def sums(self) -> np.ndarray:
        """Sum of the last epoch's losses for each column (a copy), as the stop criterion uses it.

        Each row's loss is computed before the row's step. The sums are float64 of shape
        (n_columns,).
        """
        n = self._session.schedule.columns.shape[1]
        return self._of_last()[n : 2 * n].copy()

    def _of_last(self) -> np.ndarray:
        """All sums of the last epoch in the order of the kernels (a view)."""
        sums: np.ndarray = self._session.schedule.sums
        return sums[(self.epoch - 1) % len(sums)]

    @property
    def is_split(self) -> bool:
        """Whether the workers compute each mini-batch together."""
        return self._session.plan.split > 0

    @property
    def has_homes(self) -> bool:
        """Whether each worker, or each centre, has its own model."""
        return self._session.homes is not None

    def objective(self, problem: Any, params: np.ndarray) -> float:
        """Evaluate the objective of a `NetworkProblem`, with as many threads as workers."""
        return float(problem.objective(params, self._each, self.n_workers))

    def model(self) -> Any:
        """Return a copy of the model: a `Model`, or `Params` for a problem with a gradient."""
        return self._session.snapshot()

    def take_order(self, order: np.ndarray) -> None:
        """Set the order of the next epoch's rows, in a run with ``shuffle=False``."""
        schedule = self._session.schedule
        schedule.permutation[:] = order
        # overwrite the order of the next epoch, which may have been prepared before the pause
        schedule.order[self.epoch % 2] = order

    def take_step(self, eta: float) -> None:
        """Set the step size from now on, in a run with ``StepSize("adaptive")``."""
        self._session.schedule.columns[layout.C_ETA] = eta


class EpochEnds(AtPause):
    """Call a function at the end of every epoch; pass an instance to `solve` as `on_epoch`.

    decide : ``decide(end) -> bool`` gets an `EpochEnd` and returns whether to stop. `decide` is
        also called before the first epoch, and after the last epoch.
    """

    def __init__(self, decide: Callable[[EpochEnd], bool]) -> None:
        self.decide = decide
        self._decided = -1

    def check(self, stop: Stop, shuffle: bool, files: dict[str, Any]) -> None:
        """Refuse other choices that need decisions at the same moments."""
        given = [name for name, file in files.items() if file is not None]
        given += [*stop.criteria, *(["shuffle"] if shuffle else [])]
        if given:
            raise ValueError(
                f"An on_epoch that decides at the ends of epochs excludes {given[0]}=."
            )

    def begin(self, session: Session) -> None:
        """Decide about the first epoch."""
        self.decide(EpochEnd(session))
        self._decided = session.word(layout.EPOCHS)
        session.raise_limit(self._decided + 1)

    def act(self, session: Session, each: Each = map) -> int | None:
        """Decide at an epoch's end."""
        end = EpochEnd(session, each)
        self._decided = end.epoch
        return None if self.decide(end) else end.epoch + 1

    def finish(self, session: Session) -> None:
        """Decide about the last epoch, after which workers do not pause."""
        if session.word(layout.EPOCHS) > self._decided:
            self.act(session)
