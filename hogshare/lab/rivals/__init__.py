"""A race against other libraries: the time to a sub-optimality.

As in benchopt, the race has three parts: the discipline (the objective and its optimum), the
contestants, which import their libraries only inside functions, and the race itself, which depends
on neither.
"""
