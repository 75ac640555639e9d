"""Choices, session and loop of workers, checkpoints and stops. Nothing starts, waits or sleeps."""
