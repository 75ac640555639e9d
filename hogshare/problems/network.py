"""Networks of layers with a compiled gradient; outputs and losses as in scikit-learn's MLP.

A worker writes only its own replica, which is the memory for its mini-batches. A replica belongs to
its worker and ends with it.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hogshare.kernels.networks import dense_layers, output_layers
from hogshare.kernels.networks import network_gradient as kernels
from hogshare.kernels.rows.shared_passes import Each
from hogshare.kernels.rules import momentum
from hogshare.problems.gradient import NOBODY, PASS_ROWS, SAMPLE_ROWS, GradientProblem, Whole
from hogshare.problems.kernel_arrays import frozen, line_zeros
from hogshare.problems.layers import Dense, Layer, LayerPlan, activation_refused, plan_of
from hogshare.problems.linear.labels import distinct, own_type
from hogshare.problems.linear.row_arrays import (
    as_rows,
    check_sparse,
    each_column_once,
    is_sparse,
    require_dense,
)
from hogshare.problems.model import Model
from hogshare.problems.network_trainer import (
    TeamArrays,
    Trainer,
    is_trained,
    layout_of,
    may_team,
    shared_values,
    steps_of_block,
)
from hogshare.problems.params import Params, params_of
from hogshare.problems.sparse_columns import SparseColumns, by_columns
from hogshare.problems.weights import row_weights
from hogshare.system import missed_calls, ranges
from hogshare.system.lazy_attribute import once
from hogshare.system.messages import nearest

LOSSES = {
    "log_loss": output_layers.SOFTMAX,
    "squared_error": output_layers.SQUARES,
    "poisson": output_layers.POISSON,
}
SAMPLE_BATCHES = 8  # number of mini-batches with which steps are timed
GLOROT, GLOROT_LOGISTIC = 6.0, 2.0  # factors in a start's bound, as in scikit-learn


@dataclass(frozen=True)
class NetworkParams(Params):
    """The result of a run on a network: its vector, and the vector's parts by layer.

    Attributes
    ----------
    shapes : tuple of tuple of int
        Shapes of the layers' coefficients, in the order of the vector. Layers without coefficients
        are left out.
    """

    shapes: tuple[tuple[int, ...], ...] = ()

    @property
    def coefs(self) -> list[np.ndarray]:
        """Coefficients by layer: views of the vector."""
        return [coefs for coefs, _ in parted(self.params, self.shapes)]

    @property
    def intercepts(self) -> list[np.ndarray]:
        """Intercepts by layer: views of the vector."""
        return [intercepts for _, intercepts in parted(self.params, self.shapes)]


def parted(
    vector: np.ndarray, shapes: Sequence[tuple[int, ...]]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Split a network's vector into views of the coefficients and intercepts of each layer."""
    found, first = [], 0
    for shape in shapes:
        biases = first + int(np.prod(shape))
        end = biases + shape[-1]
        found.append((vector[first:biases].reshape(shape), vector[biases:end]))
        first = end
    return found


class NetworkProblem(GradientProblem):
    """A network of layers on rows; make one with `hogshare.problems.network`.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,) or None
        Sorted labels of a classification with one label per row; None for other targets.
    shapes : tuple of tuple of int
        Shapes of the layers' coefficients. Layers without coefficients are left out.
    n_outputs : int
        Number of outputs of the network.
    alpha : float
        Strength of the penalty.
    """

    by_mean = True
    overwrites: ClassVar[bool] = True

    def __init__(
        self,
        X: Any,
        targets: np.ndarray,
        weights: np.ndarray | None,
        classes: np.ndarray | None,
        plan: LayerPlan,
        loss: int,
        alpha: float,
        seed: int,
    ) -> None:
        self.n_rows, self.n_inputs = X.shape
        self.n_params = plan.n_params
        self.dtype = X.dtype
        if is_sparse(X):
            X = each_column_once(X)
        rows = as_rows(X, targets[:, 0], weights)
        self.inputs = rows.data, rows.indices, rows.indptr
        self.targets = frozen(targets)
        self.weights = rows.weight
        self.total_weight = float(rows.weight.sum(dtype=float)) if len(rows.weight) else X.shape[0]
        self.classes = classes
        self.plan = plan
        self.shapes = tuple(plan.shapes)
        self.n_outputs = plan.n_now
        self.loss = loss
        self.alpha = alpha
        self.seed = seed

    @property
    def name(self) -> str:
        """Name of the problem in reports and errors."""
        return "network"

    @property
    def trains(self) -> bool:  # type: ignore[override]
        """Whether one call can take a worker's steps for many mini-batches, see `trainer`."""
        return is_trained(self.plan)

    @property
    def n_layers(self) -> int:
        """Number of layers, not counting the inputs."""
        return len(self.plan.rows)

    def may_team(self, size: int) -> bool:
        """Return whether `size` workers can divide the units, to compute mini-batches together."""
        return self.trains and may_team(self.plan, size, self.dtype.itemsize)

    def steps_of_block(self, batch: int) -> int:
        """Return the number of mini-batches in a call, for mini-batches of `batch` rows."""
        columns = self.columns  # cached before the problem is sent to processes
        return steps_of_block(self.plan, columns.n_dense + len(columns.data) / self.n_rows, batch)

    @once
    def columns(self) -> SparseColumns:
        """The inputs in the form that steps read; computed once, and read in place if possible."""
        return by_columns(self.inputs, self.n_inputs, self.plan.rows[0][kernels.N_OUT])

    def numbers_of_part(self, batch: int, size: int) -> int:
        """Return the length of one worker's row of `TeamArrays.exchange`."""
        found = layout_of(self.plan, 0, size, batch, self.dtype.itemsize, self.columns.n_dense)
        return 2 * found.n_part

    def shared_values(self, batch: int, size: int) -> dict[str, tuple[tuple[int, int], str]]:
        """Return the shapes and dtypes of the arrays that a team shares for each mini-batch.

        The arrays are the fields of `hogshare.kernels.networks.network_training.Values`.
        """
        return shared_values(self.plan, self.columns, batch, size)

    def trainer(
        self, batch: int, me: int = 0, size: int = 1, shared: TeamArrays | None = None
    ) -> Trainer:
        """Return a new `Trainer`, which takes a worker's steps in its own memory."""
        terms = self.columns, self.targets, self.weights, self.loss, self.alpha
        return Trainer(self.plan, *terms, batch, me, size, shared)

    @property
    def releases_interpreter(self) -> bool:
        """True: kernels release the interpreter."""
        return True

    def for_worker(self, me: int) -> NetworkReplica:
        """Return a new replica; its gradient is a mean over rows, or for evaluations a sum."""
        return NetworkReplica(self, mean=me != NOBODY)

    def seconds_of_a_row(self, start: np.ndarray) -> float:
        """Measure as `GradientProblem.seconds_of_a_row` does, with the steps that workers take."""
        if not self.trains:
            return super().seconds_of_a_row(start)
        batch = min(self.n_rows, SAMPLE_ROWS)
        rows, w = np.arange(min(self.n_rows, SAMPLE_BATCHES * batch)), np.array(start, self.dtype)
        nothing = momentum.PLAIN, None, None, np.zeros((-(-len(rows) // batch), 4))
        train, spent = self.trainer(batch), 0.0
        for _ in range(2):  # the second time counts: the first call may compile
            began = time.perf_counter()
            train(w, frozen(rows), nothing, 0)
            spent = time.perf_counter() - began
        return spent / len(rows)

    def share_of(self, rows: np.ndarray, batch: np.ndarray) -> float:
        """Return the share of some rows in a mini-batch's weight, or in its number of rows."""
        if not len(self.weights):
            return len(rows) / len(batch)
        weight = float(self.weights[batch].sum(dtype=float))
        if weight == 0.0:  # the gradient is the penalty's alone, and the penalty counts once
            return len(rows) / len(batch)
        return float(self.weights[rows].sum(dtype=float)) / weight

    def gradient(self, w: np.ndarray, rows: np.ndarray, out: np.ndarray) -> float:
        """Overwrite `out` with the sum of the rows' gradients plus `alpha` times the coefficients.

        The call makes a new replica; workers use `for_worker`.

        Returns
        -------
        float
            The sum of the rows' losses, plus the penalty once.
        """
        return NetworkReplica(self, mean=False)(w, rows, out)

    def facts(self) -> dict[str, Any]:
        """Return a description as plain data, for reports."""
        names = {code: name for name, code in LOSSES.items()}
        names |= {output_layers.BINARY: "log_loss", output_layers.MEAN_SQUARES: "squared_error"}
        coefs = [list(shape) for shape in self.shapes]
        return {**super().facts(), "loss": names[self.loss], "alpha": self.alpha, "coefs": coefs}

    def start(self, seed: int | None = None) -> np.ndarray:
        """Draw Glorot's uniform start, with the bits of scikit-learn's MLP for the same seed.

        Parameters
        ----------
        seed : int, default=None
            Seed of the draws; by default the seed of the problem.
        """
        generator = np.random.RandomState(self.seed if seed is None else seed)
        return self.drawn(generator)

    def drawn(self, generator: np.random.RandomState) -> np.ndarray:
        """Draw a start from a generator, which is advanced."""
        vector = np.empty(self.n_params, self.dtype)
        with_coefs = [row for row in self.plan.rows if row[kernels.END] > row[kernels.WEIGHTS]]
        activations = [row[kernels.ACTIVATION] for row in with_coefs]
        # the output layer has no activation and is drawn as if it had the hidden layers' activation
        activations[-1] = dense_layers.ACTIVATIONS[self.plan.activation]
        layers = zip(activations, parted(vector, self.shapes), strict=True)
        for activation, (coefs, intercepts) in layers:
            window = int(np.prod(coefs.shape[:-2]))
            spread = window * (coefs.shape[-2] + coefs.shape[-1])
            factor = GLOROT_LOGISTIC if activation == dense_layers.LOGISTIC else GLOROT
            bound = np.sqrt(factor / spread)
            coefs[...] = generator.uniform(-bound, bound, coefs.shape)
            intercepts[:] = generator.uniform(-bound, bound, intercepts.shape)
        return vector

    def view(self, model: Model) -> NetworkParams:
        """Return the result of a run: the vector, and the shapes of its layers."""
        known = params_of(model)
        return NetworkParams(known.params, known.t, known.average, self.shapes)

    # -- passes over rows ------------------------------------------------------------------------

    def penalty_at(self, params: np.ndarray) -> float:
        """Return ``alpha / 2`` times the coefficients' squares, divided by the sum of weights."""
        squares = [np.square(coefs, dtype=float).sum() for coefs, _ in parted(params, self.shapes)]
        return float(0.5 * self.alpha * sum(squares) / self.total_weight)

    def objective(self, params: np.ndarray, each: Each = map, n_parts: int = 1) -> float:
        """Return ``(sum of w_r l_r + alpha / 2 |coefs|^2) / sum of w_r``.

        Parameters
        ----------
        params : ndarray of shape (n_params,)
        each : callable, default=map
            Function that calls a function for each part of the rows, one after another or in
            threads.
        n_parts : int, default=1
            Number of parts of the rows.
        """
        params = frozen(np.asarray(params, self.dtype))
        chunks = list(self._parts())

        def total(part: int) -> float:
            replica = NetworkReplica(self, mean=False)
            return sum(replica.loss(params, rows) for rows in chunks[part::n_parts])

        (loss,) = self.totals(np.array([sum(each(total, range(n_parts)))]))
        return float(loss[0]) / self.total_weight + self.penalty_at(params)

    def evaluate(self, params: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the objective and its gradient over all rows; all ranks must call this method."""
        params = frozen(np.asarray(params, self.dtype))
        replica = NetworkReplica(self, mean=False, alpha=0.0)
        value, total, out = 0.0, np.zeros(self.n_params), np.empty(self.n_params, self.dtype)
        for rows in self._parts():
            value += replica(params, rows, out)
            total += out
        of_losses, total = self.totals(np.array([value]), total)
        sums, at = parted(total, self.shapes), parted(params, self.shapes)
        for (slopes, _), (coefs, _) in zip(sums, at, strict=True):
            slopes += self.alpha * coefs
        value = float(of_losses[0]) / self.total_weight + self.penalty_at(params)
        return value, total / self.total_weight

    def among(self, whole: Whole) -> GradientProblem:
        """Return a copy as `GradientProblem.among` does, with the total weight of all parts.

        All ranks must call this method.

        Raises
        ------
        ValueError
            If the rows of another part have other classes.
        """
        own = self._copy_among(whole)
        mark = float(zlib.crc32(repr(self.classes).encode()) % (1 << 20))
        one, marks, squares = own.totals(np.array([1.0, mark, mark * mark]))[0]
        # the marks of all ranks are equal exactly if their mean square equals their squared mean
        if marks * marks != one * squares:
            raise ValueError(
                "the rows of some parts lack classes that other parts have: a network needs rows "
                "of every class on each rank. MLPClassifier accepts rows of any classes."
            )
        (weight,) = own.totals(np.array([self.total_weight]))
        own.total_weight = float(weight[0])
        return own

    def scores(self, params: np.ndarray, X: Any) -> np.ndarray:
        """Return the outputs of the network; for a classification they are probabilities.

        Parameters
        ----------
        params : ndarray of shape (n_params,)
        X : {array-like, sparse matrix} of shape (n_rows, ...)
            Inputs in the same form as in the problem.

        Returns
        -------
        ndarray of shape (n_rows, n_outputs)
        """
        X = _checked(X, self.dtype)
        if X.shape[1] != self.n_inputs:
            raise ValueError(
                f"X has {X.shape[1]} features, and the network was made for {self.n_inputs}."
            )
        params = frozen(np.asarray(params, self.dtype))
        rows = as_rows(X, np.empty(0, self.dtype), None)
        replica = NetworkReplica(self, mean=False, inputs=(rows.data, rows.indices, rows.indptr))
        found = np.empty((X.shape[0], self.n_outputs), self.dtype)
        for first in range(0, X.shape[0], PASS_ROWS):
            part = np.arange(first, min(X.shape[0], first + PASS_ROWS))
            replica.predict(params, part, found[first : first + PASS_ROWS].reshape(-1))
        return found

    def predict(self, params: np.ndarray, X: Any) -> np.ndarray:
        """Predict targets in the problem's form: labels, columns of zeros and ones, or numbers."""
        found = self.scores(params, X)
        if self.classes is not None and self.n_outputs > 1:
            labels: np.ndarray = self.classes[found.argmax(axis=1)]
            return labels
        if self.classes is not None:
            return np.asarray(self.classes[(found[:, 0] > 0.5).astype(int)])
        if self.loss == output_layers.BINARY:
            return (found > 0.5).astype(int)
        return found[:, 0] if self.n_outputs == 1 else found


class NetworkReplica:
    """One worker's memory for a network; a call computes the gradient of some rows.

    Only one thread may use a replica at a time: each method overwrites its memory.
    """

    def __init__(
        self,
        problem: NetworkProblem,
        mean: bool,
        alpha: float | None = None,
        inputs: tuple[np.ndarray, ...] | None = None,
    ) -> None:
        plan = problem.plan
        self.inputs = problem.inputs if inputs is None else inputs
        in_place = len(self.inputs[2]) > 0 and plan.rows[0][kernels.KIND] == kernels.DENSE
        found = plan.layout(in_place, problem.dtype.itemsize)
        self.net, self.places = found.net, found.places
        self.n_marks, self.n_scratch = found.n_marks, found.n_scratch
        self.dtype = problem.dtype
        self.ends = problem.targets, problem.weights, problem.loss
        self.alpha = float(problem.alpha if alpha is None else alpha)
        self.mean = float(mean)
        self.memory = np.empty(0, self.dtype)
        self.marks = np.empty(0, np.int32)
        self.capacity = -1  # not 0: a call without rows needs memory too

    def _make_space(self, n: int) -> None:
        if n <= self.capacity:
            return
        self.memory = line_zeros(n * self.net.scratch_at + self.n_scratch, self.dtype)
        self.marks = np.empty(n * self.n_marks, np.int32)
        self.capacity = n

    def __call__(self, w: np.ndarray, rows: np.ndarray, out: np.ndarray) -> float:
        """Overwrite `out` with the gradient of some rows; return the sum of losses and penalty."""
        return self._run(w, rows, out, out, out, out, momentum.NONE, 0.0, 0.0, 0.0, 0.0)

    def part(self, w: np.ndarray, rows: np.ndarray, out: np.ndarray, share: float) -> float:
        """Overwrite `out` with the contribution of some rows to a mini-batch's mean gradient."""
        alpha, self.alpha, self.mean = self.alpha, self.alpha * share, share
        try:
            return self(w, rows, out) if share else self._nothing(out)
        finally:
            self.alpha, self.mean = alpha, 1.0

    def _nothing(self, out: np.ndarray) -> float:
        out.fill(0.0)
        return 0.0

    def descend(
        self,
        w: np.ndarray,
        rows: np.ndarray,
        out: np.ndarray,
        moved: np.ndarray,
        descent: tuple[Any, ...],
    ) -> float:
        """Take a step by the gradient of some rows in one call; return as `__call__` does.

        out : shape (n_params,), overwritten by the step
        moved : shape (n_params,), the same memory as `w`, but writable
        descent : the rule's numbers and arrays for its step (`hogshare.rules.protocol.Descent`);
            the arrays are changed

        If the returned value is not finite, no step has been taken.
        """
        kind, first, second, *numbers = descent
        if first is None:
            first = second = out
        return self._run(w, rows, out, moved, first, second, kind, *numbers)

    def _run(self, w: np.ndarray, rows: np.ndarray, out: np.ndarray, *step: Any) -> float:
        self._make_space(len(rows))
        value: float = kernels.gradient(
            self.net,
            self.places,
            _read_only(w),
            _read_only(rows),
            *self.inputs,
            *self.ends,
            self.alpha,
            self.mean,
            self.memory,
            self.marks,
            out,
            *step,
        )
        return value

    def loss(self, w: np.ndarray, rows: np.ndarray) -> float:
        """Return the sum of some rows' losses, without the penalty."""
        self._make_space(len(rows))
        run = *self.inputs, *self.ends, self.memory, self.marks
        return float(kernels.loss_of(self.net, self.places, w, frozen(rows), *run)[0])

    def predict(self, w: np.ndarray, rows: np.ndarray, predictions: np.ndarray) -> None:
        """Overwrite `predictions` with the outputs for some rows."""
        self._make_space(len(rows))
        run = *self.inputs, self.ends[2], self.memory, self.marks, predictions
        kernels.predict(self.net, self.places, w, frozen(rows), *run)


def _read_only(array: np.ndarray) -> np.ndarray:
    """Return a read-only view of an array, so that one compiled kernel serves all arrays."""
    return frozen(array) if array.flags.writeable else array


@missed_calls.counted
def network(
    X: Any,
    y: Any,
    hidden: Any = (100,),
    *,
    activation: str = "relu",
    loss: str = "log_loss",
    alpha: float = 1e-4,
    sample_weight: Any = None,
    layers: Sequence[Layer] | None = None,
    shape: tuple[int, int, int] | None = None,
    seed: int = 0,
) -> NetworkProblem:
    """State the training of a network with a compiled gradient.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_rows, n_features), or (n_rows, height, width, \
channels)
        The inputs. If their dtype is float32 or float64, it is also the dtype of the vector; other
        dtypes are converted to float64. The problem may read X in place, so do not change X while
        the problem is in use.
    y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        The targets: labels; columns of zeros and ones, if a row may have several labels; or
        numbers, for a regression.
    hidden : sequence of int, default=(100,)
        Number of units of each hidden layer.
    activation : {"relu", "tanh", "logistic", "identity"}, default="relu"
        Activation of the hidden layers.
    loss : {"log_loss", "squared_error", "poisson"}, default="log_loss"
        The loss, which also determines the output function. "log_loss" has a softmax for more than
        two classes, and a logistic function for two classes or for each of several labels.
        "squared_error" has the identity. "poisson" has the exponential function.
    alpha : float, default=1e-4
        Strength of the penalty on coefficients, as in scikit-learn's MLP. The penalty,
        ``alpha / 2`` times the coefficients' squares, is added once to the losses of a mini-batch
        of any size.
    sample_weight : array-like of shape (n_rows,), default=None
        Weights of the rows, which must not be negative. By default each row has weight one.
    layers : sequence of Dense, Convolution, Pooling and LocalResponse, default=None
        The hidden layers, in place of `hidden`.
    shape : (int, int, int), default=None
        Height, width and channels of the images in `X`, whose values are in this order.
    seed : int, default=0
        Seed of the initial coefficients.

    Returns
    -------
    NetworkProblem
        A problem for `solve`. After the run, ``report.model.coefs`` and ``report.model.intercepts``
        are the parts of the vector, by layer.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, is out of range or contains NaN, or if lengths differ.

    Notes
    -----
    A step uses the *mean* over the mini-batch. So `step` has the same meaning as
    ``learning_rate_init`` in scikit-learn and ``lr`` in torch.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from hogshare import SGD, problems, solve
    >>> X, y = load_digits(return_X_y=True)
    >>> problem = problems.network(X / 16.0, y, hidden=(32,))
    >>> report = solve(problem, rule=SGD(batch=20), step=0.2, stop=20, seed=0, trace=1)
    >>> [coefs.shape for coefs in report.model.coefs]
    [(64, 32), (32, 10)]
    >>> bool((problem.predict(report.model.params, X / 16.0) == y).mean() > 0.97)
    True
    """
    if not isinstance(loss, str) or loss not in LOSSES:
        raise ValueError(
            f"loss must be one of {list(LOSSES)}; got {loss!r}.{nearest(loss, LOSSES)}"
        )
    if not isinstance(activation, str) or activation not in dense_layers.ACTIVATIONS:
        raise ValueError(activation_refused(activation))
    ranges.not_negative(alpha=alpha)
    ranges.whole(0, seed=seed)
    image = _image(X, shape)
    X = _checked(X, None)
    targets, classes, code = _targets(y, loss, X)
    if layers is None:
        layers = [Dense(units) for units in _hidden(hidden)]
    plan = plan_of(layers, X.shape[1], image, activation)
    n_outputs = targets.shape[1] if code != output_layers.SOFTMAX else int(targets.max()) + 1
    Dense(n_outputs, "identity").add_to(plan)
    weight = None if sample_weight is None else row_weights(sample_weight, X, X.dtype)
    return NetworkProblem(X, targets, weight, classes, plan, code, float(alpha), int(seed))


def _hidden(hidden: Any) -> list[int]:
    units = [hidden] if ranges.is_integer(hidden) else list(hidden)
    with ranges.meaning("hidden must be numbers of units, at least 1 each, such as (100, 50)"):
        for one in units:
            ranges.whole(1, hidden=one)
    return [int(one) for one in units]


def _image(X: Any, shape: Any) -> tuple[int, int, int] | None:
    """Return height, width and channels of a row of X, or None if a row is not an image."""
    found = np.shape(X)
    if shape is None:
        return None if len(found) != 4 else (int(found[1]), int(found[2]), int(found[3]))
    with ranges.meaning("shape must be (height, width, channels), whole numbers"):
        height, width, channels = shape
        for number in shape:
            ranges.whole(1, shape=number)
    n_features = int(np.prod(found[1:]))
    if height * width * channels != n_features:
        raise ValueError(
            f"shape must have as many numbers as a row of X, {n_features}; got {shape!r}, which "
            f"has {height * width * channels}."
        )
    return int(height), int(width), int(channels)


def _checked(X: Any, dtype: np.dtype | None) -> Any:
    """Check inputs; return them as a matrix for kernels, without a copy if possible."""
    # not imported at the top: worker processes import this file too, but check no inputs
    from sklearn.utils.validation import check_array

    if not is_sparse(X):
        X = np.asarray(X)
        X = X.reshape(len(X), -1) if X.ndim == 4 else X
    check_sparse(X)
    kinds = [np.float64, np.float32] if dtype is None else dtype
    return check_array(X, accept_sparse="csr", dtype=kinds, order="C")


def _targets(y: Any, loss: str, X: Any) -> tuple[np.ndarray, np.ndarray | None, int]:
    """Check targets; return targets for kernels, the distinct labels or None, and the loss code."""
    require_dense(y)
    y = np.asarray(own_type(y) if LOSSES[loss] == output_layers.SOFTMAX else y)
    if y.ndim not in (1, 2) or len(y) != X.shape[0]:
        raise ValueError(
            f"y must have a target for each of the {X.shape[0]} rows of X; got shape {y.shape}."
        )
    code = LOSSES[loss]
    if code == output_layers.SOFTMAX and y.ndim == 1:
        from sklearn.utils import assert_all_finite

        assert_all_finite(y, input_name="y")
        classes = distinct(y)
        if len(classes) < 2:
            raise ValueError(
                f"A classification needs at least two classes; y contains only {classes[0]!r}."
            )
        places = np.searchsorted(classes, y).astype(X.dtype)[:, np.newaxis]
        return places, classes, output_layers.BINARY if len(classes) == 2 else code
    targets = np.ascontiguousarray(y.reshape(len(y), -1), X.dtype)
    if not np.isfinite(targets).all():
        raise ValueError(f"y contains NaN or infinity, or numbers too large for {X.dtype}.")
    if code == output_layers.SOFTMAX:
        if not np.isin(targets, (0.0, 1.0)).all():
            raise ValueError("y of many labels must contain only zeros and ones.")
        code = output_layers.BINARY
    elif code == output_layers.POISSON and (targets < 0.0).any():
        raise ValueError("y must not be negative with loss='poisson'.")
    return targets, None, code
