"""Who runs the workers: the only place that starts, waits or sleeps."""
