"""The virtual clock's compiled functions; nothing but arrays and numbers goes in."""
