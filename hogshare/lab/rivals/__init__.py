"""A race against other libraries: time to sub-optimality on one linear problem.

Cut apart as benchopt does it: the objective and its optimum, the contestants (one file for each
library, which is imported inside functions only), and the race that knows neither.
"""
