"""Shared memory: the arena, the sharing of rows, the progress table. Knows no loss, no solver."""
