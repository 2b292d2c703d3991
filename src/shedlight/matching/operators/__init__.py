"""Operators: events into order, their types, and one step of matching."""
