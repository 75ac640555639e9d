"""Clocks without a model: block times, who is there, who sees whom, and how far workers come.

No vector, no gradient and no message that takes time: a million workers are one array. A
`Simulator` takes its block times, its churn and its overlay from here. Users find the names in
`hogshare.simulation`.
"""
