"""Modules of torch as problems: their parameters as one vector, their gradients by autograd.

Each worker has a replica of the module and writes only this replica. The parameters of a replica
are views of the vector that the worker reads. The gradients of these parameters are views of the
worker's `out`. So nothing is copied. Workers cannot share the parameters themselves: torch counts
the writes to each parameter, and raises an error if the counts do not match. A replica belongs to
its worker and ends with it. The problem stores the replica of the first worker until the next run,
because the returned module receives the buffers of this replica.
"""

from __future__ import annotations

import copy
import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from hogshare.problems.gradient import NOBODY, GradientProblem
from hogshare.problems.kernel_arrays import FLOATS
from hogshare.problems.model import Model
from hogshare.problems.params import Params, params_of
from hogshare.system import extras, missed_calls, ranges
from hogshare.system.interrupts import errstate
from hogshare.system.lazy_attribute import once

REDUCTIONS = ("mean", "sum")


def library() -> Any:
    """Return the module `torch`; no other function imports it.

    Raises ImportError if torch is not installed.
    """
    try:
        import torch
    except ImportError as error:
        how = extras.command_for("torch")
        raise ImportError(f"problems.torch needs PyTorch: {how}") from error
    return torch


@dataclass(frozen=True)
class ModuleParams(Params):
    """The result of a run on a module: its parameters as one vector, and a copy of the module.

    Attributes
    ----------
    module : torch.nn.Module
        A copy of the problem's module, with these parameters and the buffers of the first worker.
    """

    module: Any = None


PARTED_ROWS, PART_ROWS = 1024, 16  # rows whose gradient is compared, in total and in each part


class ModuleProblem(GradientProblem):
    """A module of torch, a loss and rows; make one with `hogshare.problems.torch`."""

    def __init__(
        self,
        module: Any,
        loss: Callable[..., Any],
        rows: Sequence[np.ndarray] | Any,
        n_rows: int,
        reduction: str,
        seed: int | None,
    ) -> None:
        self.module = module
        self.loss = loss
        self.data = rows
        self.n_rows = n_rows
        self.by_mean = reduction == "mean"
        self.seed = seed
        parameters = _trained(module)
        self.n_params = sum(p.numel() for p in parameters)
        self.dtype = parameters[0].detach().cpu().numpy().dtype
        self._first: ModuleReplica | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_first": None}

    @property
    def name(self) -> str:
        """Name of the module's class."""
        return type(self.module).__qualname__

    @property
    def users(self) -> tuple[Any, ...]:
        """The user's objects in the problem."""
        return self.module, self.loss, self.data

    def facts(self) -> dict[str, Any]:
        """Return a description as plain data, for reports."""
        return {**super().facts(), "reduction": "mean" if self.by_mean else "sum"}

    def for_worker(self, me: int) -> Callable[..., Any]:
        """Return a replica of the module for one worker; steps use the loss as returned."""
        replica = ModuleReplica(self, me)
        if me == 0:
            self._first = replica
        return replica

    @once
    def is_separable(self) -> bool:
        """Whether the loss of a batch is the sum of its parts' losses, weighted by their rows.

        This is False if rows depend on each other (batch normalisation), if the mean is weighted by
        classes or omits rows, or if random draws differ (dropout). A loss with weights of classes
        is recognised by its attribute ``weight``. For any other loss, this property compares the
        gradient of some rows with the sum of the gradients of their parts, at the first access.
        """
        if _sees_batches(self.module) or getattr(self.loss, "weight", None) is not None:
            return False
        call, w = ModuleReplica(self, NOBODY), self.start()
        rows = np.unique(np.linspace(0, self.n_rows - 1, min(self.n_rows, PARTED_ROWS)).astype(int))
        whole, parts = np.zeros((2, self.n_params), self.dtype)
        with errstate(all="ignore"):
            call(w, rows, whole)
            for first in range(0, len(rows), PART_ROWS):
                call(w, rows[first : first + PART_ROWS], parts)
        size = float(np.abs(whole).max(initial=0.0))
        near = float(np.sqrt(np.finfo(self.dtype).eps)) * size
        return bool(np.abs(whole - parts).max(initial=0.0) <= near)

    def gradient(self, w: np.ndarray, rows: np.ndarray, out: np.ndarray) -> float:
        """Add the gradients of some rows to `out`, with a new replica for this call."""
        return ModuleReplica(self, NOBODY)(w, rows, out)

    def start(self) -> np.ndarray:
        """Return a copy of the module's present parameters as one vector."""
        return np.concatenate([p.detach().cpu().numpy().reshape(-1) for p in _trained(self.module)])

    def view(self, model: Model) -> ModuleParams:
        """Return the vector, and a copy of the module with the vector as its parameters."""
        known = params_of(model)
        torch, module = library(), copy.deepcopy(self.module)
        with torch.no_grad():
            if self._first is not None:
                for mine, its in zip(module.buffers(), self._first.module.buffers(), strict=True):
                    mine.copy_(its)
            vector = torch.from_numpy(np.array(known.params))
            torch.nn.utils.vector_to_parameters(vector, _trained(module))
        return ModuleParams(known.params, known.t, known.average, module)


class ModuleReplica:
    """One worker's copy of the module, whose parameters and gradients are views of arrays."""

    def __init__(self, problem: ModuleProblem, me: int) -> None:
        torch = library()
        if problem.seed is not None and me != NOBODY:
            torch.manual_seed(problem.seed + me)
        self.torch = torch
        self.module = copy.deepcopy(problem.module)
        self.loss = problem.loss
        self.by_mean = problem.by_mean
        self.sums_gradients = me == NOBODY
        self.data = problem.data
        if isinstance(problem.data, tuple):
            self.data = tuple(torch.from_numpy(_writable(array)) for array in problem.data)
        self.parameters = _trained(self.module)
        self._at: tuple[int, int] = 0, 0

    def __call__(self, w: np.ndarray, rows: np.ndarray, out: np.ndarray) -> float:
        """Return the sum of the rows' losses; autograd adds the gradient to `out`.

        After the call, the parameters of the replica are views of `w`, and their gradients are
        views of `out`.
        """
        at = w.ctypes.data, out.ctypes.data
        if at != self._at:
            self._lie_on(w, out)
            self._at = at
        with self._draws():
            *inputs, target = self._batch(rows)
            loss = self.loss(self.module(*inputs), target)
        if loss.dim():
            raise ValueError(
                f"the loss has to be one number, by reduction='mean' or 'sum'; it has the shape "
                f"{tuple(loss.shape)}"
            )
        total = loss * len(rows) if self.by_mean else loss
        (total if self.sums_gradients else loss).backward()
        return float(total.detach())

    @contextmanager
    def _draws(self) -> Iterator[None]:
        """Make each evaluation draw the same random numbers, from torch's generator with seed 0."""
        if not self.sums_gradients:
            yield
            return
        with self.torch.random.fork_rng(devices=[]):
            self.torch.default_generator.manual_seed(0)
            yield

    def _batch(self, rows: np.ndarray) -> Sequence[Any]:
        if isinstance(self.data, tuple):
            places = self.torch.from_numpy(_writable(rows))
            return [tensor.index_select(0, places) for tensor in self.data]
        collate = self.torch.utils.data.default_collate
        found: Sequence[Any] = collate([self.data[row] for row in rows.tolist()])
        return found

    def _lie_on(self, w: np.ndarray, out: np.ndarray) -> None:
        """Make the parameters views of one vector, and their gradients views of the other."""
        vector, slope = (self.torch.from_numpy(_writable(array)) for array in (w, out))
        begin = 0
        for parameter in self.parameters:
            end = begin + parameter.numel()
            parameter.data = vector[begin:end].view(parameter.shape)
            parameter.grad = slope[begin:end].view(parameter.shape)
            begin = end


def _trained(module: Any) -> list[Any]:
    return [p for p in module.parameters() if p.requires_grad]


def _sees_batches(module: Any) -> bool:
    """Return whether a row's output depends on the other rows of its batch."""
    normalisation = library().nn.modules.batchnorm._BatchNorm
    return any(part.training and isinstance(part, normalisation) for part in module.modules())


def _writable(array: np.ndarray) -> np.ndarray:
    """Return the same memory as a writable array, because torch has no read-only tensors.

    The array is never written, because a module only reads its parameters and its rows.
    """
    if array.flags.writeable or not array.size:
        return array
    array = np.ascontiguousarray(array)
    memory = (ctypes.c_byte * array.nbytes).from_address(array.ctypes.data)
    memory.owner = array  # type: ignore[attr-defined]  # the new array's reference to the memory
    return np.ndarray(array.shape, array.dtype, memory)  # type: ignore[arg-type]


@missed_calls.counted
def torch(
    module: Any,
    loss: Callable[..., Any],
    rows: Any,
    *,
    reduction: str = "mean",
    seed: int | None = None,
) -> ModuleProblem:
    """State the training of a module of torch as a problem.

    Parameters
    ----------
    module : torch.nn.Module
        The vector consists of the module's parameters that require a gradient, in the order of
        ``module.parameters()``. They must be all float32 or all float64, on the CPU. Workers have
        copies of the module; the module itself is not changed. Each submodule of a copy is in the
        mode that it has in the module: training mode, unless ``eval()`` has been called (for
        example on a batch normalisation that must not change).
    loss : callable
        Function ``loss(module(*inputs), target)`` that returns one number, such as
        `torch.nn.functional.cross_entropy`.
    rows : tuple of tensors, or Dataset
        Tensors or arrays of the same length: the inputs, and last the target. They are read in
        place, so do not change them while the problem is in use. Or a data set with ``len`` and
        ``[row]``, whose items ``torch.utils.data.default_collate`` combines.
    reduction : {"mean", "sum"}, default="mean"
        How the loss combines the rows of a batch. A step uses the loss as returned. So the step
        size, `weight_decay` and `clip` have the same meaning as in ``torch.optim``, and a last
        batch with fewer rows makes one step, as in torch.
    seed : int or None, default=None
        Seed for torch's generator in every worker, for modules that draw random numbers (dropout).
        Workers of the same process share one generator, so runs of such modules are repeatable only
        with one worker. Evaluations of the objective use separate draws.

    Returns
    -------
    ModuleProblem
        A problem for `solve`. After the run, ``report.model.params`` is the vector, and
        ``report.model.module`` is a copy of the module with these parameters.

    Raises
    ------
    ImportError
        If torch is not installed.
    TypeError, ValueError
        If an argument has the wrong type, or if no parameter requires a gradient.

    Notes
    -----
    One worker takes the same steps as a training loop in torch. `SGD` takes the steps of
    ``torch.optim.SGD``. `Adam` takes the steps of ``torch.optim.Adam``, or with `weight_decay` the
    steps of ``torch.optim.AdamW``. `clip` acts like ``clip_grad_norm_``.

    With several workers, torch uses one thread in each worker. ``runtime="auto"`` chooses
    processes, because threads share the interpreter, and a small module spends much time in the
    interpreter. Buffers (such as running means of batch normalisation) are not part of the vector
    or of checkpoints. Every worker has its own buffers, and the returned module has the buffers of
    the first worker.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from hogshare import SGD, problems, solve
    >>> X = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
    >>> y = X @ torch.tensor([1.0, -2.0, 0.5])
    >>> module = torch.nn.Linear(3, 1)
    >>> def loss(output, target):
    ...     return torch.nn.functional.mse_loss(output[:, 0], target)
    >>> problem = problems.torch(module, loss, (X, y))
    >>> report = solve(problem, rule=SGD(batch=10), step=0.1, stop=20, seed=0)
    >>> report.model.module.weight.detach().numpy().round(2).tolist()
    [[1.0, -2.0, 0.5]]
    """
    lib = library()
    if not isinstance(module, lib.nn.Module):
        raise TypeError(f"module must be a torch.nn.Module; got {type(module).__name__}.")
    if not callable(loss):
        raise TypeError(f"loss must be a function (output, target); got {type(loss).__name__}.")
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction must be 'mean' or 'sum'; got {reduction!r}.")
    if seed is not None:
        ranges.whole(0, seed=seed)
    trained = _trained(module)
    if not trained:
        raise ValueError("module has no parameter that requires a gradient.")
    kinds = {str(p.dtype).removeprefix("torch.") for p in trained}
    if len(kinds) > 1 or not kinds <= {str(kind) for kind in FLOATS}:
        raise ValueError(
            "module's parameters must be all float32 or all float64; they are "
            f"{', '.join(sorted(kinds))}."
        )
    if any(p.device.type != "cpu" for p in trained):
        raise ValueError("module must be on the CPU: module.cpu().")
    if isinstance(rows, (tuple, list)):
        arrays = tuple(_array_of(part) for part in rows)
        lengths = {len(array) for array in arrays}
        if len(arrays) < 2 or len(lengths) != 1:
            raise ValueError(
                "rows must be inputs and targets of one length, (X, y); got "
                f"{len(arrays)} of lengths {sorted(lengths)}."
            )
        rows = arrays
    elif not (hasattr(rows, "__len__") and hasattr(rows, "__getitem__")):
        raise TypeError(
            "rows must be a tuple of tensors, or a data set with a length and items; got "
            f"{type(rows).__name__}."
        )
    n_rows = len(rows[0]) if isinstance(rows, tuple) else len(rows)
    if n_rows == 0:
        raise ValueError("rows is empty.")
    return ModuleProblem(module, loss, rows, n_rows, reduction, seed)


def _array_of(part: Any) -> np.ndarray:
    """Return a tensor's memory, or an array; processes receive the array once, in shared memory."""
    if isinstance(part, library().Tensor):
        return part.detach().cpu().contiguous().numpy()
    if isinstance(part, np.ndarray):
        return part
    raise TypeError(f"rows must contain tensors or arrays; got {type(part).__name__}.")
