"""``hogshare reproduce``: the papers' headline claims, measured again, beside what was printed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from hogshare.cli import console, options, outputs
from hogshare.words import counted

DESCRIPTION = """\
Measure headline claims of the papers again: ASYNC, PSP, ASAP, AsySG, Hogwild!, ASAGA, Gaia. Printed
are the claim, the paper's number, ours with its range over seeds, whether the direction agrees, and
what makes the difference where there is one. The exit code says that all ran, not that all agree.

--quick takes the small size of each, minutes for all of them on two cores; without it a claim takes
up to an hour. Claims on a virtual clock are the same on every machine; those on this machine's want
it to have nothing else to do."""

EXAMPLES = """\
examples:
  hogshare reproduce --list
  hogshare reproduce psp-1a asap-9
  hogshare reproduce all --quick --json claims.json --plot claims.png
  hogshare reproduce gaia --page gaia.md"""

KEY = "claims"  # of a file of results
QUICK_SEEDS, SEEDS = 3, 5
EXPECTED = (ValueError, RuntimeError, OSError, ImportError, MemoryError)  # of one claim


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
        help="of a claim, such as psp-1a; what several begin with, such as psp; or all; none with "
        "--json FILE: what FILE has, for --page and --plot",
    )
    parser.add_argument("--list", action="store_true", help="name all claims, and measure none")
    parser.add_argument("--quick", action="store_true", help="at the small size")
    parser.add_argument(
        "--seeds",
        type=options.positive_int,
        metavar="N",
        help=f"runs of each claim (default: {SEEDS}, quick {QUICK_SEEDS})",
    )
    parser.add_argument("--seed", type=options.seed, default=0, help="the first (default: 0)")
    parser.add_argument(
        "--json",
        metavar="FILE",
        help="write results as they are found; others that the file has are kept; -: print them",
    )
    parser.add_argument("--plot", metavar="FILE", help="draw ours over the papers' (matplotlib)")
    parser.add_argument(
        "--page", metavar="FILE", help="write a page of tables (Markdown); -: print it"
    )
    parser.set_defaults(run=run)


def run(args: Any) -> int:
    """Measure claim after claim, print each, and store what was asked for."""
    from hogshare import figures
    from hogshare.cli.claims import CLAIMS, select
    from hogshare.cli.claims.page import page_of

    if args.list:
        if args.names or args.json or args.plot or args.page:
            raise options.WrongCommandLine("--list goes with nothing else")
        show_list(list(CLAIMS.values()))
        return 0
    outputs.check_no_print({"--json": args.json, "--page": args.page}, "--json", "--page")
    found = kept_in(args.json)
    if not args.names and not (found and (args.page or args.plot)):
        raise options.WrongCommandLine("name a claim, or all; --list says what there is")
    chosen = select(args.names)
    outputs.check(args)
    outputs.check_file(args.page)
    outputs.check_distinct({"--json": args.json, "--plot": args.plot, "--page": args.page})
    failed = measure(args, chosen, found)
    results = [found[name] for name in CLAIMS if name in found]
    if args.plot:
        figures.save_claims(results, args.plot)
    if args.page:
        outputs.tell_text(args.page, page_of(results, picture_of(args)))
    return 1 if failed else 0


def measure(args: Any, chosen: list[Any], found: dict[str, Any]) -> list[str]:
    """Measure claims, print each, and put it with those that are there; names that failed.

    What one claim fails by is told, and the others are measured: an hour's work is not for nothing.
    """
    from hogshare.cli.claims.claim import reproduce

    seeds = range(args.seed, args.seed + (args.seeds or (QUICK_SEEDS if args.quick else SEEDS)))
    shown, done, failed = args.json != outputs.PRINT and args.page != outputs.PRINT, [], []
    with console.progress(len(chosen) * len(seeds), "reproduce") as progress:
        for claim in chosen:
            try:
                result = reproduce(claim, seeds, quick=args.quick, advance=progress.advance)
            except EXPECTED as error:
                console.say(f"hogshare: error: {claim.name} was not measured: {error}")
                failed.append(claim.name)
                continue
            found[claim.name] = result
            done.append(result)
            if shown:
                show(result)
            if args.json != outputs.PRINT:
                outputs.tell_json(args.json, {KEY: found})
    if args.json == outputs.PRINT or not chosen:  # in today's words, if they are others
        outputs.tell_json(args.json, {KEY: found})
    if done:
        took = sum(result["seconds"] for result in done)
        agree = sum(result["agrees"] for result in done)
        console.say(f"{agree} of {len(done)} agree in direction; {took:.0f} s")
    return failed


def picture_of(args: Any) -> str | None:
    """How a page names the picture that is drawn beside it."""
    if not args.plot or args.page == outputs.PRINT:
        return None
    from hogshare import figures

    return os.path.relpath(figures.file_of(args.plot), Path(args.page).parent)


def kept_in(path: str | None) -> dict[str, Any]:
    """Results that a file has from before, in their claims' words of today.

    Raises
    ------
    ValueError
        If it is there and is no file of results.
    """
    from hogshare.cli.claims import CLAIMS
    from hogshare.cli.claims.claim import renewed

    if path is None or path == outputs.PRINT or not Path(path).is_file():
        return {}
    text = Path(path).read_text(encoding="utf-8")
    if not text.strip():
        return {}
    try:
        kept = json.loads(text)[KEY]
        return {name: renewed(CLAIMS[name], result) for name, result in kept.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(
            f"{path} has something else than results of hogshare reproduce; name another --json"
        ) from None


def show_list(claims: list[Any]) -> None:
    """Print a row for each claim."""
    from hogshare.cli.claims.wording import printed_of

    header = ["name", "source", "claim", "printed", "quick s", "full s", "clock"]
    console.show_table(
        header,
        [
            [
                claim.name,
                claim.source,
                claim.says,
                printed_of(claim),
                claim.seconds[0],
                claim.seconds[1],
                claim.clock,
            ]
            for claim in claims
        ],
        title=f"{len(claims)} claims",
    )
    console.say("seconds are rough, of 3 seeds quick and of 5 in full, on 2 cores")


def show(result: dict[str, Any]) -> None:
    """Print a claim's table, and below it what it says."""
    from hogshare.cli.claims.wording import in_words, range_of, told

    console.show_table(
        ["number", "printed", "here", "range"],
        [
            [one["what"], in_words(one["printed"]), told(one["median"]), range_of(one)]
            for one in result["numbers"]
        ],
        title=f"{result['name']}: {result['source']}",
    )
    console.say(f"claim: {result['says']}")
    console.say(f"here: {result['here']}; medians of {counted(len(result['seeds']), 'seed')}")
    verdict = "agrees" if result["agrees"] else "does not agree"
    console.say(f"{verdict}: what is asked is that {result['when']}")
    if result["why"]:
        console.say(f"why ours differs: {result['why']}")
