"""Layers of a network: the descriptions that users write, and the table that kernels read.

An image is a row of values in the order height, width, channels (NHWC). The filters of a
convolution are float [size, size, channels, filters].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hogshare.kernels.networks import dense_layers, network_gradient
from hogshare.kernels.networks.tiles import TALLEST, VECTOR_BYTES, padded
from hogshare.system import ranges
from hogshare.system.messages import nearest

STRIP_BYTES = 1 << 17  # a dense layer's derivatives that are computed at once and stay in L2
POOLS = {"max": network_gradient.LARGEST, "average": network_gradient.MEAN}


def _store_activation(layer: Dense | Convolution) -> None:
    if layer.activation is not None and layer.activation not in dense_layers.ACTIVATIONS:
        raise ValueError(activation_refused(layer.activation))


def activation_refused(activation: object) -> str:
    """Return the message about an unknown activation."""
    return (
        f"activation must be one of {list(dense_layers.ACTIVATIONS)}; got {activation!r}."
        f"{nearest(activation, dense_layers.ACTIVATIONS)}"
    )


@dataclass(frozen=True)
class Dense:
    """A dense layer: each unit is connected to all inputs.

    Parameters
    ----------
    units : int
        Number of units.
    activation : {"relu", "tanh", "logistic", "identity"}, default=None
        Activation of the layer; by default the activation of the network.
    """

    units: int
    activation: str | None = None

    def __post_init__(self) -> None:
        ranges.store_whole(1, self, "units")
        _store_activation(self)

    def add_to(self, plan: LayerPlan) -> None:
        """Append this layer to a network's layers."""
        n_in = plan.n_now
        plan.add(network_gradient.DENSE, (n_in, self.units), self.activation, (n_in, self.units))
        plan.image = None


@dataclass(frozen=True)
class Convolution:
    """A convolution: each filter is applied to every square window of an image.

    Parameters
    ----------
    filters : int
        Number of filters, which is the number of channels of the output image.
    size : int
        Height and width of the window.
    stride : int, default=1
        Distance from one window to the next, in pixels.
    padding : int, default=0
        Number of rows and columns of zeros beyond each border.
    activation : {"relu", "tanh", "logistic", "identity"}, default=None
        Activation of the layer; by default the activation of the network.
    """

    filters: int
    size: int
    stride: int = 1
    padding: int = 0
    activation: str | None = None

    def __post_init__(self) -> None:
        for name in ("filters", "size", "stride"):
            ranges.store_whole(1, self, name)
        ranges.store_whole(0, self, "padding")
        if self.padding >= self.size:
            raise ValueError(
                f"padding must be less than size ({self.size}), because otherwise a window would "
                f"be entirely beyond the border; got {self.padding}."
            )
        _store_activation(self)

    def add_to(self, plan: LayerPlan) -> None:
        """Append this layer to a network's layers."""
        height, width, channels = plan.take_image("Convolution")
        down, across = (
            (extent + 2 * self.padding - self.size) // self.stride + 1 for extent in (height, width)
        )
        if min(down, across) < 1:
            raise ValueError(
                f"A Convolution's size must fit into the image before it, {height} x {width} with "
                f"padding {self.padding}; got {self.size}."
            )
        n_in = height * width * channels
        image = down, across, self.filters
        shape = (height, width, channels, *image, self.size, self.stride, self.padding)
        coefs = self.size, self.size, channels, self.filters
        ends = n_in, down * across * self.filters
        plan.add(network_gradient.CONVOLUTION, ends, self.activation, coefs, shape)
        plan.image = image


@dataclass(frozen=True)
class Pooling:
    """The largest value or the mean of each square window of an image, channel by channel.

    Every window begins within the image. At the border of the image, a window is cut off, as in
    Caffe.

    Parameters
    ----------
    size : int
        Height and width of the window.
    stride : int, default=None
        Distance from one window to the next, in pixels; by default `size`.
    kind : {"max", "average"}, default="max"
        Whether a window gives its largest value or its mean.
    """

    size: int
    stride: int | None = None
    kind: str = "max"

    def __post_init__(self) -> None:
        ranges.store_whole(1, self, "size")
        if self.stride is not None:
            ranges.store_whole(1, self, "stride")
        if self.kind not in POOLS:
            raise ValueError(
                f"kind must be one of {list(POOLS)}; got {self.kind!r}.{nearest(self.kind, POOLS)}"
            )

    def add_to(self, plan: LayerPlan) -> None:
        """Append this layer to a network's layers."""
        height, width, channels = plan.take_image("Pooling")
        stride = self.size if self.stride is None else self.stride
        if self.size > min(height, width):
            raise ValueError(
                f"A Pooling's size must be at most the image before it, {height} x {width}; got "
                f"{self.size}."
            )
        down, across = _windows(height, self.size, stride), _windows(width, self.size, stride)
        image = down, across, channels
        shape = (height, width, channels, *image, self.size, stride, 0)
        ends = height * width * channels, down * across * channels
        plan.add(POOLS[self.kind], ends, "identity", None, shape)
        plan.image = image


def _windows(extent: int, size: int, stride: int) -> int:
    count = -(-(extent - size) // stride) + 1
    return min(count, -(-extent // stride))  # none begins beyond the border


@dataclass(frozen=True)
class LocalResponse:
    """A local response normalisation: values are divided by a power of nearby squares.

    A value x becomes ``x / (k + alpha / size^2 * sum of the squares in the window around x)^beta``,
    where the window lies in the channel of x. This is Caffe's local response normalisation of the
    kind WITHIN_CHANNEL.

    Parameters
    ----------
    size : int, default=3
        Height and width of the window; an odd number.
    alpha, beta, k : float, default=5e-5, 0.75 and 1.0
        The numbers alpha, beta and k in the formula.
    """

    size: int = 3
    alpha: float = 5e-5
    beta: float = 0.75
    k: float = 1.0

    def __post_init__(self) -> None:
        ranges.store_whole(1, self, "size")
        if self.size % 2 == 0:
            raise ValueError(f"size must be odd, so that a window has a middle; got {self.size}.")
        ranges.not_negative(alpha=self.alpha)
        ranges.finite(beta=self.beta)
        ranges.positive(k=self.k)

    def add_to(self, plan: LayerPlan) -> None:
        """Append this layer to a network's layers."""
        image = height, width, channels = plan.take_image("LocalResponse")
        n = height * width * channels
        shape = (*image, *image, self.size, 1, self.size // 2)
        plan.add(network_gradient.RESPONSE, (n, n), "identity", None, shape)
        plan.numbers[-1] = self.alpha, self.beta, self.k


Layer = Dense | Convolution | Pooling | LocalResponse


@dataclass(frozen=True)
class Layout:
    """The layout of a worker's memory for a network.

    net : the network's layout for kernels
    places : offsets for the convolutions, or None if no layer takes images
    n_marks : number of marks (places of the largest values in pooling windows) for one row
    n_scratch : length of the scratch memory, independent of the number of rows
    """

    net: network_gradient.NetworkLayout
    places: np.ndarray | None
    n_marks: int
    n_scratch: int


@dataclass
class LayerPlan:
    """The plan of a network, to which `add` appends layers one after another.

    n_now : length of a row in the output of the last layer
    image : height, width and channels of this output, or None if the output is not an image
    activation : activation of layers that do not specify one
    rows : for each layer, its row of the table for kernels, without widths
    numbers : for each layer, alpha, beta and k of a local response, otherwise zeros
    shapes : shapes of the coefficients, without layers that have none
    n_params : number of parameters of the layers
    """

    n_now: int
    image: tuple[int, int, int] | None
    activation: str
    rows: list[list[int]] = field(default_factory=list)
    numbers: list[tuple[float, float, float]] = field(default_factory=list)
    shapes: list[tuple[int, ...]] = field(default_factory=list)
    n_params: int = 0

    def take_image(self, who: str) -> tuple[int, int, int]:
        """Return the shape of the image for the next layer; raise ValueError if there is none."""
        if self.image is None:
            raise ValueError(
                f"A {who} needs an image before it: pass X of shape (rows, height, width, "
                "channels), or shape=(height, width, channels), and no Dense layer before it."
            )
        return self.image

    def add(
        self,
        kind: int,
        ends: tuple[int, int],
        activation: str | None,
        coefs: tuple[int, ...] | None,
        shape: tuple[int, ...] = (0,) * network_gradient.SHAPELESS,
    ) -> None:
        """Append a layer to the lists of this plan.

        kind : one of the codes of `hogshare.kernels.networks.network_gradient`
        ends : length of a row in the layer's input, and length of a row in its output
        coefs : shape of the coefficients, with a bias for each index of the last axis, or None if
            the layer has no coefficients
        shape : sizes of the images and windows, for layers that take images
        """
        n_in, n_out = ends
        first = self.n_params
        biases = end = first
        if coefs is not None:
            biases = first + int(np.prod(coefs))
            end = biases + coefs[-1]
            self.shapes.append(coefs)
        code = dense_layers.ACTIVATIONS[self.activation if activation is None else activation]
        self.rows.append([kind, code, first, biases, end, n_in, n_out, 0, 0, *shape])
        self.numbers.append((0.0, 0.0, 0.0))
        self.n_params, self.n_now = end, n_out

    def table(self, in_place: bool, itemsize: int) -> np.ndarray:
        """Return the table for kernels, without places and scratch, once all layers are added.

        in_place : whether kernels read the rows in place, without a copy in a worker's memory
        """
        known = np.array(self.rows, np.int64)
        table = np.zeros((len(known), network_gradient.COLUMNS), np.int64)
        table[:, : known.shape[1]] = known
        kinds = known[:, network_gradient.KIND]
        # one spare vector after each image, because kernels read whole vectors
        spare = np.where(kinds == network_gradient.DENSE, 0, VECTOR_BYTES // itemsize)
        widths = [padded(int(n), itemsize) for n in known[:, network_gradient.N_OUT] + spare]
        fused = table[:-1, network_gradient.IS_FUSED]
        fused[:] = (kinds[:-1] == network_gradient.CONVOLUTION) & (
            kinds[1:] == network_gradient.LARGEST
        )
        table[:, network_gradient.WIDTH] = np.where(table[:, network_gradient.IS_FUSED], 0, widths)
        first = padded(int(known[0, network_gradient.N_IN] + spare[0]), itemsize)
        table[:, network_gradient.IN_WIDTH] = first, *table[:-1, network_gradient.WIDTH]
        before = 0 if in_place else first
        table[:, network_gradient.AT] = before + _before(table[:, network_gradient.WIDTH])
        marks = np.where(kinds == network_gradient.LARGEST, table[:, network_gradient.WIDTH], 0)
        table[:, network_gradient.MARKS] = _before(marks)
        return table

    def layout(self, in_place: bool, itemsize: int) -> Layout:
        """Return the layout of a worker's memory; the arguments are those of `table`."""
        table, scratch = self.table(in_place, itemsize), _Scratch(itemsize)
        n_images = sum(row[network_gradient.KIND] != network_gradient.DENSE for row in self.rows)
        places: list[np.ndarray] = []
        for index, layer in enumerate(table[:n_images]):
            if layer[network_gradient.KIND] == network_gradient.CONVOLUTION:
                layer[network_gradient.PLACES] = sum(map(len, places))
                places.append(_places(layer, itemsize))
                scratch.add_filters(layer, index > 0)
        dense = table[n_images:]
        images = int(table[:n_images, network_gradient.WIDTH].max(initial=0))
        junction = [int(dense[0, network_gradient.IN_WIDTH])] if n_images else []
        space = max([int(dense[:, network_gradient.WIDTH].max()), *junction])
        deltas_at = int(table[-1, network_gradient.AT] + table[-1, network_gradient.WIDTH])
        regions = scratch.regions(table[:n_images], images, dense, n_images > 0)
        marks = table[
            table[:, network_gradient.KIND] == network_gradient.LARGEST, network_gradient.WIDTH
        ]
        numbers = np.array(self.numbers)
        ends = n_images, deltas_at, space, deltas_at + 2 * space
        net = network_gradient.NetworkLayout(table, numbers, regions, *ends)
        known = np.concatenate([*places, np.zeros(1, np.int64)]) if n_images else None
        return Layout(net, known, int(marks.sum()), scratch.end)


def _before(counts: np.ndarray) -> np.ndarray:
    return np.cumsum(counts) - counts


def _places(layer: np.ndarray, itemsize: int) -> np.ndarray:
    """Return offsets: of windows in a bordered image, in a window, and in a line of outputs."""
    _, wide, channels, down, across, filters, size, stride, padding = layer[
        network_gradient.SHAPE : network_gradient.WIDTH
    ]
    line = (wide + 2 * padding) * channels
    windows = np.add.outer(np.arange(down) * line, np.arange(across) * channels) * stride
    runs = np.add.outer(np.arange(size) * line, np.arange(size * channels))
    along = np.arange(across) * padded(int(filters), itemsize)
    return np.concatenate([one.reshape(-1) for one in (windows, runs, along)])


class _Scratch:
    """Adjacent regions of memory; each is a number of whole vectors plus one spare vector.

    end : end of the last region, as a number of array elements
    """

    def __init__(self, itemsize: int) -> None:
        self.itemsize = itemsize
        self.end = 0

    def take(self, n: int) -> int:
        """Reserve a region for n array elements; return its first place."""
        begin = self.end
        self.end += padded(int(n), self.itemsize) + VECTOR_BYTES // self.itemsize
        return begin

    def add_filters(self, layer: np.ndarray, goes_back: bool) -> None:
        """Reserve memory for a convolution's filters, derivatives and transposed filters."""
        channels, filters, size = (int(layer[network_gradient.SHAPE + k]) for k in (2, 5, 6))
        n = (size * size * channels + 1) * padded(filters, self.itemsize)
        layer[network_gradient.FILTERS], layer[network_gradient.SLOPES] = self.take(n), self.take(n)
        if goes_back:
            layer[network_gradient.FLIPPED] = self.take(
                size * filters * padded(size * channels, self.itemsize)
            )

    def regions(
        self, images: np.ndarray, largest: int, dense: np.ndarray, goes_back: bool
    ) -> np.ndarray:
        """Reserve all other regions; return their first places.

        images, dense : rows of the table for layers that take images, and for dense layers
        largest : length of the largest image
        goes_back : whether the first dense layer passes derivatives to a previous layer
        """
        sums = bordered = line = 0
        for layer in images[
            images[:, network_gradient.KIND] == network_gradient.CONVOLUTION
        ].tolist():
            height, wide, channels, down, across, filters, size, _, padding = layer[
                network_gradient.SHAPE : network_gradient.WIDTH
            ]
            whole = (wide + 2 * padding) * channels
            sums = max(sums, down * across * padded(filters, self.itemsize))
            bordered = max(bordered, (height + 2 * padding) * whole)
            run = padded(size * channels, self.itemsize)
            line = max(line, (across + 1) * run + whole)
        found = np.zeros(network_gradient.N_REGIONS, np.int64)
        found[network_gradient.SPACE] = largest
        found[network_gradient.ONE], found[network_gradient.SUMS] = self.take(1), self.take(sums)
        found[network_gradient.BORDERED], found[network_gradient.LINE] = (
            self.take(bordered),
            self.take(line),
        )
        responds = bool((images[:, network_gradient.KIND] == network_gradient.RESPONSE).any())
        found[network_gradient.RESPONSES] = self.take(3 * largest * responds)
        found[network_gradient.FIRST], found[network_gradient.SECOND] = (
            self.take(largest),
            self.take(largest),
        )
        widest = int(dense[:, network_gradient.WIDTH].max())
        found[network_gradient.STRIP] = (
            max(1, STRIP_BYTES // (TALLEST * widest * self.itemsize)) * TALLEST
        )
        coefs = int(found[network_gradient.STRIP]) * widest
        for index, layer in enumerate(dense.tolist()):
            n_in, n_out = layer[network_gradient.N_IN], layer[network_gradient.N_OUT]
            coefs = max(coefs, n_in * layer[network_gradient.WIDTH])
            if index > 0 or goes_back:
                coefs = max(coefs, n_out * padded(n_in, self.itemsize))
        found[network_gradient.COEFS] = self.take(coefs)
        return found


def plan_of(
    layers: Sequence[Layer], n_features: int, image: tuple[int, int, int] | None, activation: str
) -> LayerPlan:
    """Make the plan of a sequence of layers."""
    plan = LayerPlan(n_features, image, activation)
    for layer in layers:
        if not isinstance(layer, Layer):
            raise TypeError(
                "layers must be Dense, Convolution, Pooling and LocalResponse of "
                f"hogshare.problems; got {type(layer).__name__}."
            )
        layer.add_to(plan)
    return plan
