"""Patterns over a DataFrame, batch or streaming: a DataFrame in, a DataFrame out."""
