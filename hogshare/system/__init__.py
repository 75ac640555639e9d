"""The process and its machine: signals, forks, memory, imports, messages."""
