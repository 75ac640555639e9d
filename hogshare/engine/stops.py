"""When a run ends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hogshare.system import ranges
from hogshare.system.deprecations import renamed
from hogshare.system.messages import own

CRITERIA = ("gradient", "gap", "relative_gap")  # the criteria of convergence checks


@renamed(looks="has_checks")
@dataclass(frozen=True)
class Stop:
    """Specify when a run stops: by epochs, and by `tol`, or `gradient`, `gap` and `relative_gap`.

    Parameters
    ----------
    epochs : int, default=10
        Maximum number of passes over the rows.
    tol : float or None, default=None
        Stop when the epoch's mean loss plus penalty (or the score on held-out rows) has not
        improved by `tol` for `patience` successive epochs. None: losses do not stop the run. The
        worker that completes an epoch decides whether to stop, from the losses of the epoch's
        steps.
    gradient : float or None, default=None
        Stop when the largest component of the objective's gradient mapping is at most this value.
        Without an l1 penalty, the gradient mapping is the gradient. Intercepts are included, and
        components are scaled by the units of their features; see Notes. Only for smooth losses.
    gap : float or None, default=None
        Stop when the duality gap is at most this value. The gap bounds how far the objective is
        above its minimum. Only for problems with a penalty.
    relative_gap : float or None, default=None
        Stop when the duality gap divided by the objective is at most this value.
    patience : int, default=5
        Number of successive epochs for `tol` (scikit-learn's ``n_iter_no_change``).
    give_up : bool, default=False
        Whether to end a run early if `gradient`, `gap` or `relative_gap` would not be met. From the
        third convergence check on, the run ends if it needs more than 1.5 times the remaining
        epochs at its recent rate, or if nothing has been gained after a fifth of the epochs.
    validation : ndarray of bool of shape (n_rows,) or None, default=None
        Held-out rows, on which the run never trains. If given, the score on these rows decides. A
        regression needs at least two such rows, because R squared of a single row is undefined and
        never ends a run.
    confirm : bool, default=False
        Whether a run that `tol` would end has a convergence check first. The check takes a step
        along the gradient, with each column's own scale. If such steps would still gain more than
        15 times `tol`, the run goes on. If the remaining epochs would not suffice, it ends
        unconverged instead. Only for the rules that converge to the optimum, `SDCA` and `SAGA`.

    Notes
    -----
    A convergence check evaluates `gradient` and the gaps at a model, in passes over all rows, after
    all workers have pushed their changes. The report has the values at the report's model. The
    first check comes after epoch 3. If the rule remembers rows, the next check comes once an epoch
    changes this memory by a small enough amount. Plain descent is checked after epoch 5, and later
    at the epoch at which the rate so far predicts the end. If several criteria are given, the run
    stops when all of them are met.

    **Scaling of `gradient`.** The components of the intercepts are not scaled. The component g_j of
    feature j's coefficient is scaled to ``|g_j| / D_j``, which is independent of the features'
    units::

        D_j = sqrt(r_j^2 + l2 / (L p_j)) / u

    r_j is the root mean square of the feature's nonzero values. (If the model has an intercept and
    the feature has no zeros, the feature's mean mean_j is subtracted first, and
    ``g_j - mean_j g_intercept`` replaces g_j.) p_j is the share of rows with a nonzero value, L the
    loss's curvature times the mean weight, and l2 the penalty's factor. u is the geometric mean of
    all r_j, weighted by p_j, but at least 0.05 and at most 1. With l1, the gradient mapping is
    computed for the coefficients ``D_j w_j``. A feature with ``D_j = 0`` does not count. If the
    penalty is weak, D_j is 1 for features of zeros and ones, and for standardised features without
    zeros. When the criterion is met, a change of one coefficient can reduce the objective by at
    most ``gradient^2 / (2 L p_j u^2)``. See `hogshare.problems.linear.units` and
    ``docs/logistic.md``.

    With a smooth loss and a rule that remembers rows (`SDCA`, `SAGA`), a check also sets the
    intercepts to the best intercepts for the current coefficients.

    Examples
    --------
    >>> from hogshare import Stop
    >>> Stop(epochs=100, tol=1e-3).patience
    5
    """

    epochs: int = 10
    tol: float | None = None
    patience: int = 5
    gradient: float | None = None
    gap: float | None = None
    relative_gap: float | None = None
    give_up: bool = False
    validation: np.ndarray | None = None
    confirm: bool = False

    def __post_init__(self) -> None:
        ranges.store_whole(1, self, "epochs", "patience")
        ranges.flag(confirm=self.confirm, give_up=self.give_up)
        for name in CRITERIA:
            if (value := getattr(self, name)) is not None:
                ranges.not_negative(**{name: value})
        if self.tol is not None and (not ranges.is_number(self.tol) or self.tol != self.tol):
            raise ValueError(f"tol must be a number or None; got {self.tol!r}.")
        if self.tol is not None and self.has_checks:
            given = " and ".join(["tol", *self.criteria])
            raise ValueError(f"give one of {given}: tol is a criterion of its own.")
        if self.confirm and (self.tol is None or self.validation is not None):
            raise ValueError(
                "confirm=True checks a run that tol= would end by its losses: give tol=, and leave "
                "validation= out, whose scores may be best at another model."
            )
        if self.give_up and not self.has_checks:
            raise ValueError(
                "give_up=True decides at convergence checks: give gradient=, gap= or relative_gap=."
            )
        if self.validation is not None and self.has_checks:
            raise ValueError(
                "gradient and gap are of the objective over all rows, and with validation= some "
                "are not trained on; use tol=."
            )
        if self.validation is not None:
            mask = np.asarray(self.validation)
            if mask.dtype != bool or mask.ndim != 1:
                raise ValueError("validation must be a one-dimensional mask of booleans.")

    @property
    def criteria(self) -> dict[str, float]:
        """The criteria of the convergence checks by name, each with the value it must reach."""
        values = {name: getattr(self, name) for name in CRITERIA}
        return {name: float(value) for name, value in values.items() if value is not None}

    @property
    def has_checks(self) -> bool:
        """Whether the run has convergence checks."""
        return bool(self.criteria)


def check_length(n_rows: int, validation: np.ndarray) -> None:
    """Refuse a mask whose length is not the number of the problem's rows."""
    if len(validation) != n_rows:
        raise ValueError(
            f"{own('Stop.validation')} must mark some but not all of the {n_rows} rows; it "
            f"has {len(validation)} entries and marks {int(np.count_nonzero(validation))}."
        )
