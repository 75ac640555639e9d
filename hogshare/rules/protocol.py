"""How a block of rows becomes a step: what every rule is, and declares of itself.

A rule of one's own, for problems whose gradient is a function, derives from `Rule` and writes
`step`. The rules that kernels know, for the rows of linear problems, are `SGD`, `SDCA` and `SAGA`,
each in its file: nobody else asks which of them a rule is, but for what it declares here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from hogshare.planes.protocol import Plane
from hogshare.rules.memories import RowMemory, Shapes
from hogshare.rules.memory_numbers import neutral
from hogshare.rules.run_choices import OtherChoices
from hogshare.rules.steps import StepSize
from hogshare.system.messages import own

if TYPE_CHECKING:
    from hogshare.problems.protocol import RowProblem


# what kernels are told of a step: the kind and the arrays of `hogshare.kernels.rules.momentum`, the
# step size and three numbers
Descent = tuple[int, np.ndarray | None, np.ndarray | None, float, float, float, float]
# the same of several steps, whose step size and three numbers are rows of an array
Descents = tuple[int, np.ndarray | None, np.ndarray | None, np.ndarray]


class Rule:
    """What every rule is; one of one's own derives from it.

    Attributes
    ----------
    average : int, default=0
        Rows from which on iterates are averaged; 0: they are not.
    batch : int, default=None
        Rows of a step; None: those of a block.

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
    batch: int | None = None
    coordinate: str | None = None
    # by which share of the step size the vector shrinks at each step besides; or which share of the
    # vector is added to the gradient that `step` gets
    weight_decay: float = 0.0
    decays_gradient: ClassVar[bool] = False
    # the longest gradient, by the root of its squares' sum: longer ones are shortened to it
    clip: float | None = None
    # of those that remember rows: whether they are drawn with replacement, and how often each is
    replace: bool = False
    sampling: str = "uniform"
    # what it remembers of rows, in arrays of which kernels know
    memory: ClassVar[RowMemory] = RowMemory()
    # whether kernels know it: the rows of a linear problem are stepped through in kernels only
    has_kernels: ClassVar[bool] = False
    # whether kernels know its steps by a gradient, too (`descent`)
    descends: ClassVar[bool] = False
    # whether it is one of those that remember rows, for which they have to be a linear problem's
    remembers: ClassVar[bool] = False
    # whether the model is a sum of what is remembered, of which nothing may then be dropped: a run
    # begins where both are zero, and workers have copies of their own
    is_sum: ClassVar[bool] = False
    # whether it may read neighbours together though rows in a wholly random order would be as near
    reads_neighbours: ClassVar[bool] = False
    # whether windows of neighbours are to be read in turn, where several are read abreast
    interleaves_windows: ClassVar[bool] = False

    @property
    def is_proportional(self) -> bool:
        """Whether a step is the gradient times the step size, and nothing else."""
        return False

    @property
    def is_plain(self) -> bool:
        """Whether its steps are each row's gradient times the step size, and nothing is averaged.

        A problem that has a pass of its own takes such steps by itself.
        """
        return False

    @property
    def draws(self) -> bool:
        """Whether an epoch is anything but a permutation of the rows."""
        return self.remembers and (self.replace or self.sampling != "uniform")

    def check(self, chosen: OtherChoices) -> None:
        """Refuse other choices with which it makes no sense.

        A rule of one's own that has conditions adds them to what this says of every rule.

        Parameters
        ----------
        chosen : Chosen
            Attributes ``problem``, ``plane``, ``step``, ``stop``, ``start``, ``shuffle``, ``block``
            as given to `solve`, but with words looked up.

        Raises
        ------
        TypeError
            If it lacks its step.
        ValueError
            With a sentence that says what to choose instead.
        """
        if not self.has_kernels and getattr(self.step, "__func__", None) is Rule.step:
            raise TypeError(
                f"{type(self).__name__} has no step: write step(self, gradient, eta), which makes "
                "a step of a gradient in place."
            )
        if chosen.problem.has_rows and not self.has_kernels:
            raise ValueError(
                f"{type(self).__name__} makes steps of gradients, and the rows of a linear problem "
                "are stepped through by SGD, SDCA or SAGA: use one of those, or state the problem "
                "by its gradient (problems.user)."
            )
        if self.average and chosen.plane.has_master and chosen.plane.cutoff is not None:
            raise ValueError(
                f"{own('SGD(average=...)')} counts every step, and Master(cutoff=...) drops some: "
                "leave out one."
            )
        if self.average and chosen.plane.is_direct:
            raise ValueError(
                f"{own('SGD(average=...)')} counts every change of a worker's own vector, and "
                "those of a centre write one: use Mirrors(inside=Shared())."
            )
        if chosen.problem.has_rows and chosen.stop.confirm and not self.remembers:
            raise ValueError(
                "Stop(confirm=True) asks whether the optimum is reached, around which SGD hovers: "
                "use SDCA() or SAGA()."
            )
        if chosen.problem.divisors is not None and not self.knows_units(chosen):
            raise ValueError(
                "A problem whose columns are in units of their own needs SAGA(), private copies "
                "and tol=."
            )

    def check_simulated(self, plane: Plane) -> None:
        """Refuse a plane on which a block is not read, then computed, then written.

        A Simulator takes it apart into these.

        Raises
        ------
        ValueError
        """

    def knows_units(self, chosen: OtherChoices) -> bool:
        """Whether its penalty is right where columns have been divided (`RowProblem.divisors`)."""
        return False

    def state(self, n_params: int) -> Shapes:
        """What it keeps with each worker from step to step: shapes and dtypes by name.

        By default nothing. Arrays begin as zeros, are the worker's own, and stand in checkpoints.
        The dtype "vector" is that of the vector.
        A rule that has some is called ``step(gradient, eta, state)``.

        Parameters
        ----------
        n_params : int
            Numbers of the vector.

        Returns
        -------
        dict of str to (tuple of int, dtype)
        """
        return {}

    def among(self, period: float) -> Rule:
        """The rule of a worker that takes one in so many of the run's steps; by default itself.

        For what goes by how many steps a run takes meanwhile, of which a worker sees its own.

        Parameters
        ----------
        period : float
            Steps of the run for one of the worker's, as measured; 1 where it takes all of them.

        Returns
        -------
        Rule
            One whose `state` is this one's.
        """
        return self

    def step(self, gradient: np.ndarray, eta: float, *state: Any, **others: Any) -> None:
        """Make a step of a gradient, in place: what is then subtracted from the vector.

        Parameters
        ----------
        gradient : ndarray
            Sum of the gradients of a block's rows, or of a mini-batch's: all of it, or, of a rule
            without a state, the numbers that have been touched.
        eta : float
            Step size.
        state : mapping of str to ndarray
            Only of a rule that has a `state`: the worker's own arrays. Setting one by its name
            writes its numbers.
        """
        raise NotImplementedError

    def descent(self, eta: float, *state: Any) -> Descent:
        """What a kernel that takes the step itself is told; the rule counts it as taken."""
        raise NotImplementedError

    def descents(self, etas: np.ndarray, *state: Any) -> Descents:
        """The same of steps one after the other, of some sizes; a rule may do it at once."""
        found = [self.descent(float(eta), *state) for eta in etas]
        return *found[0][:3], np.array([one[3:] for one in found])

    def numbers(self, problem: RowProblem, l1: float, n_rows: int, empty: bool) -> dict[str, Any]:
        """What kernels are told of how it remembers rows, and of its own steps.

        Parameters
        ----------
        problem : RowProblem
        l1 : float
            Share of l1 in the penalty.
        n_rows : int
            Rows that are trained on.
        empty : bool
            Whether nothing is remembered yet when the run begins.

        Raises
        ------
        ValueError
            If squared norms overflow.
        """
        return neutral(problem.loss, n_rows)

    def schedule(self, step: StepSize) -> dict[str, Any] | None:
        """How its step goes, in words and numbers; None where it has no step."""
        return dict(vars(step))

    def remedy(self, step: StepSize) -> str:
        """What makes its steps smaller than those of a step size."""
        if step.kind == "optimal":  # which goes by the penalty alone
            return own("a larger alpha")
        return own("a smaller eta0", f"a smaller {own('eta0')} than {step.eta0:g}")
