"""A race against other libraries: time to sub-optimality.

Cut as benchopt does it: the discipline (the objective and its optimum), the contestants, whose
libraries are imported inside functions only, and the race that knows neither.
"""
