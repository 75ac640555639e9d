"""The form of results in `bench/results`: the statistics of each cell, not every run.

The benches write their files with `store`. The file of ``hogshare bench ... --json FILE``, with all
its runs, is changed to the same form, in place, by::

    python bench/summaries.py bench/results/rivals-a9a.json
"""

from __future__ import annotations

import argparse
import json
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any

from hogshare.solvers import outcome

WIDTH = 100  # of a line that holds a list or a mapping whole
SEARCHED = ("grid", "kept")  # of a contestant: the table says which setting was the best


def store(path: str | Path, told: dict[str, Any]) -> None:
    """Write a bench's results as a summary, with the machine and the versions."""
    here = {"machine": outcome.machine(), "versions": outcome.versions()}
    Path(path).write_text(text(summarised({**here, **told})), encoding="utf-8")


def summarised(told: Any) -> Any:
    """Leave out the runs wherever a table beside them sums them up.

    Of a race each contestant keeps how many fits there were, and how many of them failed.
    """
    if isinstance(told, list):
        return [summarised(part) for part in told]
    if not isinstance(told, dict):
        return told
    kept = {key: summarised(part) for key, part in told.items()}
    if "table" not in told:
        return kept
    runs = kept.pop("runs", [])
    if runs and "contestants" in kept:
        fits = Counter(run["contestant"] for run in runs)
        failed = Counter(run["contestant"] for run in runs if run["error"])
        kept["contestants"] = [
            {key: part for key, part in who.items() if key not in SEARCHED}
            | {"fits": fits[who["name"]], "failed": failed[who["name"]]}
            for who in kept["contestants"]
        ]
    return kept


def text(told: Any) -> str:
    """JSON in which what fits in a line is in one."""
    return _lines(told, 0) + "\n"


def _lines(told: Any, indent: int) -> str:
    flat = json.dumps(told, allow_nan=False)
    if not isinstance(told, (dict, list)) or not told or indent + len(flat) <= WIDTH:
        return flat
    inner = " " * (indent + 1)
    if isinstance(told, dict):
        parts = [
            f"{json.dumps(str(key))}: {_lines(part, indent + 1)}" for key, part in told.items()
        ]
        return "{\n" + ",\n".join(inner + part for part in parts) + "\n" + " " * indent + "}"
    parts = [_lines(part, indent + 1) for part in told]
    if not any(isinstance(part, (dict, list, str)) for part in told):  # of numbers, many in a line
        return textwrap.fill(flat, WIDTH, subsequent_indent=inner)
    return "[\n" + ",\n".join(inner + part for part in parts) + "\n" + " " * indent + "]"


def main() -> None:
    """Summarise files in place."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    for file in parser.parse_args().files:
        told = json.loads(file.read_text(encoding="utf-8"))
        file.write_text(text(summarised(told)), encoding="utf-8")


if __name__ == "__main__":
    main()
