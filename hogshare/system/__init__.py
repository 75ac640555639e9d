"""What the process and its machine are: signals, forks, memory, imports, messages."""
