"""Step sizes as integer codes."""

from hogshare.kernels.jit.decorators import inlined

CONSTANT = 1
OPTIMAL = 2
INVSCALING = 3
ADAPTIVE = 4
PA1 = 5
PA2 = 6

CODES = {
    "constant": CONSTANT,
    "optimal": OPTIMAL,
    "invscaling": INVSCALING,
    "adaptive": ADAPTIVE,
    "pa1": PA1,
    "pa2": PA2,
}


@inlined
def step_size(schedule, eta0, power_t, alpha, optimal_init, t):
    """Return the step size of row `t` (from 1) for the schedules that depend on `t` alone."""
    if schedule == OPTIMAL:
        return 1.0 / (alpha * (optimal_init + t - 1.0))
    if schedule == INVSCALING:
        return eta0 / t**power_t
    return eta0
