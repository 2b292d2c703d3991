"""The experiments of the paper: each makes rows, and a figure from the rows alone."""
