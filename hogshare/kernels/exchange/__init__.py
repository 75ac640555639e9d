"""From one copy of the model to another: exchanges, centres, reduces, the master."""
