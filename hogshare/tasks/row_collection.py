"""A distributed collection: rows in partitions, with a plan of tasks on them.

A collection never changes. Each method returns a new collection and does no work; only `reduce` and
`aggregate` submit tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from hogshare.shm.table import ProgressTable
from hogshare.system.ranges import is_number
from hogshare.tasks.admission import Gate
from hogshare.tasks.broadcasts import Broadcast
from hogshare.tasks.dispatch import Data, Dispatch
from hogshare.tasks.nested_values import add
from hogshare.tasks.plans import GradientOf, TaskPlan

EACH = ("block", "row")
NO_PLAN = TaskPlan(None)


@dataclass(frozen=True, eq=False)
class Collection:
    """Rows in partitions, and a plan of tasks on them; made by `AsyncContext.parallelize`.

    Source: Soori et al. 2019 (ASYNC): the distributed data set, and the ``ASYNC...`` operations in
    Table I.

    Attributes
    ----------
    n_rows : int
        Number of rows of all partitions.
    n_partitions : int
        Number of partitions.
    """

    dispatch: Dispatch
    data: Data
    gate: Gate
    plan: TaskPlan = NO_PLAN
    broadcasts: tuple[Broadcast, ...] = ()
    is_mapped: bool = False

    @property
    def n_rows(self) -> int:
        """Number of rows of all partitions."""
        return self.data.n_rows

    @property
    def n_partitions(self) -> int:
        """Number of partitions."""
        return self.data.n_parts

    def barrier(self, barrier: Any) -> Collection:
        """Give tasks only to available workers that the barrier lets pass.

        This method is the paper's ``ASYNCbarrier(f, STAT)``. In the table that the barrier sees,
        workers without rows of this collection are not in the run.

        Parameters
        ----------
        barrier : Barrier, str or callable
            One of `hogshare.barriers`, or a function. The function takes the progress table,
            ``stat -> bool``, such as ``lambda stat: stat.available_workers >= 6``, or it takes the
            table and the number of a worker, ``(stat, me) -> bool``.

        Returns
        -------
        Collection
        """
        return replace(self, gate=Gate(barrier, self.dispatch.seed))

    def sample(self, rate: float, replace: bool = False) -> Collection:
        """Draw a sample of the rows for every task.

        Parameters
        ----------
        rate : float
            Probability in (0, 1] with which each row is drawn.
        replace : bool, default=False
            Whether a row may be drawn more than once.

        Returns
        -------
        Collection

        Raises
        ------
        ValueError
            If the rate is outside (0, 1], or if the collection is already a sample.
        """
        if not is_number(rate) or not 0.0 < float(rate) <= 1.0:
            raise ValueError(f"rate must be above 0 and at most 1; got {rate!r}.")
        if self.plan.rate != 1.0 or self.plan.replace:
            raise ValueError("this collection is sampled already: sample the unsampled one.")
        return self._with(rate=float(rate), replace=bool(replace))

    def map(
        self,
        f: Any,
        *broadcasts: Broadcast,
        each: str = "block",
        history: bool = False,
    ) -> Collection:
        """Call a function with the drawn rows of each task.

        Parameters
        ----------
        f : callable or problem
            A function ``f(rows, *values)``, or a problem, or its ``problem.gradient``. The argument
            `rows` is ``(X, y)``, or X if there is no y. The arguments `values` are the arrays of
            the broadcasts, which are read-only. With a problem or its gradient, the problem's
            kernel computes the value, which is the sum of the gradients of the drawn rows. Each
            worker receives the function once, so pass values that change from task to task as
            broadcasts.
        *broadcasts : Broadcast
        each : {"block", "row"}, default="block"
            What one call of `f` receives. "block": all drawn rows of a partition, as arrays. "row":
            one row, ``(x, y)``.
        history : bool, default=False
            Whether `values` are handles in place of arrays. The array of a handle is ``.value``.
            Its methods ``.value_at(i)`` and ``.groups()`` return the version with which each row
            was last used, see `hogshare.tasks.handles.Handle`.

        Returns
        -------
        Collection
        """
        problem = self._problem_of(f)
        if problem is not None:
            if problem.n_rows != self.n_rows:
                raise ValueError(
                    f"the problem has {problem.n_rows} rows, and the collection {self.n_rows}: "
                    "pass a problem of the same rows, in the same order."
                )
            if each != "block" or history or len(broadcasts) != 1:
                raise ValueError(
                    "a problem's gradient takes each='block', one broadcast and history=False; got "
                    f"each={each!r}, {len(broadcasts)} broadcasts, and history={history!r}."
                )
            return self._mapped(GradientOf(problem), broadcasts, with_index=True)
        return self._mapped(f, broadcasts, each=each, history=history)

    def map_with_index(
        self,
        f: Callable[..., Any],
        *broadcasts: Broadcast,
        each: str = "block",
        history: bool = False,
    ) -> Collection:
        """Call a function as `map` does, with the row numbers first: ``f(index, rows, *values)``.

        This method is the paper's ``mapWithIndex``. With ``each="block"`` the index is an array of
        int64; with ``each="row"`` it is a number.

        Returns
        -------
        Collection
        """
        return self._mapped(f, broadcasts, each=each, history=history, with_index=True)

    def reduce(
        self, op: Callable[[Any, Any], Any] = add, timeout: float | None = None
    ) -> list[int]:
        """Give one task to each available worker that the barrier lets pass, and return.

        This method is the paper's ``ASYNCreduce``. A task draws rows from the worker's partitions
        that are not in another task. The task folds the function's values in the order of
        partitions and rows, so its value has the same bits on any worker. Collect the result with
        the context.

        Parameters
        ----------
        op : callable, default=hogshare.tasks.add
            A function of two values. The default adds arrays and numbers, and tuples, lists and
            dicts part by part; ``operator.add`` concatenates tuples and lists.
        timeout : float, optional
            Seconds to wait for the barrier. By default the call waits as long as tasks are under
            way, and at most ten seconds after that.

        Returns
        -------
        list of int
            The workers that have received a task.

        Raises
        ------
        BarrierError
            If the barrier raises an exception, or can never be met.
        TimeoutError
            If the barrier lets no worker pass within `timeout`.
        ValueError
            If a function cannot be sent to workers.
        """
        if not callable(op):
            raise TypeError(f"op must be a function of two values; got {op!r}.")
        return self._hand_out(self._planned(op=op), timeout)

    def aggregate(
        self,
        zero: Any,
        seq_op: Callable[[Any, Any], Any],
        comb_op: Callable[[Any, Any], Any],
        timeout: float | None = None,
    ) -> list[int]:
        """Submit tasks as `reduce` does; fold values of one type into a sum of another type.

        This method is the paper's ``ASYNCaggregate``.

        Parameters
        ----------
        zero : object
            Initial sum. The fold of each partition begins with a deep copy of it.
        seq_op : callable
            Function ``seq_op(sum, value)``, called for each value of the mapped function, or for
            each row if no function is mapped. It returns the new sum, and may change its first
            argument.
        comb_op : callable
            Function ``comb_op(sum, sum)``, called for the sums of two partitions.
        timeout : float, optional
            As in `reduce`.

        Returns
        -------
        list of int
        """
        for name, op in (("seq_op", seq_op), ("comb_op", comb_op)):
            if not callable(op):
                raise TypeError(f"{name} must be a function of two values; got {op!r}.")
        plan = self._planned(aggregate=(zero, seq_op, comb_op))
        return self._hand_out(plan, timeout)

    def _problem_of(self, f: Any) -> Any:
        if hasattr(f, "objective_at"):
            return f
        owner = getattr(f, "__self__", None)
        if getattr(f, "__name__", "") == "gradient" and hasattr(owner, "objective_at"):
            return owner
        own = getattr(self.data, "problem", None)  # its gradient may be the user's function
        return own if own is not None and getattr(own, "gradient", None) is f else None

    def _mapped(self, f: Any, broadcasts: tuple[Any, ...], **how: Any) -> Collection:
        if self.is_mapped:
            raise ValueError("this collection has a function already: map the unmapped one.")
        if not callable(f):
            raise TypeError(f"map takes a function; got {f!r}.")
        each, history = how.get("each", "block"), how.get("history", False)
        if each not in EACH:
            raise ValueError(f"each must be 'block' or 'row'; got {each!r}.")
        for one in broadcasts:
            if not isinstance(one, Broadcast):
                raise TypeError(
                    f"the arguments after f must come from broadcast(); got {one!r:.80}."
                )
            if one.context != self.dispatch.context:
                raise ValueError(f"{one!r} is another context's: broadcast it in this one.")
        names = [one.name for one in broadcasts]
        if history and len(set(names)) < len(names):
            raise ValueError(
                f"two of the broadcasts are versions of one variable, {names}, which a row's "
                "history cannot distinguish: pass a different name= to each broadcast()."
            )
        if history and not broadcasts:
            raise ValueError("history=True needs a broadcast: pass one after f.")
        plan = replace(self.plan, function=f, **how)
        return replace(self, plan=plan, broadcasts=broadcasts, is_mapped=True)

    def _planned(self, **folding: Any) -> TaskPlan:
        plan = replace(self.plan, **folding)
        if plan.history and plan.replace:
            raise ValueError(
                "a row that is drawn twice in a task has two histories: sample without "
                "replace=True, or map without history=True."
            )
        return plan

    def _hand_out(self, plan: TaskPlan, timeout: float | None) -> list[int]:
        self.dispatch.check_open()
        given = [(one.variable, one.version) for one in self.broadcasts]
        return self.dispatch.give(plan, self.data, self.gate, given, timeout)

    def _with(self, **of_plan: Any) -> Collection:
        return replace(self, plan=replace(self.plan, **of_plan))

    @property
    def stat(self) -> ProgressTable:
        """The context's progress table."""
        return self.dispatch.progress.table

    def __repr__(self) -> str:
        return f"<Collection of {self.n_rows} rows in {self.n_partitions} partitions>"
