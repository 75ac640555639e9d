"""Steps: losses, penalties, step sizes, and the rules on one vector."""
