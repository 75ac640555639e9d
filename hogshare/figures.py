"""Figures of reports, and helpers for all figures; only this file imports matplotlib.

Each function takes plain data (a report's arrays) and draws it without further computation.
`hogshare.lab` draws its figures next to its measurements, with `panel_row`, `label` and `save`.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hogshare.system import extras, files

SIZE = 10.0  # font size of a legend, in points


def pyplot() -> Any:
    """Import matplotlib.pyplot, or raise an ImportError that says how to install it."""
    try:
        import matplotlib.pyplot
    except ImportError as error:
        how = extras.command_for("matplotlib")
        raise ImportError(f"drawing needs matplotlib: {how}") from error
    return matplotlib.pyplot


def formats() -> list[str]:
    """Return the suffixes of the file formats that figures can be written to."""
    pyplot()
    from matplotlib.backend_bases import FigureCanvasBase

    return sorted(FigureCanvasBase.get_supported_filetypes())


def file_of(path: str | Path) -> Path:
    """Return the path of a figure, with matplotlib's default suffix if it has none."""
    path = Path(path)
    return path if path.suffix else path.with_suffix(".png")


def panel_row(count: int, width: float = 4.4, height: float = 3.8) -> tuple[Any, list[Any]]:
    """Make a figure with `count` panels in a row, sizes in inches; return it and the axes."""
    figure, axes = pyplot().subplots(
        1, count, figsize=(width * count, height), layout="constrained", squeeze=False
    )
    return figure, list(axes[0])


def save(figure: Any, path: str | Path) -> None:
    """Write a figure to a file as a whole or not at all, and close it."""
    path, drawn = file_of(path), io.BytesIO()  # in memory: a failed drawing must leave the old file
    figure.savefig(drawn, format=path.suffix.lower().removeprefix("."))
    pyplot().close(figure)
    files.replace(path, drawn.getvalue())


def label(ax: Any, x: str, y: str, grid: str = "both", legend: float | None = None) -> None:
    """Label the axes; draw a grid along one or both, and a legend with a font size in points."""
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.grid(alpha=0.3, axis=grid)
    if legend is not None:
        ax.legend(fontsize=legend)


def _axes(ax: Any, **figure: Any) -> Any:
    """Return the given axes, or the axes of a new figure."""
    return pyplot().subplots(layout="constrained", **figure)[1] if ax is None else ax


def draw_run(title: str, trace: Any, losses: Any, staleness: Any, ax: Any = None) -> Any:
    """Draw a run's trace and its staleness histogram in two panels.

    Parameters
    ----------
    title : str
        Title of a new figure.
    trace, losses : Trace or None, ndarray
        As in `draw_trace`.
    staleness : ndarray
        Number of pushes at each staleness.
    ax : matplotlib Axes or a pair of them, default=None
        Where to draw. A single Axes shows only the trace. None: on a new figure of two panels.

    Returns
    -------
    list of matplotlib Axes
        The axes of the drawn panels.
    """
    if ax is None:
        figure, panels = pyplot().subplots(
            1, 2, figsize=(9.0, 3.4), layout="constrained", squeeze=False
        )
        axes = list(panels[0])
        figure.suptitle(title)
    else:
        axes = list(ax) if isinstance(ax, Sequence) or hasattr(ax, "ravel") else [ax]
    draw_trace(trace, axes[0], losses)
    if len(axes) > 1:
        draw_staleness(staleness, axes[1])
    return axes


def draw_trace(trace: Any, ax: Any, losses: Any) -> None:
    """Draw the objective against epochs; without a trace (None), the mean loss of each epoch."""
    if trace is not None and len(trace.epochs):
        ax.plot(trace.epochs, trace.objective, marker=".")
        label(ax, "epochs", "objective")
    else:
        ax.plot(range(1, len(losses) + 1), losses, marker=".")
        label(ax, "epochs", "mean loss while passing")


def draw_staleness(histogram: Any, ax: Any) -> None:
    """Draw the share of pushes at each staleness."""
    total = histogram.sum()
    used = int(histogram.nonzero()[0][-1]) + 1 if total else 1
    shares = histogram[:used] / total if total else [0.0]
    ax.bar(range(used), shares, width=0.9)
    label(ax, "staleness (pushes by others between pull and push)", "share of pushes", "y")


def draw_inputs(histogram: Any, ax: Any = None) -> Any:
    """Draw the share of reduces that used 0, 1, 2, ... inputs.

    Parameters
    ----------
    histogram : ndarray of int
        Number of reduces that used 0, 1, 2, ... inputs. An input is the message of an in-neighbour.
    ax : matplotlib Axes, default=None
        Where to draw. None: on a new figure.

    Returns
    -------
    matplotlib Axes
    """
    ax = _axes(ax)
    ax.bar(range(len(histogram)), histogram / max(1, histogram.sum()), width=0.9)
    label(ax, "in-neighbours' messages that a reduce has used", "share of reduces", "y")
    return ax


def draw_edges(edges: Sequence[tuple[int, int]], sizes: Mapping[str, Any], ax: Any = None) -> Any:
    """Draw the bytes along each edge, by kind of message.

    Parameters
    ----------
    edges : list of (int, int)
    sizes : mapping of str to ndarray
        For each kind of message, the bytes of each edge.
    ax : matplotlib Axes, default=None
        Where to draw. None: on a new figure.

    Returns
    -------
    matplotlib Axes
    """
    ax = _axes(ax)
    names, below = [f"{i} to {j}" for i, j in edges], 0.0
    for kind, of_edge in sizes.items():
        ax.bar(names, of_edge, bottom=below, width=0.9, label=kind)
        below = below + of_edge
    label(ax, "edge", "bytes", "y", SIZE)
    return ax


def draw_shares(clocks: Any, shares: Mapping[str, Any], ax: Any = None) -> Any:
    """Draw shares against clocks.

    Parameters
    ----------
    clocks : array of shape (n_spans,)
    shares : mapping of str to array of shape (n_spans,)
        Shares by the name of their series.
    ax : matplotlib Axes, default=None
        Where to draw. None: on a new figure.

    Returns
    -------
    matplotlib Axes
    """
    ax = _axes(ax)
    for what, share in shares.items():
        ax.plot(clocks, share, marker=".", label=what)
    ax.set_xscale("log")
    ax.set_ylim(0.0, None)
    label(ax, "clock", "share sent", legend=SIZE)
    return ax


def draw_speedups(
    workers: Sequence[int], throughput: Any, in_time: Any | None = None, ax: Any = None
) -> Any:
    """Draw predicted speedups against the number of workers.

    Parameters
    ----------
    workers : sequence of int
    throughput, in_time : array-like
        Speedup of the throughput, and of the time to an objective, for each number of workers.
        `in_time` is None if it was not predicted.
    ax : matplotlib Axes, default=None
        Where to draw. None: on a new figure.

    Returns
    -------
    matplotlib Axes
    """
    ax = _axes(ax, figsize=(5.0, 3.8))
    ax.plot(workers, workers, color="grey", linewidth=0.8, linestyle="--", label="ideal")
    ax.plot(workers, throughput, marker="o", label="throughput")
    if in_time is not None:
        ax.plot(workers, in_time, marker="o", label="time")
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=2)
    label(ax, "workers, a core for each", "predicted speedup", legend=SIZE)
    return ax
