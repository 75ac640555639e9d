"""User gradients: the engine's overhead, the gain of two processes, and a race against torch.

`added`: microseconds per block above the gradient itself, for one of 50 us. The gradient is a loop
compiled by Numba that reads no rows. Alone it is timed in as many threads at once as there are
workers, so that mutual slowdown of the cores does not count as the engine's. Goal: at most 20.

`network`: rows per second of a network in NumPy (784-100-10, mini-batches of 200) by one worker,
with one thread of BLAS and with BLAS's default, and by two processes; and by two independent runs
at once, which is the ceiling. Goal: two processes at least 1.7 times one.

`race`: seconds until 97 % of MNIST's test rows are right: for torch from the moment when both
workers are ready, for hogshare from when the first has joined, although the second joins later
(`last to join`). The same module (784-100-10), loss and mini-batches are trained by PyTorch's
Hogwild, as in its example (a module in shared memory, two spawned processes with
``torch.optim.SGD``, one thread each, every process over all rows in its own order), and by
`problems.torch`. torch reads its rows from tensors in shared memory, or, slower, from a
`DataLoader`, as in the example. Snapshots are stored during the run and evaluated after it. Each
has its best step of a grid; medians of the rounds. Goal: hogshare first. Usage::

    HOGSHARE_DATA=FOLDER python bench/gradients.py --json bench/results/gradients.json

Parts that are not measured (``--parts``) are not changed in the file.
"""

from __future__ import annotations

import multiprocessing
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numba
import numpy as np
import script
from threadpoolctl import threadpool_limits

from hogshare import SGD, Shared, datasets, problems, solve
from hogshare.lab.harness.table_numbers import median

MICROSECONDS = 50.0  # of the gradient to which the engine adds
BLOCKS = 20_000
PARAMS = 100
BATCH = 200  # of the network in NumPy
HIDDEN = 100
RACE_BATCH = 64
PASSES = 8  # over the rows, of both workers together
STEPS = (0.05, 0.1, 0.2)
SNAPSHOTS = 8  # in a pass
TARGET = 0.97
MEAN, DEVIATION = 0.1307, 0.3081  # of MNIST's pixels, as PyTorch's example has them


# -- what the engine adds ------------------------------------------------------------------------


@numba.njit(nogil=True)
def spin(turns: int) -> float:
    x = 1.0
    for _ in range(turns):
        x = x * 0.999999 + 1e-9
    return x


@numba.njit(nogil=True)
def spins(turns: int, calls: int) -> float:
    x = 0.0
    for _ in range(calls):
        x += spin(turns)
    return x


def turns_of(microseconds: float) -> int:
    """How often the loop is gone through in so many microseconds, alone."""
    spins(1, 1)
    taken = []
    for _ in range(7):
        began = time.perf_counter()
        spins(100_000, 10)
        taken.append(time.perf_counter() - began)
    return round(microseconds * 1e-6 * 1_000_000 / min(taken))


def side_by_side(turns: int, workers: int) -> float:
    """Microseconds of a call while as many threads as workers call it."""
    calls = 5_000
    crew = [threading.Thread(target=spins, args=(turns, calls)) for _ in range(workers)]
    began = time.perf_counter()
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    return 1e6 * (time.perf_counter() - began) / calls


def added(rounds: int) -> dict[str, Any]:
    """Microseconds per block, above the gradient's own."""
    turns = turns_of(MICROSECONDS)

    @numba.njit(nogil=True)
    def gradient(w: np.ndarray, rows: np.ndarray, out: np.ndarray) -> float:
        out[0] += spin(turns) - 1.0
        return 1.0

    found: dict[str, Any] = {"asked": 20.0, "blocks": BLOCKS, "params": PARAMS}
    problem = problems.user(gradient, BLOCKS, PARAMS)
    planes = {"private copies": Shared(), "one vector": Shared(exchange=None)}

    def run(runtime: str, workers: int, plane: str) -> dict[str, float]:
        how = {"runtime": runtime, "n_workers": workers, "plane": planes[plane]}
        alone = side_by_side(turns, workers)
        report = solve(problem, block=1, stop=1, step=1e-9, seed=0, **how)
        whole = 1e6 * report.seconds["run"] * workers / BLOCKS
        return {"gradient us": alone, "added us": whole - alone}

    cases = [
        (runtime, workers, plane)
        for runtime, workers in (("caller", 1), ("threads", 2), ("processes", 2))
        for plane in planes
    ]
    taken = script.in_rounds({case: lambda k, case=case: run(*case) for case in cases}, rounds)
    found["table"] = [
        {"runtime": runtime, "plane": plane, **script.medians(runs)}
        for (runtime, _, plane), runs in taken.items()
    ]
    return found


# -- a network in NumPy --------------------------------------------------------------------------


def pixels(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Images as PyTorch's example scales them, and their digits."""
    X, y = datasets.load(name, dtype="float32")
    return (X - np.float32(MEAN)) / np.float32(DEVIATION), y


def network(X: np.ndarray, y: np.ndarray) -> Any:
    """784-100-10, tanh, cross-entropy: a gradient in NumPy."""
    d, k = X.shape[1], 10
    ends = np.cumsum([HIDDEN * d, HIDDEN, k * HIDDEN, k])

    def parts(w: np.ndarray) -> tuple[np.ndarray, ...]:
        first, bias, second, last = np.split(w, ends[:-1])
        return first.reshape(HIDDEN, d), bias, second.reshape(k, HIDDEN), last

    def gradient(w: np.ndarray, rows: np.ndarray, out: np.ndarray) -> float:
        first, bias, second, last = parts(w)
        x = X[rows]
        h = np.tanh(x @ first.T + bias)
        z = h @ second.T + last
        z -= z.max(axis=1, keepdims=True)
        p = np.exp(z)
        p /= p.sum(axis=1, keepdims=True)
        mine = np.arange(len(rows)), y[rows]
        loss = -float(np.log(p[mine] + 1e-30).sum())
        p[mine] -= 1.0
        of_first, of_bias, of_second, of_last = parts(out)
        of_second += p.T @ h
        of_last += p.sum(axis=0)
        back = (p @ second) * (1.0 - h * h)
        of_first += back.T @ x
        of_bias += back.sum(axis=0)
        return loss

    draws = np.random.default_rng(0)
    start = np.zeros(ends[-1], np.float32)
    parts(start)[0][:] = draws.standard_normal((HIDDEN, d)) / np.sqrt(d)
    parts(start)[2][:] = draws.standard_normal((k, HIDDEN)) / np.sqrt(HIDDEN)
    return problems.user(gradient, len(X), len(start), start=start)


def rows_a_second(problem: Any, **who: Any) -> float:
    """Rows per second of a run of ten epochs, some two seconds of one worker."""
    run = {"rule": SGD(batch=BATCH), "step": 0.1 / BATCH, "stop": 10, "seed": 0}
    report = solve(problem, **run, **who)
    return problem.n_rows * 10 / report.seconds["run"]


def one_worker(problem: Any, limit: int | None) -> float:
    """Rows per second by one, with so many threads of BLAS; None: as many as it takes."""
    with threadpool_limits(limits=limit):
        return rows_a_second(problem, runtime="caller", n_workers=1)


def one_of_two(rounds: int, ready: Any, told: Any) -> None:
    """A process with a run of its own, beside another."""
    problem = network(*pixels("mnist-digits"))
    one_worker(problem, 1)
    for _ in range(rounds):
        ready.wait()
        told.put(one_worker(problem, 1))


def at_once(rounds: int) -> list[float]:
    """Rows per second of two runs that have nothing to do with each other, together."""
    context = multiprocessing.get_context("spawn")
    ready, told = context.Barrier(2), context.Queue()
    crew = [context.Process(target=one_of_two, args=(rounds, ready, told)) for _ in range(2)]
    for process in crew:
        process.start()
    found = [told.get() + told.get() for _ in range(rounds)]
    for process in crew:
        process.join()
    return found


def speed(rounds: int) -> dict[str, Any]:
    """Rows per second by one worker and by two processes."""
    problem = network(*pixels("mnist-digits"))

    def two(plane: Any) -> float:
        return rows_a_second(problem, plane=plane, runtime="processes", n_workers=2)

    contestants: dict[str, Callable[[int], float]] = {
        "one worker, one thread of BLAS": lambda k: one_worker(problem, 1),
        "one worker, BLAS as it is": lambda k: one_worker(problem, None),
        "two processes, private copies": lambda k: two(Shared()),
        "two processes, one vector": lambda k: two(Shared(exchange=None)),
    }
    taken = script.in_rounds(contestants, rounds)
    taken["two runs at once"] = at_once(rounds)
    medians = {name: statistics.median(found) for name, found in taken.items()}
    base = medians["one worker, one thread of BLAS"]
    table = [
        {"who": name, "rows a second": rows, "times one": rows / base}
        for name, rows in medians.items()
    ]
    return {"asked": 1.7, "batch": BATCH, "table": table}


# -- torch's Hogwild -----------------------------------------------------------------------------


def module() -> Any:
    import torch

    torch.manual_seed(1)
    layers = torch.nn.Linear(784, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, 10)
    return torch.nn.Sequential(*layers)


def theirs(rank: int, shared: Any, rows: Any, how: dict[str, Any], ready: Any, told: Any) -> None:
    """A process of PyTorch's Hogwild: all rows, in an order of its own."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(how["seed"] + rank)
    X, y = rows
    if how["loader"]:
        data = torch.utils.data.TensorDataset(X, y)
        batches: Any = torch.utils.data.DataLoader(data, batch_size=RACE_BATCH, shuffle=True)
    optimiser = torch.optim.SGD(shared.parameters(), lr=how["step"])
    every = len(X) // RACE_BATCH // SNAPSHOTS
    kept = []
    ready.wait()
    began, count = time.perf_counter(), 0
    for _ in range(how["passes"]):
        if not how["loader"]:
            parts = torch.randperm(len(X)).split(RACE_BATCH)
            batches = ((X[part], y[part]) for part in parts)
        for inputs, target in batches:
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(shared(inputs), target).backward()
            optimiser.step()
            count += 1
            if rank == 0 and count % every == 0:
                vector = torch.nn.utils.parameters_to_vector(shared.parameters())
                kept.append((time.perf_counter() - began, vector.detach().numpy().copy()))
    ready.wait()
    told.put((rank, time.perf_counter() - began, kept))
    told.close()
    told.join_thread()


class Race:
    """Contestants, a run of each: seconds to the target, of all passes, and of the whole call."""

    def __init__(self) -> None:
        import torch

        self.torch = torch
        self.train, test = pixels("mnist-digits"), pixels("mnist-digits-test")
        self.test = tuple(torch.from_numpy(array) for array in test)
        self.judge = module()

    def wrong(self, vector: np.ndarray) -> float:
        """Share of the test rows that a module with these parameters gets wrong."""
        torch = self.torch
        with torch.no_grad():
            known = torch.from_numpy(np.array(vector))
            torch.nn.utils.vector_to_parameters(known, self.judge.parameters())
            found = self.judge(self.test[0]).argmax(dim=1)
        return float((found != self.test[1]).float().mean())

    def by_torch(self, step: float, seed: int, loader: bool) -> tuple[float | None, float, float]:
        torch = self.torch
        called = time.perf_counter()
        rows = [torch.from_numpy(array).share_memory_() for array in self.train]
        shared = module()
        shared.share_memory()
        context = torch.multiprocessing.get_context("spawn")
        ready, told = context.Barrier(2), context.Queue()
        how = {"step": step, "seed": seed, "loader": loader, "passes": PASSES // 2}
        crew = [
            context.Process(target=theirs, args=(rank, shared, rows, how, ready, told))
            for rank in range(2)
        ]
        for process in crew:
            process.start()
        answers = sorted((told.get() for _ in crew), key=lambda answer: answer[0])
        for process in crew:
            process.join()
        whole = time.perf_counter() - called
        _, run, kept = answers[0]
        first = next((at for at, vector in kept if self.wrong(vector) <= 1.0 - TARGET), None)
        return first, run / PASSES, whole

    def by_us(self, step: float, seed: int, plane: Any) -> tuple[float | None, float, float]:
        called = time.perf_counter()
        loss = self.torch.nn.functional.cross_entropy
        problem = problems.torch(module(), loss, self.train)
        problem.objective = self.wrong
        report = solve(
            problem,
            rule=SGD(batch=RACE_BATCH),
            plane=plane,
            step=step,
            runtime="processes",
            n_workers=2,
            stop=PASSES,
            trace=SNAPSHOTS,
            seed=seed,
        )
        whole = time.perf_counter() - called
        joined = [worker["joined_seconds"] for worker in report.workers]
        came = sorted(np.inf if at is None else at for at in joined)
        print(f"{'':32} last to join {came[-1] - came[0]:.2f} s after the first", flush=True)
        first = report.seconds_to(1.0 - TARGET)
        run = report.seconds["run"] - came[0]
        return None if first is None else first - came[0], run / PASSES, whole


def race(rounds: int) -> dict[str, Any]:
    """Every contestant's best step, then all of them in turn."""
    match = Race()
    contestants: dict[str, Callable[[float, int], tuple[float | None, float, float]]] = {
        "torch, tensors": lambda step, seed: match.by_torch(step, seed, False),
        "problems.torch, one vector": lambda step, seed: match.by_us(
            step, seed, Shared(exchange=None)
        ),
        "problems.torch, private copies": lambda step, seed: match.by_us(step, seed, Shared()),
        "torch, DataLoader": lambda step, seed: match.by_torch(step, seed, True),
    }
    table = []
    best: dict[str, float] = {}
    for name, run in contestants.items():
        if name == "torch, DataLoader":  # other readers of the same rows
            best[name] = best["torch, tensors"]
            continue
        seconds = {}
        for step in STEPS:
            seconds[step] = run(step, 0)[0] or np.inf
            print(f"{name:32} step {step:5}  {seconds[step]:7.2f} s", flush=True)
        best[name] = min(seconds, key=lambda step: seconds[step])
    seeded = {
        name: lambda k, run=run, step=best[name]: run(step, k + 1)
        for name, run in contestants.items()
    }
    for name, found in script.in_rounds(seeded, rounds, warm=False).items():
        first, each, whole = (median(numbers) for numbers in zip(*found, strict=True))
        cell = {"who": name, "step": best[name], "seconds to 97 %": first}
        table.append({**cell, "seconds a pass": each, "seconds of the call": whole})
    settings = {"batch": RACE_BATCH, "passes": PASSES, "grid": STEPS, "rounds": rounds}
    return {"settings": settings, "torch": match.torch.__version__, "table": table}


def measure(options: Any) -> Iterator[dict[str, Any]]:
    """Every part; what the file has of others stays."""
    parts = {"added": added, "network": speed, "race": race}
    results = script.before(options).get("results", {})
    for name in options.parts:
        results[name] = parts[name](options.rounds)
        script.show(results[name]["table"], name)
        yield {"results": results}


if __name__ == "__main__":
    script.run(__doc__, measure, parts=("added", "network", "race"), rounds=3)
