"""A case: what goes together, what goes wrong, and what has to come of it."""

import contextlib
import functools
import random
import re
from pathlib import Path

import contract
import leftovers
import numpy as np
import psutil
from events import EVENTS
from test_contract import RUNTIMES

from hogshare import solve

EPOCHS = (2, 60)
MOST = 3  # events of a case
QUIET = {"nothing", "a pause", "signals", "a fork", "fits beside", "joblib beside"}  # no kill
REFUSED = 0.1  # the chance that what does not go together is tried all the same
PATIENCE = 60.0  # seconds until what ends by itself has ended
KINDS = {
    "problem": contract.PROBLEMS,
    "rule": contract.RULES,
    "plane": contract.PLANES,
    "barrier": contract.BARRIERS,
    "runtime": {**RUNTIMES, "processes": "processes"},
}


def held():
    """What a case may not leave, children that nobody has waited for and shared memory too."""
    return {
        **leftovers.held(),
        "zombies": [c.pid for c in psutil.Process().children() if c.status() == "zombie"],
        "shared memory": [f.name for f in Path("/dev/shm").iterdir() if "hogshare" in f.name],
    }


def parts_of(problem, report):
    """What a model is made of."""
    model = report.model
    return (model.coef, model.intercept) if problem.has_rows else (model.params,)


class Case:
    """The `number`-th of a seed; the same again whenever it is made."""

    def __init__(self, seed, number):
        self.rng = random.Random(f"{seed}:{number}")
        self.chosen = self._choose()
        while contract.words(self.chosen) and self.rng.random() > REFUSED:
            self.chosen = self._choose()
        found = set(self.rng.choices(list(EVENTS), k=self.rng.randint(1, MOST)))
        self.events = [name for name in EVENTS if name in found]
        self.epochs = self.rng.randint(*EPOCHS)
        self.n_workers = self.rng.randint(2, 4)
        self.seed = self.rng.randrange(1000)

    def _choose(self):
        return {kind: self.rng.choice(sorted(rows)) for kind, rows in KINDS.items()}

    def __str__(self):
        return ", ".join([*self.chosen.values(), f"{self.n_workers} workers", *self.events])

    def settings(self, problem):
        """What `solve` is called with."""
        chosen = {kind: KINDS[kind][name] for kind, name in self.chosen.items()}
        del chosen["problem"]
        steps = None if chosen["rule"].remembers else contract.step_for(problem)
        more = {"stop": self.epochs, "n_workers": self.n_workers, "seed": self.seed}
        return {**chosen, **more, "step": steps}

    def run(self):
        """Run it, and see to it that all is well."""
        before = held()
        problem = contract.PROBLEMS[self.chosen["problem"]]()
        settings = self.settings(problem)
        refusals = contract.words(self.chosen)
        events = [EVENTS[name](self.rng, settings) for name in self.events]
        try:
            report = self.report(problem, settings, events)
        except tuple(kind for event in events for kind in event.may_raise) as error:
            told = str(error)
            explained = any(event.explains(error) for event in events)
            assert explained or any(word in told for word in refusals), told
        else:
            assert not refusals, f"it ran, and {refusals} should have refused it"
            self.check(problem, report)
            if self.chosen["barrier"] == "bsp" and self.repeats():
                again = solve(contract.PROBLEMS[self.chosen["problem"]](), **settings)
                same = map(np.array_equal, parts_of(problem, report), parts_of(problem, again))
                assert all(same), "behind BSP a run with a seed has other bits"
        leftovers.check(before, PATIENCE, held)

    def repeats(self):
        """Whether a run behind BSP has the same bits again, whatever happens beside it."""
        plane, of_centres = self.chosen["plane"], ("mirrors", "direct")
        if self.chosen["problem"] == "topics" and plane in of_centres:
            return False
        return plane in ("shared", "master", *contract.HOMES) and QUIET.issuperset(self.events)

    def report(self, problem, settings, events):
        """What the run comes to while the events happen."""
        with contextlib.ExitStack() as entered:
            for event in events:
                entered.enter_context(event)
            run = functools.partial(solve, problem, **settings)
            for event in events:
                run = functools.partial(event.call, run)
            report = run()
        for event in events:
            event.check(report)
        return report

    def check(self, problem, report):
        """The model is better than the start, and no row is missing or counted twice."""
        parts = parts_of(problem, report)
        assert all(np.isfinite(part).all() for part in parts), "a model that is not a number"
        found = problem.objective(*parts)
        assert found < contract.first_objective(problem), f"not below the start: {found}"
        assert report.n_epochs == self.epochs, f"{report.n_epochs} epochs"
        if "a kill" not in self.events:
            rows = sum(worker["rows"] for worker in report.workers)
            assert rows == self.epochs * problem.n_rows, f"{rows} rows"
        json = report.to_json()
        assert not re.search(r"\bNaN\b", json) and str(report)
