"""Figures of ``hogshare simulate``."""

from __future__ import annotations

from typing import Any

from hogshare import figures

SMALL = 8.0  # font size of a legend, in points


def save_psp(result: dict[str, Any], path: str) -> None:
    """Draw a figure of ``hogshare simulate psp`` and write it to a file.

    There is a panel for each law of block times, or for each choice of step sizes. A theory figure
    has a single panel.
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
    figure, panels = figures.panel_row(len(names), width=4.5 + 1.5 / len(names))
    what = "ratio" if result["kind"] in ("ratio", "error") else "steps"
    for ax, name in zip(panels, names, strict=True):
        for series, panel in zip(result["series"], panel_of, strict=True):
            if panel == name:
                draw(series, ax, what)
        ax.set_title(name, fontsize=10)
        figures.label(ax, result["axes"]["x"], result["axes"]["y"], legend=SMALL)
    figure.suptitle(result["title"])
    figures.save(figure, path)


def draw_clocks(series: dict[str, Any], ax: Any, _: str) -> None:
    """Draw the share of workers at each clock."""
    clocks, workers = series["clocks"]["clock"], series["clocks"]["workers"]
    total = sum(workers)
    at = dict(zip(clocks, workers, strict=True))
    reached = range(max(0, clocks[0] - 1), clocks[-1] + 2)
    shares = [at.get(clock, 0) / total for clock in reached]
    ax.plot(reached, shares, marker=".", label=series["barrier"])


def draw_clocks_added_up(series: dict[str, Any], ax: Any, _: str) -> None:
    """Draw the cumulative share of workers up to each clock."""
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
    known = [k for k, value in enumerate(over["low"]) if value is not None]  # None if it diverges
    if known:
        seconds, low, high = ([over[key][k] for k in known] for key in ("seconds", "low", "high"))
        low = [max(value, 1e-6) for value in low]  # the axis is logarithmic
        ax.fill_between(seconds, low, high, color=line.get_color(), alpha=0.2)
    ax.set_yscale("log")


def save_virtual_speedups(result: dict[str, Any], path: str) -> None:
    """Draw the speedups of ``hogshare simulate asysg`` and of the papers, and write a file."""
    figure, panels = figures.panel_row(2, width=4.75)
    for ax, key in zip(panels, ("iteration", "time"), strict=True):
        for series in result["series"]:
            draw_points({**series, "barrier": series["what"]}, ax, key)
        most = max(point["x"] for point in result["series"][0]["points"])
        for table in result["paper"]:
            ax.plot(table["workers"], table[key], "k--", lw=1, label=table["what"])
        ax.plot([1, most], [1, most], ":", color="grey", lw=1)
        ax.set_title(f"{key} speedup", fontsize=10)
        figures.label(ax, result["axes"]["x"], "", legend=SMALL)
    figure.suptitle(result["title"])
    figures.save(figure, path)


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


def draw_bounds(series: dict[str, Any], ax: Any, _: str) -> None:
    """Draw a bound against the size of the sample."""
    ax.plot(series["samples"], series["bound"], label=f"F(r) = {series['within']:g}")
    ax.set_yscale("log")
