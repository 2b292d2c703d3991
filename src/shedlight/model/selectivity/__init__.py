"""Selectivity functions: the output rate of a pattern by the rates of its inputs."""
