"""The papers' bounds by their public name; the formulas are in `hogshare.lab.bounds`.

Examples
--------
>>> from hogshare import theory
>>> known = theory.Constants(gap=0.7, L=2.0, sigma=1.5, n_gradients=4)
>>> theory.con_step_size(known, n_updates=10_000)
0.0019720265943665386
>>> theory.con_largest_age(known, n_updates=10_000)
30
"""

from hogshare.lab.bounds import *  # noqa: F403
from hogshare.lab.bounds import __all__ as __all__
