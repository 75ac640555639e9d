"""PSP's clockwork: block times and barriers without a model, how far workers come, and the tuner.

No vector, no gradient and no message that takes time: a million workers are one array. Users find
the names in `hogshare.simulation`.
"""
