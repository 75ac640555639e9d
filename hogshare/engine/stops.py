"""When a run ends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hogshare.system import ranges
from hogshare.system.deprecations import renamed
from hogshare.system.messages import own

CRITERIA = ("gradient", "gap", "relative_gap")  # what a model is looked at for


@renamed(looks="has_checks")
@dataclass(frozen=True)
class Stop:
    """Stop criterion: `tol`, or any of `gradient`, `gap` and `relative_gap`, besides the epochs.

    Parameters
    ----------
    epochs : int, default=10
        Passes over the rows at the most.
    tol : float or None, default=None
        Stop when the epoch's mean loss plus penalty (or the score on held-out rows) has not
        improved by `tol` for `patience` epochs in a row. None: never. Decided at the end of every
        epoch by whichever worker completes it, from losses seen on the way.
    gradient : float or None, default=None
        Stop when the largest component of the gradient mapping of the objective (for penalties
        without l1, its gradient; intercepts included), each in the unit of its feature, is at most
        this; see Notes. For smooth losses.
    gap : float or None, default=None
        Stop when the duality gap, which bounds how far the objective is above its minimum, is at
        most this. For problems with a penalty.
    relative_gap : float or None, default=None
        The same, in proportion to the objective.
    patience : int, default=5
        See `tol` (scikit-learn's ``n_iter_no_change``).
    give_up : bool, default=False
        With one of these three: end the run at a convergence check, from the third on, if the rate
        so far foresees more than 1.5 times the epochs that are left, or if, after a fifth of the
        epochs, nothing has been gained.
    validation : ndarray of bool of shape (n_rows,) or None, default=None
        Rows that are never trained on; if given, the score on them decides. Of a regression two at
        least: R squared of a single row is not defined, and never ends a run.
    confirm : bool, default=False
        Whether a run that `tol` would end has a convergence check first: a step along the gradient,
        each column by its own scale. If such steps would still gain more than 15 times `tol`, the
        run goes on. If the epochs that are left would not do, it ends unconverged. For the rules
        that converge to the optimum, `SDCA` and `SAGA`.

    Notes
    -----
    `gradient` and the gaps are evaluated at a model in a convergence check: by passes over all
    rows, after all workers have pushed what they had. What the report says was reached is true of
    the model that it holds. The first check comes after epoch 3. The rules that remember rows say
    when the next one is worth it, by what an epoch changes in what they remember; plain descent is
    checked after epoch 5, and then where the rate so far foresees the end. Of several criteria all
    have to be met.

    **What is compared with `gradient`.** The components in the intercepts as they are; that in
    feature j's coefficient as ``|g_j| / D_j``, so that no choice of units decides::

        D_j = sqrt(r_j^2 + l2 / (L p_j)) / u

    r_j is the root mean square of the feature's values that are not zero (about its mean, if there
    is an intercept and no row has a zero; g_j is then ``g_j - mean_j g_intercept``), p_j the share
    of rows that have one, L the loss's curvature times the mean weight, l2 the penalty's factor,
    and u the geometric mean of all r_j by their p_j, but at least 0.05 and at most 1. With l1 it is
    the gradient mapping in the coefficients ``D_j w_j``. Of a feature with ``D_j = 0`` nothing
    counts. For features of zeros and ones, and for standardised ones without a zero, D_j is 1 where
    the penalty is weak. What one coefficient can still gain is at most
    ``gradient^2 / (2 L p_j u^2)``. See `hogshare.problems.linear.units` and ``docs/logistic.md``.

    With a smooth loss and a rule that remembers rows (`SDCA`, `SAGA`), a check also moves the
    intercepts to where they are best for the coefficients as they stand.

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
                "confirm=True looks at a run that tol= would end by its losses: give tol=, and "
                "leave validation= out, whose scores may be best elsewhere."
            )
        if self.give_up and not self.has_checks:
            raise ValueError(
                "give_up needs gradient=, gap= or relative_gap=, whose looks it goes by."
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
        """What the model has to be looked at for, and how small each has to be."""
        values = {name: getattr(self, name) for name in CRITERIA}
        return {name: float(value) for name, value in values.items() if value is not None}

    @property
    def has_checks(self) -> bool:
        """Whether the model has to be looked at on its way."""
        return bool(self.criteria)


def check_length(n_rows: int, validation: np.ndarray) -> None:
    """Refuse a mask that is not of the problem's rows."""
    if len(validation) != n_rows:
        raise ValueError(
            f"{own('Stop.validation')} must mark some but not all of the {n_rows} rows; it "
            f"has {len(validation)} entries and marks {int(np.count_nonzero(validation))}."
        )
