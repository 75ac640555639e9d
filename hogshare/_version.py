"""The version, in a file of its own so that the build and ``--version`` read it cheaply."""

__version__ = "0.1.0"
