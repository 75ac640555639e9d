"""PSP's simulated workers, which have block times and a barrier but no model; and a tuner.

Without vectors, gradients and message times, a million workers fit into a few arrays. The public
names are in `hogshare.simulation`.
"""
