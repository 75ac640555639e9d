"""Rows in partitions on a cluster's workers: linear models of them, of which no rows travel.

Workers compute on the partitions that they have (`blocks`, `quanta`) and fold what others have
learnt (`state`, `folding`), in rounds (`schedule`) that the client submits (`descent`); or the
client adds up what they find (`problem`, for the methods of `hogshare.optimum`).
"""

from hogshare.partitioned.blocks import Meaning
from hogshare.partitioned.descent import Descended, Settings, descend
from hogshare.partitioned.problem import problem_of_all
from hogshare.partitioned.rows import PartitionedRows

__all__ = [
    "Descended",
    "Meaning",
    "PartitionedRows",
    "Settings",
    "descend",
    "problem_of_all",
]
