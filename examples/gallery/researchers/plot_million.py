"""
Barriers from a hundred workers to a million
============================================

The picture shows how far workers get on a virtual clock in ten seconds, by their number. Steps take
a second on average. With BSP all wait for the slowest worker, which is slower among more workers; a
barrier with a sample of ten does not depend on the number.
"""

import matplotlib.pyplot as plt

from hogshare import ASP, BSP, PBSP, PSSP, SSP
from hogshare.simulation import progress

counts = [100, 1_000, 10_000, 100_000, 1_000_000]
fig, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
barriers = {
    "ASP()": ASP(),
    "PSSP(10, 4)": PSSP(10, 4),
    "PBSP(10)": PBSP(10),
    "SSP(4)": SSP(4),
    "BSP()": BSP(),
}
for name, barrier in barriers.items():
    means = [progress(barrier, n, seconds=10.0, seed=0).clock.mean() for n in counts]
    ax.semilogx(counts, means, "o-", label=name)
ax.set(xlabel="workers", ylabel="steps done, mean", ylim=(0, None))
fig.legend(loc="outside right upper")
plt.show()
