"""Linear models: all code for them that other problems do not use.

`hogshare.problems` also has a function named `linear`: its attribute of this name is the function
that states a problem, not this package. Import the package's modules by name, as in
``from hogshare.problems.linear import row_arrays``, which finds the package.
"""

from hogshare.problems.linear.problem import (
    REGRESSION_LOSSES,
    LinearProblem,
    build,
    effective_l1_ratio,
    linear,
)

__all__ = ["REGRESSION_LOSSES", "LinearProblem", "build", "effective_l1_ratio", "linear"]
