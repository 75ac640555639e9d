"""Predict the time of a measured run with other numbers of workers; each worker has a core.

Users call `Report.predict`.
"""
