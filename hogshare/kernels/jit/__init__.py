"""How kernels are compiled and kept, and what they ask of the processor and the system."""
