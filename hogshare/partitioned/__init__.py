"""Linear models of rows in partitions on a cluster's workers; no rows travel.

Workers compute on the partitions that they have (`partition_blocks`, `lane_quanta`) and fold the
changes of other workers (`state`, `lane_folds`), in rounds (`schedule`) that the client submits
(`descent`). Or the client adds up the workers' sums (`partitioned_problem`, for the methods of
`hogshare.optimum`).
"""

from hogshare.partitioned.descent import Descended, DescentSettings, descend
from hogshare.partitioned.partition_blocks import Meaning
from hogshare.partitioned.partitioned_problem import problem_of_all
from hogshare.partitioned.partitioned_rows import PartitionedRows

__all__ = [
    "Descended",
    "DescentSettings",
    "Meaning",
    "PartitionedRows",
    "descend",
    "problem_of_all",
]
