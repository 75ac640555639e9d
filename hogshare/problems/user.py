"""Problems that are stated by a user's gradient function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hogshare.problems.gradient import GradientProblem
from hogshare.problems.kernel_arrays import FLOATS
from hogshare.system import missed_calls, ranges


class UserProblem(GradientProblem):
    """A problem whose gradient is a function; make one with `hogshare.problems.user`."""

    def __init__(
        self,
        gradient: Callable[..., Any],
        n_rows: int,
        n_params: int,
        objective: Callable[[np.ndarray], float] | None,
        start: np.ndarray,
        curvature: float | np.ndarray,
    ) -> None:
        self.gradient = gradient  # type: ignore[method-assign]
        self.n_rows = n_rows
        self.n_params = n_params
        self.dtype = start.dtype
        self._objective = objective
        self._start = start
        self._curvature = curvature

    @property
    def name(self) -> str:
        """Name of the function."""
        return getattr(self.gradient, "__qualname__", None) or type(self.gradient).__qualname__

    @property
    def users(self) -> tuple[Any, ...]:
        """The user's functions, which are sent to processes with their code."""
        return self.gradient, getattr(self, "_objective", None)

    def objective(self, params: np.ndarray) -> float:
        """Return the user's objective, or the mean of the losses that the gradient sums."""
        if self._objective is None:
            return super().objective(params)
        return float(self._objective(params))

    def start(self) -> np.ndarray:
        """Return a copy of the default start of a run."""
        return self._start.copy()

    def curvature(self) -> float | np.ndarray:
        """Return the bound of the curvature that the user has passed."""
        return self._curvature


@missed_calls.counted
def user(
    gradient: Callable[..., Any],
    n_rows: int,
    n_params: int,
    objective: Callable[[np.ndarray], float] | None = None,
    start: Any = None,
    *,
    curvature: Any = 0.0,
) -> UserProblem:
    """State a problem by a gradient function, for every plane, barrier and runtime.

    The objective is ``f(w) = sum over the rows of f_r(w) / n_rows``.

    Parameters
    ----------
    gradient : callable
        ``gradient(w, rows, out)`` adds the gradients of the rows to `out` and returns the sum of
        their losses::

            w : ndarray of shape (n_params,), the point; read-only
            rows : ndarray of int64, numbers of the rows, without repeats; read-only
            out : ndarray of shape (n_params,), zeros at the call

        A function that writes only a few elements of `out` may return ``(loss, places)``. Then
        places is an array with the places of these elements, without repeats. The function may use
        NumPy, Numba or any other library. Several workers call the function at the same time. If it
        is compiled with ``@numba.njit(nogil=True)``, threads run in parallel. Otherwise use
        ``runtime="processes"``, which ``runtime="auto"`` also chooses. Processes receive the code
        of the function and the objects that it refers to. Arrays of a megabyte or more are stored
        once, in shared memory, and are read-only in the processes.
    n_rows : int
        Number of terms of the sum.
    n_params : int
        Length of the vector.
    objective : callable, default=None
        Function ``objective(params) -> float``, for the trace. By default the objective is the mean
        of the losses that `gradient` returns, in a pass over all rows.
    start : array-like of shape (n_params,), default=None
        Start of a run; by default zeros. It is copied. If its dtype is float32 or float64, it is
        also the dtype of the vector; other dtypes are converted to float64.
    curvature : float or array-like of shape (n_params,), default=0.0
        Upper bound of the objective's curvature along each coordinate. If workers have private
        copies, an exchange weighs the workers' changes by this bound: with 0 it adds the changes,
        with infinity it averages them.

    Returns
    -------
    UserProblem

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, is out of its range, or is NaN.

    Notes
    -----
    A step is ``w -= eta * out``, where `out` is the *sum* over the rows of a block, or over the
    rows of a mini-batch with ``SGD(batch=...)``. `Stop` and the trace divide sums by `n_rows`.
    Before any worker begins, `solve` calls the gradient twice with a few rows at the start. It
    checks the returned values, and measures the time of a call.

    Examples
    --------
    Logistic regression in five lines of NumPy, with two workers:

    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from hogshare import SGD, StepSize, problems, solve
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X, sign = scale(X), 2.0 * y - 1.0
    >>> def gradient(w, rows, out):
    ...     margin = sign[rows] * (X[rows] @ w)
    ...     out += X[rows].T @ (-sign[rows] / (1.0 + np.exp(margin)))
    ...     return np.logaddexp(0.0, -margin).sum()
    >>> problem = problems.user(gradient, *X.shape)
    >>> run = {"rule": SGD(batch=16), "step": StepSize("constant", 0.01), "stop": 20}
    >>> report = solve(problem, runtime="threads", n_workers=2, trace=1, seed=0, **run)
    >>> report.model.params.shape, bool(report.objective < 0.1)
    ((30,), True)
    """
    if not callable(gradient):
        raise TypeError(
            f"gradient must be a function (w, rows, out) -> loss; got {type(gradient).__name__}."
        )
    if objective is not None and not callable(objective):
        raise TypeError(
            f"objective must be a function (params) -> float; got {type(objective).__name__}."
        )
    ranges.whole(1, n_rows=n_rows, n_params=n_params)
    n_params = int(n_params)
    if start is None:
        first = np.zeros(n_params)
    else:
        first = np.array(start)
        first = first if first.dtype in FLOATS else first.astype(np.float64)
        if first.shape != (n_params,):
            raise ValueError(
                f"start must have shape ({n_params},), a number for each of n_params; got "
                f"{first.shape}."
            )
        if not np.isfinite(first).all():
            raise ValueError("start contains NaN or infinity: all its numbers must be finite.")
    bound = _bound(curvature, n_params)
    return UserProblem(gradient, int(n_rows), n_params, objective, first, bound)


def _bound(curvature: Any, n_params: int) -> float | np.ndarray:
    bound = np.asarray(curvature, dtype=np.float64)
    if bound.shape not in ((), (n_params,)) or not (bound >= 0.0).all():
        raise ValueError(
            f"curvature must be a number, or {n_params} of them, at least 0; got {curvature!r}."
        )
    return float(bound) if bound.ndim == 0 else bound
