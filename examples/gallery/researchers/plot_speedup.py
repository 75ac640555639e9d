"""
What stale gradients cost
=========================

AsySG-incon (Lian, Huang, Li and Liu 2015) with up to 32 workers on a virtual clock: the gradients
are real, the times are random. Iteration speedup is the factor by which each worker needs fewer
epochs to the same objective.
"""

import matplotlib.pyplot as plt
import numpy as np

from hogshare import Simulator, asysg_incon, problems
from hogshare.simulation import LogNormal

rng = np.random.default_rng(0)
X = rng.standard_normal((4000, 50))
y = X @ rng.standard_normal(50) + rng.standard_normal(4000)
problem = problems.linear(X, y, loss="squared_error", task="regression", alpha=1e-4)

counts = [1, 2, 4, 8, 16, 32]
clock = Simulator(block_time=LogNormal(1.0, 0.2))
runs = [
    asysg_incon(problem, runtime=clock, n_workers=n, step=5e-4, stop=20, block=10, trace=50, seed=0)
    for n in counts
]
target = 1.05 * max(run.trace.objective[-1] for run in runs)
epochs = np.array([run.epochs_to(target) for run in runs])

# %%
# The diagonal is linear speedup.

fig, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
ax.plot(counts, counts, "--", color="gray", label="linear")
ax.plot(counts, np.array(counts) * epochs[0] / epochs, "o-", label="AsySG-incon")
ax.set(xlabel="workers", ylabel="iteration speedup")
fig.legend(loc="outside right upper")
plt.show()
