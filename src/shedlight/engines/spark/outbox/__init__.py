"""What nodes emit: the outbox, its delivery to sinks, its retention."""
