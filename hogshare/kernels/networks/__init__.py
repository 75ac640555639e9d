"""Networks of layers: gradients, and many mini-batches in a call."""
