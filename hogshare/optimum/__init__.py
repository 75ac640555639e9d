"""Methods that reach the optimum by sums over parts of the rows, wherever the parts are.

The summands are in `compression` and in `LinearProblem.total`. A `PartSums` adds them, in one
memory, over ranks or over a cluster. The methods that use the sums (`conjugate_gradients`,
`full_batch`, `alternation`) see no rows.
"""
