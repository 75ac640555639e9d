"""Methods that reach the optimum with sums over parts of the rows, wherever the parts are.

The terms of the sums come from `compression` and from `LinearProblem.total`. A `PartSums` adds the
terms in one memory, over ranks, or over a cluster. The methods that use the sums
(`conjugate_gradients`, `full_batch`, `alternation`) do not read rows.
"""
