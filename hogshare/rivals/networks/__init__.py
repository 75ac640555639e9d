"""The race of networks."""
