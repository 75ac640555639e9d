"""What SDCA and SAGA remember per row: filled before a run, taken out after it.

Outside the kernels there is one form of it for both rules, the derivative of each row's loss as the
rule last knew it: SAGA's table, and SDCA's dual variables with their sign turned, which at the
optimum is the same thing. So either rule goes on from where the other has ended.
"""

from __future__ import annotations

import numpy as np

from hogshare.engine.view import SessionView
from hogshare.kernels import dual, saga, sgd
from hogshare.kernels.averages import average_table
from hogshare.problems.model import Model
from hogshare.problems.protocol import RowProblem
from hogshare.rules.remembered import begins_empty


def fill_memory(session: SessionView, problem: RowProblem, start: Model) -> None:
    """Let a session remember what the start model does, or the derivatives at it; at zero nothing.

    The session's vector, intercept and columns have been filled.
    """
    a, rule, n_columns = session.arrays, session.rule, session.settings.n_columns
    trained = slice(None) if not a["held_out"].size else a["held_out"] == 0
    if rule.method == sgd.DUAL:
        if start.memory is None:
            return
        duals = a["dual"].reshape(problem.n_rows, 1 + n_columns)[:, 1:]
        duals[trained] = -np.asarray(start.memory)[trained]
    if rule.method == sgd.SAGA:
        table = a["gradients"].reshape(problem.n_rows, n_columns)
        if start.memory is not None:
            table[trained] = np.asarray(start.memory)[trained]
        elif not begins_empty(start):
            local = session.private(0).local
            saga.remember(
                session.rows, rule, a["w"], a["intercept"], session.schedule, session.memory, local
            )
        else:
            # From zero an empty table is ahead, by an epoch and more: a row's first step is its
            # whole gradient, as in SGD.
            return
    sum_anew(session)


def sum_anew(session: SessionView) -> None:
    """Make what is bound to be a sum over the rows that sum again; nobody works meanwhile."""
    a, rule = session.arrays, session.rule
    if rule.method == sgd.DUAL:
        dual.sum_of_duals(session.rows, a["dual"], rule.dual_scale, a["w"])
        dual.mean_of_duals(a["dual"], rule.dual_rows, a["dual_mean"])
    elif rule.method == sgd.SAGA:
        share = 1.0 / rule.dual_rows
        average_table(session.rows, a["gradients"], share, a["average"], a["dual_mean"])


def memory_of(session: SessionView) -> np.ndarray | None:
    """What a finished session remembers; None for the rule that remembers nothing."""
    n_columns = session.settings.n_columns
    if session.rule.method == sgd.SAGA:
        return session.arrays["gradients"].reshape(-1, n_columns).copy()
    if session.rule.method == sgd.DUAL:
        return -session.arrays["dual"].reshape(-1, 1 + n_columns)[:, 1:]
    return None
