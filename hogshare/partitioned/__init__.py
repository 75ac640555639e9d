"""Linear models of rows in partitions on a cluster's workers; no rows travel.

There are two ways to fit. Workers take steps along their own partitions (`partition_blocks`,
`lane_quanta`) and fold the changes of other workers (`state`, `lane_folds`), in rounds (`schedule`)
that the client submits (`descent`). Or workers compute sums over their partitions, which the client
adds up for the methods of `hogshare.optimum` (`partitioned_problem`).
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
