"""Common parts of this folder's scripts: options, contestants in rounds, tables, stored results.

A script's `measure` takes its options and returns the results to be stored, or yields them as they
grow. An option is a keyword of `run` with its default, or a `Setting` if it needs its own help
text; ``--json`` always exists. A tuple is passed with commas.
"""

from __future__ import annotations

import argparse
import inspect
import json
import math
import statistics
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any, TypeVar

from summaries import store

from hogshare.io.tables import text_table
from hogshare.lab.harness import rounds as harness
from hogshare.lab.harness.settings import Setting, add_options

Found = TypeVar("Found")
HOME = Setting("data_home", "folder of local data sets (default: the environment's HOGSHARE_DATA)")


def commas(kind: Callable[[str], Any]) -> Callable[[str], tuple[Any, ...]]:
    """A type of option: several with commas between."""
    return lambda text: tuple(kind(part) for part in text.split(",") if part)


def run(doc: str, measure: Callable[[Any], Any], *settings: Setting, **defaults: Any) -> None:
    """Take the command line's options, measure, and store what was found if ``--json`` says so."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in defaults.items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(default, bool):
            parser.add_argument(flag, action="store_true")
            continue
        kind: Any = str if default is None else type(default)
        if isinstance(default, tuple):
            kind = commas(type(default[0]))
        parser.add_argument(flag, type=kind, default=default)
    add_options(parser, settings)
    parser.add_argument("--json", metavar="FILE", help="write what was measured")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found = measure(options)
    for results in found if inspect.isgenerator(found) else [found]:
        if options.json and results is not None:
            store(options.json, results)


def before(options: Any) -> dict[str, Any]:
    """What the file of ``--json`` has already."""
    file = Path(options.json or "")
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def in_rounds(
    contestants: Mapping[Any, Callable[[int], Found]], rounds: int, warm: bool = True
) -> dict[Any, list[Found]]:
    """What each contestant's calls with the number of a round return; the first warm-up is not."""
    for call in contestants.values() if warm else ():
        call(0)
    found = harness.in_rounds(list(contestants), rounds, lambda name, k: contestants[name](k))
    return dict(zip(contestants, found, strict=True))


def seconds(call: Callable[[], Any]) -> float:
    """What a call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def medians(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Of every number of some runs."""
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def median_ratio(above: Iterable[float], below: Iterable[float]) -> float:
    """The median of ratios that are taken round by round."""
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def show(table: Sequence[Mapping[str, Any]] | Mapping[Any, Mapping[str, Any]], title: str) -> None:
    """Print rows, or rows by their names."""
    if isinstance(table, Mapping):
        table = [{"": name, **row} for name, row in table.items()]
    header = list(dict.fromkeys(key for row in table for key in row))
    print(f"\n{title}")
    print(text_table(header, [[row.get(key) for key in header] for row in table]), flush=True)


def at_once(run: Callable[[Any], Found], problems: Sequence[Any]) -> list[Found]:
    """Runs that begin together, and have nothing to do with each other.

    run : ``run(problem)``
    """
    together = Barrier(len(problems))

    def alone(problem: Any) -> Found:
        together.wait(600.0)
        return run(problem)

    with ThreadPoolExecutor(len(problems)) as pool:
        return list(pool.map(alone, problems))


def share_of_way(before: float, after: float, target: float, least: float = 1e-3) -> float:
    """Return how far from one model to the next a target lies, by the logarithm of what is missing.

    `after` may be zero or less, where the best that is known is passed: it counts as `least`
    targets.
    """
    way = math.log(before / max(after, least * target))
    return math.log(before / target) / way if way > 0.0 else 1.0
