"""Evaluation: experiments of the paper as values; an experiment makes rows, rows a figure."""
