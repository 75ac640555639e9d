"""The race of topic models."""
