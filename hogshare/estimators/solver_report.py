"""The report of a fit without workers: the solver, and the reason for using it."""

from __future__ import annotations

import html
import time
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from hogshare.io.documents import Document
from hogshare.problems.model import Model
from hogshare.report import plain
from hogshare.solvers import outcome
from hogshare.system.docstrings import with_properties

WRITTEN = (
    *("solver", "by", "reason", "n_iter", "converged", "seconds", "n_workers", "runtime"),
    *("n_epochs", "stop_reason", "notes", "versions", "machine"),
)


@with_properties
@dataclass(kw_only=True)
class SolverReport(Document):
    """Report of a fit that was not done by workers.

    It takes the place of a `Report` as an estimator's `report_`; common attributes have the same
    names. It prints as a sentence.

    Parameters
    ----------
    solver : str
        The estimator's `solver_`: "cholesky", "cd", "cg", "none".
    by : str
        The solver in words, such as "scikit-learn's 'cholesky'"; empty if nothing was fitted.
    reason : str
        The reason for not using workers: the clause after "because".
    model : Model
        Coefficients and intercept.
    n_iter : int, list or None
        The estimator's `n_iter_`; None for a solver without iterations.
    converged : bool or None
        Whether the solver has met its criterion; None for a solver that only warns if it has not.
    seconds : dict
        Wall time of the solver in seconds, as ``run``; ``total`` is the same.
    notes : list of str
        Further remarks.
    versions, machine : dict
        As in `Report`.

    Attributes
    ----------
    n_workers : int
        Always 1, whatever threads the solver's libraries use.
    runtime : str
        Always "caller".
    n_epochs : int
        Always 0, since the solver has no epochs.
    rule, plane, barrier, step : None
        Always None.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from hogshare import Ridge
    >>> X, y = load_diabetes(return_X_y=True)
    >>> report = Ridge().fit(X, y).report_
    >>> report.solver, report.n_workers, report.runtime
    ('cholesky', 1, 'caller')
    >>> print(report)
    solved by scikit-learn's 'cholesky' in ... s, because the rows are dense and have 10 features...
    """

    solver: str
    by: str
    reason: str
    model: Any = None
    n_iter: Any = None
    converged: bool | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)

    n_workers: ClassVar[int] = 1
    runtime: ClassVar[str] = "caller"
    n_epochs: ClassVar[int] = 0
    rule: ClassVar[None] = None
    plane: ClassVar[None] = None
    barrier: ClassVar[None] = None
    step: ClassVar[None] = None

    @property
    def workers(self) -> list[dict[str, Any]]:
        """An empty list: there were no workers."""
        return []

    @property
    def checks(self) -> list[dict[str, Any]]:
        """An empty list: no evaluation of the model was recorded."""
        return []

    @property
    def run_seconds(self) -> float | None:
        """Wall time of the solver in seconds."""
        return self.seconds.get("run")

    @property
    def stop_reason(self) -> str:
        """The solver, its time, and the reason for using it, as a sentence."""
        if not self.by:
            return f"nothing was fitted to all rows, because {self.reason}"
        counts = np.ravel([] if self.n_iter is None else self.n_iter)
        after = ""
        if counts.size and counts.max() > 0:
            most = int(counts.max())
            after = f" after {most:,} iteration{'s' * (most != 1)}"
        took = "" if self.run_seconds is None else f" in {self.run_seconds:.3g} s"
        return f"solved by {self.by}{took}{after}, because {self.reason}"

    def headline(self) -> str:
        """Return `stop_reason`, one line."""
        return self.stop_reason

    def remarks(self) -> list[str]:
        """Return the notes."""
        return self.notes

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the model, as data for JSON."""
        known: dict[str, Any] = plain({name: getattr(self, name) for name in WRITTEN})
        return known

    def table(self) -> str:
        """Return plain text: the sentence, and the notes."""
        return "\n".join([self.headline(), *(f"note: {note}" for note in self.remarks())])

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        return f"<SolverReport: {self.headline()}>"

    def _repr_html_(self) -> str:
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.remarks())
        line = f"<p><b>{html.escape(self.headline())}</b></p>"
        return f"<div>{line}{f'<ul>{notes}</ul>' if notes else ''}</div>"


def report_of(
    estimator: Any,
    by: str,
    reason: str,
    began: float,
    converged: bool | None = None,
    *,
    solver: str | None = None,
) -> SolverReport:
    """Return the report of a completed fit, from the fitted attributes.

    by : the solver in words
    reason : the reason for using it: the clause after "because"
    began : value of `time.perf_counter` at the start of the fit
    converged : whether the solver has met its criterion; None if unknown
    solver : solver named in the report; if None, the estimator's `solver_`
    """
    seconds = time.perf_counter() - began
    model = None
    if hasattr(estimator, "coef_"):
        model = Model(np.atleast_2d(estimator.coef_), np.atleast_1d(estimator.intercept_))
    return SolverReport(
        solver=solver or estimator.solver_,
        by=by,
        reason=reason,
        model=model,
        n_iter=estimator.n_iter_,
        converged=converged,
        seconds={"run": seconds, "total": seconds},
        versions=outcome.versions(),
        machine=outcome.machine(),
    )
