"""The laboratory: experiments, the papers' claims, rivals, studies, bounds and predictions.

The other packages import it only on use: by the command, `Report.predict`, the theory sections of
reports, and the public names of `hogshare.theory` and `hogshare.simulation`.
"""
