"""Who does which block when: claims, orders, barriers, quanta, the ends of epochs."""
