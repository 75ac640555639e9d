"""Rows in partitions on a cluster's workers: linear models of them, of which no rows travel.

Workers compute on the partitions that they have (`blocks`, `turns`, `totals`); one master, the
process that calls `fit`, folds what they send (`descent`, `folding`) or adds it up (`minimum`,
`squares`). Estimators see `PartitionedRows` and the three methods.
"""

from hogshare.partitioned.blocks import Meaning
from hogshare.partitioned.descent import Descended, Settings, descend
from hogshare.partitioned.lbfgs import Minimum, minimise
from hogshare.partitioned.rows import PartitionedRows
from hogshare.partitioned.squares import Solution, least_squares

__all__ = [
    "Descended",
    "Meaning",
    "Minimum",
    "PartitionedRows",
    "Settings",
    "Solution",
    "descend",
    "least_squares",
    "minimise",
]
