"""Experiments: contestants that run in rounds to a target.

An `Experiment` runs every contestant and makes the table; an instance declares its own parts only.

The result is one dictionary of plain data, which is also the JSON output:

    settings, data, versions, machine, warm_up_seconds
    target   the objective to reach; ``targets`` by family, if contestants have families
    runs     one for each contestant and round, with its trace
    table    one row for each contestant: its numbers over rounds
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hogshare import figures
from hogshare.cli import console
from hogshare.lab.harness import panels, rounds, settings
from hogshare.lab.harness.command import Command, Result, warn
from hogshare.lab.harness.table_numbers import MeasuredRun, Row, TableNumber, columns_of

if TYPE_CHECKING:
    from hogshare.report import Report

Settings = dict[str, Any]
Contestant = tuple[Any, ...]

LAST_PART = 0.01  # share of the gain that a default target leaves out
# settings of warm-up runs
BRIEFLY = {"epochs": 1, "target": 0.0, "base_ms": 0.0, "stragglers": "none"}


def reached_by_all(runs: Sequence[Row]) -> float:
    """Return an objective that every run reaches which ends below its first objective.

    Each of these runs has an objective at which it has made 99 % of its gain. The result is the
    largest of these. ValueError if no run ends below its first objective.
    """
    ends = [(run["trace"]["objective"][0], run["trace"]["objective"][-1]) for run in runs]
    gains = [(start, end) for start, end in ends if end is not None and end < start]
    if not gains:
        raise ValueError("no run ends below its start: use a smaller --step")
    return float(max(end + LAST_PART * (start - end) for start, end in gains))


@dataclass(frozen=True, kw_only=True)
class Experiment(Command):
    """An experiment of contestants in rounds.

    axes : names of the parts of a contestant, which are keys of runs and table rows
    contestants : ``contestants(settings)``, the contestants in the order of the table
    problem : ``problem(args)``, the problem to minimise; the function may fill in options
    run_once : ``run_once(problem, settings, contestant, seed)``, the report of one run
    facts : ``facts(report)``, facts of a run for JSON, besides its contestant, round and trace
    numbers : numbers of the table
    notes : ``notes(result)``, sentences below the table
    caption : last sentence below the table, a format string with keys of the result and settings
    settle : ``settle(problem, settings)``, the settings, completed by those that follow from others
    about : ``about(problem, settings)``, further keys of the result
    is_warmed : ``is_warmed(settings, contestant)``, whether the contestant has a warm-up run; the
        first contestant always has one
    family_of : ``family_of(run)``, the family of a run; each family has its own target
    target_of : ``target_of(runs)``, the default target
    doubts : ``doubts(result)``, warnings on the measured times
    heading : header of the contestants' column
    rounds : name of the setting for the number of rounds; without its s, it is the key of a run's
        round
    panels : panels of the figure
    title : title of the figure, a format string like `caption`
    """

    axes: tuple[str, ...]
    contestants: Callable[[Settings], list[Contestant]]
    problem: Callable[[Any], Any]
    run_once: Callable[[Any, Settings, Contestant, int], Report]
    facts: Callable[[Report], Row]
    numbers: Sequence[TableNumber]
    settle: Callable[[Any, Settings], Settings] = lambda problem, settings: settings
    about: Callable[[Any, Settings], Result] = lambda problem, settings: {}
    notes: Callable[[Result], Iterable[str]] = lambda result: ()
    caption: str = ""
    is_warmed: Callable[[Settings, Contestant], bool] = lambda settings, one: False
    family_of: Callable[[Row], str] | None = None
    target_of: Callable[[Sequence[Row]], float] = reached_by_all
    doubts: Callable[[Result], list[str]] = lambda result: []
    heading: str = ""
    rounds: str = "rounds"
    panels: Sequence[panels.Panel] = (panels.objective("seconds"), panels.bars("seconds"))
    title: str = "{workers} workers, {data}"

    def result(self, args: Any) -> Result:
        """Measure with the options of a command line."""
        problem = self.problem(args)
        wanted = self.settle(problem, settings.values_of(args, self.settings))
        warn(crowded(wanted))
        workers = args.assigned.get("runtime")
        result = self.measure(problem, wanted, {} if workers is None else {"runtime": workers})
        warn(self.doubts(result))
        return result

    def measure(
        self, problem: Any, settings: Settings, runs_with: Mapping[str, Any] | None = None
    ) -> Result:
        """Run every contestant in every round, with a progress bar.

        Parameters
        ----------
        problem : Problem
            The problem to minimise.
        settings : dict
            Values of all settings. A target of None is computed from the runs.
        runs_with : dict, default=None
            Settings that replace others in the runs but not in the result, for example a runtime
            that the caller started.

        Returns
        -------
        dict
            As in the file head.
        """
        racing = self.contestants(settings)
        warmed = [one for one in racing if one == racing[0] or self.is_warmed(settings, one)]
        about, within = self.about(problem, settings), {**settings, **(runs_with or {})}
        count = settings[self.rounds]
        last: list[Report] = []
        with console.progress(len(warmed) + len(racing) * count, self.name) as progress:
            began = time.perf_counter()
            for one in warmed:
                self.run_once(problem, within | BRIEFLY, one, settings["seed"])
                progress.advance("(warming up)")
            warm_up = time.perf_counter() - began

            def run(name: str, number: int) -> Row:
                began = time.process_time()
                one, seed = by_name[name], settings["seed"] + number
                last[:] = [self.run_once(problem, within, one, seed)]
                return self.run_facts(last[0], one, number, time.process_time() - began)

            by_name = {panels.name_in(self.names_of(one)): one for one in racing}
            found = rounds.in_rounds(
                list(by_name), count, run, progress.advance, self.rounds.removesuffix("s")
            )
        known = {
            "versions": last[0].versions,
            "machine": last[0].machine,
            "warm_up_seconds": warm_up,
            **about,
        }
        return known | self._summed(problem, settings, [run for runs in found for run in runs])

    def measure_once(
        self, problem: Any, settings: Settings, targets: Mapping[str, float] | None = None
    ) -> Result:
        """Run every contestant once, without warm-up and progress bar; return the result.

        targets : targets by family, for example of another result; None: computed from the runs
        """
        runs = []
        for one in self.contestants(settings):
            report = self.run_once(problem, settings, one, settings["seed"])
            runs.append(self.run_facts(report, one, 0, 0.0))
        return self._summed(problem, settings, runs, targets)

    def run_facts(
        self, report: Report, contestant: Contestant, number: int, cpu_seconds: float
    ) -> Row:
        """Return the facts of a run for JSON."""
        plain = report.to_dict()
        return {
            **self.names_of(contestant),
            self.rounds.removesuffix("s"): number,
            **self.facts(report),
            "cpu_seconds": cpu_seconds,
            "trace": plain["trace"],
            "notes": plain["notes"],
        }

    def names_of(self, contestant: Contestant) -> Row:
        """Return the parts of a contestant by axis, and a combined name if it has several parts."""
        parts = dict(zip(self.axes, contestant, strict=True))
        return {"contestant": ", ".join(contestant), **parts} if len(parts) > 1 else parts

    def _summed(
        self,
        problem: Any,
        settings: Settings,
        runs: list[Row],
        targets: Mapping[str, float] | None = None,
    ) -> Result:
        data = {"rows": problem.n_rows, "columns": problem.n_features, "nonzeros": problem.nnz}
        result: Result = {"settings": settings, "data": data, "runs": runs}
        found = self.targets_of(result) if targets is None else dict(targets)
        result["target"] = found.get("", settings.get("target"))
        if self.family_of is not None:
            result["targets"] = found
        return {**result, "table": self.tabulate(result)}

    def targets_of(self, result: Result) -> dict[str, float]:
        """Return the target of each family: the given target, or one that the family's runs reach.

        Without families there is a single family, whose name is empty.
        """
        given, families = result["settings"].get("target"), dict[str, list[Row]]()
        for run in result["runs"]:
            families.setdefault(self._family(run), []).append(run)
        return {
            name: float(self.target_of(families[name]) if given is None else given)
            for name in sorted(families)
        }

    def _family(self, run: Row) -> str:
        return "" if self.family_of is None else self.family_of(run)

    def tabulate(self, result: Result) -> list[Row]:
        """Return one row for each contestant: its numbers over rounds.

        A run that does not reach the target counts as infinitely long. If half of the runs do not
        reach the target, the median is infinite, and is given as None.
        """
        targets = result["targets"] if self.family_of else {"": result["target"]}
        table: list[Row] = []
        for one in self.contestants(result["settings"]):
            row = self.names_of(one)
            table.append(row)
            runs = [
                MeasuredRun(run, targets[self._family(run)])
                for run in result["runs"]
                if all(run[axis] == row[axis] for axis in self.axes)
            ]
            for number in self.numbers:
                row |= number.found(runs, table, result)
        return table

    def show(self, result: Result) -> None:
        """Print the table, and below it its description."""
        table, clock = result["table"], panels.clock_of(result)
        headers, rows = columns_of(self.numbers, table)
        names = [row.get("contestant", row[self.axes[0]]) for row in table]
        if self.family_of is None:
            title = f"to objective {result['target']:.6g}"
        else:
            each = (f"{name} {value:.6g}" for name, value in result["targets"].items())
            title = f"to objectives {', '.join(each)}"
        console.show_table(
            [self.heading or ", ".join(self.axes), *(h.format(clock=clock) for h in headers)],
            [[name, *cells] for name, cells in zip(names, rows, strict=True)],
            title=title,
        )
        for sentence in filter(None, (*self.notes(result), self._written(self.caption, result))):
            console.say(sentence)
        if any(row["seconds"] is None for row in table):
            console.say(
                "-: most runs did not reach the target; use more --epochs or a higher --target"
            )

    def draw(self, result: Result, path: str) -> None:
        """Draw the panels in a row and write the figure to a file."""
        picture, axes = figures.panel_row(len(self.panels))
        for panel, ax in zip(self.panels, axes, strict=True):
            panel(ax, result)
        picture.suptitle(self._written(self.title, result))
        figures.save(picture, path)

    @staticmethod
    def _written(text: str, result: Result) -> str:
        return text.format(**{**result, **result["settings"]})


def crowded(settings: Settings) -> list[str]:
    """Return warnings before the runs, if workers share cores and times would be meaningless.

    There is no warning if workers sleep, because a sleeping worker leaves its core to others. There
    is none on a virtual clock.
    """
    import joblib

    is_idle = settings.get("base_ms") or settings.get("block_ms")
    if is_idle or settings.get("runtime") == "simulator":
        return []
    workers, cores = settings["workers"], joblib.cpu_count()
    count = workers if isinstance(workers, int) else max(workers)
    if count <= cores:
        return []
    return [
        f"{count} workers on {cores} usable core{'s' * (cores != 1)}: "
        "iteration speedups stay meaningful, time speedups do not"
    ]
