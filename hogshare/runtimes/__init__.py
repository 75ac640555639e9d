"""The runtimes, which run the workers: only this package starts workers, waits or sleeps."""
