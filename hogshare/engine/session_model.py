"""The model of a run as the caller reads it: the vector, averages of iterates, the memory of rows.

The vector may be read at any moment, but the values may include a part of a step under way.
Averages and the memory of rows are exact once every worker has left or paused.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hogshare.engine.homes import Homes
from hogshare.engine.rule_states import remembered_states
from hogshare.engine.workspace import Workspace
from hogshare.kernels import layout
from hogshare.kernels.schedule import epoch_schedule
from hogshare.problems.model import Model, as_coef, columns_last, shrunk
from hogshare.system.interrupts import errstate

AT_ONCE = 1 << 15  # numbers of a mean that are added up together, while they are in a cache


class SessionModel(Workspace):
    """A run's memory, read as a model."""

    homes: Homes | None = None

    def model(self, last: bool = False) -> Model:
        """Return the current model with its averages (exact once every worker has left).

        Coefficients are ordered in memory as in the run, feature by feature. In a run over sites
        with averages, every site must call the method (collective).

        last : whether every worker has left for good; if True, the model has the run's own arrays
            instead of copies
        """
        n_columns, vector = self.settings.n_columns, self.vector
        local = self.locals()
        w, intercept = vector.w, vector.intercept
        if self.homes is not None:
            w, intercept = self.homes.model()
        elif self.is_alone:
            # until the one worker leaves, the vector does not contain its scale and intercept
            if last:
                self._fold()
            else:
                scaled = w.reshape(-1, n_columns) * local[0, layout.L_SCALE]
                w = scaled.astype(w.dtype, copy=False).reshape(-1)
            intercept = local[0, layout.L_INTERCEPT]
        elif not last:
            w = w.copy()
        coef = shrunk(as_coef(w, n_columns), self.rule.threshold)
        intercept = intercept.astype(vector.w.dtype)
        n_all = round(self.schedule.order.shape[1] * self.plan.stride)
        t = self.rule.first_t + self.word(layout.EPOCHS) * float(n_all)
        if not self.rule.average:
            return Model(coef, intercept, t)
        average, bias = self.mean_of_iterates(last)
        return Model(coef, intercept, t, average, bias.astype(coef.dtype))

    def snapshot(self) -> Any:
        """Return the current model: a `Model`, or `Params` for a problem with a gradient."""
        model = self.model()
        return model if self.outside is None else self.outside.problem.view(model)

    def mean_of_iterates(self, last: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean of the iterates, as coefficients and intercepts.

        The mean includes the iterates of earlier runs. In a run over sites, every site must call
        the method (collective).

        last : whether this method may overwrite the run's own arrays
        """
        before = max(0.0, self.rule.first_t - self.rule.average)
        n_columns, kind = self.settings.n_columns, self.vector.w.dtype
        count, total, bias = self.sums_of_iterates(last)
        share = 1.0 / np.maximum(count + before, 1.0)
        bias = (bias + before * self.arrays["average_intercept"]) * share
        # below 1, the sum already contains the iterates of earlier runs, scaled by this weight
        if self.rule.iterate < 1.0:
            share, before = share / self.rule.iterate, 0.0
        if not (before or count.any()):
            mean = total if total.dtype == kind else np.zeros(total.shape, kind)
            return as_coef(mean, n_columns), bias
        first = columns_last(self.arrays["average_coef"]) if before else total
        if total.dtype == kind:
            out = total
        else:
            out = first if last and first.dtype == kind else np.empty(total.shape, kind)
        step = max(1, AT_ONCE // n_columns)
        shares = share[0] if (share == share[0]).all() else np.tile(share, step)
        for start in range(0, len(total), step * n_columns):
            part = slice(start, start + step * n_columns)
            piece = total[part]
            if before:
                piece += np.multiply(first[part], before, dtype=np.float64)
            of_piece = shares if np.ndim(shares) == 0 else shares[: len(piece)]
            np.multiply(piece, of_piece, out=out[part], casting="same_kind")
        return as_coef(out, n_columns), bias

    def settle(self) -> None:
        """Complete the model in the caller's own arrays, after a run that was broken off."""
        if not self.is_alone:
            return  # several workers write the vector at exchanges only, or unscaled
        with errstate(all="ignore"):
            self._fold()
            if self.rule.iterate < 1.0:
                self.mean_of_iterates(last=True)

    def _fold(self) -> None:
        """Multiply the one worker's scale into the vector, if the worker has not done so."""
        local, lag = self.locals()[0], self.arrays["lag"]
        w = self.vector.w.reshape(-1, self.settings.n_columns)
        if lag.size and local[layout.L_AVERAGE_SCALE].any():
            lag = lag[0, : self.size].reshape(w.shape)
            lag += local[layout.L_AVERAGE_SCALE] * w
            local[layout.L_AVERAGE_SCALE] = 0.0
        if (local[layout.L_SCALE] != 1.0).any():
            w[:] = local[layout.L_SCALE] * w
            local[layout.L_SCALE] = 1.0

    def sums_of_iterates(self, last: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return, per column, this run's number of iterates, their sum, and the sum of intercepts.

        In a run over sites, every site must call the method (collective).

        last : whether a lag may be overwritten; if True, the sum of one worker is its lag itself
            instead of a copy
        """
        local = self.locals()
        counts = local[:, layout.L_AVERAGE_COUNT]
        lag = self.arrays["lag"][:, : self.size]
        total = lag[0] if last and len(lag) == 1 else lag.sum(axis=0)
        # the part that is not in the lag yet: see `hogshare.kernels.rules.sgd_steps`
        in_place = (
            self.plan.private in (epoch_schedule.LOCK_FREE, epoch_schedule.MASTER)
            and not self.plan.copied
        )
        weights = counts if in_place else local[:, layout.L_AVERAGE_SCALE]
        for k in np.flatnonzero(weights.any(axis=1)):
            w = self.vector.w if in_place else self.private(self.local_workers.start + int(k)).w
            total = total + np.tile(weights[k], self.settings.n_features) * w
        found = counts.sum(axis=0), total, local[:, layout.L_AVERAGE_INTERCEPT].sum(axis=0)
        if self.over_sites is None:
            return found
        counts, total, bias = map(self.over_sites, found)
        return counts, total, bias

    def remembered(self) -> Any:
        """Return a copy of the memory of rows as derivatives; None if the rule has no memory.

        If steps are taken outside of kernels, return copies of each worker's rule state instead.
        Call it while no worker works.
        """
        if self.outside is not None:
            return remembered_states(self.arrays)
        found = self.row_memory.derivatives(self.arrays, self.settings.n_columns)
        return found if found is None or found.flags.owndata else found.copy()

    def mean_slopes(self) -> np.ndarray:
        """Current mean of the memory of rows: float64 of shape (n_columns,)."""
        if self.is_alone:
            return self.locals()[0, layout.L_DUAL_MEAN]
        return self.memory.dual_mean
