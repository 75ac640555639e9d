"""The version; in a file of its own, because the build and ``--version`` must read it fast."""

__version__ = "0.1.0"
