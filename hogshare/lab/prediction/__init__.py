"""Predict the time of a measured run with other numbers of workers, a core for each.

Users call `Report.predict`.
"""
