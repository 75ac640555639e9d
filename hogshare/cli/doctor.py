"""``hogshare doctor``: find what on this machine slows or stops fits, and advise."""

from __future__ import annotations

from dataclasses import asdict, astuple
from typing import Any

from hogshare.cli import console
from hogshare.system.messages import counted


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "doctor",
        help="find what slows or stops fits on this machine, and advise",
        description="Check cores, memory, BLAS threads, the folder of kernels, shared memory, "
        "processes, MPI and optional packages, as a fit uses them. Exit code 1 if something is "
        "wrong; notes are for your information.",
        epilog="examples:\n  hogshare doctor\n  mpiexec -n 2 hogshare doctor --json",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(args: Any) -> int:
    """Print the findings as a table or as JSON; return 1 if one of them is wrong."""
    from hogshare.cli import checkup

    findings = list(checkup.examine())
    header = ("what", "state", "found", "what to do")
    console.show_data(args.json, [asdict(one) for one in findings], header, map(astuple, findings))
    wrong = sum(one.state == checkup.WRONG for one in findings)
    notes = sum(one.state == checkup.NOTE for one in findings)
    console.say(f"hogshare: {wrong or 'nothing'} wrong, {counted(notes, 'note')}")
    return 1 if wrong else 0
