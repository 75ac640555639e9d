"""To the optimum by sums over parts of the rows, wherever the parts are.

What is added up is in `compression` and in `LinearProblem.total`; who adds is a `PartSums`: one
memory, ranks, or a cluster. Methods on the sums (`conjugate_gradients`, `full_batch`,
`alternation`) know no rows.
"""
