"""``hogshare bench ranks``: the costs of a cluster's messages and rows, and the gain of more ranks.

All ranks of a job measure together, without shared memory; rank 0 prints. The result is one
dictionary of plain data, which is also the JSON output:

    settings, data, versions, mpi
    ranks       host, cores and workers of each rank; ``numbers`` is the length of an exchanged
    vector ways        latency and bandwidth from rank 0 to each other rank costs       cost of a
    row, a short message, a byte and an exchange; cost of an exchange in a run prediction  seconds
    of an epoch by number of ranks; ``best_ranks``, ``pays_from_rows`` target      the objective to
    reach table       predicted and measured numbers, for one rank and for all ranks runs        a
    run for each round and number of ranks, with its trace
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hogshare.cli import console, options
from hogshare.lab.experiments import common_options
from hogshare.lab.harness import rank_measurement, rounds
from hogshare.lab.harness import settings as declared
from hogshare.lab.harness.command import Command, Result, warn
from hogshare.lab.harness.experiment import reached_by_all
from hogshare.lab.harness.settings import Setting
from hogshare.lab.harness.table_numbers import MeasuredRun, Row, median, ratio

if TYPE_CHECKING:
    from hogshare.lab.prediction.rank_epochs import ClusterCosts
    from hogshare.report import Report

DESCRIPTION = """\
Measure in about a minute whether more machines pay: the time of messages between the ranks of this
job, of rows on each rank and of an exchange; then the same problem alternately on one rank and on
all. Every rank reads --data. Ranks exchange messages as on several machines, even if they share
one. The output has the predicted and the measured time of an epoch and, by the same formula, the
number of ranks with the shortest epoch and the rows from which two ranks are faster than one."""

EXAMPLES = """\
examples:
  hogshare bench ranks --data zipf --json ranks.json

Start it with the launcher, on all machines of the job:

  mpiexec -n 4 python -m mpi4py -m hogshare bench ranks
  srun --cpu-bind=cores python -m mpi4py -m hogshare bench ranks"""

MORE = 3, 2  # limit of all ranks' epochs over one rank's epochs, as a fraction
ONE, ALL = "one", "all"

SETTINGS = (
    *common_options.linear_rows("zipf"),
    Setting("workers", "of each rank (default: its share of the cores)", type=options.positive_int),
    Setting(
        "epochs", "of a run of one rank; all may run half as many more", 10, options.positive_int
    ),
    Setting("seconds", "after which no further round begins", 60.0, options.positive),
    Setting(
        "target",
        "objective to reach, penalty included (default: where runs of one rank have made "
        "99%% of their gain)",
        type=options.finite,
    ),
    Setting("rounds", "at most", 5, options.positive_int),
    common_options.points(4),
    common_options.SEED,
)


def measure(args: Any, runtime: Any) -> Result:
    """Measure on all ranks, each of which must call this; the result is complete on rank 0 only."""
    from hogshare.solvers.outcome import versions

    X, y = common_options.load(args)
    settings = declared.values_of(args, SETTINGS)
    runner = Runner(runtime, common_options.stated(X, y, settings), settings)
    began = time.perf_counter()
    with console.progress(2 + 2 * settings["rounds"], "ranks") as progress:
        runner.warm_up()
        progress.advance("(warming up)")
        known = runner.constants()
        progress.advance("(messages and rows)")
        runs = runner.runs(began, progress.advance)
    problem = runner.problem
    data = {"rows": problem.n_rows, "columns": problem.n_features, "nonzeros": problem.nnz}
    result = {"settings": settings, "data": data, "versions": versions(), **known, "runs": runs}
    return summed(result) if runner.place == 0 else result


class Runner:
    """The runs of a rank, each together with the other ranks.

    problem : the problem on all rows
    """

    def __init__(self, runtime: Any, problem: Any, settings: dict[str, Any]) -> None:
        import numpy as np

        from hogshare.problems.linear.part import picked

        self.runtime, self.problem, self.settings = runtime, problem, settings
        self.place, self.size = runtime.place()
        self.workers = runtime.ranks.workers
        mine = np.arange(self.place, problem.n_rows, self.size)
        self.own = problem.with_rows(picked(problem.rows, mine))
        runtime.rows = "shard"

    @property
    def numbers(self) -> int:
        """Return the length of an exchanged vector."""
        return int(self.problem.n_features * self.problem.n_columns)

    def warm_up(self) -> None:
        """Compile or load the kernels of the runs."""
        self.solved(self.own, self.alone, 1)
        self.solved(self.own, self.together, 1)

    @property
    def alone(self) -> dict[str, Any]:
        """Return the arguments of a run on one rank."""
        count = self.workers[self.place]
        return {"runtime": "caller" if count == 1 else "threads", "n_workers": count}

    @property
    def together(self) -> dict[str, Any]:
        """Return the arguments of a run on all ranks."""
        return {"runtime": self.runtime, "n_workers": self.workers[self.place]}

    def solved(self, problem: Any, who: dict[str, Any], epochs: int, seed: int = 0) -> Report:
        """Solve once."""
        from hogshare import Stop, solve

        stop, points = Stop(epochs=epochs, tol=None), self.settings["points"]
        return solve(problem, stop=stop, seed=seed, trace=points, **who)

    def constants(self) -> Result:
        """Measure the costs of messages and rows while all ranks work."""
        from hogshare.runtimes.mpi.channel import Channel
        from hogshare.runtimes.mpi.door import known
        from hogshare.runtimes.mpi.rank_pool import RankPool
        from hogshare.runtimes.mpi.rank_seats import seat
        from hogshare.runtimes.mpi.round_trips import ways

        call = self.runtime.call
        channel = Channel(RankPool(call.talk.comm, call.poll).copy_of_comm(call.agree), call.poll)
        try:
            found = [way._asdict() for way in ways(channel)]
        finally:
            channel.close()
        epochs = self.settings["epochs"]
        rows = [self.row_seconds(epochs) for _ in range(3)]
        row, at = statistics.median(rows), seat(None)
        machine = {"host": at.host, "cores": len(at.cores), "row_seconds": row}
        places = self.runtime.gathered((machine, at.memory))
        everybody = [
            {**one, "workers": n} for (one, _), n in zip(places, self.workers, strict=True)
        ]
        shares = len({memory for _, memory in places}) == 1
        return {
            "mpi": known()["version"],
            "ranks": everybody,
            "one_memory": shares,
            "numbers": self.numbers,
            "ways": found,
        }

    def row_seconds(self, epochs: int) -> float:
        """Measure the seconds of a row on this rank, while the other ranks also work."""
        self.runtime.gathered(None)
        return per_epoch(self.solved(self.own, self.alone, epochs)) / self.own.n_rows

    def runs(self, began: float, advance: Any) -> list[Row]:
        """Run one rank and all ranks, in rounds, until the time is up."""
        found: list[Row] = []
        for number in range(self.settings["rounds"]):
            for who in rounds.in_order((ONE, ALL), number):
                found += self.run(who, number)
                advance(f"(round {number + 1}, {who})")
            spent = time.perf_counter() - began
            is_over = spent * (number + 2) > self.settings["seconds"] * (number + 1)
            if self.runtime.gathered(is_over)[0]:
                break
        return found

    def run(self, who: str, number: int) -> list[Row]:
        """Return the result of a run, if this rank took part."""
        epochs, seed = self.settings["epochs"], self.settings["seed"] + number
        self.runtime.gathered(None)
        if who == ALL:
            more, of = MORE
            report = self.solved(self.own, self.together, -(-epochs * more // of), seed)
        elif self.place == 0:
            report = self.solved(self.problem, self.alone, epochs, seed)
        else:
            return []
        plain = report.to_dict()
        return [
            {
                "ranks": self.size if who == ALL else 1,
                "round": number,
                "epochs": report.n_epochs,
                "seconds": report.run_seconds,
                "seconds_per_epoch": per_epoch(report),
                "interval": report.settings.get("machine_exchange_rows"),
                "traffic": report.traffic,
                "trace": plain["trace"],
                "notes": plain["notes"],
            }
        ]


def per_epoch(report: Report) -> float:
    """Return the mean seconds of an epoch.

    The first epoch, which has frequent exchanges, is left out if there are more epochs.
    """
    trace = report.trace
    assert trace is not None
    begin = max(0, int((trace.epochs < 1.0 - 1e-9).sum())) if trace.epochs[-1] > 1.5 else 0
    gone = trace.seconds[-1] - trace.seconds[begin]
    return float(gone / (trace.epochs[-1] - trace.epochs[begin]))


def summed(result: Result) -> Result:
    """Add costs, predictions and the table of measurements to a result."""
    count, n_rows = len(result["ranks"]), result["data"]["rows"]
    costs, found = costs_of(result)
    best = costs.best(n_rows)
    counts = sorted({1, count, 2 * best, *(2**k for k in range(best.bit_length()))})
    predicted = [{"ranks": m, "seconds": costs.epoch(n_rows, m)} for m in counts]
    for one in predicted:
        one["times"] = ratio(predicted[0]["seconds"], one["seconds"])
    ones = [run for run in result["runs"] if run["ranks"] == 1]
    target = result["settings"]["target"]
    target = reached_by_all(ones) if target is None else target
    table = table_of(result, target, {one["ranks"]: one["seconds"] for one in predicted})
    return {
        **result,
        "costs": {**vars(costs), **found},
        "prediction": predicted,
        "best_ranks": best,
        "pays_from_rows": costs.pays_from(),
        "target": target,
        "table": table,
    }


def costs_of(result: Result) -> tuple[ClusterCosts, Row]:
    """Return the measured constants, and further facts on exchanges."""
    from hogshare.lab.prediction.rank_epochs import ClusterCosts

    ways, data, count = result["ways"], result["data"], len(result["ranks"])
    together = [run for run in result["runs"] if run["ranks"] > 1]
    messages, n_bytes = on_an_edge(together, "update")
    costs = ClusterCosts(
        row=max(one["row_seconds"] for one in result["ranks"]),
        latency=max(way["latency"] for way in ways),
        bandwidth=min(way["bandwidth"] for way in ways),
        n_bytes=n_bytes / max(1, messages),
        numbers=result["numbers"],
    )
    exchanges = costs.passing(data["rows"], count) + 1
    epoch = statistics.median(run["seconds_per_epoch"] for run in together)
    passed = sum(run["epochs"] for run in together)
    return costs, {
        "interval": costs.interval(data["rows"], count),
        "interval_found": together[0]["interval"],
        "work": costs.work(count),
        "exchange": costs.way(count) + costs.work(count),
        "exchanges": exchanges,
        "exchanges_found": messages / passed,
        # time of an epoch beyond its rows, per exchange
        "exchange_found": (epoch - data["rows"] * costs.row / count) / exchanges,
    }


def on_an_edge(runs: list[Row], kind: str) -> tuple[float, float]:
    """Return the messages and bytes of a kind over all runs, on one edge with such messages."""
    found = [run["traffic"].get(kind, {"messages": 0, "bytes": 0, "edges": {}}) for run in runs]
    edges = max(1, *(len(one["edges"]) for one in found))
    return sum(one["messages"] for one in found) / edges, sum(one["bytes"] for one in found) / edges


def table_of(result: Result, target: float, predicted: dict[int, float]) -> list[Row]:
    """Make a row for one rank and a row for all ranks: predicted and measured seconds.

    The seconds are per epoch and to the target.
    """
    table: list[Row] = []
    for count in (1, len(result["ranks"])):
        runs = [MeasuredRun(run, target) for run in result["runs"] if run["ranks"] == count]
        row: Row = {
            "ranks": count,
            "predicted": predicted[count],
            "seconds_per_epoch": median([run["seconds_per_epoch"] for run in runs]),
            "epochs": median([run.first("epochs") for run in runs]),
            "seconds": median([run.first("seconds") for run in runs]),
        }
        table.append(row)
        row["times"] = ratio(table[0]["seconds"], row["seconds"])
    return table


def doubts(result: Result) -> list[str]:
    """Return warnings on the measured numbers."""
    found, places = [], result["ranks"]
    for host in sorted({one["host"] for one in places}):
        local = [one for one in places if one["host"] == host]
        workers, cores = sum(one["workers"] for one in local), max(one["cores"] for one in local)
        if workers >= cores > 1 or workers > cores:
            found.append(
                f"{host} has {workers} workers on {cores} cores: messages take their time from the "
                "workers"
            )
    if result["one_memory"]:
        found.append(
            "all ranks are on one machine, where MPI() shares memory and exchanges nothing: the "
            "measured messages did not use a network"
        )
    return found


class Ranks(Command):
    """The measurement, as a part of the command."""

    def run(self, args: Any) -> int:
        """Measure on all ranks; rank 0 prints. Return the exit code."""
        return rank_measurement.run(self, args)

    def result(self, args: Any) -> Result:
        """Measure together with the other ranks."""
        result = measure(args, args.assigned["runtime"])
        warn(doubts(result))
        return result

    def show(self, result: Result) -> None:
        """Print predicted and measured seconds, and below them the constants."""
        measured = {row["ranks"]: row for row in result["table"]}
        header = ["ranks", "s/epoch predicted", "times", "s/epoch", "epochs", "seconds", "times"]
        rows = []
        for one in result["prediction"]:
            row = measured.get(one["ranks"], dict[str, Any]())
            names = ("seconds_per_epoch", "epochs", "seconds", "times")
            rows.append([one["ranks"], one["seconds"], one["times"], *map(row.get, names)])
        console.show_table(header, rows, title=f"to objective {result['target']:.6g}")
        for sentence in sentences(result):
            console.say(sentence)


def sentences(result: Result) -> Iterator[str]:
    """Yield the sentences below the table."""
    costs, data, settings = result["costs"], result["data"], result["settings"]
    count = len({run["round"] for run in result["runs"]})
    yield (
        f"{settings['data']}, {data['rows']:,} rows of {data['columns']:,} columns; "
        f"{len(result['ranks'])} ranks, {result['mpi']}; medians of {count} rounds"
    )
    yield (
        f"a row takes {1e9 * costs['row']:.3g} ns of a rank; a short message "
        f"{1e3 * costs['latency']:.3g} ms, bytes {1e-6 * costs['bandwidth']:.4g} MB/s; an exchange "
        f"has {1e-3 * costs['n_bytes']:.4g} kB and takes {1e3 * costs['work']:.3g} ms of the cores"
    )
    yield (
        f"{costs['exchanges']:.3g} exchanges of a rank in an epoch (in runs "
        f"{costs['exchanges_found']:.3g}), {1e3 * costs['exchange']:.3g} ms each if waited for; in "
        f"runs an epoch has taken {1e3 * costs['exchange_found']:.3g} ms for each beyond its rows"
    )
    pays = result["pays_from_rows"]
    from_rows = "never" if pays is None else f"from {pays:,} such rows on"
    yield (
        f"by these an epoch is shortest on {result['best_ranks']} ranks; two are faster than one "
        f"{from_rows}"
    )


RANKS = Ranks(
    name="ranks",
    help="the costs of messages between MPI ranks, and the gain of more ranks",
    description=DESCRIPTION,
    examples=EXAMPLES,
    settings=SETTINGS,
    is_drawn=False,
)
