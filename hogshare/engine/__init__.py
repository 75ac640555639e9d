"""The worker loop, rules, step sizes and stop criteria. Nothing here starts, waits or sleeps."""
