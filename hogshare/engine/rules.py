"""How a block of rows becomes a step.

A rule of one's own, for problems whose gradient is a function, derives from `Rule` and writes
`step`. The rules that kernels know, for the rows of linear problems, are `SGD`, `SDCA` and `SAGA`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hogshare import ranges
from hogshare.engine.steps import StepSize
from hogshare.words import nearest, own

COORDINATES = (None, "uniform", "support", "unbiased")


class Rule:
    """What every rule is; one of one's own derives from it.

    Attributes
    ----------
    average : int, default=0
        Rows from which on iterates are averaged; 0: they are not.
    batch : int, default=1
        Rows of a step; 1: those of a block.

    Examples
    --------
    Steps by the gradient's sign (signSGD, Bernstein et al. 2018):

    >>> import numpy as np
    >>> from hogshare import Rule, StepSize, problems, solve
    >>> class SignSGD(Rule):
    ...     def step(self, gradient, eta):
    ...         np.sign(gradient, out=gradient)
    ...         gradient *= eta
    >>> def distance(w, rows, out):
    ...     out += len(rows) * (w - 1.0)
    ...     return 0.5 * len(rows) * ((w - 1.0) ** 2).sum()
    >>> problem = problems.user(distance, n_rows=10, n_params=2)
    >>> report = solve(problem, rule=SignSGD(), step=StepSize("constant", 0.25), stop=4, block=10)
    >>> report.model.params.tolist()
    [1.0, 1.0]
    """

    average: int = 0
    batch: int = 1
    coordinate: str | None = None
    replace: bool = False  # whether rows are drawn with replacement,
    draws: bool = False  # or an epoch is anything else than a permutation of them
    # whether it is one of those that remember rows, for which they have to be a linear problem's
    remembers: ClassVar[bool] = False
    # whether what it remembers may begin anywhere, not only where the model is zero
    any_start: ClassVar[bool] = True
    # whether kernels know it: the rows of a linear problem are stepped through in kernels only
    has_kernels: ClassVar[bool] = False

    def step(self, gradient: np.ndarray, eta: float) -> None:
        """Make a step of a gradient, in place: what is then subtracted from the vector.

        Parameters
        ----------
        gradient : ndarray
            Sum of the gradients of a block's rows, or of a mini-batch's; all of it, or the numbers
            that have been touched.
        eta : float
            Step size.
        """
        raise NotImplementedError

    def schedule(self, step: StepSize) -> dict[str, Any] | None:
        """How its step goes, in words and numbers; None where it has no step."""
        return dict(vars(step))

    def remedy(self) -> str:
        """What makes its steps smaller."""
        return "a smaller step size (eta0), or a larger alpha with the 'optimal' schedule,"


@dataclass(frozen=True)
class SGD(Rule):
    """Stochastic gradient descent, row by row.

    Parameters
    ----------
    average : int or bool, default=0
        Average the iterates from this many rows on; True means from the first. 0: no average.
    batch : int, default=1
        Rows whose gradients are computed from one read of the model before any is written
        (AsySG-incon's M). They are summed, not averaged. Needs a plane without exchange, where
        other workers write between read and write; with private copies it must be 1.
    coordinate : {None, "uniform", "support", "unbiased"}, default=None
        None: all coordinates of the rows are written. Otherwise one for each mini-batch, as
        AsySG-incon is printed: "uniform" of all coordinates, (13) of the paper; "support" of those
        that the rows have, its sparse variant, whose expected step is not along the gradient;
        "unbiased" the same times their number, which makes the expected step that of the summed
        gradient. Needs ``Shared(exchange=None)``. A block is then one mini-batch.

    Notes
    -----
    Source of `batch` and `coordinate`: Lian, Huang, Li and Liu 2015, section 4.

    Examples
    --------
    >>> from hogshare import SGD
    >>> SGD(average=True)
    SGD(average=1, batch=1, coordinate=None)
    """

    average: int = 0
    batch: int = 1
    coordinate: str | None = None
    has_kernels: ClassVar[bool] = True

    def step(self, gradient: np.ndarray, eta: float) -> None:
        """The gradient times the step size."""
        np.multiply(gradient, eta, out=gradient)

    def __post_init__(self) -> None:
        if isinstance(self.average, bool):
            object.__setattr__(self, "average", int(self.average))
        ranges.keep_whole(0, self, "average")
        ranges.keep_whole(1, self, "batch")
        if not isinstance(self.coordinate, str | None) or self.coordinate not in COORDINATES:
            raise ValueError(
                f"coordinate must be one of {list(COORDINATES)}; got {self.coordinate!r}."
                f"{nearest(self.coordinate, COORDINATES)}"
            )


@dataclass(frozen=True)
class SDCA(Rule):
    """Stochastic dual coordinate ascent, row by row: no step size, and no noise that stays.

    Every row keeps one number per column, its dual variable. A step on a row solves the row's own
    part of the problem with everything else held fixed. Needs an l2 part in the penalty (its
    strength takes the step size's place) and starts from zero. Fast where features are as many as
    rows, as in text, or where ``mean |x|^2 / (alpha n)`` is at most a few; see ``docs/auto.md``.

    Source: Shalev-Shwartz and Zhang 2013 (SDCA) and 2014 (Prox-SDCA, for the elastic net). A first
    epoch begins as their "SDCA with SGD initialization", but with more than one row, by how far a
    row's step goes; losses with kinks do without. With several workers: private copies with
    exchange, where what an exchange holds back is kept.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from hogshare import SDCA, Stop, problems, solve
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> report = solve(problems.linear(scale(X), y, alpha=0.1), rule=SDCA(), stop=Stop(epochs=20))
    >>> report.settings["rule"]["name"]
    'SDCA'
    """

    remembers: ClassVar[bool] = True
    any_start: ClassVar[bool] = False
    has_kernels: ClassVar[bool] = True

    def schedule(self, step: StepSize) -> dict[str, Any] | None:
        """It has no step."""
        return None

    def remedy(self) -> str:
        """What makes its steps smaller."""
        return f"{own('a larger alpha')} (SDCA has no step size; the l2 penalty takes its place)"


@dataclass(frozen=True)
class SAGA(Rule):
    """Stochastic average gradients, row by row: no noise that stays.

    Every row remembers the derivative of its loss when it was last visited, or, where the loss has
    kinks, at the row's proximal point (Point-SAGA). With any loss and any penalty. Ahead of `SDCA`
    where rows are many beside features, unless ``mean |x|^2 / (alpha n)`` is small; see
    ``docs/auto.md``.

    Source: Defazio et al. 2014; on sparse rows Leblond et al. 2017 (ASAGA) and Pedregosa et al.
    2017 (ProxASAGA); for losses with kinks Defazio 2016 (Point-SAGA). With several workers: private
    copies with an exchange, or, with ``Shared(exchange=None)``, one shared vector without locks as
    in these papers.

    Parameters
    ----------
    step : float or None, default=None
        Step size, constant, as in the papers. None: 1 / (3 L) with L of the mean row, but at most
        1 / (2 L) of the largest, on average: it falls within every epoch, so that little noise is
        left at its end; and halved whenever what an epoch changes in the table keeps growing. With
        kinks in the loss: one to six thirds over the mean row's squared norm (for targets, times
        the median of their distances from their median), falling within the first eight epochs and
        by the cube root of their number, then constant at half of that; a run that begins with a
        model has that step at once.
    sampling : {"uniform", "importance"}, default="uniform"
        How often rows are visited. "uniform": all alike. "importance": half alike, half by their
        own L, so that large rows come often and take small steps; with it the automatic step is
        1 / (3 L) of the mean row however uneven rows are (Schmidt et al. 2015), or three quarters
        of that where one row is more than a twentieth of all squares.
    replace : bool, default=False
        False: an epoch is a permutation of the rows; with "importance" every row is visited one
        time more or less than its share at most. True: every visit is drawn by itself, as in the
        papers.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from hogshare import SAGA, Stop, problems, solve
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> report = solve(problems.linear(scale(X), y, alpha=0.01), rule=SAGA(), stop=Stop(epochs=20))
    >>> report.settings["rule"]["name"]
    'SAGA'
    """

    step: float | None = None  # type: ignore[assignment]
    sampling: str = "uniform"
    replace: bool = False
    remembers: ClassVar[bool] = True
    has_kernels: ClassVar[bool] = True

    @property
    def draws(self) -> bool:  # type: ignore[override]
        """Whether an epoch is anything but a permutation of the rows."""
        return self.replace or self.sampling != "uniform"

    def __post_init__(self) -> None:
        if not isinstance(self.sampling, str) or self.sampling not in ("uniform", "importance"):
            raise ValueError(f"sampling must be 'uniform' or 'importance'; got {self.sampling!r}.")
        if self.step is not None:
            ranges.positive(step=self.step)
        ranges.flag(replace=self.replace)

    def schedule(self, step: StepSize) -> dict[str, Any] | None:
        """Its own falls within every epoch, or with kinks in the loss within the first eight."""
        return {"kind": "falls" if self.step is None else "constant"}

    def remedy(self) -> str:
        """What makes its steps smaller."""
        chosen = "a smaller step than the one chosen from the rows, SAGA(step=...),"
        return own("SAGA(step=...)", chosen)
