"""``hogshare reproduce``: measure headline claims of the papers, and compare with the print."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from hogshare.cli import console, options, outputs
from hogshare.system.messages import counted, listed

DESCRIPTION = """\
Measure headline claims of the papers again: ASYNC, PSP, ASAP, AsySG, Hogwild!, ASAGA, Gaia. The
output has the claim, the paper's number, the measured number with its range over seeds, whether
they agree (in part: in direction), and the reason of a difference. Exit code 0 means that all
claims ran, not that all agree.

--quick runs the small size of each claim, minutes for all of them on two cores; without it a claim
takes up to an hour. Claims on a virtual clock are the same on every machine; claims on the real
clock need an idle machine."""

EXAMPLES = """\
examples:
  hogshare reproduce --list
  hogshare reproduce psp-1a asap-9
  hogshare reproduce all --quick --json claims.json --plot claims.png
  hogshare reproduce gaia --page gaia.md"""

KEY = "claims"  # of a file of results
QUICK_SEEDS, SEEDS = 3, 5


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "reproduce",
        help="the papers' headline claims, measured again",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=options.HelpFormatter,
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="a claim, such as psp-1a; a common prefix, such as psp; or all. Without names, "
        "--page and --plot show the results in the FILE of --json",
    )
    parser.add_argument("--list", action="store_true", help="list all claims without measuring")
    parser.add_argument("--quick", action="store_true", help="run the small size")
    parser.add_argument(
        "--seeds",
        type=options.positive_int,
        metavar="N",
        help=f"runs of each claim (default: {SEEDS}, quick {QUICK_SEEDS})",
    )
    parser.add_argument("--seed", type=options.seed, default=0, help="first seed (default: 0)")
    parser.add_argument(
        "--json",
        metavar="FILE",
        help="write results as they are found, and preserve the file's others; -: print them",
    )
    parser.add_argument("--plot", metavar="FILE", help="draw measured over printed (matplotlib)")
    parser.add_argument(
        "--page", metavar="FILE", help="write a page of tables (Markdown); -: print it"
    )
    parser.set_defaults(run=run)


def run(args: Any) -> int:
    """Measure claims one after another, print each, and write the requested files.

    Return the exit code: 1 if a claim could not be measured. Files are written after an interrupted
    run as well.
    """
    from hogshare.lab.claims.catalogue import CLAIMS, select

    if args.list:
        if args.names or args.json or args.plot or args.page:
            raise options.WrongCommandLine("--list goes with nothing else")
        show_list(list(CLAIMS.values()))
        return 0
    named = {"--json": args.json, "--page": args.page, "--plot": args.plot}
    outputs.check_no_print(named, "--json", "--page")
    found = stored_in(args.json)
    if not args.names:
        check_no_names(args, found)
    chosen = select(args.names)
    check_no_loss(args, chosen, found)
    outputs.check(args)
    outputs.check_file(args.page)
    outputs.check_distinct(named)
    try:
        return measure(args, chosen, found)
    finally:  # also after an interrupted run
        store(args, found)


def check_no_names(args: Any, found: dict[str, Any]) -> None:
    """Refuse a command without names, unless it shows a file's stored results."""
    if not found:
        raise options.WrongCommandLine("name a claim, or all; --list shows all names")
    if not (args.page or args.plot):
        raise options.WrongCommandLine("without a name, --json FILE goes with --page or --plot")
    if args.quick or args.seeds:
        raise options.WrongCommandLine("--quick and --seeds need the name of a claim")


def check_no_loss(args: Any, chosen: list[Any], found: dict[str, Any]) -> None:
    """Refuse to replace a stored full result by a quick one."""
    stored = {name for name, result in found.items() if not result["quick"]}
    whole = [claim.name for claim in chosen if claim.name in stored]
    if args.quick and whole:
        raise options.WrongCommandLine(
            f"{args.json} has {listed(whole)} in full, which --quick would replace; name another "
            "--json"
        )


def measure(args: Any, chosen: list[Any], found: dict[str, Any]) -> int:
    """Measure claims, print each, and add each to `found`; return the exit code.

    If a claim fails, its error is reported and the other claims are measured. Each result is
    written to the file of ``--json`` at once, so hours of work cannot be lost.
    """
    from hogshare.lab.claims.claim import reproduce
    from hogshare.lab.claims.page import summary_of

    seeds = range(args.seed, args.seed + (args.seeds or (QUICK_SEEDS if args.quick else SEEDS)))
    is_shown, done = outputs.PRINT not in (args.json, args.page), []
    with console.progress(len(chosen) * len(seeds), "reproduce") as progress:
        for claim in chosen:
            try:
                result = reproduce(claim, seeds, quick=args.quick, advance=progress.advance)
            except Exception as error:
                if console.is_debugged():
                    raise
                why = " ".join(str(error).split()) or type(error).__name__
                console.say(f"hogshare: error: {claim.name} was not measured: {why}")
                continue
            found[claim.name] = result
            done.append(result)
            if is_shown:
                show(result)
            if args.json != outputs.PRINT:
                outputs.write_json(args.json, {KEY: found})
    if done:
        took = sum(result["seconds"] for result in done)
        console.say(f"{summary_of(done)}; {took:.0f} s")
    return int(len(done) < len(chosen))


def store(args: Any, found: dict[str, Any]) -> None:
    """Write the page and the figure of all results; print the JSON, or rewrite it without names."""
    from hogshare.figures import file_of
    from hogshare.lab.claims.catalogue import CLAIMS
    from hogshare.lab.claims.page import page_of
    from hogshare.lab.claims.picture import save_claims

    results = [found[name] for name in CLAIMS if name in found]
    if not results:
        return
    if args.json == outputs.PRINT or not args.names:  # stored text may be out of date
        outputs.write_json(args.json, {KEY: found})
    picture = None
    if args.plot:
        save_claims(results, args.plot)
        if args.page and args.page != outputs.PRINT:
            picture = os.path.relpath(file_of(args.plot), Path(args.page).parent)
    if args.page:
        outputs.write_text(args.page, page_of(results, picture))


def stored_in(path: str | None) -> dict[str, Any]:
    """Read the results of a file, and replace their texts by the claims' current texts.

    Return an empty dict if there is no file, or an empty one. Raise ValueError if the file has
    other content.
    """
    from hogshare.lab.claims.catalogue import CLAIMS
    from hogshare.lab.claims.claim import MEASURED, renewed

    if path is None or path == outputs.PRINT or not Path(path).is_file():
        return {}
    content = Path(path).read_bytes()
    if not content.strip():
        return {}
    try:
        stored = dict(json.loads(content)[KEY])
        if not all(result.keys() >= MEASURED for result in stored.values()):
            raise KeyError(KEY)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(
            f"{path} has something else than results of hogshare reproduce; name another --json"
        ) from None
    # the result of a claim that no longer exists stays as it is
    return {
        name: renewed(CLAIMS[name], result) if name in CLAIMS else result
        for name, result in stored.items()
    }


def show_list(claims: list[Any]) -> None:
    """Print a row for each claim."""
    from hogshare.lab.claims.page import printed_of

    header = ["name", "source", "claim", "printed", "quick s", "full s", "clock"]
    rows = [[c.name, c.source, c.says, printed_of(c), *c.seconds, c.clock] for c in claims]
    console.show_table(header, rows, title=f"{len(claims)} claims")
    console.say(
        "seconds are rough, for 3 seeds quick and 5 in full, on 2 cores; claims on the same "
        "runs, such as async-2 to async-5, share them"
    )


def show(result: dict[str, Any]) -> None:
    """Print a claim's table, and below it its statement and verdict."""
    from hogshare.lab.claims.claim import WORKLOAD
    from hogshare.lab.claims.page import in_words, range_of, shown

    console.show_table(
        ["number", "printed", "measured", "range"],
        [
            [one["what"], in_words(one["printed"]), shown(one["median"]), range_of(one)]
            for one in result["numbers"]
        ],
        title=f"{result['name']}: {result['source']}",
    )
    console.say(f"claim: {result['says']}")
    console.say(f"workload: {result[WORKLOAD]}; medians of {counted(len(result['seeds']), 'seed')}")
    console.say(f"{result['verdict']}; the criterion: {result['when']}")
    if result["why"]:
        console.say(f"note: {result['why']}")
