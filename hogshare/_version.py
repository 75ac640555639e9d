"""The version, in its own file because the build and ``--version`` must read it fast."""

__version__ = "0.1.0"
