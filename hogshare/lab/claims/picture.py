"""The figure of claims: measured numbers over printed numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hogshare import figures

# of a claim's verdict
COLOURS = {"agrees": "C0", "in part": "C1", "differs": "C3", "not measured": "C7"}


def save_claims(results: Sequence[dict[str, Any]], path: str) -> None:
    """Draw measured numbers over the papers' printed numbers on one axis, and write the figure.

    A number is left out if the paper prints none, 0 or a text, or if its target was not reached.
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
    figure, (ax,) = figures.panel_row(1, 11.0, height)
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
    colours = "orange: in part, red: differs, grey: not measured"
    figures.label(ax, f"measured over printed (median, range over seeds; {colours})", "", "x")
    figures.save(figure, path)
