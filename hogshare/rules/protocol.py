"""The base class of rules, which make steps from blocks of rows, and its declarations.

A user's rule derives from `Rule` and defines `step`; it is for problems whose gradient is a
function. The rules with kernels for the rows of linear problems are `SGD`, `SDCA` and `SAGA`, each
in its own file. Other code does not test for these classes, but reads the class attributes that
`Rule` declares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from hogshare.planes.protocol import Plane
from hogshare.rules.row_memory import RowMemory, Shapes, neutral
from hogshare.rules.run_choices import OtherChoices
from hogshare.rules.steps import StepSize
from hogshare.system.deprecations import renamed
from hogshare.system.messages import own

if TYPE_CHECKING:
    from hogshare.problems.protocol import RowProblem


# arguments of kernels for a step: its kind in `hogshare.kernels.rules.momentum`, two arrays of the
# worker's state, the step size and three numbers
Descent = tuple[int, np.ndarray | None, np.ndarray | None, float, float, float, float]
# the same for several steps; the step size and the three numbers of a step are a row of an array
Descents = tuple[int, np.ndarray | None, np.ndarray | None, np.ndarray]


@renamed(turns_windows="interleaves_windows")
class Rule:
    """Base class of all rules, including users' rules.

    Attributes
    ----------
    average : int, default=0
        Number of rows after which the iterates are averaged. If 0, they are not averaged.
    batch : int, default=None
        Number of rows of a step; by default the rows of a block.

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
    # share of the vector that is added to the gradient before `step`, if `decays_gradient`;
    # otherwise each step also shrinks the vector by this share of the step size
    weight_decay: float = 0.0
    decays_gradient: ClassVar[bool] = False
    # largest Euclidean norm of a gradient; longer gradients are scaled down to this norm
    clip: float | None = None
    # for rules that remember rows: whether rows are drawn with replacement, and their distribution
    replace: bool = False
    sampling: str = "uniform"
    # the memory of rows, stored in arrays of the kernels
    memory: ClassVar[RowMemory] = RowMemory()
    # whether the rule has kernels: only kernels take steps for the rows of a linear problem
    has_kernels: ClassVar[bool] = False
    # whether kernels can also take the rule's steps by a gradient (`descent`)
    descends: ClassVar[bool] = False
    # whether the rule remembers rows; these must be the rows of a linear problem
    remembers: ClassVar[bool] = False
    # whether the model is a sum of remembered numbers, none of which may be dropped: a run begins
    # with model and memory at zero, and workers have private copies
    is_sum: ClassVar[bool] = False
    # whether rows may be read with their neighbours, even if rows in random order cost no more
    reads_neighbours: ClassVar[bool] = False
    # whether several windows of neighbours are read alternately, not one after another
    interleaves_windows: ClassVar[bool] = False

    @property
    def is_proportional(self) -> bool:
        """Whether a step is the gradient times the step size, without any other term."""
        return False

    @property
    def is_plain(self) -> bool:
        """Whether each step is a row's gradient times the step size, without averages.

        If a problem defines `advance`, this method of the problem takes such steps.
        """
        return False

    @property
    def draws(self) -> bool:
        """Whether the rows of an epoch are drawn, so an epoch is not a permutation of the rows."""
        return self.remembers and (self.replace or self.sampling != "uniform")

    def check(self, chosen: OtherChoices) -> None:
        """Raise an error if other choices of the run do not fit this rule.

        A user's rule may override this method to add conditions. Its method must call this method.

        Parameters
        ----------
        chosen : OtherChoices
            Object with the attributes ``problem``, ``plane``, ``step``, ``stop``, ``start``,
            ``shuffle`` and ``block``: the arguments of `solve`, with names replaced by objects.

        Raises
        ------
        TypeError
            If the rule has no `step`.
        ValueError
            If a choice does not fit; the message says what to choose instead.
        """
        if not self.has_kernels and getattr(self.step, "__func__", None) is Rule.step:
            raise TypeError(
                f"{type(self).__name__} has no step: write step(self, gradient, eta), which "
                "overwrites a gradient with the step."
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
                "leave one of them out."
            )
        if self.average and chosen.plane.is_direct:
            raise ValueError(
                f"{own('SGD(average=...)')} counts every change of a worker's own vector, and all "
                "workers of a centre write one vector: use Mirrors(inside=Shared())."
            )
        if chosen.problem.has_rows and chosen.stop.confirm and not self.remembers:
            raise ValueError(
                "Stop(confirm=True) waits until the optimum is reached, and SGD only hovers around "
                "it: use SDCA() or SAGA()."
            )
        if chosen.problem.divisors is not None and not self.knows_units(chosen):
            raise ValueError(
                "A problem whose columns have been divided needs SAGA(), private copies and tol=."
            )

    def check_simulated(self, plane: Plane) -> None:
        """Raise an error if a `Simulator` cannot use a plane with this rule.

        A simulator divides every block into three parts: read, compute, write.

        Raises
        ------
        ValueError
        """

    def knows_units(self, chosen: OtherChoices) -> bool:
        """Return whether the rule is correct for divided columns (`RowProblem.divisors`)."""
        return False

    def state(self, n_params: int) -> Shapes:
        """Return the shapes and dtypes, by name, of the arrays of a worker's state between steps.

        By default a rule has no state. Each worker has its own arrays, which begin as zeros and are
        stored in checkpoints. The dtype "vector" means the dtype of the vector. The engine calls a
        rule with a state as ``step(gradient, eta, state)``.

        Parameters
        ----------
        n_params : int
            Length of the vector.

        Returns
        -------
        dict of str to (tuple of int, dtype)
        """
        return {}

    def among(self, period: float) -> Rule:
        """Return the rule for a worker that takes one in `period` of the run's steps.

        By default this is the rule itself. Override this method if a step depends on the number of
        all steps of the run, because a worker counts only its own steps.

        Parameters
        ----------
        period : float
            Measured number of steps of the run per step of the worker; 1 if the worker takes all
            steps.

        Returns
        -------
        Rule
            A rule with the same `state`.
        """
        return self

    def step(self, gradient: np.ndarray, eta: float, *state: Any, **others: Any) -> None:
        """Overwrite a gradient with the step, which the caller then subtracts from the vector.

        Parameters
        ----------
        gradient : ndarray
            Sum of the gradients of the rows of a block or mini-batch; overwritten. It has the
            length of the vector. For a rule without a state, it may have only the elements that the
            gradient has written.
        eta : float
            Step size.
        state : mapping of str to ndarray
            The worker's own arrays, as views; only for a rule with a `state`. Setting an item
            copies the values into the array.
        """
        raise NotImplementedError

    def descent(self, eta: float, *state: Any) -> Descent:
        """Return the arguments for a kernel that takes the step, and count the step as taken.

        The arrays of the result are views of `state`, which the kernel changes.
        """
        raise NotImplementedError

    def descents(self, etas: np.ndarray, *state: Any) -> Descents:
        """Return the arguments for several successive steps, and count these steps as taken."""
        found = [self.descent(float(eta), *state) for eta in etas]
        return *found[0][:3], np.array([one[3:] for one in found])

    def numbers(self, problem: RowProblem, l1: float, n_rows: int, empty: bool) -> dict[str, Any]:
        """Return the numbers that describe the rule's memory of rows and its steps to kernels.

        Parameters
        ----------
        problem : RowProblem
        l1 : float
            Share of the l1 part in the penalty.
        n_rows : int
            Number of training rows.
        empty : bool
            Whether the memory is empty when the run begins.

        Raises
        ------
        ValueError
            If squared norms overflow.
        """
        return neutral(problem.loss, n_rows)

    def schedule(self, step: StepSize) -> dict[str, Any] | None:
        """Return the rule's step size as plain data, or None if the rule has no step size."""
        return dict(vars(step))

    def remedy(self, step: StepSize) -> str:
        """Return a phrase for a message, which names the setting that makes steps smaller."""
        if step.kind == "optimal":  # this schedule depends only on the penalty
            return own("a larger alpha")
        return own("a smaller eta0", f"a smaller {own('eta0')} than {step.eta0:g}")
