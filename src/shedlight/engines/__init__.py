"""Engines: they run applications. Only engines have state."""
