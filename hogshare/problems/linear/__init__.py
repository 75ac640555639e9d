"""Linear models: everything that is about them and about no other problem.

`hogshare.problems.linear` is also what users call: `hogshare.problems` has the function of that
name, which states a problem, in this room's place. Modules of the room are imported from it by
name, ``from hogshare.problems.linear import row_arrays``, which finds the room.
"""

from hogshare.problems.linear.problem import (
    REGRESSION_LOSSES,
    LinearProblem,
    build,
    effective_l1_ratio,
    linear,
)

__all__ = ["REGRESSION_LOSSES", "LinearProblem", "build", "effective_l1_ratio", "linear"]
