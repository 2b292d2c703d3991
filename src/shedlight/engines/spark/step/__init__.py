"""The stateful step: the operators of a chain over one micro-batch."""
