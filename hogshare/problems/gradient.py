"""Problems whose gradient is computed by a function, a block of rows at a time.

The engine knows the rows of a linear problem and steps through them in a kernel. Of any other
problem it knows how many rows there are, and asks for the gradient of some of them. Such a problem
derives from `GradientProblem`, which needs three things of it: `n_rows`, `n_params` and `gradient`.
All else has a default.
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

SAMPLE_ROWS = 64  # that a gradient is tried with
SAMPLE_STEPS = 1024  # the same of a pass, whose rows take less time than its call
LONG_SECONDS = 1.0  # of a call, which is not made again to time it
PASS_ROWS = 1024  # whose gradients are summed in one call of a pass over all rows
NOBODY = -1  # a number of a worker
GUARD = 8  # numbers on either side of `out` that nobody may write


class BlockClaim(NamedTuple):
    """Which block a worker has claimed: what random numbers of a gradient are keyed by.

    Attributes
    ----------
    epoch, block : int
        Of the run, and of the epoch.
    site : int
        The first worker of those that share this memory, among all: blocks are counted by site.
    rows_before : int
        Rows that are visited before the block's, in the run's order.
    n_workers : int
        Workers of the run, on all sites.
    """

    epoch: int
    block: int
    site: int
    rows_before: int
    n_workers: int


class Whole(NamedTuple):
    """What a process's rows are a part of.

    Attributes
    ----------
    n_rows : int
        Of all parts.
    add : callable
        ``add(numbers)`` is the sum of the vectors that all holders of a part call it with, the same
        bits for each; every one has to.
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
        What it reads, as the kernel has it.
    ends : ndarray of int64
        Where the rows of each cell end, which stand together.
    """

    quantum: Any
    data: Any
    ends: np.ndarray


class GradientError(RuntimeError):
    """A gradient of the user's has raised, answered what is no loss, or is not a number."""


class GradientProblem:
    """What is minimised: ``f(w) = sum over the rows of f_r(w) / n_rows``, by gradients of rows.

    To state a problem, derive from this class, set `n_rows` and `n_params`, and write `gradient`.
    Workers call it at the same time: from several threads, or each in a process of its own, to
    which the instance travels with the code of its class. Large arrays among its attributes are
    there once, in shared memory, and must not be written.

    Attributes
    ----------
    n_rows : int
        Terms of the sum.
    n_params : int
        Numbers of the vector.
    dtype : dtype, default=float64
        Of the vector: float32 or float64.

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

    # what the engine asks of every problem, and what is so of these
    has_rows: ClassVar[bool] = False
    n_columns: ClassVar[int] = 1
    is_sparse: ClassVar[bool] = False
    is_regression: ClassVar[bool] = True
    divisors: ClassVar[None] = None

    # the step size where none is given; and whether no other may be, nor another rule's step,
    # because a step is all that `gradient` says
    eta0: ClassVar[float] = 0.01
    has_steps: ClassVar[bool] = False
    # whether its rows stand in an order that is to be kept within a block: a shuffled epoch then
    # reads the blocks, and the rows of each, in a new order, and mixes no two
    keeps_neighbours: bool = False
    # whether what workers call gives the mean of the rows' gradients, by which a step then is, in
    # place of their sum; who evaluates gets sums in any case
    by_mean: bool = False
    # whether the gradient of some rows is put together from those of any parts of them; not where
    # rows see each other, as in a batch normalisation that is trained
    is_separable: bool = True
    # whether `trainer` makes what takes the steps of many mini-batches in a call
    trains: bool = False
    # the pass of rows that stand in cells; None where they do not
    cells: CompiledPass | None = None
    # what this is a part of, if other processes have more of its rows
    _whole: Whole | None = None
    # whether it writes all of `out` and nothing else, and its value is no number where one of those
    # is none, so that nobody has to look
    overwrites: ClassVar[bool] = False

    def gradient(
        self, w: np.ndarray, rows: np.ndarray, out: np.ndarray
    ) -> float | tuple[float, np.ndarray]:
        """Add the gradients of some rows up.

        Parameters
        ----------
        w : ndarray of shape (n_params,)
            Where; it must not be written. On one vector without locks others may write it
            meanwhile.
        rows : ndarray of int64
            Which rows, each once.
        out : ndarray of shape (n_params,)
            Zeros, to which the sum over the rows is added.

        Returns
        -------
        float, or (float, ndarray of int)
            The sum of the rows' losses; and, where few numbers of `out` have been written, the
            places of those, each once.
        """
        raise NotImplementedError

    def objective(self, params: np.ndarray) -> float:
        """What is minimised, at a vector; by default the mean of the losses that `gradient` sums.

        Parameters
        ----------
        params : ndarray of shape (n_params,)

        Returns
        -------
        float
        """
        return self.evaluate(params)[0]

    def start(self) -> np.ndarray:
        """Where a run begins that is given no start; by default zeros.

        Returns
        -------
        ndarray of shape (n_params,)
        """
        return np.zeros(self.n_params, self.dtype)

    def curvature(self) -> float | np.ndarray:
        """How curved the objective is along each number of the vector, at most.

        Where workers have copies of their own, an exchange weighs their changes by it: 0, the
        default, adds them, as asynchronous algorithms are published; infinity averages them.

        Returns
        -------
        float or ndarray of shape (n_params,)
        """
        return 0.0

    def share_of(self, rows: np.ndarray, batch: np.ndarray) -> float:
        """Which share of a mini-batch's weight some of its rows have; by default of its rows."""
        return len(rows) / len(batch)

    def for_worker(self, me: int) -> Callable[..., Any]:
        """What a worker calls: `gradient`, unless workers have something of their own.

        Parameters
        ----------
        me : int
            Its number; `NOBODY` for who evaluates the objective beside a run.

        Returns
        -------
        callable
            As `gradient`. If it has a method ``begin``, a worker calls that with the `BlockClaim`
            of each block before the block's rows are asked for: random numbers that are keyed by
            the claim are the same whoever works.
        """
        return self.gradient

    def advance(self, w: np.ndarray, rows: np.ndarray, eta: float) -> float:
        """Take a step for each of some rows, one after the other, in place: optional.

        Where a row touches few numbers of the vector, a gradient of many rows at one place is a
        worse step than a step of each, and most of what a call of it costs is not its rows. A
        problem that has this is stepped by it, wherever the steps are those of plain `SGD()`; with
        mini-batches, averages or another rule by its `gradient`.

        Parameters
        ----------
        w : ndarray of shape (n_params,)
            Where, and what is changed: for each row ``w -= eta * (the gradient of f_r at w)``. On
            one vector without locks others write it meanwhile.
        rows : ndarray of int64
            Which rows, in which order; it must not be written.
        eta : float
            Step size.

        Returns
        -------
        float
            The sum of the rows' losses, each before its step.
        """
        raise NotImplementedError

    def advance_for_worker(self, me: int) -> Callable[..., Any]:
        """What a worker calls for `advance`; see `for_worker`."""
        return self.advance

    @property
    def has_pass(self) -> bool:
        """Whether it has an `advance`."""
        return type(self).advance is not GradientProblem.advance

    def for_process(self) -> GradientProblem:
        """What goes to another process: without an objective, which workers do not ask for."""
        sent = copy.copy(self)
        for name in ("objective", "_objective"):
            if name in vars(sent):
                delattr(sent, name)
        return sent

    @property
    def releases_interpreter(self) -> bool:
        """Whether `gradient` lets other threads run meanwhile, so that threads need no processes.

        By default what a function compiled by Numba says of itself.
        """
        options = getattr(self.gradient, "targetoptions", None)
        return isinstance(options, Mapping) and bool(options.get("nogil"))

    @property
    def name(self) -> str:
        """What it is called in reports and errors."""
        return type(self).__qualname__

    def seconds_of_a_row(self, start: np.ndarray) -> float:
        """Try the gradient with a few rows at a start: does it work, and how long does it take?

        Or the pass over more of them, where there is one, with a step size of zero.
        Of two calls the second counts: the first may compile.

        Raises
        ------
        GradientError
        """
        if not JIT_DISABLED:
            load_registries()  # or a function of the user's would: it may be interrupted
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
        """Seconds of a row's part of a step, as `seconds_of_a_row` finds it at the start."""
        return self.seconds_of_a_row(self.start())

    # -- passes over all rows --------------------------------------------------------------------

    def evaluate(self, params: np.ndarray) -> tuple[float, np.ndarray]:
        """Mean loss and its gradient over all rows.

        Returns
        -------
        float, ndarray of shape (n_params,)
        """
        call = GradientCaller(self)
        loss, total = 0.0, np.zeros(self.n_params)
        params = sealed(np.asarray(params, dtype=self.dtype))
        for rows in self._parts():
            here, places = call(params, rows)
            loss += here
            call.add_to(total, places)
        of_losses, total = self.totals(np.array([loss]), total)
        return float(of_losses[0]) / self.n_all, total / self.n_all

    def _parts(self) -> Iterator[np.ndarray]:
        for first in range(0, self.n_rows, PASS_ROWS):
            yield np.arange(first, min(self.n_rows, first + PASS_ROWS))

    # -- a part of the rows, of which other processes have the others ------------------------------

    @property
    def n_all(self) -> int:
        """Number of rows that the objective is a mean over: of a part of the rows, all of them."""
        return self.n_rows if self._whole is None else self._whole.n_rows

    def totals(self, *numbers: np.ndarray) -> list[np.ndarray]:
        """The sums of arrays over all who have a part of the rows: the arrays, if one has all."""
        if self._whole is None:
            return list(numbers)
        return added_up(self._whole.add, numbers)

    def among(self, whole: Whole) -> GradientProblem:
        """The same, as a part of a problem whose other rows other processes have.

        An `objective` of one's own is taken as a mean over rows, and a penalty.
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
                del vars(own)[name]  # it may be of these rows alone
        own._whole = whole
        return own

    # -- what the engine asks of every problem ---------------------------------------------------

    @property
    def n_features(self) -> int:
        """Numbers of the vector."""
        return self.n_params

    @property
    def nnz(self) -> int:
        """Numbers that a pass over the rows touches, for estimates."""
        return self.n_rows * self.n_params

    @once
    def rows(self) -> RowArrays:
        """No rows for kernels."""
        nothing = frozen(np.empty(0, self.dtype))
        no_places = frozen(np.empty(0, np.uint32)), frozen(np.zeros(1, np.int64))
        return RowArrays(nothing, *no_places, 1, nothing, nothing)

    def check(self) -> None:
        """Refuse an instance that lacks something.

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
        """What it is, as plain data, for reports."""
        return {
            "gradient": self.name,
            "rows": self.n_all,
            "params": self.n_params,
            "dtype": np.dtype(self.dtype).name,
        }

    def identity(self) -> dict[str, Any]:
        """What it is, for checkpoints: two problems with the same are one.

        A function cannot be compared: what it answers for a few rows is, to six digits.
        """
        call = GradientCaller(self)
        rows = np.arange(min(self.n_rows, SAMPLE_ROWS))
        loss, _ = call(sealed(np.asarray(self.start(), dtype=self.dtype)), rows)
        (found,) = self.totals(np.array([loss, np.abs(call.out).sum()], np.float64))
        told = f"{found[0]:.6g}, {found[1]:.6g}"
        return {**self.facts(), "first loss and gradient": told}

    def shard(self) -> Shard | None:
        """Its rows, as a part of more of them, where several processes have parts (MPI's ranks).

        By default None: what rows are is its own business.
        """
        return None

    def united(
        self, facts: Sequence[Mapping[str, Any]], arrays: Mapping[str, np.ndarray]
    ) -> GradientProblem:
        """The problem of all rows of which this one's are a part; goes with `shard`.

        Parameters
        ----------
        facts : sequence of dict
            Of all shards, in order.
        arrays : dict of str to ndarray
            Theirs, end to end, read-only.
        """
        raise NotImplementedError

    def start_model(self, start: Any) -> Model:
        """A start, as the engine has models.

        Parameters
        ----------
        start : Params, ndarray of shape (n_params,), or None
            None: the problem's own.

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
                    f"start must have shape ({self.n_params},), one number for each of the "
                    f"problem's; got {np.shape(vector)}."
                )
        first, average = (None if v is None else np.array(v, self.dtype) for v in vectors)
        assert first is not None
        if not all(np.isfinite(v).all() for v in (first, average) if v is not None):
            raise ValueError(
                f"start holds NaN or infinity, or numbers too large for {np.dtype(self.dtype)}."
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
        """A model of the engine's, as users see it."""
        return params_of(model)

    def objective_at(self, model: Model | Params) -> float:
        """Objective at a model, the engine's or as users see it."""
        vector = model.params if isinstance(model, Params) else model.coef[0]
        return float(self.objective(vector.copy()))  # it may write there

    def model_at(self, params: np.ndarray) -> Params:
        """The model that a vector is, as users see it."""
        return Params(params)

    def gradient_at(self, model: Model) -> np.ndarray:
        """Gradient at a model of the engine's: float64 of shape (n_params,)."""
        return self.evaluate(model.coef[0])[1]


class GradientCaller:
    """Calls a problem's gradient into memory of its own, and looks at what it has answered.

    gradient : what is called in its place: the same, with something around it
    """

    def __init__(
        self, problem: GradientProblem, gradient: Callable[..., Any] | None = None
    ) -> None:
        self.problem = problem
        self.gradient = gradient or problem.for_worker(NOBODY)
        n, dtype = problem.n_params, np.dtype(problem.dtype)
        memory = np.zeros(n + 2 * GUARD, dtype)
        self.out = memory[GUARD : GUARD + n]
        # compiled code need not look where it writes
        self._guards = memory[:GUARD], memory[GUARD + n :]
        for guard in self._guards:
            guard.fill(-0.0)  # by its bits another number than any that is written by adding
        self._intact = self._guards[0].tobytes()
        self._form = self.out.shape, self.out.strides, dtype
        self._written: np.ndarray | None = None  # places of the last answer; None: any

    def __call__(self, w: np.ndarray, rows: np.ndarray) -> tuple[float, np.ndarray | None]:
        """Sum of the rows' losses, and the places of `out` that count, or None for all."""
        out = self.out
        if self.problem.overwrites:
            return self._finite(self.gradient(w, rows, out), rows, w), None
        if self._written is None:
            out.fill(0.0)
        else:
            out[self._written] = 0.0
        self._written = None  # until it is known: it may raise
        given = out.view()  # of which what is called may make another array
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
                    f"its {name} in place, which others use: take a view, {name}.reshape(...)."
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
        """Whether what is called takes steps, too."""
        return hasattr(self.gradient, "descend")

    def descend(
        self, w: np.ndarray, rows: np.ndarray, moved: np.ndarray, descent: tuple[Any, ...]
    ) -> float:
        """Have a step taken by the gradient of some rows; the sum of their losses.

        moved : shape (n_params,), `w`, as who may write it has it
        descent : what the rule says of its step

        Raises NotFinite: no step has been taken then.
        """
        loss = self.gradient.descend(w, rows, self.out, moved, descent)  # type: ignore[attr-defined]
        return self._finite(loss, rows, w)

    def _finite(self, loss: float, rows: np.ndarray, w: np.ndarray) -> float:
        if not math.isfinite(loss):
            raise NotFinite(self._what_is_not(loss, rows, w))
        return loss

    def part(self, w: np.ndarray, rows: np.ndarray, share: float, out: np.ndarray) -> float:
        """As a call, of rows that are a share of a mini-batch: overwrite `out` with their part.

        Parts add up to the mini-batch's gradient: the sum of its rows', or their mean.
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
        """Add to a vector what the last call has left in `out`, at the places that it told of."""
        if places is None:
            total += self.out
        else:
            total[places] += self.out[places]

    def _parted(self, answer: Any) -> tuple[float, np.ndarray | None]:
        if type(answer) is float:  # as most answer; what follows takes microseconds
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
                "number, or that and the places of out that it has written; it returned "
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
                f"{places.max()}, and there are {n} numbers, from 0 on."
            )
        return places

    def _what_is_not(self, loss: float, rows: np.ndarray, w: np.ndarray) -> str:
        what = "a loss" if not math.isfinite(loss) else "a gradient"
        size = float(np.abs(w).max(initial=0.0))
        return (
            f"The gradient {self.problem.name} gave {what} that is NaN or infinite, of "
            f"{len(rows)} rows, the first of which is row {rows[0]}, at a vector whose largest "
            f"number is {size:.3g}. If that has grown, the steps are too long: a smaller "
            "step=StepSize('constant', eta0=...) might help."
        )


class Stepper:
    """Calls a problem's pass, and looks at what it has answered.

    problem : one that has a pass
    advance : what is called in its place: the same, with something around it
    """

    def __init__(self, problem: GradientProblem, advance: Callable[..., Any] | None = None) -> None:
        self.name = problem.name
        self.advance = advance or problem.advance_for_worker(NOBODY)

    def __call__(self, w: np.ndarray, rows: np.ndarray, eta: float) -> float:
        """Sum of the rows' losses, each before the step that it has taken in `w`."""
        try:
            loss = self.advance(w.view(), rows, eta)  # of which it may make another array
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
                f"advance of {self.name} gave a loss that is NaN or infinite, of {len(rows)} rows, "
                f"the first of which is row {rows[0]}."
            )
        return float(loss)


def _one_pass(problem: GradientProblem, w: np.ndarray) -> Callable[[np.ndarray], float]:
    """A pass that leaves a vector as it is."""
    step, mine = Stepper(problem), w.copy()
    return lambda rows: step(mine, rows, 0.0)


class NotFinite(GradientError):
    """A loss or a gradient is not finite: where the vector is still, the user's function is why."""


def _is_finite(vector: np.ndarray) -> bool:
    # a product is finite only if every factor is; one that overflows is looked at again
    return math.isfinite(float(np.dot(vector, vector))) or bool(np.isfinite(vector).all())


def _advice(error: Exception) -> str:
    if "read-only" in str(error) or "WRITEABLE" in str(error):
        return (
            ". The vector, the rows and, in processes, the arrays that the gradient brings along "
            "must not be written: they are others', too."
        )
    return ""
