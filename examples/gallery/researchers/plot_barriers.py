"""
How far workers get with each barrier
=====================================

A thousand workers run on a virtual clock, for forty seconds with each of the five barriers of Wang,
Catterall and Mortier (2017), figure 1a. Steps take a second on average. The fewer clocks a barrier
reads, the farther workers get, and the more they differ.
"""

import matplotlib.pyplot as plt
import numpy as np

from hogshare import ASP, BSP, PBSP, PSSP, SSP
from hogshare.simulation import progress

barriers = {
    "BSP()": BSP(),
    "SSP(4)": SSP(4),
    "PBSP(10)": PBSP(10),
    "PSSP(10, 4)": PSSP(10, 4),
    "ASP()": ASP(),
}
fig, ax = plt.subplots(figsize=(7.5, 3.5), layout="constrained")
for name, barrier in barriers.items():
    study = progress(barrier, 1000, seconds=40.0, seed=0)
    steps, counts = np.unique(study.clock, return_counts=True)
    ax.plot(steps, counts / 1000, "o-", ms=3, label=name)
ax.set(xlabel="steps done", ylabel="share of the workers", ylim=(0, 0.5))
fig.legend(loc="outside right upper")
plt.show()
