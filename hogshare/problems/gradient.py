"""Problems whose gradient is computed by a function, a block of rows at a time.

Kernels step through the rows of a linear problem. For any other problem the engine knows only the
number of rows, and requests the gradient of some of them. Such a problem derives from
`GradientProblem` and must define `n_rows`, `n_params` and `gradient`. All other attributes and
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
SAMPLE_STEPS = 1024  # rows with which a pass is tried: its call takes longer than its rows
LONG_SECONDS = 1.0  # a longer call is not repeated to time it
PASS_ROWS = 1024  # rows whose gradients are summed in one call of a pass over all rows
NOBODY = -1  # in place of a worker's number: the caller is not a worker
GUARD = 8  # numbers before and after `out` that must not be written


class BlockClaim(NamedTuple):
    """The block that a worker has claimed; the key of a gradient's random numbers.

    Attributes
    ----------
    epoch, block : int
        Number of the epoch in the run, and of the block in the epoch.
    site : int
        Number of the first worker that shares this memory. Each site counts its own blocks.
    rows_before : int
        Number of rows before the block in the run's order.
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
        ``add(numbers)`` returns the sum of the vectors of all processes, with the same bits in
        each; every process that has a part must call it.
    """

    n_rows: int
    add: Callable[[np.ndarray], np.ndarray]


class CompiledPass(NamedTuple):
    """A pass over cells in a kernel, without Python in between.

    Attributes
    ----------
    quantum : kernel
        Made by `hogshare.kernels.schedule.quanta.quantum_of`, with cells.
    data : NamedTuple
        The data that it reads.
    ends : ndarray of int64
        End of each cell's rows, which are contiguous.
    """

    quantum: Any
    data: Any
    ends: np.ndarray


class GradientError(RuntimeError):
    """A user's gradient raised an error, returned an invalid loss, or is not finite."""


class GradientProblem:
    """A problem ``f(w) = sum over the rows of f_r(w) / n_rows`` with gradients of rows.

    To state a problem, derive from this class, set `n_rows` and `n_params`, and write `gradient`.
    Workers call it at the same time: from several threads, or each in its own process, which
    receives the instance with the code of its class. Large arrays among its attributes exist once,
    in shared memory, and must not be written.

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

    # the default step size; and whether `gradient` returns complete steps: another step size and
    # the step of another rule are then refused
    eta0: ClassVar[float] = 0.01
    has_steps: ClassVar[bool] = False
    # whether blocks of neighbouring rows must stay unmixed: a shuffled epoch then draws the order
    # of the blocks, and of the rows in each
    keeps_neighbours: bool = False
    # whether a worker's gradient is the mean over the rows (a step then uses this mean) or their
    # sum; evaluations always receive sums
    by_mean: bool = False
    # whether the gradient of some rows is the sum of the gradients of any parts of them; False if
    # rows depend on each other, as in a batch normalisation in training
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
            The point; it must not be written. On one vector without locks other workers may write
            it meanwhile.
        rows : ndarray of int64
            Numbers of the rows, each once.
        out : ndarray of shape (n_params,)
            Zeros, to which the sum over the rows is added.

        Returns
        -------
        float, or (float, ndarray of int)
            The sum of the rows' losses. If the call has written only a few numbers of `out`, also
            their places, each once.
        """
        raise NotImplementedError

    def objective(self, params: np.ndarray) -> float:
        """Return the objective at a vector; by default the mean of the losses of `gradient`.

        Parameters
        ----------
        params : ndarray of shape (n_params,)

        Returns
        -------
        float
        """
        return self.evaluate(params)[0]

    def start(self) -> np.ndarray:
        """Return a run's default start; zeros unless overridden.

        Returns
        -------
        ndarray of shape (n_params,)
        """
        return np.zeros(self.n_params, self.dtype)

    def curvature(self) -> float | np.ndarray:
        """Return an upper bound of the objective's curvature along each number of the vector.

        If workers have private copies, an exchange weighs their changes by it: 0, the default,
        adds them, as in published asynchronous algorithms; infinity averages them.

        Returns
        -------
        float or ndarray of shape (n_params,)
        """
        return 0.0

    def share_of(self, rows: np.ndarray, batch: np.ndarray) -> float:
        """Return the weight of some rows in a mini-batch; by default their share of its rows."""
        return len(rows) / len(batch)

    def for_worker(self, me: int) -> Callable[..., Any]:
        """Return a worker's function: `gradient`, unless each worker needs its own.

        Parameters
        ----------
        me : int
            The worker's number; `NOBODY` for an evaluation of the objective.

        Returns
        -------
        callable
            Like `gradient`. If it has a method ``begin``, a worker calls that with the `BlockClaim`
            of each block before it requests the block's gradients: random numbers that are keyed by
            the claim do not depend on the worker.
        """
        return self.gradient

    def advance(self, w: np.ndarray, rows: np.ndarray, eta: float) -> float:
        """Take a step for each of some rows in place, one after another; optional.

        Suppose that a row touches few numbers of the vector. Then one step by the gradient of many
        rows is worse than a step for each row, and most of the cost of a call is not spent on its
        rows. If a problem defines this method, plain `SGD()` uses it. Mini-batches, averages and
        other rules use `gradient`.

        Parameters
        ----------
        w : ndarray of shape (n_params,)
            The point, changed in place: for each row ``w -= eta * (the gradient of f_r at w)``. On
            one vector without locks other workers write it meanwhile.
        rows : ndarray of int64
            Numbers of the rows, in the order of the steps; it must not be written.
        eta : float
            Step size.

        Returns
        -------
        float
            The sum of the rows' losses, each before its step.
        """
        raise NotImplementedError

    def advance_for_worker(self, me: int) -> Callable[..., Any]:
        """Return a worker's function for `advance`; see `for_worker`."""
        return self.advance

    @property
    def has_pass(self) -> bool:
        """Whether the problem defines `advance`."""
        return type(self).advance is not GradientProblem.advance

    def for_process(self) -> GradientProblem:
        """Return a copy for another process, without an objective, which workers do not need."""
        sent = copy.copy(self)
        for name in ("objective", "_objective"):
            if name in vars(sent):
                delattr(sent, name)
        return sent

    @property
    def releases_interpreter(self) -> bool:
        """Whether `gradient` releases the interpreter; threads then suffice for workers.

        By default this is the ``nogil`` option of a function compiled by Numba.
        """
        options = getattr(self.gradient, "targetoptions", None)
        return isinstance(options, Mapping) and bool(options.get("nogil"))

    @property
    def name(self) -> str:
        """Name of the problem in reports and errors."""
        return type(self).__qualname__

    def seconds_of_a_row(self, start: np.ndarray) -> float:
        """Try the gradient with a few rows at a start, and return the seconds that a row takes.

        If the problem has a pass, the pass is tried instead, with more rows and a step size of
        zero. The second of two calls counts, because the first may compile.

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
        """Seconds that a step spends on a row, as `seconds_of_a_row` measures them at the start."""
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
        """Return the sums of arrays over all parts of the rows; all ranks must call it."""
        if self._whole is None:
            return list(numbers)
        return added_up(self._whole.add, numbers)

    def among(self, whole: Whole) -> GradientProblem:
        """Return a copy of this problem as one part of a problem whose rows processes divide.

        All ranks must call it. An overridden `objective` must be a mean over rows plus a penalty.
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
        """Number of values that a pass over the rows touches, for estimates."""
        return self.n_rows * self.n_params

    @once
    def rows(self) -> RowArrays:
        """Empty row arrays: kernels have no rows of this problem."""
        nothing = frozen(np.empty(0, self.dtype))
        no_places = frozen(np.empty(0, np.uint32)), frozen(np.zeros(1, np.int64))
        return RowArrays(nothing, *no_places, 1, nothing, nothing)

    def check(self) -> None:
        """Refuse an instance that lacks a required attribute or method.

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

        Functions cannot be compared. So the gradient's result for a few rows is compared, to six
        digits.
        """
        call = GradientCaller(self)
        rows = np.arange(min(self.n_rows, SAMPLE_ROWS))
        loss, _ = call(sealed(np.asarray(self.start(), dtype=self.dtype)), rows)
        (found,) = self.totals(np.array([loss, np.abs(call.out).sum()], np.float64))
        result = f"{found[0]:.6g}, {found[1]:.6g}"
        return {**self.facts(), "first loss and gradient": result}

    def shard(self) -> Shard | None:
        """Return the rows as a shard, if several processes (MPI's ranks) have parts of them.

        By default return None: the engine does not know where a problem stores its rows.
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
            Start in the users' form; None: the problem's own start.

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
        """Return a model of the engine in the users' form."""
        return params_of(model)

    def objective_at(self, model: Model | Params) -> float:
        """Return the objective at a model, in the engine's or the users' form."""
        vector = model.params if isinstance(model, Params) else model.coef[0]
        return float(self.objective(vector.copy()))  # a copy: a user's objective may write to it

    def model_at(self, params: np.ndarray) -> Params:
        """Return a vector as a model in the users' form."""
        return Params(params)

    def gradient_at(self, model: Model) -> np.ndarray:
        """Return the gradient at an engine's model: float64 of shape (n_params,)."""
        return self.evaluate(model.coef[0])[1]


class GradientCaller:
    """Call a problem's gradient with memory of its own, and check the result.

    gradient : a wrapper of the same gradient, to call instead
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
            guard.fill(-0.0)  # its bits change when any number but -0.0 is added
        self._intact = self._guards[0].tobytes()
        self._form = self.out.shape, self.out.strides, dtype
        self._written: np.ndarray | None = None  # places of the last result; None: any

    def __call__(self, w: np.ndarray, rows: np.ndarray) -> tuple[float, np.ndarray | None]:
        """Return the sum of the rows' losses and the written places of `out`; None: all places."""
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
        """Whether the function also takes steps."""
        return hasattr(self.gradient, "descend")

    def descend(
        self, w: np.ndarray, rows: np.ndarray, moved: np.ndarray, descent: tuple[Any, ...]
    ) -> float:
        """Take a step by the gradient of some rows in one call; return the sum of their losses.

        moved : shape (n_params,), the same memory as `w`, but writable
        descent : the rule's numbers for its step

        Raises NotFinite. In this case no step has been taken.
        """
        loss = self.gradient.descend(w, rows, self.out, moved, descent)  # type: ignore[attr-defined]
        return self._finite(loss, rows, w)

    def _finite(self, loss: float, rows: np.ndarray, w: np.ndarray) -> float:
        if not math.isfinite(loss):
            raise NotFinite(self._what_is_not(loss, rows, w))
        return loss

    def part(self, w: np.ndarray, rows: np.ndarray, share: float, out: np.ndarray) -> float:
        """Write the contribution of some rows to a mini-batch's gradient; return the loss.

        `out` is overwritten. The contributions of all parts add up to the mini-batch's gradient:
        the sum over its rows, or their mean.
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
        """Add the last call's `out` to `total`, at the places that the call has written."""
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
    """Call a problem's pass, and check the result.

    problem : a problem with a pass
    advance : a wrapper of the same pass, to call instead
    """

    def __init__(self, problem: GradientProblem, advance: Callable[..., Any] | None = None) -> None:
        self.name = problem.name
        self.advance = advance or problem.advance_for_worker(NOBODY)

    def __call__(self, w: np.ndarray, rows: np.ndarray, eta: float) -> float:
        """Take the steps in `w`; return the sum of the rows' losses, each before its own step."""
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
    """Return a function that runs a pass over some rows without changing the vector."""
    step, mine = Stepper(problem), w.copy()
    return lambda rows: step(mine, rows, 0.0)


class NotFinite(GradientError):
    """A loss or a gradient is not finite; at a finite vector the user's function is the cause."""


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
