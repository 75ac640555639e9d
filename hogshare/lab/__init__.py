"""The laboratory: experiments, the papers' claims, rivals, studies, bounds and predictions.

Nothing outside of it needs it but by doors that are opened when they are used: the command,
`Report.predict`, the sections of theory in reports, and the public names of `hogshare.theory` and
`hogshare.simulation`.
"""
