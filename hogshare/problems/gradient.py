"""Problems whose gradient is computed by a function, a block of rows at a time.

Kernels step through the rows of a linear problem. For any other problem the engine knows only the
number of rows, and calls the problem for the gradient of a block of rows. Such a problem derives
from `GradientProblem` and must define `n_rows`, `n_params` and `gradient`. All other attributes and
methods have defaults.
"""

from __future__ import annotations

import copy
import functools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from hogshare.kernels.jit.decorators import JIT_DISABLED, load_registries
from hogshare.kernels.rows.row_views import RowArrays
from hogshare.problems.kernel_arrays import FLOATS, added_up, frozen, sealed
from hogshare.problems.model import Model
from hogshare.problems.params import Params, params_of
from hogshare.problems.shard import Shard
from hogshare.system import ranges
from hogshare.system.lazy_attribute import once

SAMPLE_ROWS = 64  # rows with which a gradient is tried
SAMPLE_STEPS = 1024  # rows with which a pass is tried; for fewer rows the call would dominate
LONG_SECONDS = 1.0  # a longer call is not repeated to time it
PASS_ROWS = 1024  # rows whose gradients are summed in one call of a pass over all rows
NOBODY = -1  # in place of a worker's number: the caller is not a worker
GUARD = 8  # numbers before and after `out` that must not be written


class BlockClaim(NamedTuple):
    """The block that a worker has claimed; the key of a gradient's random numbers.

    Attributes
    ----------
    epoch, block : int
        Number of the epoch in the run, and number of the block in the epoch.
    site : int
        Number of the first worker that shares this memory. Each site counts its own blocks.
    rows_before : int
        Number of rows visited before the block in the order of the run.
    n_workers : int
        Number of workers of the run, on all sites.
    """

    epoch: int
    block: int
    site: int
    rows_before: int
    n_workers: int


class Whole(NamedTuple):
    """All rows of a problem whose rows are divided among processes.

    Attributes
    ----------
    n_rows : int
        Number of rows of all parts.
    add : callable
        Function ``add(vector)`` that returns the sum of the vectors of all processes. All processes
        receive the same bits. The call is collective: every process that has a part must make it.
    """

    n_rows: int
    add: Callable[[np.ndarray], np.ndarray]


class CompiledPass(NamedTuple):
    """A pass over cells of rows in one kernel, without calls of Python functions.

    Attributes
    ----------
    quantum : kernel
        The kernel, made by `hogshare.kernels.schedule.quanta.quantum_of` with cells.
    data : NamedTuple
        The data that the kernel reads.
    ends : ndarray of int64
        End of the rows of each cell; the rows of a cell are contiguous.
    """

    quantum: Any
    data: Any
    ends: np.ndarray


class GradientError(RuntimeError):
    """A user's gradient raised an error, returned an invalid loss, or is not finite."""


class GradientProblem:
    """A problem ``f(w) = sum over the rows of f_r(w) / n_rows`` with gradients of rows.

    To state a problem, derive from this class, set `n_rows` and `n_params`, and write `gradient`.
    Several workers call `gradient` at the same time. Workers are threads of one process, or
    separate processes. A process receives a copy of the instance, with the code of its class. Large
    arrays among the attributes of the instance are stored once, in shared memory, and must not be
    written.

    Attributes
    ----------
    n_rows : int
        Number of terms of the sum.
    n_params : int
        Length of the vector.
    dtype : dtype, default=float64
        Type of the vector: float32 or float64.

    Examples
    --------
    >>> import numpy as np
    >>> from hogshare import StepSize, problems, solve
    >>> class Mean(problems.GradientProblem):
    ...     def __init__(self, points):
    ...         self.points = np.asarray(points, dtype=float)
    ...         self.n_rows, self.n_params = self.points.shape
    ...
    ...     def gradient(self, w, rows, out):
    ...         away = w - self.points[rows]
    ...         out += away.sum(axis=0)
    ...         return 0.5 * np.square(away).sum()
    >>> report = solve(Mean([[0.0, 2.0], [2.0, 4.0]]), step=StepSize("constant", 0.1), stop=100)
    >>> report.model.params.round(3).tolist()
    [1.0, 3.0]
    """

    n_rows: int
    n_params: int
    dtype: np.dtype = np.dtype(np.float64)

    # attributes that the engine reads from every problem, with their values for these problems
    has_rows: ClassVar[bool] = False
    n_columns: ClassVar[int] = 1
    is_sparse: ClassVar[bool] = False
    is_regression: ClassVar[bool] = True
    divisors: ClassVar[None] = None

    # the default step size
    # whether `gradient` returns complete steps; if so, other step sizes and rules are refused
    eta0: ClassVar[float] = 0.01
    has_steps: ClassVar[bool] = False
    # whether blocks of neighbouring rows must stay together; if so, a shuffled epoch draws the
    # order of the blocks, and the order of the rows within each block
    keeps_neighbours: bool = False
    # whether the gradient that a worker computes is the mean over the rows, or, if False, their
    # sum; a step uses this value as it is; evaluations always receive sums
    by_mean: bool = False
    # whether the gradient of some rows is the sum of the gradients of their parts, for any division
    # into parts; False if rows depend on each other, as in the training of a batch normalisation
    is_separable: bool = True
    # whether `trainer` returns an object that takes the steps of many mini-batches in a call
    trains: bool = False
    # the pass over rows that are ordered by cells; None if rows are not ordered by cells
    cells: CompiledPass | None = None
    # all rows, if other processes have more rows of this problem
    _whole: Whole | None = None
    # whether `gradient` writes all of `out` and nothing else, and returns a value that is not
    # finite whenever a number of `out` is not finite: then no check is needed
    overwrites: ClassVar[bool] = False

    def gradient(
        self, w: np.ndarray, rows: np.ndarray, out: np.ndarray
    ) -> float | tuple[float, np.ndarray]:
        """Add the gradients of some rows to `out`.

        Parameters
        ----------
        w : ndarray of shape (n_params,)
            The point; it must not be written. If workers share one vector without locks, other
            workers may write it during the call.
        rows : ndarray of int64
            Numbers of the rows, without repeats.
        out : ndarray of shape (n_params,)
            Zeros, to which the sum over the rows is added.

        Returns
        -------
        float, or (float, ndarray of int)
            The sum of the rows' losses. A call that has written only a few elements of `out` may
            also return their places, without repeats.
        """
        raise NotImplementedError

    def objective(self, params: np.ndarray) -> float:
        """Return the objective at a vector: by default, the mean of the losses of `gradient`.

        Parameters
        ----------
        params : ndarray of shape (n_params,)

        Returns
        -------
        float
        """
        return self.evaluate(params)[0]

    def start(self) -> np.ndarray:
        """Return the default start of a run: zeros, unless a subclass overrides this method.

        Returns
        -------
        ndarray of shape (n_params,)
        """
        return np.zeros(self.n_params, self.dtype)

    def curvature(self) -> float | np.ndarray:
        """Return an upper bound of the objective's curvature along each coordinate of the vector.

        If workers have private copies, an exchange weighs the workers' changes by this bound. With
        0, the default, an exchange adds the changes, as published asynchronous algorithms do. With
        infinity it averages them.

        Returns
        -------
        float or ndarray of shape (n_params,)
        """
        return 0.0

    def share_of(self, rows: np.ndarray, batch: np.ndarray) -> float:
        """Return the weight of some rows in a mini-batch: by default, their share of its rows."""
        return len(rows) / len(batch)

    def for_worker(self, me: int) -> Callable[..., Any]:
        """Return the gradient function of a worker: `gradient`, unless each worker needs its own.

        Parameters
        ----------
        me : int
            The worker's number, or `NOBODY` for an evaluation of the objective.

        Returns
        -------
        callable
            A function like `gradient`. If the function has a method ``begin``, the worker calls
            ``begin`` with the `BlockClaim` of each block, before it computes the block's gradients.
            Random numbers that depend only on the claim are the same for any worker.
        """
        return self.gradient

    def advance(self, w: np.ndarray, rows: np.ndarray, eta: float) -> float:
        """Take a step in place for each of some rows, one after another.

        A problem may define this method if each row touches few elements of the vector. In that
        case a step for each row is better than one step by the gradient of many rows, and a call of
        `gradient` for a single row costs more than its arithmetic. Plain `SGD()` uses this method
        if the problem defines it. Mini-batches, averages and other rules use `gradient`.

        Parameters
        ----------
        w : ndarray of shape (n_params,)
            The point, which is changed in place: for each row r,
            ``w -= eta * (the gradient of f_r at w)``. If workers share one vector without locks,
            other workers write it during the call.
        rows : ndarray of int64
            Numbers of the rows, in the order of the steps; the array must not be written.
        eta : float
            Step size.

        Returns
        -------
        float
            The sum of the rows' losses, each computed before the row's step.
        """
        raise NotImplementedError

    def advance_for_worker(self, me: int) -> Callable[..., Any]:
        """Return the function of a worker for `advance`, as `for_worker` does for `gradient`."""
        return self.advance

    @property
    def has_pass(self) -> bool:
        """Whether the problem defines `advance`."""
        return type(self).advance is not GradientProblem.advance

    def for_process(self) -> GradientProblem:
        """Return a shallow copy for another process, without the objective, unused by workers."""
        sent = copy.copy(self)
        for name in ("objective", "_objective"):
            if name in vars(sent):
                delattr(sent, name)
        return sent

    @property
    def releases_interpreter(self) -> bool:
        """Whether `gradient` releases the interpreter lock; if so, workers can be threads.

        By default this is the ``nogil`` option of a function that Numba has compiled.
        """
        options = getattr(self.gradient, "targetoptions", None)
        return isinstance(options, Mapping) and bool(options.get("nogil"))

    @property
    def name(self) -> str:
        """Name of the problem in reports and errors."""
        return type(self).__qualname__

    def seconds_of_a_row(self, start: np.ndarray) -> float:
        """Call the gradient with a few rows at a start, and return the seconds that a row takes.

        If the problem defines `advance`, this method calls `advance` in place of the gradient, with
        more rows and a step size of zero. It measures the second of two calls, because the first
        may compile. If the first call takes longer than `LONG_SECONDS`, there is no second call.

        Raises
        ------
        GradientError
        """
        if not JIT_DISABLED:
            load_registries()  # or the user's function would, which may be interrupted
        w = sealed(np.asarray(start, dtype=self.dtype))
        rows = sealed(np.arange(min(self.n_rows, SAMPLE_STEPS if self.has_pass else SAMPLE_ROWS)))
        call = _one_pass(self, w) if self.has_pass else functools.partial(GradientCaller(self), w)
        spent = 0.0
        for _ in range(2):
            began = time.perf_counter()
            call(rows)
            spent = time.perf_counter() - began
            if spent > LONG_SECONDS:
                break
        return spent / len(rows)

    @once
    def row_seconds(self) -> float:
        """Seconds of a step per row, measured by `seconds_of_a_row` at the problem's start."""
        return self.seconds_of_a_row(self.start())

    # -- passes over all rows --------------------------------------------------------------------

    def evaluate(self, params: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the mean loss and its gradient over all rows.

        Returns
        -------
        float, ndarray of shape (n_params,)
        """
        call = GradientCaller(self)
        loss, total = 0.0, np.zeros(self.n_params)
        params = sealed(np.asarray(params, dtype=self.dtype))
        for rows in self._parts():
            of_part, places = call(params, rows)
            loss += of_part
            call.add_to(total, places)
        of_losses, total = self.totals(np.array([loss]), total)
        return float(of_losses[0]) / self.n_all, total / self.n_all

    def _parts(self) -> Iterator[np.ndarray]:
        for first in range(0, self.n_rows, PASS_ROWS):
            yield np.arange(first, min(self.n_rows, first + PASS_ROWS))

    # -- rows that are divided among processes -----------------------------------------------------

    @property
    def n_all(self) -> int:
        """Number of rows over which the objective is a mean: the rows of all parts."""
        return self.n_rows if self._whole is None else self._whole.n_rows

    def totals(self, *numbers: np.ndarray) -> list[np.ndarray]:
        """Return the sums of arrays over all parts of the rows; all ranks must call this method."""
        if self._whole is None:
            return list(numbers)
        return added_up(self._whole.add, numbers)

    def among(self, whole: Whole) -> GradientProblem:
        """Return a copy of this problem as one part of a problem whose rows are divided.

        Each rank has a part of the rows, and all ranks must call this method. The copy shares its
        arrays with this problem. If a subclass overrides `objective`, it must be a mean over rows
        plus a penalty.
        """
        own = self._copy_among(whole)
        if type(self).objective is not GradientProblem.objective:

            def objective(params: np.ndarray) -> float:
                (total,) = own.totals(np.array([self.n_rows * self.objective(params)]))
                return float(total[0]) / own.n_all

            vars(own)["objective"] = objective
        return own

    def _copy_among(self, whole: Whole) -> Self:
        own = copy.copy(self)
        for name in list(vars(own)):
            if isinstance(getattr(type(own), name, None), once):
                del vars(own)[name]  # a cached value may depend on these rows alone
        own._whole = whole
        return own

    # -- methods that the engine calls on every problem ------------------------------------------

    @property
    def n_features(self) -> int:
        """Length of the vector."""
        return self.n_params

    @property
    def nnz(self) -> int:
        """Number of values that a pass over the rows touches, for estimates of time."""
        return self.n_rows * self.n_params

    @once
    def rows(self) -> RowArrays:
        """Empty row arrays, because kernels do not read the rows of this problem."""
        nothing = frozen(np.empty(0, self.dtype))
        no_places = frozen(np.empty(0, np.uint32)), frozen(np.zeros(1, np.int64))
        return RowArrays(nothing, *no_places, 1, nothing, nothing)

    def check(self) -> None:
        """Raise an error if the instance lacks a required attribute or method.

        Raises
        ------
        TypeError, ValueError
        """
        for what in ("n_rows", "n_params"):
            if not hasattr(self, what):
                raise TypeError(f"{self.name} has no {what}: set it before the problem is solved.")
            ranges.whole(1, **{what: getattr(self, what)})
        if type(self).gradient is GradientProblem.gradient and "gradient" not in vars(self):
            raise TypeError(f"{self.name} has no gradient: write gradient(self, w, rows, out).")
        if np.dtype(self.dtype) not in FLOATS:
            raise ValueError(f"{self.name}: dtype must be float32 or float64; got {self.dtype!r}.")

    def facts(self) -> dict[str, Any]:
        """Return a description as plain data, for reports."""
        return {
            "gradient": self.name,
            "rows": self.n_all,
            "params": self.n_params,
            "dtype": np.dtype(self.dtype).name,
        }

    def identity(self) -> dict[str, Any]:
        """Return the problem's identity for checkpoints; equal problems have equal identities.

        Functions cannot be compared. So the identity contains six digits of the loss and of the
        gradient's l1 norm for a few rows at the start. If processes have parts of the rows, all
        ranks must call this method.
        """
        call = GradientCaller(self)
        rows = np.arange(min(self.n_rows, SAMPLE_ROWS))
        loss, _ = call(sealed(np.asarray(self.start(), dtype=self.dtype)), rows)
        (found,) = self.totals(np.array([loss, np.abs(call.out).sum()], np.float64))
        result = f"{found[0]:.6g}, {found[1]:.6g}"
        return {**self.facts(), "first loss and gradient": result}

    def shard(self) -> Shard | None:
        """Return the rows of this process as a shard, if MPI ranks have parts of the rows.

        By default return None, because the engine does not know where a problem stores its rows.
        """
        return None

    def united(
        self, facts: Sequence[Mapping[str, Any]], arrays: Mapping[str, np.ndarray]
    ) -> GradientProblem:
        """Return the problem of the rows of all shards; the counterpart of `shard`.

        Parameters
        ----------
        facts : sequence of dict
            The facts of all shards, in the order of the ranks.
        arrays : dict of str to ndarray
            The arrays of all shards, concatenated, read-only.
        """
        raise NotImplementedError

    def start_model(self, start: Any) -> Model:
        """Return a start as a model of the engine.

        Parameters
        ----------
        start : Params, ndarray of shape (n_params,), or None
            Start in the form that users pass, or None for the problem's own start.

        Raises
        ------
        TypeError, ValueError
        """
        if start is None:
            start = self.start()
        if isinstance(start, Model):
            raise TypeError(
                f"start must be a vector of shape ({self.n_params},), or the model of a report on "
                "this problem (report.model); got the model of a linear problem."
            )
        params = start if isinstance(start, Params) else Params(np.asarray(start))
        vectors = [params.params, params.average]
        for vector in vectors:
            if vector is not None and np.shape(vector) != (self.n_params,):
                raise ValueError(
                    f"start must have shape ({self.n_params},), one number for each parameter of "
                    f"the problem; got {np.shape(vector)}."
                )
        first, average = (None if v is None else np.array(v, self.dtype) for v in vectors)
        assert first is not None
        if not all(np.isfinite(v).all() for v in (first, average) if v is not None):
            raise ValueError(
                f"start contains NaN or infinity, or numbers too large for {np.dtype(self.dtype)}."
            )
        return Model(
            first[np.newaxis],
            np.zeros(1),
            params.t,
            None if average is None else average[np.newaxis],
            None if average is None else np.zeros(1),
            params.memory,
        )

    def view(self, model: Model) -> Params:
        """Return a model of the engine as `Params`, the form that users receive, with views."""
        return params_of(model)

    def objective_at(self, model: Model | Params) -> float:
        """Return the objective at a model, which may be a `Model` of the engine or a `Params`."""
        vector = model.params if isinstance(model, Params) else model.coef[0]
        return float(self.objective(vector.copy()))  # a copy: a user's objective may write to it

    def model_at(self, params: np.ndarray) -> Params:
        """Return a vector, without a copy, as a model in the form that users receive."""
        return Params(params)

    def gradient_at(self, model: Model) -> np.ndarray:
        """Return the gradient at a model of the engine as float64 of shape (n_params,)."""
        return self.evaluate(model.coef[0])[1]


class GradientCaller:
    """Call a problem's gradient, and check the result. An instance belongs to one worker.

    gradient : function of the same gradient to call in place of ``problem.for_worker(NOBODY)``

    The instance owns the array `out`, which every call overwrites.
    """

    def __init__(
        self, problem: GradientProblem, gradient: Callable[..., Any] | None = None
    ) -> None:
        self.problem = problem
        self.gradient = gradient or problem.for_worker(NOBODY)
        n, dtype = problem.n_params, np.dtype(problem.dtype)
        memory = np.zeros(n + 2 * GUARD, dtype)
        self.out = memory[GUARD : GUARD + n]
        # compiled code may write out of bounds without an error: these guards detect it
        self._guards = memory[:GUARD], memory[GUARD + n :]
        for guard in self._guards:
            guard.fill(-0.0)  # the bits change if any number except -0.0 is added
        self._intact = self._guards[0].tobytes()
        self._form = self.out.shape, self.out.strides, dtype
        self._written: np.ndarray | None = None  # places of the last result, or None if unknown

    def __call__(self, w: np.ndarray, rows: np.ndarray) -> tuple[float, np.ndarray | None]:
        """Write the gradient to `out`; return the sum of losses, and the written places or None."""
        out = self.out
        if self.problem.overwrites:
            return self._finite(self.gradient(w, rows, out), rows, w), None
        if self._written is None:
            out.fill(0.0)
        else:
            out[self._written] = 0.0
        self._written = None  # unknown until the call returns: it may raise
        given = out.view()  # a view: the function may change its shape or dtype in place
        try:
            answer = self.gradient(w, rows, given)
        except Exception as error:
            raise GradientError(
                f"The gradient {self.problem.name} raised {type(error).__name__}: {error}"
                f"{_advice(error)}"
            ) from error
        for name, array in (("out", given), ("w", w)):
            if (array.shape, array.strides, array.dtype) != self._form:
                raise GradientError(
                    f"The gradient {self.problem.name} has changed the shape, strides or dtype of "
                    f"its {name} in place, which other code uses: take a view, "
                    f"{name}.reshape(...)."
                )
        loss, places = self._parted(answer)
        if any(guard.tobytes() != self._intact for guard in self._guards):
            raise GradientError(
                f"The gradient {self.problem.name} has written beyond its out, which has "
                f"{self.problem.n_params} numbers."
            )
        self._written = places
        touched = out if places is None else out[places]
        if not (math.isfinite(loss) and _is_finite(touched)):
            raise NotFinite(self._what_is_not(loss, rows, w))
        return loss, places

    @property
    def descends(self) -> bool:
        """Whether the function also takes steps; only problems with `overwrites` may do so."""
        return hasattr(self.gradient, "descend")

    def descend(
        self, w: np.ndarray, rows: np.ndarray, moved: np.ndarray, descent: tuple[Any, ...]
    ) -> float:
        """Take a step by the gradient of some rows in one call; return the sum of the losses.

        moved : shape (n_params,), the same memory as `w`, but writable
        descent : the rule's numbers and arrays for its step (`hogshare.rules.protocol.Descent`)

        Call this method only if `descends`, and only in a worker that may write the vector. The
        arrays of `descent` are the worker's own state of the rule, and the call changes them. The
        call overwrites `out` with the step. Raises NotFinite if the sum of the losses is not
        finite; in this case no step has been taken.
        """
        loss = self.gradient.descend(w, rows, self.out, moved, descent)  # type: ignore[attr-defined]
        return self._finite(loss, rows, w)

    def _finite(self, loss: float, rows: np.ndarray, w: np.ndarray) -> float:
        if not math.isfinite(loss):
            raise NotFinite(self._what_is_not(loss, rows, w))
        return loss

    def part(self, w: np.ndarray, rows: np.ndarray, share: float, out: np.ndarray) -> float:
        """Write the contribution of some rows to a mini-batch's gradient; return the loss.

        The call overwrites the argument `out`. The contributions of all parts of the mini-batch add
        up to its gradient: the sum over its rows, or their mean if the problem has `by_mean`.
        """
        of_part = getattr(self.gradient, "part", None)
        if of_part is not None:
            return self._finite(of_part(w, rows, out, share), rows, w)
        loss, places = self(w, rows)
        scale = out.dtype.type(share if self.problem.by_mean else 1.0)
        if places is None:
            np.multiply(self.out, scale, out=out)
        else:
            out.fill(0.0)
            out[places] = scale * self.out[places]
        return loss

    def add_to(self, total: np.ndarray, places: np.ndarray | None) -> None:
        """Add the `out` of the last call to `total`, at the places that this call has written."""
        if places is None:
            total += self.out
        else:
            total[places] += self.out[places]

    def _parted(self, answer: Any) -> tuple[float, np.ndarray | None]:
        if type(answer) is float:  # the usual result; the checks below take microseconds
            return answer, None
        places = None
        if isinstance(answer, tuple) and len(answer) == 2:
            answer, places = answer
            places = self._checked(np.asarray(places))
        if isinstance(answer, np.ndarray) and answer.ndim == 0:
            answer = answer[()]
        if not ranges.is_number(answer):
            shape = f" of shape {answer.shape}" if isinstance(answer, np.ndarray) else ""
            raise GradientError(
                f"The gradient {self.problem.name} has to return the sum of the rows' losses, a "
                "number, or a pair of it and the places of out that it has written; it returned "
                f"{type(answer).__name__}{shape}."
            )
        return float(answer), places

    def _checked(self, places: np.ndarray) -> np.ndarray:
        n = self.problem.n_params
        if places.ndim != 1 or (places.size and places.dtype.kind not in "iu"):
            raise GradientError(
                f"The gradient {self.problem.name} has to return places as a vector of whole "
                f"numbers; it returned {places.dtype} of shape {places.shape}."
            )
        places = places.astype(np.int64, copy=False)
        if places.size and (places.min() < 0 or places.max() >= n):
            raise GradientError(
                f"The gradient {self.problem.name} has returned places from {places.min()} to "
                f"{places.max()}; places of its {n} numbers go from 0 to {n - 1}."
            )
        return places

    def _what_is_not(self, loss: float, rows: np.ndarray, w: np.ndarray) -> str:
        what = "a loss" if not math.isfinite(loss) else "a gradient"
        size = float(np.abs(w).max(initial=0.0))
        return (
            f"The gradient {self.problem.name} gave {what} that is NaN or infinite, for "
            f"{len(rows)} rows, the first of which is row {rows[0]}, at a vector whose largest "
            f"number is {size:.3g}. If that has grown, the steps are too long: a smaller "
            "step=StepSize('constant', eta0=...) might help."
        )


class Stepper:
    """Call the `advance` method of a problem, and check the result.

    problem : a problem that defines `advance`
    advance : function to call in place of ``problem.advance_for_worker(NOBODY)``
    """

    def __init__(self, problem: GradientProblem, advance: Callable[..., Any] | None = None) -> None:
        self.name = problem.name
        self.advance = advance or problem.advance_for_worker(NOBODY)

    def __call__(self, w: np.ndarray, rows: np.ndarray, eta: float) -> float:
        """Take the steps in place in `w`; return the sum of the losses, each before its step."""
        try:
            # a view: the function may change its shape or dtype in place
            loss = self.advance(w.view(), rows, eta)
        except Exception as error:
            raise GradientError(
                f"advance of {self.name} raised {type(error).__name__}: {error}{_advice(error)}"
            ) from error
        if not ranges.is_number(loss):
            raise GradientError(
                f"advance of {self.name} has to return the sum of the rows' losses, a number; it "
                f"returned {type(loss).__name__}."
            )
        if not math.isfinite(loss):
            raise NotFinite(
                f"advance of {self.name} gave a loss that is NaN or infinite, for {len(rows)} "
                f"rows, the first of which is row {rows[0]}: the steps may be too long."
            )
        return float(loss)


def _one_pass(problem: GradientProblem, w: np.ndarray) -> Callable[[np.ndarray], float]:
    """Return a function that calls `advance` with some rows and does not change the vector."""
    step, mine = Stepper(problem), w.copy()
    return lambda rows: step(mine, rows, 0.0)


class NotFinite(GradientError):
    """A loss or a gradient is not finite. If the vector is finite, the function is the cause."""


def _is_finite(vector: np.ndarray) -> bool:
    # a finite product has finite factors only; if it overflows, check every number
    return math.isfinite(float(np.dot(vector, vector))) or bool(np.isfinite(vector).all())


def _advice(error: Exception) -> str:
    if "read-only" in str(error) or "WRITEABLE" in str(error):
        return (
            ". The vector, the rows and, in processes, the gradient's own arrays must not be "
            "written: other workers share them."
        )
    return ""
