"""``hogshare bench``: measurements that a user can repeat; a file each, as `measure` has.

A file here has ``HELP``, ``DESCRIPTION``, ``EXAMPLES``, ``add_options`` and ``run``; the file of
the same name in `hogshare.lab.experiments.measure` measures, and is imported when it does.
"""

from __future__ import annotations

import argparse
import importlib
from typing import Any

from hogshare.cli import options
from hogshare.lab.experiments import barriers, centres, reduce, rivals, shared, speedup, tasks

BENCHES = {
    "speedup": speedup,
    "reduce": reduce,
    "centres": centres,
    "tasks": tasks,
    "rivals": rivals,
}


def add_parser(commands: Any) -> None:
    """Add the command and its measurements to the parser."""
    parser = commands.add_parser("bench", help="measure speedups, race against other libraries")
    kinds = parser.add_subparsers(title="measurements", metavar="WHAT", required=True)
    barriers.BARRIERS.add_to(kinds)
    for name, bench in BENCHES.items():
        one = kinds.add_parser(
            name,
            help=bench.HELP,
            description=bench.DESCRIPTION,
            epilog=bench.EXAMPLES,
            formatter_class=options.HelpFormatter,
        )
        bench.add_options(one)
        one.set_defaults(run=bench.run)


def settings_of(name: str, **others: Any) -> dict[str, Any]:
    """What a bench measures with when the command line says nothing, but for `others`.

    name : of `BENCHES` whose measurement has ``SETTINGS``
    """
    parser = argparse.ArgumentParser()
    BENCHES[name].add_options(parser)
    wanted = importlib.import_module(f"hogshare.lab.experiments.measure.{name}").SETTINGS
    unknown = set(others) - set(wanted)
    if unknown:
        raise TypeError(f"{', '.join(sorted(unknown))}: no setting of bench {name}")
    return {**shared.settings_of(parser.parse_args([]), wanted), **others}
