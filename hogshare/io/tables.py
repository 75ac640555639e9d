"""Plain tables: rows of values as aligned text or as HTML, whatever the values are."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence


def cell(value: object) -> str:
    """Format one value of a table: a float with four digits, None and NaN as ``-``."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        if not math.isfinite(value):
            return "-" if math.isnan(value) else str(value)
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)


def text_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Build aligned text without a final newline.

    Columns of numbers are aligned to the right, and columns with text to the left.
    """
    rows = [list(row) for row in rows]
    cells = [[cell(value) for value in row] for row in rows]
    right = [all(not isinstance(row[i], str) for row in rows) for i in range(len(header))]
    widths = [max([len(name), *(len(line[i]) for line in cells)]) for i, name in enumerate(header)]

    def line(values: Sequence[str]) -> str:
        padded = [
            value.rjust(width) if to_right else value.ljust(width)
            for value, width, to_right in zip(values, widths, right, strict=True)
        ]
        return "  ".join(padded).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([line(header), rule, *(line(values) for values in cells)])


def html_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Build an HTML table with everything escaped."""

    def line(tag: str, values: Iterable[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(v)}</{tag}>" for v in values) + "</tr>"

    body = "".join(line("td", [cell(value) for value in row]) for row in rows)
    return f"<table><thead>{line('th', header)}</thead><tbody>{body}</tbody></table>"
