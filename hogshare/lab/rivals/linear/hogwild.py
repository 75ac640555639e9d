"""PyTorch's Hogwild: processes share one parameter, and each has its own optimiser.

Writers: every worker adds its steps to the parameter without locks. This process sets the parameter
to zero while the workers wait for a message. Readers: all processes. Lifetime: the workers end with
`close`, or with this process, because they are daemons.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from hogshare.lab.rivals.contestant import Setting
from hogshare.lab.rivals.linear.linear_race import Linear
from hogshare.problems.modules import library


class TorchHogwild(Linear):
    """``torch.optim.SGD`` on mini-batches in every worker; workers start before the timed fit."""

    name = "torch Hogwild"
    library = "torch"

    def grid(self) -> list[Setting]:
        return [
            {"batch": batch, "step": step / self.task.mean_square}
            for batch in (64, 8)
            for step in (1.0, 10.0, 0.1, 100.0)
        ]

    def prepare(self, X: Any, y: np.ndarray) -> Any:
        torch = library()
        multiprocessing = torch.multiprocessing
        X = sparse.csr_matrix(X, dtype=np.float32)
        rows = [
            torch.from_numpy(array).share_memory_()
            for array in (
                X.indptr.astype(np.int64),
                X.indices.astype(np.int64),
                X.data,
                y.astype(np.float32),
            )
        ]
        w = torch.zeros(X.shape[1], 1).share_memory_()
        context = multiprocessing.get_context("spawn")
        crew = []
        for rank in range(self.task.workers):
            own, remote = context.Pipe()
            worker = context.Process(
                target=work, args=(remote, rank, self.task, rows, w), daemon=True
            )
            worker.start()
            remote.close()  # so that the end of the worker is an end of file on `own`
            crew.append((worker, own))
        for _, pipe in crew:
            pipe.recv()
        return w, crew

    def fit(self, prepared: Any, setting: Setting, budget: float, seed: int) -> Any:
        w, crew = prepared
        w.zero_()
        for _, pipe in crew:
            pipe.send((setting, int(budget), seed))
        for _, pipe in crew:
            pipe.recv()
        return w

    def model(self, fitted: Any) -> np.ndarray:
        return fitted.numpy()[:, 0].astype(np.float64)

    def close(self, prepared: Any) -> None:
        for worker, pipe in prepared[1]:
            pipe.close()
            worker.join()


def work(pipe: Any, rank: int, task: Any, rows: Any, shared: Any) -> None:
    """Fit on each request until the pipe is closed."""
    torch = library()
    torch.set_num_threads(1)
    w = torch.nn.Parameter(shared)
    pipe.send(None)
    while True:
        try:
            setting, epochs, seed = pipe.recv()
        except EOFError:
            return
        optimiser = torch.optim.SGD([w], lr=setting["step"], weight_decay=task.alpha)
        orders = torch.Generator().manual_seed(seed)
        for _ in range(epochs):
            batches = -(-task.n_rows // setting["batch"])
            # all workers draw the same order; each takes every n-th batch of it
            order = torch.randperm(batches, generator=orders)[rank :: task.workers]
            for first in (order * setting["batch"]).tolist():
                last = min(first + setting["batch"], task.n_rows)
                optimiser.zero_grad()
                batch_loss(rows, w, task.loss, first, last).backward()
                optimiser.step()
        pipe.send(None)


def batch_loss(rows: Any, w: Any, loss: str, first: int, last: int) -> Any:
    """Return the mean loss of the rows from `first` up to, but without, `last`."""
    functional = library().nn.functional
    starts, indices, values, y = rows
    begin, end = int(starts[first]), int(starts[last])
    scores = functional.embedding_bag(
        indices[begin:end],
        w,
        starts[first:last] - begin,
        per_sample_weights=values[begin:end],
        mode="sum",
    )
    margin = y[first:last] * scores[:, 0]
    losses = functional.relu(1.0 - margin) if loss == "hinge" else functional.softplus(-margin)
    return losses.mean()
