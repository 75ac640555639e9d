"""
Reading a report
================

Every fit leaves ``report_``. Two of its figures show whether workers disturbed each other:
staleness, the number of times others changed the model between a worker's reading it and publishing
its own changes, and the use of each worker's time. In this fit staleness is mostly below the number
of workers, as it should be; a long tail means that a worker lost its core for a while.
"""

import matplotlib.pyplot as plt
import numpy as np

from hogshare import SGDClassifier, datasets

X, y = datasets.load("zipf-small", dtype="float32")
settings = {"loss": "log_loss", "n_jobs": 4, "runtime": "threads", "random_state": 0}
report = SGDClassifier(**settings).fit(X, y).report_
print(report)

# %%
# The first picture shows the whole histogram; `report.staleness_max` is the end of its tail.

counted = np.asarray(report.staleness)
workers = [str(worker["worker"]) for worker in report.workers]
waiting = np.array([worker["waiting_seconds"] for worker in report.workers])
working = np.array([w["blocks"] * w["mean_block_seconds"] for w in report.workers])

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
left.bar(np.arange(len(counted)), counted)
left.set(xlabel="staleness", ylabel="times", yscale="log")
right.barh(workers, 1e3 * working, label="its blocks of rows")
right.barh(workers, 1e3 * waiting, left=1e3 * working, label="waiting")
right.set(xlabel="milliseconds", ylabel="worker")
fig.legend(loc="outside upper right")
plt.show()
