"""The control loop: from observations to decisions, as values."""
