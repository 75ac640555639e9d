"""What the pages "write a ..." write: each page's files, blocks that begin with a docstring.

A row for each file: what it defines, as the problem and the rule of a run, and a step size.
"""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from hogshare import ASP, BSP, SGD, SSP, Checkpoint, Master, Shared, StepSize, problems, solve

DOCS = Path(__file__).parent.parent / "docs"
POINTS = np.random.default_rng(0).normal(size=(600, 3)) + np.array([2.0, 0.0, -1.0])

PLANES = [Shared(), Shared(exchange=None), Master()]
BARRIERS = [ASP(), BSP(), SSP(2)]
RUNTIMES = ["threads", "processes", "simulator"]


def module_of(page, number, folder):
    """One of the page's files as a module, from a file of its own."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    blocks = [block.split("```\n", 1)[0] for block in text.split("```python\n")[1:]]
    path = folder / f"{page}_{number}.py"
    path.write_text([one for one in blocks if one.startswith('"""')][number], encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def distance(w, rows, out):
    away = w - POINTS[rows]
    out += away.sum(axis=0)
    return 0.5 * np.square(away).sum()


def median(module):
    return module.GeometricMedian(POINTS, smooth=0.05), SGD(batch=20), 0.05


def sign(module):
    return problems.user(distance, *POINTS.shape), module.SignSGD(batch=20), 0.5


def momentum(module):
    # Ten times the step in the end; and a worker that is preempted at its first may send that when
    # all others are done: its first step alone (20 rows, 2 away) has to be within the bound.
    return problems.user(distance, *POINTS.shape), module.Momentum(batch=20), 0.003


PAGES = {
    ("write_a_problem", 0): median,
    ("write_a_rule", 0): sign,
    ("write_a_rule", 1): momentum,
}


@pytest.fixture(params=PAGES, ids=lambda file: f"{file[0]}-{file[1]}")
def written(request, tmp_path):
    problem, rule, first = PAGES[request.param](module_of(*request.param, tmp_path))
    step = StepSize("invscaling", first, 0.5)
    return {"problem": problem, "rule": rule, "step": step, "stop": 15, "seed": 0}


def in_a_loop(problem, rule, step, stop, seed):
    """The same run in a plain loop, by the rows of a run that tells them."""
    orders = []

    def spying(w, rows, out):
        orders.append(rows.copy())
        return problem.gradient(w, rows, out)

    spy = problems.user(spying, problem.n_rows, problem.n_params, start=problem.start())
    solve(spy, rule=rule, step=step, stop=stop, seed=seed, runtime="caller")
    w, t = problem.start(), 1.0
    state = {name: np.zeros(*asked) for name, asked in rule.state(problem.n_params).items()}
    for rows in orders[-stop * problem.n_rows // rule.batch :]:
        out = np.zeros_like(w)
        problem.gradient(w, rows, out)
        rule.step(out, step.eta0 / t**step.power_t, *([state] if state else []))
        w -= out
        t += len(rows)
    return w


@pytest.mark.parametrize("plane", PLANES, ids=repr)
@pytest.mark.parametrize("runtime", ["caller", *RUNTIMES])
def test_one_worker_is_a_plain_loop(written, plane, runtime):
    report = solve(**written, plane=plane, runtime=runtime, n_workers=1)
    np.testing.assert_array_equal(report.model.params, in_a_loop(**written))


@pytest.mark.parametrize("plane", PLANES, ids=repr)
@pytest.mark.parametrize("barrier", BARRIERS, ids=repr)
@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.sample(2)
def test_it_runs_everywhere(written, plane, barrier, runtime):
    report = solve(**written, plane=plane, barrier=barrier, runtime=runtime, n_workers=2)
    np.testing.assert_allclose(report.model.params, [2.0, 0.0, -1.0], atol=0.25)
    assert sum(worker["rows"] for worker in report.workers) == 15 * len(POINTS)


@pytest.mark.parametrize("plane", [Shared(), Master()], ids=repr)
def test_bsp_gives_the_same_bits_everywhere(written, plane):
    settings = {"plane": plane, "barrier": BSP(), "n_workers": 2}
    first, *others = (solve(**written, runtime=r, **settings).model.params for r in RUNTIMES)
    for other in others:
        np.testing.assert_array_equal(first, other)


def test_it_goes_on_from_a_checkpoint(written, tmp_path):
    path = tmp_path / "run.npz"
    whole = solve(**written).model.params
    solve(**{**written, "stop": 7}, checkpoint=Checkpoint(path))
    np.testing.assert_array_equal(solve(**written, resume=path).model.params, whole)
