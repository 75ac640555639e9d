"""A race against other libraries: time to sub-optimality.

Divided as in benchopt: the discipline (the objective and its optimum), the contestants, which
import their libraries only inside functions, and the race, which depends on neither.
"""
