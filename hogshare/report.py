"""The report of a run: the model, the run's measurements, and views of both (JSON, table, plot).

A report contains only plain data and NumPy arrays, copied after the run. It shares no memory with
a worker and can be stored and pickled.
"""

from __future__ import annotations

import html
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hogshare import figures
from hogshare.io import tables
from hogshare.io.documents import Document
from hogshare.system.docstrings import with_properties

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hogshare.lab.prediction.prediction import Prediction

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass
class Trace:
    """The objective along a run, at snapshots of the model.

    All arrays have the same length. The objective is evaluated after the run, on copies of the
    model; the times do not include its cost.

    Parameters
    ----------
    epochs : ndarray of float
        Passes over the rows; fractional for a snapshot taken inside an epoch.
    blocks : ndarray of float
        Blocks completed by all workers together.
    seconds : ndarray of float
        Wall time since the first worker began, or virtual seconds of a simulated run. Set-up and
        evaluation of the objective are excluded.
    objective : ndarray of float
        Mean loss plus penalty over all training rows.
    squared_gradient : ndarray of float or None, default=None
        Squared Euclidean norm of the objective's gradient, if requested with
        ``solve(..., gradients=True)``.
    disagreement : ndarray of float or None, default=None
        For a plane on which each worker has its own model: the root mean square, over workers, of
        the distance between a worker's model and the mean model.
    """

    epochs: np.ndarray
    blocks: np.ndarray
    seconds: np.ndarray
    objective: np.ndarray
    squared_gradient: np.ndarray | None = None
    disagreement: np.ndarray | None = None

    def __post_init__(self) -> None:
        columns = self.columns()
        for name, values in columns.items():
            setattr(self, name, values)
        if len({values.shape for values in columns.values()}) > 1:
            raise ValueError("the arrays of a trace must have one length")

    def columns(self) -> dict[str, np.ndarray]:
        """Return the arrays by name, without arrays that were not requested."""
        known = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {k: np.asarray(v, dtype=np.float64) for k, v in known.items() if v is not None}

    def first(self, objective: float, axis: str = "epochs") -> float | None:
        """Find the first point on an axis at which the objective reaches a value.

        The objective is interpolated linearly between the two snapshots around the crossing.

        Parameters
        ----------
        objective : float
            The value to reach.
        axis : {"epochs", "blocks", "seconds"}, default="epochs"

        Returns
        -------
        float or None
            The point on the axis, or None if no snapshot is that low.
        """
        reached = np.flatnonzero(self.objective <= objective)
        if not reached.size:
            return None
        x = getattr(self, axis)
        i = int(reached[0])
        if i == 0 or not np.isfinite(self.objective[i - 1]):
            return float(x[i])
        drop = self.objective[i - 1] - self.objective[i]  # i > 0: snapshot i is the first below
        share = (self.objective[i - 1] - objective) / drop
        return float(x[i - 1] + share * (x[i] - x[i - 1]))


def _setting(name: str, meaning: str) -> Any:
    """Make an attribute of one setting of a report; None if the report lacks the setting."""
    return property(lambda report: report.settings.get(name), doc=meaning)


def _evaluated(name: str, meaning: str) -> Any:
    """Make an attribute of one number of the last evaluation; None if it was not requested."""

    def get(self: Report) -> float | None:
        return float(self.checks[-1][name]) if self.checks and name in self.checks[-1] else None

    return property(get, doc=meaning)


@with_properties
@dataclass(kw_only=True)
class Report(Document):
    """The result of :func:`hogshare.solve`.

    A report prints as a table, also in a notebook. Every number of the table is an attribute.

    Parameters
    ----------
    model : Model or Params
        The model: ``coef``, ``intercept``, their averages if requested, and the step counter
        ``t``. For a problem with a user-defined gradient: its vector, ``params``.
    settings : dict
        Rule, plane, runtime, workers, step, stop, seed and block size, as used in the run.
    versions : dict
        Versions of hogshare, Python and the libraries used.
    machine : dict
        System, processor and usable cores.
    n_epochs : int
        Number of completed epochs.
    converged : bool
        Whether a stop criterion was met before the epochs ran out.
    stop_reason : str
        Why the run ended, as a phrase.
    epoch_losses : ndarray of shape (n_epochs,)
        Mean training loss of each epoch; the loss of a row is computed before the row's own step.
        Empty if ``Stop.tol`` is None, because nothing else needs it.
    checks : list of dict
        Evaluations of the model for ``Stop(gradient=...)``, ``gap`` or ``relative_gap``, with the
        keys ``epoch``, ``objective`` and the requested criteria. The last entry is for the returned
        model. With ``Stop(confirm=True)``, the list also has the evaluations made when losses
        stopped falling, with the keys ``epoch``, ``objective`` and ``gain``.
    trace : Trace or None
        The objective along the run, if requested.
    workers : list of dict
        For each worker, a dict with the keys ``worker``, ``state``, ``moves`` (its last changes of
        state), ``blocks``, ``rows``, ``pushes``, ``dropped``, ``waiting_seconds``,
        ``mean_block_seconds``, ``largest_lead``, ``joined_seconds`` and ``pid``. ``largest_lead``
        is None if the worker never read the other workers' clocks, for example in a run without a
        barrier. A user-defined plane may add ``waiting_for_plane_seconds``, a part of
        ``waiting_seconds``.
    staleness : ndarray of int
        Histogram: ``staleness[s]`` pushes had staleness ``s``, the number of pushes by others
        between a worker's pull and its push. The last bin also counts all larger values of
        staleness. With a master, the histogram counts messages: a message's staleness is the number
        of other workers' messages that the master had taken and that were not in the snapshot.
    ages : ndarray of int or None
        With a master, a histogram of ages: ``ages[t]`` messages had age ``t``, the number of
        updates of the model between a message's snapshot and its own update. An update is the sum
        of M messages and may include the worker's own previous message. Without a master, `ages` is
        None, because each update is one push, and the age is the staleness.
    turns : int64 array of shape (n_workers, n_turns, 4)
        The last quanta of each worker, at most 256. The columns are blocks, rows, pushes and
        nanoseconds. The rows after a worker's last quantum are zeros. A quantum is the blocks of
        one compiled call, some milliseconds long. The JSON has totals and quantiles instead of this
        array.
    mail : dict or None
        The number of ``messages`` that the master took, and the ``seconds`` that it spent on them.
        None without a master.
    seconds : dict
        Wall time: ``setup``, ``compile``, ``run`` and ``total``. A simulated run also has
        ``virtual``, the time on its virtual clock. The times in `trace` and `workers` are then on
        the virtual clock.
    traffic : dict
        For each kind of message, the numbers of ``messages`` and ``bytes``. ``edges`` has the same
        numbers for each edge, such as ``"0 to 1"``. Empty if workers share all memory, because
        nothing is sent. ``docs/guide/reports.md`` lists the kinds of each plane.
    reduces : Reduces or None
        On `Replicas`, the reduces of its workers (`hogshare.planes.replicas.reduces.Reduces`).
    exchanges : Exchanges or None
        On `Mirrors`, the messages of its centres (`hogshare.planes.mirrors.exchanges.Exchanges`).
    notes : list of str
        Automatic choices with their reasons, and the workers that died with the causes of their
        deaths.
    theory : dict or None
        Constants, conditions and bounds of the algorithm's analysis for this run
        (``docs/theory.md``). ``sentence`` says whether linear speedup is to be expected. None if no
        such analysis exists, or if it was not requested.
    again : Repeatable or None
        The arguments of `solve`, with which `predict` repeats the run on a virtual clock. Not part
        of the JSON.
    recording : Recording or None
        For each block, the worker and the version that it had read, for :func:`hogshare.replay`.
        None if it was not requested. Not part of the JSON.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from hogshare import problems, solve
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> report = solve(problems.linear(scale(X), y), trace=4, seed=0)
    >>> report
    <Report: 1 worker, 10 epochs, ... s, all epochs were done>
    >>> report.runtime, report.n_workers, report.rule["name"], report.barrier
    ('caller', 1, 'SGD', 'ASP()')
    >>> bool(report.trace.objective[-1] < report.trace.objective[0])
    True
    >>> report.epochs_to(0.0)  # None: no snapshot is that low
    >>> report.to_dict()["model"]["coef_shape"]
    [1, 30]
    """

    model: Any
    settings: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)
    n_epochs: int = 0
    converged: bool = False
    stop_reason: str = ""
    epoch_losses: np.ndarray = field(default_factory=lambda: np.zeros(0))
    checks: list[dict[str, Any]] = field(default_factory=list)
    trace: Trace | None = None
    workers: list[dict[str, Any]] = field(default_factory=list)
    staleness: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int64))
    ages: np.ndarray | None = None
    turns: np.ndarray = field(default_factory=lambda: np.zeros((0, 0, 4), np.int64))
    mail: dict[str, Any] | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    traffic: dict[str, dict[str, Any]] = field(default_factory=dict)
    reduces: Any = None
    exchanges: Any = None
    notes: list[str] = field(default_factory=list)
    theory: dict[str, Any] | None = None
    again: Any = None
    recording: Any = None

    problem = _setting("problem", "The minimised problem, with its numbers by name.")
    rule = _setting("rule", 'The rule\'s numbers by name, as ``report.rule["name"]``: "SAGA".')
    plane = _setting("plane", "The plane's numbers by name.")
    barrier = _setting("barrier", "The barrier as it is written.")
    stragglers = _setting("stragglers", "The law of slow workers; None without one.")
    runtime = _setting(
        "runtime", 'The runtime\'s name: "caller", "threads", "processes", "simulator" and so on.'
    )
    step = _setting("step", "The schedule of step sizes; None without one.")
    stop = _setting("stop", "The stop criteria.")
    seed = _setting("seed", "The given seed, if it was a number.")
    block_rows = _setting("block_rows", "Rows of a block.")
    exchange_rows = _setting("exchange_rows", "Rows between two exchanges.")
    simulator = _setting("simulator", "The settings of the Simulator; None without one.")
    gradient = _evaluated("gradient", "Largest component of the gradient at the last evaluation.")
    gap = _evaluated("gap", "Duality gap at the last evaluation.")
    relative_gap = _evaluated("relative_gap", "Duality gap divided by the objective.")
    gain = _evaluated("gain", "Gain of a step along the gradient, at the last evaluation.")

    @property
    def consistency(self) -> np.ndarray | None:
        """On `Replicas`, the number of messages that reduces used; see `Reduces.consistency`."""
        return None if self.reduces is None else self.reduces.consistency

    @property
    def n_workers(self) -> int:
        """Number of workers of the run."""
        return int(self.settings.get("n_workers", len(self.workers)))

    @property
    def run_seconds(self) -> float | None:
        """Seconds of the run, virtual seconds if it was simulated; None if nothing was run."""
        return self.seconds.get("virtual", self.seconds.get("run"))

    @property
    def last_loss(self) -> float | None:
        """Mean loss of the last epoch; None if losses were not tracked."""
        return float(self.epoch_losses[-1]) if len(self.epoch_losses) else None

    @property
    def objective(self) -> float | None:
        """Objective at the last evaluation, or else at the last snapshot; None without both."""
        if self.checks:
            return float(self.checks[-1]["objective"])
        if self.trace is None or not len(self.trace.objective):
            return None
        return float(self.trace.objective[-1])

    @property
    def staleness_mean(self) -> float:
        """Mean staleness of a push; 0.0 if nothing was pushed."""
        return mean_of(self.staleness)

    @property
    def staleness_p95(self) -> int:
        """The smallest staleness that 95 of 100 pushes do not exceed."""
        return p95_of(self.staleness)

    @property
    def staleness_max(self) -> int:
        """The largest staleness seen; a lower bound if it is the histogram's last bin."""
        return largest_of(self.staleness)

    def epochs_to(self, objective: float) -> float | None:
        """Return the epochs until the objective reached a value, interpolated on the trace.

        Returns None if the value was not reached. Raises ValueError if the run has no trace.
        """
        return self._traced().first(objective, "epochs")

    def seconds_to(self, objective: float) -> float | None:
        """Seconds of the run until the objective reached a value; see `epochs_to`."""
        return self._traced().first(objective, "seconds")

    def predict(
        self,
        n_workers: Sequence[int] = (1, 2, 4, 8, 16),
        *,
        problem: Any = None,
        objective: float | None = None,
    ) -> Prediction:
        """Predict the time of this run with other numbers of workers, each on its own core.

        The run's recorded quanta give the time of a row and the variation among blocks. The cost of
        an exchange is estimated by least squares over the quanta. In most runs, the times of rows
        and of exchanges are in a fixed ratio and cannot be separated. If the estimate's standard
        error is a fifth of the cost or more, the cost is taken from the machine's constants instead
        (``hogshare info --probe``). With these costs, the run is simulated on a virtual clock:
        workers claim blocks from one shared counter, under the run's barrier.

        Parameters
        ----------
        n_workers : sequence of int, default=(1, 2, 4, 8, 16)
            Numbers of workers to predict.
        problem : LinearProblem, default=None
            The solved problem. If given, its gradients are also computed on the virtual clock, to
            predict the number of epochs; this needs a trace and takes some time.
        objective : float, default=None
            The objective to reach, if a problem is given. None: the objective at 98 % of the gain
            of this run.

        Returns
        -------
        Prediction
            Seconds, throughput, speedups and waiting times, with ``table()``, ``plot()`` and
            ``to_dict()``.

        Raises
        ------
        ValueError
            If the run was simulated, was too short for a measurement, or had a function as barrier.
            If a number of workers is below 1. If a problem is given, but the run has no trace.

        Notes
        -----
        ``docs/prediction.md`` describes the model, its limits and its measured errors.

        Examples
        --------
        >>> from hogshare import Stop, datasets, problems, solve
        >>> X, y = datasets.zipf_classification(20_000, 5_000, seed=0)
        >>> report = solve(problems.linear(X, y), stop=Stop(epochs=5), seed=0)
        >>> prediction = report.predict((1, 8, 64))
        >>> bool(1.0 < prediction.speedup[1] < prediction.speedup[2] < 64.0)
        True
        """
        from hogshare.lab.prediction import predictor

        if problem is not None:
            return predictor.predict_with_epochs(self, n_workers, problem, objective)
        if objective is not None:
            raise ValueError("an objective needs the problem too: predict(problem=..., ...).")
        return predictor.predict(self, n_workers)

    def _traced(self) -> Trace:
        if self.trace is None:
            raise ValueError("this run has no trace: call solve(..., trace=4) to record one")
        return self.trace

    def without_memory(self) -> Report:
        """Return a report without the model's memory of rows, which estimators do not store."""
        if self.model.memory is None:
            return self
        return replace(self, model=replace(self.model, memory=None))

    def to_dict(self) -> dict[str, Any]:
        """Return the report without the model's coefficients, as data for JSON.

        Only the shape, the type and the step counter of the model are included. NaN and infinity
        become None.
        """
        left_out = ("model", "again", "recording")
        names = [name for name in self.__dataclass_fields__ if name not in left_out]
        parts = {name: getattr(self, name) for name in names}
        parts["turns"] = _quantum_facts(self.turns)
        for name in ("theory", "mail", "ages", "reduces", "exchanges"):
            if parts[name] is None:
                del parts[name]
        for name in {"reduces", "exchanges"} & parts.keys():
            parts[name] = parts[name].to_dict()
        parts["trace"] = None if self.trace is None else self.trace.columns()
        parts["model"] = _model_facts(self.model)
        parts["staleness_mean"] = self.staleness_mean
        parts["staleness_p95"] = self.staleness_p95
        parts["staleness_max"] = self.staleness_max
        known: dict[str, Any] = plain(parts)
        return known

    def headline(self) -> str:
        """Return one line: workers, epochs, seconds, and how the run ended."""
        count, run = self.n_workers, self.run_seconds
        words = [
            f"{count} worker" + ("" if count == 1 else "s"),
            f"{self.n_epochs} epoch" + ("" if self.n_epochs == 1 else "s"),
        ]
        if run is not None:
            words.append(f"{run:.3g} virtual s" if "virtual" in self.seconds else f"{run:.3g} s")
        if self.stop_reason:
            words.append(self.stop_reason)
        return ", ".join(words)

    def facts(self) -> list[tuple[str, Any]]:
        """Return name and value of the main facts: settings, times, loss, staleness."""
        settings = {k: v for k, v in self.settings.items() if v is not None}
        problem = settings.get("problem")
        if isinstance(problem, dict) and problem.get("penalty") != "elasticnet":
            settings["problem"] = {k: v for k, v in problem.items() if k != "l1_ratio"}
        if "random_state" in settings:
            settings.pop("seed", None)  # the seed was drawn from the random state
        rows: list[tuple[str, Any]] = [(str(k), _short(v)) for k, v in settings.items()]
        rows += [(f"seconds: {name}", float(value)) for name, value in self.seconds.items()]
        if self.last_loss is not None:
            rows.append(("mean loss of the last epoch", self.last_loss))
        names = [n for n in self.checks[-1] if n != "epoch"] if self.checks else ["objective"]
        at_the_end = {name: getattr(self, name) for name in names}
        rows += [(f"{k} at the end", v) for k, v in at_the_end.items() if v is not None]
        rows.append(
            (
                "staleness mean, p95, max, in pushes",
                f"{self.staleness_mean:.3g}, {self.staleness_p95}, {self.staleness_max}",
            )
        )
        for kind, counted in self.traffic.items():
            count, size = counted["messages"], counted["bytes"]
            rows.append((f"{kind} messages, bytes", f"{count:,}, {size:,}"))
        for counts in (self.reduces, self.exchanges):
            rows += [] if counts is None else counts.facts()
        if self.trace is not None and self.trace.disagreement is not None:
            rows.append(("disagreement at the end", float(self.trace.disagreement[-1])))
        theory = self.theory or {}
        rows += [
            (f"theory: {name.replace('_', ' ')}", _short(value))
            for name, value in theory.items()
            if name != "sentence"
        ]
        return rows

    def remarks(self) -> list[str]:
        """Return the notes, and the theory's sentence on the run's speedup."""
        return self.notes + ([self.theory["sentence"]] if self.theory else [])

    def table(self) -> str:
        """Return plain text: the headline, the facts, one row per worker, the notes."""
        parts = [self.headline(), tables.text_table(("what", "value"), _as_text(self.facts()))]
        if self.workers:
            parts.append(tables.text_table(*_worker_rows(self.workers)))
        if self.remarks():
            parts.append("\n".join(f"note: {note}" for note in self.remarks()))
        return "\n\n".join(parts)

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        return f"<Report: {self.headline()}>"

    def _repr_html_(self) -> str:
        parts = [
            f"<p><b>{html.escape(self.headline())}</b></p>",
            tables.html_table(("what", "value"), self.facts()),
        ]
        if self.workers:
            parts.append(tables.html_table(*_worker_rows(self.workers)))
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.remarks())
        return "<div>" + "".join(parts) + (f"<ul>{notes}</ul>" if notes else "") + "</div>"

    def plot(self, ax: Any = None) -> Any:
        """Draw the trace and the staleness histogram (needs matplotlib).

        Parameters
        ----------
        ax : matplotlib Axes or a pair of them, default=None
            Where to draw. A single Axes shows only the trace. None: on a new figure of two panels.

        Returns
        -------
        list of matplotlib Axes
        """
        return figures.draw_run(self.headline(), self.trace, self.epoch_losses, self.staleness, ax)


def mean_of(histogram: np.ndarray) -> float:
    """Return the mean of the counted values; 0.0 for an empty histogram."""
    count = int(histogram.sum())
    return float(histogram @ np.arange(len(histogram)) / count) if count else 0.0


def p95_of(histogram: np.ndarray) -> int:
    """Return the smallest value that 95 of 100 counted values do not exceed."""
    cumulated = np.cumsum(histogram)
    return int(np.searchsorted(cumulated, 0.95 * cumulated[-1])) if len(cumulated) else 0


def largest_of(histogram: np.ndarray) -> int:
    """Return the largest counted value; 0 for an empty histogram."""
    seen = np.flatnonzero(histogram)
    return int(seen[-1]) if seen.size else 0


def _worker_rows(workers: list[dict[str, Any]]) -> tuple[list[str], list[list[Any]]]:
    names = list(dict.fromkeys(name for worker in workers for name in worker))
    header = [name.replace("_", " ") for name in names]
    return header, [[plain(worker.get(name)) for name in names] for worker in workers]


def _as_text(rows: list[tuple[str, Any]]) -> list[tuple[str, str]]:
    """Return both columns as text: a column of mixed types is easiest to read aligned left."""
    return [(name, tables.cell(value)) for name, value in rows]


def _short(value: Any) -> Any:
    """Format a setting as one cell: an inner dictionary as its ``name=value`` pairs."""
    if isinstance(value, dict):
        each = [f"{k}={tables.cell(v)}" for k, v in value.items() if v is not None]
        return ", ".join(each) or "-"
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)


def _model_facts(model: Any) -> dict[str, Any]:
    name = "coef" if hasattr(model, "coef") else "params"
    numbers = getattr(model, name, None)
    if numbers is None:
        return {}
    return {
        f"{name}_shape": list(numbers.shape),
        "dtype": str(numbers.dtype),
        f"nonzero_{name.rstrip('s')}s": int(np.count_nonzero(numbers)),
        "t": getattr(model, "t", None),
    }


def _quantum_facts(quanta: np.ndarray) -> dict[str, Any]:
    """Summarise quanta: totals, and quantiles of the nanoseconds per row."""
    seen = quanta[quanta[:, :, 1] > 0]
    blocks, rows, pushes, nanoseconds = seen.sum(axis=0).tolist()
    facts = {"turns": len(seen), "blocks": blocks, "rows": rows, "pushes": pushes}
    per_row = np.quantile(seen[:, 3] / seen[:, 1], QUANTILES) if len(seen) else ()
    return facts | {
        "seconds": nanoseconds * 1e-9,
        "nanoseconds_per_row": {
            f"{share:.0%}": round(float(value), 2)
            for share, value in zip(QUANTILES, per_row, strict=False)
        },
    }


def plain(value: Any) -> Any:
    """Convert to JSON's types: NumPy's types to Python's, NaN to None, any other type to text."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return str(value)
