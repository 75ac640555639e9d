"""Every picture that hogshare draws, and the only place that imports matplotlib.

A figure is a view: each function takes plain data (a report's arrays, the dictionary that
``hogshare bench`` measured) and computes nothing that the data do not hold.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hogshare.system import extras, files


def pyplot() -> Any:
    """matplotlib.pyplot, or an ImportError that says how to get it."""
    try:
        import matplotlib.pyplot
    except ImportError as error:
        how = extras.command_for("matplotlib")
        raise ImportError(f"drawing needs matplotlib: {how}") from error
    return matplotlib.pyplot


def formats() -> list[str]:
    """Kinds of files that figures can be written to, by their suffixes."""
    pyplot()
    from matplotlib.backend_bases import FigureCanvasBase

    return sorted(FigureCanvasBase.get_supported_filetypes())


def file_of(path: str | Path) -> Path:
    """Where a figure goes: without a suffix to one of matplotlib's usual kind."""
    path = Path(path)
    return path if path.suffix else path.with_suffix(".png")


def side_by_side(count: int, width: float = 4.4, height: float = 3.8) -> tuple[Any, list[Any]]:
    """Make a figure of so many panels in a row, each of a width in inches; it and their axes."""
    figure, axes = pyplot().subplots(
        1, count, figsize=(width * count, height), layout="constrained", squeeze=False
    )
    return figure, list(axes[0])


def save(figure: Any, path: str | Path) -> None:
    """Write a figure as a whole or not at all, and forget it."""
    path, drawn = file_of(path), io.BytesIO()
    figure.savefig(drawn, format=path.suffix.lower().removeprefix("."))
    pyplot().close(figure)
    files.replace(path, drawn.getvalue())


def _axes(ax: Any, **figure: Any) -> Any:
    """Where to draw: the given axes, or those of a new figure."""
    return pyplot().subplots(layout="constrained", **figure)[1] if ax is None else ax


def draw_run(title: str, trace: Any, losses: Any, staleness: Any, ax: Any = None) -> Any:
    """Draw a run's trace and, beside it, its staleness histogram.

    Parameters
    ----------
    title : str
        Of a figure that is made.
    trace, losses : Trace or None, ndarray
        As `draw_trace` takes them.
    staleness : ndarray
        Pushes by how stale they were.
    ax : matplotlib Axes or a pair of them, default=None
        Where to draw. One Axes takes the trace alone; None makes a figure of two panels.

    Returns
    -------
    list of matplotlib Axes
        Those drawn on.
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
    ax.set_xlabel("epochs")
    if trace is not None and len(trace.epochs):
        ax.plot(trace.epochs, trace.objective, marker=".")
        ax.set_ylabel("objective")
    else:
        ax.plot(range(1, len(losses) + 1), losses, marker=".")
        ax.set_ylabel("mean loss while passing")
    ax.grid(alpha=0.3)


def draw_staleness(histogram: Any, ax: Any) -> None:
    """Draw the share of pushes at each staleness."""
    total = histogram.sum()
    used = int(histogram.nonzero()[0][-1]) + 1 if total else 1
    shares = histogram[:used] / total if total else [0.0]
    ax.bar(range(used), shares, width=0.9)
    ax.set_xlabel("staleness (pushes by others between pull and push)")
    ax.set_ylabel("share of pushes")
    ax.grid(alpha=0.3, axis="y")


def draw_inputs(histogram: Any, ax: Any = None) -> Any:
    """Draw the share of reduces by how many of their inputs they have used.

    Parameters
    ----------
    histogram : ndarray of int
        Reduces that have used 0, 1, 2, ... inputs.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a figure.

    Returns
    -------
    matplotlib Axes
    """
    ax = _axes(ax)
    ax.bar(range(len(histogram)), histogram / max(1, histogram.sum()), width=0.9)
    ax.set_xlabel("in-neighbours' messages that a reduce has used")
    ax.set_ylabel("share of reduces")
    ax.grid(alpha=0.3, axis="y")
    return ax


def draw_edges(edges: Sequence[tuple[int, int]], sizes: Mapping[str, Any], ax: Any = None) -> Any:
    """Draw the bytes along each edge, by kind of message.

    Parameters
    ----------
    edges : list of (int, int)
    sizes : mapping of str to ndarray
        Of each kind, the bytes of each edge.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a figure.

    Returns
    -------
    matplotlib Axes
    """
    ax = _axes(ax)
    names, below = [f"{i} to {j}" for i, j in edges], 0.0
    for kind, of_edge in sizes.items():
        ax.bar(names, of_edge, bottom=below, width=0.9, label=kind)
        below = below + of_edge
    ax.set_xlabel("edge")
    ax.set_ylabel("bytes")
    ax.legend()
    ax.grid(alpha=0.3, axis="y")
    return ax


def draw_shares(clocks: Any, shares: Mapping[str, Any], ax: Any = None) -> Any:
    """Draw shares that change as clocks go by.

    Parameters
    ----------
    clocks : array of shape (n_spans,)
    shares : mapping of str to array of shape (n_spans,)
        By what they are of.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a figure.

    Returns
    -------
    matplotlib Axes
    """
    ax = _axes(ax)
    for what, share in shares.items():
        ax.plot(clocks, share, marker=".", label=what)
    ax.set_xscale("log")
    ax.set_xlabel("clock")
    ax.set_ylabel("share sent")
    ax.set_ylim(0.0, None)
    ax.legend()
    ax.grid(alpha=0.3)
    return ax


def draw_speedups(
    workers: Sequence[int], throughput: Any, in_time: Any | None = None, ax: Any = None
) -> Any:
    """Draw predicted speedups against the number of workers.

    Parameters
    ----------
    workers : sequence of int
    throughput, in_time : array-like
        Speedups for each; of time, None where it was not predicted.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a figure.

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
    ax.set_xlabel("workers, a core for each")
    ax.set_ylabel("predicted speedup")
    ax.grid(alpha=0.3)
    ax.legend()
    return ax


def save_psp(result: dict[str, Any], path: str | Path) -> None:
    """Draw a figure of ``hogshare simulate psp`` and write it to a file.

    One panel for each law of block time, or way of choosing steps; one for the theory's figures.
    """
    draw = {
        "distribution": draw_clocks,
        "cdf": draw_clocks_added_up,
        "over_time": draw_updates,
        "ratio": draw_points,
        "lines": draw_points,
        "bounds": draw_bounds,
        "error_over_time": draw_errors,
        "error": draw_points,
    }[result["kind"]]
    panel_of = [series.get("panel", series.get("law", "")) for series in result["series"]]
    names = list(dict.fromkeys(panel_of))
    figure, panels = pyplot().subplots(
        1, len(names), figsize=(1.5 + 4.5 * len(names), 3.8), layout="constrained", squeeze=False
    )
    what = "ratio" if result["kind"] in ("ratio", "error") else "steps"
    for ax, name in zip(panels[0], names, strict=True):
        for series, panel in zip(result["series"], panel_of, strict=True):
            if panel == name:
                draw(series, ax, what)
        ax.set_title(name, fontsize=10)
        ax.set_xlabel(result["axes"]["x"])
        ax.set_ylabel(result["axes"]["y"])
        ax.grid(alpha=0.3)
        ax.legend(fontsize=8)
    figure.suptitle(result["title"])
    save(figure, path)


def draw_clocks(series: dict[str, Any], ax: Any, _: str) -> None:
    """Draw the share of workers at each clock."""
    clocks, workers = series["clocks"]["clock"], series["clocks"]["workers"]
    total = sum(workers)
    at = dict(zip(clocks, workers, strict=True))
    reached = range(max(0, clocks[0] - 1), clocks[-1] + 2)
    shares = [at.get(clock, 0) / total for clock in reached]
    ax.plot(reached, shares, marker=".", label=series["barrier"])


def draw_clocks_added_up(series: dict[str, Any], ax: Any, _: str) -> None:
    """Draw the share of workers that have come to a clock and no further."""
    clocks, workers = series["clocks"]["clock"], series["clocks"]["workers"]
    total, below, heights = sum(workers), 0, []
    for count in workers:
        below += count
        heights.append(below / total)
    steps = [clocks[0], *clocks], [0.0, *heights]
    ax.step(*steps, where="post", label=series["barrier"])


def draw_updates(series: dict[str, Any], ax: Any, _: str) -> None:
    """Draw the updates at the server against virtual seconds."""
    ax.plot(series["over_time"]["seconds"], series["over_time"]["updates"], label=series["barrier"])


def draw_errors(series: dict[str, Any], ax: Any, _: str) -> None:
    """Draw the mean error against virtual seconds, and its interval."""
    over = series["over_time"]
    label = f"{series['barrier']}, step {series['step']:.2g}"
    (line,) = ax.plot(over["seconds"], over["mean"], label=label)
    known = [k for k, value in enumerate(over["low"]) if value is not None]  # not if it diverges
    if known:
        seconds, low, high = ([over[key][k] for k in known] for key in ("seconds", "low", "high"))
        low = [max(value, 1e-6) for value in low]  # the axis is logarithmic
        ax.fill_between(seconds, low, high, color=line.get_color(), alpha=0.2)
    ax.set_yscale("log")


def save_virtual_speedups(result: dict[str, Any], path: str | Path) -> None:
    """Draw the speedups of ``hogshare simulate asysg`` beside the papers' and write a file."""
    figure, panels = pyplot().subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
    for ax, key in zip(panels, ("iteration", "time"), strict=True):
        for series in result["series"]:
            draw_points({**series, "barrier": series["what"]}, ax, key)
        most = max(point["x"] for point in result["series"][0]["points"])
        for table in result["paper"]:
            ax.plot(table["workers"], table[key], "k--", lw=1, label=table["what"])
        ax.plot([1, most], [1, most], ":", color="grey", lw=1)
        ax.set_title(f"{key} speedup", fontsize=10)
        ax.set_xlabel(result["axes"]["x"])
        ax.grid(alpha=0.3)
        ax.legend(fontsize=8)
    figure.suptitle(result["title"])
    save(figure, path)


def draw_points(series: dict[str, Any], ax: Any, what: str) -> None:
    """Draw means against x, with their intervals."""
    points = series["points"]
    means = [point[what]["mean"] for point in points]
    bars = None
    if all(point[what]["low"] is not None for point in points):
        bars = [
            [point[what]["mean"] - point[what]["low"] for point in points],
            [point[what]["high"] - point[what]["mean"] for point in points],
        ]
    xs = [point["x"] for point in points]
    ax.errorbar(xs, means, yerr=bars, marker="o", capsize=2, label=series["barrier"])


# of a claim's verdict
COLOURS = {"agrees": "C0", "in part": "C1", "differs": "C3", "not measured": "C7"}


def save_claims(results: Sequence[dict[str, Any]], path: str | Path) -> None:
    """Draw numbers of claims over the papers' printed ones, on one axis, and write the figure.

    Left out are numbers of which nothing is printed, or 0, or words, and those not reached.
    """
    rows = [
        (result, one, [one[part] / one["printed"] for part in ("low", "median", "high")])
        for result in results
        for one in result["numbers"]
        if isinstance(one["printed"], int | float)
        and one["printed"]
        and all(one[part] for part in ("low", "median", "high"))  # on a logarithmic axis
    ]
    height = 1.5 + 0.22 * max(1, len(rows))
    figure, ax = pyplot().subplots(figsize=(11.0, height), layout="constrained")
    for place, (result, _, (low, median, high)) in enumerate(rows):
        colour = COLOURS[result["verdict"]]
        ax.plot([low, high], [place, place], color=colour, alpha=0.5)
        ax.plot(median, place, "o", color=colour, markersize=4)
    ax.axvline(1.0, color="black", linewidth=0.8)
    ax.set_xscale("log")
    ax.set_xticks([0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0], ["0.1", "0.2", "0.5", "1", "2", "5", "10"])
    ax.minorticks_off()
    ax.set_yticks(range(len(rows)), [f"{r['name']}: {one['what']}" for r, one, _ in rows], size=7)
    ax.set_ylim(max(1, len(rows)) - 0.5, -0.5)
    ax.set_xlabel(
        "here over printed (median, range over seeds; orange: in part, red: differs, grey: not "
        "measured)"
    )
    ax.grid(alpha=0.3, axis="x")
    save(figure, path)


def draw_bounds(series: dict[str, Any], ax: Any, _: str) -> None:
    """Draw a bound against the sample."""
    ax.plot(series["samples"], series["bound"], label=f"F(r) = {series['within']:g}")
    ax.set_yscale("log")
