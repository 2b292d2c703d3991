"""Compiled code over flat arrays: partial matches and how events advance them."""
