"""The schedule of blocks: claims, orders, barriers, quanta, the ends of epochs."""
