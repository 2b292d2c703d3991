"""The log of a run: its records, how it is followed, and what they add up to."""
