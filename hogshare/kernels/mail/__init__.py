"""Messages in shared memory: slots of edges, registers, locks."""
