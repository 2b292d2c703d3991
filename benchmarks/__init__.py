"""Benchmarks: one file per question; `python -m benchmarks` answers them all."""
