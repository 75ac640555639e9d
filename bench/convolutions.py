"""Networks with images: microseconds per image of a pass, compared with torch with one thread.

LENET on rows of MNIST, and CIFAR10-FULL's net, with and without its local responses, on synthetic
images; mini-batches of 50 and of 100, momentum 0.9, float32. hogshare has one worker or two
threads, torch has images by channels (NCHW) or by places (`channels_last`). Each takes `passes`
passes in a process where all have run once, one contestant after another; medians of the rounds.
Goal: one worker no slower than the faster of torch's two; two workers at least 1.6 times one.
Usage, with torch installed::

    HOGSHARE_DATA=FOLDER python bench/convolutions.py --json bench/results/convolutions.json
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import script
from threadpoolctl import threadpool_limits

from hogshare import SGD, datasets, problems, solve
from hogshare.lab.studies import named_networks
from hogshare.problems.layers import Convolution, Dense, Layer, LocalResponse, Pooling

STEP, MOMENTUM = 0.001, 0.9
CIFAR = named_networks.CIFAR10_FULL
NETS: dict[str, tuple[tuple[Layer, ...], tuple[int, int, int]]] = {
    "lenet": (named_networks.LENET, (28, 28, 1)),
    "cifar": (tuple(one for one in CIFAR if not isinstance(one, LocalResponse)), (32, 32, 3)),
    "cifar10-full": (CIFAR, (32, 32, 3)),
}
WORKERS = {"one worker": (1, "caller"), "two threads": (2, "threads")}


def rows_of(name: str, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Images (NHWC) and labels."""
    shape = NETS[name][1]
    if name == "lenet":
        X, y = datasets.load("mnist-digits", dtype="float32")
        chosen = np.random.default_rng(0).permutation(len(y))[:n_rows]
        return (X[chosen] / np.float32(X.max())).reshape(-1, *shape), np.asarray(y)[chosen]
    draws = np.random.default_rng(0)
    return draws.random((n_rows, *shape), dtype=np.float32), draws.integers(0, 10, n_rows)


def ours(problem: Any, who: str, batch: int, options: Any) -> float:
    """By `solve`: the run's own seconds."""
    n_workers, runtime = WORKERS[who]
    rule = SGD(batch=batch, momentum=MOMENTUM)
    settings = {"step": STEP, "runtime": runtime, "n_workers": n_workers, "seed": 0}
    report = solve(problem, rule=rule, stop=options.passes, **settings)
    return report.seconds["run"] / options.passes


def module_of(layers: tuple[Layer, ...], image: tuple[int, int, int]) -> Any:
    """The network in torch, for images by channels."""
    from torch import nn

    class Response(nn.Module):
        """Local response within each channel, which torch has none of."""

        def __init__(self, layer: LocalResponse) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Any) -> Any:
            layer = self.layer
            squares = nn.functional.avg_pool2d(x * x, layer.size, 1, layer.size // 2)
            return x * (layer.k + layer.alpha * squares) ** -layer.beta

    found: list[Any] = []
    plan = problems.layers.plan_of((), int(np.prod(image)), image, "relu")
    for layer in layers:
        before, n_before = plan.image, plan.n_now
        layer.add_to(plan)
        if isinstance(layer, Dense):
            found += [nn.Flatten()] * (before is not None) + [nn.Linear(n_before, layer.units)]
        elif isinstance(layer, Convolution):
            sizes = before[2], layer.filters, layer.size  # type: ignore[index]
            found.append(nn.Conv2d(*sizes, layer.stride, layer.padding))
        elif isinstance(layer, Pooling):
            kind = nn.MaxPool2d if layer.kind == "max" else nn.AvgPool2d
            found.append(kind(layer.size, layer.stride, ceil_mode=True))
        else:
            found.append(Response(layer))
        if isinstance(layer, Dense | Convolution) and layer.activation != "identity":
            found.append(nn.ReLU())
    found += [nn.Flatten()] * (plan.image is not None) + [nn.Linear(plan.n_now, 10)]
    return nn.Sequential(*found)


def torchs(
    name: str, rows: tuple[np.ndarray, np.ndarray], batch: int, by_places: bool, passes: int
) -> float:
    """By torch, from tensors in memory."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    X, y = map(torch.from_numpy, rows)
    X = X.permute(0, 3, 1, 2)
    module = module_of(*NETS[name])
    kind = torch.channels_last if by_places else torch.contiguous_format
    X, module = X.contiguous(memory_format=kind), module.to(memory_format=kind)
    optimiser = torch.optim.SGD(module.parameters(), lr=STEP, momentum=MOMENTUM)
    began = time.perf_counter()
    for _ in range(passes):
        for part in torch.randperm(len(X)).split(batch):
            optimiser.zero_grad()
            images = X[part].contiguous(memory_format=kind)
            torch.nn.functional.cross_entropy(module(images), y[part]).backward()
            optimiser.step()
    return (time.perf_counter() - began) / passes


def contestants_of(name: str, options: Any) -> dict[Any, Callable[[int], float]]:
    """Everybody on one network, by network, mini-batch and name."""
    images, labels = rows_of(name, options.rows)
    stated = {"layers": NETS[name][0], "shape": NETS[name][1]}
    problem = problems.network(images.reshape(len(images), -1), labels, **stated)
    found: dict[Any, Callable[[int], float]] = {}
    for batch in options.batches:
        for who in WORKERS:
            found[name, batch, who] = lambda k, b=batch, w=who: ours(problem, w, b, options)
        for who, by_places in (("torch", False), ("torch, channels last", True)):
            found[name, batch, who] = lambda k, b=batch, p=by_places: torchs(
                name, (images, labels), b, p, options.passes
            )
    return found


def measure(options: Any) -> dict[str, Any]:
    """Seconds per pass of everybody."""
    contestants: dict[Any, Callable[[int], float]] = {}
    for name in options.nets:
        contestants |= contestants_of(name, options)
    with threadpool_limits(limits=1):
        taken = script.in_rounds(contestants, options.rounds)
    table = []
    for (name, batch, who), seconds in taken.items():
        median = statistics.median(seconds)
        base = statistics.median(taken[name, batch, "one worker"])
        cell = {"net": name, "batch": batch, "who": who, "microseconds an image": 1e6 * median}
        cell["microseconds an image"] /= options.rows
        table.append({**cell, "of one worker's": median / base})
    script.show(table, "microseconds an image")
    names = ("rounds", "passes", "rows")
    return {"settings": {one: getattr(options, one) for one in names}, "results": table}


if __name__ == "__main__":
    script.run(__doc__, measure, nets=tuple(NETS), batches=(50, 100), rounds=5, passes=4, rows=1000)
