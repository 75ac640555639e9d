"""Rows in partitions on a cluster's workers: linear models of them, of which no rows travel.

Workers compute on the partitions that they have (`blocks`, `turns`); one master, the
process that calls `fit`, folds what they send (`descent`, `folding`) or adds it up (`rows`, for the
methods of `hogshare.optimum`).
"""

from hogshare.partitioned.blocks import Meaning
from hogshare.partitioned.descent import Descended, Settings, descend
from hogshare.partitioned.rows import PartitionedRows

__all__ = [
    "Descended",
    "Meaning",
    "PartitionedRows",
    "Settings",
    "descend",
]
