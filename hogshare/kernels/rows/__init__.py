"""Rows of data, and passes over all of them: facts, sums, scores, gradients."""
