"""Panels of an experiment's figure: ``panel(ax, result)`` draws a result on given axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Panel = Callable[[Any, dict[str, Any]], None]
Trace = Mapping[str, Any]


def clock_of(result: Mapping[str, Any]) -> str:
    """Return "virtual " for virtual seconds, else an empty string."""
    return "virtual " if result["settings"].get("runtime") == "simulator" else ""


def name_in(row: Mapping[str, Any]) -> str:
    """Return the name of the contestant of a run or a row."""
    if "contestant" in row:
        return str(row["contestant"])
    first = next(iter(row))
    return (
        f"{row[first]} worker{'s' * (row[first] != 1)}" if first == "workers" else str(row[first])
    )


def objective(
    along: str, label: str = "", of: Callable[[Trace], Any] | None = None, scale: str = "linear"
) -> Panel:
    """Make a panel of the objective of each contestant's first run, with the target as a line.

    along : column of the trace for the horizontal axis
    label : label of the axis; ``{clock}`` becomes "virtual " for virtual seconds
    of : ``of(run)``, values for the horizontal axis instead of a column
    scale : scale of the axis, as in matplotlib
    """

    def draw(ax: Any, result: dict[str, Any]) -> None:
        for run in result["runs"]:
            if run.get("round", run.get("repeat")) == 0:
                x = run["trace"][along] if of is None else of(run)
                ax.plot(x, run["trace"]["objective"], label=name_in(run))
        for target in result["targets"].values() if "targets" in result else [result["target"]]:
            ax.axhline(target, color="black", linewidth=0.8, linestyle=":")
        ax.set_xlabel((label or along).format(clock=clock_of(result)))
        ax.set_ylabel("objective")
        ax.set_xscale(scale)
        ax.set_yscale("log")
        ax.legend()

    return draw


def megabytes(run: Mapping[str, Any]) -> list[float]:
    """Return the megabytes sent until each point of a run's trace, in proportion to its blocks."""
    return [1e-6 * run["bytes"] * blocks / run["blocks"] for blocks in run["trace"]["blocks"]]


def bars(key: str, label: str = "{clock}seconds to the target") -> Panel:
    """Make a panel of bars: a number of each contestant's row, with its range if it has one."""

    def draw(ax: Any, result: dict[str, Any]) -> None:
        rows = result["table"]
        for place, row in enumerate(rows):
            middle = row[key]
            if middle is None:
                continue
            spread = None
            if key == "seconds" and "fastest" in row:
                slowest = middle if row["slowest"] is None else row["slowest"]
                spread = [[middle - row["fastest"]], [slowest - middle]]
            ax.barh(place, middle, xerr=spread, color=f"C{place}")
        ax.set_yticks(range(len(rows)), [name_in(row) for row in rows])
        ax.invert_yaxis()
        ax.set_xlabel(label.format(clock=clock_of(result)))

    return draw
