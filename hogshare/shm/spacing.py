"""Distances in bytes between data that different workers write."""

# A cache line and its neighbour, which processors fetch in pairs: enough for single words, and for
# vectors that are passed on.
PAIR = 128

# For vectors that are read repeatedly, row by row: processors also fetch the lines after them, up
# to 20 lines ahead on Intel's and within a page, so a neighbour's lines move between cores although
# only one accesses them. With 128 bytes two threads took 4.3 ms for an epoch of ijcnn1 (22
# features), and one takes 3.1; with 512 bytes or more two took 1.7. On 123 features 2,048 bytes are
# 7 % faster than 1,024 (docs/tried/2026-11/speed.md).
SPACING = 2048
