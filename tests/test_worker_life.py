"""A worker's life: legal moves, the rest refused, the same from Python and from kernels."""

import ast
from pathlib import Path

import cases
import numpy as np
import pytest

from hogshare import solve
from hogshare.barriers import BarrierError
from hogshare.kernels import layout
from hogshare.kernels.jit.decorators import kernel
from hogshare.kernels.layout import ACTIVE, DEAD, DONE, RESTING, STARTING, WAITING
from hogshare.kernels.schedule import worker_life
from hogshare.kernels.schedule.worker_life import (
    AWAIT,
    CLOSE,
    DIE,
    EVENTS,
    EXPECT,
    ILLEGAL,
    JOIN,
    LEAVE,
    MISS,
    PAUSE,
    REOPEN,
    REPLACE,
    WAIT,
    WORK,
    apply,
    move,
    story,
)

HOUSE = Path(layout.__file__).parents[1]
STATES = (STARTING, ACTIVE, WAITING, DONE, DEAD, RESTING)
# what a worker may do in each state: written by hand, and not from the table
LEGAL = {
    STARTING: {JOIN: ACTIVE, CLOSE: DONE, AWAIT: WAITING, MISS: RESTING, DIE: DEAD},
    ACTIVE: {WORK: ACTIVE, WAIT: WAITING, PAUSE: RESTING, LEAVE: DONE, DIE: DEAD},
    WAITING: {
        WORK: ACTIVE,
        WAIT: WAITING,
        PAUSE: RESTING,
        LEAVE: DONE,
        AWAIT: WAITING,
        DIE: DEAD,
    },
    DONE: {REOPEN: STARTING, DIE: DEAD},
    DEAD: {DIE: DEAD, REPLACE: WAITING},
    RESTING: {JOIN: ACTIVE, CLOSE: DONE, EXPECT: STARTING, AWAIT: WAITING, DIE: DEAD},
}


@kernel
def move_in_kernel(row, event):
    return move(row, event)


def row_in(state):
    row = np.zeros(layout.N_TABLE, np.int64)
    row[layout.T_STATE] = state
    return row


@pytest.mark.parametrize("form", [apply, move_in_kernel])
@pytest.mark.parametrize("state", STATES)
def test_only_legal_moves_change_a_row(form, state):
    for event in range(len(EVENTS)):
        row = row_in(state)
        after = LEGAL[state].get(event, ILLEGAL)
        assert form(row, event) == (after != ILLEGAL), (EVENTS[event], layout.STATES[state])
        assert row[layout.T_STATE] == (state if after == ILLEGAL else after)
        is_noted = after not in (ILLEGAL, state)
        assert story(row) == ([EVENTS[event]] if is_noted else [])
        row[[layout.T_STATE, layout.T_MOVES]] = 0
        assert not row.any(), "a move writes nothing else"


@pytest.mark.parametrize("form", [apply, move_in_kernel])
def test_lives(form):
    for events, state in (
        ((JOIN, WORK, WAIT, WORK, LEAVE), DONE),
        ((JOIN, PAUSE, JOIN, WAIT, PAUSE, EXPECT, MISS, CLOSE), DONE),
        ((CLOSE, JOIN), DONE),  # the monitor was first: the worker does not join any more
        ((JOIN, CLOSE, LEAVE, REOPEN, JOIN), ACTIVE),
        ((JOIN, DIE, WORK, LEAVE, REOPEN), DEAD),
        ((AWAIT, WORK, WAIT, DIE, AWAIT), DEAD),
        ((AWAIT, WORK, DIE, REPLACE), WAITING),
    ):
        row = row_in(STARTING)
        for event in events:
            form(row, event)
        assert row[layout.T_STATE] == state, [EVENTS[event] for event in events]


@pytest.mark.parametrize("form", [apply, move_in_kernel])
def test_a_story_has_the_last_moves_in_their_order(form):
    row = row_in(STARTING)
    form(row, JOIN)
    for _ in range(40):
        form(row, WAIT)
        form(row, WAIT)  # nothing has changed: it is no move
        form(row, WORK)
    form(row, LEAVE)
    assert story(row) == [*["wait", "work"] * 7, "leave"]
    assert row[layout.T_MOVES] > 0


def test_the_stories_of_many_workers_are_short():
    table = np.zeros((20, layout.N_TABLE), np.int64)
    apply(table[1], JOIN)
    text = worker_life.stories(table)
    assert text.startswith("worker 0: none; worker 1: join; ")
    assert text.endswith("worker 7: none; and 12 workers more")


def test_a_report_has_the_moves_of_each_worker():
    problem = cases.problem()[0]
    report = solve(problem, n_workers=2, runtime="threads", stop=3, seed=0)
    for worker in report.workers:
        assert worker["moves"][0] in ("join", "wait", "work", "close")
        assert worker["moves"][-1] in ("leave", "close")


def test_a_run_that_stands_still_says_what_its_workers_did_last(seams):
    def never(table, me):
        return False

    seams.clock.until_stuck_ns = 50_000_000
    problem = cases.problem()[0]
    with pytest.raises(BarrierError, match=r"Last moves: worker 0: .*wait"):
        solve(problem, n_workers=2, runtime="threads", barrier=never, stop=3)


# -- every write of T_STATE is in one file ---------------------------------------------------------


def writes_of_state(source):
    """Lines that store to, or compare and exchange, a T_STATE."""

    def names_it(node):
        return any(
            isinstance(part, ast.Attribute | ast.Name)
            and (getattr(part, "attr", None) or getattr(part, "id", None)) == "T_STATE"
            for part in ast.walk(node)
        )

    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            parts = [p for t in targets for p in (t.elts if isinstance(t, ast.Tuple) else [t])]
            if any(isinstance(part, ast.Subscript) and names_it(part.slice) for part in parts):
                found.append(node.lineno)
        elif isinstance(node, ast.Call):
            name = getattr(node.func, "id", None) or getattr(node.func, "attr", None)
            writes = ("store", "note", "compare_exchange", "exchange", "fetch_add", "fill")
            if name in writes and any(map(names_it, node.args)):
                found.append(node.lineno)
    return found


def test_every_write_of_a_workers_state_is_a_move():
    files = [path for path in HOUSE.rglob("*.py") if path.name != "worker_life.py"]
    assert len(files) > 300
    found = {str(path): writes_of_state(path.read_text(encoding="utf-8")) for path in files}
    assert not {path: lines for path, lines in found.items() if lines}


@pytest.mark.parametrize(
    "line",
    [
        "table[me, layout.T_STATE] = layout.DEAD",
        "row[T_STATE], row[T_CLOCK] = 1, 2",
        "store(table[me], layout.T_STATE, layout.ACTIVE)",
        "locks.note(row, layout.T_STATE, 3)",
        "compare_exchange(row, layout.T_STATE, 0, 1)",
    ],
)
def test_a_write_elsewhere_would_be_found(line):
    assert writes_of_state(line) == [1]
    assert not writes_of_state("now = load(row, layout.T_STATE)")
