"""Figures from the rows of experiments."""
