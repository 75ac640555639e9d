"""The prediction for a run: a table, a plot, plain data."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hogshare import figures
from hogshare.io import tables
from hogshare.lab.prediction.costs import RunCosts


@dataclass(frozen=True, kw_only=True, eq=False)
class Prediction:
    """The predicted time of a run with other numbers of workers: the result of `Report.predict`.

    Each array has one entry per number of workers.

    Attributes
    ----------
    n_workers : tuple of int
        Numbers of workers.
    seconds : float64 array
        Seconds for the measured run's number of epochs.
    throughput : float64 array
        Rows per second.
    speedup : float64 array
        Throughput divided by the predicted throughput of one worker.
    waiting_share : float64 array
        Share of the workers' time in which they do not compute.
    limits : tuple of str
        The limit of the time: "workers", "master" or "order".
    epochs : float64 array or None
        Epochs to `objective`, if a problem was given; NaN if the objective was not reached.
    time_speedup : float64 array or None
        `speedup` times the ratio of one worker's epochs to these epochs.
    objective : float or None
        The objective to reach, if a problem was given.
    measured : dict
        Facts of the measured run: ``n_workers``, ``seconds``, ``epochs``, and the ``predicted``
        seconds of the same run. The difference shows how well the prediction's model fits.
    costs : Costs
        Measured costs of the run.
    assumed : tuple of str
        Further assumptions of the prediction, and the effects that it ignores.
    """

    n_workers: tuple[int, ...]
    seconds: np.ndarray
    throughput: np.ndarray
    speedup: np.ndarray
    waiting_share: np.ndarray
    limits: tuple[str, ...]
    epochs: np.ndarray | None
    time_speedup: np.ndarray | None
    objective: float | None
    measured: dict[str, float]
    costs: RunCosts
    assumed: tuple[str, ...]

    def headline(self) -> str:
        """Return one line with the measured and the predicted time of the measured run."""
        run = self.measured
        count = f"{run['n_workers']:.0f} worker" + ("" if run["n_workers"] == 1 else "s")
        return (
            f"predicted from {run['epochs']:.3g} epochs with {count}: {run['seconds']:.3g} s "
            f"measured, {run['predicted']:.3g} s by the model"
        )

    def rows(self) -> tuple[list[str], list[list[Any]]]:
        """Return header and rows of the table."""
        header = ["workers", "seconds", "speedup of throughput", "waiting share", "bound by"]
        columns: list[Sequence[Any]] = [
            self.n_workers,
            self.seconds.tolist(),
            self.speedup.tolist(),
            self.waiting_share.tolist(),
            self.limits,
        ]
        if self.epochs is not None and self.time_speedup is not None:
            header += ["epochs to the objective", "speedup of time"]
            columns += [self.epochs.tolist(), self.time_speedup.tolist()]
        return header, [list(row) for row in zip(*columns, strict=True)]

    def table(self) -> str:
        """Return plain text: the headline, a row per number of workers, and the assumptions."""
        notes = "\n".join(f"assumed: {note}" for note in self.assumed)
        return "\n\n".join([self.headline(), tables.text_table(*self.rows()), notes])

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        return f"<Prediction: {self.headline()}>"

    def _repr_html_(self) -> str:
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.assumed)
        table = tables.html_table(*self.rows())
        return f"<div><p><b>{html.escape(self.headline())}</b></p>{table}<ul>{notes}</ul></div>"

    def plot(self, ax: Any = None) -> Any:
        """Draw the speedups against the number of workers (needs matplotlib).

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None: the axes of a new figure.

        Returns
        -------
        matplotlib Axes
        """
        return figures.draw_speedups(self.n_workers, self.speedup, self.time_speedup, ax)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; NaN becomes None."""
        arrays = ("seconds", "throughput", "speedup", "waiting_share")
        found = {
            "n_workers": list(self.n_workers),
            **{name: getattr(self, name).tolist() for name in arrays},
            "limits": list(self.limits),
            "measured": dict(self.measured),
            "costs": {
                name: getattr(self.costs, name)
                for name in ("row", "exchange", "order", "message", "outside", "source")
            },
            "assumed": list(self.assumed),
        }
        if self.epochs is not None and self.time_speedup is not None:
            found["objective"] = self.objective
            for name in ("epochs", "time_speedup"):
                values = getattr(self, name).tolist()
                found[name] = [value if math.isfinite(value) else None for value in values]
        return found
