"""To the optimum by sums over parts of the rows, wherever the parts are.

What is added up is in `part_sums` and `condensed`; who adds is a `Parts`: one memory, ranks, or a
cluster. Methods on the sums (`lbfgs`, `least_squares`, `conjugate`, `finishing`) know no rows.
"""
