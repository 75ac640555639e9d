"""Step sizes, conditions and bounds of the papers' theorems, and their constants.

Each formula is a pure function of numbers, and names the equation of its paper: (1) AsySG with
consistent reads (``con_``) and inconsistent reads (``incon_``), Lian et al. 2015; (2) Hogwild!, Niu
et al. 2011; (3) the lag under sampling barriers (``psp_``), Wang et al. 2017. The constants of the
formulas are computed from a problem and a model. ``docs/theory.md`` lists the assumptions, and the
printed formulas that are corrected.

An age (T of the papers, the staleness of a gradient) is the number of the model's updates between
the read of the model and the application of the gradient computed from it.
"""

from hogshare.lab.bounds.asysg_con import (
    con_bound,
    con_bound_of_steps,
    con_condition,
    con_largest_age,
    con_largest_age_of_step,
    con_least_updates,
    con_step_size,
)
from hogshare.lab.bounds.asysg_incon import (
    incon_bound,
    incon_bound_of_step,
    incon_condition,
    incon_largest_age,
    incon_largest_age_of_step,
    incon_least_writes,
    incon_step_size,
)
from hogshare.lab.bounds.constants import Constants, CoordinateConstants
from hogshare.lab.bounds.noise import ergodic_gradient_norm, gradient_noise
from hogshare.lab.bounds.sampled_constants import sampled_lipschitz, sampled_noise
from hogshare.lab.bounds.sampling_lag import (
    SamplingRun,
    psp_bound_curves,
    psp_lag_law,
    psp_mean,
    psp_mean_bound,
    psp_pass_chance,
    psp_second_moment,
    psp_second_moment_bound,
)
from hogshare.lab.bounds.smoothness import coordinate_lipschitz, lipschitz
from hogshare.lab.bounds.sparsity import Sparsity, hogwild_step_size, sparsity
from hogshare.problems.linear.gradients import Gradient, gradient, unsmooth

__all__ = [
    "Constants",
    "CoordinateConstants",
    "Gradient",
    "SamplingRun",
    "Sparsity",
    "con_bound",
    "con_bound_of_steps",
    "con_condition",
    "con_largest_age",
    "con_largest_age_of_step",
    "con_least_updates",
    "con_step_size",
    "coordinate_lipschitz",
    "ergodic_gradient_norm",
    "gradient",
    "gradient_noise",
    "hogwild_step_size",
    "incon_bound",
    "incon_bound_of_step",
    "incon_condition",
    "incon_largest_age",
    "incon_largest_age_of_step",
    "incon_least_writes",
    "incon_step_size",
    "lipschitz",
    "psp_bound_curves",
    "psp_lag_law",
    "psp_mean",
    "psp_mean_bound",
    "psp_pass_chance",
    "psp_second_moment",
    "psp_second_moment_bound",
    "sampled_lipschitz",
    "sampled_noise",
    "sparsity",
    "unsmooth",
]
