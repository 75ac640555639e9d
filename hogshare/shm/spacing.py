"""Distances in bytes between data that different workers write."""

# A cache line and its neighbour, which processors fetch in pairs: enough for single words, and for
# vectors that are passed on.
PAIR = 128

# For vectors that are read repeatedly, row by row. Processors also fetch the lines after them, up
# to 20 lines ahead on Intel's processors and within a page. So a neighbor's lines move between
# cores although only one core accesses them. For an epoch of ijcnn1 (22 features), two threads took
# 4.3 ms with 128 bytes, and 1.7 ms with 512 bytes or more; one thread takes 3.1 ms. On 123
# features, 2,048 bytes are 7 % faster than 1,024 bytes (docs/tried/2026-11/speed.md).
SPACING = 2048
