"""
One model by several workers
============================

Two workers train one logistic regression, on private copies that they exchange and on one vector
without locks. By epochs the curves coincide: a step of an asynchronous worker is worth about as
much as any other. The gain in seconds depends on the machine.
"""

import matplotlib.pyplot as plt

from hogshare import Shared, datasets, problems, solve

X, y = datasets.zipf_classification(n_samples=10_000, n_features=5_000, dtype="float32", seed=0)
problem = problems.linear(X, y, loss="log_loss", alpha=1e-5)
run = {"runtime": "threads", "stop": 5, "trace": 8, "seed": 0}

reports = {
    "one worker": solve(problem, n_workers=1, **run),
    "two, private copies": solve(problem, n_workers=2, **run),
    "two, one vector": solve(problem, n_workers=2, plane=Shared(exchange=None), **run),
}

# %%
# The objective is evaluated after the run, on its snapshots of the model.

fig, ax = plt.subplots(figsize=(7.5, 3.5), layout="constrained")
for name, report in reports.items():
    ax.plot(report.trace.epochs[1:], report.trace.objective[1:], label=name)
ax.set(xlabel="epochs", ylabel="objective")
fig.legend(loc="outside right upper")
plt.show()

# %%
# Staleness is the number of times others published between a worker's reading and publishing.

for name, report in reports.items():
    print(f"{name:22} staleness {report.staleness_mean:.1f}, at most {report.staleness_max}")
