"""The laboratory: experiments, the papers' claims, rivals, studies, bounds and predictions.

Other packages import it only when they use it: the command, `Report.predict`, the theory sections
of reports, and the public names of `hogshare.theory` and `hogshare.simulation`.
"""
