"""PSP's clockwork: progress of workers with block times and barriers but no model; the tuner.

Without vectors, gradients and message times, a million workers are one array. The public names are
in `hogshare.simulation`.
"""
