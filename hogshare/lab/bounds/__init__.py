"""Step sizes, conditions and bounds of the papers' theorems, and their constants.

Formulas are pure functions of numbers, with the papers' equation numbers: (1) AsySG with consistent
reads (``con_``) and inconsistent reads (``incon_``), Lian et al. 2015; (2) Hogwild!, Niu et al.
2011; (3) the lag behind sampling barriers (``psp_``), Wang et al. 2017. The constants in the
formulas are computed from a problem and a model. ``docs/theory.md`` lists the assumptions and the
corrections of printed formulas.

Units: an age (T of the papers) counts the model's updates between a read and its application.
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
