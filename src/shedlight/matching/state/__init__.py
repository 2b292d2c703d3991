"""The state of matching as a value, and as bytes."""
