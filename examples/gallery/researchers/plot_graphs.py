"""
Graphs that workers average over
================================

Graphs of senders and receivers, and how quickly an average spreads: the spectral gap of the mixing
weights. A root expander sends two messages a round, the complete graph eleven.
"""

import matplotlib.pyplot as plt
import numpy as np

from hogshare import topology

n = 12
graphs = {
    "all to all": topology.all_to_all(n),
    "ring": topology.ring(n),
    "root expander": topology.root_expander(n),
    "exponential": topology.exponential(n),
}
angle = 2 * np.pi * np.arange(n) / n
x, y = np.sin(angle), np.cos(angle)

fig, axes = plt.subplots(1, 4, figsize=(11, 3), layout="constrained")
for ax, (name, graph) in zip(axes, graphs.items(), strict=True):
    for sender, receiver in zip(*np.nonzero(graph), strict=True):
        if sender != receiver:
            ends = (x[sender], y[sender]), (x[receiver], y[receiver])
            ax.annotate("", ends[1], ends[0], arrowprops={"arrowstyle": "->", "alpha": 0.4})
    ax.plot(x, y, "o")
    weights = topology.mixing_weights(graph)
    gap = topology.spectral_gap(weights)
    degree = topology.out_degrees(graph).max()
    ax.set_title(f"{name}\n{degree} messages, gap {gap:.2f}")
    ax.set_axis_off()
plt.show()
